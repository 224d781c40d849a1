//! `remora serve`: command-line options of the kernel board.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use backend_emulator::MODELS;
use board_judge::Gpu;
use board_server::config::{Config, DeviceConfig, Limits, PlaceConfig, SOFTWARE};
use transport::Endpoint;

use crate::compiler::{self, Need};
use crate::dstack;
use crate::env::Environment;
use crate::inspect::inspect;
use crate::login;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  remora serve                                       a board for this machine, with a software MI300X
  remora serve --device mi300x --device mi210        with two software GPUs
  remora serve --worker MI300X=gpuhost:18515 --price MI300X=1.99
  remora serve --worker H200-GFX942=gpuhost:18515    an NVIDIA GPU behind `remora worker --backend cuda`
  remora serve --dstack https://dstack.example.com --dstack-project main --dstack-gpu MI300X
  remora serve --listen 0.0.0.0:3000 --database postgres://board@db/board
  remora serve --public-url https://board.example.org --login login.toml")]
pub struct Arguments {
    /// Address to listen on. If other machines can reach it, requests need a key (`remora board key create`) or a login
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Folder of the database file [default: remora/board in XDG_DATA_HOME]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Database URL: postgres://user@host/name or sqlite:///path/to/file [default: a file in the data folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Reject requests without a key or a login even from this machine
    #[arg(long)]
    require_key: bool,
    /// Software GPU to offer: mi300x (the default), mi300a, mi325x, mi210 or mi250x. Repeatable
    #[arg(long, value_name = "MODEL")]
    device: Vec<String>,
    /// Do not offer a software GPU
    #[arg(long, conflicts_with = "device")]
    no_software: bool,
    /// GPU of a `remora worker`: MI300X=host:port (or tls://host:port, unix:/path). Repeatable
    #[arg(long, value_name = "GPU=ENDPOINT")]
    worker: Vec<String>,
    /// Price of a GPU in dollars per hour: MI300X=1.99. Software GPUs are free by default. Repeatable
    #[arg(long, value_name = "GPU=USD")]
    price: Vec<String>,
    /// Maximum number of submissions that run at the same time on a software GPU [default: one per CPU]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Maximum number of submissions of one user that run at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    concurrency: usize,
    /// Maximum number of submissions per user and minute
    #[arg(long, value_name = "N", default_value_t = 60)]
    per_minute: i64,
    /// Maximum number of submissions per user and day
    #[arg(long, value_name = "N", default_value_t = 1000)]
    per_day: i64,
    /// Time limit in seconds for one test case of a submission
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    case_seconds: f64,
    /// Maximum number of queued submissions
    #[arg(long, value_name = "N", default_value_t = 1000)]
    queue: i64,
    /// Command of another judge than the built-in one; one option per word
    #[arg(long, hide = true, value_name = "WORD")]
    judge: Vec<OsString>,
    /// Print `listening on http://ADDRESS` to standard output once the board accepts requests
    #[arg(long)]
    ready: bool,
    #[command(flatten)]
    login: login::Arguments,
    #[command(flatten)]
    dstack: dstack::Arguments,
}

pub fn serve(arguments: &Arguments, environment: &Environment) -> Result<()> {
    let data = data_folder(arguments.data.as_ref(), environment)?;
    let program: OsString =
        std::env::current_exe().context("cannot determine the path of this program")?.into();
    ensure!(arguments.case_seconds > 0.0, "--case-seconds {} must be more than 0", arguments.case_seconds);
    let default = Limits::default();
    let limits = Limits {
        per_minute: arguments.per_minute,
        per_day: arguments.per_day,
        queue: arguments.queue,
        concurrency: arguments.concurrency.max(1),
        job: board_judge::Limits { run_s: arguments.case_seconds, ..default.job },
        ..default
    };
    let config = Config {
        listen: arguments.listen,
        data,
        database: arguments.database.clone(),
        require_key: arguments.require_key || !arguments.listen.ip().is_loopback(),
        login: login::config(&arguments.login)?,
        devices: devices(arguments, environment, Path::new(&program))?,
        judge: match &arguments.judge[..] {
            [] => vec![program.clone(), "judge".into()],
            command => command.to_vec(),
        },
        worker: vec![program, "worker".into(), "--no-config".into()],
        limits,
        heartbeat: Duration::from_secs(15),
    };
    if arguments.judge.is_empty()
        && let Some(text) = compiler::warning(environment.toolchain.as_deref(), Need::Submissions)
    {
        tracing::warn!("{text}");
    }
    let ready = arguments.ready;
    board_server::serve(config, move |address| {
        tracing::info!("the board listens on http://{address}");
        if ready {
            // The process that requested the line may have closed the pipe.
            let _ = writeln!(std::io::stdout(), "listening on http://{address}");
        }
    })?;
    Ok(())
}

/// The folder of the board's database.
pub fn data_folder(named: Option<&PathBuf>, environment: &Environment) -> Result<PathBuf> {
    let folder = named.cloned().or_else(|| environment.board_data());
    let folder = folder.context("no data folder: set --data, XDG_DATA_HOME or HOME")?;
    std::path::absolute(&folder).with_context(|| format!("invalid path {}", folder.display()))
}

fn devices(arguments: &Arguments, environment: &Environment, program: &Path) -> Result<Vec<DeviceConfig>> {
    let mut devices = Vec::new();
    for text in &arguments.worker {
        devices.push(worker(text, environment)?);
    }
    for device in dstack::devices(&arguments.dstack, environment, program)? {
        let is_known = devices.iter().any(|other| other.gpu_type == device.gpu_type);
        ensure!(!is_known, "{} is given both as a --worker and for --dstack", device.gpu_type);
        devices.push(device);
    }
    let slots = arguments
        .slots
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |threads| threads.get()))
        .max(1);
    let models: Vec<&str> = match &arguments.device[..] {
        [] if arguments.no_software => Vec::new(),
        [] => vec!["mi300x"],
        named => named.iter().map(String::as_str).collect(),
    };
    for model in models {
        let known: Vec<&str> = MODELS.iter().map(|model| model.key).collect();
        ensure!(
            known.contains(&model),
            "unknown software GPU \"{model}\"; known models: {}",
            known.join(", ")
        );
        let mut device = DeviceConfig::embedded(model, slots);
        // A real GPU of the same type keeps the plain name.
        if devices.iter().any(|other: &DeviceConfig| other.gpu_type == device.gpu_type) {
            device.gpu_type.push_str(SOFTWARE);
        }
        devices.push(device);
    }
    for text in &arguments.price {
        let (gpu, price) = pair(text, "--price")?;
        let price: f64 =
            price.parse().with_context(|| format!("--price {text}: the price is not a number"))?;
        ensure!(price.is_finite() && price >= 0.0, "--price {text}: the price must be at least 0");
        let device = devices.iter_mut().find(|device| device.gpu_type.eq_ignore_ascii_case(gpu));
        device.with_context(|| format!("--price {text}: unknown GPU"))?.price_per_hour = price;
    }
    if devices.is_empty() {
        bail!("no GPUs to offer: give --worker or --dstack, or omit --no-software");
    }
    Ok(devices)
}

fn worker(text: &str, environment: &Environment) -> Result<DeviceConfig> {
    let (gpu, address) = pair(text, "--worker")?;
    let endpoint: Endpoint = address.parse().with_context(|| format!("--worker {text}"))?;
    let status = inspect(&endpoint, environment).with_context(|| format!("--worker {text}"))?;
    let name = status.devices.first().map_or_else(|| gpu.to_owned(), |device| device.name.clone());
    check_name(gpu, &name).with_context(|| format!("--worker {text}"))?;
    let alike = status.devices.iter().filter(|device| device.name == name).count();
    let token = environment.token(None)?.map(|token| String::from_utf8_lossy(&token).into_owned());
    Ok(DeviceConfig {
        gpu_type: gpu.to_uppercase(),
        name,
        place: PlaceConfig::Worker { endpoint: endpoint.to_string(), token },
        emulated: status.backend == "emulator",
        price_per_hour: 0.0,
        slots: 1,
        gpus: u32::try_from(alike).unwrap_or(1).max(1),
    })
}

/// Checks that an NVIDIA GPU has its own name on the board, and no other GPU has that name: leaderboards are separated by it.
fn check_name(gpu: &str, device: &str) -> Result<()> {
    let named = Gpu::find(gpu);
    if device.starts_with("NVIDIA") {
        let own = Gpu::of_imitator(device).with_context(|| {
            let known: Vec<&str> = Gpu::all().iter().filter_map(|gpu| gpu.imitator).collect();
            format!("the board has no peak rates of {device}; known are {}", known.join(", "))
        })?;
        ensure!(named == Some(own), "the worker's device is {device}, whose name is {}", own.name);
    } else if let Some(imitator) = named.and_then(|named| named.imitator) {
        bail!("{gpu} is {imitator}, but the worker's device is {device}");
    }
    Ok(())
}

fn pair<'a>(text: &'a str, option: &str) -> Result<(&'a str, &'a str)> {
    text.split_once('=')
        .with_context(|| format!("{option} {text}: the format is GPU=VALUE, such as MI300X=..."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nvidia_gpu_has_its_own_name_and_nothing_else_has_it() {
        let amd = "AMD Instinct MI300X";
        for (gpu, device) in [("MI300X", amd), ("mi300x", amd), ("H200-gfx942", "NVIDIA H200 as gfx942")] {
            check_name(gpu, device).unwrap();
        }
        for (gpu, device, expected) in [
            ("MI300X", "NVIDIA H200 as gfx942", "whose name is H200-GFX942"),
            ("H200", "NVIDIA H200 as gfx942", "whose name is H200-GFX942"),
            ("H200-GFX942", "NVIDIA H200 as gfx90a", "whose name is H200-GFX90A"),
            ("H200-GFX942", amd, "but the worker's device is AMD Instinct MI300X"),
            ("H200-GFX942", "NVIDIA Mock as gfx942", "no peak rates of NVIDIA Mock as gfx942"),
        ] {
            let error = format!("{:#}", check_name(gpu, device).unwrap_err());
            assert!(error.contains(expected), "{gpu} {device}: {error}");
        }
    }
}
