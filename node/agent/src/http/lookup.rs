//! Who has what, asked from inside a pod or about a process. The token is the allocation's own, and is compared, not just read.

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
    /// The container, if the pod has several with allocations.
    container_name: Option<String>,
    /// Asked by the operator: which pod.
    pod_name: Option<String>,
    namespace: Option<String>,
}

/// What a pod may use.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PodData {
    pod_name: String,
    namespace: String,
    container_name: Option<String>,
    gpu_uuids: Vec<String>,
    tflops_limit: f64,
    vram_limit: u64,
    qos_level: &'static str,
    /// Several share a GPU.
    compute_shard: bool,
    /// Limits are enforced by the worker.
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

/// What the pod that asks may use. A pod shows the token of its allocation; the operator names the pod.
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
            return Err(AgentError::BadRequest("pod_name is wanted".to_owned()));
        }
        Caller::Operator(_) => agent.allocations.lock().values().find(|it| named(it)).cloned(),
    };
    let found = found.ok_or_else(|| AgentError::NotFound("no such pod has an allocation here".to_owned()))?;
    let mut data = pod_data(&agent, &found);
    if is_reader {
        // The URL holds the token of the allocation.
        data.connection_url = None;
    }
    Ok(Json(PodAnswer { success: true, data }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProcessQuery {
    /// The process, by its number on this machine, or by the one it has in its container.
    pid: Option<u32>,
    container_pid: Option<u32>,
}

/// A client process and the allocation it uses.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessData {
    /// Its number on this machine; nothing for a client on another.
    host_pid: Option<u32>,
    /// The number it knows itself by.
    container_pid: Option<u32>,
    client: String,
    allocation: String,
    pod_name: Option<String>,
    namespace: String,
    gpu_uuids: Vec<String>,
    memory_used_bytes: u64,
}

/// The allocations that a process uses, and how much of them. The holder of an allocation sees its own processes only.
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
