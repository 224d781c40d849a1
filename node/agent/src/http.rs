//! The HTTP interface: routes, and who may call them.

mod allocations;
mod devices;
mod lookup;
mod openapi;
mod operation;
mod processes;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};

use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::error::AgentError;

/// No request is larger.
const BODY_LIMIT: usize = 64 << 10;

/// All routes.
pub(crate) fn router(agent: Arc<Agent>) -> Router {
    let guarded = Router::new()
        .route("/api/v1/devices", get(devices::list))
        .route("/api/v1/devices/discover", post(devices::discover))
        .route("/api/v1/devices/{uuid}", get(devices::detail))
        .route("/api/v1/workers", get(workers::list))
        .route("/api/v1/workers/{id}", get(workers::detail))
        .route("/api/v1/workers/{id}/snapshot", post(workers::snapshot))
        .route("/api/v1/workers/{id}/resume", post(workers::resume))
        .route("/api/v1/processes/snapshot", post(processes::snapshot))
        .route("/api/v1/processes/resume", post(processes::resume))
        .route("/api/v1/allocations", get(allocations::list).post(allocations::create))
        .route("/api/v1/allocations/{id}", get(allocations::detail).delete(allocations::release))
        .route("/api/v1/allocations/{id}/renew", post(allocations::renew))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&agent), operators_only));
    Router::new()
        .merge(guarded)
        // These take the token of an allocation, too.
        .route("/api/v1/pod", get(lookup::pod))
        .route("/api/v1/process", get(lookup::process).post(lookup::process))
        .route("/api/openapi.json", get(openapi::document))
        .route("/healthz", get(operation::health))
        .route("/readyz", get(operation::ready))
        .route("/metrics", get(operation::metrics))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(agent)
}

/// Lets those through who know the agent's token.
async fn operators_only(
    State(agent): State<Arc<Agent>>,
    request: Request,
    next: Next,
) -> Result<Response, AgentError> {
    is_operator(&agent, request.headers())?;
    Ok(next.run(request).await)
}

fn is_operator(agent: &Agent, headers: &HeaderMap) -> Result<(), AgentError> {
    match bearer(headers) {
        Some(token) if same(token, &agent.token) => Ok(()),
        Some(_) => Err(AgentError::Unauthorized("the token is not the agent's")),
        None => Err(AgentError::Unauthorized(
            "send \"Authorization: Bearer TOKEN\"; the token is in the file api-token of the agent's data folder",
        )),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
fn same(left: &str, right: &str) -> bool {
    let differences = left.bytes().zip(right.bytes()).fold(0, |sum, (left, right)| sum | (left ^ right));
    left.len() == right.len() && differences == 0
}

/// Who asks: the operator, or the holder of one allocation.
pub(crate) enum Asker {
    Operator,
    Holder(Box<Allocation>),
}

impl FromRequestParts<Arc<Agent>> for Asker {
    type Rejection = AgentError;

    async fn from_request_parts(parts: &mut Parts, agent: &Arc<Agent>) -> Result<Asker, AgentError> {
        let token = bearer(&parts.headers);
        let token = token.ok_or(AgentError::Unauthorized("send \"Authorization: Bearer TOKEN\""))?;
        if same(token, &agent.token) {
            return Ok(Asker::Operator);
        }
        let allocations = agent.allocations.lock();
        let mut holder = None;
        // All are compared, whichever it is.
        for allocation in allocations.values() {
            if same(token, &allocation.token) {
                holder = Some(allocation.clone());
            }
        }
        let wrong = AgentError::Unauthorized("the token is neither the agent's nor that of an allocation");
        holder.map(|holder| Asker::Holder(Box::new(holder))).ok_or(wrong)
    }
}

/// Does what takes long on a thread where it may.
async fn aside<T: Send + 'static>(
    agent: &Arc<Agent>,
    work: impl FnOnce(&Agent) -> Result<T, AgentError> + Send + 'static,
) -> Result<T, AgentError> {
    let agent = Arc::clone(agent);
    match tokio::task::spawn_blocking(move || work(&agent)).await {
        Ok(result) => result,
        Err(error) => Err(AgentError::Worker(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_the_same_only_when_they_are() {
        assert!(same("abc", "abc"));
        for other in ["abd", "ab", "abcd", ""] {
            assert!(!same("abc", other), "{other}");
        }
    }
}
