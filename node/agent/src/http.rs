//! The HTTP interface: routes, authentication and authorization.

mod allocations;
mod devices;
mod lookup;
mod moves;
mod openapi;
mod operation;
mod processes;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};

use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::error::AgentError;
use crate::tokens::{Role, bearer, same};

/// Largest accepted request body, in bytes.
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
        .route("/api/v1/allocations/import", post(moves::import))
        .route("/api/v1/allocations/{id}", get(allocations::detail).delete(allocations::release))
        .route("/api/v1/allocations/{id}/renew", post(allocations::renew))
        .route("/api/v1/allocations/{id}/migrate", post(moves::migrate))
        .route("/api/v1/drain", get(moves::drain_state).post(moves::drain).delete(moves::cancel_drain))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&agent), authenticate));
    Router::new()
        .merge(guarded)
        // These routes also accept the token of an allocation.
        .route("/api/v1/pod", get(lookup::pod))
        .route("/api/v1/process", get(lookup::process).post(lookup::process))
        .route("/api/openapi.json", get(openapi::document))
        .route("/healthz", get(operation::health))
        .route("/readyz", get(operation::ready))
        .route("/metrics", get(operation::metrics))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(agent)
}

/// Authenticates a request and checks that its role permits the method. Handlers find the role in the request's extensions.
async fn authenticate(
    State(agent): State<Arc<Agent>>,
    mut request: Request,
    next: Next,
) -> Result<Response, AgentError> {
    let role = role(&agent, request.headers())?;
    role.permit(request.method())?;
    request.extensions_mut().insert(role);
    Ok(next.run(request).await)
}

fn role(agent: &Agent, headers: &HeaderMap) -> Result<Role, AgentError> {
    let token = bearer(headers).ok_or(AgentError::Unauthorized(
        "send \"Authorization: Bearer TOKEN\"; the tokens are in the files api-token and read-token of the agent's data folder",
    ))?;
    agent.tokens.role(token).ok_or(AgentError::Unauthorized("the token is not one of the agent's tokens"))
}

/// Sender of a request: an operator with one of the agent's tokens, or the holder of an allocation's token.
pub(crate) enum Caller {
    Operator(Role),
    Holder(Box<Allocation>),
}

impl FromRequestParts<Arc<Agent>> for Caller {
    type Rejection = AgentError;

    async fn from_request_parts(parts: &mut Parts, agent: &Arc<Agent>) -> Result<Caller, AgentError> {
        let token = bearer(&parts.headers);
        let token = token.ok_or(AgentError::Unauthorized("send \"Authorization: Bearer TOKEN\""))?;
        if let Some(role) = agent.tokens.role(token) {
            role.permit(&parts.method)?;
            return Ok(Caller::Operator(role));
        }
        let allocations = agent.allocations.lock();
        let mut holder = None;
        // Compares all tokens even after a match, so that the time reveals nothing.
        for allocation in allocations.values() {
            if same(token, &allocation.token) {
                holder = Some(allocation.clone());
            }
        }
        let wrong = AgentError::Unauthorized(
            "the token is neither one of the agent's tokens nor that of an allocation",
        );
        holder.map(|holder| Caller::Holder(Box::new(holder))).ok_or(wrong)
    }
}

/// Runs blocking work on a thread of the blocking pool.
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
