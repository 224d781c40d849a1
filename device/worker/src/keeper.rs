//! The keeper: a small process that holds the descriptors of a worker's sessions, so that sessions outlive their supervisor.
//!
//! A control socket stays open as long as the keeper has a copy of it. So an executor does not notice the end of its supervisor,
//! and the next supervisor continues where the last one stopped. The keeper interprets nothing that it holds: an item is a key, a
//! note that only supervisors read, and a descriptor.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::control::{CONTROL_FD, Control, ToSession};
use crate::error::WorkerError;

/// Version of everything that a supervisor leaves to the next one: the messages of this file, the notes, and the messages between
/// supervisor and executor. A supervisor adopts sessions of its own version only.
pub const HANDOVER_VERSION: u32 = 4;

/// How long the listening sockets of an upgrade are held if no supervisor takes them. Meanwhile clients connect and wait.
const LISTENERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the first message of a supervisor.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the keeper does with an item when there is no supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A control socket, on which the keeper notifies the executor when the supervisor has died.
    Control,
    /// Worth keeping without any session.
    Record,
    /// Worth keeping only as long as there are sessions.
    Part,
    /// A listening socket of an upgrade, closed early.
    Listener,
}

/// Messages from a supervisor to the keeper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToKeeper {
    /// The first message of every supervisor. The one that starts the keeper attaches the socket on which the next one connects.
    Begin { version: u32, orphan_timeout_ms: u64 },
    /// Hold an item (with a descriptor attached, or none). Replaces one with the same key.
    Put { key: String, note: String, kind: Kind },
    /// Release an item.
    Remove { key: String },
    /// Release everything and exit.
    End,
}

/// Replies of the keeper to [`ToKeeper::Begin`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromKeeper {
    /// First. Nothing follows if the versions differ.
    Hello { version: u32 },
    /// An item, with its descriptor attached.
    Item { key: String, note: String },
    /// After the last item.
    Complete,
}

struct Item {
    note: String,
    kind: Kind,
    descriptor: Option<OwnedFd>,
}

/// Main function of the keeper's process, which has the supervisor's socket as file descriptor 3. Returns when there is nothing to
/// keep any more.
pub fn keep() -> Result<(), WorkerError> {
    // SAFETY: the supervisor starts this process with its end of the socket as this descriptor; nothing else in the process uses it.
    let supervisor = unsafe { Control::from_raw(CONTROL_FD) };
    supervisor
        .close_on_exec()
        .map_err(|source| WorkerError::Io { what: "the keeper's socket failed", source })?;
    raise_descriptor_limit();
    serve(supervisor)
}

/// Serves the supervisor that started the keeper, and its successors.
pub(crate) fn serve(supervisor: Control) -> Result<(), WorkerError> {
    let failed = |source| WorkerError::Io { what: "the keeper's socket failed", source };
    let first = supervisor.receive().map_err(failed)?;
    let Some((ToKeeper::Begin { version, orphan_timeout_ms }, Some(listener))) = first else {
        return Err(WorkerError::Control(
            "the keeper's first message must be Begin with a socket".to_owned(),
        ));
    };
    let mut keeper = Keeper {
        listener,
        items: BTreeMap::new(),
        supervisor: None,
        orphan_timeout: Duration::ZERO,
        orphaned: Instant::now(),
    };
    keeper.begin(supervisor, version, orphan_timeout_ms);
    keeper.run();
    Ok(())
}

/// Raises the limit of open descriptors to what the system permits: each session needs some.
pub(crate) fn raise_descriptor_limit() {
    // SAFETY: the structure is writable, and lives through both calls.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

struct Keeper {
    /// Where the next supervisor connects.
    listener: OwnedFd,
    items: BTreeMap<String, Item>,
    supervisor: Option<Control>,
    orphan_timeout: Duration,
    /// Since when there is no supervisor.
    orphaned: Instant,
}

impl Keeper {
    fn run(&mut self) {
        loop {
            if self.supervisor.is_none() && !self.is_needed() {
                return;
            }
            let (descriptor, timeout) = match &self.supervisor {
                Some(supervisor) => (supervisor.raw_fd(), None),
                // Accepts only then: the next supervisor may connect before the end of the last one is seen here.
                None => (self.listener.as_raw_fd(), Some(self.next_deadline())),
            };
            if !wait_readable(descriptor, timeout) {
                continue;
            }
            match self.supervisor.as_ref().map(Control::receive::<ToKeeper>) {
                None => self.accept(),
                Some(Ok(Some((ToKeeper::Put { key, note, kind }, descriptor)))) => {
                    self.items.insert(key, Item { note, kind, descriptor });
                }
                Some(Ok(Some((ToKeeper::Remove { key }, _)))) => drop(self.items.remove(&key)),
                Some(Ok(Some((ToKeeper::End, _)))) => return,
                Some(Ok(Some((ToKeeper::Begin { .. }, _)))) => tracing::warn!("ignored a second Begin"),
                // Not JSON, or not a message of this version: only this item is not held.
                Some(Err(error)) if error.kind() == io::ErrorKind::Other => {
                    tracing::error!("ignored an invalid message of the supervisor: {error}");
                }
                Some(Ok(None) | Err(_)) => self.lose_supervisor(),
            }
        }
    }

    /// Whether something is to be kept for another supervisor. Closes what has been kept for long enough.
    fn is_needed(&mut self) -> bool {
        let alone = self.orphaned.elapsed();
        if alone >= LISTENERS_TIMEOUT {
            self.items.retain(|_, item| item.kind != Kind::Listener);
        }
        let sessions = self.items.values().filter(|item| item.kind == Kind::Control).count();
        if alone >= self.orphan_timeout {
            if sessions > 0 {
                tracing::error!("no supervisor for {:?}: {sessions} sessions end", self.orphan_timeout);
            }
            return false;
        }
        self.items.values().any(|item| item.kind != Kind::Part)
    }

    fn next_deadline(&self) -> Instant {
        let listens = self.items.values().any(|item| item.kind == Kind::Listener);
        let timeout = if listens { self.orphan_timeout.min(LISTENERS_TIMEOUT) } else { self.orphan_timeout };
        self.orphaned + timeout
    }

    fn lose_supervisor(&mut self) {
        self.supervisor = None;
        self.orphaned = Instant::now();
        for item in self.items.values().filter(|item| item.kind == Kind::Control) {
            let Some(control) = item.descriptor.as_ref().and_then(|it| it.try_clone().ok()) else { continue };
            // Without waiting: a hostile executor may not read its socket.
            let _ = Control::from(control).try_send(&ToSession::Orphaned);
        }
    }

    /// Accepts the next supervisor. The socket's folder admits only the worker's user; this check is independent of it.
    fn accept(&mut self) {
        // SAFETY: no address is requested; the new descriptor has no other owner.
        let accepted = unsafe {
            let fd = libc::accept4(
                self.listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            );
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
        };
        let Some(accepted) = accepted else { return };
        if let Err(text) = check_peer(accepted.as_raw_fd()) {
            tracing::error!("refused a supervisor: {text}");
            return;
        }
        let supervisor = Control::from(accepted);
        let _ = supervisor.set_receive_timeout(Some(BEGIN_TIMEOUT));
        match supervisor.receive::<ToKeeper>() {
            Ok(Some((ToKeeper::Begin { version, orphan_timeout_ms }, _))) => {
                let _ = supervisor.set_receive_timeout(None);
                self.begin(supervisor, version, orphan_timeout_ms);
            }
            _ => tracing::warn!("a connection did not begin like a supervisor"),
        }
    }

    /// Gives a supervisor a copy of everything.
    fn begin(&mut self, supervisor: Control, version: u32, orphan_timeout_ms: u64) {
        let send = |message: &FromKeeper, fd: Option<RawFd>| supervisor.send(message, fd);
        let mut sent = send(&FromKeeper::Hello { version: HANDOVER_VERSION }, None);
        if version != HANDOVER_VERSION {
            tracing::error!(
                "refused a supervisor of handover version {version}: these sessions have version {HANDOVER_VERSION}"
            );
            return;
        }
        for (key, item) in &self.items {
            let message = FromKeeper::Item { key: key.clone(), note: item.note.clone() };
            sent = sent.and_then(|()| send(&message, item.descriptor.as_ref().map(AsRawFd::as_raw_fd)));
        }
        match sent.and_then(|()| send(&FromKeeper::Complete, None)) {
            Ok(()) => {
                self.orphan_timeout = Duration::from_millis(orphan_timeout_ms);
                self.supervisor = Some(supervisor);
            }
            // It ended already. The time without a supervisor continues.
            Err(error) => tracing::warn!("a supervisor did not take the sessions: {error}"),
        }
    }
}

/// Checks that the peer of a unix socket is a process of this process's user, or of root.
pub(crate) fn check_peer(socket: RawFd) -> Result<(), String> {
    // SAFETY: the kernel writes at most the length passed into a structure that lives through the call.
    let (peer, own) = unsafe {
        let mut peer: libc::ucred = std::mem::zeroed();
        let mut bytes = size_of_val(&peer) as libc::socklen_t;
        let failed = libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        );
        if failed != 0 {
            return Err(format!("its user is not known: {}", io::Error::last_os_error()));
        }
        (peer.uid, libc::geteuid())
    };
    match peer == own || peer == 0 {
        true => Ok(()),
        false => Err(format!("it runs as user {peer}, and the worker as user {own}")),
    }
}

/// Waits until a descriptor is readable or the deadline has passed; returns whether it is readable.
pub(crate) fn wait_readable(descriptor: RawFd, deadline: Option<Instant>) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    let timeout = deadline.map_or(-1, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        libc::c_int::try_from(left).unwrap_or(libc::c_int::MAX).max(1)
    });
    // SAFETY: one structure that lives through the call.
    unsafe { libc::poll(&raw mut poll, 1, timeout) > 0 }
}
