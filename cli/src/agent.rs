//! `remora agent`: command-line options of the node agent.

mod drain;

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use agent::{Config, PushConfig, SoftwareGpu, WorkerTls};
use anyhow::{Context, Result, ensure};
use worker_status::parse_bytes;

use crate::env::Environment;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  remora agent --software mi300x                          shares of one software GPU, for programs on this machine
  remora agent --provider libaccelerator_amd.so --worker-host 0.0.0.0 --advertise gpu7
  remora agent --config /etc/remora/agent.toml

Every request needs a token: the administrator token is in the file api-token of the data folder, the read-only token in read-token:
  curl -H \"Authorization: Bearer $(cat DATA/api-token)\" -d '{\"percent\":25}' http://127.0.0.1:8001/api/v1/allocations
See docs/agent.md for more.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Configuration file (TOML) with these and more settings; command-line options override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address on which the HTTP API listens [default: 127.0.0.1:8001]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Folder for state, logs and tokens [default: remora/agent in XDG_STATE_HOME]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Name of this machine in API responses and metrics [default: its host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Pool that this machine belongs to
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Provider library with the accelerator interface, which lists the GPUs of this machine
    #[arg(long, value_name = "FILE")]
    provider: Option<PathBuf>,
    /// GPU model that NVIDIA GPUs imitate: its processor decides which kernels run [default: mi300x]
    #[arg(long = "as", value_name = "MODEL")]
    imitate: Option<String>,
    /// Software GPU to offer, optionally with its memory size: mi300x or mi300x=16G. Repeatable
    #[arg(long, value_name = "MODEL[=BYTES]")]
    software: Vec<String>,
    /// Address on which workers listen [default: 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    worker_host: Option<String>,
    /// Host name under which clients reach workers [default: the workers' address, or the node name if that is 0.0.0.0 or ::]
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Whether workers use TLS: auto means on unless they listen on the loopback interface [default: auto]
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    worker_tls: Option<TlsChoice>,
    /// Certificate chain (PEM) for HTTPS and for workers that use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve HTTPS with a self-signed certificate, which is created once and kept in the data folder. Clients can pin its
    /// fingerprint, which is logged
    #[arg(long, conflicts_with = "tls_cert")]
    tls_self_signed: bool,
    /// File with the administrator token [default: api-token in the data folder, created if missing]
    #[arg(long, value_name = "FILE")]
    api_token_file: Option<PathBuf>,
    /// File with the read-only token, which permits GET requests and /metrics but does not show the URLs of allocations [default:
    /// read-token in the data folder, created if missing]
    #[arg(long, value_name = "FILE")]
    read_token_file: Option<PathBuf>,
    /// Serve /metrics without a token
    #[arg(long)]
    open_metrics: bool,
    /// Oversubscription ratio for memory: the sum of all memory limits on a GPU may be up to RATIO times its memory
    #[arg(long, value_name = "RATIO")]
    oversubscribe_memory: Option<f64>,
    /// Oversubscription ratio for compute: the sum of all compute limits on a GPU may be up to RATIO times 100 %
    #[arg(long, value_name = "RATIO")]
    oversubscribe_compute: Option<f64>,
    /// Complete URL to which metrics are pushed as InfluxDB line protocol, such as
    /// http://host:4000/v1/influxdb/api/v2/write?db=public&precision=ms
    #[arg(long, value_name = "URL")]
    push: Option<String>,
    /// Seconds between two pushes of metrics
    #[arg(long, value_name = "SECONDS", requires = "push")]
    push_interval: Option<f64>,
    /// Stop the workers when the agent stops; otherwise they keep running and the next agent takes them over
    #[arg(long)]
    drain: bool,
    /// Stop the workers when the agent stops, with their sessions saved; the next agent with this data folder resumes them. For
    /// containers, whose end takes all processes along
    #[arg(long, conflicts_with = "drain")]
    save_sessions: bool,
    /// Print `listening on http://ADDRESS` to standard output once the agent accepts requests
    #[arg(long)]
    ready: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Drain a machine: refuse new allocations, and move all allocations to another agent while their programs run
    Drain(drain::Arguments),
}

/// When workers use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TlsChoice {
    Auto,
    On,
    Off,
}

impl From<TlsChoice> for WorkerTls {
    fn from(choice: TlsChoice) -> WorkerTls {
        match choice {
            TlsChoice::Auto => WorkerTls::Auto,
            TlsChoice::On => WorkerTls::On,
            TlsChoice::Off => WorkerTls::Off,
        }
    }
}

pub fn run(arguments: &Arguments, environment: &Environment) -> Result<()> {
    if let Some(Action::Drain(arguments)) = &arguments.action {
        return drain::run(arguments, environment);
    }
    let config = config(arguments, environment)?;
    let (ready, data) = (arguments.ready, config.data.clone());
    agent::serve(config, move |address, fingerprint| {
        let scheme = if fingerprint.is_some() { "https" } else { "http" };
        tracing::info!("the agent listens on {scheme}://{address}; its data folder is {}", data.display());
        if let Some(fingerprint) = fingerprint {
            tracing::info!("the fingerprint of the agent's certificate is {fingerprint}");
        }
        if ready {
            // The reader of the line may have closed the pipe.
            let _ = writeln!(std::io::stdout(), "listening on {scheme}://{address}");
        }
    })?;
    Ok(())
}

fn config(arguments: &Arguments, environment: &Environment) -> Result<Config> {
    let mut config = match &arguments.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let program: OsString =
        std::env::current_exe().context("cannot determine the path of this program")?.into();
    config.worker = vec![program, "worker".into(), "--no-config".into()];
    config.listen = arguments.listen.unwrap_or(config.listen);
    for (flag, setting) in [
        (&arguments.node, &mut config.node),
        (&arguments.pool, &mut config.pool),
        (&arguments.worker_host, &mut config.worker_host),
        (&arguments.imitate, &mut config.imitate),
    ] {
        if let Some(value) = flag {
            setting.clone_from(value);
        }
    }
    if config.node.is_empty() {
        config.node = host_name();
    }
    config.advertise = arguments.advertise.clone().or(config.advertise);
    config.provider = arguments.provider.clone().or(config.provider);
    config.oversubscription.memory = arguments.oversubscribe_memory.unwrap_or(config.oversubscription.memory);
    config.oversubscription.compute =
        arguments.oversubscribe_compute.unwrap_or(config.oversubscription.compute);
    config.drain |= arguments.drain;
    config.save_sessions |= arguments.save_sessions;
    config.worker_tls = arguments.worker_tls.map_or(config.worker_tls, WorkerTls::from);
    config.tls_self_signed |= arguments.tls_self_signed;
    for (flag, setting) in [
        (&arguments.tls_cert, &mut config.tls_cert),
        (&arguments.tls_key, &mut config.tls_key),
        (&arguments.api_token_file, &mut config.api_token_file),
        (&arguments.read_token_file, &mut config.read_token_file),
    ] {
        if let Some(path) = flag {
            *setting = Some(path.clone());
        }
    }
    config.open_metrics |= arguments.open_metrics;
    if let Some(url) = &arguments.push {
        let kept = config.push.take();
        config.push = Some(PushConfig {
            url: url.clone(),
            authorization: kept.as_ref().and_then(|it| it.authorization.clone()),
            interval_s: kept.as_ref().map_or(10.0, |it| it.interval_s),
            spool_bytes: kept.as_ref().map_or(256 << 20, |it| it.spool_bytes),
        });
    }
    if let (Some(push), Some(interval)) = (&mut config.push, arguments.push_interval) {
        push.interval_s = interval;
    }
    for text in &arguments.software {
        config.software.push(parse_software_gpu(text)?);
    }
    if let Some(data) = arguments.data.clone().or_else(|| environment.agent_data())
        && (arguments.data.is_some() || config.data.as_os_str().is_empty())
    {
        config.data = data;
    }
    ensure!(!config.data.as_os_str().is_empty(), "no data folder: set --data, XDG_STATE_HOME or HOME");
    config.data = std::path::absolute(&config.data).context("invalid path of the data folder")?;
    let offers = !config.software.is_empty() || config.provider.is_some();
    ensure!(offers, "no GPUs to offer: give a --provider library or a --software GPU");
    config.check()?;
    Ok(config)
}

fn parse_software_gpu(text: &str) -> Result<SoftwareGpu> {
    let (model, memory) = match text.split_once('=') {
        Some((model, memory)) => (model, Some(parse_bytes(memory).map_err(anyhow::Error::msg)?)),
        None => (text, None),
    };
    let known = backend_emulator::Model::find(model);
    let model = known.with_context(|| format!("unknown software GPU \"{model}\""))?;
    Ok(SoftwareGpu { model: model.key.to_owned(), memory, count: 1 })
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".to_owned() } else { name.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_gpus_are_named_with_their_memory() {
        let wanted = SoftwareGpu { model: "mi300x".to_owned(), memory: Some(16 << 30), count: 1 };
        assert_eq!(parse_software_gpu("MI300X=16G").unwrap(), wanted);
        assert!(parse_software_gpu("mi999").is_err() && parse_software_gpu("mi300x=lots").is_err());
    }
}
