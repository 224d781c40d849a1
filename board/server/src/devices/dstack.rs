//! GPUs rented through dstack: one task per GPU runs a worker. It is started on demand, kept while in use, and stopped when idle.
//!
//! A forgotten run would cost money forever, so there are four safeguards. A run is recorded on disk before it is requested, with a name
//! that only this board uses. All runs with such names that are not in use are stopped at the start, every minute and at the end. An idle
//! worker exits by itself. And dstack ends every run after its maximum duration.

mod keeper;
mod project;
mod records;
pub mod rest;
pub mod run;
mod tunnel;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use board_contract::DeviceState;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{DeviceError, Grant};
use keeper::Keeper;
pub use project::Project;

/// A submission's requirements on a device.
pub struct DeviceRequest<'a> {
    /// Price per hour at which the submission was accepted; a more expensive device is refused. Zero for no limit.
    pub price: f64,
    /// Callback for progress messages while a device starts.
    pub progress: &'a (dyn Fn(String) + Send + Sync),
}

impl std::fmt::Debug for DeviceRequest<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DeviceRequest").field("price", &self.price).finish_non_exhaustive()
    }
}

/// One GPU of a project.
#[derive(Debug)]
pub struct Dstack {
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
}

/// Phase of a rented GPU.
#[derive(Clone, Debug)]
enum Phase {
    /// Nothing is rented.
    Cold,
    /// A run is starting, with a progress message.
    Starting(String),
    Up(Up),
}

#[derive(Clone, Debug, PartialEq)]
struct Up {
    address: Grant,
    price: f64,
    generation: u64,
}

/// State shared between the keeper and the waiting submissions.
#[derive(Debug)]
struct Shared {
    gpu: String,
    project: Arc<Project>,
    phase: watch::Sender<Phase>,
    /// Number of the last failed start attempt, and the reason.
    failed: watch::Sender<(u64, String)>,
    wanted: Mutex<Vec<PendingRequest>>,
    /// Notified when the first request for the device arrives or the last one ends.
    changed: Notify,
    /// Number of times a worker was lost.
    generation: AtomicU64,
    market: Mutex<Market>,
    stop: watch::Sender<bool>,
}

/// A request for the device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PendingRequest {
    /// The last failed attempt when the request arrived. A later failure is reported to the request, which then ends.
    since: u64,
    /// Highest acceptable price.
    price: f64,
}

/// Known prices and start times.
#[derive(Debug, Default)]
struct Market {
    offered: Option<f64>,
    /// Why nothing is offered.
    nothing: Option<String>,
    /// Whether an idle machine is available.
    idle: bool,
    /// Duration of the last start.
    start_seconds: Option<f64>,
}

impl Dstack {
    pub fn start(project: &Arc<Project>, gpu: &str, sockets: &Path) -> Dstack {
        let shared = Arc::new(Shared {
            gpu: gpu.to_owned(),
            project: Arc::clone(project),
            phase: watch::Sender::new(Phase::Cold),
            failed: watch::Sender::new((0, String::new())),
            wanted: Mutex::default(),
            changed: Notify::new(),
            generation: AtomicU64::new(0),
            market: Mutex::default(),
            stop: watch::Sender::new(false),
        });
        let (end, ended) = watch::channel(false);
        let keeper = Keeper::new(Arc::clone(&shared), sockets.join(format!("dstack-{}", gpu.to_lowercase())));
        tokio::spawn(async move {
            keeper.keep().await;
            let _ = end.send(true);
        });
        Dstack { shared, ended }
    }

    /// Waits until its worker answers. The device is not stopped as idle while the guard exists.
    pub async fn ready(&self, request: &DeviceRequest<'_>) -> Result<(Grant, u64, RentalGuard), DeviceError> {
        let mut phase = self.shared.phase.subscribe();
        let mut failed = self.shared.failed.subscribe();
        let guard = RentalGuard::new(&self.shared, request.price);
        loop {
            let now = phase.borrow_and_update().clone();
            match now {
                Phase::Up(up) => {
                    if request.price > 0.0 && up.price > request.price * 1.001 {
                        return Err(DeviceError::Dstack(format!(
                            "the running {} costs ${:.2} per hour, more than the ${:.2} at which this submission was accepted",
                            self.shared.gpu, up.price, request.price
                        )));
                    }
                    return Ok((up.address, up.generation, guard));
                }
                Phase::Starting(message) => (request.progress)(message),
                Phase::Cold => {}
            }
            tokio::select! {
                changed = phase.changed() => changed.map_err(|_| gone())?,
                failure = failed.wait_for(|(attempt, _)| *attempt > guard.request.since) => {
                    let failure = failure.map_err(|_| gone())?;
                    return Err(DeviceError::Dstack(failure.1.clone()));
                }
            }
        }
    }

    /// Returns whether the worker of a guard is gone. dstack may notice later than the user of the device, so the worker itself is probed.
    pub async fn was_lost(&self, generation: u64) -> bool {
        let now = self.shared.phase.borrow().clone();
        let up = match now {
            Phase::Up(up) if up.generation == generation => up,
            _ => return true,
        };
        let token = up.address.token.as_deref().unwrap_or_default();
        !tunnel::answers(&self.shared.project.config.probe, &up.address.worker, token).await
    }

    pub fn is_up(&self) -> bool {
        matches!(&*self.shared.phase.borrow(), Phase::Up(_))
    }

    pub fn state(&self) -> DeviceState {
        match &*self.shared.phase.borrow() {
            Phase::Up(_) => DeviceState::Ready,
            Phase::Starting(_) => DeviceState::Provisioning,
            Phase::Cold if self.shared.market.lock().nothing.is_some() => DeviceState::Offline,
            Phase::Cold => DeviceState::Ready,
        }
    }

    /// Returns the price in dollars per hour: of the running machine, else of the best offer.
    pub fn price(&self) -> Option<f64> {
        match &*self.shared.phase.borrow() {
            Phase::Up(up) => Some(up.price),
            _ => self.shared.market.lock().offered,
        }
    }

    /// Returns the expected seconds of a start.
    pub fn start_seconds(&self) -> f64 {
        let market = self.shared.market.lock();
        market.start_seconds.unwrap_or(if market.idle { 60.0 } else { 420.0 })
    }

    /// Stops the run and waits until dstack has acknowledged it.
    pub async fn stop(&self) {
        let _ = self.shared.stop.send(true);
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

fn gone() -> DeviceError {
    DeviceError::Dstack("the server is stopping".to_owned())
}

/// Guard that keeps a device from being stopped.
#[derive(Debug)]
pub struct RentalGuard {
    shared: Arc<Shared>,
    request: PendingRequest,
}

impl RentalGuard {
    fn new(shared: &Arc<Shared>, price: f64) -> RentalGuard {
        let request = PendingRequest { since: shared.failed.borrow().0, price };
        shared.wanted.lock().push(request);
        shared.changed.notify_one();
        RentalGuard { shared: Arc::clone(shared), request }
    }
}

impl Drop for RentalGuard {
    fn drop(&mut self) {
        let mut wanted = self.shared.wanted.lock();
        if let Some(index) = wanted.iter().position(|request| *request == self.request) {
            wanted.swap_remove(index);
        }
        drop(wanted);
        self.shared.changed.notify_one();
    }
}

impl Shared {
    /// Returns the requests that no failure has been reported to. A request with a failure may not have been dropped yet.
    fn pending(&self) -> Vec<PendingRequest> {
        let failed = self.failed.borrow().0;
        self.wanted.lock().iter().copied().filter(|request| request.since >= failed).collect()
    }

    fn is_wanted(&self) -> bool {
        !self.pending().is_empty()
    }

    /// Returns the highest price per hour that all waiting requests accept.
    fn most(&self) -> Option<f64> {
        let offered = self.pending().into_iter().map(|request| request.price).filter(|price| *price > 0.0);
        offered.chain(self.project.config.max_price).reduce(f64::min)
    }

    fn set(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }
}
