//! `remora run`: a program, a worker for it, and the environment that joins them.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use backend_emulator::{Model, ObserveConfig};
use transport::Endpoint;

use crate::env::Environment;
use crate::library;

/// A private worker that has not come up by then will not.
const WORKER_START: Duration = Duration::from_secs(20);
/// What is looked at of a program file to find its GPU targets.
const MAX_PROGRAM_BYTES: u64 = 4 << 30;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The worker to use; without one named here or in the environment, a software GPU is started for the program
    #[arg(long, value_name = "ENDPOINT")]
    worker: Option<String>,
    /// The software GPU to start: mi300x, mi300a, mi325x, mi210 or mi250x; by default what the program was built for.
    /// Repeatable
    #[arg(long, value_name = "MODEL", conflicts_with = "worker")]
    device: Vec<String>,
    /// Seconds after which a kernel on the software GPU is aborted; 0 lets it run for ever
    #[arg(long, value_name = "SECONDS")]
    watchdog: Option<f64>,
    /// Memory of the software GPU, such as 16G
    #[arg(long, value_name = "BYTES")]
    memory: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub fn run(arguments: &Arguments, environment: &Environment) -> Result<ExitCode> {
    let job = match Job::new(&arguments.program, environment)? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    let chosen = &environment.for_worker(arguments.worker.as_deref());
    let named = if arguments.device.is_empty() { chosen.worker(None)? } else { None };
    if let Some(endpoint) = named {
        return job.run(&endpoint, chosen);
    }
    let local = Local {
        device: &arguments.device,
        watchdog: arguments.watchdog,
        memory: arguments.memory.as_deref(),
        observe: None,
    };
    let (endpoint, worker) = PrivateWorker::start(&job, &local, environment)?;
    let code = job.run(&endpoint, environment)?;
    drop(worker);
    Ok(code)
}

/// A program to run, and the libraries to run it with.
pub struct Job<'a> {
    program: &'a OsString,
    arguments: &'a [OsString],
    libraries: PathBuf,
}

impl Job<'_> {
    /// Looks for the program and for the client library. A program that is not there has an exit code of its own.
    pub fn new<'a>(
        command: &'a [OsString],
        environment: &Environment,
    ) -> Result<std::result::Result<Job<'a>, ExitCode>> {
        let (program, arguments) = command.split_first().context("no program is named")?;
        if find_program(program, environment).is_none_or(|path| !path.exists()) {
            eprintln!("remora: {} is not there", Path::new(program).display());
            return Ok(Err(ExitCode::from(127)));
        }
        let libraries = library::find(environment).with_context(|| {
            let places = library::places(environment);
            let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            format!(
                "the client library libamdhip64.so.* was not found (looked in {}); build it with `cargo xtask build`, or \
                 set HIP_REMOTE_LIB_DIR",
                places.join(", ")
            )
        })?;
        Ok(Ok(Job { program, arguments, libraries }))
    }

    /// Runs the program to its end.
    pub fn run(&self, endpoint: &Endpoint, environment: &Environment) -> Result<ExitCode> {
        let mut command = Command::new(self.program);
        command.args(self.arguments);
        set_environment(&mut command, endpoint, &self.libraries, environment);
        let program = Path::new(self.program).display();
        run_child(command).or_else(|error| {
            // As shells answer.
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => 127,
                std::io::ErrorKind::PermissionDenied => 126,
                _ => return Err(error).with_context(|| format!("{program} did not start")),
            };
            eprintln!("remora: {program} did not start: {error}");
            Ok(ExitCode::from(code))
        })
    }
}

/// What a private worker is told.
pub struct Local<'a> {
    pub device: &'a [String],
    pub watchdog: Option<f64>,
    pub memory: Option<&'a str>,
    /// Observed kernels, and a descriptor that every process of the worker keeps open as long as it lives.
    pub observe: Option<(&'a ObserveConfig, BorrowedFd<'a>)>,
}

/// Points the dynamic loader and the client at our libraries and at the worker.
fn set_environment(command: &mut Command, endpoint: &Endpoint, libraries: &Path, environment: &Environment) {
    let mut path = libraries.as_os_str().to_owned();
    if let Some(old) = environment.loader_path.as_ref().filter(|old| !old.is_empty()) {
        path.push(":");
        path.push(old);
    }
    command.env("LD_LIBRARY_PATH", path).env("REMORA_WORKER", endpoint.to_string());
    for (name, value) in environment.of_program() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let newest = library::SONAMES.iter().rev().map(|name| libraries.join(name)).find(|path| path.is_file());
    if let Some(library) = newest {
        command.env("TRITON_LIBHIP_PATH", library);
    }
    if let Endpoint::Tcp { host, port } = endpoint {
        command.env("TF_WORKER_HOST", host).env("TF_WORKER_PORT", port.to_string());
    }
}

/// The model that runs the code inside a program; the newest where that cannot be told.
fn model_for(program: &OsString, environment: &Environment) -> &'static str {
    let default = backend_emulator::MODELS[0].key;
    let Some(path) = find_program(program, environment) else { return default };
    let small = std::fs::metadata(&path).is_ok_and(|data| data.len() <= MAX_PROGRAM_BYTES);
    let Some(bytes) = small.then(|| std::fs::read(&path).ok()).flatten() else { return default };
    // A script, or a program whose kernels are in libraries, has no targets of its own.
    let targets = code_object::embedded_targets(&bytes).unwrap_or_default();
    let models = targets.iter().filter_map(|target| Model::for_processor(&target.processor));
    let keys: Vec<&'static str> = models.map(|model| model.key).collect();
    if keys.contains(&default) { default } else { keys.first().copied().unwrap_or(default) }
}

fn find_program(program: &OsString, environment: &Environment) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_owned());
    }
    let search = environment.search_path.as_ref()?;
    std::env::split_paths(search).map(|dir| dir.join(path)).find(|path| path.is_file())
}

/// A worker that lives as long as the program it was started for.
pub struct PrivateWorker {
    child: Child,
    _folder: tempfile::TempDir,
}

impl PrivateWorker {
    pub fn start(job: &Job, local: &Local, environment: &Environment) -> Result<(Endpoint, PrivateWorker)> {
        let models = match local.device {
            [] => vec![model_for(job.program, environment).to_owned()],
            models => models.to_vec(),
        };
        let folder = tempfile::Builder::new()
            .prefix("remora-")
            .tempdir()
            .context("no folder for the worker's socket")?;
        let socket = folder.path().join("worker");
        let mut command = Command::new(std::env::current_exe()?);
        // What a worker of this one program keeps, nobody asks for again.
        command
            .args(["worker", "--no-upload-cache"])
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
        // The private worker has its own socket; a token or certificate meant for another one is not for it.
        command.env_remove("REMORA_TOKEN").env_remove("REMORA_TOKEN_FILE");
        if environment.log.is_none() {
            command.env("REMORA_LOG", "warn");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("the worker did not start")?;
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
            bail!("the local worker did not come up; try `remora worker` to see why");
        };
        Ok((endpoint.parse()?, worker))
    }
}

impl Drop for PrivateWorker {
    fn drop(&mut self) {
        // SAFETY: the process is our child and has not been waited for, so the number is its own.
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

/// Passes a signal on to the program.
extern "C" fn forward(signal: libc::c_int) {
    let program = PROGRAM.load(Ordering::Relaxed);
    if program > 0 {
        // SAFETY: async-signal-safe; the program is our child and not yet reaped while this handler is installed.
        unsafe { libc::kill(program, signal) };
    }
}

/// Runs the program with this process standing aside: signals go through, and so does its end.
fn run_child(mut command: Command) -> std::io::Result<ExitCode> {
    let mut child = command.spawn()?;
    PROGRAM.store(child.id() as i32, Ordering::Relaxed);
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler only calls kill.
        unsafe { libc::signal(signal, forward as *const () as libc::sighandler_t) };
    }
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // The terminal sends these to the program itself; this process waits for what it does.
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let status = child.wait()?;
    PROGRAM.store(0, Ordering::Relaxed);
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(code as u8))
}
