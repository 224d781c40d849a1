//! GPUs rented through dstack: one task per GPU that runs a worker, started when somebody needs it, kept while it is used,
//! stopped when nobody does.
//!
//! A run that nobody remembers costs money for ever, so there are four nets. A run is written down before it is asked for,
//! under a name that only this board makes. Everything with such a name that is not in use is stopped, at the start, every
//! minute and at the end. A worker that nobody uses ends by itself. And dstack ends every run after its longest time.

mod keeper;
mod project;
mod records;
pub mod rest;
pub mod run;
pub mod settings;
mod tunnel;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{Address, DeviceState, PlaceError};
use keeper::Keeper;
pub use project::Project;

/// What a submission asks of a device besides being ready.
pub struct Want<'a> {
    /// The price an hour that it was accepted at; a dearer device will not do. Zero if it was not told one.
    pub price: f64,
    /// Is told how far a device that takes long is.
    pub tell: &'a (dyn Fn(String) + Send + Sync),
}

impl std::fmt::Debug for Want<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Want").field("price", &self.price).finish_non_exhaustive()
    }
}

/// One GPU of a project.
#[derive(Debug)]
pub struct Dstack {
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
}

/// How it stands.
#[derive(Clone, Debug)]
enum Phase {
    /// Nothing is rented.
    Cold,
    /// A run is on its way; how far it is.
    Starting(String),
    Up(Up),
}

#[derive(Clone, Debug, PartialEq)]
struct Up {
    address: Address,
    price: f64,
    generation: u64,
}

/// What the keeper and those who wait for it share.
#[derive(Debug)]
struct Shared {
    gpu: String,
    project: Arc<Project>,
    phase: watch::Sender<Phase>,
    /// Which attempt to start failed last, and why.
    failed: watch::Sender<(u64, String)>,
    wanted: Mutex<Vec<Wish>>,
    /// Told when somebody wants the device, or nobody does any more.
    changed: Notify,
    /// How often a worker was lost.
    generation: AtomicU64,
    market: Mutex<Market>,
    stop: watch::Sender<bool>,
}

/// Somebody who needs the device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wish {
    /// The attempt that had failed last when it came: a later failure is told to it, and then it wants nothing more.
    since: u64,
    /// What it may pay.
    price: f64,
}

/// What is known of prices and times.
#[derive(Debug, Default)]
struct Market {
    offered: Option<f64>,
    /// Why nothing is.
    nothing: Option<String>,
    /// Whether a machine stands ready.
    idle: bool,
    /// How long the last start took.
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

    /// Waits until its worker answers. While the holder lives it is not stopped for want of use.
    pub async fn ready(&self, want: &Want<'_>) -> Result<(Address, u64, Holder), PlaceError> {
        let mut phase = self.shared.phase.subscribe();
        let mut failed = self.shared.failed.subscribe();
        let holder = Holder::new(&self.shared, want.price);
        loop {
            let now = phase.borrow_and_update().clone();
            match now {
                Phase::Up(up) => {
                    if want.price > 0.0 && up.price > want.price * 1.001 {
                        return Err(PlaceError::Dstack(format!(
                            "the {} that is running costs ${:.2} an hour, more than the ${:.2} this was accepted at",
                            self.shared.gpu, up.price, want.price
                        )));
                    }
                    return Ok((up.address, up.generation, holder));
                }
                Phase::Starting(message) => (want.tell)(message),
                Phase::Cold => {}
            }
            tokio::select! {
                changed = phase.changed() => changed.map_err(|_| gone())?,
                failure = failed.wait_for(|(attempt, _)| *attempt > holder.wish.since) => {
                    let failure = failure.map_err(|_| gone())?;
                    return Err(PlaceError::Dstack(failure.1.clone()));
                }
            }
        }
    }

    /// Whether the worker of a lease is gone. dstack may learn that later than whoever used it, so the worker is asked.
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

    /// Dollars an hour: of what runs, else of what is offered.
    pub fn price(&self) -> Option<f64> {
        match &*self.shared.phase.borrow() {
            Phase::Up(up) => Some(up.price),
            _ => self.shared.market.lock().offered,
        }
    }

    /// Seconds that a start takes.
    pub fn start_seconds(&self) -> f64 {
        let market = self.shared.market.lock();
        market.start_seconds.unwrap_or(if market.idle { 60.0 } else { 420.0 })
    }

    /// Stops the run and waits until dstack knows.
    pub async fn stop(&self) {
        let _ = self.shared.stop.send(true);
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

fn gone() -> PlaceError {
    PlaceError::Dstack("the server is stopping".to_owned())
}

/// Keeps a device from being stopped.
#[derive(Debug)]
pub struct Holder {
    shared: Arc<Shared>,
    wish: Wish,
}

impl Holder {
    fn new(shared: &Arc<Shared>, price: f64) -> Holder {
        let wish = Wish { since: shared.failed.borrow().0, price };
        shared.wanted.lock().push(wish);
        shared.changed.notify_one();
        Holder { shared: Arc::clone(shared), wish }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let mut wanted = self.shared.wanted.lock();
        if let Some(index) = wanted.iter().position(|wish| *wish == self.wish) {
            wanted.swap_remove(index);
        }
        drop(wanted);
        self.shared.changed.notify_one();
    }
}

impl Shared {
    /// Those who have not been told of a failure since they came. Who was told may not have left yet.
    fn wishes(&self) -> Vec<Wish> {
        let failed = self.failed.borrow().0;
        self.wanted.lock().iter().copied().filter(|wish| wish.since >= failed).collect()
    }

    fn is_wanted(&self) -> bool {
        !self.wishes().is_empty()
    }

    /// What a run may cost an hour so that everybody who waits may use it.
    fn most(&self) -> Option<f64> {
        let told = self.wishes().into_iter().map(|wish| wish.price).filter(|price| *price > 0.0);
        told.chain(self.project.config.max_price).reduce(f64::min)
    }

    fn set(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }
}
