//! `remora run`: runs a program with the client library, and starts a private worker for it if none is given.

#[cfg(unix)]
mod local_gpu;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[cfg(windows)]
use anyhow::bail;
use anyhow::{Context, Result};
use code_object::TargetId;
use transport::Endpoint;
use worker_status::Status;

use crate::env::Environment;
use crate::inspect::inspect;
use crate::os;
use crate::output::errln;
use crate::{architecture, library};
#[cfg(unix)]
pub use local_gpu::{LocalGpu, PrivateWorker};

/// Exit code of a program that exists but cannot be run, as in shells.
const CANNOT_RUN: u8 = 126;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Worker to use; if none is given here or in the environment, a software GPU is started for the program
    #[arg(long, value_name = "ENDPOINT")]
    worker: Option<String>,
    #[cfg(unix)]
    #[command(flatten)]
    local: local_gpu::Options,
    /// Program to run and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub fn run(arguments: &Arguments, environment: &Environment) -> Result<ExitCode> {
    let job = match Job::new(&arguments.program, environment)? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    #[cfg(unix)]
    let job = arguments.local.apply(job);
    let chosen = &environment.for_worker(arguments.worker.as_deref());
    #[cfg(unix)]
    if arguments.local.names_device() {
        return arguments.local.run(&job, environment);
    }
    let Some(endpoint) = chosen.worker(None)? else {
        #[cfg(unix)]
        return arguments.local.run(&job, environment);
        #[cfg(windows)]
        bail!(
            "no worker is given, and software GPUs run on Linux only: start `remora worker` there, and name it with --worker \
             HOST:PORT or in REMORA_WORKER"
        );
    };
    #[cfg(unix)]
    arguments.local.refuse_with(&endpoint)?;
    // If the worker does not answer, let the program report it: the worker may be up by the time of the first call.
    let devices = match job.targets[..] {
        [] => Vec::new(),
        _ => inspect(&endpoint, chosen).map(isas).unwrap_or_default(),
    };
    match job.refused(&devices) {
        Some(code) => Ok(code),
        None => job.run(&endpoint, chosen),
    }
}

/// The ISAs of a worker's devices.
fn isas(status: Status) -> Vec<String> {
    status.devices.into_iter().map(|device| device.isa).collect()
}

/// A program to run, and the libraries to run it with.
pub struct Job<'a> {
    program: &'a OsString,
    arguments: &'a [OsString],
    libraries: PathBuf,
    /// GPU targets of the code in the program file.
    targets: Vec<TargetId>,
    /// Whether to set LD_AUDIT, so that the dynamic linker replaces other libamdhip64 libraries.
    #[cfg(unix)]
    audit: bool,
}

impl Job<'_> {
    /// Locates the program and the client library. If the program is not found, the inner result is the exit code 127.
    pub fn new<'a>(
        command: &'a [OsString],
        environment: &Environment,
    ) -> Result<std::result::Result<Job<'a>, ExitCode>> {
        let (program, arguments) = command.split_first().context("no program given")?;
        let Some(path) = find_program(program, environment).filter(|path| path.exists()) else {
            errln!("remora: {} not found", Path::new(program).display());
            return Ok(Err(ExitCode::from(127)));
        };
        Job::located(program, arguments, architecture::targets(&path), environment).map(Ok)
    }

    /// A program whose GPU targets are known.
    #[cfg(unix)]
    pub fn with_targets<'a>(
        command: &'a [OsString],
        targets: Vec<TargetId>,
        environment: &Environment,
    ) -> Result<Job<'a>> {
        let (program, arguments) = command.split_first().context("no program given")?;
        Job::located(program, arguments, targets, environment)
    }

    fn located<'a>(
        program: &'a OsString,
        arguments: &'a [OsString],
        targets: Vec<TargetId>,
        environment: &Environment,
    ) -> Result<Job<'a>> {
        let libraries = library::find(environment).with_context(|| {
            let places = library::search_folders(environment);
            let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            format!(
                "client library {} not found (searched {}); {}",
                os::library::PATTERN,
                places.join(", "),
                os::library::REMEDY
            )
        })?;
        Ok(Job {
            #[cfg(unix)]
            audit: libraries.join(os::library::AUDIT).is_file(),
            program,
            arguments,
            libraries,
            targets,
        })
    }

    /// If the program cannot run on devices of these ISAs, prints the reason and returns the exit code.
    pub fn refused(&self, isas: &[String]) -> Option<ExitCode> {
        let text = architecture::mismatch(Path::new(self.program), &self.targets, isas)?;
        errln!("remora: {text}");
        Some(ExitCode::from(CANNOT_RUN))
    }

    /// Runs the program and returns its exit code.
    pub fn run(&self, endpoint: &Endpoint, environment: &Environment) -> Result<ExitCode> {
        let mut command = Command::new(self.program);
        command.args(self.arguments);
        set_environment(&mut command, endpoint, &self.libraries, environment);
        #[cfg(unix)]
        if self.audit {
            environment.loader.audit(&mut command, &self.libraries);
        }
        let program = Path::new(self.program).display();
        os::child::run(command, &self.libraries).or_else(|error| {
            // The exit codes of shells.
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => 127,
                std::io::ErrorKind::PermissionDenied => CANNOT_RUN,
                _ => return Err(error).with_context(|| format!("cannot start {program}")),
            };
            errln!("remora: cannot start {program}: {error}");
            Ok(ExitCode::from(code))
        })
    }
}

/// Sets the environment variables for the dynamic linker (our libraries) and for the client (the worker).
fn set_environment(command: &mut Command, endpoint: &Endpoint, folder: &Path, environment: &Environment) {
    environment.loader.prepare(command, folder);
    command.env("REMORA_WORKER", endpoint.to_string());
    for (name, value) in environment.program_variables() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let newest = os::library::NAMES.iter().rev().map(|name| folder.join(name)).find(|path| path.is_file());
    if let Some(library) = newest {
        command.env("TRITON_LIBHIP_PATH", library);
    }
    if environment.progress.is_none() && std::io::stderr().is_terminal() {
        command.env("REMORA_PROGRESS", "1");
    }
    if let Endpoint::Tcp { host, port } = endpoint {
        command.env("TF_WORKER_HOST", host).env("TF_WORKER_PORT", port.to_string());
    }
}

fn find_program(program: &OsString, environment: &Environment) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(os::child::program_file(path.to_owned()));
    }
    let search = environment.search_path.as_ref()?;
    std::env::split_paths(search)
        .map(|dir| os::child::program_file(dir.join(path)))
        .find(|path| path.is_file())
}
