//! Routes for the worker processes of allocations.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::aside;
use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::error::{AgentError, Problem};
use crate::snapshot::{Choice, Outcome};

/// A worker. Its id is that of the allocation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerView {
    id: String,
    pid: Option<u32>,
    endpoint: Option<String>,
    running: bool,
    restarts: u32,
    started_ms: u64,
    last_error: Option<String>,
    /// Status reported by the worker: devices with limits and usage, and sessions.
    status: Option<serde_json::Value>,
}

fn view(agent: &Agent, it: &Allocation) -> WorkerView {
    let host = agent.config.advertised();
    let sample = agent.samples.of(&it.id);
    WorkerView {
        id: it.id.clone(),
        pid: it.worker.process.map(|process| process.pid),
        endpoint: it.worker.endpoint(host).map(|endpoint| endpoint.to_string()),
        running: it.worker.process.is_some_and(|process| process.is_alive()),
        restarts: it.worker.restarts,
        started_ms: it.worker.started_ms,
        last_error: it.worker.last_error.clone(),
        status: sample.and_then(|sample| serde_json::to_value(&sample.status).ok()),
    }
}

/// Lists all workers.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", responses((status = 200, body = Vec<WorkerView>)))]
pub(crate) async fn list(State(agent): State<Arc<Agent>>) -> Json<Vec<WorkerView>> {
    let all: Vec<Allocation> = agent.allocations.lock().values().cloned().collect();
    Json(all.iter().map(|it| view(&agent, it)).collect())
}

/// Shows one worker, with its current status.
#[utoipa::path(get, path = "/api/v1/workers/{id}", tag = "workers", params(("id" = String, Path)), responses((status = 200, body = WorkerView), (status = 404, body = Problem)))]
pub(crate) async fn detail(
    State(agent): State<Arc<Agent>>,
    Path(id): Path<String>,
) -> Result<Json<WorkerView>, AgentError> {
    let asked = aside(&agent, move |agent| {
        let it = agent.allocation(&id)?;
        let mut view = view(agent, &it);
        let place = crate::worker::place(&agent.config, &it).filter(|_| view.running);
        let status = place.and_then(|place| place.inspect().ok());
        view.status = status.and_then(|status| serde_json::to_value(&status).ok());
        Ok(view)
    });
    Ok(Json(asked.await?))
}

/// A list of session ids.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// Session ids: 16 hexadecimal digits each, as `remora devices --json` prints them.
    sessions: Vec<String>,
}

impl SessionList {
    fn of(outcome: &Outcome) -> SessionList {
        SessionList { sessions: outcome.sessions.iter().map(ToString::to_string).collect() }
    }
}

/// Saves the sessions of a worker to the agent's folder. Their client programs wait until the sessions are resumed.
#[utoipa::path(post, path = "/api/v1/workers/{id}/snapshot", tag = "workers", params(("id" = String, Path)), responses((status = 200, body = SessionList), (status = 404, body = Problem), (status = 409, description = "A session cannot be saved; all keep running", body = Problem), (status = 501, description = "Sessions on these GPUs cannot be saved", body = Problem)))]
pub(crate) async fn snapshot(
    State(agent): State<Arc<Agent>>,
    Path(id): Path<String>,
) -> Result<Json<SessionList>, AgentError> {
    let saved = aside(&agent, move |agent| agent.save(&Choice::Worker(id)));
    Ok(Json(SessionList::of(&saved.await?)))
}

/// Resumes the saved sessions of a worker.
#[utoipa::path(post, path = "/api/v1/workers/{id}/resume", tag = "workers", params(("id" = String, Path)), responses((status = 200, body = SessionList), (status = 404, body = Problem), (status = 409, description = "A session cannot be resumed and stays saved", body = Problem)))]
pub(crate) async fn resume(
    State(agent): State<Arc<Agent>>,
    Path(id): Path<String>,
) -> Result<Json<SessionList>, AgentError> {
    let resumed = aside(&agent, move |agent| agent.resume(&Choice::Worker(id)));
    Ok(Json(SessionList::of(&resumed.await?)))
}
