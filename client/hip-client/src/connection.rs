//! The connection of this process to its worker: posted requests, calls, replies and pushes.
//!
//! Delivers requests to the worker exactly once and in order across network failures. Frames are numbered, stored in a
//! ring (`ring.rs`) and kept until acknowledged; a broken connection is replaced and the session continues.
//! This file contains no HIP semantics.
//!
//! Threads: any thread appends. The thread that gets the outgoing lock sends: normally the sender thread for posted
//! requests, and the calling thread for calls. One of the threads that wait for replies reads for all of them. No thread
//! blocks on a full socket without also reading from it, so client and worker cannot deadlock on full buffers.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use transport::tls::Trust;
use transport::{DEFAULT_PORT, Endpoint, Link};
use wire::{
    Failure, Flags, Header, LateError, Operation, Reach, Read, ReadLater, Sink, Welcome, Write, WriteKept,
    WriteKnown, capability,
};

use crate::callback::Callbacks;
use crate::incoming::{Deliveries, Desk, Destination, Incoming};
use crate::liveness::{self, Liveness};
use crate::mirrors::Mirrors;
use crate::neighbour::Neighbour;
use crate::outgoing::{Outgoing, Sender};
use crate::progress::Progress;
use crate::reattach::{self, Session};
use crate::ring::{Full, Ring};
use crate::strands::Strands;
use crate::trace::{Counters, Statistics};
use crate::upload::{self, Uploads, When};
use crate::{exit, trace, watch};

/// hipErrorUnknown: the status of every call once the session is lost.
const STATUS_LOST: i32 = 999;
/// hipErrorDeinitialized: the status of every call once the session is closed.
const STATUS_CLOSED: i32 = 4;
/// Bodies up to this size are copied into the ring and posted; larger ones are sent from the caller's memory.
const COPIED_BODY: usize = 256 << 10;
/// Bulk transfers are split into pieces of this size so that requests of other threads can be interleaved.
const PIECE: usize = 4 << 20;
/// Read requests in flight before the first reply has arrived. Keeps the worker busy; 64 pieces sustain 2 GB/s from the
/// other side of the earth.
const PIECES_AHEAD: usize = 64;

/// How long [`Shared::abandon`] waits for the reading thread to release the reader role.
const ABANDON_PATIENCE: Duration = Duration::from_millis(500);

/// Where and how to connect.
#[derive(Clone, Debug)]
pub struct Config {
    pub endpoint: Endpoint,
    pub token: Option<Vec<u8>>,
    /// Trusted CA or fingerprint, for a TLS endpoint.
    pub trust: Option<Trust>,
    /// Timeout of the first connection, and of each attempt to replace a broken one.
    pub connect_timeout: Duration,
    /// Reconnects after the worker has been silent for this long. `None`: waits for the system to report a broken
    /// connection.
    pub silence_timeout: Option<Duration>,
    /// Waits for the reply of every request.
    pub strict: bool,
    /// A trace or summary was requested, see `watch.rs`.
    pub watched: bool,
    /// The program name that the worker logs.
    pub program: String,
    /// Limits of unacknowledged bytes and frames. Both are powers of two.
    pub window_bytes: usize,
    pub window_frames: usize,
    /// When uploads are hashed, so that a later run can skip sending them.
    pub hashing: When,
    /// When uploads are compressed.
    pub packing: When,
    /// Number of TCP links that large copies are spread over; by default chosen by the latency of the worker.
    pub links: Option<u16>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            endpoint: Endpoint::tcp("127.0.0.1", DEFAULT_PORT),
            token: None,
            trust: None,
            connect_timeout: Duration::from_secs(3),
            silence_timeout: Some(liveness::DEFAULT_SILENCE_TIMEOUT),
            strict: false,
            watched: false,
            program: crate::env::program(),
            window_bytes: 8 << 20,
            window_frames: 32 << 10,
            hashing: When::Measured,
            packing: When::Measured,
            links: None,
        }
    }
}

/// The session could not be opened. The text has already been printed on stderr if [`Connection::open`] returned it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub String);

/// A session with a worker, shared by all threads. Dropping it abandons the session; [`Connection::close`] ends it.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
}

/// The state of a session, shared by all threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    /// Address of the worker that serves the session; the configured one until the session migrates.
    pub place: Mutex<Endpoint>,
    /// Posted requests take the slow path: strict mode waits for them, or tracing records them.
    is_attentive: bool,
    pub session: Session,
    pub ring: Ring,
    pub outgoing: Mutex<Outgoing>,
    pub sender: Sender,
    pub incoming: Mutex<Incoming>,
    pub desk: Mutex<Desk>,
    pub desk_changed: Condvar,
    /// Number of threads that want the reader role, or room in the window, but wait for no reply.
    pub seekers: AtomicUsize,
    /// The first link in use, for shutting it down to wake its reader. Additional links are in `strands`.
    pub link: Mutex<Link>,
    pub strands: Strands,
    pub deliveries: Deliveries,
    pub callbacks: Callbacks,
    pub mirrors: Mirrors,
    pub progress: Progress,
    pub uploads: Uploads,
    /// Reference-counted bodies of posted requests that are sent without copying, with their frame numbers.
    lent: Mutex<Vec<(u64, Arc<[u8]>)>>,
    neighbour: Option<Neighbour>,
    pub counters: Counters,
    pub liveness: Liveness,
    /// Number of connections this session has had, so that two threads do not replace the same broken one.
    pub generation: AtomicU64,
    /// The session is lost or closed. `ending` has the reason.
    pub over: AtomicBool,
    /// The status that calls return once the session is lost.
    pub lost_as: AtomicI32,
    pub ending: Mutex<Option<Failure>>,
    /// Reconnecting is disabled: the process exits.
    pub closing: AtomicBool,
    late: Mutex<Vec<LateError>>,
    late_there: AtomicBool,
    late_shown: Mutex<String>,
    next_token: AtomicU64,
}

impl Connection {
    /// Opens the session configured by the environment. Closes it when the process exits, and abandons it in forked
    /// children. A failure is printed on stderr once and returned without a new attempt for a few seconds.
    pub fn open() -> Result<(Connection, Welcome), OpenError> {
        reattach::remember_failures(|| {
            let config = crate::env::config().map_err(OpenError)?;
            let (connection, welcome) = Connection::open_with(config)?;
            exit::register(&connection.shared);
            watch::opened(&connection.shared, &welcome);
            Ok((connection, welcome))
        })
    }

    /// Opens a session with the given configuration. Installs no exit hook, and prints only the notice that it waits for
    /// a worker.
    pub fn open_with(config: Config) -> Result<(Connection, Welcome), OpenError> {
        let (link, session, welcome) = reattach::open(&config)?;
        let if_able = |ability, when| if session.capabilities & ability == 0 { When::Never } else { when };
        let uploads = Uploads::new(
            if_able(capability::UPLOADS, config.hashing),
            if_able(capability::PACKED, config.packing),
            &welcome.known.0,
            session.distance,
        );
        let neighbour = Neighbour::of(&link, &welcome);
        let strands = Strands::new(&config, &session);
        let failed = |error| OpenError(format!("no memory for the request window: {error}"));
        let liveness = Liveness::new(config.silence_timeout);
        let ring = Ring::new(config.window_bytes, config.window_frames).map_err(failed)?;
        let shared = Arc::new(Shared {
            is_attentive: config.strict || config.watched,
            place: Mutex::new(config.endpoint.clone()),
            config,
            session,
            ring,
            outgoing: Mutex::new(Outgoing::new(link.clone())),
            sender: Sender::default(),
            incoming: Mutex::new(Incoming::new(link.clone(), Arc::clone(&liveness.heard))),
            desk: Mutex::default(),
            desk_changed: Condvar::new(),
            seekers: AtomicUsize::new(0),
            link: Mutex::new(link),
            strands,
            deliveries: Deliveries::default(),
            callbacks: Callbacks::default(),
            mirrors: Mirrors::default(),
            progress: Progress::default(),
            uploads,
            lent: Mutex::default(),
            neighbour,
            counters: Counters::default(),
            liveness,
            generation: AtomicU64::new(0),
            over: AtomicBool::new(false),
            lost_as: AtomicI32::new(STATUS_LOST),
            ending: Mutex::new(None),
            closing: AtomicBool::new(false),
            late: Mutex::default(),
            late_there: AtomicBool::new(false),
            late_shown: Mutex::default(),
            next_token: AtomicU64::new(1),
        });
        shared.strands.belong_to(&shared);
        Sender::start(&shared)
            .map_err(|error| OpenError(format!("the sender thread cannot start: {error}")))?;
        if let Err(error) = Liveness::start(&shared) {
            shared.abandon("the session could not be opened");
            return Err(OpenError(format!("the heartbeat thread cannot start: {error}")));
        }
        Ok((Connection { shared }, welcome))
    }

    /// Capabilities that client and worker share, see [`wire::capability`].
    pub fn capabilities(&self) -> u64 {
        self.shared.session.capabilities
    }

    /// Memory mirrored on the worker: pinned, registered and managed memory.
    #[inline]
    pub fn mirrors(&self) -> &Mirrors {
        &self.shared.mirrors
    }

    /// Sends a request without waiting for a reply. `cause` is the number of the HIP function that made it. The body is
    /// copied. Fails only if the session is over; a failure of the request itself is reported later as a late error.
    #[inline]
    pub fn post<O: Operation>(&self, operation: &O, body: &[u8], cause: u16) -> Result<(), Failure> {
        let shared = &*self.shared;
        let inline = Header::BYTES + operation.size() + body.len();
        if shared.is_attentive || inline > shared.ring.largest() {
            return self.post_attentively(operation, body, cause);
        }
        self.append::<O, false>(operation, body, cause)?;
        shared.sender.wake();
        Ok(())
    }

    /// Slow path of [`post`](Self::post): strict mode, tracing, or a body too large for the ring.
    #[cold]
    fn post_attentively<O: Operation>(&self, operation: &O, body: &[u8], cause: u16) -> Result<(), Failure> {
        let shared = &*self.shared;
        let inline = Header::BYTES + operation.size() + body.len();
        if shared.config.strict || inline > shared.ring.largest() {
            return self.call_with_body(operation, body, cause).map(drop);
        }
        self.append::<O, true>(operation, body, cause)?;
        shared.sender.wake();
        Ok(())
    }

    /// Appends a posted request to the ring.
    #[inline]
    fn append<O: Operation, const WATCHED: bool>(
        &self,
        operation: &O,
        body: &[u8],
        cause: u16,
    ) -> Result<(), Failure> {
        let shared = &*self.shared;
        let inline = Header::BYTES + operation.size() + body.len();
        loop {
            if shared.over.load(Ordering::Relaxed) {
                return Err(shared.ending());
            }
            // SAFETY: no memory is lent.
            let appended = unsafe {
                shared.ring.append(inline, &[], |number, sink| {
                    wire::encode_request(operation, body, Flags::POSTED, number as u32, cause, sink);
                    if WATCHED {
                        watch::sent(O::OPCODE, number, inline as u64, false);
                    }
                })
            };
            match appended {
                Ok(_) => return Ok(()),
                Err(Full) => shared.make_room()?,
            }
        }
    }

    /// Like [`post`](Self::post), but without copying the body. The connection holds a reference to it until it is
    /// acknowledged.
    pub fn post_shared<O: Operation>(
        &self,
        operation: &O,
        body: &Arc<[u8]>,
        cause: u16,
    ) -> Result<(), Failure> {
        let shared = &*self.shared;
        if shared.config.strict || body.len() <= COPIED_BODY {
            return self.post(operation, body, cause);
        }
        if let Some((packed, body)) = shared.uploads.pack(operation, body) {
            return shared.request_shared(&packed, body, Flags::POSTED, cause).map(drop);
        }
        shared.request_shared(operation, Arc::clone(body), Flags::POSTED, cause).map(drop)
    }

    /// Sends one piece of a large transfer, compressed if that pays off. Without `POSTED` the caller must wait for the
    /// reply.
    ///
    /// # Safety
    /// The same as of [`Shared::request`].
    unsafe fn send_piece<O: Operation>(
        &self,
        operation: &O,
        piece: &[u8],
        flags: Flags,
        cause: u16,
    ) -> Result<u64, Failure> {
        match self.shared.uploads.pack(operation, piece) {
            Some((packed, body)) => self.shared.request_shared(&packed, body, flags, cause),
            // SAFETY: guaranteed by the caller.
            None => unsafe { self.shared.request(operation, piece, None, flags, cause) },
        }
    }

    /// Sends a request and waits for its reply.
    #[inline]
    pub fn call<O: Operation>(&self, operation: &O, cause: u16) -> Result<O::Reply, Failure> {
        self.call_with_body(operation, &[], cause)
    }

    /// Like [`call`](Self::call), with a body of any size that is sent from the caller's memory.
    pub fn call_with_body<O: Operation>(
        &self,
        operation: &O,
        body: &[u8],
        cause: u16,
    ) -> Result<O::Reply, Failure> {
        // SAFETY: this function borrows the body until the reply has arrived or the session is over.
        let number = unsafe { self.shared.request(operation, body, None, Flags::NONE, cause) }?;
        self.finish::<O>(number)
    }

    /// Sends a request and waits for its reply. The reply's body is read directly into `destination` and must have its
    /// length.
    pub fn call_into<O: Operation>(
        &self,
        operation: &O,
        destination: &mut [u8],
        cause: u16,
    ) -> Result<O::Reply, Failure> {
        let number = self.ask_into(operation, destination, false, cause)?;
        self.finish::<O>(number)
    }

    /// Writes device memory in stream order. On return the caller may change `bytes`: they were copied or have arrived.
    pub fn write(&self, stream: u64, destination: u64, bytes: &[u8], cause: u16) -> Result<(), Failure> {
        if bytes.len() <= COPIED_BODY {
            return self.post(&Write { stream, destination }, bytes, cause);
        }
        if let Some(neighbour) = self.neighbour(destination, bytes.len()) {
            self.reach(stream, destination, bytes.len(), cause)?;
            if neighbour.write(destination, bytes) {
                return Ok(());
            }
        }
        self.shared.consider_strands(bytes.len());
        if self.shared.uploads.is_worth_it(destination, bytes.len()) {
            return self.write_kept(stream, destination, bytes, cause);
        }
        let start = Instant::now();
        let mut pieces = bytes.chunks(PIECE).enumerate().peekable();
        while let Some((index, piece)) = pieces.next() {
            let operation = Write { stream, destination: destination + (index * PIECE) as u64 };
            let flags = if pieces.peek().is_some() { Flags::POSTED } else { Flags::NONE };
            // SAFETY: the reply of the last piece is awaited, and it implies that all earlier pieces have arrived.
            let number = unsafe { self.send_piece(&operation, piece, flags, cause) }?;
            if flags == Flags::NONE {
                self.finish::<Write>(number)?;
            }
        }
        self.shared.uploads.measured(bytes.len(), start);
        Ok(())
    }

    /// Like [`write`](Self::write), but deduplicated by content hash: pieces the worker has are sent as a hash, others
    /// are sent with their hash and the worker stores them.
    fn write_kept(&self, stream: u64, destination: u64, bytes: &[u8], cause: u16) -> Result<(), Failure> {
        let shared = &*self.shared;
        let mut asked = Vec::new();
        let mut result = Ok(());
        let mut pieces = bytes.chunks(PIECE).enumerate().peekable();
        while let Some((index, piece)) = pieces.next() {
            let hash = upload::hash(piece);
            let destination = destination + (index * PIECE) as u64;
            if shared.uploads.is_known(&hash) {
                let operation = WriteKnown { stream, destination, bytes: piece.len() as u64, hash };
                // SAFETY: no memory is lent.
                let number = unsafe { shared.request(&operation, &[], None, Flags::NONE, cause) }?;
                asked.push((number, destination, piece, hash));
                continue;
            }
            let operation = WriteKept { stream, destination, hash };
            let flags = if pieces.peek().is_some() { Flags::POSTED } else { Flags::NONE };
            // SAFETY: the last piece is awaited, whether it is known or not, and its reply implies that all earlier ones
            // have arrived.
            let number = unsafe { self.send_piece(&operation, piece, flags, cause) }?;
            if flags == Flags::NONE {
                result = self.finish::<WriteKept>(number).map(drop);
            }
            shared.uploads.note(&hash);
        }
        for (number, destination, piece, hash) in asked {
            match self.finish::<WriteKnown>(number) {
                // Cache miss: the worker no longer has this content.
                Ok(reply) if !reply.held && result.is_ok() => {
                    let operation = WriteKept { stream, destination, hash };
                    result = self.call_with_body(&operation, piece, cause).map(drop);
                }
                Ok(_) => {}
                Err(failure) => result = result.and(Err(failure)),
            }
        }
        result
    }

    /// The worker's process, if the memory can be copied directly with process_vm_writev or process_vm_readv. Excludes
    /// mirrors: the worker tracks their changes.
    fn neighbour(&self, address: u64, bytes: usize) -> Option<&Neighbour> {
        let neighbour = self.shared.neighbour.as_ref()?;
        self.shared.mirrors.host_of(address, bytes as u64).is_none().then_some(neighbour)
    }

    /// Waits until the stream reaches the point where a copy of this memory, requested now, would run.
    fn reach(&self, stream: u64, address: u64, bytes: usize, cause: u16) -> Result<(), Failure> {
        self.call(&Reach { stream, address, bytes: bytes as u64 }, cause).map(drop)
    }

    /// Whether the worker has the content with this hash, so that the hash can be sent instead.
    pub fn has_content(&self, hash: &[u8; 32]) -> bool {
        self.shared.uploads.is_known(hash)
    }

    /// Reads device memory in stream order, directly into `destination`.
    pub fn read(&self, stream: u64, source: u64, destination: &mut [u8], cause: u16) -> Result<(), Failure> {
        if let Some(neighbour) = self.neighbour(source, destination.len())
            && destination.len() > COPIED_BODY
        {
            self.reach(stream, source, destination.len(), cause)?;
            if neighbour.read(source, destination) {
                return Ok(());
            }
        }
        self.shared.consider_strands(destination.len());
        let mut asked = std::collections::VecDeque::new();
        let mut result = Ok(());
        for (index, piece) in destination.chunks_mut(PIECE).enumerate() {
            if asked.len() == PIECES_AHEAD
                && let Some(number) = asked.pop_front()
            {
                result = result.and(self.finish::<Read>(number).map(drop));
            }
            if result.is_err() {
                break;
            }
            let source = source + (index * PIECE) as u64;
            let operation = Read { stream, source, bytes: piece.len() as u64 };
            let home = self.is_home(source, piece.as_ptr() as u64, piece.len());
            match self.ask_into(&operation, piece, home, cause) {
                Ok(number) => asked.push_back(number),
                Err(failure) => result = Err(failure),
            }
        }
        // Also after a failure: nothing may write to `destination` after this function has returned.
        for number in asked {
            result = result.and(self.finish::<Read>(number).map(drop));
        }
        result
    }

    /// Requests device memory without waiting. The bytes are in `destination` once a later call that synchronizes with
    /// the stream has returned.
    ///
    /// # Safety
    /// `destination` must be valid for writes of `bytes` bytes until then.
    pub unsafe fn read_later(
        &self,
        stream: u64,
        source: u64,
        destination: NonNull<u8>,
        bytes: u64,
        cause: u16,
    ) -> Result<(), Failure> {
        self.shared.consider_strands(bytes as usize);
        let token = self.token();
        let home = self.is_home(source, destination.as_ptr() as u64, bytes as usize);
        let expected = Destination::new(destination, bytes as usize).at_home(home);
        self.shared.deliveries.expect(token, expected);
        if self.shared.config.watched {
            watch::received(bytes);
        }
        self.post(&ReadLater { stream, source, bytes, token }, &[], cause)
            .inspect_err(|_| self.shared.deliveries.forget(token))
    }

    /// Runs a function on the host in stream order; the stream waits for it. Its argument is 0, or the error that
    /// prevented the stream from reaching it. All host functions run on one dedicated thread.
    pub fn host_function(
        &self,
        stream: u64,
        cause: u16,
        function: impl FnOnce(i32) + Send + 'static,
    ) -> Result<(), Failure> {
        let token = self.token();
        Callbacks::expect(&self.shared, token, Box::new(function))?;
        self.post(&wire::HostFunction { stream, token }, &[], cause)
            .inspect_err(|_| self.shared.callbacks.forget(token))
    }

    /// Whether `source` is the device address of a mirror and `destination` the host address of the same bytes.
    fn is_home(&self, source: u64, destination: u64, bytes: usize) -> bool {
        self.shared.mirrors.host_of(source, bytes as u64) == Some(destination)
    }

    /// Allocates `count` consecutive tokens for deliveries and callbacks, and returns the first.
    pub fn tokens(&self, count: u64) -> u64 {
        self.shared.next_token.fetch_add(count, Ordering::Relaxed)
    }

    /// Registers a host function to run when the worker's Callback with this token arrives. The caller sends the request
    /// for it.
    pub fn expect_turn(
        &self,
        token: u64,
        function: impl FnOnce(i32) + Send + 'static,
    ) -> Result<(), Failure> {
        Callbacks::expect(&self.shared, token, Box::new(function))
    }

    /// Registers the destination of bytes that the worker will deliver under this token. The caller sends the request for
    /// them.
    ///
    /// # Safety
    /// `destination` must be valid for writes of `bytes` bytes until they have arrived.
    pub unsafe fn expect_bytes(&self, token: u64, destination: NonNull<u8>, bytes: usize) {
        self.shared.deliveries.expect(token, Destination::new(destination, bytes));
    }

    /// Like [`expect_bytes`](Self::expect_bytes), for packed bytes that `unpack` scatters over `covered` bytes of program
    /// memory from `address` on.
    pub fn expect_packed(
        &self,
        token: u64,
        bytes: usize,
        address: u64,
        covered: u64,
        unpack: impl FnOnce(&[u8]) + Send + 'static,
    ) {
        if bytes == 0 {
            return;
        }
        let staging = Packed(Box::into_raw(vec![0; bytes].into_boxed_slice()));
        let start = staging.0.cast::<u8>();
        let then = move || {
            let staging = staging;
            // SAFETY: made by `into_raw` above; the last byte has arrived, so the reader no longer uses it.
            let packed = unsafe { Box::from_raw(staging.0) };
            unpack(&packed);
        };
        if let Some(start) = NonNull::new(start) {
            let covers = address..address.saturating_add(covered);
            let destination = Destination::new(start, bytes);
            self.shared.deliveries.expect_then(token, destination, covers, Some(Box::new(then)));
        }
    }

    /// Whether requested bytes are still to arrive in this range of program memory.
    pub fn awaits_bytes(&self, address: u64, bytes: u64) -> bool {
        self.shared.deliveries.is_expected_at(&(address..address.saturating_add(bytes)))
    }

    /// Whether a host function of any stream is pending or running.
    pub fn awaits_host_function(&self) -> bool {
        self.shared.callbacks.any_outstanding()
    }

    /// Progress of watched streams and events.
    pub fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// Reads frames that have already arrived, unless another thread is reading. Does not wait for more.
    pub fn take_news(&self) {
        self.shared.take_news();
    }

    /// Number of requests so far. If it is unchanged, nothing was requested in between.
    pub fn requests(&self) -> u64 {
        self.shared.ring.appended()
    }

    /// Takes the oldest unreported failure of a posted request.
    #[inline]
    pub fn take_late_error(&self) -> Option<LateError> {
        if !self.shared.late_there.load(Ordering::Acquire) {
            return None;
        }
        let mut late = self.shared.late.lock();
        let error = (!late.is_empty()).then(|| late.remove(0));
        self.shared.late_there.store(!late.is_empty(), Ordering::Release);
        error
    }

    /// The reason the session is over, or `None` while it is not.
    pub fn ending(&self) -> Option<Failure> {
        self.shared.over.load(Ordering::Acquire).then(|| self.shared.ending())
    }

    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Ends the session: sends everything posted, then the worker frees the session's resources. Gives up at the
    /// deadline.
    pub fn close(&self, deadline: Duration) {
        self.shared.close(Instant::now() + deadline);
    }

    /// Number of requests so far.
    pub fn sent(&self) -> u64 {
        self.shared.ring.appended()
    }

    fn token(&self) -> u64 {
        self.tokens(1)
    }

    /// Sends a request whose reply body goes to `destination`. The caller must call `finish` in every case.
    fn ask_into<O: Operation>(
        &self,
        operation: &O,
        destination: &mut [u8],
        home: bool,
        cause: u16,
    ) -> Result<u64, Failure> {
        let destination =
            Destination::new(NonNull::from(&mut *destination).cast(), destination.len()).at_home(home);
        // SAFETY: no memory is lent, and callers keep the destination valid until `finish` has returned.
        unsafe { self.shared.request(operation, &[], Some(destination), Flags::NONE, cause) }
    }

    fn finish<O: Operation>(&self, number: u64) -> Result<O::Reply, Failure> {
        let (header, payload) = self.shared.wait_for(number, None)?;
        if self.shared.config.watched {
            watch::received(Header::BYTES as u64 + header.payload_len);
        }
        match wire::decode_reply::<O>(&header, &payload) {
            Ok(Ok((reply, _))) => Ok(reply),
            Ok(Err(failure)) => Err(failure),
            Err(error) => Err(Failure {
                status: STATUS_LOST,
                text: format!("the reply to {} is invalid: {error}", O::OPCODE.name()),
            }),
        }
    }
}

/// A staging buffer that the reader fills and the unpacking closure frees.
struct Packed(*mut [u8]);

// SAFETY: the sole owner of the buffer; the reader stops writing before the owner reads it.
unsafe impl Send for Packed {}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.abandon("the session was dropped");
    }
}

impl Shared {
    /// Appends a request whose body is lent, not copied. Without `POSTED` a reply is expected under the number returned.
    ///
    /// # Safety
    /// Body and destination must stay valid until the reply has arrived (for a posted request: the reply of a later
    /// request) or the session is over.
    pub unsafe fn request<O: Operation>(
        &self,
        operation: &O,
        body: &[u8],
        destination: Option<Destination>,
        flags: Flags,
        cause: u16,
    ) -> Result<u64, Failure> {
        let inline = Header::BYTES + operation.size();
        let thread = (flags == Flags::NONE).then(std::thread::current);
        loop {
            if self.over.load(Ordering::Acquire) {
                return Err(self.ending());
            }
            // SAFETY: guaranteed by the caller.
            let appended = unsafe {
                self.ring.append(inline, body, |number, sink| {
                    let length = (operation.size() + body.len()) as u64;
                    let mut header = Header::new(O::OPCODE, flags, number as u32, length);
                    header.function = cause;
                    sink.put(&header.encode());
                    operation.put(sink);
                    if let Some(thread) = &thread {
                        self.desk.lock().expect(number, thread.clone(), destination);
                    }
                    if self.config.watched {
                        watch::sent(O::OPCODE, number, (inline + body.len()) as u64, thread.is_some());
                    }
                })
            };
            match appended {
                Ok(number) => {
                    if thread.is_some() {
                        Counters::add(&self.counters.round_trips, 1);
                    }
                    // A broken connection is replaced by the thread that waits for a reply, or by the sender.
                    let _ = self.drain(number);
                    return Ok(number);
                }
                Err(Full) => self.make_room()?,
            }
        }
    }

    /// Like [`request`](Self::request), but holds a reference to the body until the frame is acknowledged or the session
    /// is dropped.
    fn request_shared<O: Operation>(
        &self,
        operation: &O,
        body: Arc<[u8]>,
        flags: Flags,
        cause: u16,
    ) -> Result<u64, Failure> {
        // SAFETY: `lent` holds a reference to the body below, and this function holds one until then.
        let number = unsafe { self.request(operation, &body, None, flags, cause) }?;
        let mut lent = self.lent.lock();
        lent.retain(|(number, _)| *number > self.ring.freed());
        lent.push((number, body));
        Ok(number)
    }

    pub fn ending(&self) -> Failure {
        self.ending
            .lock()
            .clone()
            .unwrap_or_else(|| Failure { status: STATUS_CLOSED, text: "the session is closed".to_owned() })
    }

    /// Ends the session after an unrecoverable failure: every waiting and every later call fails with this text. Only the
    /// holder of the reader role calls this.
    pub fn lose(&self, text: String) {
        if !self.closing.load(Ordering::Relaxed) {
            trace::line(format_args!("{text}"));
        }
        self.end(Failure { status: self.lost_as.load(Ordering::Relaxed), text });
    }

    fn end(&self, failure: Failure) {
        self.ending.lock().get_or_insert_with(|| failure.clone());
        self.over.store(true, Ordering::SeqCst);
        self.desk.lock().fail_all(&failure);
        self.desk_changed.notify_all();
        self.callbacks.fail_all(failure.status);
        self.sender.wake();
        self.liveness.wake();
    }

    /// Drops the connection without a Goodbye to the worker, which keeps the session for its grace period.
    fn abandon(&self, text: &str) {
        self.closing.store(true, Ordering::SeqCst);
        self.over.store(true, Ordering::SeqCst);
        // Wakes the reading thread, which then releases the reader role and stops writing to lent memory.
        self.link.lock().shutdown();
        self.strands.shutdown();
        self.sender.wake();
        self.liveness.wake();
        if let Some(_role) = self.incoming.try_lock_for(ABANDON_PATIENCE) {
            self.end(Failure { status: STATUS_CLOSED, text: text.to_owned() });
        }
    }

    pub fn close(&self, deadline: Instant) {
        self.closing.store(true, Ordering::SeqCst);
        if self.over.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: no memory is lent.
        let goodbye = unsafe { self.request(&wire::Goodbye {}, &[], None, Flags::NONE, 0) };
        if let Ok(number) = goodbye {
            // The reply, the end of the stream and the deadline are all acceptable.
            let _ = self.wait_for(number, Some(deadline));
        }
        self.abandon("the session is closed");
    }

    pub fn late(&self, error: LateError) {
        let name = hip_api::meta::function_name(error.function).unwrap_or("a posted call");
        // A device fault is sticky: every later posted request fails with the same text. Print it once.
        let mut shown = self.late_shown.lock();
        if *shown != error.text {
            trace::line(format_args!("{name} failed on the worker: {} (error {})", error.text, error.code));
            shown.clone_from(&error.text);
        }
        drop(shown);
        let mut late = self.late.lock();
        // Bounds the memory used if the program never checks for errors.
        if late.len() < 1024 {
            late.push(error);
        }
        self.late_there.store(true, Ordering::Release);
    }

    pub fn statistics(&self) -> Statistics {
        let round_trips = self.counters.round_trips.load(Ordering::Relaxed);
        Statistics {
            round_trips,
            posted: self.ring.appended().saturating_sub(round_trips),
            bytes_sent: self.counters.bytes_sent.load(Ordering::Relaxed),
            bytes_received: self.counters.bytes_received.load(Ordering::Relaxed),
            reconnects: self.counters.reconnects.load(Ordering::Relaxed),
        }
    }
}
