//! `remora worker`: command-line options of the worker.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use transport::{Address, DEFAULT_PORT, Endpoint, tls};
use worker::{
    BackendConfig, CheckpointConfig, CompilerConfig, DeviceConfig, DrainConfig, HandoverConfig, LedgerConfig,
    LimitConfig, Qos, SessionConfig, TokenConfig, UploadConfig, WorkerConfig,
};
use worker_status::parse_bytes;

use crate::certificate;
use crate::compiler::{self, Need};
use crate::env::Environment;
use crate::migrate;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// Software GPUs, emulated on this machine's CPU
    Emulator,
    /// AMD GPUs through AMD's HIP runtime
    Hip,
    /// NVIDIA GPUs, which imitate an AMD GPU: kernels are translated
    Cuda,
}

/// Quality-of-service class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Class {
    Low,
    Medium,
    High,
    Critical,
}

impl From<Class> for Qos {
    fn from(class: Class) -> Qos {
        match class {
            Class::Low => Qos::Low,
            Class::Medium => Qos::Medium,
            Class::High => Qos::High,
            Class::Critical => Qos::Critical,
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Address to listen on: host:port, tls://host:port or unix:/path; port 0 picks a free port. An address that other
    /// machines can reach needs a token. Repeatable
    #[arg(long, value_name = "ENDPOINT")]
    listen: Vec<String>,
    /// Back end: which kind of GPU to offer
    #[arg(long, value_enum, default_value = "emulator")]
    backend: Backend,
    /// GPU model to emulate: mi300x (the default), mi300a, mi325x, mi210 or mi250x. Repeatable
    #[arg(long, value_name = "MODEL")]
    device: Vec<String>,
    /// Memory size of each emulated GPU, such as 16G [default: the model's memory, at most an equal share of this machine's memory]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// GPU model that NVIDIA GPUs imitate with --backend cuda: its processor decides which kernels run
    #[arg(long = "as", value_name = "MODEL", default_value = "mi300x")]
    imitate: String,
    /// Path of the libamdhip64 to load with --backend hip, or of the libcuda with --backend cuda
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// File with the token that clients need [default: REMORA_TOKEN]; `remora token new` creates one. Without a token, the worker serves
    /// only programs of the user who started it and of root
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with several tokens, each with a name and separate limits (docs/tokens.md). Reloaded on SIGHUP
    #[arg(long, value_name = "FILE", conflicts_with = "token_file")]
    tokens: Option<PathBuf>,
    /// File with the administration token, which permits listing and moving the sessions of all tenants
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Certificate chain (PEM) for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Use TLS with a self-signed certificate, which is generated once and stored in the folder of saved sessions; clients can pin its
    /// fingerprint, which is logged
    #[arg(long, conflicts_with = "tls_cert")]
    tls_self_signed: bool,
    /// Grace period: seconds for which a session is kept after its connection was lost
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    grace: f64,
    /// Seconds for which a session is kept after its client closed the connection without ending the session
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    grace_closed: f64,
    /// Seconds after which a kernel is aborted; 0 means no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    watchdog: f64,
    /// Folder where sessions are saved when the worker is terminated (SIGTERM) and resumed from at its next start [default: a folder
    /// for the first fixed port, below the user's state folder]
    #[arg(long, value_name = "DIR", help_heading = "Termination")]
    saved_sessions: Option<PathBuf>,
    /// End sessions when the worker is terminated
    #[arg(long, conflicts_with_all = ["saved_sessions", "successor"], help_heading = "Termination")]
    no_saved_sessions: bool,
    /// Worker that takes the sessions when this one is terminated; needs the administration token of both workers in
    /// REMORA_ADMIN_TOKEN_FILE
    #[arg(long, value_name = "ENDPOINT|URL", help_heading = "Termination")]
    successor: Option<String>,
    /// Seconds that sessions have to leave; those that did not are ended. A second signal ends all at once
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, help_heading = "Termination")]
    drain_timeout: f64,
    /// Seconds for which sessions wait for the next worker with this folder of saved sessions if this one is killed; 0 ends them with it.
    /// Also needed for SIGUSR2, which replaces the program in place
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, help_heading = "Termination")]
    orphan_timeout: f64,
    /// Where running sessions are stored from time to time, so that they continue if their process or the machine dies: a folder, or the
    /// URL of another worker, which then continues them and needs a folder itself. Both may be given: the folder is then for the
    /// sessions of other workers. Applies to programs with REMORA_FAILOVER=1
    #[arg(long, value_name = "DIR|URL", help_heading = "Failover")]
    checkpoint: Vec<String>,
    /// Seconds between two checkpoints of a session
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10.0,
        requires = "checkpoint",
        help_heading = "Failover"
    )]
    checkpoint_interval: f64,
    /// Maximum number of concurrent sessions
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_sessions: usize,
    /// Timeout in seconds for the handshake and authentication of a connection
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    handshake_timeout: f64,
    /// Folder with clang, HIP headers and device libraries for hiprtc [default: REMORA_TOOLCHAIN, else a folder `toolchain` near
    /// the program, else /opt/rocm]
    #[arg(long, value_name = "DIR")]
    toolchain: Option<PathBuf>,
    /// Cache folder for programs compiled with hiprtc
    #[arg(long, value_name = "DIR")]
    compile_cache: Option<PathBuf>,
    /// Run hiprtc's compiler even if this machine cannot sandbox it; every client can then read every file that the worker
    /// can read
    #[arg(long)]
    unconfined_compiler: bool,
    /// Cache folder for uploads, so that the next run of a program sends hashes instead of the data
    #[arg(long, value_name = "DIR")]
    upload_cache: Option<PathBuf>,
    /// Maximum size of the upload cache
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "8G")]
    upload_cache_size: u64,
    /// Do not cache uploads
    #[arg(long, conflicts_with = "upload_cache")]
    no_upload_cache: bool,
    /// Do not sandbox session processes; a client that takes over its process then has all rights of the worker's user. For debugging
    #[arg(long)]
    unconfined_executors: bool,
    /// Print `listening on ADDRESS` to standard output once the worker accepts clients
    #[arg(long)]
    ready: bool,
    /// Exit when the parent process exits
    #[arg(long)]
    exit_with_parent: bool,
    /// Ignore the section [worker] of configuration files (given by commands that start workers of their own)
    #[arg(long, hide = true)]
    no_config: bool,
    /// Exit after this many seconds without a session, for machines that are billed by the hour
    #[arg(long, value_name = "SECONDS")]
    exit_when_idle: Option<f64>,
    /// Maximum memory of each GPU for all sessions together, such as 48G. Allocations beyond it fail with hipErrorOutOfMemory
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Limits")]
    memory_limit: Option<u64>,
    /// Memory of each GPU that is reserved for this worker [default: the limit]. Needs a ledger
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Limits", hide = true)]
    memory_request: Option<u64>,
    /// Maximum host memory for all sessions together: pinned, registered and managed memory, graphs, code objects and
    /// compilers [default: --memory-limit times the number of GPUs, plus 512M; without --memory-limit, the machine's memory]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Limits")]
    host_memory_limit: Option<u64>,
    /// Memory ledger of each GPU, in the order of the GPUs (given by `remora agent`)
    #[arg(long, value_name = "FILE", hide = true, requires = "ledger_owner", requires = "memory_limit")]
    ledger: Vec<PathBuf>,
    /// Name of this worker in its memory ledgers
    #[arg(long, value_name = "NAME", hide = true)]
    ledger_owner: Option<String>,
    /// Maximum percentage of each GPU's time for all sessions together; kernel launches are delayed above it
    #[arg(long, value_name = "PERCENT", help_heading = "Limits")]
    compute_limit: Option<f64>,
    /// Percentage of each GPU's time that this worker gets even if other workers use the GPU [default: the limit]
    #[arg(long, value_name = "PERCENT", help_heading = "Limits")]
    compute_request: Option<f64>,
    /// Priority class among workers that use a GPU at the same time [default: medium with --compute-request, else high]
    #[arg(long, value_enum, value_name = "CLASS", help_heading = "Limits")]
    qos: Option<Class>,
    /// Observation of emulated kernels, as JSON (given by `remora emulate`)
    #[arg(long, hide = true, value_name = "JSON")]
    observe: Option<String>,
}

pub fn run(arguments: &Arguments, environment: &Environment) -> Result<()> {
    if arguments.exit_with_parent {
        exit_with_parent();
    }
    let mut listen = Vec::new();
    for text in &arguments.listen {
        listen.push(text.parse::<Endpoint>()?);
    }
    if listen.is_empty() {
        listen.push(Endpoint::tcp("127.0.0.1", DEFAULT_PORT));
    }
    let drain = drain(arguments, environment, &listen)?;
    let identity = identity(arguments, &listen, drain.as_ref().and_then(|drain| drain.folder.as_deref()))?;
    let backend = match arguments.backend {
        Backend::Hip => BackendConfig::Hip { library: arguments.library.clone() },
        Backend::Cuda => {
            BackendConfig::Cuda { library: arguments.library.clone(), model: arguments.imitate.clone() }
        }
        Backend::Emulator => {
            let models = if arguments.device.is_empty() {
                vec!["mi300x".to_owned()]
            } else {
                arguments.device.clone()
            };
            let device = |model| DeviceConfig { model, memory: arguments.memory };
            let observe = arguments.observe.as_deref().map(serde_json::from_str).transpose();
            BackendConfig::Emulator {
                devices: models.into_iter().map(device).collect(),
                observe: observe.context("--observe is not valid JSON for an observation")?,
            }
        }
    };
    let session = SessionConfig {
        backend,
        watchdog: if arguments.watchdog > 0.0 {
            Some(seconds(arguments.watchdog, "--watchdog")?)
        } else {
            None
        },
        grace_closed: seconds(arguments.grace_closed, "--grace-closed")?,
        grace_lost: seconds(arguments.grace, "--grace")?,
        compiler: CompilerConfig {
            toolchain: arguments.toolchain.clone().or_else(|| environment.toolchain.clone()),
            cache: arguments.compile_cache.clone().or_else(|| environment.compile_cache()),
            unconfined: arguments.unconfined_compiler,
        },
        uploads: arguments
            .upload_cache
            .clone()
            .or_else(|| environment.upload_cache())
            .filter(|_| !arguments.no_upload_cache)
            .map(|folder| UploadConfig { folder, limit: arguments.upload_cache_size }),
        limits: limits(arguments),
        unconfined: arguments.unconfined_executors,
    };
    let toolchain = session.compiler.toolchain.as_deref();
    // The worker of one program does not warn: nearly no program compiles at run time, and the error of those names the cause.
    if !arguments.exit_with_parent
        && let Some(text) = compiler::warning(toolchain, Need::RunTimeCompilation)
    {
        tracing::warn!("{text}");
    }
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    worker::supervise(WorkerConfig {
        handover: handover(arguments, environment, drain.as_ref(), &program)?,
        drain,
        checkpoints: checkpoints(arguments, environment)?,
        listen,
        tokens: tokens(arguments, environment)?,
        tokens_file: arguments.tokens.clone(),
        local_tokens: environment.local_tokens(),
        tls: identity,
        max_sessions: arguments.max_sessions.max(1),
        handshake_timeout: seconds(arguments.handshake_timeout, "--handshake-timeout")?,
        executor: vec![program.clone(), "executor".into()],
        compiler: vec![program, "compiler".into()],
        executor_environment: environment.executor_variables(),
        session,
        announce: arguments.ready,
        ledgers: (!arguments.ledger.is_empty()).then(|| LedgerConfig {
            owner: arguments.ledger_owner.clone().unwrap_or_default(),
            files: arguments.ledger.clone(),
        }),
        exit_when_idle: arguments
            .exit_when_idle
            .map(|limit| seconds(limit, "--exit-when-idle"))
            .transpose()?,
    })?;
    Ok(())
}

/// Where checkpoints go: at most one folder and one worker.
fn checkpoints(arguments: &Arguments, environment: &Environment) -> Result<Option<CheckpointConfig>> {
    let (urls, folders): (Vec<&String>, Vec<&String>) =
        arguments.checkpoint.iter().partition(|text| Address::is_url(text));
    if urls.len() > 1 || folders.len() > 1 {
        bail!("--checkpoint takes one folder and one URL, not {} and {}", folders.len(), urls.len());
    }
    if arguments.checkpoint.is_empty() {
        return Ok(None);
    }
    if let Some(other) = folders.iter().find(|text| text.contains("://")) {
        bail!("--checkpoint {other}: a worker's URL starts with remora://, remora+tls:// or remora+unix://");
    }
    let peer = urls.first().map(|url| migrate::peer(url, environment).context("--checkpoint")).transpose()?;
    let interval = seconds(arguments.checkpoint_interval, "--checkpoint-interval")?;
    Ok(Some(CheckpointConfig { folder: folders.first().map(PathBuf::from), peer, interval }))
}

/// Where sessions go when the worker is terminated. The worker of one program has no next start.
fn drain(
    arguments: &Arguments,
    environment: &Environment,
    listen: &[Endpoint],
) -> Result<Option<DrainConfig>> {
    if arguments.no_saved_sessions {
        return Ok(None);
    }
    let usual = || {
        let mut ports = listen.iter().filter_map(|endpoint| match endpoint {
            Endpoint::Tcp { port, .. } | Endpoint::Tls { port, .. } => Some(*port),
            Endpoint::Unix { .. } => None,
        });
        let port = ports.find(|port| *port != 0).filter(|_| !arguments.exit_with_parent)?;
        environment.saved_sessions(port)
    };
    let folder = arguments.saved_sessions.clone().or_else(usual);
    let successor = match &arguments.successor {
        Some(text) => Some(migrate::place(text, environment).context("--successor")?),
        None => None,
    };
    let timeout = seconds(arguments.drain_timeout, "--drain-timeout")?;
    Ok((folder.is_some() || successor.is_some()).then_some(DrainConfig { folder, successor, timeout }))
}

/// How sessions outlive a supervisor that is killed or upgraded. The worker of one program ends with that program.
fn handover(
    arguments: &Arguments,
    environment: &Environment,
    drain: Option<&DrainConfig>,
    program: &Path,
) -> Result<Option<HandoverConfig>> {
    let orphan_timeout = seconds(arguments.orphan_timeout, "--orphan-timeout")?;
    let folder = drain.and_then(|drain| drain.folder.clone());
    let folder = folder.filter(|_| !arguments.exit_with_parent && !orphan_timeout.is_zero());
    Ok(folder.map(|folder| HandoverConfig {
        folder,
        keeper: vec![program.to_owned(), "keeper".into()],
        environment: environment.executor_variables(),
        orphan_timeout,
        program: std::env::args_os().collect(),
        version_arguments: vec!["handover-version".into()],
    }))
}

/// Tokens from the options and the environment.
fn tokens(arguments: &Arguments, environment: &Environment) -> Result<Vec<TokenConfig>> {
    let mut tokens = Vec::new();
    if arguments.tokens.is_none() {
        tokens.extend(environment.token(arguments.token_file.as_deref())?.map(TokenConfig::only));
    }
    if let Some(file) = &arguments.admin_token_file {
        tokens.push(TokenConfig::admin(transport::token::read_file(file)?));
    }
    Ok(tokens)
}

/// Limits, if any of their options is set.
fn limits(arguments: &Arguments) -> Option<LimitConfig> {
    let limits = LimitConfig {
        memory: arguments.memory_limit,
        memory_request: arguments.memory_request,
        host_memory: arguments.host_memory_limit,
        compute: arguments.compute_limit,
        request: arguments.compute_request,
        // A worker whose limit equals its request does not take time from others, so it gets a high class.
        qos: arguments
            .qos
            .map_or(if arguments.compute_request.is_some() { Qos::Medium } else { Qos::High }, Qos::from),
    };
    let asked = limits.memory.is_some()
        || limits.host_memory.is_some()
        || limits.compute.is_some()
        || limits.request.is_some();
    (asked || arguments.qos.is_some()).then_some(limits)
}

/// The certificate. One that is self-signed is stored in the folder of saved sessions, if there is one.
fn identity(
    arguments: &Arguments,
    listen: &[Endpoint],
    folder: Option<&Path>,
) -> Result<Option<tls::Identity>> {
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        return Ok(Some(tls::Identity::from_files(certificate, key)?));
    }
    if !arguments.tls_self_signed {
        return Ok(None);
    }
    let mut names = vec!["localhost".to_owned()];
    for endpoint in listen {
        if let Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } = endpoint {
            names.push(host.clone());
        }
    }
    let identity = match folder {
        Some(folder) => certificate::stored(folder, &names)?,
        None => tls::Identity::self_signed(&names)?,
    };
    tracing::info!(
        "clients can pin this worker's certificate with REMORA_TLS_CA={}",
        identity.fingerprint_text()
    );
    Ok(Some(identity))
}

fn seconds(seconds: f64, option: &str) -> Result<Duration> {
    ensure!(
        seconds.is_finite() && (0.0..=1e9).contains(&seconds),
        "{option} {seconds} is out of range (0 to 1e9 seconds)"
    );
    Ok(Duration::from_secs_f64(seconds))
}

/// Requests SIGTERM when the parent process exits, and exits if it already has.
fn exit_with_parent() {
    // SAFETY: no pointers are passed; SIGTERM is the signal that stops this process.
    unsafe {
        let parent = libc::getppid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        if libc::getppid() != parent {
            libc::_exit(0);
        }
    }
}
