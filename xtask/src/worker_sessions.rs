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

/// Lists the sessions of a worker. Returns `None` if the worker does not reply, or not with all of them.
pub fn sessions(remora: &Path, worker: &str) -> Result<Option<Vec<WorkerSession>>> {
    let mut command = Command::new(remora);
    command.args(["top", "--once", "--json", "--interval", "0.05", "--worker", worker]);
    let output = command.output().context("cannot run `remora top`")?;
    let Ok(status) = serde_json::from_slice::<Value>(&output.stdout) else { return Ok(None) };
    let Some(sessions) = status["sessions"].as_array() else { return Ok(None) };
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let session =
        |it: &Value| Some(WorkerSession { program: number(&it["pid"])?, executor: number(&it["process"])? });
    Ok(sessions.iter().map(session).collect())
}
