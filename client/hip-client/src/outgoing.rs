//! The sending side of a connection: which thread writes to the socket, and the sender thread that writes posted
//! requests.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use transport::{Link, StripedStream};
use wire::{Ack, Flags, Ping, Pong};

use crate::barrier;
use crate::connection::Shared;
use crate::incoming::Sending;
use crate::ring::{Cursor, Slices};
use crate::strands::Pace;
use crate::trace::Counters;
use crate::watch;

/// How long the sender thread spins before it parks. Waking it costs the application a system call.
const SPIN: Duration = Duration::from_micros(50);
/// Spin time after several spins found no work: a worker on the same machine may need the CPU.
const SHORT_SPIN: Duration = Duration::from_micros(3);
/// How often a writer blocked on the socket checks whether it should read as well.
const WRITER_PATIENCE: Duration = Duration::from_millis(10);

/// The state of the sending side. The thread that holds its lock is the writer.
#[derive(Debug)]
pub struct Outgoing {
    pub stream: StripedStream,
    pub cursor: Cursor,
    /// Unsequenced frames being sent; they go between sequenced ones.
    control: Vec<u8>,
    control_sent: usize,
    /// Links to start spreading over once `control` is sent; its last frame is the Spread announcement.
    spreading: Option<Vec<Link>>,
    lengths: Vec<u64>,
    /// Throughput while the socket buffer is full.
    pace: Pace,
    /// The connection failed; nothing is sent until it is replaced.
    pub broken: bool,
}

/// The connection failed.
#[derive(Debug)]
pub struct Broken;

impl Outgoing {
    pub fn new(link: Link) -> Outgoing {
        Outgoing {
            stream: StripedStream::new(link),
            cursor: Cursor { number: 1, offset: 0 },
            control: Vec::new(),
            control_sent: 0,
            spreading: None,
            lengths: Vec::new(),
            pace: Pace::default(),
            broken: false,
        }
    }

    /// Continues on a new connection whose worker has `received` frames.
    pub fn resume(&mut self, link: Link, received: u64) {
        self.stream = StripedStream::new(link);
        self.spreading = None;
        self.cursor = Cursor { number: received + 1, offset: 0 };
        self.control.clear();
        self.control_sent = 0;
        self.broken = false;
    }
}

/// The part of the sending side that other threads access without its lock.
#[derive(Debug, Default)]
pub struct Sender {
    thread: OnceLock<Thread>,
    parked: AtomicBool,
    /// The last frame that was completely written to the socket.
    sent: AtomicU64,
    /// The pending acknowledgement, or 0.
    acknowledgement: AtomicU64,
    ping: AtomicBool,
    pong: AtomicBool,
    /// Request to check whether the connection has ended.
    look: AtomicBool,
}

impl Sender {
    pub fn start(shared: &Arc<Shared>) -> io::Result<()> {
        let thread = spawn_quietly("remora-sender", {
            let shared = shared.clone();
            move || shared.run_sender()
        })?;
        let _ = shared.sender.thread.set(thread);
        Ok(())
    }

    /// Ensures that the sender thread sees what was just appended. No system call unless it is parked.
    #[inline]
    pub fn wake(&self) {
        // Pairs with `barrier::heavy` in `run_sender`: either this thread sees `parked`, or the sender sees the appended
        // frame.
        barrier::light();
        if self.parked.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        if self.parked.swap(false, Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Queues an acknowledgement for the next write. If the previous one has not been written yet, no writes are
    /// happening, and the sender thread is woken.
    pub fn acknowledge(&self, received: u64) {
        if self.acknowledgement.swap(received, Ordering::AcqRel) != 0 {
            self.wake();
        }
    }

    pub fn ping(&self) {
        self.ping.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes the sender thread replace the connection if it has ended.
    pub fn look_at_link(&self) {
        self.look.store(true, Ordering::Release);
        self.wake();
    }

    pub fn pong(&self) {
        self.pong.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether the current thread is the sender thread.
    fn is_current(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == std::thread::current().id())
    }

    /// The last frame that was completely written to the socket. Exact for the holder of the outgoing lock.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    pub fn resume(&self, received: u64) {
        self.sent.store(received, Ordering::Release);
        self.acknowledgement.store(0, Ordering::Release);
    }
}

impl Shared {
    /// Sends pending frames, at least up to frame `until`. Returns at once if another thread is sending: that thread does
    /// not stop before it has seen our frames.
    pub fn drain(&self, until: u64) -> Result<(), Broken> {
        loop {
            let Some(mut outgoing) = self.outgoing.try_lock() else { return Ok(()) };
            let result = self.drain_locked(&mut outgoing, until);
            drop(outgoing);
            result?;
            // Pairs with the failed `try_lock` of a thread that appended while this one was finishing.
            fence(Ordering::SeqCst);
            if !self.has_work() {
                return Ok(());
            }
            if self.sender.sent() >= until {
                self.sender.wake();
                return Ok(());
            }
        }
    }

    fn has_work(&self) -> bool {
        self.ring.appended() > self.sender.sent()
            || self.sender.acknowledgement.load(Ordering::Relaxed) != 0
            || self.sender.ping.load(Ordering::Relaxed)
            || self.sender.pong.load(Ordering::Relaxed)
            || self.strands.are_due()
    }

    /// Whether the sender thread has anything to do.
    fn is_wanted(&self) -> bool {
        self.has_work() || self.sender.look.load(Ordering::Relaxed)
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
                if self.strands.are_due() && !outgoing.stream.is_spread() {
                    outgoing.spreading = {
                        let generation = self.generation.load(Ordering::Acquire);
                        self.strands.take_due(generation, &mut outgoing.control)
                    };
                }
            }
            let mut slices = Slices::new();
            slices.push(&outgoing.control[outgoing.control_sent..]);
            outgoing.lengths.clear();
            if outgoing.spreading.is_none() {
                self.ring.collect(&outgoing.cursor, &mut outgoing.lengths, &mut slices);
            }
            let result = if slices.all().is_empty() {
                match outgoing.stream.try_flush() {
                    Ok(true) => return Ok(()),
                    Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
                    Err(error) => Err(error),
                }
            } else {
                outgoing.stream.try_write_vectored(slices.all())
            };
            match result {
                Ok(sent) => {
                    Counters::add(&self.counters.bytes_sent, sent as u64);
                    if let Some(since) = &mut full_since {
                        let before = std::mem::replace(since, Instant::now());
                        if outgoing.pace.is_slow(sent as u64, *since - before) {
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
                    if self.config.watched && sent > control {
                        watch::wrote(first, outgoing.cursor.number, (sent - control) as u64);
                    }
                    self.sender.sent.store(outgoing.cursor.number - 1, Ordering::Release);
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

    /// Waits until the socket is writable. Reads meanwhile if no other thread does, because the worker may be blocked
    /// until we read.
    fn wait_writable(&self, outgoing: &mut Outgoing) -> Result<(), Broken> {
        if self.sender.is_current() {
            return self.wait_until_writable(outgoing);
        }
        self.liveness.holding_up(|| self.wait_until_writable(outgoing))
    }

    fn wait_until_writable(&self, outgoing: &mut Outgoing) -> Result<(), Broken> {
        loop {
            let Some(mut incoming) = self.incoming.try_lock() else {
                match outgoing.stream.wait_writable(Some(WRITER_PATIENCE)) {
                    Ok(ready) if ready.writable => return Ok(()),
                    Ok(_) => continue,
                    Err(_) => return Err(self.break_off(outgoing)),
                }
            };
            let result = incoming.wait_either(&outgoing.stream, WRITER_PATIENCE);
            let readable = incoming.has_buffered() || result.as_ref().is_ok_and(|ready| ready.readable);
            let failed = readable && self.read_frame(&mut incoming, Sending::Here).is_err();
            drop(incoming);
            self.pass_role();
            match result {
                _ if failed => return Err(self.break_off(outgoing)),
                Ok(ready) if ready.writable => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(self.break_off(outgoing)),
            }
            if self.over.load(Ordering::Relaxed) {
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

    fn take_control(&self, control: &mut Vec<u8>) {
        let received = self.sender.acknowledgement.swap(0, Ordering::AcqRel);
        if received != 0 {
            wire::encode_request(&Ack { received }, &[], Flags::UNSEQUENCED, 0, 0, control);
        }
        if self.sender.ping.swap(false, Ordering::AcqRel) {
            wire::encode_request(&Ping {}, &[], Flags::UNSEQUENCED, 0, 0, control);
        }
        if self.sender.pong.swap(false, Ordering::AcqRel) {
            wire::encode_request(&Pong {}, &[], Flags::UNSEQUENCED, 0, 0, control);
        }
    }

    fn run_sender(self: &Arc<Shared>) {
        let mut patience = Patience::default();
        while !self.over.load(Ordering::Acquire) {
            let generation = self.generation.load(Ordering::Acquire);
            let look = self.sender.look.swap(false, Ordering::AcqRel);
            if (look && self.link.lock().has_ended()) || self.drain(u64::MAX).is_err() {
                self.mend(generation);
                continue;
            }
            let start = Instant::now();
            loop {
                for _ in 0..32 {
                    std::hint::spin_loop();
                }
                if self.is_wanted() || start.elapsed() > patience.spin {
                    break;
                }
            }
            if self.is_wanted() {
                patience.found_after(start.elapsed());
                continue;
            }
            self.sender.parked.store(true, Ordering::Relaxed);
            barrier::heavy();
            if self.is_wanted() || self.over.load(Ordering::Relaxed) {
                self.sender.parked.store(false, Ordering::Relaxed);
                continue;
            }
            std::thread::park();
            self.sender.parked.store(false, Ordering::Relaxed);
            patience.found_after(start.elapsed());
        }
    }
}

/// Adaptive spin time of the sender thread. A program that posts calls back to back never has to wake it; a program that
/// waits after every few calls does not pay for fruitless spinning.
#[derive(Debug)]
struct Patience {
    spin: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { spin: SPIN }
    }
}

impl Patience {
    /// Adjusts to the time until there was more to send. The limit is 2 × SPIN because that time includes the wake-up.
    fn found_after(&mut self, idle: Duration) {
        self.spin = if idle < 2 * SPIN { SPIN } else { (self.spin / 2).max(SHORT_SPIN) };
    }
}

/// Starts a thread with all signals blocked: the program's signal handlers expect to run on its own threads.
pub fn spawn_quietly(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    // SAFETY: both sets are local; the signal mask of this thread is restored.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        Ok(thread?.thread().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_looks_in_vain_looks_shorter_until_work_comes_soon_again() {
        let mut patience = Patience::default();
        for _ in 0..10 {
            patience.found_after(Duration::from_millis(2));
        }
        assert_eq!(patience.spin, SHORT_SPIN);
        patience.found_after(Duration::from_micros(20));
        assert_eq!(patience.spin, SPIN);
    }
}
