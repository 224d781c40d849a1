//! The reader role: one of the waiting threads reads for all of them.
//!
//! The lock of [`Incoming`] is the reader role. A thread that waits for a reply takes the role if it is free and hands
//! other threads their replies; once it has its own reply it passes the role on. A single thread therefore reads its
//! reply without a context switch, and several threads never read concurrently.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wire::{
    Ack, Callback, Deliver, EventReached, Failure, Field, Header, LateError, MirrorChanged, Opcode, Output,
    StreamReached, Translating, WireError, decode_request, widen,
};

use super::incoming::{Arrived, Incoming, OutgoingLock, ReadError};
use super::pending::{Destination, Outcome};
use super::progress::WatchTarget;
use crate::counters::Counters;
use crate::shared::Shared;
use crate::status;

/// Bodies of at least this size are used to measure the link's throughput.
const LARGE_BODY: usize = 1 << 20;
/// How often a thread without the role checks again, in case a wake-up went to another thread.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long the reader waits for the sending thread to publish that it sent a frame, on an overloaded machine.
const NOTING_PATIENCE: Duration = Duration::from_secs(5);

impl Shared {
    /// Waits for the reply to a request. Reads for all threads while it holds the reader role.
    pub fn wait_for(&self, number: u64, deadline: Option<Instant>) -> Result<(Header, Vec<u8>), Failure> {
        loop {
            let settled = self.receiving.pending.lock().take(number);
            if let Some(outcome) = settled {
                self.pass_role();
                return match outcome {
                    Outcome::Reply(header, payload) => Ok((header, payload)),
                    Outcome::Failed(failure) => Err(failure),
                };
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Failure {
                    status: status::LOST,
                    text: "no reply arrived before the deadline".to_owned(),
                });
            }
            match self.receiving.incoming.try_lock() {
                // The previous reader may have delivered the reply just before it released the role.
                Some(_) if self.receiving.pending.lock().is_settled(number) => {}
                Some(mut incoming) => loop {
                    if let Some(deadline) = deadline
                        && !incoming.has_buffered()
                    {
                        let left = deadline.saturating_duration_since(Instant::now());
                        let ready = incoming.stream.wait_readable(Some(left));
                        if left.is_zero() || ready.is_ok_and(|ready| !ready.readable) {
                            break;
                        }
                    }
                    let generation = self.links.generation.load(Ordering::Relaxed);
                    if self.read(&mut incoming) == Some(number)
                        || self.ending.over.load(Ordering::Relaxed)
                        // A replay on a new connection may have received the reply.
                        || self.links.generation.load(Ordering::Relaxed) != generation
                    {
                        break;
                    }
                },
                None => self.sleep(number, deadline),
            }
        }
    }

    /// Parks until the reply has arrived or this thread should read.
    fn sleep(&self, number: u64, deadline: Option<Instant>) {
        let mut pending = self.receiving.pending.lock();
        // A reader that released the role before `note_sleep` could not wake this thread.
        if pending.is_settled(number) || !self.receiving.incoming.is_locked() {
            return;
        }
        pending.note_sleep(number, true);
        drop(pending);
        match deadline {
            Some(_) => std::thread::park_timeout(PATIENCE),
            None => std::thread::park(),
        }
        self.receiving.pending.lock().note_sleep(number, false);
    }

    /// Wakes a waiting thread to take over the reader role. Must be called after releasing the role, and by a waiter that
    /// leaves.
    pub fn pass_role(&self) {
        let mut pending = self.receiving.pending.lock();
        if !self.receiving.incoming.is_locked() {
            pending.wake_one();
        }
        drop(pending);
        if self.receiving.seekers.load(Ordering::SeqCst) > 0 {
            self.receiving.changed.notify_all();
        }
    }

    /// Reads frames that have already arrived, unless another thread is reading.
    pub fn read_available(&self) {
        let Some(mut incoming) = self.receiving.incoming.try_lock() else { return };
        while !self.ending.over.load(Ordering::Relaxed)
            && (incoming.has_buffered() || incoming.stream.has_news())
        {
            self.read(&mut incoming);
        }
        drop(incoming);
        self.pass_role();
    }

    /// Reads the frames that have arrived completely, without waiting for more. The caller holds the reader role.
    pub fn take_arrived(&self, incoming: &mut Incoming) -> Arrived {
        loop {
            if self.ending.over.load(Ordering::Relaxed) {
                return Arrived::Ended;
            }
            if incoming.holds_frame() {
                // The frame is complete, so this fails only if the worker violates the protocol.
                self.read(incoming);
                continue;
            }
            match incoming.try_receive() {
                Ok(true) => {}
                Ok(false) => return Arrived::Part,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Arrived::All,
                Err(_) => return Arrived::Ended,
            }
        }
    }

    /// Waits until the worker has acknowledged a frame, reading if no other thread does.
    pub fn make_room(&self) -> Result<(), Failure> {
        let before = self.ring.freed();
        self.sending.sender.wake();
        self.liveness.holding_up(|| self.read_until(|| self.ring.freed() != before));
        if self.ending.over.load(Ordering::Acquire) { Err(self.failure()) } else { Ok(()) }
    }

    /// Reads whenever no other thread does, until `done` returns true or the session is over.
    pub fn read_until(&self, done: impl Fn() -> bool) {
        self.receiving.seekers.fetch_add(1, Ordering::SeqCst);
        while !done() && !self.ending.over.load(Ordering::Acquire) {
            if let Some(mut incoming) = self.receiving.incoming.try_lock() {
                // The previous reader may have satisfied `done` just before it released the role.
                if !done() && !self.ending.over.load(Ordering::Acquire) {
                    self.read(&mut incoming);
                }
                drop(incoming);
                self.pass_role();
                continue;
            }
            let mut pending = self.receiving.pending.lock();
            if !done() && self.receiving.incoming.is_locked() {
                self.receiving.changed.wait_for(&mut pending, PATIENCE);
            }
        }
        self.receiving.seekers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Reads one frame, and replaces the connection if that fails. Returns the number of the request that was answered.
    fn read(&self, incoming: &mut Incoming) -> Option<u64> {
        match self.read_frame(incoming, OutgoingLock::NotHeld) {
            Ok(answered) => answered,
            Err(error) => {
                self.recover(incoming, error);
                None
            }
        }
    }

    /// Reads one frame and dispatches it.
    pub fn read_frame(
        &self,
        incoming: &mut Incoming,
        outgoing: OutgoingLock,
    ) -> Result<Option<u64>, ReadError> {
        let header = incoming.header()?;
        let begin = self.config.traffic.map(|traffic| (traffic, traffic.now()));
        let mut answered = None;
        match header.known() {
            Ok(opcode) if header.is_reply() => {
                answered = Some(self.take_reply(incoming, &header, opcode, outgoing)?)
            }
            Ok(Opcode::Deliver) => self.take_delivery(incoming, &header)?,
            Ok(opcode) => self.take_push(incoming, &header, opcode, outgoing)?,
            // An unknown opcode, from a newer worker that ignores the negotiated version. Skipping it is safe.
            Err(_) => incoming.skip(header.payload_len)?,
        }
        if header.is_sequenced() {
            incoming.counter.count(header.payload_len);
            if incoming.counter.ack_due()
                && let Some(ack) = incoming.counter.take_ack()
            {
                self.sending.sender.acknowledge(ack.received);
            }
        }
        Counters::add(&self.counters.bytes_received, std::mem::take(&mut incoming.bytes));
        if let Some((traffic, begin)) = begin {
            traffic.arrived(&header, begin);
        }
        Ok(answered)
    }

    fn take_reply(
        &self,
        incoming: &mut Incoming,
        header: &Header,
        opcode: Opcode,
        outgoing: OutgoingLock,
    ) -> Result<u64, ReadError> {
        let number = widen(header.request_id, self.ring.appended());
        // A reply acknowledges its request and all earlier ones.
        self.acknowledged(number, outgoing)?;
        if self.is_repeated_reply(incoming, header, opcode, number)? {
            return Ok(number);
        }
        let destination = self.receiving.pending.lock().destination(number);
        let payload = match destination {
            Some(destination) if !header.is_error() => {
                let head = (size_of::<i32>() + opcode.reply_head_bytes().unwrap_or(0)) as u64;
                let expected = head + destination.bytes as u64;
                if header.payload_len != expected {
                    let (what, value) = ("the length of a reply with a body", header.payload_len);
                    return Err(WireError::Value { what, value }.into());
                }
                let payload = incoming.payload(head)?;
                self.body(incoming, destination)?;
                payload
            }
            _ => incoming.payload(header.payload_len)?,
        };
        if let Some(failover) = &self.sending.failover
            && self.note_reply(failover, incoming.frame(), (number, opcode), header, &payload, destination)
        {
            return Ok(number);
        }
        self.receiving.pending.lock().settle(number, Outcome::Reply(*header, payload));
        Ok(number)
    }

    fn take_delivery(&self, incoming: &mut Incoming, header: &Header) -> Result<(), ReadError> {
        const HEAD: usize = 16;
        let mut head = [0; HEAD];
        let Some(bytes) = header.payload_len.checked_sub(HEAD as u64) else {
            let (needed, found) = (HEAD as u64, header.payload_len);
            return Err(WireError::Truncated { what: "Deliver", needed, found }.into());
        };
        incoming.read_into(&mut head)?;
        let Deliver { token, offset } = Deliver::take(&mut wire::Reader::new(&head))?;
        match self.arrivals.deliveries.find(token, offset, bytes as usize) {
            Some(destination) => {
                self.body(incoming, destination)?;
                let complete = self.arrivals.deliveries.delivered(token, bytes as usize);
                if let Some(failover) = &self.sending.failover {
                    self.note_delivery(failover, incoming.frame(), token, destination, complete);
                }
                if complete {
                    self.arrivals.deliveries.complete(token);
                }
            }
            None => self.pass_delivery(incoming, token, bytes)?,
        }
        Ok(())
    }

    /// Reads a body into its destination, and updates the mirror if it is one.
    fn body(&self, incoming: &mut Incoming, destination: Destination) -> io::Result<()> {
        let start = destination.start.as_ptr();
        let arrival = if destination.home {
            self.arrivals.mirrors.expect(start as u64, destination.bytes)
        } else {
            None
        };
        let begin = (destination.bytes >= LARGE_BODY).then(Instant::now);
        incoming.body(destination)?;
        if let Some(begin) = begin
            && incoming.throughput.is_slow(destination.bytes as u64, begin.elapsed())
        {
            self.is_too_slow();
        }
        if let Some(arrival) = arrival {
            // SAFETY: just written, and lent until now.
            arrival.arrived(unsafe { std::slice::from_raw_parts(start, destination.bytes) });
        }
        Ok(())
    }

    fn take_push(
        &self,
        incoming: &mut Incoming,
        header: &Header,
        opcode: Opcode,
        outgoing: OutgoingLock,
    ) -> Result<(), ReadError> {
        let mut payload = incoming.payload(header.payload_len)?;
        if let Some(failover) = &self.sending.failover
            && !self.note_push(failover, incoming.frame(), opcode, &mut payload)?
        {
            return Ok(());
        }
        match opcode {
            Opcode::Ack => {
                let (Ack { received }, _) = decode_request(&payload)?;
                self.acknowledged(received, outgoing)?;
            }
            Opcode::Ping => self.sending.sender.pong(),
            Opcode::Spread => {
                let (wire::Spread { links }, _) = decode_request(&payload)?;
                let extra = self.links.extra.in_use(links)?;
                incoming.stream.spread(extra, (incoming.end - incoming.start) as u64);
            }
            opcode => self.apply_push(opcode, &payload)?,
        }
        Ok(())
    }

    /// Applies what the worker pushed.
    pub fn apply_push(&self, opcode: Opcode, payload: &[u8]) -> Result<(), ReadError> {
        match opcode {
            Opcode::Output => {
                let (Output { fd }, text) = decode_request(payload)?;
                self.config.host.output(fd, text);
            }
            Opcode::Callback => {
                let (Callback { token, status }, _) = decode_request(payload)?;
                self.arrivals.callbacks.arrived(token, status);
            }
            Opcode::EventReached => {
                let (EventReached { event, stamp, status }, _) = decode_request(payload)?;
                self.arrivals.progress.reached(WatchTarget::Event(event), stamp, status);
            }
            Opcode::StreamReached => {
                let (StreamReached { stream, stamp, status }, _) = decode_request(payload)?;
                self.arrivals.progress.reached(WatchTarget::Stream(stream), stamp, status);
            }
            Opcode::LateError => {
                let (error, _) = decode_request::<LateError>(payload)?;
                self.arrivals.late.add(self.config.host, error);
            }
            Opcode::Translating => {
                let (Translating { kernel }, _) = decode_request(payload)?;
                self.config.host.translating(Some(kernel.as_str()).filter(|kernel| !kernel.is_empty()));
            }
            Opcode::Spans => {
                let (spans, _) = decode_request(payload)?;
                if let Some(traffic) = self.config.traffic {
                    traffic.spans(spans);
                }
            }
            Opcode::MirrorChanged => {
                let (MirrorChanged { taken }, changes) = decode_request(payload)?;
                self.arrivals.mirrors.apply(taken, changes)?;
            }
            // A Pong, or an opcode that is invalid as a push; ignoring it is safe.
            _ => {}
        }
        Ok(())
    }

    /// Frees the frames up to `received`. The journal keeps them if the session can fail over.
    pub fn free(&self, received: u64, sent: u64) -> Result<(), WireError> {
        if let Some(failover) = &self.sending.failover
            && received <= sent
            && let Some(reason) = failover.keep(&self.ring, received)
        {
            self.config.host.line(format_args!("failover is off: {reason}"));
        }
        self.ring.acknowledge(received, sent)
    }

    /// Waits for the sending thread: the worker may reply before that has updated `sent`.
    #[cold]
    fn wait_until_sent(&self, received: u64) {
        let start = Instant::now();
        while self.sending.sender.sent() < received
            && received <= self.ring.appended()
            && start.elapsed() < NOTING_PATIENCE
        {
            std::thread::yield_now();
        }
    }

    fn acknowledged(&self, received: u64, outgoing: OutgoingLock) -> Result<(), ReadError> {
        if self.sending.sender.sent() < received && outgoing == OutgoingLock::NotHeld {
            self.wait_until_sent(received);
        }
        self.free(received, self.sending.sender.sent())?;
        if let Some(traffic) = self.config.traffic {
            traffic.acknowledged(received);
        }
        if self.receiving.seekers.load(Ordering::SeqCst) > 0 {
            drop(self.receiving.pending.lock());
            self.receiving.changed.notify_all();
        }
        Ok(())
    }
}
