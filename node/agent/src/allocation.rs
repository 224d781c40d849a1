//! An allocation: shares of GPUs that a client has reserved, and the worker that serves them.

use limits::Qos;
use serde::{Deserialize, Serialize};
use transport::Endpoint;
use transport::tls::Trust;
use utoipa::ToSchema;

use crate::device::Gpu;
use crate::error::AgentError;
use crate::process::Identity;
use crate::reservation::Share;

/// Longest accepted name, in bytes.
const NAME_LIMIT: usize = 253;

/// Memory of each GPU, in bytes. `request` and `limit` default to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryRequest {
    /// Guaranteed memory.
    pub request: Option<u64>,
    /// Most memory that may be used.
    pub limit: Option<u64>,
    /// Limit of host memory, for all GPUs together. Default: 512 MiB more than the sum of the GPU memory limits.
    pub host: Option<u64>,
}

/// Compute of each GPU, in percent of it or in TFLOPs (half precision).
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComputeRequest {
    /// Guaranteed share of each GPU's compute units, in percent.
    pub request_percent: Option<f64>,
    /// The most that it may use, in percent.
    pub limit_percent: Option<f64>,
    /// The same as a number of TFLOPS.
    pub request_tflops: Option<f64>,
    /// The same as a number of TFLOPS.
    pub limit_tflops: Option<f64>,
}

/// Lifetime of an allocation. Without a lease it lives until it is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// The allocation ends when this process (a PID on the agent's machine) ends.
    pub process: Option<u32>,
    /// The allocation ends this many seconds after it was created or last renewed.
    pub seconds: Option<f64>,
}

/// A request for an allocation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationRequest {
    /// Names that label the allocation in listings and metrics.
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub workload: Option<String>,
    pub pod: Option<String>,
    pub container: Option<String>,
    /// Number of GPUs. The share of each is the same.
    pub gpus: Option<u32>,
    /// Selects the GPU: by UUID, or by model or vendor.
    pub device: Option<String>,
    pub model: Option<String>,
    pub vendor: Option<String>,
    /// Share of memory and compute in percent, where `memory` or `compute` do not give it.
    pub percent: Option<f64>,
    pub memory: Option<MemoryRequest>,
    pub compute: Option<ComputeRequest>,
    #[schema(value_type = Option<String>, example = "medium")]
    pub qos: Option<Qos>,
    pub lease: Option<LeaseRequest>,
}

impl AllocationRequest {
    pub(crate) fn check(&self) -> Result<(), AgentError> {
        let names = [&self.name, &self.namespace, &self.workload, &self.pod, &self.container];
        for name in names.into_iter().flatten() {
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c));
            if name.is_empty() || name.len() > NAME_LIMIT || !plain {
                let text =
                    format!("a name consists of 1 to {NAME_LIMIT} letters, digits and -_./: characters");
                return Err(AgentError::BadRequest(text));
            }
        }
        let positive = |value: Option<f64>| value.is_none_or(|value| value.is_finite() && value > 0.0);
        let compute = self.compute.unwrap_or_default();
        let numbers = [
            self.percent,
            compute.request_percent,
            compute.limit_percent,
            compute.request_tflops,
            compute.limit_tflops,
            self.lease.and_then(|lease| lease.seconds),
        ];
        if !numbers.into_iter().all(positive) {
            return Err(AgentError::BadRequest(
                "percentages, TFLOPs and seconds must be greater than 0".to_owned(),
            ));
        }
        if self.gpus == Some(0) {
            return Err(AgentError::BadRequest("gpus must be at least 1".to_owned()));
        }
        Ok(())
    }

    /// Returns whether a GPU matches the requested device, model and vendor.
    pub(crate) fn admits(&self, gpu: &Gpu) -> bool {
        let same = |wanted: &Option<String>, is: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(is))
        };
        let model = self.model.as_ref().is_none_or(|wanted| {
            let (wanted, is) = (wanted.to_ascii_lowercase(), gpu.model.to_ascii_lowercase());
            is == wanted || is.split_whitespace().any(|word| word == wanted)
        });
        same(&self.device, &gpu.uuid) && same(&self.vendor, &gpu.vendor) && model
    }

    /// Returns the requested share of a GPU. A missing limit defaults to the request and a missing request to the limit; with neither the
    /// share is the whole GPU.
    pub(crate) fn share_of(&self, gpu: &Gpu) -> Result<Share, AgentError> {
        let percent = self.percent.unwrap_or(100.0);
        let memory = self.memory.unwrap_or_default();
        let whole = (gpu.memory_bytes as f64 * percent / 100.0) as u64;
        let memory_limit = memory.limit.or(memory.request).unwrap_or(whole);
        let memory_request = memory.request.unwrap_or(memory_limit);
        let compute = self.compute.unwrap_or_default();
        let of_tflops = |tflops: Option<f64>| tflops.map(|tflops| 100.0 * tflops / gpu.tflops.max(1e-9));
        let request = compute.request_percent.or(of_tflops(compute.request_tflops));
        let limit = compute.limit_percent.or(of_tflops(compute.limit_tflops));
        let compute_limit = limit.or(request).unwrap_or(percent);
        let compute_request = request.unwrap_or(compute_limit);
        let share = Share {
            memory_request_bytes: memory_request,
            memory_limit_bytes: memory_limit,
            compute_request_percent: compute_request,
            compute_limit_percent: compute_limit,
        };
        let sane = memory_request <= memory_limit
            && memory_limit >= 1 << 20
            && compute_request <= compute_limit + 1e-9
            && compute_limit <= 100.0 + 1e-9;
        if !sane {
            return Err(AgentError::BadRequest(format!(
                "the request is for {share} of {} ({} bytes, {} TFLOPs); a request may be at most its limit, a memory limit must be \
                 1 MiB or more, and a compute limit at most 100 %",
                gpu.uuid, gpu.memory_bytes, gpu.tflops
            )));
        }
        Ok(share)
    }

    /// Returns the QoS class: the requested one, or by default high if limits equal requests.
    pub(crate) fn class(&self, share: &Share) -> Qos {
        let firm = share.memory_request_bytes == share.memory_limit_bytes
            && share.compute_request_percent == share.compute_limit_percent;
        self.qos.unwrap_or(if firm { Qos::High } else { Qos::Medium })
    }
}

/// An allocation that another agent hands over. It keeps its id, tokens and limits.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrivingAllocation {
    /// 12 hexadecimal digits.
    pub id: String,
    pub request: AllocationRequest,
    /// Share of each GPU, as it was calculated when the allocation was created.
    pub share: Share,
    #[schema(value_type = String, example = "medium")]
    pub qos: Qos,
    /// Token of its clients.
    pub token: String,
    /// Token with which the sending agent moves sessions to the new worker.
    pub admin_token: String,
    pub created_ms: u64,
    /// When its lease ends, unless it is renewed.
    pub lease_until_ms: Option<u64>,
    /// Model and memory of its GPUs, which must be the same here: programs have read them.
    pub gpu_model: String,
    pub gpu_memory_bytes: u64,
}

impl ArrivingAllocation {
    pub(crate) fn check(&self) -> Result<(), AgentError> {
        self.request.check()?;
        let is_hex =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        // The id is part of file names, the tokens are part of URLs.
        if self.id.len() != 12 || !is_hex(&self.id) {
            return Err(AgentError::BadRequest(
                "the id of an allocation has 12 hexadecimal digits".to_owned(),
            ));
        }
        if [&self.token, &self.admin_token].iter().any(|token| token.len() != 32 || !is_hex(token)) {
            return Err(AgentError::BadRequest("a token has 32 hexadecimal digits".to_owned()));
        }
        if self.token == self.admin_token {
            return Err(AgentError::BadRequest("the two tokens must be different".to_owned()));
        }
        if self.request.lease.is_some_and(|lease| lease.process.is_some()) || self.request.device.is_some() {
            let text =
                "an arriving allocation cannot name a process or a GPU of the machine that it comes from";
            return Err(AgentError::BadRequest(text.to_owned()));
        }
        let share = self.share;
        let sane = share.memory_request_bytes <= share.memory_limit_bytes
            && share.memory_limit_bytes >= 1 << 20
            && share.compute_request_percent >= 0.0
            && share.compute_request_percent <= share.compute_limit_percent + 1e-9
            && share.compute_limit_percent > 0.0
            && share.compute_limit_percent <= 100.0 + 1e-9;
        match sane {
            true => Ok(()),
            false => Err(AgentError::BadRequest(format!("the share is not valid: {share}"))),
        }
    }

    /// Whether a GPU can replace those that the allocation had.
    pub(crate) fn fits(&self, gpu: &Gpu) -> bool {
        gpu.model == self.gpu_model && gpu.memory_bytes == self.gpu_memory_bytes
    }
}

/// Lifetime of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) process: Option<Identity>,
    pub(crate) seconds: Option<f64>,
    /// Expiry in milliseconds since the Unix epoch, unless the lease is renewed.
    pub(crate) until_ms: Option<u64>,
}

/// The worker process of an allocation, as stored by the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerRecord {
    pub(crate) process: Option<Identity>,
    pub(crate) port: Option<u16>,
    /// Fingerprint of the worker's TLS certificate; `None` for plain TCP.
    #[serde(default)]
    pub(crate) pin: Option<String>,
    pub(crate) started_ms: u64,
    pub(crate) restarts: u32,
    pub(crate) last_error: Option<String>,
}

impl WorkerRecord {
    /// Returns the worker's endpoint on `host`; `None` if it was never started.
    pub(crate) fn endpoint(&self, host: &str) -> Option<Endpoint> {
        let (host, port) = (host.to_owned(), self.port?);
        Some(match self.pin {
            Some(_) => Endpoint::Tls { host, port },
            None => Endpoint::Tcp { host, port },
        })
    }

    /// Returns the certificate to trust, if the worker uses TLS.
    pub(crate) fn trust(&self) -> Option<Trust> {
        self.pin.as_deref().and_then(Trust::parse)
    }
}

/// Reserved shares of GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    pub(crate) id: String,
    pub(crate) request: AllocationRequest,
    /// UUIDs of the GPUs. `share` applies to each of them.
    pub(crate) devices: Vec<String>,
    pub(crate) share: Share,
    pub(crate) qos: Qos,
    /// Token that authenticates clients to the worker, and the pod to the agent's lookup routes.
    pub(crate) token: String,
    /// Token that authenticates the agent to the worker for listing, saving and resuming sessions. Empty for workers of older agents, which
    /// require none.
    #[serde(default)]
    pub(crate) admin_token: String,
    pub(crate) created_ms: u64,
    #[serde(default)]
    pub(crate) lease: Lease,
    #[serde(default)]
    pub(crate) worker: WorkerRecord,
}

impl Allocation {
    /// Returns the name of the allocation in metrics.
    pub(crate) fn name(&self) -> &str {
        self.request.name.as_deref().unwrap_or(&self.id)
    }

    pub(crate) fn namespace(&self) -> &str {
        self.request.namespace.as_deref().unwrap_or("default")
    }

    pub(crate) fn workload(&self) -> &str {
        self.request.workload.as_deref().unwrap_or_else(|| self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SoftwareGpu;

    fn gpu() -> Gpu {
        let wanted = SoftwareGpu { model: "mi300x".to_owned(), memory: Some(100 << 30), count: 1 };
        Gpu::software(&[wanted], "n").unwrap().remove(0)
    }

    fn request(json: &str) -> AllocationRequest {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_percentage_is_a_part_of_everything() {
        let share = request(r#"{"percent":25}"#).share_of(&gpu()).unwrap();
        assert_eq!(share.memory_limit_bytes, 25 << 30);
        assert_eq!((share.compute_request_percent, share.compute_limit_percent), (25.0, 25.0));
        assert_eq!(request("{}").share_of(&gpu()).unwrap().memory_request_bytes, 100 << 30);
    }

    #[test]
    fn tflops_are_percent_of_the_gpu_and_requests_differ_from_limits() {
        let asked = request(
            r#"{"memory":{"request":1073741824,"limit":2147483648},"compute":{"request_tflops":130.74,"limit_percent":50}}"#,
        );
        let share = asked.share_of(&gpu()).unwrap();
        assert_eq!((share.memory_request_bytes, share.memory_limit_bytes), (1 << 30, 2 << 30));
        assert!((share.compute_request_percent - 10.0).abs() < 1e-9);
        assert_eq!(asked.class(&share), Qos::Medium);
        let firm = request(r#"{"percent":10}"#);
        assert_eq!(firm.class(&firm.share_of(&gpu()).unwrap()), Qos::High);
    }

    #[test]
    fn requests_above_limits_and_more_than_a_whole_are_refused() {
        for wrong in [
            r#"{"memory":{"request":2147483648,"limit":1073741824}}"#,
            r#"{"compute":{"limit_percent":101}}"#,
            r#"{"compute":{"request_percent":60,"limit_percent":50}}"#,
            r#"{"memory":{"limit":10}}"#,
        ] {
            let refusal = request(wrong).share_of(&gpu()).unwrap_err().to_string();
            assert!(refusal.contains("the request is for") && !refusal.contains("Share {"), "{refusal}");
        }
        for wrong in [r#"{"percent":-1}"#, r#"{"name":"a b"}"#, r#"{"gpus":0}"#, r#"{"lease":{"seconds":0}}"#]
        {
            assert!(request(wrong).check().is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<AllocationRequest>(r#"{"percents":1}"#).is_err());
    }

    #[test]
    fn a_gpu_is_asked_for_by_uuid_model_or_vendor() {
        let gpu = gpu();
        for (yes, json) in [
            (true, r#"{"model":"mi300x"}"#),
            (true, r#"{"model":"AMD Instinct MI300X","vendor":"amd"}"#),
            (true, r#"{"device":"remora-n-mi300x-0"}"#),
            (false, r#"{"model":"mi210"}"#),
            (false, r#"{"device":"other"}"#),
        ] {
            assert_eq!(request(json).admits(&gpu), yes, "{json}");
        }
    }

    #[test]
    fn an_arriving_allocation_is_checked_like_a_request() {
        let good = ArrivingAllocation {
            id: "0123456789ab".to_owned(),
            request: request(r#"{"percent":25}"#),
            share: request(r#"{"percent":25}"#).share_of(&gpu()).unwrap(),
            qos: Qos::High,
            token: "0".repeat(32),
            admin_token: "1".repeat(32),
            created_ms: 7,
            lease_until_ms: None,
            gpu_model: gpu().model,
            gpu_memory_bytes: gpu().memory_bytes,
        };
        good.check().unwrap();
        assert!(good.fits(&gpu()));
        assert!(!good.fits(&Gpu { memory_bytes: 1 << 30, ..gpu() }));
        let wrong: [fn(&mut ArrivingAllocation); 8] = [
            |it| it.id = "../../../abc".to_owned(),
            |it| it.id = String::new(),
            |it| it.token = "short".to_owned(),
            |it| it.admin_token = format!("{}\n", "1".repeat(31)),
            |it| it.admin_token = it.token.clone(),
            |it| it.request.device = Some("gpu".to_owned()),
            |it| it.share.memory_request_bytes = u64::MAX,
            |it| it.share.compute_limit_percent = 1000.0,
        ];
        for spoil in wrong {
            let mut it = good.clone();
            spoil(&mut it);
            assert!(matches!(it.check(), Err(AgentError::BadRequest(_))), "{it:?}");
        }
    }
}
