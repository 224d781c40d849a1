//! Routes for allocations: create, list, show, renew, release.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use limits::Qos;
use serde::Serialize;
use utoipa::ToSchema;

use super::aside;
use crate::agent::Agent;
use crate::allocation::{Allocation, AllocationRequest};
use crate::error::{AgentError, Problem};
use crate::reservation::Share;
use crate::tokens::Role;

/// An allocation as its holder sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AllocationView {
    pub(crate) id: String,
    name: String,
    namespace: String,
    workload: String,
    pod: Option<String>,
    container: Option<String>,
    /// UUIDs of the GPUs. `share` applies to each of them.
    devices: Vec<String>,
    share: Share,
    #[schema(value_type = String)]
    qos: Qos,
    /// `running`, or `restarting` while the worker is down.
    state: &'static str,
    /// Value of REMORA_URL for clients; they need nothing else. It contains the allocation's token, so readers do not get it.
    url: Option<String>,
    /// Environment variables for clients; contains the URL as REMORA_URL.
    environment: BTreeMap<&'static str, String>,
    created_ms: u64,
    /// Lease: the PID whose end releases the allocation, and the expiry unless it is renewed.
    lease_process: Option<u32>,
    lease_until_ms: Option<u64>,
}

impl AllocationView {
    pub(crate) fn new(agent: &Agent, it: &Allocation, role: Role) -> AllocationView {
        let url = agent.url(it).filter(|_| role == Role::Admin);
        let environment = url.iter().map(|url| ("REMORA_URL", url.clone())).collect();
        let running = it.worker.process.is_some_and(|process| process.is_alive());
        AllocationView {
            id: it.id.clone(),
            name: it.name().to_owned(),
            namespace: it.namespace().to_owned(),
            workload: it.workload().to_owned(),
            pod: it.request.pod.clone(),
            container: it.request.container.clone(),
            devices: it.devices.clone(),
            share: it.share,
            qos: it.qos,
            state: if running { "running" } else { "restarting" },
            url,
            environment,
            created_ms: it.created_ms,
            lease_process: it.lease.process.map(|process| process.pid),
            lease_until_ms: it.lease.until_ms,
        }
    }
}

/// Creates an allocation: reserves shares of GPUs, starts the worker, and returns its URL.
#[utoipa::path(post, path = "/api/v1/allocations", tag = "allocations", request_body = AllocationRequest, responses((status = 201, body = AllocationView), (status = 400, body = Problem), (status = 409, description = "No GPU has that much left", body = Problem), (status = 503, description = "The worker did not start", body = Problem)))]
pub(crate) async fn create(
    State(agent): State<Arc<Agent>>,
    body: Bytes,
) -> Result<(StatusCode, Json<AllocationView>), AgentError> {
    let request: AllocationRequest =
        serde_json::from_slice(&body).map_err(|error| AgentError::BadRequest(error.to_string()))?;
    let made = aside(&agent, move |agent| agent.create(request)).await?;
    Ok((StatusCode::CREATED, Json(AllocationView::new(&agent, &made, Role::Admin))))
}

/// Lists all allocations.
#[utoipa::path(get, path = "/api/v1/allocations", tag = "allocations", responses((status = 200, body = Vec<AllocationView>)))]
pub(crate) async fn list(
    State(agent): State<Arc<Agent>>,
    Extension(role): Extension<Role>,
) -> Json<Vec<AllocationView>> {
    let all: Vec<Allocation> = agent.allocations.lock().values().cloned().collect();
    Json(all.iter().map(|it| AllocationView::new(&agent, it, role)).collect())
}

/// Shows one allocation.
#[utoipa::path(get, path = "/api/v1/allocations/{id}", tag = "allocations", params(("id" = String, Path)), responses((status = 200, body = AllocationView), (status = 404, body = Problem)))]
pub(crate) async fn detail(
    State(agent): State<Arc<Agent>>,
    Extension(role): Extension<Role>,
    Path(id): Path<String>,
) -> Result<Json<AllocationView>, AgentError> {
    Ok(Json(AllocationView::new(&agent, &agent.allocation(&id)?, role)))
}

/// Releases an allocation and stops its worker. Its GPU memory and compute are free when the response is sent.
#[utoipa::path(delete, path = "/api/v1/allocations/{id}", tag = "allocations", params(("id" = String, Path)), responses((status = 204), (status = 404, body = Problem), (status = 409, description = "It is being moved", body = Problem)))]
pub(crate) async fn release(
    State(agent): State<Arc<Agent>>,
    Path(id): Path<String>,
) -> Result<StatusCode, AgentError> {
    if agent.moves.is_moving(&id) {
        return Err(AgentError::Refused(format!("allocation {id} is being moved to another machine")));
    }
    aside(&agent, move |agent| agent.release(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Renews a lease: its time starts over.
#[utoipa::path(post, path = "/api/v1/allocations/{id}/renew", tag = "allocations", params(("id" = String, Path)), responses((status = 200, body = AllocationView), (status = 404, body = Problem)))]
pub(crate) async fn renew(
    State(agent): State<Arc<Agent>>,
    Path(id): Path<String>,
) -> Result<Json<AllocationView>, AgentError> {
    let renewed = aside(&agent, move |agent| agent.renew(&id)).await?;
    Ok(Json(AllocationView::new(&agent, &renewed, Role::Admin)))
}
