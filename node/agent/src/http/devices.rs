//! Routes for the machine's GPUs, their reservations and usage.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::aside;
use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::device::Gpu;
use crate::error::{AgentError, Problem};
use crate::reservation::{self, Share};

/// A GPU with its capacity, reserved share and usage.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeviceView {
    #[serde(flatten)]
    gpu: Gpu,
    /// Most that the shares of all allocations may add up to.
    capacity: Share,
    promised: Share,
    memory_used_bytes: u64,
    compute_used_percent: f64,
    allocations: Vec<String>,
}

fn view(agent: &Agent, gpu: &Gpu) -> DeviceView {
    let allocations = agent.allocations.lock().clone();
    let listed: Vec<Allocation> = allocations.values().cloned().collect();
    let usage = agent.device_usage(gpu, &listed);
    DeviceView {
        capacity: reservation::capacity(gpu, &agent.config.oversubscription),
        promised: Agent::promised(&allocations, &gpu.uuid),
        memory_used_bytes: usage.memory_bytes,
        compute_used_percent: usage.compute_percent,
        allocations: listed.into_iter().filter(|it| it.devices.contains(&gpu.uuid)).map(|it| it.id).collect(),
        gpu: gpu.clone(),
    }
}

/// Lists all GPUs.
#[utoipa::path(get, path = "/api/v1/devices", tag = "devices", responses((status = 200, body = Vec<DeviceView>), (status = 401, body = Problem)))]
pub(crate) async fn list(State(agent): State<Arc<Agent>>) -> Json<Vec<DeviceView>> {
    let gpus = agent.gpus.read().clone();
    Json(gpus.iter().map(|gpu| view(&agent, gpu)).collect())
}

/// Shows one GPU.
#[utoipa::path(get, path = "/api/v1/devices/{uuid}", tag = "devices", params(("uuid" = String, Path)), responses((status = 200, body = DeviceView), (status = 404, body = Problem)))]
pub(crate) async fn detail(
    State(agent): State<Arc<Agent>>,
    Path(uuid): Path<String>,
) -> Result<Json<DeviceView>, AgentError> {
    let found = agent.gpus.read().iter().find(|gpu| gpu.uuid.eq_ignore_ascii_case(&uuid)).cloned();
    let gpu = found.ok_or_else(|| AgentError::NotFound(format!("there is no GPU {uuid}")))?;
    Ok(Json(view(&agent, &gpu)))
}

/// Discovers the GPUs again.
#[utoipa::path(post, path = "/api/v1/devices/discover", tag = "devices", responses((status = 200, body = Vec<DeviceView>), (status = 500, body = Problem)))]
pub(crate) async fn discover(State(agent): State<Arc<Agent>>) -> Result<Json<Vec<DeviceView>>, AgentError> {
    let gpus = aside(&agent, Agent::discover).await?;
    Ok(Json(gpus.iter().map(|gpu| view(&agent, gpu)).collect()))
}
