//! `remora worker`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use transport::{DEFAULT_PORT, Endpoint, tls};
use worker::{
    BackendConfig, DeviceConfig, LedgerConfig, LimitConfig, Qos, SessionConfig, UploadConfig, WorkerConfig,
};

use crate::env::Environment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// Software GPUs on this machine's CPU
    Emulator,
    /// AMD's own runtime and GPUs
    Hip,
}

/// What is promised to whom.
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
    /// Where to listen: host:port, tls://host:port or unix:/path; port 0 takes a free one. Any address that other
    /// machines can reach needs a token. Repeatable
    #[arg(long, value_name = "ENDPOINT")]
    listen: Vec<String>,
    /// What to offer
    #[arg(long, value_enum, default_value = "emulator")]
    backend: Backend,
    /// A GPU to emulate: mi300x, mi300a, mi325x, mi210 or mi250x. Repeatable
    #[arg(long, value_name = "MODEL")]
    device: Vec<String>,
    /// Memory of each emulated GPU, such as 16G; the model's own by default
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// The libamdhip64 to load with --backend hip
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// A file with the secret that clients must prove to know (else REMORA_TOKEN)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A certificate chain (PEM) for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Speak TLS with a certificate made now; its fingerprint is logged for clients to pin
    #[arg(long, conflicts_with = "tls_cert")]
    tls_self_signed: bool,
    /// Seconds a session is kept after its connection was lost
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    grace: f64,
    /// Seconds a session is kept after its client closed the connection without ending the session
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    grace_closed: f64,
    /// Seconds after which a kernel is aborted; 0 lets it run for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    watchdog: f64,
    /// Sessions at the same time
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_sessions: usize,
    /// Seconds a connection may take to prove itself
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    handshake_timeout: f64,
    /// Where clang, HIP headers and device libraries for hiprtc are (else REMORA_TOOLCHAIN, or beside the program)
    #[arg(long, value_name = "DIR")]
    toolchain: Option<PathBuf>,
    /// Where compiled programs are kept
    #[arg(long, value_name = "DIR")]
    compile_cache: Option<PathBuf>,
    /// Where uploads are kept, so that the next run of a program sends hashes in their place
    #[arg(long, value_name = "DIR")]
    upload_cache: Option<PathBuf>,
    /// How much of them is kept
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "8G")]
    upload_cache_size: u64,
    /// Keep no uploads
    #[arg(long, conflicts_with = "upload_cache")]
    no_upload_cache: bool,
    /// Print `listening on ADDRESS` to standard output when clients may come
    #[arg(long)]
    ready: bool,
    /// Stop when the process that started this one ends
    #[arg(long)]
    exit_with_parent: bool,
    /// End after so many seconds without a session, for machines that are paid by the hour
    #[arg(long, value_name = "SECONDS")]
    exit_when_idle: Option<f64>,
    /// Memory that all sessions together may use of each GPU, such as 48G. More is refused with hipErrorOutOfMemory
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Limits")]
    memory_limit: Option<u64>,
    /// Memory that stays available of each GPU whatever other workers use; the limit by default. Needs a ledger
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Limits", hide = true)]
    memory_request: Option<u64>,
    /// Host memory that all sessions together may use, for pinned, registered and managed memory, graphs, code objects
    /// and compilers [default: 512M more than --memory-limit allows of all GPUs, else what the machine has]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Limits")]
    host_memory_limit: Option<u64>,
    /// The ledger of each GPU's memory, in their order (given by `remora agent`)
    #[arg(long, value_name = "FILE", hide = true, requires = "ledger_owner", requires = "memory_limit")]
    ledger: Vec<PathBuf>,
    /// The worker's name in its ledgers
    #[arg(long, value_name = "NAME", hide = true)]
    ledger_owner: Option<String>,
    /// Percent of each GPU's time that all sessions together may use; launches wait when they have had more
    #[arg(long, value_name = "PERCENT", help_heading = "Limits")]
    compute_limit: Option<f64>,
    /// Percent that is wanted even when other workers want the GPU too; the limit by default
    #[arg(long, value_name = "PERCENT", help_heading = "Limits")]
    compute_request: Option<f64>,
    /// Who comes first when workers want a GPU at the same time [default: medium with --compute-request, else high]
    #[arg(long, value_enum, value_name = "CLASS", help_heading = "Limits")]
    qos: Option<Class>,
    /// What to observe of the kernels of emulated GPUs, as JSON (given by `remora emulate`)
    #[arg(long, hide = true, value_name = "JSON")]
    observe: Option<String>,
}

pub fn work(arguments: &Arguments, environment: &Environment) -> Result<()> {
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
    let identity = identity(arguments, &listen)?;
    let backend = match arguments.backend {
        Backend::Hip => BackendConfig::Hip { library: arguments.library.clone() },
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
                observe: observe.context("--observe is not understood")?,
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
        toolchain: arguments.toolchain.clone().or_else(|| environment.toolchain.clone()),
        cache: arguments.compile_cache.clone().or_else(|| environment.compile_cache()),
        uploads: arguments
            .upload_cache
            .clone()
            .or_else(|| environment.upload_cache())
            .filter(|_| !arguments.no_upload_cache)
            .map(|folder| UploadConfig { folder, limit: arguments.upload_cache_size }),
        limits: limits(arguments),
    };
    let program = std::env::current_exe().context("this program does not know where it is")?;
    worker::supervise(WorkerConfig {
        listen,
        token: environment.token(arguments.token_file.as_deref())?,
        tls: identity,
        max_sessions: arguments.max_sessions.max(1),
        handshake_timeout: seconds(arguments.handshake_timeout, "--handshake-timeout")?,
        executor: vec![program, "executor".into()],
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

/// Limits, if any of their options was given.
fn limits(arguments: &Arguments) -> Option<LimitConfig> {
    let limits = LimitConfig {
        memory: arguments.memory_limit,
        memory_request: arguments.memory_request,
        host_memory: arguments.host_memory_limit,
        compute: arguments.compute_limit,
        request: arguments.compute_request,
        // Who uses no more than was requested is in nobody's way.
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

fn identity(arguments: &Arguments, listen: &[Endpoint]) -> Result<Option<tls::Identity>> {
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
    let identity = tls::Identity::self_signed(&names)?;
    tracing::info!("clients pin this worker with REMORA_TLS_CA={}", identity.fingerprint_text());
    Ok(Some(identity))
}

fn seconds(seconds: f64, option: &str) -> Result<Duration> {
    ensure!(seconds.is_finite() && (0.0..=1e9).contains(&seconds), "{option} {seconds} is no time span");
    Ok(Duration::from_secs_f64(seconds))
}

/// `16G`, `512M`, `1024K` or plain bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no size; write for example 16G");
    let digits = text.trim_end_matches(['i', 'B', 'b']);
    let (number, shift) = match digits.chars().last() {
        Some('k' | 'K') => (&digits[..digits.len() - 1], 10),
        Some('m' | 'M') => (&digits[..digits.len() - 1], 20),
        Some('g' | 'G') => (&digits[..digits.len() - 1], 30),
        Some('t' | 'T') => (&digits[..digits.len() - 1], 40),
        _ => (digits, 0),
    };
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// Asks for SIGTERM when the parent ends, and looks whether it has already.
fn exit_with_parent() {
    // SAFETY: plain system calls; the signal is the one this process stops on.
    unsafe {
        let parent = libc::getppid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        if libc::getppid() != parent {
            libc::_exit(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("16G"), Ok(16 << 30));
        assert_eq!(parse_bytes("16GiB"), Ok(16 << 30));
        assert_eq!(parse_bytes("512m"), Ok(512 << 20));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        for wrong in ["", "G", "-1", "0", "9999999999T", "1X"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
