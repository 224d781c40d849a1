//! Confines the process of a session before it reads anything that a client sent.
//!
//! Hostile code in an executor is assumed. It keeps the session's own connections, memory and upload folder; files, processes, sockets
//! and sessions of others are out of its reach. What an executor needs of the machine is opened here first, and passed on in [`Ground`].

mod calls;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use backend_emulator::{Host, ObserveFiles};
use mirror::Tracker;
use sandbox::own::{Confinement, Grant, Identity};
use sandbox::{SESSION_USERS, own};

use crate::config::{BackendConfig, SessionConfig, WorkerError};
use crate::store::{self, UploadConfig};

/// Threads of one session at most.
const MOST_THREADS: u64 = 1 << 14;
/// Descriptors of one session at most.
const MOST_DESCRIPTORS: u64 = 1 << 16;

/// Where AMD's runtime has its libraries and data.
const HIP_LIBRARIES: &[&str] = &["/opt", "/usr", "/lib", "/lib64", "/etc/ld.so.cache"];
/// What it reads of the machine. Landlock hides memory, environment and descriptors of the processes in /proc all the same.
const HIP_READ: &[&str] = &["/sys", "/proc"];
const HIP_DEVICES: &[&str] =
    &["/dev/kfd", "/dev/dri", "/dev/shm", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// `/proc/self/pagemap` of a confined process, which cannot open it.
static PAGES: OnceLock<Arc<File>> = OnceLock::new();

/// What a session's process has to stand on.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    pub(crate) host: Option<Host>,
    pub(crate) observe_files: Option<Arc<ObserveFiles>>,
    /// The upload folder, under a name that can still be opened.
    pub(crate) uploads: Option<UploadConfig>,
    /// The user that the worker runs as.
    pub(crate) owner: u32,
}

impl Ground {
    /// A process without confinement.
    fn open(config: &SessionConfig, owner: u32) -> Ground {
        Ground { uploads: config.uploads.clone(), owner, ..Ground::default() }
    }
}

/// Opens what the session needs and confines this process, which has one thread.
pub(crate) fn confine(config: &SessionConfig) -> Result<Ground, WorkerError> {
    // SAFETY: returns a number and cannot fail.
    let owner = unsafe { libc::geteuid() };
    if config.unconfined {
        return Ok(Ground::open(config, owner));
    }
    let mut ground = Ground { owner, ..Ground::default() };
    let number = SESSION_USERS + std::process::id();
    let mut identity = Identity { user: number, groups: vec![number] };
    let mut confinement = Confinement {
        calls: calls::BASE.to_vec(),
        limits: vec![
            (libc::RLIMIT_CORE, 0),
            (libc::RLIMIT_NOFILE, MOST_DESCRIPTORS),
            (libc::RLIMIT_MSGQUEUE, 0),
            (libc::RLIMIT_RTPRIO, 0),
        ],
        threads: Some(MOST_THREADS),
        ..Confinement::default()
    };
    let has_landlock = own::has_landlock();
    let mut own_user = owner == 0 && own::can_change_user();
    match &config.backend {
        BackendConfig::Emulator { observe, .. } => {
            confinement.limits.push((libc::RLIMIT_MEMLOCK, 64 << 10));
            if has_landlock {
                confinement.calls.extend_from_slice(calls::FILES);
            }
            let host = Host::look();
            if let Some(pages) = &host.pages {
                PAGES.get_or_init(|| Arc::clone(pages));
            }
            ground.host = Some(host);
            if let Some(observe) = observe {
                let files = ObserveFiles::open(observe).map_err(WorkerError::Device)?;
                ground.observe_files = Some(Arc::new(files));
            }
        }
        BackendConfig::Hip { library } => {
            confinement.calls.extend_from_slice(calls::FILES);
            confinement.calls.extend_from_slice(calls::HIP);
            confinement.files = hip_files(library.as_deref());
            match hip_groups() {
                Some(groups) => identity.groups.extend(groups),
                None => own_user = false,
            }
        }
    }
    // Without Landlock the folder cannot be granted without granting all else.
    if let Some(uploads) = config.uploads.as_ref().filter(|_| has_landlock) {
        match open_uploads(uploads, own_user.then_some(&mut identity)) {
            Ok(opened) => {
                ground.uploads = Some(opened);
                confinement.files.push((uploads.folder.clone(), Grant::Keep));
            }
            Err(error) => tracing::warn!("uploads are not kept: {}: {error}", uploads.folder.display()),
        }
    }
    confinement.identity = own_user.then_some(identity);
    confinement.apply().map_err(WorkerError::Unconfined)?;
    Ok(ground)
}

/// Logs what sessions of this worker will lack of their confinement, once.
pub(crate) fn announce(config: &SessionConfig) {
    if config.unconfined {
        tracing::warn!(
            "--unconfined-executors: a client that breaks out of a session gets everything this worker's user has; only for debugging"
        );
        return;
    }
    let missing = own::missing();
    if !missing.is_empty() {
        tracing::warn!("sessions are confined without {}", missing.join(", and without "));
    }
    if config.uploads.is_some() && !own::has_landlock() {
        tracing::warn!("uploads are not kept: without Landlock a session's process gets no files at all");
    }
}

/// Tells written pages apart, as far as the kernel does.
pub(crate) fn open_tracker() -> Option<Tracker> {
    match PAGES.get() {
        Some(pages) => Tracker::with_pages(pages.try_clone().ok()?).ok(),
        None => Tracker::open().ok(),
    }
}

/// Makes the upload folder the working directory, and adds its group to a process that gets a user of its own. The result is named
/// relative to it: that user may not enter the folders on the way, and a process that is not dumpable cannot open `/proc/self/fd`.
fn open_uploads(uploads: &UploadConfig, identity: Option<&mut Identity>) -> std::io::Result<UploadConfig> {
    let folder = match identity {
        None => store::open_folder(&uploads.folder, None)?,
        Some(identity) => {
            let group = store::group(&uploads.folder);
            identity.groups.push(group);
            store::open_folder(&uploads.folder, Some(group))?
        }
    };
    // SAFETY: takes the number of an open descriptor and touches no memory.
    if unsafe { libc::fchdir(folder.as_raw_fd()) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(UploadConfig { folder: ".".into(), limit: uploads.limit })
}

fn hip_files(library: Option<&Path>) -> Vec<(PathBuf, Grant)> {
    let each = |paths: &[&str], grant| -> Vec<(PathBuf, Grant)> {
        paths.iter().map(|path| (PathBuf::from(path), grant)).collect()
    };
    let mut files = each(HIP_LIBRARIES, Grant::Load);
    files.extend(each(HIP_READ, Grant::Read));
    files.extend(each(HIP_DEVICES, Grant::Use));
    // Its neighbours are the libraries it loads.
    if let Some(folder) =
        library.and_then(|library| library.canonicalize().ok()?.parent().map(Path::to_owned))
    {
        files.push((folder, Grant::Load));
    }
    files
}

/// The groups that open AMD's devices. None if another user than root cannot open them.
fn hip_groups() -> Option<Vec<u32>> {
    let nodes = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten().map(|entry| entry.path());
    let render = nodes.filter(|path| path.to_string_lossy().contains("render"));
    let mut groups = Vec::new();
    for node in render.chain([PathBuf::from("/dev/kfd")]) {
        let Ok(data) = node.metadata() else { continue };
        let mode = data.permissions().mode();
        match data.gid() {
            _ if mode & 0o006 == 0o006 => {}
            group if group != 0 && mode & 0o060 == 0o060 => groups.push(group),
            _ => return None,
        }
    }
    groups.sort_unstable();
    groups.dedup();
    Some(groups)
}
