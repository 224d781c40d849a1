//! The processes behind allocations.

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

/// A worker; its id is the allocation's.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerView {
    id: String,
    pid: Option<u32>,
    endpoint: Option<String>,
    running: bool,
    restarts: u32,
    started_ms: u64,
    last_error: Option<String>,
    /// What the worker says of itself: devices with limits and use, sessions.
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

/// All workers.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", responses((status = 200, body = Vec<WorkerView>)))]
pub(crate) async fn list(State(agent): State<Arc<Agent>>) -> Json<Vec<WorkerView>> {
    let all: Vec<Allocation> = agent.allocations.lock().values().cloned().collect();
    Json(all.iter().map(|it| view(&agent, it)).collect())
}

/// One worker, asked now.
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

/// Sessions by the numbers that `remora devices --json` shows.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// 16 hexadecimal digits each, as `remora devices --json` has them.
    sessions: Vec<String>,
}

impl SessionList {
    fn of(outcome: &Outcome) -> SessionList {
        SessionList { sessions: outcome.sessions.iter().map(ToString::to_string).collect() }
    }
}

/// Saves the sessions of a worker to the agent's folder. Their programs wait until they are resumed.
#[utoipa::path(post, path = "/api/v1/workers/{id}/snapshot", tag = "workers", params(("id" = String, Path)), responses((status = 200, body = SessionList), (status = 404, body = Problem), (status = 409, description = "A session cannot be saved, and all go on", body = Problem), (status = 501, description = "Sessions of such GPUs cannot be saved", body = Problem)))]
pub(crate) async fn snapshot(
    State(agent): State<Arc<Agent>>,
    Path(id): Path<String>,
) -> Result<Json<SessionList>, AgentError> {
    let saved = aside(&agent, move |agent| agent.save(&Choice::Worker(id)));
    Ok(Json(SessionList::of(&saved.await?)))
}

/// Takes the sessions of a worker up again that were saved.
#[utoipa::path(post, path = "/api/v1/workers/{id}/resume", tag = "workers", params(("id" = String, Path)), responses((status = 200, body = SessionList), (status = 404, body = Problem), (status = 409, description = "A session cannot be taken up, and stays saved", body = Problem)))]
pub(crate) async fn resume(
    State(agent): State<Arc<Agent>>,
    Path(id): Path<String>,
) -> Result<Json<SessionList>, AgentError> {
    let resumed = aside(&agent, move |agent| agent.resume(&Choice::Worker(id)));
    Ok(Json(SessionList::of(&resumed.await?)))
}
