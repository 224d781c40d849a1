//! The receiving side of a connection: one of the waiting threads reads for all of them.
//!
//! The lock of [`Incoming`] is the reader role. A thread that waits for a reply takes the role if it is free and hands
//! other threads their replies; once it has its own reply it passes the role on. A single thread therefore reads its
//! reply without a context switch, and several threads never read concurrently.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use transport::{BLOCK_BYTES, Link, Ready, StripedStream};
use wire::{
    Ack, Callback, Deliver, EventReached, Failure, Field, Header, LateError, MAX_HEAD_BYTES, MirrorChanged,
    Opcode, Output, ReceiveCounter, StreamReached, WireError, decode_request, widen,
};

use crate::connection::Shared;
use crate::liveness::Heard;
use crate::progress::Watched;
use crate::strands::Pace;
use crate::trace::Counters;
use crate::watch;

const BUFFER: usize = 64 << 10;
const _: () = assert!(BUFFER as u64 <= BLOCK_BYTES);
/// Payload memory grows in steps of this size as bytes arrive. The length in the header is not trusted.
const STEP: usize = 1 << 20;
/// Bodies of at least this size are used to measure the link's throughput.
const LARGE_BODY: usize = 1 << 20;
/// How often a thread without the role checks again, in case a wake-up went to another thread.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// How long the reader waits for the sending thread to publish that it sent a frame, on an overloaded machine.
const NOTING_PATIENCE: Duration = Duration::from_secs(5);

/// The destination of a body: memory of a thread that waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    start: NonNull<u8>,
    bytes: usize,
    /// The destination is the host address of the mirror that is read.
    home: bool,
}

// SAFETY: the thread that made it keeps the memory valid until the bytes have arrived or the session is over; only the
// holder of the reader role writes to it.
unsafe impl Send for Destination {}

impl Destination {
    pub fn new(start: NonNull<u8>, bytes: usize) -> Destination {
        Destination { start, bytes, home: false }
    }

    pub fn at_home(self, home: bool) -> Destination {
        Destination { home, ..self }
    }
}

/// The result of a request.
#[derive(Debug)]
enum Outcome {
    Reply(Header, Vec<u8>),
    Failed(Failure),
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    destination: Option<Destination>,
    outcome: Option<Outcome>,
    /// The thread is parked and will read if it is woken. A thread that has sent its request but is not waiting yet must
    /// not be chosen as the reader.
    sleeps: bool,
}

/// Pending replies by request number, with the threads that wait for them.
#[derive(Debug, Default)]
pub struct Desk {
    waiters: BTreeMap<u64, Waiter>,
    over: Option<Failure>,
}

impl Desk {
    pub fn expect(&mut self, number: u64, thread: Thread, destination: Option<Destination>) {
        let outcome = self.over.clone().map(Outcome::Failed);
        self.waiters.insert(number, Waiter { thread, destination, outcome, sleeps: false });
    }

    pub fn fail_all(&mut self, failure: &Failure) {
        self.over = Some(failure.clone());
        for waiter in self.waiters.values_mut() {
            waiter.outcome.get_or_insert_with(|| Outcome::Failed(failure.clone()));
            waiter.thread.unpark();
        }
    }

    fn take(&mut self, number: u64) -> Option<Outcome> {
        self.waiters.get(&number)?.outcome.as_ref()?;
        self.waiters.remove(&number)?.outcome
    }

    /// Whether the reply has arrived or is no longer expected.
    fn is_settled(&self, number: u64) -> bool {
        self.waiters.get(&number).is_none_or(|waiter| waiter.outcome.is_some())
    }

    /// Records that the thread waiting for this reply is about to park, or has woken.
    fn note_sleep(&mut self, number: u64, sleeps: bool) {
        if let Some(waiter) = self.waiters.get_mut(&number) {
            waiter.sleeps = sleeps;
        }
    }

    /// Wakes one parked thread that has no reply yet; it becomes the reader.
    fn wake_one(&mut self) {
        let found = self.waiters.values_mut().find(|waiter| waiter.sleeps && waiter.outcome.is_none());
        if let Some(waiter) = found {
            waiter.sleeps = false;
            waiter.thread.unpark();
        }
    }

    /// Whether any thread is waiting for a reply.
    pub fn is_awaited(&self) -> bool {
        self.waiters.values().any(|waiter| waiter.outcome.is_none())
    }

    fn destination(&self, number: u64) -> Option<Destination> {
        self.waiters.get(&number)?.destination
    }

    fn settle(&mut self, number: u64, outcome: Outcome) {
        if let Some(waiter) = self.waiters.get_mut(&number) {
            waiter.outcome = Some(outcome);
            waiter.thread.unpark();
        }
    }
}

/// Destinations of bytes requested in advance, by token.
#[derive(Debug, Default)]
pub struct Deliveries {
    expected: Mutex<HashMap<u64, Expected>>,
}

struct Expected {
    destination: Destination,
    left: usize,
    /// The program addresses that the bytes end up at.
    covers: std::ops::Range<u64>,
    /// Runs when all bytes have arrived.
    then: Option<Box<dyn FnOnce() + Send>>,
}

impl std::fmt::Debug for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expected").field("left", &self.left).field("covers", &self.covers).finish()
    }
}

impl Deliveries {
    pub fn expect(&self, token: u64, destination: Destination) {
        let start = destination.start.as_ptr() as u64;
        let covers = start..start + destination.bytes as u64;
        self.expect_then(token, destination, covers, None);
    }

    /// Like [`expect`](Self::expect), with a function that runs when the last byte has arrived.
    pub fn expect_then(
        &self,
        token: u64,
        destination: Destination,
        covers: std::ops::Range<u64>,
        then: Option<Box<dyn FnOnce() + Send>>,
    ) {
        if destination.bytes > 0 {
            let expected = Expected { destination, left: destination.bytes, covers, then };
            self.expected.lock().insert(token, expected);
        }
    }

    /// Whether bytes are still to arrive for any of these addresses.
    pub fn is_expected_at(&self, addresses: &std::ops::Range<u64>) -> bool {
        let expected = self.expected.lock();
        expected.values().any(|it| it.covers.start < addresses.end && addresses.start < it.covers.end)
    }

    pub fn forget(&self, token: u64) {
        self.expected.lock().remove(&token);
    }

    fn find(&self, token: u64, offset: u64, bytes: usize) -> Option<Destination> {
        let expected = self.expected.lock();
        let destination = expected.get(&token)?.destination;
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(bytes)? > destination.bytes {
            return None;
        }
        // SAFETY: within the destination, as just checked.
        Some(Destination { start: unsafe { destination.start.add(offset) }, bytes, home: destination.home })
    }

    fn delivered(&self, token: u64, bytes: usize) {
        let mut expected = self.expected.lock();
        let Some(it) = expected.get_mut(&token) else { return };
        it.left = it.left.saturating_sub(bytes);
        if it.left > 0 {
            return;
        }
        let then = expected.remove(&token).and_then(|it| it.then);
        drop(expected);
        if let Some(then) = then {
            then();
        }
    }
}

/// Whether the reading thread also holds the outgoing lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sending {
    Here,
    Elsewhere,
}

/// Result of reading without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    /// Everything that has arrived was read.
    All,
    /// Part of a frame that exceeds the buffer was left for a thread that waits.
    Part,
    /// The connection or the session is over.
    Ended,
}

/// Why reading stopped.
#[derive(Debug)]
pub enum ReadError {
    /// The connection is broken; it can be replaced.
    Broken(io::Error),
    /// The worker violates the protocol; a new connection would not help.
    Wire(WireError),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Broken(error)
    }
}

impl From<WireError> for ReadError {
    fn from(error: WireError) -> ReadError {
        ReadError::Wire(error)
    }
}

/// The state of the receiving side. The thread that holds its lock is the reader.
#[derive(Debug)]
pub struct Incoming {
    pub stream: StripedStream,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    pub counter: ReceiveCounter,
    bytes: u64,
    heard: Arc<Heard>,
    /// Throughput of large bodies.
    pace: Pace,
}

impl Incoming {
    pub fn new(link: Link, heard: Arc<Heard>) -> Incoming {
        Incoming {
            stream: StripedStream::new(link),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            counter: ReceiveCounter::new(),
            bytes: 0,
            heard,
            pace: Pace::default(),
        }
    }

    /// Continues on a new connection. The worker sends the unfinished frame again.
    pub fn resume(&mut self, link: Link) {
        self.stream = StripedStream::new(link);
        self.start = 0;
        self.end = 0;
        self.counter.told_by_handshake();
    }

    pub fn has_buffered(&self) -> bool {
        self.start < self.end
    }

    fn receive(&mut self) -> io::Result<()> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        let bytes = self.heard.receiving(|| self.stream.read(&mut self.buffer[self.end..]))?;
        self.end += bytes;
        self.count(bytes)
    }

    /// Like [`receive`](Self::receive), without waiting. Returns false if the buffer is full.
    fn try_receive(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            return Ok(false);
        }
        let bytes = self.stream.try_read(&mut self.buffer[self.end..])?;
        self.end += bytes;
        self.count(bytes)?;
        Ok(true)
    }

    /// Counts received bytes; 0 bytes are the end of the stream.
    #[inline]
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes += bytes as u64;
        self.heard.add(bytes);
        Ok(())
    }

    /// Whether the next frame can be read without waiting. True for an invalid header: rejecting it needs no further
    /// bytes.
    fn holds_frame(&self) -> bool {
        let buffered = &self.buffer[self.start..self.end];
        buffered.first_chunk().is_some_and(|head| {
            Header::decode(head)
                .map_or(true, |header| header.payload_len <= (buffered.len() - Header::BYTES) as u64)
        })
    }

    fn header(&mut self) -> Result<Header, ReadError> {
        loop {
            if let Some(head) = self.buffer[self.start..self.end].first_chunk() {
                let header = Header::decode(head)?;
                self.start += Header::BYTES;
                return Ok(header);
            }
            if self.buffer.len() - self.start < Header::BYTES {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            self.receive()?;
        }
    }

    /// Fills `destination` with the next bytes; most of a large one is read without an intermediate copy.
    fn read_into(&mut self, destination: &mut [u8]) -> io::Result<()> {
        let buffered = destination.len().min(self.end - self.start);
        let (front, mut rest) = destination.split_at_mut(buffered);
        front.copy_from_slice(&self.buffer[self.start..self.start + buffered]);
        self.start += buffered;
        if rest.is_empty() {
            return Ok(());
        }
        // For a short rest, read it together with the following frames in one system call.
        if rest.len() <= BUFFER / 4 {
            while self.end - self.start < rest.len() {
                self.receive()?;
            }
            rest.copy_from_slice(&self.buffer[self.start..self.start + rest.len()]);
            self.start += rest.len();
            return Ok(());
        }
        while !rest.is_empty() {
            let bytes = self.heard.receiving(|| self.stream.read(rest))?;
            self.count(bytes)?;
            rest = &mut rest[bytes..];
        }
        Ok(())
    }

    /// Waits until this stream is readable or the outgoing stream is writable.
    pub fn wait_either(&self, outgoing: &StripedStream, timeout: Duration) -> io::Result<Ready> {
        self.heard.receiving(|| outgoing.wait_either(&self.stream, Some(timeout)))
    }

    fn payload(&mut self, bytes: u64) -> Result<Vec<u8>, ReadError> {
        if bytes > MAX_HEAD_BYTES {
            let what = "a payload without a destination";
            return Err(WireError::TooLarge { what, bytes, limit: MAX_HEAD_BYTES }.into());
        }
        let mut payload = Vec::new();
        while (payload.len() as u64) < bytes {
            let before = payload.len();
            payload.resize(before + STEP.min(bytes as usize - before), 0);
            self.read_into(&mut payload[before..])?;
        }
        Ok(payload)
    }

    fn skip(&mut self, mut bytes: u64) -> Result<(), ReadError> {
        let mut sink = [0; 4096];
        while bytes > 0 {
            let step = bytes.min(sink.len() as u64) as usize;
            self.read_into(&mut sink[..step])?;
            bytes -= step as u64;
        }
        Ok(())
    }

    /// Reads a body into its destination.
    fn body(&mut self, destination: Destination) -> io::Result<()> {
        // SAFETY: `Destination` guarantees valid memory that only the reader writes, and this thread is the reader.
        let bytes = unsafe { std::slice::from_raw_parts_mut(destination.start.as_ptr(), destination.bytes) };
        self.read_into(bytes)
    }
}

impl Shared {
    /// Waits for the reply to a request. Reads for all threads while it holds the reader role.
    pub fn wait_for(&self, number: u64, deadline: Option<Instant>) -> Result<(Header, Vec<u8>), Failure> {
        loop {
            let settled = self.desk.lock().take(number);
            if let Some(outcome) = settled {
                self.pass_role();
                return match outcome {
                    Outcome::Reply(header, payload) => Ok((header, payload)),
                    Outcome::Failed(failure) => Err(failure),
                };
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Failure { status: 999, text: "no reply arrived before the deadline".to_owned() });
            }
            match self.incoming.try_lock() {
                // The previous reader may have delivered the reply just before it released the role.
                Some(_) if self.desk.lock().is_settled(number) => {}
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
                    if self.read(&mut incoming) == Some(number) || self.over.load(Ordering::Relaxed) {
                        break;
                    }
                },
                None => self.sleep(number, deadline),
            }
        }
    }

    /// Parks until the reply has arrived or this thread should read.
    fn sleep(&self, number: u64, deadline: Option<Instant>) {
        let mut desk = self.desk.lock();
        // A reader that released the role before `note_sleep` could not wake this thread.
        if desk.is_settled(number) || !self.incoming.is_locked() {
            return;
        }
        desk.note_sleep(number, true);
        drop(desk);
        match deadline {
            Some(_) => std::thread::park_timeout(PATIENCE),
            None => std::thread::park(),
        }
        self.desk.lock().note_sleep(number, false);
    }

    /// Wakes a waiting thread to take over the reader role. Must be called after releasing the role, and by a waiter that
    /// leaves.
    pub fn pass_role(&self) {
        let mut desk = self.desk.lock();
        if !self.incoming.is_locked() {
            desk.wake_one();
        }
        drop(desk);
        if self.seekers.load(Ordering::SeqCst) > 0 {
            self.desk_changed.notify_all();
        }
    }

    /// Reads frames that have already arrived, unless another thread is reading.
    pub fn take_news(&self) {
        let Some(mut incoming) = self.incoming.try_lock() else { return };
        while !self.over.load(Ordering::Relaxed) && (incoming.has_buffered() || incoming.stream.has_news()) {
            self.read(&mut incoming);
        }
        drop(incoming);
        self.pass_role();
    }

    /// Reads the frames that have arrived completely, without waiting for more. The caller holds the reader role.
    pub fn take_arrived(&self, incoming: &mut Incoming) -> Arrived {
        loop {
            if self.over.load(Ordering::Relaxed) {
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
        self.sender.wake();
        self.liveness.holding_up(|| self.seek(|| self.ring.freed() != before));
        if self.over.load(Ordering::Acquire) { Err(self.ending()) } else { Ok(()) }
    }

    /// Reads whenever no other thread does, until `done` returns true or the session is over.
    pub fn seek(&self, done: impl Fn() -> bool) {
        self.seekers.fetch_add(1, Ordering::SeqCst);
        while !done() && !self.over.load(Ordering::Acquire) {
            if let Some(mut incoming) = self.incoming.try_lock() {
                // The previous reader may have satisfied `done` just before it released the role.
                if !done() && !self.over.load(Ordering::Acquire) {
                    self.read(&mut incoming);
                }
                drop(incoming);
                self.pass_role();
                continue;
            }
            let mut desk = self.desk.lock();
            if !done() && self.incoming.is_locked() {
                self.desk_changed.wait_for(&mut desk, PATIENCE);
            }
        }
        self.seekers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Reads one frame, and replaces the connection if that fails. Returns the number of the request that was answered.
    fn read(&self, incoming: &mut Incoming) -> Option<u64> {
        match self.read_frame(incoming, Sending::Elsewhere) {
            Ok(answered) => answered,
            Err(error) => {
                self.recover(incoming, error);
                None
            }
        }
    }

    /// Reads one frame and dispatches it.
    pub fn read_frame(&self, incoming: &mut Incoming, sending: Sending) -> Result<Option<u64>, ReadError> {
        let header = incoming.header()?;
        let begin = self.config.watched.then(watch::now);
        let mut answered = None;
        match header.known() {
            Ok(opcode) if header.is_reply() => {
                answered = Some(self.take_reply(incoming, &header, opcode, sending)?)
            }
            Ok(Opcode::Deliver) => self.take_delivery(incoming, &header)?,
            Ok(opcode) => self.take_push(incoming, &header, opcode, sending)?,
            // An unknown opcode, from a newer worker that ignores the negotiated version. Skipping it is safe.
            Err(_) => incoming.skip(header.payload_len)?,
        }
        if header.is_sequenced() {
            incoming.counter.count(header.payload_len);
            if incoming.counter.ack_due()
                && let Some(ack) = incoming.counter.take_ack()
            {
                self.sender.acknowledge(ack.received);
            }
        }
        Counters::add(&self.counters.bytes_received, std::mem::take(&mut incoming.bytes));
        if let Some(begin) = begin {
            watch::arrived(&header, begin);
        }
        Ok(answered)
    }

    fn take_reply(
        &self,
        incoming: &mut Incoming,
        header: &Header,
        opcode: Opcode,
        sending: Sending,
    ) -> Result<u64, ReadError> {
        let number = widen(header.request_id, self.ring.appended());
        // A reply acknowledges its request and all earlier ones.
        self.acknowledged(number, sending)?;
        let destination = self.desk.lock().destination(number);
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
        self.desk.lock().settle(number, Outcome::Reply(*header, payload));
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
        match self.deliveries.find(token, offset, bytes as usize) {
            Some(destination) => {
                self.body(incoming, destination)?;
                self.deliveries.delivered(token, bytes as usize);
            }
            None => incoming.skip(bytes)?,
        }
        Ok(())
    }

    /// Reads a body into its destination, and updates the mirror if it is one.
    fn body(&self, incoming: &mut Incoming, destination: Destination) -> io::Result<()> {
        let start = destination.start.as_ptr();
        let arrival =
            if destination.home { self.mirrors.expect(start as u64, destination.bytes) } else { None };
        let begin = (destination.bytes >= LARGE_BODY).then(Instant::now);
        incoming.body(destination)?;
        if let Some(begin) = begin
            && incoming.pace.is_slow(destination.bytes as u64, begin.elapsed())
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
        sending: Sending,
    ) -> Result<(), ReadError> {
        let payload = incoming.payload(header.payload_len)?;
        match opcode {
            Opcode::Ack => {
                let (Ack { received }, _) = decode_request(&payload)?;
                self.acknowledged(received, sending)?;
            }
            Opcode::Ping => self.sender.pong(),
            Opcode::Spread => {
                let (wire::Spread { links }, _) = decode_request(&payload)?;
                let strands = self.strands.in_use(links)?;
                incoming.stream.spread(strands, (incoming.end - incoming.start) as u64);
            }
            Opcode::Output => {
                let (Output { fd }, text) = decode_request(&payload)?;
                crate::output::write(fd, text);
            }
            Opcode::Callback => {
                let (Callback { token, status }, _) = decode_request(&payload)?;
                self.callbacks.arrived(token, status);
            }
            Opcode::EventReached => {
                let (EventReached { event, stamp, status }, _) = decode_request(&payload)?;
                self.progress.reached(Watched::Event(event), stamp, status);
            }
            Opcode::StreamReached => {
                let (StreamReached { stream, stamp, status }, _) = decode_request(&payload)?;
                self.progress.reached(Watched::Stream(stream), stamp, status);
            }
            Opcode::LateError => {
                let (error, _) = decode_request::<LateError>(&payload)?;
                self.late(error);
            }
            Opcode::Spans => watch::spans(decode_request(&payload)?.0),
            Opcode::MirrorChanged => {
                let (MirrorChanged { taken }, changes) = decode_request(&payload)?;
                self.mirrors.take(taken, changes)?;
            }
            // A Pong, or an opcode that is invalid as a push; ignoring it is safe.
            _ => {}
        }
        Ok(())
    }

    fn acknowledged(&self, received: u64, sending: Sending) -> Result<(), ReadError> {
        // The worker may reply before the sending thread has updated `sent`.
        let start = Instant::now();
        while self.sender.sent() < received
            && received <= self.ring.appended()
            && sending == Sending::Elsewhere
            && start.elapsed() < NOTING_PATIENCE
        {
            std::thread::yield_now();
        }
        self.ring.acknowledge(received, self.sender.sent())?;
        if self.config.watched {
            watch::acknowledged(received);
        }
        if self.seekers.load(Ordering::SeqCst) > 0 {
            drop(self.desk.lock());
            self.desk_changed.notify_all();
        }
        Ok(())
    }
}
