//! The state of a session, shared by all threads, and how requests are appended and how the session ends.
//!
//! The behaviour lies where its state does: sending in `send/sender.rs`, receiving in `receive/reader.rs`, and so on; each
//! of these files extends [`Shared`].

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use transport::{Endpoint, Link};
use wire::{Failure, Flags, Header, Operation, Sink, Welcome, capability};

use crate::config::{Candidate, Config, OpenError};
use crate::counters::{Counters, Statistics};
use crate::failover::Failover;
use crate::link::extra_links::ExtraLinks;
use crate::link::handshake::Identity;
use crate::link::liveness::Liveness;
use crate::memory::mirrors::Mirrors;
use crate::os::direct_copy::DirectCopy;
use crate::os::fork::Inherited;
use crate::receive::callbacks::Callbacks;
use crate::receive::deliveries::Deliveries;
use crate::receive::incoming::Incoming;
use crate::receive::late::LateErrors;
use crate::receive::pending::{Destination, PendingReplies};
use crate::receive::progress::Progress;
use crate::send::outgoing::{Outgoing, Sender};
use crate::send::ring::{Full, Ring};
use crate::send::upload::{Uploads, When};
use crate::status;

/// How long [`Shared::abandon`] waits for the reading thread to release the reader role.
const ABANDON_PATIENCE: Duration = Duration::from_millis(500);

/// The state of a session.
#[derive(Debug)]
pub struct Shared {
    pub config: Config,
    pub identity: Identity,
    pub ring: Ring,
    pub sending: Sending,
    pub receiving: Receiving,
    pub arrivals: Arrivals,
    pub links: Links,
    pub liveness: Liveness,
    pub uploads: Uploads,
    /// The worker's process, if its memory can be copied directly over the current connection.
    pub direct_copy: Mutex<Option<Arc<DirectCopy>>>,
    pub counters: Counters,
    pub ending: Ending,
    /// This session, for threads that it starts.
    this: Weak<Shared>,
    /// Posted requests take the slow path: strict mode waits for them, or an observer records them.
    is_attentive: bool,
}

/// What is being sent.
#[derive(Debug)]
pub struct Sending {
    pub outgoing: Mutex<Outgoing>,
    pub sender: Sender,
    /// What is kept to continue the session on another worker, if that was requested.
    pub failover: Option<Failover>,
    /// Reference-counted bodies of posted requests that are sent without copying, with their frame numbers.
    lent: Mutex<Vec<(u64, Arc<[u8]>)>>,
}

/// What is being received, and who waits for it.
#[derive(Debug)]
pub struct Receiving {
    pub incoming: Mutex<Incoming>,
    pub pending: Mutex<PendingReplies>,
    /// Notified when the reader role is free or a frame was acknowledged.
    pub changed: Condvar,
    /// Number of threads that want the reader role, or room in the window, but wait for no reply.
    pub seekers: AtomicUsize,
}

/// What the worker pushes.
#[derive(Debug)]
pub struct Arrivals {
    pub deliveries: Deliveries,
    pub callbacks: Callbacks,
    pub mirrors: Mirrors,
    pub progress: Progress,
    pub late: LateErrors,
    /// The next unused token of deliveries and callbacks.
    pub next_token: AtomicU64,
}

/// The connection in use.
#[derive(Debug)]
pub struct Links {
    /// The worker that serves the session; the configured one until the session migrates or fails over.
    pub worker: Mutex<Candidate>,
    /// The first link, for shutting it down to wake its reader.
    pub first: Mutex<Link>,
    pub extra: ExtraLinks,
    /// Number of connections this session has had, so that two threads do not replace the same broken one.
    pub generation: AtomicU64,
    /// The descriptor of the first link, which a forked child closes without a lock.
    inherited: Inherited,
}

/// Whether and why the session is over.
#[derive(Debug)]
pub struct Ending {
    /// The session is lost or closed. `reason` says why.
    pub over: AtomicBool,
    /// Reconnecting is disabled: the process exits.
    pub closing: AtomicBool,
    /// The status that calls return once the session is lost.
    pub lost_as: AtomicI32,
    pub reason: Mutex<Option<Failure>>,
}

impl Links {
    /// Address of the worker that serves the session.
    pub fn endpoint(&self) -> Endpoint {
        self.worker.lock().endpoint.clone()
    }

    /// Records the file descriptor of a new first link.
    pub fn note_descriptor(&self, link: &Link) {
        self.inherited.replace(link);
    }
}

impl Shared {
    /// The state of a session that was just opened over `link`, without threads.
    pub fn new(
        config: Config,
        link: Link,
        identity: Identity,
        welcome: &Welcome,
    ) -> Result<Arc<Shared>, OpenError> {
        let if_able = |ability, when| if identity.capabilities & ability == 0 { When::Never } else { when };
        let failover = config.retention.failover.as_ref().map(|limits| Failover::new(limits, welcome));
        // Another worker does not have the contents that a hash refers to.
        let hashing = if failover.is_some() { When::Never } else { config.copies.hashing };
        let uploads = Uploads::new(
            if_able(capability::UPLOADS, hashing),
            if_able(capability::PACKED, config.copies.packing),
            &welcome.known.0,
            identity.distance,
        );
        let liveness = Liveness::new(config.silence_timeout);
        let window = config.retention.window;
        let ring = Ring::new(window.bytes, window.frames).map_err(OpenError::Window)?;
        // Direct copies bypass the journal.
        let direct_copy = DirectCopy::of(&link, welcome).filter(|_| failover.is_none());
        Ok(Arc::new_cyclic(|this| Shared {
            this: Weak::clone(this),
            is_attentive: config.strict || config.traffic.is_some(),
            ring,
            sending: Sending {
                outgoing: Mutex::new(Outgoing::new(link.clone())),
                sender: Sender::default(),
                failover,
                lent: Mutex::default(),
            },
            receiving: Receiving {
                incoming: Mutex::new(Incoming::new(link.clone(), Arc::clone(&liveness.activity))),
                pending: Mutex::default(),
                changed: Condvar::new(),
                seekers: AtomicUsize::new(0),
            },
            arrivals: Arrivals {
                deliveries: Deliveries::default(),
                callbacks: Callbacks::default(),
                mirrors: Mirrors::new(config.host),
                progress: Progress::default(),
                late: LateErrors::default(),
                next_token: AtomicU64::new(1),
            },
            direct_copy: Mutex::new(direct_copy.map(Arc::new)),
            links: Links {
                worker: Mutex::new(Candidate {
                    endpoint: config.endpoint.clone(),
                    token: config.token.clone(),
                    trust: config.trust.clone(),
                }),
                extra: ExtraLinks::new(&config, &identity),
                generation: AtomicU64::new(0),
                inherited: Inherited::of(&link),
                first: Mutex::new(link),
            },
            liveness,
            uploads,
            counters: Counters::default(),
            ending: Ending {
                over: AtomicBool::new(false),
                closing: AtomicBool::new(false),
                lost_as: AtomicI32::new(status::LOST),
                reason: Mutex::new(None),
            },
            identity,
            config,
        }))
    }

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
        let thread = (flags == Flags::NONE).then(|| self.waiting_thread());
        loop {
            if self.ending.over.load(Ordering::Acquire) {
                return Err(self.failure());
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
                        self.receiving.pending.lock().expect(number, thread.clone(), destination);
                    }
                    if let Some(traffic) = self.config.traffic {
                        traffic.sent(O::OPCODE, number, (inline + body.len()) as u64, thread.is_some());
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

    /// The thread to wake when a reply has arrived. At the end of a Windows process the calling thread has no handle any more; it
    /// is then the only thread and reads for itself, so any handle will do.
    fn waiting_thread(&self) -> Thread {
        match self.sending.sender.thread() {
            Some(sender) if cfg!(windows) && self.ending.closing.load(Ordering::Relaxed) => sender.clone(),
            _ => std::thread::current(),
        }
    }

    /// Like [`request`](Self::request), but holds a reference to the body until the frame is acknowledged or the session
    /// is dropped.
    pub fn request_shared<O: Operation>(
        &self,
        operation: &O,
        body: Arc<[u8]>,
        flags: Flags,
        cause: u16,
    ) -> Result<u64, Failure> {
        // SAFETY: `lent` holds a reference to the body below, and this function holds one until then.
        let number = unsafe { self.request(operation, &body, None, flags, cause) }?;
        let mut lent = self.sending.lent.lock();
        lent.retain(|(number, _)| *number > self.ring.freed());
        lent.push((number, body));
        Ok(number)
    }

    /// Whether posted requests take the slow path.
    #[inline]
    pub fn is_attentive(&self) -> bool {
        self.is_attentive
    }

    /// This session, for a thread that it starts; `None` while it is being dropped.
    pub fn owned(&self) -> Option<Arc<Shared>> {
        self.this.upgrade()
    }

    /// The reason that the session is over.
    pub fn failure(&self) -> Failure {
        let reason = self.ending.reason.lock().clone();
        reason.unwrap_or_else(|| Failure { status: status::CLOSED, text: "the session is closed".to_owned() })
    }

    /// Ends the session after an unrecoverable failure: every waiting and every later call fails with this text. Only the
    /// holder of the reader role calls this.
    pub fn lose(&self, text: String) {
        if !self.ending.closing.load(Ordering::Relaxed) {
            self.config.host.line(format_args!("{text}"));
        }
        self.end(Failure { status: self.ending.lost_as.load(Ordering::Relaxed), text });
    }

    fn end(&self, failure: Failure) {
        self.ending.reason.lock().get_or_insert_with(|| failure.clone());
        self.ending.over.store(true, Ordering::SeqCst);
        self.receiving.pending.lock().fail_all(&failure);
        self.receiving.changed.notify_all();
        self.arrivals.callbacks.fail_all(failure.status);
        self.sending.sender.wake();
        self.liveness.wake();
    }

    /// Drops the connection without a Goodbye to the worker, which keeps the session for its grace period.
    pub fn abandon(&self, text: &str) {
        self.ending.closing.store(true, Ordering::SeqCst);
        self.ending.over.store(true, Ordering::SeqCst);
        // Wakes the reading thread, which then releases the reader role and stops writing to lent memory.
        self.links.first.lock().shutdown();
        self.links.extra.shutdown();
        self.sending.sender.wake();
        self.liveness.wake();
        if let Some(_role) = self.receiving.incoming.try_lock_for(ABANDON_PATIENCE) {
            self.end(Failure { status: status::CLOSED, text: text.to_owned() });
        }
    }

    /// Ends the session: sends everything posted, then the worker frees the session's resources.
    pub fn close(&self, deadline: Instant) {
        self.ending.closing.store(true, Ordering::SeqCst);
        if self.ending.over.load(Ordering::SeqCst) {
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

    /// Whether none of the locks that [`close`](Self::close) takes is held.
    pub fn is_idle(&self) -> bool {
        !(self.ring.is_locked()
            || self.sending.outgoing.is_locked()
            || self.sending.lent.is_locked()
            || self.receiving.incoming.is_locked()
            || self.receiving.pending.is_locked()
            || self.links.first.is_locked()
            || self.ending.reason.is_locked())
    }

    /// Ends the session in a forked child, which has no threads of it and must not use its parent's socket. Other threads
    /// may have held locks when the process forked, so only atomics are accessed.
    pub fn forget_after_fork(&self) {
        self.ending.over.store(true, Ordering::Release);
        self.ending.closing.store(true, Ordering::Release);
        // SAFETY: the child's copy of the socket; the parent's stays open, and nothing in the child uses it.
        unsafe { self.links.inherited.close() };
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
