//! Routes that save and resume sessions by process. The provider library calls them.

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

/// Most processes in a request; the accelerator interface has the same limit.
const MAX_PROCESSES: usize = 1024;

/// Selects sessions by process and device.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessChoice {
    /// PIDs on this machine, of clients, workers or the workers' session processes. An empty list selects all.
    #[serde(default)]
    processes: Vec<u32>,
    /// Selects only sessions that use this GPU.
    #[serde(default)]
    device: Option<String>,
}

impl ProcessChoice {
    fn choice(self) -> Result<Choice, AgentError> {
        let ProcessChoice { processes, device } = self;
        let wrong = |text: &str| Err(AgentError::BadRequest(text.to_owned()));
        if processes.len() > MAX_PROCESSES {
            return wrong("at most 1024 processes can be named");
        }
        if processes.contains(&0) {
            return wrong("there is no process 0");
        }
        if processes.is_empty() && device.is_none() {
            return wrong("name at least one process or a device");
        }
        Ok(Choice::Processes { processes: BTreeSet::from_iter(processes), device })
    }
}

/// Result of saving or resuming.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessOutcome {
    /// Ids of the sessions that this request saved or resumed: 16 hexadecimal digits each, as `remora devices --json` prints them.
    sessions: Vec<String>,
    /// Requested processes without a session on this machine.
    unknown: Vec<u32>,
}

impl From<Outcome> for ProcessOutcome {
    fn from(Outcome { sessions, unknown }: Outcome) -> ProcessOutcome {
        ProcessOutcome { sessions: sessions.iter().map(ToString::to_string).collect(), unknown }
    }
}

/// Saves the sessions of processes. If one cannot be saved, all keep running.
#[utoipa::path(post, path = "/api/v1/processes/snapshot", tag = "processes", request_body = ProcessChoice, responses((status = 200, body = ProcessOutcome), (status = 404, description = "None of them has a session here", body = Problem), (status = 409, description = "A session cannot be saved; all keep running", body = Problem), (status = 501, description = "Sessions on these GPUs cannot be saved", body = Problem)))]
pub(crate) async fn snapshot(
    State(agent): State<Arc<Agent>>,
    Json(wanted): Json<ProcessChoice>,
) -> Result<Json<ProcessOutcome>, AgentError> {
    let choice = wanted.choice()?;
    Ok(Json(aside(&agent, move |agent| agent.save(&choice)).await?.into()))
}

/// Resumes the saved sessions of processes. A session that already runs is left alone.
#[utoipa::path(post, path = "/api/v1/processes/resume", tag = "processes", request_body = ProcessChoice, responses((status = 200, body = ProcessOutcome), (status = 404, description = "None of them has a session here", body = Problem), (status = 409, description = "A session cannot be resumed and stays saved", body = Problem)))]
pub(crate) async fn resume(
    State(agent): State<Arc<Agent>>,
    Json(wanted): Json<ProcessChoice>,
) -> Result<Json<ProcessOutcome>, AgentError> {
    let choice = wanted.choice()?;
    Ok(Json(aside(&agent, move |agent| agent.resume(&choice)).await?.into()))
}
