//! Starts a worker on a free loopback port for a test.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use transport::Endpoint;

use crate::process::Running;
use crate::{Ended, Marker, Status, artefact};

/// Options for starting a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub listen: String,
    /// The software GPU; empty for other back ends.
    pub device: String,
    pub arguments: Vec<String>,
    /// Additional environment variables.
    pub environment: Vec<(String, String)>,
    /// The program, if not the one that was built.
    pub program: Option<PathBuf>,
    /// User and group ID to run as, if not the test's; only root can set this.
    pub user: Option<u32>,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions {
            listen: "127.0.0.1:0".into(),
            device: "mi300x".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            program: None,
            user: None,
        }
    }
}

impl WorkerOptions {
    pub fn with(arguments: &[&str]) -> WorkerOptions {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        WorkerOptions { arguments, ..WorkerOptions::default() }
    }

    /// The command, for tests in which the worker is expected to fail before it listens.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.program.clone().unwrap_or_else(artefact::remora));
        command.args(["worker", "--ready", "--listen", &self.listen]);
        if !self.device.is_empty() {
            command.args(["--device", &self.device]);
        }
        command.args(&self.arguments);
        // Tests must not share uploads with each other, nor with the cache of the user who runs them.
        if !self.arguments.iter().any(|argument| argument.starts_with("--upload-cache")) {
            command.arg("--no-upload-cache");
        }
        command.env_remove("REMORA_TOKEN").env_remove("REMORA_TOKEN_FILE").env_remove("REMORA_LOG");
        command.envs(self.environment.iter().cloned());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }
}

/// A running worker. Stopped on drop, together with its session processes.
#[derive(Debug)]
pub struct Worker {
    process: Option<Running>,
    endpoint: Endpoint,
    marker: Marker,
}

impl Worker {
    /// Starts a worker with a software MI300X.
    pub fn start() -> Worker {
        Worker::start_with(&WorkerOptions::default())
    }

    pub fn start_with(options: &WorkerOptions) -> Worker {
        Worker::start_in(options, &[])
    }

    /// Like [`Worker::start_with`], with additional environment variables.
    pub fn start_in(options: &WorkerOptions, environment: &[(&str, &OsStr)]) -> Worker {
        let marker = Marker::new();
        let mut command = options.command();
        command.env(Marker::NAME, marker.value()).envs(environment.iter().copied());
        let process = Running::start(&mut command);
        let line = process.wait_for_line("listening on ");
        let address = line.split_whitespace().nth(2).unwrap_or_default();
        let endpoint = address.parse().unwrap_or_else(|error| panic!("{line:?}: {error}"));
        Worker { process: Some(process), endpoint, marker }
    }

    /// The endpoint on which it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub fn host(&self) -> &str {
        match &self.endpoint {
            Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } => host,
            Endpoint::Unix { .. } => panic!("a unix socket has no host"),
        }
    }

    pub fn port(&self) -> u16 {
        match &self.endpoint {
            Endpoint::Tcp { port, .. } | Endpoint::Tls { port, .. } => *port,
            Endpoint::Unix { .. } => panic!("a unix socket has no port"),
        }
    }

    pub fn status(&self) -> Status {
        Status::of(&self.endpoint.to_string())
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        self.process().stderr_so_far()
    }

    /// Waits until its log contains a text. A separate thread collects the log, so a line appears later than the event it reports.
    #[track_caller]
    pub fn expect_log(&self, text: &str) -> String {
        crate::eventually(&format!("the worker's log contains {text:?}"), || self.log().contains(text));
        self.log()
    }

    /// The worker process and its session processes.
    pub fn processes(&self) -> Vec<(u32, String)> {
        self.marker.processes()
    }

    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Stops the worker as an operator would, and waits until it exits.
    pub fn stop(mut self) -> Ended {
        let process = self.process.take().expect("a worker is stopped once");
        process.signal(libc::SIGTERM);
        process.finish()
    }

    /// Sends a signal to its supervisor.
    pub fn signal(&self, signal: libc::c_int) {
        self.process().signal(signal);
    }

    /// Kills its supervisor. Its other processes run until the returned marker is dropped.
    pub fn kill_supervisor(mut self) -> Marker {
        drop(self.process.take());
        std::mem::take(&mut self.marker)
    }

    fn process(&self) -> &Running {
        self.process.as_ref().expect("the worker runs until it is stopped")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(process) = &self.process
        {
            eprintln!("log of the worker at {}:\n{}", self.endpoint, process.stderr_so_far());
        }
        // Session processes exit when their supervisor is gone; dropping the marker kills those that do not.
        drop(self.process.take());
    }
}
