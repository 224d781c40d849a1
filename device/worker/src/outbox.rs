//! Frames to the client: numbered, kept until acknowledged, and written by whoever completes something.
//!
//! One lock orders numbers and bytes alike. A reply is one system call on the completing thread. Frames made while the
//! client is away are kept and sent when it reattaches.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::thread::ThreadId;

use backend::{Device, DeviceError};
use parking_lot::{Condvar, Mutex};
use transport::{Lane, Link};
use wire::{Ack, Failure, Field, Flags, Header, Operation, SendWindow, WireError};

use crate::mirror::Mirrors;
use crate::spans::Spans;

/// Pushes wait for acknowledgements when more than this is unacknowledged.
const WINDOW_BYTES: u64 = 64 << 20;
/// Bodies of replies up to this size are kept as bytes. Larger ones stay where they are, in device memory, until something is
/// asked for that may change it.
const COPIED_BODY_BYTES: usize = 256 << 10;
/// What comes before the body of a reply: the header, and status 0.
const REPLY_HEAD_BYTES: usize = Header::BYTES + 4;
/// Buffers of acknowledged frames that are kept for the next ones, which would have to touch new pages instead, and the sizes
/// worth keeping.
const SPARES: usize = 16;
const SPARE_BYTES: std::ops::RangeInclusive<usize> = 16 << 10..=COPIED_BODY_BYTES + REPLY_HEAD_BYTES;

/// A frame that may have to be sent again.
enum Kept {
    Whole(Vec<u8>),
    /// The body is still in device memory, and nothing was asked for since that could change it.
    Memory {
        header: Header,
        head: [u8; REPLY_HEAD_BYTES],
        address: u64,
        bytes: u64,
    },
}

struct State {
    lane: Option<Lane>,
    window: SendWindow<Kept>,
    spares: Vec<Vec<u8>>,
    closed: bool,
}

impl State {
    /// The client has received this many frames; their buffers are used again.
    fn acknowledge(&mut self, received: u64, in_memory: &AtomicUsize) -> Result<(), WireError> {
        let spares = &mut self.spares;
        self.window.acknowledge_each(received, |frame| match frame {
            Kept::Whole(mut bytes) => {
                if SPARE_BYTES.contains(&bytes.capacity()) && spares.len() < SPARES {
                    bytes.clear();
                    spares.push(bytes);
                }
            }
            Kept::Memory { .. } => {
                in_memory.fetch_sub(1, Ordering::SeqCst);
            }
        })
    }

    /// An empty buffer with room for `bytes`.
    fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let found = self.spares.iter().position(|spare| spare.capacity() >= bytes);
        found.map_or_else(|| Vec::with_capacity(bytes), |at| self.spares.swap_remove(at))
    }
}

/// The sending half of a session.
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// The connection in use, to be cut without waiting for whoever is writing to it.
    current: Mutex<Vec<Link>>,
    room: Condvar,
    device: Arc<dyn Device>,
    mirrors: Mirrors,
    spans: Spans,
    /// The thread that reads acknowledgements, and so must never wait for them.
    reader: ThreadId,
    /// Requests that have arrived, and those of them the client knows to have.
    received: AtomicU64,
    told: AtomicU64,
    /// The last request that may change memory, and how many kept frames are still only there.
    last_change: AtomicU64,
    /// Bytes of frames so far; those sent again are not counted again.
    sent: AtomicU64,
    in_memory: AtomicUsize,
    /// Requests that wait for their answers.
    owed: AtomicI64,
    /// The client wants to hear that this side is alive.
    pong_due: AtomicBool,
}

impl Outbox {
    /// Made by the thread that will read the connection.
    pub(crate) fn new(device: Arc<dyn Device>) -> Outbox {
        Outbox {
            state: Mutex::new(State {
                lane: None,
                window: SendWindow::new(WINDOW_BYTES),
                spares: Vec::new(),
                closed: false,
            }),
            current: Mutex::default(),
            room: Condvar::new(),
            device,
            mirrors: Mirrors::default(),
            spans: Spans::default(),
            reader: std::thread::current().id(),
            received: AtomicU64::new(0),
            told: AtomicU64::new(0),
            last_change: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            in_memory: AtomicUsize::new(0),
            owed: AtomicI64::new(0),
            pong_due: AtomicBool::new(false),
        }
    }

    /// Goes on where the outbox of another process has left off: it had received so many requests, had so many of its frames
    /// acknowledged, and kept these.
    pub(crate) fn resume(&self, received: u64, acknowledged: u64, frames: Vec<Vec<u8>>) {
        let mut state = self.state.lock();
        state.window = SendWindow::resumed(WINDOW_BYTES, acknowledged);
        for frame in frames {
            let cost = frame.len() as u64;
            state.window.push(Kept::Whole(frame), cost);
        }
        self.received.store(received, Ordering::Relaxed);
        self.told.store(received, Ordering::Relaxed);
        self.last_change.store(received, Ordering::SeqCst);
    }

    /// What the client has acknowledged, and everything since, frame by frame. Nothing may be sent meanwhile.
    pub(crate) fn kept<E>(&self, mut show: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.copy_from_memory();
        let state = self.state.lock();
        for (_, frame) in state.window.frames() {
            if let Kept::Whole(bytes) = frame {
                show(bytes)?;
            }
        }
        Ok(())
    }

    /// How many frames the client has acknowledged, and how many were sent.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.window.acknowledged(), state.window.sent())
    }

    /// A request has arrived that wants an answer.
    pub(crate) fn owe(&self) {
        self.owed.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether no request waits for its answer.
    pub(crate) fn owes_nothing(&self) -> bool {
        self.owed.load(Ordering::SeqCst) == 0
    }

    /// A connection begins: says welcome, then sends again what the client has not received.
    pub(crate) fn attach(&self, link: Link, welcome: &wire::Welcome, received: u64) -> Result<(), WireError> {
        let mut state = self.state.lock();
        *self.current.lock() = vec![link.clone()];
        if received < state.window.acknowledged() {
            return Err(WireError::NotKept { first: received + 1, last: state.window.acknowledged() });
        }
        state.acknowledge(received, &self.in_memory)?;
        let mut bytes = Vec::new();
        wire::encode_request(welcome, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        let mut sent = link.write_all(&bytes);
        for (_, frame) in state.window.frames() {
            if sent.is_err() {
                break;
            }
            sent = match frame {
                Kept::Whole(bytes) => link.write_all(bytes),
                Kept::Memory { header, head, address, bytes } => {
                    self.send_again(&link, header, head, *address, *bytes)
                }
            };
        }
        self.told.store(welcome.received, Ordering::Relaxed);
        self.pong_due.store(false, Ordering::Relaxed);
        match sent {
            Ok(()) => state.lane = Some(Lane::new(link)),
            // The reader of the link will find it broken and wait for the next one.
            Err(_) => link.shutdown(),
        }
        self.room.notify_all();
        Ok(())
    }

    /// The connection is gone; frames are kept for the next one.
    pub(crate) fn detach(&self) {
        self.current.lock().drain(..).for_each(|link| link.shutdown());
        drop_lane(&mut self.state.lock());
    }

    /// What follows goes over these links as well; the client is told where it begins.
    pub(crate) fn spread(&self, strands: Vec<Link>) {
        let mut bytes = Vec::new();
        let links = 1 + strands.len() as u16;
        wire::encode_request(&wire::Spread { links }, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        let mut state = self.state.lock();
        let Some(lane) = &mut state.lane else { return };
        match lane.write_all(&bytes) {
            Ok(()) => {
                self.current.lock().extend(strands.iter().cloned());
                lane.spread(strands, 0);
            }
            Err(_) => drop_lane(&mut state),
        }
    }

    /// The session ends: nobody waits for room any more.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.room.notify_all();
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Memory that the client holds too.
    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    /// Called before the client hears that work has ended: it must have what that work changed.
    pub(crate) fn tell_changes(&self) {
        self.mirrors.tell(self);
        self.spans.tell(self);
    }

    /// When streams did what, for a client that wants to know.
    pub(crate) fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The session ends: what there still is of those is told.
    pub(crate) fn last_spans(&self) {
        if self.spans.is_on() {
            self.device.record_spans(false);
            self.spans.tell(self);
        }
    }

    /// Whether the client keeps up with what is pushed.
    pub(crate) fn has_room(&self) -> bool {
        self.state.lock().window.has_room(0)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state.lock().lane.is_some()
    }

    /// The client has received this many frames.
    pub(crate) fn acknowledged(&self, received: u64) -> Result<(), WireError> {
        self.state.lock().acknowledge(received, &self.in_memory)?;
        self.room.notify_all();
        Ok(())
    }

    /// Bytes of frames so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// A request has arrived.
    pub(crate) fn count(&self, received: u64) {
        self.received.store(received, Ordering::Relaxed);
    }

    /// Requests that have arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Request `number` may change or free device memory as soon as this returns: what is kept only there is copied.
    pub(crate) fn will_change(&self, number: u64) {
        // Pairs with `reply_body`: either we see that it keeps a frame in memory, or it sees that it must not.
        self.last_change.store(number, Ordering::SeqCst);
        if self.in_memory.load(Ordering::SeqCst) != 0 {
            self.copy_from_memory();
        }
    }

    #[cold]
    fn copy_from_memory(&self) {
        let mut state = self.state.lock();
        state.window.change_each(|frame| {
            let Kept::Memory { header, head, address, bytes } = frame else { return None };
            let mut whole = Vec::with_capacity(head.len() + *bytes as usize);
            whole.extend_from_slice(&head[..]);
            if let Err(error) = self.device.peek(*address, *bytes, &mut |body| whole.extend_from_slice(body))
            {
                whole = failed(header, &error);
            }
            let cost = whole.len() as u64;
            *frame = Kept::Whole(whole);
            Some(cost)
        });
        self.in_memory.store(0, Ordering::SeqCst);
    }

    /// Tells the client how many requests have arrived, if no reply or acknowledgement has told it.
    pub(crate) fn acknowledge(&self) {
        let received = self.received();
        if self.told.fetch_max(received, Ordering::Relaxed) < received {
            self.send_unsequenced(&Ack { received });
        }
    }

    /// Tells the client that this side is alive, now or with the next [`Outbox::send_due_pong`].
    pub(crate) fn pong(&self) {
        self.pong_due.store(true, Ordering::Relaxed);
        self.send_due_pong();
    }

    /// Sends a Pong that is due. Never waits: a lock that is taken, or a socket that is full, means that other bytes are on their
    /// way, which tell the client the same.
    pub(crate) fn send_due_pong(&self) {
        if !self.pong_due.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut state) = self.state.try_lock() else { return };
        let Some(lane) = &mut state.lane else { return };
        if !lane.has_room() {
            return;
        }
        self.pong_due.store(false, Ordering::Relaxed);
        let mut bytes = Vec::new();
        wire::encode_request(&wire::Pong {}, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        if lane.write_all(&bytes).is_err() {
            drop_lane(&mut state);
        }
    }

    pub(crate) fn send_unsequenced<O: Operation>(&self, fields: &O) {
        let mut bytes = Vec::new();
        wire::encode_request(fields, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        let mut state = self.state.lock();
        if let Some(lane) = &mut state.lane
            && lane.write_all(&bytes).is_err()
        {
            drop_lane(&mut state);
        }
    }

    /// Ends a request: a reply if one is wanted, a late error if a posted one failed.
    pub(crate) fn finish<O: Operation>(&self, request: &Header, result: Result<O::Reply, DeviceError>) {
        match result {
            Err(error) => self.fail(request, &error),
            Ok(_) if request.is_posted() => {}
            Ok(fields) => {
                let header = reply_header(request, Flags::REPLY, 4 + fields.size() as u64);
                let mut bytes = Vec::with_capacity(Header::BYTES + header.payload_len as usize);
                bytes.extend_from_slice(&header.encode());
                wire::encode_reply_head(&fields, &mut bytes);
                let number = wire::widen(request.request_id, self.received.load(Ordering::Relaxed));
                self.told.fetch_max(number, Ordering::Relaxed);
                self.send(bytes);
                self.owed.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// A request failed.
    pub(crate) fn fail(&self, request: &Header, error: &DeviceError) {
        if request.is_posted() {
            return self.late_error(request.request_id, request.function, error);
        }
        let failure = Failure { status: error.code.0 as i32, text: error.text.clone() };
        let header = reply_header(request, Flags::REPLY.with(Flags::ERROR), failure.size() as u64);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&header.encode());
        failure.encode(&mut bytes);
        self.send(bytes);
        self.owed.fetch_sub(1, Ordering::SeqCst);
    }

    /// A posted request failed, now or some time ago.
    pub(crate) fn late_error(&self, request_id: u32, function: u16, error: &DeviceError) {
        let late =
            wire::LateError { request_id, function, code: error.code.0 as i32, text: error.text.clone() };
        self.push(&late, &[]);
    }

    /// Answers a read. `body` lies at `address` of device memory, or is a copy if that is `None`.
    pub(crate) fn reply_body(&self, request: &Header, address: Option<u64>, body: &[u8]) {
        if request.is_posted() {
            return;
        }
        let header = reply_header(request, Flags::REPLY, 4 + body.len() as u64);
        let mut head = [0; REPLY_HEAD_BYTES];
        head[..Header::BYTES].copy_from_slice(&header.encode());
        let mut state = self.state.lock();
        let lane = state.lane.as_mut();
        let sent = lane.is_some_and(|lane| {
            lane.write_all_vectored(&mut [IoSlice::new(&head), IoSlice::new(body)]).is_ok()
        });
        if !sent {
            drop_lane(&mut state);
        }
        let bytes = body.len() as u64;
        self.sent.fetch_add(head.len() as u64 + bytes, Ordering::Relaxed);
        let number = wire::widen(request.request_id, self.received.load(Ordering::Relaxed));
        let stays = |outbox: &Outbox| {
            outbox.in_memory.fetch_add(1, Ordering::SeqCst);
            let stays = outbox.last_change.load(Ordering::SeqCst) < number;
            if !stays {
                outbox.in_memory.fetch_sub(1, Ordering::SeqCst);
            }
            stays
        };
        let (frame, cost) = match address {
            Some(address) if sent && body.len() > COPIED_BODY_BYTES && stays(self) => {
                (Kept::Memory { header, head, address, bytes }, head.len())
            }
            // Made after sending, so that the client does not wait for it; the stream does, so that it is what was sent.
            _ => {
                let mut whole = state.buffer(head.len() + body.len());
                whole.extend_from_slice(&head);
                whole.extend_from_slice(body);
                let cost = whole.len();
                (Kept::Whole(whole), cost)
            }
        };
        state.window.push(frame, cost as u64);
        self.owed.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sends something of the worker's own accord. Waits for room, unless on the thread that makes it.
    pub(crate) fn push<O: Operation>(&self, fields: &O, body: &[u8]) {
        let mut bytes = Vec::with_capacity(Header::BYTES + fields.size() + body.len());
        wire::encode_request(fields, body, Flags::NONE, 0, 0, &mut bytes);
        if std::thread::current().id() != self.reader {
            let mut state = self.state.lock();
            while !state.window.has_room(bytes.len() as u64) && !state.closed {
                self.room.wait(&mut state);
            }
        }
        self.send(bytes);
    }

    /// The same without waiting for room: for what is not much, or is due before something that does not wait.
    pub(crate) fn push_at_once<O: Operation>(&self, fields: &O, body: &[u8]) {
        let mut bytes = Vec::with_capacity(Header::BYTES + fields.size() + body.len());
        wire::encode_request(fields, body, Flags::NONE, 0, 0, &mut bytes);
        self.send(bytes);
    }

    fn send(&self, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let failed = match &mut state.lane {
            Some(lane) => lane.write_all(&bytes).is_err(),
            None => false,
        };
        if failed {
            drop_lane(&mut state);
        }
        let cost = bytes.len() as u64;
        self.sent.fetch_add(cost, Ordering::Relaxed);
        state.window.push(Kept::Whole(bytes), cost);
    }

    fn send_again(
        &self,
        link: &Link,
        header: &Header,
        head: &[u8; REPLY_HEAD_BYTES],
        address: u64,
        bytes: u64,
    ) -> std::io::Result<()> {
        let mut sent = Ok(());
        let shown = self.device.peek(address, bytes, &mut |body| {
            sent = link.write_all_vectored(&mut [IoSlice::new(head), IoSlice::new(body)]);
        });
        let Err(error) = shown else { return sent };
        link.write_all(&failed(header, &error))
    }
}

/// The memory of a reply is gone: the frame keeps its number and becomes a failure.
fn failed(header: &Header, error: &DeviceError) -> Vec<u8> {
    let failure = Failure { status: error.code.0 as i32, text: error.text.clone() };
    let flags = Flags::REPLY.with(Flags::ERROR);
    let header = Header { flags, payload_len: failure.size() as u64, ..*header };
    let mut frame = header.encode().to_vec();
    failure.encode(&mut frame);
    frame
}

fn drop_lane(state: &mut State) {
    if let Some(lane) = state.lane.take() {
        lane.shutdown();
    }
}

fn reply_header(request: &Header, flags: Flags, payload_len: u64) -> Header {
    Header { flags, payload_len, ..*request }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::MemoryKind;
    use backend_emulator::{DeviceConfig, Emulator, Options};
    use wire::Opcode;

    /// A session's device with `bytes` bytes of memory, all of them 1, and an outbox for it.
    struct Bench {
        device: Arc<dyn Device>,
        outbox: Arc<Outbox>,
        address: u64,
        bytes: u64,
    }

    impl Bench {
        fn new(bytes: u64) -> Bench {
            let model = DeviceConfig { model: "mi300x".to_owned(), memory: Some(1 << 30) };
            let options = Options { devices: vec![model], ..Options::default() };
            let device: Arc<dyn Device> = Arc::new(Emulator::open(&options).unwrap());
            let address = device.arena().base;
            device.map(0, MemoryKind::Device, address, bytes).unwrap();
            let outbox = Arc::new(Outbox::new(Arc::clone(&device)));
            let bench = Bench { device, outbox, address, bytes };
            bench.fill(1);
            bench
        }

        fn fill(&self, value: u8) {
            let mut write = |memory: &mut [u8]| {
                memory.fill(value);
                true
            };
            assert_eq!(self.device.direct(0, self.address, self.bytes, &mut write), Some(true));
        }

        /// Answers request `id` with the memory as it is.
        fn reply(&self, id: u32) {
            let request = Header::new(Opcode::Read, Flags::NONE, id, 0);
            let mut answer = |body: &[u8]| self.outbox.reply_body(&request, Some(self.address), body);
            self.device.peek(self.address, self.bytes, &mut answer).unwrap();
        }

        /// A client that has `received` frames connects and reads `frames` frames, while `meanwhile` happens here.
        fn connect(&self, received: u64, frames: usize, meanwhile: impl FnOnce()) -> Vec<(Header, Vec<u8>)> {
            let (ours, theirs) = Link::pair().unwrap();
            // The welcome comes first and is no numbered frame.
            let reader = std::thread::spawn(move || (0..=frames).map(|_| read(&theirs)).skip(1).collect());
            let welcome = wire::Welcome::default();
            self.outbox.attach(ours, &welcome, received).unwrap();
            meanwhile();
            let read = reader.join().unwrap();
            self.outbox.detach();
            read
        }
    }

    fn read(link: &Link) -> (Header, Vec<u8>) {
        let mut header = [0; Header::BYTES];
        link.read_exact(&mut header).unwrap();
        let header = Header::decode(&header).unwrap();
        let mut payload = vec![0; header.payload_len as usize];
        link.read_exact(&mut payload).unwrap();
        (header, payload)
    }

    fn is_filled(frame: &(Header, Vec<u8>), id: u32, value: u8, bytes: u64) -> bool {
        let (header, payload) = frame;
        header.request_id == id
            && !header.is_error()
            && payload.len() as u64 == 4 + bytes
            && payload[4..].iter().all(|byte| *byte == value)
    }

    #[test]
    fn a_reply_that_is_sent_again_is_the_one_that_was_sent_whatever_became_of_the_memory() {
        for bytes in [100, 20_000, COPIED_BODY_BYTES as u64] {
            let bench = Bench::new(bytes);
            let first = bench.connect(0, 1, || bench.reply(1));
            assert!(is_filled(&first[0], 1, 1, bytes));
            bench.fill(2);
            let again = bench.connect(0, 1, || ());
            assert!(is_filled(&again[0], 1, 1, bytes), "{bytes} bytes that were changed meanwhile");
            bench.device.unmap(bench.address).unwrap();
            let again = bench.connect(0, 1, || ());
            assert!(is_filled(&again[0], 1, 1, bytes), "{bytes} bytes that were freed meanwhile");
        }
    }

    #[test]
    fn a_reply_made_while_the_client_is_away_waits_for_it() {
        for bytes in [100, COPIED_BODY_BYTES as u64 + 1] {
            let bench = Bench::new(bytes);
            bench.reply(1);
            bench.fill(2);
            let late = bench.connect(0, 1, || ());
            assert!(is_filled(&late[0], 1, 1, bytes), "{bytes} bytes");
        }
    }

    #[test]
    fn a_large_reply_is_read_again_and_a_failure_if_its_memory_is_gone() {
        let bytes = COPIED_BODY_BYTES as u64 + 1;
        let bench = Bench::new(bytes);
        bench.connect(0, 1, || bench.reply(1));
        let again = bench.connect(0, 1, || ());
        assert!(is_filled(&again[0], 1, 1, bytes));
        bench.device.unmap(bench.address).unwrap();
        let failure = bench.connect(0, 1, || ());
        assert!(failure[0].0.is_error() && failure[0].0.request_id == 1);
    }

    #[test]
    fn a_large_reply_is_what_was_sent_whatever_is_asked_for_meanwhile() {
        let bytes = COPIED_BODY_BYTES as u64 + 1;
        // Asked for after the reply was sent.
        let bench = Bench::new(bytes);
        bench.outbox.count(1);
        bench.connect(0, 1, || bench.reply(1));
        bench.outbox.count(2);
        bench.outbox.will_change(2);
        bench.fill(2);
        let again = bench.connect(0, 1, || ());
        assert!(is_filled(&again[0], 1, 1, bytes));
        // Asked for before, and done after.
        let bench = Bench::new(bytes);
        bench.outbox.count(2);
        bench.outbox.will_change(2);
        bench.connect(0, 1, || bench.reply(1));
        bench.fill(2);
        bench.device.unmap(bench.address).unwrap();
        let again = bench.connect(0, 1, || ());
        assert!(is_filled(&again[0], 1, 1, bytes));
    }

    #[test]
    fn buffers_of_acknowledged_replies_serve_later_ones() {
        let bytes = 100_000;
        let bench = Bench::new(bytes);
        let replies = bench.connect(0, 3, || {
            bench.reply(1);
            bench.fill(2);
            bench.outbox.acknowledged(1).unwrap();
            assert_eq!(bench.outbox.state.lock().spares.len(), 1);
            bench.reply(2);
            assert_eq!(bench.outbox.state.lock().spares.len(), 0);
            bench.fill(3);
            bench.reply(3);
        });
        for (frame, id) in replies.iter().zip(1..) {
            assert!(is_filled(frame, id, id as u8, bytes));
        }
        let again = bench.connect(1, 2, || ());
        assert!(is_filled(&again[0], 2, 2, bytes) && is_filled(&again[1], 3, 3, bytes));
    }
}
