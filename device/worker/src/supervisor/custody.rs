//! Custody, the supervisor's side of the keeper: what it holds for the next supervisor, and how the next one gets it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use limits::LimitConfig;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use wire::SessionId;

use crate::config::HandoverConfig;
use crate::control::{Control, ShareToken};
use crate::error::WorkerError;
use crate::keeper::{FromKeeper, HANDOVER_VERSION, Kind, ToKeeper, check_peer};
use crate::supervisor::child;
use crate::supervisor::process::open_pidfd;

/// Key of [`Held::OpensElsewhere`].
pub(crate) const ELSEWHERE_KEY: &str = "elsewhere";
/// Name of the keeper's socket in the folder of saved sessions.
const SOCKET: &str = "keeper";
/// Limit on a note. Clients and executors choose some of its text.
const MAX_NOTE: usize = 24 << 10;
/// Timeout for the keeper's replies.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the end of a keeper that closes connections, and the time between two attempts to connect.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const END_INTERVAL: Duration = Duration::from_millis(20);

/// An item that the keeper holds, as supervisors read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Held {
    /// A session, with its control socket.
    Session(HeldSession),
    /// The process of a session, with its pidfd.
    Process { session: u64, pid: u32 },
    /// The compiler service of a session: a child that has to be waited for.
    Compiler { session: u64, pid: u32 },
    /// A limits page, with its memfd.
    Page { id: u64, tenant: Option<String>, limits: String },
    /// Memory that a session offers to others, with its memfd.
    Offer { token: ShareToken, session: u64, tenant: String, bytes: u64 },
    /// A session that has moved or is suspended.
    Departed { session: u64, tenant: String, secret: [u8; 32], endpoint: Option<String> },
    /// The worker that opens new sessions instead of this one.
    OpensElsewhere { endpoint: String },
    /// A listening socket, during an upgrade.
    Listener { index: usize, endpoint: String },
}

/// What a supervisor has to know of a running session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldSession {
    pub(crate) session: u64,
    pub(crate) secret: [u8; 32],
    pub(crate) tenant: String,
    pub(crate) client: String,
    pub(crate) pid: u32,
    pub(crate) peer: String,
    /// Seconds since 1970.
    pub(crate) started: u64,
    /// Its limits page and its seat on that page.
    pub(crate) seat: Option<(u64, u32)>,
}

/// Limits as text, by which a supervisor recognises the page of limits that have not changed.
pub(crate) fn limits_text(limits: &LimitConfig) -> String {
    serde_json::to_string(limits).unwrap_or_default()
}

impl Held {
    /// Key of the item.
    fn key(&self) -> String {
        match self {
            Held::Session(it) => session_key(it.session),
            Held::Process { session, .. } => process_key(*session),
            Held::Compiler { session, .. } => compiler_key(*session),
            Held::Page { id, .. } => page_key(*id),
            Held::Offer { token, .. } => offer_key(token),
            Held::Departed { session, .. } => departed_key(*session),
            Held::OpensElsewhere { .. } => ELSEWHERE_KEY.to_owned(),
            Held::Listener { index, .. } => listener_key(*index),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Held::Session(_) => Kind::Control,
            Held::Departed { .. } | Held::OpensElsewhere { .. } => Kind::Record,
            Held::Listener { .. } => Kind::Listener,
            _ => Kind::Part,
        }
    }
}

pub(crate) fn session_key(session: u64) -> String {
    format!("session/{}", SessionId(session))
}

pub(crate) fn process_key(session: u64) -> String {
    format!("process/{}", SessionId(session))
}

pub(crate) fn compiler_key(session: u64) -> String {
    format!("compiler/{}", SessionId(session))
}

pub(crate) fn departed_key(session: u64) -> String {
    format!("departed/{}", SessionId(session))
}

pub(crate) fn page_key(id: u64) -> String {
    format!("page/{id:016x}")
}

pub(crate) fn listener_key(index: usize) -> String {
    format!("listener/{index}")
}

pub(crate) fn offer_key(token: &ShareToken) -> String {
    let digits: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("offer/{digits}")
}

/// The keeper of a worker; by default none, and then sessions end with the supervisor.
#[derive(Debug, Default)]
pub(crate) struct Custody {
    keeper: Mutex<Option<Control>>,
    settled: AtomicBool,
}

impl Custody {
    /// Connects to the keeper of this folder, or starts one. Returns what it holds. The caller has locked the folder.
    pub(crate) fn open(config: &HandoverConfig) -> Result<(Custody, Vec<Taken>), WorkerError> {
        let failed = |source| WorkerError::Io { what: "cannot start the keeper of sessions", source };
        let folder = File::open(&config.folder).map_err(failed)?;
        let usable = check_folder(&config.folder, &folder).and_then(|()| {
            let opened = open_pidfd(std::process::id());
            opened.map(drop).map_err(|error| format!("the kernel has no pidfd (Linux 5.3): {error}"))
        });
        if let Err(text) = usable {
            tracing::warn!("sessions end if this process is killed: {text}");
            return Ok((Custody::default(), Vec::new()));
        }
        let begin = ToKeeper::Begin {
            version: HANDOVER_VERSION,
            orphan_timeout_ms: u64::try_from(config.orphan_timeout.as_millis()).unwrap_or(u64::MAX),
        };
        let (keeper, items) = match find(&folder, &begin)? {
            Some(found) => found,
            None => {
                let keeper = start(config, &folder, &begin).map_err(failed)?;
                let items = take(&keeper)?;
                (keeper, items)
            }
        };
        Ok((Custody { keeper: Mutex::new(Some(keeper)), settled: AtomicBool::new(false) }, items))
    }

    /// Whether there is a keeper.
    pub(crate) fn is_on(&self) -> bool {
        self.keeper.lock().is_some()
    }

    /// Has the keeper hold an item with a copy of a descriptor.
    pub(crate) fn put(&self, held: &Held, descriptor: Option<RawFd>) {
        if !self.is_on() {
            return;
        }
        let note = serde_json::to_string(held).unwrap_or_default();
        if note.is_empty() || note.len() > MAX_NOTE {
            let key = held.key();
            return tracing::warn!("{key} is not kept for the next supervisor: {} bytes", note.len());
        }
        self.send(&ToKeeper::Put { key: held.key(), note, kind: held.kind() }, descriptor);
    }

    /// From now on items can be removed. A supervisor that fails to start before leaves them to the next one.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, key: String) {
        if !self.settled.load(Ordering::Relaxed) {
            return;
        }
        self.send(&ToKeeper::Remove { key }, None);
    }

    /// Ends the keeper, when the worker ends and its sessions have ended.
    pub(crate) fn end(&self) {
        self.send(&ToKeeper::End, None);
        *self.keeper.lock() = None;
    }

    fn send(&self, message: &ToKeeper, descriptor: Option<RawFd>) {
        let mut keeper = self.keeper.lock();
        if let Some(error) = keeper.as_ref().and_then(|it| it.send(message, descriptor).err()) {
            tracing::error!("the keeper has ended, so sessions end if this process is killed: {error}");
            *keeper = None;
        }
    }
}

/// An item that was taken from the keeper, and its descriptor.
pub(crate) type Taken = (Held, Option<OwnedFd>);

/// Refuses a folder in which others could put a socket of their own.
fn check_folder(path: &Path, folder: &File) -> Result<(), String> {
    let data = folder.metadata().map_err(|error| error.to_string())?;
    // SAFETY: returns a number and cannot fail.
    let own = unsafe { libc::geteuid() };
    let mode = data.permissions().mode();
    if (data.uid() != own && data.uid() != 0) || mode & 0o022 != 0 {
        let path = path.display();
        return Err(format!(
            "{path} belongs to user {} with mode {:o}; make it a folder of user {own} that only its owner can write to (chmod 700)",
            data.uid(),
            mode & 0o7777
        ));
    }
    Ok(())
}

fn connect(folder: &File) -> io::Result<Control> {
    let socket = socket()?;
    let (address, bytes) = address(folder)?;
    // SAFETY: the structure is a unix socket address of the length passed.
    match unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), bytes) } {
        0 => Ok(Control::from(socket)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Connects to the keeper of an earlier supervisor and takes what it holds. Returns `None` if there is none.
///
/// A keeper that is just ending still accepts the connection and then closes it. The next attempt shows whether it has ended.
fn find(folder: &File, begin: &ToKeeper) -> Result<Option<(Control, Vec<Taken>)>, WorkerError> {
    let deadline = Instant::now() + END_TIMEOUT;
    loop {
        let keeper = match connect(folder) {
            Ok(keeper) => keeper,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(source) => return Err(WorkerError::Io { what: "cannot connect to the keeper", source }),
        };
        let taken = check_peer(keeper.raw_fd())
            .map_err(|text| no_reply(io::Error::other(text)))
            .and_then(|()| keeper.send(begin, None).map_err(no_reply))
            .and_then(|()| take(&keeper));
        match taken {
            Err(WorkerError::Io { source, .. }) if is_end(&source) && Instant::now() < deadline => {
                std::thread::sleep(END_INTERVAL);
            }
            taken => return taken.map(|items| Some((keeper, items))),
        }
    }
}

/// Whether the keeper has closed the connection.
fn is_end(error: &io::Error) -> bool {
    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    kinds.contains(&error.kind())
}

fn no_reply(source: io::Error) -> WorkerError {
    WorkerError::Io { what: "the keeper of sessions does not reply", source }
}

/// Starts a keeper.
fn start(config: &HandoverConfig, folder: &File, begin: &ToKeeper) -> io::Result<Control> {
    let listener = listen(&config.folder, folder)?;
    let (ours, theirs) = Control::pair()?;
    let Some(mut command) = child::command(&config.keeper, &theirs) else {
        return Err(io::Error::other("no program is configured for the keeper"));
    };
    // The worker's environment may hold its token.
    command.env_clear().envs(config.environment.iter().cloned()).current_dir("/");
    command.spawn()?;
    ours.send(begin, Some(listener.as_raw_fd()))?;
    Ok(ours)
}

/// Creates the socket on which the next supervisor connects. Replaces the one of a keeper that has ended.
fn listen(path: &Path, folder: &File) -> io::Result<OwnedFd> {
    let listener = socket()?;
    let path = path.join(SOCKET);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (address, bytes) = address(folder)?;
    // SAFETY: the structure is a unix socket address of the length passed.
    if unsafe { libc::bind(listener.as_raw_fd(), (&raw const address).cast(), bytes) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Before it listens: nobody can have connected.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    // SAFETY: no pointers are passed; the descriptor is open.
    if unsafe { libc::listen(listener.as_raw_fd(), 4) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(listener)
}

/// Receives everything that a keeper holds.
fn take(keeper: &Control) -> Result<Vec<Taken>, WorkerError> {
    keeper.set_receive_timeout(Some(REPLY_TIMEOUT)).map_err(no_reply)?;
    let mut items = Vec::new();
    loop {
        match keeper.receive().map_err(no_reply)? {
            Some((FromKeeper::Hello { version }, _)) if version != HANDOVER_VERSION => {
                return Err(WorkerError::Handover { found: version, own: HANDOVER_VERSION });
            }
            Some((FromKeeper::Hello { .. }, _)) => {}
            Some((FromKeeper::Item { key, note }, descriptor)) => match serde_json::from_str::<Held>(&note) {
                Ok(held) if held.key() == key => items.push((held, descriptor)),
                _ => tracing::error!("the keeper holds an invalid note for {key}"),
            },
            Some((FromKeeper::Complete, _)) => break,
            None => return Err(no_reply(ErrorKind::UnexpectedEof.into())),
        }
    }
    keeper.set_receive_timeout(None).map_err(no_reply)?;
    Ok(items)
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed; the new descriptor has no other owner.
    unsafe {
        match libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Address of the keeper's socket. It goes through the folder's descriptor: the path of the folder may be longer than a socket
/// address can be.
fn address(folder: &File) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
    // SAFETY: all zero is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() >= address.sun_path.len() {
        return Err(io::Error::other("the path of the keeper's socket is too long"));
    }
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    Ok((address, size_of_val(&address) as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::thread::JoinHandle;

    use super::*;
    use crate::control::ToSession;
    use crate::keeper;

    fn begin(version: u32) -> ToKeeper {
        ToKeeper::Begin { version, orphan_timeout_ms: 20_000 }
    }

    /// A keeper on a thread, and the supervisor that started it.
    fn start(path: &Path) -> (Custody, File, JoinHandle<()>) {
        let folder = File::open(path).unwrap();
        let listener = listen(path, &folder).unwrap();
        let (ours, theirs) = Control::pair().unwrap();
        let thread = std::thread::spawn(move || keeper::serve(theirs).unwrap());
        ours.send(&begin(HANDOVER_VERSION), Some(listener.as_raw_fd())).unwrap();
        assert!(take(&ours).unwrap().is_empty());
        let custody = Custody { keeper: Mutex::new(Some(ours)), settled: AtomicBool::new(true) };
        (custody, folder, thread)
    }

    fn session(session: u64) -> Held {
        Held::Session(HeldSession {
            session,
            secret: [7; 32],
            tenant: "one".to_owned(),
            client: "program".to_owned(),
            pid: 1,
            peer: "here".to_owned(),
            started: 2,
            seat: Some((3, 4)),
        })
    }

    #[test]
    fn the_next_supervisor_gets_what_the_last_one_left_and_sessions_learn_of_both() {
        let path = tempfile::tempdir().unwrap();
        let (custody, folder, keeper) = start(path.path());
        let (near, far) = Control::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"shared").unwrap();
        let offer = Held::Offer { token: [9; 32], session: 1, tenant: "one".to_owned(), bytes: 6 };
        custody.put(&session(1), Some(near.raw_fd()));
        custody.put(&session(2), Some(near.raw_fd()));
        custody.put(&offer, Some(file.as_raw_fd()));
        custody.remove(session_key(2));
        drop((custody, near, file));
        assert!(matches!(far.receive().unwrap(), Some((ToSession::Orphaned, _))));

        let next = connect(&folder).unwrap();
        check_peer(next.raw_fd()).unwrap();
        next.send(&begin(HANDOVER_VERSION), None).unwrap();
        let mut items = take(&next).unwrap();
        items.sort_by_key(|(held, _)| held.key());
        let [(first, Some(memory)), (second, Some(control))] = &mut items[..] else { panic!("{items:?}") };
        assert_eq!((&*first, &*second), (&offer, &session(1)));
        let (mut file, mut text) = (File::from(memory.try_clone().unwrap()), String::new());
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "shared");
        let control = Control::from(control.try_clone().unwrap());
        control.send(&ToSession::Supervised, None).unwrap();
        assert!(matches!(far.receive().unwrap(), Some((ToSession::Supervised, _))));
        next.send(&ToKeeper::End, None).unwrap();
        keeper.join().unwrap();
        drop((items, control));
        assert!(far.receive::<ToSession>().unwrap().is_none(), "nobody has the socket any more");
    }

    #[test]
    fn a_supervisor_of_another_version_gets_nothing_and_changes_nothing() {
        let path = tempfile::tempdir().unwrap();
        let (custody, folder, keeper) = start(path.path());
        let (near, _far) = Control::pair().unwrap();
        custody.put(&session(1), Some(near.raw_fd()));
        drop(custody);
        let other = connect(&folder).unwrap();
        other.send(&begin(HANDOVER_VERSION + 1), None).unwrap();
        let hello = other.receive().unwrap();
        assert!(matches!(hello, Some((FromKeeper::Hello { version: HANDOVER_VERSION }, _))));
        assert!(other.receive::<FromKeeper>().unwrap().is_none());
        let next = connect(&folder).unwrap();
        next.send(&begin(HANDOVER_VERSION), None).unwrap();
        assert_eq!(take(&next).unwrap().len(), 1);
        next.send(&ToKeeper::End, None).unwrap();
        keeper.join().unwrap();
    }

    #[test]
    fn a_keeper_of_another_version_is_refused_by_name() {
        let (ours, theirs) = Control::pair().unwrap();
        theirs.send(&FromKeeper::Hello { version: HANDOVER_VERSION + 1 }, None).unwrap();
        let error = take(&ours).unwrap_err();
        assert!(matches!(error, WorkerError::Handover { .. }) && error.to_string().contains("SIGTERM"));
    }

    #[test]
    fn a_keeper_that_ends_while_the_next_supervisor_connects_counts_as_none() {
        let path = tempfile::tempdir().unwrap();
        let folder = File::open(path.path()).unwrap();
        let listener = listen(path.path(), &folder).unwrap();
        // A killed keeper: its process still exists, and closes its sockets after the connection.
        let ending = std::thread::spawn(move || {
            assert!(keeper::wait_readable(listener.as_raw_fd(), None));
            std::thread::sleep(Duration::from_millis(100));
        });
        assert!(find(&folder, &begin(HANDOVER_VERSION)).unwrap().is_none());
        ending.join().unwrap();
    }

    #[test]
    fn a_keeper_that_closes_one_connection_keeps_its_sessions() {
        let path = tempfile::tempdir().unwrap();
        let (custody, folder, keeper) = start(path.path());
        let (near, _far) = Control::pair().unwrap();
        custody.put(&session(1), Some(near.raw_fd()));
        // This connection is accepted first, and closed for its first message.
        let wrong = connect(&folder).unwrap();
        wrong.send(&ToKeeper::Remove { key: session_key(1) }, None).unwrap();
        drop(custody);
        let (next, items) = find(&folder, &begin(HANDOVER_VERSION)).unwrap().expect("the keeper lives");
        assert_eq!(items.len(), 1);
        next.send(&ToKeeper::End, None).unwrap();
        keeper.join().unwrap();
    }

    #[test]
    fn a_keeper_without_sessions_ends_with_its_supervisor() {
        let path = tempfile::tempdir().unwrap();
        let (custody, _folder, keeper) = start(path.path());
        custody.put(&Held::Compiler { session: 1, pid: 2 }, None);
        drop(custody);
        keeper.join().unwrap();
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let path = tempfile::tempdir().unwrap();
        let folder = File::open(path.path()).unwrap();
        check_folder(path.path(), &folder).unwrap();
        fs::set_permissions(path.path(), fs::Permissions::from_mode(0o770)).unwrap();
        assert!(check_folder(path.path(), &folder).unwrap_err().contains("chmod 700"));
    }
}
