//! Routes for operators: health, readiness and metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;

use super::role;
use crate::agent::Agent;
use crate::error::{AgentError, Problem};

/// Liveness: answers as long as the agent runs.
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200)))]
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Readiness: whether allocations can be created. A restarting worker affects only its own allocation, so it does not count.
#[utoipa::path(get, path = "/readyz", tag = "operation", responses((status = 200), (status = 503)))]
pub(crate) async fn ready(State(agent): State<Arc<Agent>>) -> (StatusCode, String) {
    let missing = agent.allocations.lock().values().filter(|it| it.worker.process.is_none()).count();
    let why = if agent.stopping.load(Ordering::Relaxed) {
        "the agent is stopping".to_owned()
    } else if agent.moves.is_draining() {
        "this machine is being drained".to_owned()
    } else if agent.gpus.read().is_empty() {
        "this machine has no GPU".to_owned()
    } else {
        let note = if missing > 0 { format!("; workers being started: {missing}") } else { String::new() };
        return (StatusCode::OK, format!("ok{note}\n"));
    };
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}

/// Metrics for Prometheus. Requires one of the agent's tokens unless the agent was started with open metrics.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, content_type = "text/plain", body = String), (status = 401, body = Problem)))]
pub(crate) async fn metrics(
    State(agent): State<Arc<Agent>>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, AgentError> {
    if !agent.config.open_metrics {
        role(&agent, &headers)?;
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], agent.prometheus()))
}
