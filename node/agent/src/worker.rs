//! The worker process of an allocation: starting it so that it outlives the agent, connecting to it, and stopping it.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use limits::LimitConfig;
use transport::Endpoint;
use worker_client::WorkerAddress;

use crate::allocation::Allocation;
use crate::certificate::Certificate;
use crate::cgroup;
use crate::config::Config;
use crate::device::{BackendKind, Backing, Gpu};
use crate::error::words;
use crate::hip_order::{self, HipOrder};
use crate::limit_files;
use crate::process::Identity;
use crate::redirect;
use crate::state::{Folder, private};
use crate::vram;

/// Host memory that a worker and each of its sessions may use in addition to what their accounting counts: code, stacks, queues.
const WORKER_BYTES: u64 = 1 << 30;
const SESSION_BYTES: u64 = 32 << 20;
/// The same for a session on an NVIDIA GPU: the driver, its compiler and the translator.
const CUDA_SESSION_BYTES: u64 = 1 << 30;
/// Limit of the caches of a worker that compiles kernels.
const CACHE_BYTES: u64 = 2 << 30;
/// Environment variable that marks a worker with its allocation.
pub(crate) const MARK: &str = "REMORA_ALLOCATION=";
/// Timeout until a new worker listens; generous, because the machine may be busy.
const START: Duration = Duration::from_secs(60);
/// Timeout of a worker that is stopped for the sessions to be saved.
const SAVE: Duration = Duration::from_secs(20);
/// Time that such a worker takes beyond the timeout, to inform clients and to end.
const SAVED: Duration = Duration::from_secs(6);
/// Grace period of a worker to end before it and its session processes are killed.
pub(crate) const END: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
const CONNECT: Duration = Duration::from_secs(2);
/// Folder of a worker's upload cache.
const UPLOADS: &str = "uploads";
/// Folder in which a worker saves its sessions when it is terminated, and from which its successor resumes them.
const SAVED_SESSIONS: &str = "saved";
/// A longer log is rotated at the worker's next start.
const LOG_BYTES: u64 = 16 << 20;

/// Returns the value of the marker. It includes the agent's folder, to tell apart the workers of several agents on one machine.
pub(crate) fn mark(folder: &Folder, id: &str) -> String {
    format!("{}:{id}", folder.path().display())
}

/// Returns the name of a worker's control group. It includes a hash of the agent's folder: an allocation that moves between two agents
/// of one machine has a worker at both, and the removal of a group ends all processes in it.
fn group(folder: &Folder, id: &str) -> String {
    let path = folder.path().as_os_str().as_encoded_bytes();
    let hash = path.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{id}-{:08x}", hash as u32)
}

/// A started worker that accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) process: Identity,
    pub(crate) port: u16,
    /// Fingerprint of its certificate, if it uses TLS.
    pub(crate) pin: Option<String>,
}

/// Starts a worker and waits until it listens. A restarted worker keeps its port, so that clients can reconnect, unless another program has
/// taken that port; then it gets a free one.
pub(crate) fn start(
    config: &Config,
    folder: &Folder,
    certificate: Option<&Certificate>,
    allocation: &Allocation,
    gpus: &[Gpu],
) -> Result<Started, String> {
    let certificate = certificate.filter(|_| config.workers_use_tls());
    let begin = |port| start_on(port, config, folder, certificate, allocation, gpus);
    let before = allocation.worker.port.unwrap_or(0);
    if !is_taken(config, before) {
        match begin(before) {
            // Another program may take the port between the check and the worker's start.
            Err(_) if is_taken(config, before) => {}
            done => return done,
        }
    }
    tracing::warn!(
        "allocation {}: another program has taken port {before}; the worker gets a free port",
        allocation.id
    );
    begin(0)
}

/// Returns whether another program listens on a port of the workers' address.
fn is_taken(config: &Config, port: u16) -> bool {
    let bind = || TcpListener::bind((config.worker_host.as_str(), port));
    port != 0 && bind().is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

fn start_on(
    port: u16,
    config: &Config,
    folder: &Folder,
    certificate: Option<&Certificate>,
    allocation: &Allocation,
    gpus: &[Gpu],
) -> Result<Started, String> {
    let out = folder.of_worker(&allocation.id, "out");
    let mut command = command(config, folder, allocation, gpus)?;
    let pin = certificate.map(Certificate::fingerprint).transpose().map_err(|error| words(&error))?;
    let host = config.worker_host.clone();
    let listen = match certificate {
        Some(certificate) => {
            command.arg("--tls-cert").arg(&certificate.chain).arg("--tls-key").arg(&certificate.key);
            Endpoint::Tls { host, port }
        }
        None => Endpoint::Tcp { host, port },
    };
    command.arg("--listen").arg(listen.to_string());
    let file = |error: std::io::Error| format!("{}: {error}", out.display());
    command.stdout(private(&out, true).map_err(file)?);
    let group = group(folder, &allocation.id);
    cgroup::groups().enter(&mut command, &group, memory_bound(config, allocation, gpus));
    let child = command.spawn().map_err(|error| error.to_string())?;
    let pid = child.id();
    cgroup::groups().check(&group, pid);
    let process = Identity::of(pid).ok_or_else(|| last_words(folder, &allocation.id))?;
    let began = Instant::now();
    loop {
        let mut said = String::new();
        let _ = std::fs::File::open(&out).and_then(|file| file.take(4096).read_to_string(&mut said));
        let port = said.lines().find_map(|line| line.strip_prefix("listening on ")?.parse::<Endpoint>().ok());
        if let Some(Endpoint::Tcp { port, .. } | Endpoint::Tls { port, .. }) = port {
            return Ok(Started { process, port, pin });
        }
        if !process.is_alive() {
            process.reap();
            return Err(last_words(folder, &allocation.id));
        }
        if began.elapsed() > START {
            end(process);
            return Err(format!("it did not start to listen within {} s", START.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns the memory limit of a worker's control group: all that its own accounting allows, plus the overhead of its processes.
fn memory_bound(config: &Config, allocation: &Allocation, gpus: &[Gpu]) -> u64 {
    let limits = LimitConfig {
        memory: Some(allocation.share.memory_limit_bytes),
        host_memory: allocation.request.memory.and_then(|memory| memory.host),
        ..LimitConfig::default()
    };
    // The memory of a software GPU is host memory.
    let software = gpus.iter().filter(|gpu| matches!(gpu.backing, Backing::Software { .. })).count() as u64;
    let devices = allocation.share.memory_limit_bytes.saturating_mul(software);
    let translates = gpus.iter().any(|gpu| gpu.backing.kind() == BackendKind::Cuda);
    let session = if translates { CUDA_SESSION_BYTES } else { SESSION_BYTES };
    let sessions = session.saturating_mul(config.max_sessions.max(1) as u64);
    let host = limits.host_limit(gpus.len() as u32);
    devices.saturating_add(host).saturating_add(WORKER_BYTES).saturating_add(sessions)
}

fn command(
    config: &Config,
    folder: &Folder,
    allocation: &Allocation,
    gpus: &[Gpu],
) -> Result<Command, String> {
    let (program, arguments) = config.worker.split_first().ok_or("no program is configured for workers")?;
    let failed = |error: std::io::Error| error.to_string();
    let secret = |kind: &str, text: &str| {
        let path = folder.of_worker(&allocation.id, kind);
        let file = private(&path, true);
        file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())).map_err(failed)?;
        Ok::<_, String>(path)
    };
    let token = secret("token", &allocation.token)?;
    let log = folder.of_worker(&allocation.id, "log");
    if std::fs::metadata(&log).is_ok_and(|it| it.len() > LOG_BYTES) {
        let _ = std::fs::rename(&log, folder.of_worker(&allocation.id, "log.1"));
    }
    let log = std::fs::OpenOptions::new().create(true).append(true).open(&log).map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments).arg("--ready");
    command.arg("--token-file").arg(token);
    if !allocation.admin_token.is_empty() {
        command.arg("--admin-token-file").arg(secret("admin-token", &allocation.admin_token)?);
    }
    let names = [allocation.name(), allocation.id.as_str()];
    let limits = config.limits.clone().unwrap_or_else(|| folder.path().join("limits"));
    let share = gpus
        .iter()
        .fold(allocation.share, |share, gpu| limit_files::apply(&limits, &names, &gpu.uuid, share));
    command.arg("--memory-limit").arg(share.memory_limit_bytes.to_string());
    command.arg("--memory-request").arg(share.memory_request_bytes.to_string());
    if let Some(host) = allocation.request.memory.and_then(|memory| memory.host) {
        command.arg("--host-memory-limit").arg(host.to_string());
    }
    for gpu in gpus {
        command.arg("--ledger").arg(vram::path(folder, &gpu.uuid));
    }
    command.arg("--ledger-owner").arg(&allocation.id);
    command.arg("--compute-limit").arg(share.compute_limit_percent.min(100.0).to_string());
    command.arg("--compute-request").arg(share.compute_request_percent.min(100.0).to_string());
    command.args(["--qos", allocation.qos.name()]);
    command.arg("--grace-closed").arg(config.grace_closed_s.to_string());
    command.arg("--saved-sessions").arg(folder.of_worker(&allocation.id, SAVED_SESSIONS));
    command.arg("--drain-timeout").arg(SAVE.as_secs().to_string());
    command.arg("--max-sessions").arg(config.max_sessions.max(1).to_string());
    let (mut ordinals, mut nvidia) = (Vec::new(), Vec::new());
    let hip = match gpus.iter().any(|gpu| matches!(gpu.backing, Backing::Hip { pci: Some(_), .. })) {
        true => HipOrder::probe(config)?,
        false => HipOrder::default(),
    };
    for gpu in gpus {
        match &gpu.backing {
            Backing::Software { model } => {
                command.args(["--device", model]);
            }
            Backing::Hip { pci, position } => {
                ordinals.push(hip.ordinal(pci.as_deref(), *position)?.to_string());
            }
            Backing::Cuda { uuid, .. } => nvidia.push(uuid.as_str()),
        }
    }
    if let Some(Backing::Cuda { imitates, .. }) = gpus.first().map(|gpu| &gpu.backing) {
        // The driver takes names instead of indices, and lists the GPUs in this order.
        command.args(["--backend", "cuda", "--as", imitates]).env("CUDA_VISIBLE_DEVICES", nvidia.join(","));
        if let Some(library) = &config.cuda_library {
            command.arg("--library").arg(library);
        }
        // Compiled kernels are kept in the upload cache. It ends with the allocation.
        command.arg("--upload-cache").arg(folder.of_worker(&allocation.id, UPLOADS));
        command.arg("--upload-cache-size").arg(CACHE_BYTES.to_string());
    } else {
        command.arg("--no-upload-cache");
    }
    if gpus.iter().all(|gpu| gpu.backing.kind() == BackendKind::Software) {
        command.arg("--memory").arg(gpus.first().map_or(0, |gpu| gpu.memory_bytes).to_string());
    }
    if !ordinals.is_empty() {
        command.args(["--backend", "hip"]).env("HIP_VISIBLE_DEVICES", ordinals.join(","));
        for name in hip_order::OTHER_FILTERS {
            command.env_remove(name);
        }
        if let Some(library) = &config.hip_library {
            command.arg("--library").arg(library);
        }
    }
    // A separate process session, so that neither a terminal's signals nor the agent's end reach the worker. The kernel sends SIGHUP to
    // a process group of the agent's session if the group is stopped when the agent ends.
    // SAFETY: one async-signal-safe call without arguments between fork and exec. It cannot fail: the new process leads no group.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    command.env(MARK.trim_end_matches('='), mark(folder, &allocation.id));
    command.env_remove("REMORA_TOKEN").env_remove("REMORA_TOKEN_FILE").env_remove("REMORA_WORKER");
    command.stdin(Stdio::null()).stderr(log);
    Ok(command)
}

/// Returns the last line of a worker's log, to report why it did not start.
fn last_words(folder: &Folder, id: &str) -> String {
    let log = std::fs::read(folder.of_worker(id, "log")).unwrap_or_default();
    let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(2000)..]).into_owned();
    let line = tail
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it ended without a message in its log");
    line.trim().to_owned()
}

/// Stops workers so that they save their sessions: sends SIGTERM, waits, and ends those that still run.
pub(crate) fn save(processes: &[Identity]) {
    processes.iter().for_each(|process| process.signal(libc::SIGTERM));
    let began = Instant::now();
    while processes.iter().any(|process| process.is_alive()) && began.elapsed() < SAVE + SAVED {
        std::thread::sleep(LOOK);
        processes.iter().for_each(|process| process.reap());
    }
    for process in processes.iter().filter(|process| process.is_alive()) {
        tracing::error!("worker {} has not saved its sessions in time and is ended", process.pid);
        end(*process);
    }
}

/// Stops a worker and ends its sessions: sends SIGINT, waits, then sends SIGKILL.
pub(crate) fn end(process: Identity) {
    process.signal(libc::SIGINT);
    let began = Instant::now();
    while process.is_alive() && began.elapsed() < END {
        std::thread::sleep(LOOK);
        process.reap();
    }
    if !process.is_alive() {
        return;
    }
    // Killed processes take a moment to end, and their memory is free only then.
    let mut all = process.children();
    all.push(process);
    all.iter().for_each(|it| it.signal(libc::SIGKILL));
    while all.iter().any(|it| it.is_alive()) && began.elapsed() < 2 * END {
        std::thread::sleep(LOOK);
        process.reap();
    }
}

/// Removes the files and control groups of a worker.
pub(crate) fn forget(folder: &Folder, id: &str) {
    for kind in ["out", "token", "admin-token", "log", "log.1", redirect::NOTE] {
        let _ = std::fs::remove_file(folder.of_worker(id, kind));
    }
    for kind in ["sessions", SAVED_SESSIONS, UPLOADS] {
        let _ = std::fs::remove_dir_all(folder.of_worker(id, kind));
    }
    cgroup::groups().remove(&group(folder, id));
}

/// Returns the address and credentials of an allocation's worker; `None` if it was never started.
pub(crate) fn place(config: &Config, allocation: &Allocation) -> Option<WorkerAddress> {
    let token = match allocation.admin_token.as_str() {
        "" => allocation.token.as_str(),
        token => token,
    };
    Some(WorkerAddress {
        endpoint: allocation.worker.endpoint(config.worker_address())?,
        token: Some(token.as_bytes().to_vec()),
        trust: allocation.worker.trust(),
        connect_timeout: CONNECT,
    })
}
