//! Lookup routes: the allocation of the calling pod, and the allocations that a process uses. Callers authenticate with the allocation's
//! token or one of the agent's.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Caller, aside};
use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::client;
use crate::error::{AgentError, Problem};
use crate::tokens::Role;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PodQuery {
    /// Container name, if several containers of the pod have allocations.
    container_name: Option<String>,
    /// Pod to look up; required for callers with one of the agent's tokens.
    pod_name: Option<String>,
    namespace: Option<String>,
}

/// Resources of a pod.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PodData {
    pod_name: String,
    namespace: String,
    container_name: Option<String>,
    gpu_uuids: Vec<String>,
    tflops_limit: f64,
    vram_limit: u64,
    qos_level: &'static str,
    /// Whether the compute limit is less than the whole GPU.
    compute_shard: bool,
    /// Isolation mode; the worker enforces the limits.
    isolation: &'static str,
    auto_freeze: bool,
    connection_url: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PodAnswer {
    success: bool,
    data: PodData,
}

fn pod_data(agent: &Agent, it: &Allocation) -> PodData {
    let gpus = agent.gpus.read();
    let tflops = gpus.iter().find(|gpu| it.devices.first() == Some(&gpu.uuid)).map_or(0.0, |gpu| gpu.tflops);
    PodData {
        pod_name: it.request.pod.clone().unwrap_or_else(|| it.name().to_owned()),
        namespace: it.namespace().to_owned(),
        container_name: it.request.container.clone(),
        gpu_uuids: it.devices.clone(),
        tflops_limit: it.share.compute_limit_percent / 100.0 * tflops,
        vram_limit: it.share.memory_limit_bytes,
        qos_level: it.qos.name(),
        compute_shard: it.share.compute_limit_percent < 100.0,
        isolation: "hard",
        auto_freeze: false,
        connection_url: agent.url(it),
    }
}

/// Returns the resources of a pod. A pod authenticates with its allocation's token; an operator names the pod.
#[utoipa::path(get, path = "/api/v1/pod", tag = "lookup", params(PodQuery), responses((status = 200, body = PodAnswer), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn pod(
    State(agent): State<Arc<Agent>>,
    caller: Caller,
    Query(query): Query<PodQuery>,
) -> Result<Json<PodAnswer>, AgentError> {
    let named = |it: &Allocation| {
        let same = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_ref().is_none_or(|wanted| is == Some(wanted.as_str()))
        };
        same(&query.container_name, it.request.container.as_deref())
            && same(&query.pod_name, it.request.pod.as_deref())
            && same(&query.namespace, Some(it.namespace()))
    };
    let is_reader = matches!(caller, Caller::Operator(Role::Reader));
    let found = match caller {
        Caller::Holder(allocation) => Some(*allocation).filter(named),
        Caller::Operator(_) if query.pod_name.is_none() => {
            return Err(AgentError::BadRequest("pod_name is required".to_owned()));
        }
        Caller::Operator(_) => agent.allocations.lock().values().find(|it| named(it)).cloned(),
    };
    let found =
        found.ok_or_else(|| AgentError::NotFound("this pod has no allocation on this machine".to_owned()))?;
    let mut data = pod_data(&agent, &found);
    if is_reader {
        // The URL contains the allocation's token.
        data.connection_url = None;
    }
    Ok(Json(PodAnswer { success: true, data }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProcessQuery {
    /// The process: by PID on this machine, or by PID inside its container.
    pid: Option<u32>,
    container_pid: Option<u32>,
}

/// A client process and the allocation it uses.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessData {
    /// PID on this machine; `null` for a client on another machine.
    host_pid: Option<u32>,
    /// PID inside the client's own PID namespace.
    container_pid: Option<u32>,
    client: String,
    allocation: String,
    pod_name: Option<String>,
    namespace: String,
    gpu_uuids: Vec<String>,
    memory_used_bytes: u64,
}

/// Lists the allocations that a process uses, with its usage. The holder of an allocation sees only the processes of that allocation.
#[utoipa::path(get, path = "/api/v1/process", tag = "lookup", params(ProcessQuery), responses((status = 200, body = Vec<ProcessData>), (status = 401, body = Problem)))]
pub(crate) async fn process(
    State(agent): State<Arc<Agent>>,
    caller: Caller,
    Query(query): Query<ProcessQuery>,
) -> Result<Json<Vec<ProcessData>>, AgentError> {
    let visible: Vec<Allocation> = match caller {
        Caller::Operator(_) => agent.allocations.lock().values().cloned().collect(),
        Caller::Holder(allocation) => vec![*allocation],
    };
    let found = aside(&agent, move |agent| Ok(processes(agent, &visible, &query)));
    Ok(Json(found.await?))
}

fn processes(agent: &Agent, visible: &[Allocation], query: &ProcessQuery) -> Vec<ProcessData> {
    let mut found = Vec::new();
    for it in visible {
        let (Some(sample), Some(port)) = (agent.samples.of(&it.id), it.worker.port) else { continue };
        for session in &sample.status.sessions {
            let fits = |wanted: Option<u32>, is: Option<u32>| wanted.is_none_or(|wanted| Some(wanted) == is);
            if !fits(query.container_pid, Some(session.pid)) {
                continue;
            }
            let host_pid = client::of(session, port);
            if !fits(query.pid, host_pid) {
                continue;
            }
            found.push(ProcessData {
                host_pid,
                container_pid: Some(session.pid),
                client: session.client.clone(),
                allocation: it.id.clone(),
                pod_name: it.request.pod.clone(),
                namespace: it.namespace().to_owned(),
                gpu_uuids: it.devices.clone(),
                memory_used_bytes: session.memory_used.iter().sum(),
            });
        }
    }
    found
}
