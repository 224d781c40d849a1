//! The sessions of a worker, as `remora top` lists them.

use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A session: its program, and the process that executes it.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSession {
    pub program: u32,
    pub executor: u32,
}

impl WorkerSession {
    /// Kills the session's process.
    pub fn kill(self) {
        // SAFETY: takes no pointers; the process belongs to a worker that this program started.
        unsafe { libc::kill(self.executor as libc::pid_t, libc::SIGKILL) };
    }
}

/// Lists the sessions of a worker. A worker that does not answer has none.
pub fn sessions(remora: &Path, worker: &str) -> Result<Vec<WorkerSession>> {
    let mut command = Command::new(remora);
    command.args(["top", "--once", "--json", "--interval", "0.05", "--worker", worker]);
    let output = command.output().context("cannot run `remora top`")?;
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let sessions = status["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let session =
        |it: &Value| Some(WorkerSession { program: number(&it["pid"])?, executor: number(&it["process"])? });
    Ok(sessions.iter().filter_map(session).collect())
}
