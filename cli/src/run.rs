//! `remora run`: runs a program with the client library, and starts a private worker for it if none is given.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use backend_emulator::{Model, ObserveConfig};
use code_object::TargetId;
use transport::Endpoint;
use worker::Status;

use crate::env::Environment;
use crate::inspect::inspect;
use crate::output::errln;
use crate::{architecture, library};

/// Timeout for a private worker to start.
const WORKER_START: Duration = Duration::from_secs(20);
/// Exit code of a program that exists but cannot be run, as in shells.
const CANNOT_RUN: u8 = 126;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Worker to use; if none is given here or in the environment, a software GPU is started for the program
    #[arg(long, value_name = "ENDPOINT")]
    worker: Option<String>,
    /// Software GPU to start: mi300x, mi300a, mi325x, mi210 or mi250x [default: one that the program was built for].
    /// Repeatable
    #[arg(long, value_name = "MODEL", conflicts_with = "worker")]
    device: Vec<String>,
    /// Seconds after which a kernel on the software GPU is aborted; 0 means no limit
    #[arg(long, value_name = "SECONDS", conflicts_with = "worker")]
    watchdog: Option<f64>,
    /// Memory size of the software GPU, such as 16G
    #[arg(long, value_name = "BYTES", conflicts_with = "worker")]
    memory: Option<String>,
    /// Set only LD_LIBRARY_PATH, not LD_AUDIT; a libamdhip64 that the program loads by RPATH or by its path is then not replaced
    #[arg(long)]
    no_audit: bool,
    /// Program to run and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub fn run(arguments: &Arguments, environment: &Environment) -> Result<ExitCode> {
    let mut job = match Job::new(&arguments.program, environment)? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    job.audit &= !arguments.no_audit;
    let chosen = &environment.for_worker(arguments.worker.as_deref());
    let named = if arguments.device.is_empty() { chosen.worker(None)? } else { None };
    if let Some(endpoint) = named {
        arguments.refuse_local_options(&endpoint)?;
        // If the worker does not answer, let the program report it: the worker may be up by the time of the first call.
        let devices = match job.targets[..] {
            [] => Vec::new(),
            _ => inspect(&endpoint, chosen).map(isas).unwrap_or_default(),
        };
        return match job.refused(&devices) {
            Some(code) => Ok(code),
            None => job.run(&endpoint, chosen),
        };
    }
    let local = LocalGpu {
        device: &arguments.device,
        watchdog: arguments.watchdog,
        memory: arguments.memory.as_deref(),
        observe: None,
    };
    if let Some(code) = job.refused(&local.isas(&job)) {
        return Ok(code);
    }
    let (endpoint, worker) = PrivateWorker::start(&job, &local, environment)?;
    let code = job.run(&endpoint, environment)?;
    drop(worker);
    Ok(code)
}

impl Arguments {
    /// Rejects options for a private worker if the environment selects a worker. On the command line, clap rejects them with `--worker`.
    fn refuse_local_options(&self, endpoint: &Endpoint) -> Result<()> {
        let given = [("--watchdog", self.watchdog.is_some()), ("--memory", self.memory.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
            bail!(
                "{option} applies to a software GPU that `remora run` starts, but the environment selects the worker {endpoint}; give \
                 {option} to that worker, or choose a software GPU with --device"
            );
        }
        Ok(())
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
                "client library libamdhip64.so.* not found (searched {}); install Remora's client libraries (in the repository: \
                 `cargo xtask build`), or set HIP_REMOTE_LIB_DIR",
                places.join(", ")
            )
        })?;
        let audit = libraries.join(library::AUDIT).is_file();
        Ok(Job { program, arguments, libraries, targets, audit })
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
        if self.audit {
            set_audit(&mut command, &self.libraries, environment);
        }
        let program = Path::new(self.program).display();
        run_child(command).or_else(|error| {
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

/// Options of a private worker.
pub struct LocalGpu<'a> {
    pub device: &'a [String],
    pub watchdog: Option<f64>,
    pub memory: Option<&'a str>,
    /// Kernel observation, and a descriptor that every process of the worker inherits and keeps open until it exits.
    pub observe: Option<(&'a ObserveConfig, BorrowedFd<'a>)>,
}

impl LocalGpu<'_> {
    /// The ISAs of the software GPUs that would be started; empty if a model is unknown, which the worker then reports.
    pub fn isas(&self, job: &Job) -> Vec<String> {
        if self.device.is_empty() {
            return match architecture::model_for(&job.targets) {
                Some(model) => vec![model.isa()],
                None => architecture::emulated(),
            };
        }
        let models = self.device.iter().map(|key| Model::find(key).map(Model::isa));
        models.collect::<Option<Vec<String>>>().unwrap_or_default()
    }
}

/// Sets LD_AUDIT: the dynamic linker consults our audit library for every library it loads, in this program and its children.
fn set_audit(command: &mut Command, libraries: &Path, environment: &Environment) {
    let mut files = libraries.join(library::AUDIT).into_os_string();
    if let Some(old) = environment.loader_audit.as_ref().filter(|old| !old.is_empty()) {
        files.push(":");
        files.push(old);
    }
    command.env("LD_AUDIT", files);
}

/// Sets the environment variables for the dynamic linker (our libraries) and for the client (the worker).
fn set_environment(command: &mut Command, endpoint: &Endpoint, libraries: &Path, environment: &Environment) {
    let mut path = libraries.as_os_str().to_owned();
    if let Some(old) = environment.loader_path.as_ref().filter(|old| !old.is_empty()) {
        path.push(":");
        path.push(old);
    }
    command.env("LD_LIBRARY_PATH", path).env("REMORA_WORKER", endpoint.to_string());
    for (name, value) in environment.program_variables() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let newest = library::SONAMES.iter().rev().map(|name| libraries.join(name)).find(|path| path.is_file());
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
        return Some(path.to_owned());
    }
    let search = environment.search_path.as_ref()?;
    std::env::split_paths(search).map(|dir| dir.join(path)).find(|path| path.is_file())
}

/// A worker process for one program; terminated on drop.
pub struct PrivateWorker {
    child: Child,
    _folder: tempfile::TempDir,
}

impl PrivateWorker {
    pub fn start(
        job: &Job,
        local: &LocalGpu,
        environment: &Environment,
    ) -> Result<(Endpoint, PrivateWorker)> {
        let models = match local.device {
            [] => {
                let model = architecture::model_for(&job.targets)
                    .context("no software GPU model can run this program")?;
                vec![model.key.to_owned()]
            }
            models => models.to_vec(),
        };
        let folder = tempfile::Builder::new()
            .prefix("remora-")
            .tempdir()
            .context("cannot create a folder for the worker's socket")?;
        let socket = folder.path().join("worker");
        let mut command = Command::new(std::env::current_exe()?);
        // No upload cache: this worker serves only one program run.
        command
            .args(["worker", "--no-config", "--no-upload-cache"])
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()));
        for model in &models {
            command.args(["--device", model]);
        }
        if let Some(watchdog) = local.watchdog {
            command.arg("--watchdog").arg(watchdog.to_string());
        }
        if let Some(memory) = local.memory {
            command.arg("--memory").arg(memory);
        }
        if let Some((observe, held)) = &local.observe {
            command.arg("--observe").arg(serde_json::to_string(observe)?);
            let held = held.as_raw_fd();
            // SAFETY: between fork and exec only a system call, on a descriptor that the caller keeps open.
            unsafe {
                command.pre_exec(move || match libc::fcntl(held, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
        }
        command.args(["--ready", "--exit-with-parent"]);
        // The private worker has a separate socket; tokens in the environment are for another worker.
        command.env_remove("REMORA_TOKEN").env_remove("REMORA_TOKEN_FILE");
        if environment.log.is_none() {
            command.env("REMORA_LOG", "warn");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("cannot start the worker")?;
        let Some(output) = child.stdout.take() else { bail!("the worker has no output") };
        let worker = PrivateWorker { child, _folder: folder };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = sender.send(line);
        });
        let line = receiver.recv_timeout(WORKER_START).unwrap_or_default();
        let Some(endpoint) = line.trim().strip_prefix("listening on ") else {
            bail!("the private worker did not start; run `remora worker` to see why");
        };
        Ok((endpoint.parse()?, worker))
    }
}

impl Drop for PrivateWorker {
    fn drop(&mut self) {
        // SAFETY: the process is our child and has not been reaped, so the PID is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// Signal handler that forwards a signal to the program.
extern "C" fn forward(signal: libc::c_int) {
    let program = PROGRAM.load(Ordering::Relaxed);
    if program > 0 {
        // SAFETY: async-signal-safe; the program is our child and not yet reaped while this handler is installed.
        unsafe { libc::kill(program, signal) };
    }
}

/// Runs the program as a child: forwards signals to it, and returns its exit code.
fn run_child(mut command: Command) -> std::io::Result<ExitCode> {
    let mut child = command.spawn()?;
    PROGRAM.store(child.id() as i32, Ordering::Relaxed);
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler only calls kill.
        unsafe { libc::signal(signal, forward as *const () as libc::sighandler_t) };
    }
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // The terminal also sends these to the program; this process only waits for it to react.
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let status = child.wait()?;
    PROGRAM.store(0, Ordering::Relaxed);
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(code as u8))
}
