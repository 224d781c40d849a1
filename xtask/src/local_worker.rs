//! A worker process with a software GPU on this machine, for the duration of a task.

use crate::local_server::LocalServer;
use anyhow::Result;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// A worker process; stopped on drop.
#[derive(Debug)]
pub struct LocalWorker {
    server: LocalServer,
}

impl LocalWorker {
    /// Starts `remora worker` on a free port of the loopback interface and waits until it listens.
    pub fn start(remora: &Path, device: &str, log: &Path) -> Result<LocalWorker> {
        LocalWorker::start_with(Command::new(remora), device, &["--no-upload-cache"], log)
    }

    /// Like [`LocalWorker::start`], with a prepared command and more arguments.
    pub fn start_with(remora: Command, device: &str, arguments: &[&str], log: &Path) -> Result<LocalWorker> {
        LocalWorker::start_on(remora, device, &[&["--device", device], arguments].concat(), log)
    }

    /// Like [`LocalWorker::start_with`], for any back end: the arguments select it.
    pub fn start_on(
        mut remora: Command,
        description: &str,
        arguments: &[&str],
        log: &Path,
    ) -> Result<LocalWorker> {
        remora.args(["worker", "--ready", "--listen", "127.0.0.1:0"]).args(arguments);
        let server = LocalServer::start(remora, &format!("the worker of {description}"), log)?;
        Ok(LocalWorker { server })
    }

    /// The pid of the listening process.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn host(&self) -> String {
        self.address().ip().to_string()
    }

    pub fn port(&self) -> u16 {
        self.address().port()
    }
}
