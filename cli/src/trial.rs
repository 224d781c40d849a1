//! `remora try`: runs the built-in sample on a software GPU or a worker, through the same path as `remora run`.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use code_object::TargetId;

use crate::env::Environment;
use crate::inspect::inspect;
use crate::output::{errln, outln};
use crate::run::{Job, LocalGpu, PrivateWorker};
use crate::sample;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints five lines: the worker, the client library, the kernel, the result, and what to do next. Needs no GPU and no
compiler: the kernel is precompiled for gfx90a and gfx942. The exit status is 0 if the result is right."
)]
pub struct Arguments {
    /// Software GPU: mi300x (the default), mi300a, mi325x, mi210 or mi250x
    #[arg(long, value_name = "MODEL")]
    device: Option<String>,
    /// Worker to use instead of a software GPU: host:port, tls://host:port, unix:/path or a URL from an agent
    #[arg(long, value_name = "ENDPOINT", conflicts_with = "device")]
    worker: Option<String>,
}

pub fn try_out(arguments: &Arguments, environment: &Environment) -> Result<ExitCode> {
    let started = Instant::now();
    let program =
        std::env::current_exe().context("cannot determine the path of this program")?.into_os_string();
    let command = [program, "sample".into()];
    let targets = sample::TARGETS.iter().map(|target| target.parse::<TargetId>());
    let targets = targets.collect::<std::result::Result<_, _>>().context("invalid target of the sample")?;
    let job = Job::with_targets(&command, targets, environment)?;
    let mut worker = None;
    // Unlike `remora run`, ignores the worker of the environment: the first minute does not depend on other machines.
    let (endpoint, environment) = match &arguments.worker {
        Some(named) => {
            let environment = environment.for_worker(Some(named));
            let endpoint = environment.worker(None)?.context("no worker is given")?;
            let status = inspect(&endpoint, &environment)?;
            let names: Vec<&str> = status.devices.iter().map(|device| device.name.as_str()).collect();
            outln!("worker   {} at {endpoint}, with {}", status.worker, names.join(", "));
            let isas: Vec<String> = status.devices.iter().map(|device| device.isa.clone()).collect();
            if let Some(code) = job.refused(&isas) {
                return Ok(code);
            }
            (endpoint, environment)
        }
        None => {
            let device: Vec<String> = arguments.device.iter().cloned().collect();
            let local = LocalGpu { device: &device, watchdog: None, memory: None, observe: None };
            let (endpoint, started_worker) = PrivateWorker::start(&job, &local, environment)?;
            worker = Some(started_worker);
            let model = device.first().map_or("mi300x", String::as_str);
            let time = started.elapsed().as_secs_f64();
            outln!("worker   a software GPU ({model}) on this machine's CPU, started in {time:.2} s");
            (endpoint, environment.clone())
        }
    };
    let code = job.run(&endpoint, &environment)?;
    drop(worker);
    if code != ExitCode::SUCCESS {
        errln!("remora: the sample did not run; `remora doctor` reports what is missing or broken");
        return Ok(code);
    }
    outln!("next     `remora run -- ./program` runs yours; `remora new kernel.hip` writes one to start from");
    Ok(code)
}
