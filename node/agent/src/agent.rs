//! The agent's state (GPUs, allocations, workers) and the operations on it: create, release, renew, discover.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use transport::Address;
use transport::tls::Trust;

use crate::allocation::{Allocation, AllocationRequest, ArrivingAllocation, Lease, WorkerRecord};
use crate::certificate::Certificate;
use crate::config::Config;
use crate::device::{BackendKind, Gpu};
use crate::error::AgentError;
use crate::migrate::Moves;
use crate::process::{self, Identity};
use crate::provider::Provider;
use crate::reservation::{self, Share};
use crate::sample::Samples;
use crate::state::{Folder, new_token};
use crate::tokens::Tokens;
use crate::{vram, worker};

/// Counters of the agent's own metrics.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) created: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) released: AtomicU64,
    /// Allocations released because their lease ended.
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
    pub(crate) tokens: Tokens,
    /// TLS certificate of the workers and the HTTP interface; `None` if neither uses TLS.
    pub(crate) certificate: Option<Certificate>,
    pub(crate) provider: Option<Provider>,
    pub(crate) gpus: RwLock<Vec<Gpu>>,
    pub(crate) allocations: Mutex<BTreeMap<String, Allocation>>,
    /// Restart backoff by allocation: time of the next restart, and consecutive failures.
    pub(crate) restarts: Mutex<BTreeMap<String, (Instant, u32)>>,
    /// Allocations whose worker is being started.
    pub(crate) starting: Mutex<BTreeSet<String>>,
    /// Serializes saving and resuming of sessions.
    pub(crate) saving: Mutex<()>,
    /// Allocations that are being released because their lease ended.
    pub(crate) expiring: Mutex<BTreeSet<String>>,
    /// Allocations that move to other agents, and whether the machine is being drained.
    pub(crate) moves: Moves,
    pub(crate) samples: Samples,
    pub(crate) counters: Counters,
    pub(crate) started: Instant,
    pub(crate) stopping: AtomicBool,
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Agent {
    /// Discovers the GPUs, loads the stored allocations, and adopts their workers that still run.
    pub fn open(config: Config) -> Result<Arc<Agent>, AgentError> {
        config.check()?;
        let folder = Folder::take(&config.data)?;
        let provider = config.provider.as_deref().map(Provider::load).transpose();
        let provider = provider.map_err(AgentError::Provider)?;
        let mut gpus = Gpu::software(&config.software, &config.node)
            .map_err(|model| AgentError::NoDevice(format!("there is no software GPU \"{model}\"")))?;
        if let Some(provider) = &provider {
            let more = provider.devices(&config.imitate).map_err(AgentError::Provider)?;
            gpus.extend(more.into_iter().filter(|gpu| gpu.memory_bytes > 0));
        }
        let tokens = Tokens::read(&folder, &config)?;
        let certificate = Certificate::find(&folder, &config)?;
        let allocations = folder.read()?;
        vram::settle(&folder, &gpus, &allocations)?;
        let agent = Arc::new(Agent {
            tokens,
            certificate,
            provider,
            gpus: RwLock::new(gpus),
            allocations: Mutex::new(allocations),
            restarts: Mutex::default(),
            starting: Mutex::default(),
            saving: Mutex::default(),
            expiring: Mutex::default(),
            moves: Moves::read(&folder),
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

    /// Adopts the workers that an earlier agent started. They are recognised by a marker in their environment.
    fn adopt(&self) {
        let mut allocations = self.allocations.lock();
        let prefix = format!("{}{}", worker::MARK, worker::mark(&self.folder, ""));
        for (process, id) in process::marked(&prefix, "worker") {
            match allocations.get_mut(&id) {
                Some(allocation) if allocation.worker.port.is_some() => {
                    tracing::info!("allocation {id}: worker {} still runs and is adopted", process.pid);
                    allocation.worker.process = Some(process);
                }
                _ => {
                    // The previous agent ended after it had started the worker and before it had stored it, so no client uses it.
                    tracing::warn!("worker {} belongs to unknown allocation {id}; stopping it", process.pid);
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

    /// Sum of the shares of a GPU that allocations have reserved.
    pub(crate) fn promised(allocations: &BTreeMap<String, Allocation>, uuid: &str) -> Share {
        let shares = allocations.values().filter(|it| it.devices.iter().any(|device| device == uuid));
        shares.fold(Share::default(), |sum, it| sum.plus(&it.share))
    }

    /// Creates an allocation: reserves shares of GPUs and starts the worker.
    pub(crate) fn create(&self, request: AllocationRequest) -> Result<Allocation, AgentError> {
        self.count(self.promise(request).and_then(|allocation| self.begin(allocation)))
    }

    /// Creates an allocation that another agent hands over, with its id, tokens and limits.
    pub(crate) fn import(&self, arriving: ArrivingAllocation) -> Result<Allocation, AgentError> {
        self.count(self.promise_arriving(arriving).and_then(|allocation| self.begin(allocation)))
    }

    fn count(&self, made: Result<Allocation, AgentError>) -> Result<Allocation, AgentError> {
        let counter = if made.is_ok() { &self.counters.created } else { &self.counters.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        made
    }

    /// Returns an error if the agent creates no allocations.
    fn accepts(&self) -> Result<(), AgentError> {
        match self.stopping.load(Ordering::Relaxed) {
            true => Err(AgentError::Stopping),
            false if self.moves.is_draining() => Err(AgentError::Draining),
            false => Ok(()),
        }
    }

    fn promise(&self, request: AllocationRequest) -> Result<Allocation, AgentError> {
        self.accepts()?;
        request.check()?;
        let lease = self.lease(&request)?;
        let id = new_token()?[..12].to_owned();
        let (token, admin_token) = (new_token()?, new_token()?);
        let mut allocations = self.allocations.lock();
        let (devices, share) = self.choose(&request, None, &allocations)?;
        let allocation = Allocation {
            id,
            qos: request.class(&share),
            request,
            devices,
            share,
            token,
            admin_token,
            created_ms: now_ms(),
            lease,
            worker: WorkerRecord::default(),
        };
        self.reserve(&mut allocations, allocation)
    }

    fn promise_arriving(&self, arriving: ArrivingAllocation) -> Result<Allocation, AgentError> {
        self.accepts()?;
        arriving.check()?;
        let mut allocations = self.allocations.lock();
        let is_known = |it: &Allocation| it.id == arriving.id || it.token == arriving.token;
        if allocations.values().any(is_known) {
            return Err(AgentError::Refused(format!("allocation {} is here already", arriving.id)));
        }
        let (devices, share) = self.choose(&arriving.request, Some(&arriving), &allocations)?;
        let ArrivingAllocation { id, request, qos, token, admin_token, created_ms, lease_until_ms, .. } =
            arriving;
        let seconds = request.lease.and_then(|lease| lease.seconds);
        let lease = Lease { process: None, seconds, until_ms: lease_until_ms };
        let worker = WorkerRecord::default();
        let allocation =
            Allocation { id, qos, request, devices, share, token, admin_token, created_ms, lease, worker };
        self.reserve(&mut allocations, allocation)
    }

    /// Reserves the memory of a new allocation and stores the allocation.
    fn reserve(
        &self,
        allocations: &mut BTreeMap<String, Allocation>,
        allocation: Allocation,
    ) -> Result<Allocation, AgentError> {
        let id = allocation.id.clone();
        vram::reserve(&self.folder, &self.gpus.read(), &allocation)?;
        allocations.insert(id.clone(), allocation.clone());
        // Keeps the restarting thread from starting this worker a second time.
        self.starting.lock().insert(id.clone());
        // Stored before the worker is started: if the agent crashes now, nothing is reserved twice.
        if let Err(error) = self.folder.write(allocations) {
            allocations.remove(&id);
            vram::release(&self.folder, &allocation);
            self.starting.lock().remove(&id);
            return Err(error);
        }
        Ok(allocation)
    }

    fn lease(&self, request: &AllocationRequest) -> Result<Lease, AgentError> {
        let asked = request.lease.unwrap_or_default();
        let gone = |pid: u32| AgentError::BadRequest(format!("the lease's process {pid} does not exist"));
        let process = asked.process.map(|pid| Identity::of(pid).ok_or_else(|| gone(pid))).transpose()?;
        let until_ms = asked.seconds.map(|seconds| now_ms() + (seconds * 1000.0) as u64);
        Ok(Lease { process, seconds: asked.seconds, until_ms })
    }

    /// Chooses the GPUs for a request. Returns their UUIDs and the share of each. An allocation that arrives has its share already, and
    /// needs GPUs like those that it had.
    fn choose(
        &self,
        request: &AllocationRequest,
        arriving: Option<&ArrivingAllocation>,
        allocations: &BTreeMap<String, Allocation>,
    ) -> Result<(Vec<String>, Share), AgentError> {
        let gpus = self.gpus.read();
        let count = request.gpus.unwrap_or(1) as usize;
        let mut refusal = None;
        let mut most = 0;
        // All GPUs of a worker have the same back end.
        for kind in BackendKind::ALL {
            let mut candidates = Vec::new();
            for (at, gpu) in gpus.iter().enumerate() {
                let fits = arriving.is_none_or(|it| it.fits(gpu));
                if fits && request.admits(gpu) && gpu.backing.kind() == kind {
                    let capacity = reservation::capacity(gpu, &self.config.oversubscription);
                    let mut used = Agent::promised(allocations, &gpu.uuid);
                    // Memory that workers use beyond their requests cannot be reclaimed, so it counts as used.
                    used.memory_request_bytes = used.memory_request_bytes.max(vram::taken(&self.folder, gpu));
                    let share = arriving.map_or_else(|| request.share_of(gpu), |it| Ok(it.share))?;
                    candidates.push((at, capacity, used, share));
                }
            }
            // All GPUs of an allocation have the same share. For several GPUs only those with the first one's share qualify.
            let Some(first) = candidates.first().map(|it| it.3) else { continue };
            candidates.retain(|it| count == 1 || it.3 == first);
            most = most.max(candidates.len());
            match reservation::choose(&candidates, count, self.config.placement) {
                Ok(chosen) => {
                    let share = candidates.iter().find(|it| it.0 == chosen[0]).map_or(first, |it| it.3);
                    return Ok((chosen.iter().map(|at| gpus[*at].uuid.clone()).collect(), share));
                }
                Err(shortage) => refusal = refusal.or(shortage),
            }
        }
        if most == 0 && !gpus.is_empty() {
            let text = format!(
                "none of this machine's {} GPUs matches the requested device, model or vendor",
                gpus.len()
            );
            return Err(AgentError::NoDevice(text));
        }
        // Report a shortage only if enough GPUs match; otherwise report that too few match.
        Err(match refusal.filter(|_| most >= count) {
            Some(shortage) => AgentError::Short(shortage),
            None => AgentError::TooFew { asked: count, matching: most, all: gpus.len() },
        })
    }

    /// Starts the worker of a new allocation. On failure the allocation is released.
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

    /// Starts the worker of an allocation and stores its process, port and certificate pin.
    pub(crate) fn start_worker(&self, id: &str) -> Result<Allocation, AgentError> {
        let unknown = || AgentError::NotFound(format!("there is no allocation {id}"));
        let allocation = self.allocations.lock().get(id).cloned().ok_or_else(unknown)?;
        let gpus: Vec<Gpu> = {
            let all = self.gpus.read();
            let find = |uuid: &String| all.iter().find(|gpu| gpu.uuid == *uuid).cloned();
            allocation.devices.iter().filter_map(find).collect()
        };
        if gpus.len() != allocation.devices.len() {
            let gone = allocation.devices.iter().filter(|uuid| !gpus.iter().any(|gpu| gpu.uuid == **uuid));
            let gone: Vec<&str> = gone.map(String::as_str).collect();
            return Err(AgentError::NoDevice(format!("this machine no longer has GPU {}", gone.join(", "))));
        }
        let started =
            worker::start(&self.config, &self.folder, self.certificate.as_ref(), &allocation, &gpus);
        let mut allocations = self.allocations.lock();
        let Some(known) = allocations.get_mut(id) else {
            // The allocation was released while the worker started.
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
                known.worker.pin = started.pin;
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

    /// Releases an allocation and stops its worker. Its GPU memory and compute are free when this returns.
    pub(crate) fn release(&self, id: &str) -> Result<Allocation, AgentError> {
        // The reservation stays until the worker has ended, because the worker uses its memory until then.
        let found = self.allocations.lock().get(id).cloned();
        let allocation = found.ok_or_else(|| AgentError::NotFound(format!("there is no allocation {id}")))?;
        if let Some(process) = allocation.worker.process {
            worker::end(process);
        }
        let mut allocations = self.allocations.lock();
        let removed = allocations.remove(id);
        // The worker may have been restarted between the two times the lock was held.
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
        tracing::info!("allocation {id} released");
        Ok(allocation)
    }

    /// Renews a lease: its time starts over.
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

    /// Returns the URL for clients of an allocation, with token and certificate pin.
    pub(crate) fn url(&self, allocation: &Allocation) -> Option<String> {
        let endpoint = allocation.worker.endpoint(self.config.advertised())?;
        let pin = allocation.worker.trust().and_then(|trust| match trust {
            Trust::Fingerprint(pin) => Some(pin),
            Trust::Authority(_) => None,
        });
        Some(Address { endpoint, token: Some(allocation.token.clone()), pin }.to_string())
    }

    /// Discovers the GPUs again. A GPU that is gone stays listed as long as an allocation uses it.
    pub(crate) fn discover(&self) -> Result<Vec<Gpu>, AgentError> {
        let Some(provider) = &self.provider else { return Ok(self.gpus.read().clone()) };
        let found = provider.devices(&self.config.imitate).map_err(AgentError::Provider)?;
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

    /// Stops the background threads.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Ends the workers, if the configuration says so: with `drain` all allocations are released, with `save_sessions` they are kept.
    /// The thread that restarts workers must have ended.
    pub(crate) fn end_workers(&self) {
        if self.config.save_sessions {
            let allocations = self.allocations.lock().clone();
            let workers: Vec<Identity> = allocations.values().filter_map(|it| it.worker.process).collect();
            tracing::info!("stopping {} workers, which save their sessions", workers.len());
            worker::save(&workers);
        }
        if self.config.drain {
            let ids: Vec<String> = self.allocations.lock().keys().cloned().collect();
            for id in ids {
                let _ = self.release(&id);
            }
        }
    }
}
