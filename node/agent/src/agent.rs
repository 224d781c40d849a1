//! The agent itself: GPUs, allocations and their workers, and everything that is done to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use crate::allocation::{Allocation, AllocationRequest, Lease, WorkerRecord};
use crate::book::{self, Share};
use crate::config::Config;
use crate::device::{Backing, Gpu};
use crate::error::AgentError;
use crate::process::{self, Identity};
use crate::provider::Provider;
use crate::sample::Samples;
use crate::state::{Folder, new_token};
use crate::{vram, worker};

/// Figures of the agent itself.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) created: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) released: AtomicU64,
    /// Released because their client was gone.
    pub(crate) expired: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) push_batches: AtomicU64,
    pub(crate) pushed_bytes: AtomicU64,
    pub(crate) push_failures: AtomicU64,
    pub(crate) dropped_bytes: AtomicU64,
    pub(crate) spooled_bytes: AtomicU64,
}

/// The agent of this machine.
#[derive(Debug)]
pub struct Agent {
    pub(crate) config: Config,
    pub(crate) folder: Folder,
    pub(crate) token: String,
    pub(crate) provider: Option<Provider>,
    pub(crate) gpus: RwLock<Vec<Gpu>>,
    pub(crate) allocations: Mutex<BTreeMap<String, Allocation>>,
    /// When workers that have ended are started again, and how often that failed of late.
    pub(crate) restarts: Mutex<BTreeMap<String, (Instant, u32)>>,
    /// Allocations whose worker somebody is starting.
    pub(crate) starting: Mutex<BTreeSet<String>>,
    /// Held while sessions are saved or taken up.
    pub(crate) saving: Mutex<()>,
    /// Allocations that are being ended because their clients are gone.
    pub(crate) expiring: Mutex<BTreeSet<String>>,
    pub(crate) samples: Samples,
    pub(crate) counters: Counters,
    pub(crate) started: Instant,
    pub(crate) stopping: AtomicBool,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Agent {
    /// Finds the GPUs, reads what was promised before, and finds the workers that still run.
    pub fn open(config: Config) -> Result<Arc<Agent>, AgentError> {
        config.check()?;
        let folder = Folder::take(&config.data)?;
        let provider = config.provider.as_deref().map(Provider::load).transpose();
        let provider = provider.map_err(AgentError::Provider)?;
        let mut gpus = Gpu::software(&config.software, &config.node)
            .map_err(|model| AgentError::NoDevice(format!("there is no software GPU \"{model}\"")))?;
        if let Some(provider) = &provider {
            let more = provider.devices().map_err(AgentError::Provider)?;
            gpus.extend(more.into_iter().filter(|gpu| gpu.memory_bytes > 0));
        }
        let token = folder.api_token()?;
        let allocations = folder.read()?;
        vram::settle(&folder, &gpus, &allocations)?;
        let agent = Arc::new(Agent {
            token,
            provider,
            gpus: RwLock::new(gpus),
            allocations: Mutex::new(allocations),
            restarts: Mutex::default(),
            starting: Mutex::default(),
            saving: Mutex::default(),
            expiring: Mutex::default(),
            samples: Samples::default(),
            counters: Counters::default(),
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            folder,
            config,
        });
        agent.adopt();
        Ok(agent)
    }

    /// Takes workers over that an earlier agent started, by the mark in their environment.
    fn adopt(&self) {
        let mut allocations = self.allocations.lock();
        let prefix = format!("{}{}", worker::MARK, worker::mark(&self.folder, ""));
        for (process, id) in process::marked(&prefix, "worker") {
            match allocations.get_mut(&id) {
                Some(allocation) if allocation.worker.port.is_some() => {
                    tracing::info!("allocation {id}: worker {} goes on", process.pid);
                    allocation.worker.process = Some(process);
                }
                _ => {
                    // Started and not yet written down when the agent ended: nobody was told of it.
                    tracing::warn!("worker {} of unknown allocation {id} is ended", process.pid);
                    worker::end(process);
                }
            }
        }
        for allocation in allocations.values_mut() {
            if allocation.worker.process.is_some_and(|process| !process.is_alive()) {
                allocation.worker.process = None;
            }
        }
    }

    /// What is promised of a GPU.
    pub(crate) fn promised(allocations: &BTreeMap<String, Allocation>, uuid: &str) -> Share {
        let shares = allocations.values().filter(|it| it.devices.iter().any(|device| device == uuid));
        shares.fold(Share::default(), |sum, it| sum.plus(&it.share))
    }

    /// Promises parts of GPUs and starts their worker.
    pub(crate) fn create(&self, request: AllocationRequest) -> Result<Allocation, AgentError> {
        let made = self.promise(request).and_then(|allocation| self.begin(allocation));
        let counter = if made.is_ok() { &self.counters.created } else { &self.counters.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        made
    }

    fn promise(&self, request: AllocationRequest) -> Result<Allocation, AgentError> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(AgentError::Stopping);
        }
        request.check()?;
        let lease = self.lease(&request)?;
        let id = new_token()?[..12].to_owned();
        let token = new_token()?;
        let mut allocations = self.allocations.lock();
        let (devices, share) = self.choose(&request, &allocations)?;
        let allocation = Allocation {
            id: id.clone(),
            qos: request.class(&share),
            request,
            devices,
            share,
            token,
            created_ms: now_ms(),
            lease,
            worker: WorkerRecord::default(),
        };
        vram::reserve(&self.folder, &self.gpus.read(), &allocation)?;
        allocations.insert(id.clone(), allocation.clone());
        // The keeper is not to start what is being started.
        self.starting.lock().insert(id.clone());
        // Written before anything is started: whatever ends the agent now, nothing is promised twice.
        if let Err(error) = self.folder.write(&allocations) {
            allocations.remove(&id);
            vram::release(&self.folder, &allocation);
            self.starting.lock().remove(&id);
            return Err(error);
        }
        Ok(allocation)
    }

    fn lease(&self, request: &AllocationRequest) -> Result<Lease, AgentError> {
        let asked = request.lease.unwrap_or_default();
        let gone = |pid: u32| AgentError::BadRequest(format!("there is no process {pid} to lease to"));
        let process = asked.process.map(|pid| Identity::of(pid).ok_or_else(|| gone(pid))).transpose()?;
        let until_ms = asked.seconds.map(|seconds| now_ms() + (seconds * 1000.0) as u64);
        Ok(Lease { process, seconds: asked.seconds, until_ms })
    }

    /// The GPUs for a request, and what of each.
    fn choose(
        &self,
        request: &AllocationRequest,
        allocations: &BTreeMap<String, Allocation>,
    ) -> Result<(Vec<String>, Share), AgentError> {
        let gpus = self.gpus.read();
        let count = request.gpus.unwrap_or(1) as usize;
        let mut refusal = None;
        // One worker has one kind of back end.
        for software in [false, true] {
            let mut candidates = Vec::new();
            for (at, gpu) in gpus.iter().enumerate() {
                if request.admits(gpu) && matches!(gpu.backing, Backing::Software { .. }) == software {
                    let capacity = book::capacity(gpu, &self.config.oversubscription);
                    let mut used = Agent::promised(allocations, &gpu.uuid);
                    // What somebody uses beyond a request is not taken away.
                    used.memory_request_bytes = used.memory_request_bytes.max(vram::taken(&self.folder, gpu));
                    candidates.push((at, capacity, used, request.share_of(gpu)?));
                }
            }
            // The same of each: of several GPUs, those that are like the first.
            let Some(first) = candidates.first().map(|it| it.3) else { continue };
            candidates.retain(|it| count == 1 || it.3 == first);
            match book::choose(&candidates, count, self.config.placement) {
                Ok(chosen) => {
                    let share = candidates.iter().find(|it| it.0 == chosen[0]).map_or(first, |it| it.3);
                    return Ok((chosen.iter().map(|at| gpus[*at].uuid.clone()).collect(), share));
                }
                Err(shortage) => refusal = refusal.or(Some(shortage)),
            }
        }
        Err(match refusal {
            Some(Some(shortage)) => AgentError::Short(shortage),
            Some(None) => AgentError::NoDevice(format!("this machine has not {count} GPUs of that kind")),
            None => AgentError::NoDevice("this machine has no GPU of that kind".to_owned()),
        })
    }

    /// Starts the worker of a new allocation; if that fails nothing is promised any more.
    fn begin(&self, allocation: Allocation) -> Result<Allocation, AgentError> {
        let id = allocation.id.clone();
        let started = self.start_worker(&id);
        self.starting.lock().remove(&id);
        match started {
            Ok(allocation) => Ok(allocation),
            Err(error) => {
                let _ = self.release(&id);
                Err(error)
            }
        }
    }

    /// Starts the worker of an allocation and writes down which process it is.
    pub(crate) fn start_worker(&self, id: &str) -> Result<Allocation, AgentError> {
        let unknown = || AgentError::NotFound(format!("there is no allocation {id}"));
        let allocation = self.allocations.lock().get(id).cloned().ok_or_else(unknown)?;
        let gpus: Vec<Gpu> = {
            let all = self.gpus.read();
            let find = |uuid: &String| all.iter().find(|gpu| gpu.uuid == *uuid).cloned();
            allocation.devices.iter().filter_map(find).collect()
        };
        if gpus.len() != allocation.devices.len() {
            let text = format!("a GPU of {:?} is not there any more", allocation.devices);
            return Err(AgentError::NoDevice(text));
        }
        let started = worker::start(&self.config, &self.folder, &allocation, &gpus);
        let mut allocations = self.allocations.lock();
        let Some(known) = allocations.get_mut(id) else {
            // Released meanwhile.
            drop(allocations);
            if let Ok(started) = started {
                worker::end(started.process);
            }
            return Err(unknown());
        };
        let result = match started {
            Ok(started) => {
                tracing::info!("allocation {id}: worker {} on port {}", started.process.pid, started.port);
                known.worker.process = Some(started.process);
                known.worker.port = Some(started.port);
                known.worker.started_ms = now_ms();
                known.worker.last_error = None;
                Ok(known.clone())
            }
            Err(error) => {
                tracing::error!("allocation {id}: {error}");
                known.worker.last_error = Some(error.clone());
                Err(AgentError::Worker(error))
            }
        };
        self.folder.write(&allocations)?;
        result
    }

    /// Ends an allocation and its worker. What it had is free when this returns.
    pub(crate) fn release(&self, id: &str) -> Result<Allocation, AgentError> {
        // The promise is kept until the worker has ended: what it uses is not free before.
        let found = self.allocations.lock().get(id).cloned();
        let allocation = found.ok_or_else(|| AgentError::NotFound(format!("there is no allocation {id}")))?;
        if let Some(process) = allocation.worker.process {
            worker::end(process);
        }
        let mut allocations = self.allocations.lock();
        let removed = allocations.remove(id);
        // Started anew between the two looks.
        let again =
            removed.and_then(|it| it.worker.process).filter(|it| Some(*it) != allocation.worker.process);
        self.folder.write(&allocations)?;
        drop(allocations);
        if let Some(process) = again {
            worker::end(process);
        }
        vram::release(&self.folder, &allocation);
        worker::forget(&self.folder, id);
        self.samples.forget(id);
        self.counters.released.fetch_add(1, Ordering::Relaxed);
        tracing::info!("allocation {id} is released");
        Ok(allocation)
    }

    /// Begins the time of a lease anew.
    pub(crate) fn renew(&self, id: &str) -> Result<Allocation, AgentError> {
        let mut allocations = self.allocations.lock();
        let unknown = || AgentError::NotFound(format!("there is no allocation {id}"));
        let allocation = allocations.get_mut(id).ok_or_else(unknown)?;
        allocation.lease.until_ms =
            allocation.lease.seconds.map(|seconds| now_ms() + (seconds * 1000.0) as u64);
        let renewed = allocation.clone();
        self.folder.write(&allocations)?;
        Ok(renewed)
    }

    pub(crate) fn allocation(&self, id: &str) -> Result<Allocation, AgentError> {
        let found = self.allocations.lock().get(id).cloned();
        found.ok_or_else(|| AgentError::NotFound(format!("there is no allocation {id}")))
    }

    /// The address a client is given, whole, with all it needs to prove.
    pub(crate) fn url(&self, allocation: &Allocation) -> Option<String> {
        let endpoint = transport::Endpoint::tcp(self.config.advertised(), allocation.worker.port?);
        Some(transport::Address { endpoint, token: Some(allocation.token.clone()) }.to_string())
    }

    /// Looks for GPUs again. Those that are gone are kept as long as somebody has a part of them.
    pub(crate) fn discover(&self) -> Result<Vec<Gpu>, AgentError> {
        let Some(provider) = &self.provider else { return Ok(self.gpus.read().clone()) };
        let found = provider.devices().map_err(AgentError::Provider)?;
        let allocations = self.allocations.lock();
        let mut gpus = self.gpus.write();
        let is_configured = |gpu: &Gpu| gpu.uuid.starts_with(&format!("remora-{}-", self.config.node));
        gpus.retain(|gpu| {
            is_configured(gpu)
                || found.iter().any(|other| other.uuid == gpu.uuid)
                || Agent::promised(&allocations, &gpu.uuid) != Share::default()
        });
        for gpu in found.into_iter().filter(|gpu| gpu.memory_bytes > 0) {
            match gpus.iter_mut().find(|known| known.uuid == gpu.uuid) {
                Some(known) => *known = gpu,
                None => gpus.push(gpu),
            }
        }
        Ok(gpus.clone())
    }

    /// Ends what has to end when the agent does.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        if !self.config.drain {
            return;
        }
        let ids: Vec<String> = self.allocations.lock().keys().cloned().collect();
        for id in ids {
            let _ = self.release(&id);
        }
    }
}
