//! Confines a session's process before it reads anything that a client sent.
//!
//! The executor is assumed to run hostile code. It keeps the session's own connections, memory and upload folder; files,
//! processes, sockets and other sessions are out of reach. Resources of the machine that an executor needs are opened here first,
//! and passed on in [`PreopenedResources`].

mod calls;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use backend_emulator::{Host, ObserveFiles};
use mirror::Tracker;
use sandbox::self_confine::{Confinement, Grant, Identity};
use sandbox::{SESSION_USERS, self_confine};

use crate::config::{BackendConfig, SessionConfig};
use crate::error::WorkerError;
use crate::store::{self, UploadConfig};

/// Limit on the threads of one session.
const MOST_THREADS: u64 = 1 << 14;
/// Limit on the file descriptors of one session.
const MOST_DESCRIPTORS: u64 = 1 << 16;

/// Folders of the libraries and data of AMD's runtime and of NVIDIA's driver.
const DRIVER_LIBRARIES: &[&str] = &["/opt", "/usr", "/lib", "/lib64", "/etc/ld.so.cache"];
/// Folders that they read. Landlock still hides the memory, environment and descriptors of other processes in /proc.
const DRIVER_READ: &[&str] = &["/sys", "/proc"];
const HIP_DEVICES: &[&str] =
    &["/dev/kfd", "/dev/dri", "/dev/shm", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// Devices of NVIDIA's driver besides one for each GPU.
const CUDA_DEVICES: &[&str] = &[
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-caps",
    "/dev/shm",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
];

/// `/proc/self/pagemap`, opened before confinement, after which it cannot be opened.
static PAGES: OnceLock<Arc<File>> = OnceLock::new();

/// Resources that a session's process opened before it was confined.
#[derive(Debug, Default)]
pub(crate) struct PreopenedResources {
    pub(crate) host: Option<Host>,
    pub(crate) observe_files: Option<Arc<ObserveFiles>>,
    /// The upload folder, under a path that the confined process can open.
    pub(crate) uploads: Option<UploadConfig>,
    /// User id that the worker runs as.
    pub(crate) owner: u32,
}

impl PreopenedResources {
    /// Resources of a process without confinement.
    fn open(config: &SessionConfig, owner: u32) -> PreopenedResources {
        PreopenedResources { uploads: config.uploads.clone(), owner, ..PreopenedResources::default() }
    }
}

/// Opens what the session needs and confines this process, which must be single-threaded.
pub(crate) fn confine(config: &SessionConfig) -> Result<PreopenedResources, WorkerError> {
    // SAFETY: returns a number and cannot fail.
    let owner = unsafe { libc::geteuid() };
    if config.unconfined {
        return Ok(PreopenedResources::open(config, owner));
    }
    let mut resources = PreopenedResources { owner, ..PreopenedResources::default() };
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
    let has_landlock = self_confine::has_landlock();
    let mut own_user = owner == 0 && self_confine::can_change_user();
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
            resources.host = Some(host);
            if let Some(observe) = observe {
                let files = ObserveFiles::open(observe).map_err(WorkerError::Device)?;
                resources.observe_files = Some(Arc::new(files));
            }
        }
        BackendConfig::Hip { library } => {
            confinement.calls.extend_from_slice(calls::FILES);
            confinement.calls.extend_from_slice(calls::HIP);
            confinement.files = driver_files(library.as_deref(), HIP_DEVICES);
            match device_groups(hip_nodes()) {
                Some(groups) => identity.groups.extend(groups),
                None => own_user = false,
            }
        }
        BackendConfig::Cuda { library, .. } => {
            confinement.calls.extend_from_slice(calls::FILES);
            confinement.calls.extend_from_slice(calls::HIP);
            confinement.calls.extend_from_slice(calls::CUDA);
            confinement.files = driver_files(library.as_deref(), &cuda_devices());
            // The driver names its threads through these files, and fails if it cannot.
            confinement.files.push((PathBuf::from("/proc/self/task"), Grant::Use));
            match device_groups(cuda_nodes()) {
                Some(groups) => identity.groups.extend(groups),
                None => own_user = false,
            }
        }
    }
    // Without Landlock, access to this folder alone cannot be granted.
    if let Some(uploads) = config.uploads.as_ref().filter(|_| has_landlock) {
        let inside: &[&str] = match config.backend {
            BackendConfig::Cuda { .. } => &[store::COMPILED],
            _ => &[],
        };
        match open_uploads(uploads, inside, own_user.then_some(&mut identity)) {
            Ok(opened) => {
                resources.uploads = Some(opened);
                confinement.files.push((uploads.folder.clone(), Grant::Keep));
            }
            Err(error) => tracing::warn!("upload cache disabled: {}: {error}", uploads.folder.display()),
        }
    }
    confinement.identity = own_user.then_some(identity);
    confinement.apply().map_err(WorkerError::Unconfined)?;
    Ok(resources)
}

/// Logs once which parts of the confinement sessions of this worker will lack.
pub(crate) fn announce(config: &SessionConfig) {
    if config.unconfined {
        tracing::warn!(
            "--unconfined-executors: a client that breaks out of a session gets all rights of this worker's user; use only for debugging"
        );
        return;
    }
    let missing = self_confine::missing();
    if !missing.is_empty() {
        tracing::warn!("sessions are confined without {}", missing.join(", and without "));
    }
    if config.uploads.is_some() && !self_confine::has_landlock() {
        tracing::warn!("upload cache disabled: without Landlock a session's process cannot access files");
    }
}

/// Opens a tracker of written pages, if the kernel supports it.
pub(crate) fn open_tracker() -> Option<Tracker> {
    match PAGES.get() {
        Some(pages) => Tracker::with_pages(pages.try_clone().ok()?).ok(),
        None => Tracker::open().ok(),
    }
}

/// Makes the upload folder the working directory, and adds the folder's group to a process that gets a dedicated user. Creates the
/// folders `inside` it, since a confined process cannot create folders. Returns a relative path: that user may not enter the parent
/// folders, and a non-dumpable process cannot open `/proc/self/fd`.
fn open_uploads(
    uploads: &UploadConfig,
    inside: &[&str],
    identity: Option<&mut Identity>,
) -> std::io::Result<UploadConfig> {
    let group = identity.map(|identity| {
        let group = store::group(&uploads.folder);
        identity.groups.push(group);
        group
    });
    let folder = store::open_folders(&uploads.folder, inside, group)?;
    // SAFETY: passes the number of an open descriptor and touches no memory.
    if unsafe { libc::fchdir(folder.as_raw_fd()) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(UploadConfig { folder: ".".into(), limit: uploads.limit })
}

/// Files that a vendor's driver library needs, with its devices.
fn driver_files(library: Option<&Path>, devices: &[impl AsRef<str>]) -> Vec<(PathBuf, Grant)> {
    let each = |paths: &[&str], grant| -> Vec<(PathBuf, Grant)> {
        paths.iter().map(|path| (PathBuf::from(path), grant)).collect()
    };
    let mut files = each(DRIVER_LIBRARIES, Grant::Load);
    files.extend(each(DRIVER_READ, Grant::Read));
    files.extend(devices.iter().map(|path| (PathBuf::from(path.as_ref()), Grant::Use)));
    // Its folder also holds the libraries it loads.
    if let Some(folder) =
        library.and_then(|library| library.canonicalize().ok()?.parent().map(Path::to_owned))
    {
        files.push((folder, Grant::Load));
    }
    files
}

/// AMD's devices.
fn hip_nodes() -> Vec<PathBuf> {
    let nodes = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten().map(|entry| entry.path());
    let render = nodes.filter(|path| path.to_string_lossy().contains("render"));
    render.chain([PathBuf::from("/dev/kfd")]).collect()
}

/// The device of each NVIDIA GPU, and the ones that the driver has in common.
fn cuda_nodes() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_gpu = |path: &PathBuf| {
        let number = path.to_str().and_then(|path| path.strip_prefix("/dev/nvidia"));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let common = ["/dev/nvidiactl", "/dev/nvidia-uvm"].map(PathBuf::from);
    entries.filter(is_gpu).chain(common).collect()
}

/// All devices that NVIDIA's driver opens.
fn cuda_devices() -> Vec<String> {
    let nodes = cuda_nodes().into_iter().map(|path| path.to_string_lossy().into_owned());
    nodes.chain(CUDA_DEVICES.iter().map(|path| (*path).to_owned())).collect()
}

/// Returns the groups that may open the devices, or `None` if only root can open one of them.
fn device_groups(nodes: Vec<PathBuf>) -> Option<Vec<u32>> {
    let mut groups = Vec::new();
    for node in nodes {
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
