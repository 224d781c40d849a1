//! `remora serve`: the board.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use backend_emulator::MODELS;
use board_server::config::{Config, DeviceConfig, Limits, PlaceConfig};
use transport::Endpoint;

use crate::dstack;
use crate::env::Environment;
use crate::inspect::inspect;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  remora serve                                       a board for this machine, with a software MI300X
  remora serve --device mi300x --device mi210        with two software GPUs
  remora serve --worker MI300X=gpuhost:18515 --price MI300X=1.99
  remora serve --dstack https://dstack.example.com --dstack-project main --dstack-gpu MI300X
  remora serve --listen 0.0.0.0:3000 --database postgres://board@db/board")]
pub struct Arguments {
    /// Where to answer requests. An address that other machines reach needs keys (`remora board key create`)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Where the database file is kept [default: remora/board in XDG_DATA_HOME]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Another database: postgres://user@host/name, or sqlite:///path/to/file
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Refuse requests without a key even from this machine
    #[arg(long)]
    require_key: bool,
    /// A software GPU to offer: mi300x (the default), mi300a, mi325x, mi210 or mi250x. Repeatable
    #[arg(long, value_name = "MODEL")]
    device: Vec<String>,
    /// Offer no software GPU
    #[arg(long, conflicts_with = "device")]
    no_software: bool,
    /// A GPU behind a `remora worker`: MI300X=host:port (or tls://host:port, unix:/path). Repeatable
    #[arg(long, value_name = "GPU=ENDPOINT")]
    worker: Vec<String>,
    /// What a GPU costs, in dollars an hour: MI300X=1.99. Software GPUs cost nothing. Repeatable
    #[arg(long, value_name = "GPU=USD")]
    price: Vec<String>,
    /// Submissions that run at the same time on a software GPU [default: one for each processor]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Submissions of one user that run at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    concurrency: usize,
    /// Submissions a user may make in a minute
    #[arg(long, value_name = "N", default_value_t = 60)]
    per_minute: i64,
    /// Submissions a user may make in a day
    #[arg(long, value_name = "N", default_value_t = 1000)]
    per_day: i64,
    /// Seconds that one case of a submission may run
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    case_seconds: f64,
    /// Submissions that may wait
    #[arg(long, value_name = "N", default_value_t = 1000)]
    queue: i64,
    /// Another judge than this program's own; each word of the command by itself
    #[arg(long, hide = true, value_name = "WORD")]
    judge: Vec<OsString>,
    /// Print `listening on http://ADDRESS` to standard output when requests are answered
    #[arg(long)]
    ready: bool,
    #[command(flatten)]
    dstack: dstack::Arguments,
}

pub fn serve(arguments: &Arguments, environment: &Environment) -> Result<()> {
    let data = data_folder(arguments.data.as_ref(), environment)?;
    let program: OsString = std::env::current_exe().context("this program does not know where it is")?.into();
    ensure!(arguments.case_seconds > 0.0, "--case-seconds {}", arguments.case_seconds);
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
        devices: devices(arguments, environment, Path::new(&program))?,
        judge: match &arguments.judge[..] {
            [] => vec![program.clone(), "judge".into()],
            command => command.to_vec(),
        },
        worker: vec![program, "worker".into()],
        limits,
        heartbeat: Duration::from_secs(15),
    };
    let ready = arguments.ready;
    board_server::serve(config, move |address| {
        tracing::info!("the board is at http://{address}");
        if ready {
            // Whoever asked for the line and left does not need it.
            let _ = writeln!(std::io::stdout(), "listening on http://{address}");
        }
    })?;
    Ok(())
}

/// Where the board's database is.
pub fn data_folder(named: Option<&PathBuf>, environment: &Environment) -> Result<PathBuf> {
    let folder = named.cloned().or_else(|| environment.board_data());
    let folder = folder.context("neither --data, XDG_DATA_HOME nor HOME says where the database is to be")?;
    std::path::absolute(&folder).with_context(|| format!("{} is no usable path", folder.display()))
}

fn devices(arguments: &Arguments, environment: &Environment, program: &Path) -> Result<Vec<DeviceConfig>> {
    let mut devices = Vec::new();
    for text in &arguments.worker {
        devices.push(worker(text, environment)?);
    }
    for device in dstack::devices(&arguments.dstack, environment, program)? {
        let is_known = devices.iter().any(|other| other.gpu_type == device.gpu_type);
        ensure!(!is_known, "{} is named both as a --worker and for --dstack", device.gpu_type);
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
            "there is no software GPU \"{model}\"; there are {}",
            known.join(", ")
        );
        let mut device = DeviceConfig::embedded(model, slots);
        // The plain name is the real one's.
        if devices.iter().any(|other: &DeviceConfig| other.gpu_type == device.gpu_type) {
            device.gpu_type.push_str("-software");
        }
        devices.push(device);
    }
    for text in &arguments.price {
        let (gpu, price) = pair(text, "--price")?;
        let price: f64 = price.parse().with_context(|| format!("--price {text}"))?;
        ensure!(price.is_finite() && price >= 0.0, "--price {text}");
        let device = devices.iter_mut().find(|device| device.gpu_type.eq_ignore_ascii_case(gpu));
        device.with_context(|| format!("--price {text}: there is no such GPU"))?.price_per_hour = price;
    }
    if devices.is_empty() {
        bail!("no devices: name a --worker or --dstack, or leave out --no-software");
    }
    Ok(devices)
}

fn worker(text: &str, environment: &Environment) -> Result<DeviceConfig> {
    let (gpu, address) = pair(text, "--worker")?;
    let endpoint: Endpoint = address.parse().with_context(|| format!("--worker {text}"))?;
    let status = inspect(&endpoint, environment).with_context(|| format!("--worker {text}"))?;
    let name = status.devices.first().map_or_else(|| gpu.to_owned(), |device| device.name.clone());
    let token = environment.token(None)?.map(|token| String::from_utf8_lossy(&token).into_owned());
    Ok(DeviceConfig {
        gpu_type: gpu.to_uppercase(),
        name,
        place: PlaceConfig::Worker { endpoint: endpoint.to_string(), token },
        emulated: status.backend == "emulator",
        price_per_hour: 0.0,
        slots: 1,
    })
}

fn pair<'a>(text: &'a str, option: &str) -> Result<(&'a str, &'a str)> {
    text.split_once('=').with_context(|| format!("{option} {text}: write GPU=..., such as MI300X=..."))
}
