//! State that the threads of a session share.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use backend::Device;
use parking_lot::{Condvar, Mutex};
use transport::Link;
use wire::Hello;

use crate::compile::client::CompileClient;
use crate::control::{CONTROL_FD, Control, ToSupervisor};
use crate::growth::Growth;
use crate::outgoing::Outgoing;
use crate::request::exchange::Exchange;
use crate::request::inbox::Activity;
use crate::session::checkpoint::Checkpoints;
use crate::session::migrate_out::Departure;
use crate::store::Store;
use crate::supervision::Supervision;

/// Timeout for the last log line when a session ends: a log pipe that nobody reads must not block the exit.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Timeout for writing pending uploads to the store when a session ends.
const LAST_UPLOADS: Duration = Duration::from_secs(10);

/// State that the threads of a session share.
pub(super) struct Shared {
    pub(super) facts: Facts,
    pub(super) connection: ConnectionState,
    pub(super) counters: Counters,
    pub(super) exchange: Arc<Exchange>,
    pub(super) store: Option<Arc<Store>>,
    pub(super) growth: Arc<Growth>,
    pub(super) supervision: Arc<Supervision>,
    pub(super) device: Arc<dyn Device>,
    pub(super) outgoing: Arc<Outgoing>,
    pub(super) compiler: Arc<CompileClient>,
    pub(super) control: Arc<Control>,
    pub(super) departing: AtomicBool,
    pub(super) checkpoints: Checkpoints,
    /// Whether the session has an observer.
    pub(super) observed: AtomicBool,
    /// The supervisor's decision whether to accept a resumed session.
    pub(super) verdicts: (Mutex<mpsc::Sender<Verdict>>, Mutex<mpsc::Receiver<Verdict>>),
    pub(super) ending: AtomicBool,
}

/// What stays the same for the whole session.
pub(super) struct Facts {
    pub(super) session_id: u64,
    pub(super) secret: [u8; 32],
    pub(super) worker: String,
    pub(super) has_compiler: bool,
    /// Whether the session began in another process and was resumed here.
    pub(super) resumed: bool,
    /// Whether sessions share a memory limit, so that another one may take memory this one has not allocated yet.
    pub(super) shares_memory: bool,
    /// Whether an operator limit may refuse host memory that the machine has.
    pub(super) limits_host: bool,
    /// User id that the worker runs as.
    pub(super) owner: u32,
    /// Whether device memory is memory of this process and may be written directly by the client (no observer has to see the
    /// writes).
    pub(super) is_reachable: bool,
    pub(super) grace_lost: Duration,
    pub(super) grace_closed: Duration,
}

/// The current connection, and what the main thread is to do next.
#[derive(Default)]
pub(super) struct ConnectionState {
    pub(super) pending: Mutex<PendingWork>,
    /// Signalled when `pending` has work.
    pub(super) arrived: Condvar,
    /// Program name and process id, from the client's latest Hello.
    pub(super) client: Mutex<(String, u32)>,
    /// The connection that requests are read from.
    pub(super) reading: Mutex<Option<Link>>,
    /// Activity of the main thread on that connection.
    pub(super) activity: Arc<Activity>,
    /// Whether the client counts heartbeats as signs of life.
    pub(super) wants_beats: AtomicBool,
    /// Whether the client keeps a journal, so that it can continue from a checkpoint.
    pub(super) keeps_journal: AtomicBool,
    /// Whether the client was told that it may access device memory directly.
    pub(super) is_reached_into: AtomicBool,
    /// Whether the client stops doing so when its connection ends (`capability::DIRECT_COPIES_END`).
    pub(super) ends_direct_copies: AtomicBool,
    /// Links that have joined the connection and are not used yet, by index.
    pub(super) strands: Mutex<BTreeMap<u16, Link>>,
}

/// Numbers for the worker's status.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) round_trips: AtomicU64,
    pub(super) bytes_received: AtomicU64,
    pub(super) loads: Mutex<Vec<f32>>,
}

/// A client connection of this session.
pub(super) struct Attachment {
    pub(super) link: Link,
    pub(super) hello: Hello,
    pub(super) version: u16,
}

/// Next work for the main thread. A departure takes precedence over a connection.
#[derive(Default)]
pub(super) struct PendingWork {
    pub(super) attachment: Option<Attachment>,
    pub(super) departure: Option<Departure>,
}

/// Work that the main thread has taken.
pub(super) enum MainWork {
    Attachment(Attachment),
    Departure(Departure),
}

impl PendingWork {
    fn take(&mut self) -> Option<MainWork> {
        let departure = self.departure.take().map(MainWork::Departure);
        departure.or_else(|| self.attachment.take().map(MainWork::Attachment))
    }
}

/// The supervisor's decision about a resumed session: accepted, or why not.
pub(super) type Verdict = Result<(), String>;

impl Shared {
    /// Ends the session after its pending uploads are written.
    pub(super) fn end(&self, why: &'static str) -> ! {
        if let Some(store) = &self.store {
            store.settle(LAST_UPLOADS);
        }
        end(&self.outgoing, why)
    }

    /// Waits up to `grace` for a connection or a departure; longer if there was no supervisor to connect to.
    pub(super) fn wait_for_work(&self, grace: Duration) -> Option<MainWork> {
        let mut deadline = Instant::now() + grace;
        let mut pending = self.connection.pending.lock();
        loop {
            let work = pending.take();
            if work.is_some() {
                return work;
            }
            if self.connection.arrived.wait_until(&mut pending, deadline).timed_out() {
                match self.supervision.extension(self.facts.grace_lost) {
                    Some(more) => deadline = Instant::now() + more,
                    None => return pending.take(),
                }
            }
        }
    }
}

/// Ends the session and the process. Destructors are skipped: the kernel frees everything at once.
pub(super) fn end(outgoing: &Outgoing, why: &'static str) -> ! {
    outgoing.outbox.close();
    outgoing.device.close();
    // On a separate thread: the log pipe may be full and unread, and the process must exit regardless.
    let (sender, logged) = mpsc::channel();
    let log = move || {
        tracing::info!("session over: {why}");
        let _ = sender.send(());
    };
    if std::thread::Builder::new().spawn(log).is_ok() {
        let _ = logged.recv_timeout(LAST_WORDS);
    }
    // SAFETY: the descriptor is this process's end of its control socket, which stays open until the process ends.
    let control = ManuallyDrop::new(unsafe { Control::from_raw(CONTROL_FD) });
    // Without waiting: a supervisor that does not read must not keep the process alive.
    let _ = control.try_send(&ToSupervisor::Ended);
    // SAFETY: ends the process at once; threads inside device code must not keep running while statics are torn down.
    unsafe { libc::_exit(0) }
}
