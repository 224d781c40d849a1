//! Routes that move allocations to other agents: one allocation, or all of a machine that is drained.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::allocations::AllocationView;
use super::aside;
use crate::agent::Agent;
use crate::allocation::ArrivingAllocation;
use crate::error::{AgentError, Problem};
use crate::migrate::{Destination, Drained, Moved};
use crate::tokens::Role;

/// The agent that gets an allocation.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveRequest {
    /// `http://HOST:PORT`, or `https://HOST:PORT?pin=sha256:DIGITS` with the fingerprint of its certificate.
    to: String,
    /// Its administrator token.
    token: String,
    /// Seconds for the running work of each session to end; after it the session cannot move. Default: 10.
    patience_s: Option<f64>,
}

/// The agent that gets all allocations of a machine.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainRequest {
    /// `http://HOST:PORT`, or `https://HOST:PORT?pin=sha256:DIGITS`. Without it allocations stay, and only new ones are refused.
    to: Option<String>,
    /// Its administrator token.
    token: Option<String>,
    /// Seconds for the running work of each session to end; after it the session cannot move. Default: 10.
    patience_s: Option<f64>,
}

/// An allocation that has moved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MovedView {
    id: String,
    /// The allocation at the other agent, with its new URL.
    allocation: serde_json::Value,
    /// Ids of the sessions that have moved.
    sessions: Vec<String>,
}

impl MovedView {
    fn of(moved: Moved) -> MovedView {
        let Moved { id, allocation, sessions } = moved;
        MovedView { id, allocation, sessions: sessions.iter().map(ToString::to_string).collect() }
    }
}

/// An allocation that could not move.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StayedView {
    id: String,
    error: String,
}

/// Whether a machine is being drained, and what a drain has moved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DrainView {
    /// Whether new allocations are refused.
    draining: bool,
    /// Number of allocations on this machine.
    allocations: usize,
    moved: Vec<MovedView>,
    /// Allocations that could not move. They are as before.
    stayed: Vec<StayedView>,
}

impl DrainView {
    fn new(agent: &Agent, drained: Drained) -> DrainView {
        let stayed =
            drained.stayed.into_iter().map(|(id, error)| StayedView { id, error: error.to_string() });
        DrainView {
            draining: agent.moves.is_draining(),
            allocations: agent.allocations.lock().len(),
            moved: drained.moved.into_iter().map(MovedView::of).collect(),
            stayed: stayed.collect(),
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, AgentError> {
    serde_json::from_slice(body).map_err(|error| AgentError::BadRequest(error.to_string()))
}

/// Moves an allocation with its sessions to another agent. It keeps its id, token and limits; its URL changes.
#[utoipa::path(post, path = "/api/v1/allocations/{id}/migrate", tag = "allocations", params(("id" = String, Path)), request_body = MoveRequest, responses((status = 200, body = MovedView), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, description = "It cannot move; everything is as before", body = Problem), (status = 502, description = "The other agent refuses it or cannot be reached", body = Problem)))]
pub(crate) async fn migrate(
    State(agent): State<Arc<Agent>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<MovedView>, AgentError> {
    let MoveRequest { to, token, patience_s } = parse(&body)?;
    let to = Destination::new(&to, &token, patience_s)?;
    let moved = aside(&agent, move |agent| agent.migrate(&id, &to)).await?;
    Ok(Json(MovedView::of(moved)))
}

/// Creates an allocation that another agent hands over, with its id, tokens and limits.
#[utoipa::path(post, path = "/api/v1/allocations/import", tag = "allocations", request_body = ArrivingAllocation, responses((status = 201, body = AllocationView), (status = 400, body = Problem), (status = 409, description = "It does not fit, or is here already", body = Problem), (status = 503, description = "The worker did not start, or this machine is being drained", body = Problem)))]
pub(crate) async fn import(
    State(agent): State<Arc<Agent>>,
    body: Bytes,
) -> Result<(StatusCode, Json<AllocationView>), AgentError> {
    let arriving: ArrivingAllocation = parse(&body)?;
    let made = aside(&agent, move |agent| agent.import(arriving)).await?;
    Ok((StatusCode::CREATED, Json(AllocationView::new(&agent, &made, Role::Admin))))
}

/// Drains this machine: refuses new allocations, and moves all allocations to another agent. Answers when that is done.
#[utoipa::path(post, path = "/api/v1/drain", tag = "operation", request_body = DrainRequest, responses((status = 200, body = DrainView), (status = 400, body = Problem), (status = 409, description = "Another drain is in progress", body = Problem)))]
pub(crate) async fn drain(
    State(agent): State<Arc<Agent>>,
    body: Bytes,
) -> Result<Json<DrainView>, AgentError> {
    let asked: DrainRequest = if body.is_empty() { DrainRequest::default() } else { parse(&body)? };
    let to = match (&asked.to, &asked.token) {
        (Some(to), token) => {
            Some(Destination::new(to, token.as_deref().unwrap_or_default(), asked.patience_s)?)
        }
        (None, Some(_)) => {
            return Err(AgentError::BadRequest("a token was given, but no agent (to)".to_owned()));
        }
        (None, None) => None,
    };
    let drained = aside(&agent, move |agent| agent.drain(to.as_ref())).await?;
    Ok(Json(DrainView::new(&agent, drained)))
}

/// Shows whether this machine is being drained.
#[utoipa::path(get, path = "/api/v1/drain", tag = "operation", responses((status = 200, body = DrainView)))]
pub(crate) async fn drain_state(State(agent): State<Arc<Agent>>) -> Json<DrainView> {
    Json(DrainView::new(&agent, Drained::default()))
}

/// Ends a drain: new allocations are accepted again. Allocations that have moved do not return.
#[utoipa::path(delete, path = "/api/v1/drain", tag = "operation", responses((status = 200, body = DrainView)))]
pub(crate) async fn cancel_drain(State(agent): State<Arc<Agent>>) -> Result<Json<DrainView>, AgentError> {
    agent.moves.set_draining(false)?;
    Ok(Json(DrainView::new(&agent, Drained::default())))
}
