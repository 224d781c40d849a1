//! Sessions by the processes they belong to, saved and taken up: what the provider library asks for.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::aside;
use crate::agent::Agent;
use crate::error::{AgentError, Problem};
use crate::snapshot::{Choice, Outcome};

/// As many as the accelerator interface has room for.
const MAX_PROCESSES: usize = 1024;

/// Whose sessions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessChoice {
    /// By their numbers on this machine: clients, workers, or the processes that workers have for sessions. None are all.
    #[serde(default)]
    processes: Vec<u32>,
    /// Only sessions that have this GPU.
    #[serde(default)]
    device: Option<String>,
}

impl ProcessChoice {
    fn choice(self) -> Result<Choice, AgentError> {
        let ProcessChoice { processes, device } = self;
        let wrong = |text: &str| Err(AgentError::BadRequest(text.to_owned()));
        if processes.len() > MAX_PROCESSES {
            return wrong("1024 processes are the most");
        }
        if processes.contains(&0) {
            return wrong("there is no process 0");
        }
        if processes.is_empty() && device.is_none() {
            return wrong("processes or a device are wanted");
        }
        Ok(Choice::Processes { processes: BTreeSet::from_iter(processes), device })
    }
}

/// What became of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessOutcome {
    /// Those that were saved or taken up now: 16 hexadecimal digits each, as `remora devices --json` has them.
    sessions: Vec<String>,
    /// Processes that have no session here.
    unknown: Vec<u32>,
}

impl From<Outcome> for ProcessOutcome {
    fn from(Outcome { sessions, unknown }: Outcome) -> ProcessOutcome {
        ProcessOutcome { sessions: sessions.iter().map(ToString::to_string).collect(), unknown }
    }
}

/// Saves the sessions of processes. If one cannot be saved, all go on.
#[utoipa::path(post, path = "/api/v1/processes/snapshot", tag = "processes", request_body = ProcessChoice, responses((status = 200, body = ProcessOutcome), (status = 404, description = "None of them has a session here", body = Problem), (status = 409, description = "A session cannot be saved, and all go on", body = Problem), (status = 501, description = "Sessions of such GPUs cannot be saved", body = Problem)))]
pub(crate) async fn snapshot(
    State(agent): State<Arc<Agent>>,
    Json(wanted): Json<ProcessChoice>,
) -> Result<Json<ProcessOutcome>, AgentError> {
    let choice = wanted.choice()?;
    Ok(Json(aside(&agent, move |agent| agent.save(&choice)).await?.into()))
}

/// Takes the sessions of processes up again that were saved. One that runs already is left alone.
#[utoipa::path(post, path = "/api/v1/processes/resume", tag = "processes", request_body = ProcessChoice, responses((status = 200, body = ProcessOutcome), (status = 404, description = "None of them has a session here", body = Problem), (status = 409, description = "A session cannot be taken up, and stays saved", body = Problem)))]
pub(crate) async fn resume(
    State(agent): State<Arc<Agent>>,
    Json(wanted): Json<ProcessChoice>,
) -> Result<Json<ProcessOutcome>, AgentError> {
    let choice = wanted.choice()?;
    Ok(Json(aside(&agent, move |agent| agent.resume(&choice)).await?.into()))
}
