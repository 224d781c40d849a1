//! Options of `remora serve` for GPUs that are rented through dstack.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use board_server::config::{DSTACK_GPUS, DeviceConfig, DstackConfig, WorkerBackend};

use crate::env::Environment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// Software GPUs on the hosts' CPUs, whatever GPU type the fleet reports
    Emulator,
    /// AMD GPUs through AMD's HIP runtime
    Hip,
}

// The group would have the name of the command's own arguments, which clap refuses if debug assertions are on.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "GPUs rented through dstack")]
pub struct Arguments {
    /// URL of a dstack server. GPUs are rented on demand; the token is read from DSTACK_TOKEN
    #[arg(long, value_name = "URL")]
    dstack: Option<String>,
    /// dstack project
    #[arg(long, value_name = "NAME", default_value = "main", requires = "dstack")]
    dstack_project: String,
    /// File with the dstack token [default: the variable DSTACK_TOKEN]
    #[arg(long, value_name = "FILE", requires = "dstack")]
    dstack_token_file: Option<PathBuf>,
    /// GPU type to offer [default: MI210, MI250X, MI300A and MI300X]. Repeatable
    #[arg(long, value_name = "GPU", requires = "dstack")]
    dstack_gpu: Vec<String>,
    /// Container image of the tasks; it must contain AMD's runtime
    #[arg(long, value_name = "IMAGE", requires = "dstack")]
    dstack_image: Option<String>,
    /// Path of `remora` in the image [default: the board uploads its own binary]
    #[arg(long, value_name = "PATH", requires = "dstack")]
    dstack_program: Option<String>,
    /// Back end of the workers
    #[arg(long, value_enum, default_value = "hip", requires = "dstack")]
    dstack_backend: Backend,
    /// dstack fleet to use [default: any]. Repeatable
    #[arg(long, value_name = "NAME", requires = "dstack")]
    dstack_fleet: Vec<String>,
    /// Maximum price of a GPU, in dollars per hour
    #[arg(long, value_name = "USD", requires = "dstack")]
    dstack_max_price: Option<f64>,
    /// Also use spot instances, which can be interrupted at any time
    #[arg(long, requires = "dstack")]
    dstack_spot: bool,
    /// Seconds after which an idle GPU is released
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "dstack")]
    dstack_idle: u64,
    /// Timeout in seconds for a rented GPU to become usable
    #[arg(long, value_name = "SECONDS", default_value_t = 1200, requires = "dstack")]
    dstack_start: u64,
    /// Maximum duration of a dstack run in seconds, after which dstack stops it
    #[arg(long, value_name = "SECONDS", default_value_t = 12 * 3600, requires = "dstack")]
    dstack_longest: u64,
}

/// The device configurations that result from the options.
pub fn devices(
    arguments: &Arguments,
    environment: &Environment,
    program: &Path,
) -> Result<Vec<DeviceConfig>> {
    let Some(url) = &arguments.dstack else { return Ok(Vec::new()) };
    ensure!(
        url.starts_with("http://") || url.starts_with("https://"),
        "--dstack {url}: the URL must start with http:// or https://"
    );
    let token = environment.dstack_token(arguments.dstack_token_file.as_deref())?;
    let token = token.context("--dstack needs a token: set DSTACK_TOKEN or give --dstack-token-file")?;
    let mut config = DstackConfig::new(url, &arguments.dstack_project, &token, program.to_owned());
    if let Some(image) = &arguments.dstack_image {
        config.image.clone_from(image);
    }
    if let Some(path) = &arguments.dstack_program {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
        ensure!(
            !path.is_empty() && path.bytes().all(plain),
            "--dstack-program {path}: only letters, digits and /._-+ are allowed"
        );
        config.program = Some(path.clone());
    }
    config.backend = match arguments.dstack_backend {
        Backend::Hip => WorkerBackend::Hip,
        Backend::Emulator => WorkerBackend::Emulator,
    };
    config.fleets.clone_from(&arguments.dstack_fleet);
    if let Some(most) = arguments.dstack_max_price {
        ensure!(most.is_finite() && most > 0.0, "--dstack-max-price {most}: must be more than 0");
        config.max_price = Some(most);
    }
    config.spot = arguments.dstack_spot;
    config.idle = Duration::from_secs(arguments.dstack_idle);
    config.start = Duration::from_secs(arguments.dstack_start);
    config.longest = Duration::from_secs(arguments.dstack_longest);
    ensure!(
        config.longest > config.start,
        "--dstack-longest {} must be more than --dstack-start {}",
        arguments.dstack_longest,
        arguments.dstack_start
    );
    let config = Arc::new(config);
    let usual = |gpu: &str| DSTACK_GPUS.iter().find(|(name, _)| name.eq_ignore_ascii_case(gpu));
    let mut gpus: Vec<String> = arguments.dstack_gpu.iter().map(|gpu| gpu.to_uppercase()).collect();
    if gpus.is_empty() {
        gpus = DSTACK_GPUS.iter().map(|(name, _)| (*name).to_owned()).collect();
    }
    gpus.dedup();
    let mut devices = Vec::new();
    for gpu in gpus {
        ensure!(
            !gpu.is_empty() && gpu.len() <= 12 && gpu.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            "--dstack-gpu {gpu} is not a GPU name: up to 12 letters and digits are allowed"
        );
        devices.push(DeviceConfig::dstack(&gpu, usual(&gpu).map_or(0.0, |(_, price)| *price), &config));
    }
    Ok(devices)
}
