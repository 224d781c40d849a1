//! The outbox: sends frames to the client, numbers them and keeps them until they are acknowledged. The thread that completes an
//! operation writes its reply.
//!
//! One lock orders both numbers and bytes. A reply is one system call on the completing thread. Frames produced while the client
//! is disconnected are kept and sent when it reattaches.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::thread::ThreadId;

use backend::{Device, DeviceError};
use parking_lot::{Condvar, Mutex};
use transport::{Link, StripedStream};
use wire::{Ack, Failure, Field, Flags, Header, Operation, SendWindow, WireError};

/// Window of unacknowledged bytes beyond which pushes block.
const WINDOW_BYTES: u64 = 64 << 20;
/// Reply bodies up to this size are kept as copies. Larger ones are read again from device memory if they must be resent, until a
/// request arrives that may change that memory.
const COPIED_BODY_BYTES: usize = 256 << 10;
/// Bytes before the body of a reply: the header, and status 0.
const REPLY_HEAD_BYTES: usize = Header::BYTES + 4;
/// Number and sizes of acknowledged frames' buffers that are kept for reuse, which avoids page faults on new memory.
const SPARES: usize = 16;
const SPARE_BYTES: std::ops::RangeInclusive<usize> = 16 << 10..=COPIED_BODY_BYTES + REPLY_HEAD_BYTES;

/// A frame that may have to be resent.
enum Kept {
    Whole(Vec<u8>),
    /// The body is still in device memory, and no request since then could have changed it.
    Memory {
        header: Header,
        head: [u8; REPLY_HEAD_BYTES],
        address: u64,
        bytes: u64,
    },
}

struct State {
    stream: Option<StripedStream>,
    window: SendWindow<Kept>,
    spares: Vec<Vec<u8>>,
    closed: bool,
    /// The checkpoint that the session was restored from: requests received, and frames sent.
    restored: Option<(u64, u64)>,
}

impl State {
    /// Drops frames that the client has received, and keeps their buffers for reuse.
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

    /// Returns an empty buffer with room for `bytes`.
    fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let found = self.spares.iter().position(|spare| spare.capacity() >= bytes);
        found.map_or_else(|| Vec::with_capacity(bytes), |at| self.spares.swap_remove(at))
    }
}

/// The sending half of a session.
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Links of the current connection, so that it can be closed without waiting for the thread that writes to it.
    current: Mutex<Vec<Link>>,
    room: Condvar,
    device: Arc<dyn Device>,
    /// The thread that reads acknowledgements, and so must never wait for them.
    reader: ThreadId,
    /// Requests that have arrived, and how many of them have been acknowledged to the client.
    received: AtomicU64,
    last_ack: AtomicU64,
    /// Number of the last request that may change device memory. `in_memory` counts kept frames whose body is only there.
    last_change: AtomicU64,
    /// Bytes of all frames so far; resent frames are counted once.
    sent: AtomicU64,
    in_memory: AtomicUsize,
    /// Requests that still await their reply.
    owed: AtomicI64,
    /// A Pong is due to the client.
    pong_due: AtomicBool,
}

impl Outbox {
    /// Must be called by the thread that will read the connection.
    pub(crate) fn new(device: Arc<dyn Device>) -> Outbox {
        Outbox {
            state: Mutex::new(State {
                stream: None,
                window: SendWindow::new(WINDOW_BYTES),
                spares: Vec::new(),
                closed: false,
                restored: None,
            }),
            current: Mutex::default(),
            room: Condvar::new(),
            device,
            reader: std::thread::current().id(),
            received: AtomicU64::new(0),
            last_ack: AtomicU64::new(0),
            last_change: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            in_memory: AtomicUsize::new(0),
            owed: AtomicI64::new(0),
            pong_due: AtomicBool::new(false),
        }
    }

    /// Continues from the outbox of another process, which had received `received` requests, had `acknowledged` of its frames
    /// acknowledged, and kept `frames`.
    pub(crate) fn resume(&self, received: u64, acknowledged: u64, frames: Vec<Vec<u8>>) {
        let mut state = self.state.lock();
        state.window = SendWindow::resumed(WINDOW_BYTES, acknowledged);
        for frame in frames {
            let cost = frame.len() as u64;
            state.window.push(Kept::Whole(frame), cost);
        }
        self.received.store(received, Ordering::Relaxed);
        self.last_ack.store(received, Ordering::Relaxed);
        self.last_change.store(received, Ordering::SeqCst);
    }

    /// Continues from a checkpoint, like [`Outbox::resume`]. Its client may have received more frames than this outbox knows.
    pub(crate) fn resume_checkpoint(&self, received: u64, acknowledged: u64, frames: Vec<Vec<u8>>) {
        let sent = acknowledged + frames.len() as u64;
        self.resume(received, acknowledged, frames);
        self.state.lock().restored = Some((received, sent));
    }

    /// Whether the session was restored from a checkpoint and has received no request since.
    pub(crate) fn is_restored(&self) -> bool {
        self.state.lock().restored.is_some_and(|(received, _)| received == self.received())
    }

    /// Passes every unacknowledged frame to `show`, in order. Nothing may be sent meanwhile.
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

    /// Returns how many frames the client has acknowledged, and how many were sent.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.window.acknowledged(), state.window.sent())
    }

    /// Counts a request that expects a reply.
    pub(crate) fn owe(&self) {
        self.owed.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether every request has been answered.
    pub(crate) fn owes_nothing(&self) -> bool {
        self.owed.load(Ordering::SeqCst) == 0
    }

    /// Starts a connection: sends the Welcome, then resends the frames that the client has not received.
    pub(crate) fn attach(&self, link: Link, welcome: &wire::Welcome, received: u64) -> Result<(), WireError> {
        let mut state = self.state.lock();
        *self.current.lock() = vec![link.clone()];
        let restored = state.restored.filter(|_| welcome.capabilities & wire::capability::RESTORED != 0);
        if restored.is_some() && received > state.window.sent() {
            // What the client received after the checkpoint is produced again, with numbers that follow.
            state.window = SendWindow::resumed(WINDOW_BYTES, received);
        }
        if received < state.window.acknowledged() {
            return Err(WireError::NotKept { first: received + 1, last: state.window.acknowledged() });
        }
        state.acknowledge(received, &self.in_memory)?;
        let mut bytes = Vec::new();
        wire::encode_request(welcome, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        let mut sent = link.write_greeting(&bytes);
        if let (Some((received, frames)), Ok(())) = (restored, &sent) {
            bytes.clear();
            let checkpoint = wire::Checkpointed { received, frames, place: String::new() };
            wire::encode_request(&checkpoint, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
            sent = link.write_all(&bytes);
        }
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
        self.last_ack.store(welcome.received, Ordering::Relaxed);
        self.pong_due.store(false, Ordering::Relaxed);
        match sent {
            Ok(()) => state.stream = Some(StripedStream::new(link)),
            // The reader of the link will see that it is broken and wait for the next one.
            Err(_) => link.shutdown(),
        }
        self.room.notify_all();
        Ok(())
    }

    /// Closes the connection; frames are kept for the next one.
    pub(crate) fn detach(&self) {
        self.current.lock().drain(..).for_each(|link| link.shutdown());
        drop_stream(&mut self.state.lock());
    }

    /// Spreads the following frames over these links as well; a Spread frame marks the start for the client.
    pub(crate) fn spread(&self, strands: Vec<Link>) {
        let mut bytes = Vec::new();
        let links = 1 + strands.len() as u16;
        wire::encode_request(&wire::Spread { links }, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        let mut state = self.state.lock();
        let Some(stream) = &mut state.stream else { return };
        match stream.write_all(&bytes) {
            Ok(()) => {
                self.current.lock().extend(strands.iter().cloned());
                stream.spread(strands, 0);
            }
            Err(_) => drop_stream(&mut state),
        }
    }

    /// Ends the session: unblocks threads that wait for window space.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.room.notify_all();
    }

    /// Whether there is window space, that is, the client keeps up with pushed frames.
    pub(crate) fn has_room(&self) -> bool {
        self.state.lock().window.has_room(0)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state.lock().stream.is_some()
    }

    /// Handles an acknowledgement: the client has received this many frames.
    pub(crate) fn acknowledged(&self, received: u64) -> Result<(), WireError> {
        self.state.lock().acknowledge(received, &self.in_memory)?;
        self.room.notify_all();
        Ok(())
    }

    /// Returns the bytes of all frames so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sets the number of requests that have arrived.
    pub(crate) fn count(&self, received: u64) {
        self.received.store(received, Ordering::Relaxed);
    }

    /// Returns the number of requests that have arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Announces that request `number` may change or free device memory as soon as this returns. Copies kept frames whose body is
    /// only there.
    pub(crate) fn will_change(&self, number: u64) {
        // Pairs with `reply_body`: either this thread sees that it keeps a frame in memory, or that one sees that it must copy.
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
            if let Err(error) =
                self.device.read_unordered(*address, *bytes, &mut |body| whole.extend_from_slice(body))
            {
                whole = failed(header, &error);
            }
            let cost = whole.len() as u64;
            *frame = Kept::Whole(whole);
            Some(cost)
        });
        self.in_memory.store(0, Ordering::SeqCst);
    }

    /// Acknowledges received requests, unless a reply or an earlier acknowledgement covers them.
    pub(crate) fn acknowledge(&self) {
        let received = self.received();
        if self.last_ack.fetch_max(received, Ordering::Relaxed) < received {
            self.send_unsequenced(&Ack { received });
        }
    }

    /// Sends a Pong, now or with the next [`Outbox::send_due_pong`].
    pub(crate) fn pong(&self) {
        self.pong_due.store(true, Ordering::Relaxed);
        self.send_due_pong();
    }

    /// Sends a Pong if one is due. Never blocks: if the lock is held or the socket is full, other bytes are on their way and
    /// serve the client as a sign of life.
    pub(crate) fn send_due_pong(&self) {
        if !self.pong_due.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut state) = self.state.try_lock() else { return };
        let Some(stream) = &mut state.stream else { return };
        if !stream.has_room() {
            return;
        }
        self.pong_due.store(false, Ordering::Relaxed);
        let mut bytes = Vec::new();
        wire::encode_request(&wire::Pong {}, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        if stream.write_all(&bytes).is_err() {
            drop_stream(&mut state);
        }
    }

    pub(crate) fn send_unsequenced<O: Operation>(&self, fields: &O) {
        let mut bytes = Vec::new();
        wire::encode_request(fields, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        let mut state = self.state.lock();
        if let Some(stream) = &mut state.stream
            && stream.write_all(&bytes).is_err()
        {
            drop_stream(&mut state);
        }
    }

    /// Completes a request: sends a reply if one is expected, or a late error if a posted request failed.
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
                self.last_ack.fetch_max(number, Ordering::Relaxed);
                self.send(bytes);
                self.owed.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Reports that a request failed.
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

    /// Reports that a posted request failed, now or earlier.
    pub(crate) fn late_error(&self, request_id: u32, function: u16, error: &DeviceError) {
        let late =
            wire::LateError { request_id, function, code: error.code.0 as i32, text: error.text.clone() };
        self.push(&late, &[]);
    }

    /// Replies to a read. `body` lies at `address` in device memory, or is a copy if `address` is `None`.
    pub(crate) fn reply_body(&self, request: &Header, address: Option<u64>, body: &[u8]) {
        if request.is_posted() {
            return;
        }
        let header = reply_header(request, Flags::REPLY, 4 + body.len() as u64);
        let mut head = [0; REPLY_HEAD_BYTES];
        head[..Header::BYTES].copy_from_slice(&header.encode());
        let mut state = self.state.lock();
        let stream = state.stream.as_mut();
        let sent = stream.is_some_and(|stream| {
            stream.write_all_vectored(&mut [IoSlice::new(&head), IoSlice::new(body)]).is_ok()
        });
        if !sent {
            drop_stream(&mut state);
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
            // Copied after sending, so that the client does not wait for the copy. The stream waits, so the copy equals what was
            // sent.
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

    /// Pushes an unsolicited frame. Blocks until there is window space, except on the reader thread, which is what frees it.
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

    /// Like [`Outbox::push`], but never blocks: for small frames, and for those that must precede a frame that does not block.
    pub(crate) fn push_at_once<O: Operation>(&self, fields: &O, body: &[u8]) {
        let mut bytes = Vec::with_capacity(Header::BYTES + fields.size() + body.len());
        wire::encode_request(fields, body, Flags::NONE, 0, 0, &mut bytes);
        self.send(bytes);
    }

    fn send(&self, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let failed = match &mut state.stream {
            Some(stream) => stream.write_all(&bytes).is_err(),
            None => false,
        };
        if failed {
            drop_stream(&mut state);
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
        let shown = self.device.read_unordered(address, bytes, &mut |body| {
            sent = link.write_all_vectored(&mut [IoSlice::new(head), IoSlice::new(body)]);
        });
        let Err(error) = shown else { return sent };
        link.write_all(&failed(header, &error))
    }
}

/// Builds the replacement for a reply whose memory is gone: an error with the same frame number.
fn failed(header: &Header, error: &DeviceError) -> Vec<u8> {
    let failure = Failure { status: error.code.0 as i32, text: error.text.clone() };
    let flags = Flags::REPLY.with(Flags::ERROR);
    let header = Header { flags, payload_len: failure.size() as u64, ..*header };
    let mut frame = header.encode().to_vec();
    failure.encode(&mut frame);
    frame
}

fn drop_stream(state: &mut State) {
    if let Some(stream) = state.stream.take() {
        stream.shutdown();
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

    /// A device with `bytes` bytes of memory, all of them 1, and an outbox for it.
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

        /// Replies to request `id` with the current memory contents.
        fn reply(&self, id: u32) {
            let request = Header::new(Opcode::Read, Flags::NONE, id, 0);
            let mut answer = |body: &[u8]| self.outbox.reply_body(&request, Some(self.address), body);
            self.device.read_unordered(self.address, self.bytes, &mut answer).unwrap();
        }

        /// Connects a client that has `received` frames, runs `meanwhile`, and returns the `frames` frames that the client reads.
        fn connect(&self, received: u64, frames: usize, meanwhile: impl FnOnce()) -> Vec<(Header, Vec<u8>)> {
            let (ours, theirs) = Link::pair().unwrap();
            // The welcome comes first and is not numbered.
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
            assert!(is_filled(&again[0], 1, 1, bytes), "{bytes} bytes, changed after the reply");
            bench.device.unmap(bench.address).unwrap();
            let again = bench.connect(0, 1, || ());
            assert!(is_filled(&again[0], 1, 1, bytes), "{bytes} bytes, freed after the reply");
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
        // The change is requested after the reply was sent.
        let bench = Bench::new(bytes);
        bench.outbox.count(1);
        bench.connect(0, 1, || bench.reply(1));
        bench.outbox.count(2);
        bench.outbox.will_change(2);
        bench.fill(2);
        let again = bench.connect(0, 1, || ());
        assert!(is_filled(&again[0], 1, 1, bytes));
        // The change is requested before the reply and executed after it.
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
