//! Status of a worker, from `remora devices --json`.

use std::process::Command;

use crate::{Running, artefact};

/// Status of a worker at one point in time.
#[derive(Debug, Clone)]
pub struct Status {
    pub json: serde_json::Value,
}

/// A session of the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub client: String,
    pub pid: u64,
    /// The process on the worker's machine.
    pub process: u32,
    pub connected: bool,
    pub memory_used: u64,
    pub requests: u64,
}

impl Status {
    /// Queries the worker at an endpoint.
    pub fn of(endpoint: &str) -> Status {
        Status::query(Command::new(artefact::remora()).args(["devices", "--json", "--worker", endpoint]))
    }

    /// Runs a command that prints the status.
    pub fn query(command: &mut Command) -> Status {
        let ended = Running::start(command).finish();
        ended.expect_success();
        match serde_json::from_str(&ended.stdout) {
            Ok(json) => Status { json },
            Err(error) => panic!("`remora devices --json` printed no JSON: {error}\n{}", ended.stdout),
        }
    }

    /// Bytes in use on all devices.
    pub fn memory_used(&self) -> u64 {
        self.devices().iter().map(|device| number(device, "memory_used")).sum()
    }

    pub fn devices(&self) -> Vec<serde_json::Value> {
        self.json["devices"].as_array().expect("a worker has devices").clone()
    }

    pub fn sessions(&self) -> Vec<Session> {
        let sessions = self.json["sessions"].as_array().expect("a worker has a list of sessions");
        let memory = |session: &serde_json::Value| {
            session["memory_used"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(serde_json::Value::as_u64)
                .sum()
        };
        sessions
            .iter()
            .map(|session| Session {
                client: session["client"].as_str().unwrap_or_default().to_owned(),
                pid: number(session, "pid"),
                process: number(session, "process").try_into().expect("a process id"),
                connected: session["connected"].as_bool().unwrap_or_default(),
                memory_used: memory(session),
                requests: number(session, "requests"),
            })
            .collect()
    }

    pub fn session_of(&self, pid: u32) -> Option<Session> {
        self.sessions().into_iter().find(|session| session.pid == u64::from(pid))
    }
}

fn number(value: &serde_json::Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no number `{name}` in {value}"))
}
