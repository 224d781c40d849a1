//! A worker on a free port of the loopback interface, for as long as a test needs it.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use transport::Endpoint;

use crate::process::Running;
use crate::{Ended, Marker, Status, artefact};

/// How to start a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub listen: String,
    pub device: String,
    pub arguments: Vec<String>,
    /// Variables it is given besides.
    pub environment: Vec<(String, String)>,
    /// The user it runs as, and its group, if not the test's; only root can choose.
    pub user: Option<u32>,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions {
            listen: "127.0.0.1:0".into(),
            device: "mi300x".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            user: None,
        }
    }
}

impl WorkerOptions {
    pub fn with(arguments: &[&str]) -> WorkerOptions {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        WorkerOptions { arguments, ..WorkerOptions::default() }
    }

    /// The command, for those that are expected not to get as far as listening.
    pub fn command(&self) -> Command {
        let mut command = Command::new(artefact::remora());
        command
            .args(["worker", "--ready", "--listen", &self.listen, "--device", &self.device])
            .args(&self.arguments);
        // What one test uploads is no business of the next, nor of whoever runs them.
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

/// A running worker. Stopped when dropped, with the processes of its sessions.
#[derive(Debug)]
pub struct Worker {
    process: Option<Running>,
    endpoint: Endpoint,
    marker: Marker,
}

impl Worker {
    /// A software MI300X.
    pub fn start() -> Worker {
        Worker::start_with(&WorkerOptions::default())
    }

    pub fn start_with(options: &WorkerOptions) -> Worker {
        Worker::start_in(options, &[])
    }

    /// With more in its environment.
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

    /// Where it listens.
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

    /// Waits until its log contains a text. The log is written by a thread of its own, later than what the log is about.
    #[track_caller]
    pub fn expect_log(&self, text: &str) -> String {
        crate::eventually(&format!("the worker's log contains {text:?}"), || self.log().contains(text));
        self.log()
    }

    /// Its own process and those of its sessions.
    pub fn processes(&self) -> Vec<(u32, String)> {
        self.marker.processes()
    }

    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Asks it to stop, as an operator would, and waits for its end.
    pub fn stop(mut self) -> Ended {
        let process = self.process.take().expect("a worker is stopped once");
        process.signal(libc::SIGTERM);
        process.finish()
    }

    fn process(&self) -> &Running {
        self.process.as_ref().expect("the worker runs until it is stopped")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Sessions end by themselves when their supervisor is gone; the mark's own end sees to those that do not.
        drop(self.process.take());
    }
}
