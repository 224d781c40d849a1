//! Which thread writes to the socket, and the sender thread that writes posted requests.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use transport::{StripedStream, spawn_quietly};
use wire::{Ack, Flags, Ping, Pong};

use crate::counters::Counters;
use crate::os::barrier;
use crate::receive::incoming::OutgoingLock;
use crate::send::outgoing::{Broken, Outgoing, Sender};
use crate::send::ring::Slices;
use crate::shared::Shared;

/// How long the sender thread spins before it parks. Waking it costs the application a system call.
const SPIN: Duration = Duration::from_micros(50);
/// Spin time after several spins found no work: a worker on the same machine may need the CPU.
const SHORT_SPIN: Duration = Duration::from_micros(3);
/// How often a writer blocked on the socket checks whether it should read as well.
const WRITER_PATIENCE: Duration = Duration::from_millis(10);
/// How long a writer waits for the threads that write for it before it reads as well.
const LARGE_WRITE_PATIENCE: Duration = Duration::from_millis(2);

impl Shared {
    /// Starts the sender thread.
    pub fn start_sender(self: &Arc<Shared>) -> io::Result<()> {
        let thread = spawn_quietly("remora-sender", {
            let shared = Arc::clone(self);
            move || shared.run_sender()
        })?;
        let _ = self.sending.sender.thread.set(thread);
        Ok(())
    }

    /// Sends pending frames, at least up to frame `until`. Returns at once if another thread is sending: that thread does
    /// not stop before it has seen our frames.
    pub fn drain(&self, until: u64) -> Result<(), Broken> {
        loop {
            let Some(mut outgoing) = self.sending.outgoing.try_lock() else { return Ok(()) };
            let result = self.drain_locked(&mut outgoing, until);
            drop(outgoing);
            result?;
            // Pairs with the failed `try_lock` of a thread that appended while this one was finishing.
            fence(Ordering::SeqCst);
            if !self.has_work() {
                return Ok(());
            }
            if self.sending.sender.sent() >= until {
                self.sending.sender.wake();
                return Ok(());
            }
        }
    }

    /// Whether the current thread is the sender thread. Always false while a Windows process exits: Windows has ended the sender
    /// thread by then, and `std::thread::current` is no longer reliable.
    fn is_sender(&self) -> bool {
        !(cfg!(windows) && self.ending.closing.load(Ordering::Relaxed)) && self.sending.sender.is_current()
    }

    fn has_work(&self) -> bool {
        self.ring.appended() > self.sending.sender.sent()
            || self.sending.sender.acknowledgement.load(Ordering::Relaxed) != 0
            || self.sending.sender.ping.load(Ordering::Relaxed)
            || self.sending.sender.pong.load(Ordering::Relaxed)
            || self.links.extra.are_due()
    }

    /// Whether the sender thread has anything to do.
    fn is_wanted(&self) -> bool {
        self.has_work() || self.sending.sender.look.load(Ordering::Relaxed)
    }

    fn drain_locked(&self, outgoing: &mut Outgoing, until: u64) -> Result<(), Broken> {
        // Bytes that only reach the socket buffer do not measure the link.
        let mut full_since = None::<Instant>;
        loop {
            if outgoing.broken {
                return Err(Broken);
            }
            if outgoing.cursor.offset == 0 && outgoing.control.is_empty() {
                self.take_control(&mut outgoing.control);
                if self.links.extra.are_due() && !outgoing.stream.is_spread() {
                    outgoing.spreading = {
                        let generation = self.links.generation.load(Ordering::Acquire);
                        self.links.extra.take_due(generation, &mut outgoing.control)
                    };
                }
            }
            let mut slices = Slices::new();
            slices.push(&outgoing.control[outgoing.control_sent..]);
            outgoing.lengths.clear();
            if outgoing.spreading.is_none() {
                self.ring.collect(&outgoing.cursor, &mut outgoing.lengths, &mut slices);
            }
            let bytes: usize = slices.all().iter().map(|slice| slice.len()).sum();
            let result = if slices.all().is_empty() {
                match outgoing.stream.try_flush() {
                    Ok(true) => return Ok(()),
                    Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
                    Err(error) => Err(error),
                }
            } else if outgoing.lengths.len() == 1 && outgoing.stream.is_large(bytes) {
                // A single frame, which the worker cannot acknowledge before all of it is written.
                let number = outgoing.cursor.number;
                self.write_large(&mut outgoing.stream, slices.all(), number).map(|()| bytes)
            } else {
                outgoing.stream.try_write_vectored(slices.all())
            };
            match result {
                Ok(sent) => {
                    Counters::add(&self.counters.bytes_sent, sent as u64);
                    if let Some(since) = &mut full_since {
                        let before = std::mem::replace(since, Instant::now());
                        if outgoing.throughput.is_slow(sent as u64, *since - before) {
                            self.is_too_slow();
                        }
                    }
                    let control = sent.min(outgoing.control.len() - outgoing.control_sent);
                    outgoing.control_sent += control;
                    if outgoing.control_sent == outgoing.control.len() {
                        outgoing.control.clear();
                        outgoing.control_sent = 0;
                        if let Some(strands) = outgoing.spreading.take() {
                            outgoing.stream.spread(strands, 0);
                        }
                    }
                    let first = outgoing.cursor.number;
                    outgoing.cursor.advance(&outgoing.lengths, (sent - control) as u64);
                    if let Some(traffic) = self.config.traffic
                        && sent > control
                    {
                        traffic.wrote(first, outgoing.cursor.number, (sent - control) as u64);
                    }
                    self.sending.sender.sent.store(outgoing.cursor.number - 1, Ordering::Release);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    full_since.get_or_insert_with(Instant::now);
                    self.wait_writable(outgoing)?;
                }
                Err(_) => return Err(self.break_off(outgoing)),
            }
            if outgoing.cursor.number > until && outgoing.control.is_empty() {
                match outgoing.stream.try_flush() {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    Err(_) => return Err(self.break_off(outgoing)),
                }
            }
        }
    }

    /// Writes the rest of frame `number` over several links at the same time. Reads meanwhile if no other thread does and this
    /// takes long, because the worker may be blocked until we read.
    fn write_large(&self, stream: &mut StripedStream, slices: &[IoSlice<'_>], number: u64) -> io::Result<()> {
        if !stream.try_flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Noted by the thread that wrote the last byte: this one may just be reading the acknowledgement.
        let written = || self.sending.sender.sent.store(number, Ordering::Release);
        let mut write = || {
            stream.write_large(slices, &written, |write| {
                while !write.wait(LARGE_WRITE_PATIENCE) {
                    let Some(mut incoming) = self.receiving.incoming.try_lock() else { continue };
                    let mut failed = false;
                    while !failed && (incoming.has_buffered() || incoming.stream.has_news()) {
                        failed = self.read_frame(&mut incoming, OutgoingLock::NotHeld).is_err();
                    }
                    drop(incoming);
                    self.pass_role();
                    if failed || self.ending.over.load(Ordering::Relaxed) {
                        write.abort();
                    }
                }
            })
        };
        if self.is_sender() { write() } else { self.liveness.holding_up(write) }
    }

    /// Waits until the socket is writable. Reads meanwhile if no other thread does, because the worker may be blocked
    /// until we read.
    fn wait_writable(&self, outgoing: &mut Outgoing) -> Result<(), Broken> {
        if self.is_sender() {
            return self.wait_until_writable(outgoing);
        }
        self.liveness.holding_up(|| self.wait_until_writable(outgoing))
    }

    fn wait_until_writable(&self, outgoing: &mut Outgoing) -> Result<(), Broken> {
        loop {
            let Some(mut incoming) = self.receiving.incoming.try_lock() else {
                match outgoing.stream.wait_writable(Some(WRITER_PATIENCE)) {
                    Ok(ready) if ready.writable => return Ok(()),
                    Ok(_) => continue,
                    Err(_) => return Err(self.break_off(outgoing)),
                }
            };
            let result = incoming.wait_either(&outgoing.stream, WRITER_PATIENCE);
            let readable = incoming.has_buffered() || result.as_ref().is_ok_and(|ready| ready.readable);
            let failed = readable && self.read_frame(&mut incoming, OutgoingLock::Held).is_err();
            drop(incoming);
            self.pass_role();
            match result {
                _ if failed => return Err(self.break_off(outgoing)),
                Ok(ready) if ready.writable => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(self.break_off(outgoing)),
            }
            if self.ending.over.load(Ordering::Relaxed) {
                return Err(self.break_off(outgoing));
            }
        }
    }

    /// Marks the connection as broken. Shutting it down makes the reading thread notice and replace it.
    fn break_off(&self, outgoing: &mut Outgoing) -> Broken {
        outgoing.broken = true;
        outgoing.stream.shutdown();
        Broken
    }

    pub fn take_control(&self, control: &mut Vec<u8>) {
        let Sender { acknowledgement, ping, pong, .. } = &self.sending.sender;
        // Nearly always nothing is due, and a load is much cheaper than a swap.
        if acknowledgement.load(Ordering::Relaxed) != 0 {
            let received = acknowledgement.swap(0, Ordering::AcqRel);
            wire::encode_request(&Ack { received }, &[], Flags::UNSEQUENCED, 0, 0, control);
        }
        if ping.load(Ordering::Relaxed) && ping.swap(false, Ordering::AcqRel) {
            wire::encode_request(&Ping {}, &[], Flags::UNSEQUENCED, 0, 0, control);
        }
        if pong.load(Ordering::Relaxed) && pong.swap(false, Ordering::AcqRel) {
            wire::encode_request(&Pong {}, &[], Flags::UNSEQUENCED, 0, 0, control);
        }
    }

    fn run_sender(self: &Arc<Shared>) {
        let mut policy = SpinPolicy::default();
        while !self.ending.over.load(Ordering::Acquire) {
            let generation = self.links.generation.load(Ordering::Acquire);
            let look = self.sending.sender.look.swap(false, Ordering::AcqRel);
            if (look && self.links.first.lock().has_ended()) || self.drain(u64::MAX).is_err() {
                self.wait_for_reconnect(generation);
                continue;
            }
            // The thread that replaces the connection holds the lock, possibly for long.
            if self.has_work() && self.liveness.is_reattaching() {
                self.wait_for_reconnect(generation);
                continue;
            }
            let start = Instant::now();
            loop {
                for _ in 0..32 {
                    std::hint::spin_loop();
                }
                if self.is_wanted() || start.elapsed() > policy.spin {
                    break;
                }
            }
            if self.is_wanted() {
                policy.found_after(start.elapsed());
                continue;
            }
            self.sending.sender.parked.store(true, Ordering::Relaxed);
            barrier::heavy();
            if self.is_wanted() || self.ending.over.load(Ordering::Relaxed) {
                self.sending.sender.parked.store(false, Ordering::Relaxed);
                continue;
            }
            std::thread::park();
            self.sending.sender.parked.store(false, Ordering::Relaxed);
            policy.found_after(start.elapsed());
        }
    }
}

/// Adaptive spin time of the sender thread. A program that posts calls back to back never has to wake it; a program that
/// waits after every few calls does not pay for fruitless spinning.
#[derive(Debug)]
struct SpinPolicy {
    spin: Duration,
}

impl Default for SpinPolicy {
    fn default() -> SpinPolicy {
        SpinPolicy { spin: SPIN }
    }
}

impl SpinPolicy {
    /// Adjusts to the time until there was more to send. The limit is 2 × SPIN because that time includes the wake-up.
    fn found_after(&mut self, idle: Duration) {
        self.spin = if idle < 2 * SPIN { SPIN } else { (self.spin / 2).max(SHORT_SPIN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_looks_in_vain_looks_shorter_until_work_comes_soon_again() {
        let mut policy = SpinPolicy::default();
        for _ in 0..10 {
            policy.found_after(Duration::from_millis(2));
        }
        assert_eq!(policy.spin, SHORT_SPIN);
        policy.found_after(Duration::from_micros(20));
        assert_eq!(policy.spin, SPIN);
    }
}
