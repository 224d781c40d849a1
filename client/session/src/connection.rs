//! The connection of this process to its worker: posted requests, calls, replies and pushes.
//!
//! Delivers requests to the worker exactly once and in order across network failures. Frames are numbered, stored in a
//! [`Ring`](crate::send::ring::Ring) and kept until acknowledged; a broken connection is replaced and the session
//! continues.
//!
//! Threads: any thread appends. The thread that gets the outgoing lock sends: normally the sender thread for posted
//! requests, and the calling thread for calls. One of the threads that wait for replies reads for all of them. No thread
//! blocks on a full socket without also reading from it, so client and worker cannot deadlock on full buffers.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wire::{Failure, Flags, Header, LateError, Operation, Welcome};

use crate::config::{Config, OpenError};
use crate::counters::Statistics;
use crate::link::handshake;
use crate::memory::mirrors::Mirrors;
use crate::receive::pending::Destination;
use crate::receive::progress::Progress;
use crate::send::ring::Full;
use crate::shared::Shared;
use crate::status;

/// Bodies up to this size are copied into the ring and posted; larger ones are sent from the caller's memory.
pub(crate) const COPIED_BODY: usize = 256 << 10;

/// A session with a worker, shared by all threads. Dropping it abandons the session; [`Connection::close`] ends it.
#[derive(Debug)]
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
}

impl Connection {
    /// Opens a session. Installs no exit hook, and prints only the notice that it waits for a worker.
    pub fn open(mut config: Config) -> Result<(Connection, Welcome), OpenError> {
        let (link, identity, welcome) = handshake::open(&mut config)?;
        let shared = Shared::new(config, link, identity, &welcome)?;
        shared.start_sender().map_err(|source| OpenError::Thread { name: "sender", source })?;
        if let Err(source) = shared.start_heartbeat() {
            shared.abandon("the session could not be opened");
            return Err(OpenError::Thread { name: "heartbeat", source });
        }
        Ok((Connection { shared }, welcome))
    }

    /// Capabilities that client and worker share, see [`wire::capability`].
    #[inline]
    pub fn capabilities(&self) -> u64 {
        self.shared.identity.capabilities
    }

    /// Memory mirrored on the worker: pinned, registered and managed memory.
    #[inline]
    pub fn mirrors(&self) -> &Mirrors {
        &self.shared.arrivals.mirrors
    }

    /// Sends a request without waiting for a reply. `cause` is the number of the HIP function that made it. The body is
    /// copied. Fails only if the session is over; a failure of the request itself is reported later as a late error.
    #[inline]
    pub fn post<O: Operation>(&self, operation: &O, body: &[u8], cause: u16) -> Result<(), Failure> {
        let shared = &*self.shared;
        let inline = Header::BYTES + operation.size() + body.len();
        if shared.is_attentive() || inline > shared.ring.largest() {
            return self.post_attentively(operation, body, cause);
        }
        self.append::<O, false>(operation, body, cause)?;
        shared.sending.sender.wake();
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
        shared.sending.sender.wake();
        Ok(())
    }

    /// Appends a posted request to the ring.
    #[inline]
    fn append<O: Operation, const OBSERVED: bool>(
        &self,
        operation: &O,
        body: &[u8],
        cause: u16,
    ) -> Result<(), Failure> {
        let shared = &*self.shared;
        let inline = Header::BYTES + operation.size() + body.len();
        loop {
            if shared.ending.over.load(Ordering::Relaxed) {
                return Err(shared.failure());
            }
            // SAFETY: no memory is lent.
            let appended = unsafe {
                shared.ring.append(inline, &[], |number, sink| {
                    wire::encode_request(operation, body, Flags::POSTED, number as u32, cause, sink);
                    if OBSERVED && let Some(traffic) = shared.config.traffic {
                        traffic.sent(O::OPCODE, number, inline as u64, false);
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

    /// Whether the worker has the content with this hash, so that the hash can be sent instead.
    pub fn has_content(&self, hash: &[u8; 32]) -> bool {
        self.shared.uploads.is_known(hash)
    }

    /// Progress of watched streams and events.
    pub fn progress(&self) -> &Progress {
        &self.shared.arrivals.progress
    }

    /// Reads frames that have already arrived, unless another thread is reading. Does not wait for more.
    pub fn read_available(&self) {
        self.shared.read_available();
    }

    /// Number of requests so far. If it is unchanged, nothing was requested in between.
    #[inline]
    pub fn requests(&self) -> u64 {
        self.shared.ring.appended()
    }

    /// Takes the oldest unreported failure of a posted request.
    #[inline]
    pub fn take_late_error(&self) -> Option<LateError> {
        self.shared.arrivals.late.take()
    }

    /// The reason the session is over, or `None` while it is not.
    pub fn ending(&self) -> Option<Failure> {
        self.shared.ending.over.load(Ordering::Acquire).then(|| self.shared.failure())
    }

    /// The counters of the session.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Whether the session is over, or about to be.
    pub fn is_ending(&self) -> bool {
        let ending = &self.shared.ending;
        ending.over.load(Ordering::Acquire) || ending.closing.load(Ordering::Acquire)
    }

    /// A second handle of the session that is never dropped, for exit and fork handlers and for threads.
    pub fn leak(&self) -> &'static Connection {
        Box::leak(Box::new(Connection { shared: Arc::clone(&self.shared) }))
    }

    /// Ends the session in a forked child, without a message to the worker. Accesses only atomics: threads that do not
    /// exist in the child may hold locks.
    pub fn forget_after_fork(&self) {
        self.shared.forget_after_fork();
    }

    /// Whether no thread is in the middle of an operation of this session. Where threads end with the process before the last
    /// library code runs, locks they held stay locked; [`close`](Self::close) would wait for those forever.
    pub fn is_idle(&self) -> bool {
        self.shared.is_idle()
    }

    /// Ends the session: sends everything posted, then the worker frees the session's resources. Gives up at the
    /// deadline.
    pub fn close(&self, deadline: Duration) {
        self.shared.close(Instant::now() + deadline);
    }

    /// Sends a request whose reply body goes to `destination`. The caller must call `finish` in every case.
    pub(crate) fn ask_into<O: Operation>(
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

    /// Waits for the reply to a request.
    pub(crate) fn finish<O: Operation>(&self, number: u64) -> Result<O::Reply, Failure> {
        let (header, payload) = self.shared.wait_for(number, None)?;
        if let Some(traffic) = self.shared.config.traffic {
            traffic.received(Header::BYTES as u64 + header.payload_len);
        }
        match wire::decode_reply::<O>(&header, &payload) {
            Ok(Ok((reply, _))) => Ok(reply),
            Ok(Err(failure)) => Err(failure),
            Err(error) => Err(Failure {
                status: status::LOST,
                text: format!("the reply to {} is invalid: {error}", O::OPCODE.name()),
            }),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.abandon("the session was dropped");
    }
}
