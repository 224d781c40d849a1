//! Devices where kernels run: starting them, and the addresses of their workers.

pub mod dstack;
mod embedded;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use board_contract::DeviceState;
pub use board_judge::Grant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::{Config, DeviceConfig, PlaceConfig};
use dstack::{DeviceRequest, Dstack, Project};
use embedded::Embedded;

/// Why a device is not available.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("the software GPU could not be started: {0}")]
    Embedded(String),
    #[error("{0}")]
    Dstack(String),
}

impl DeviceError {
    /// Returns whether an immediate retry is pointless or would cost money again.
    pub fn is_final(&self) -> bool {
        matches!(self, DeviceError::Dstack(_))
    }
}

/// A device for submissions.
#[derive(Debug)]
pub struct Device {
    pub config: DeviceConfig,
    place: Place,
    draining: AtomicBool,
    /// Free slots. Submissions get them in the order of their requests.
    slots: Arc<Semaphore>,
}

#[derive(Debug)]
enum Place {
    Embedded(Arc<Embedded>),
    Worker(Grant),
    Dstack(Dstack),
    /// Renting is impossible, with the reason.
    Broken(String),
}

impl Device {
    /// Creates all devices of a server, and starts the local ones.
    pub fn all(config: &Config) -> Vec<Arc<Device>> {
        let sockets = config.data.join("sockets");
        let project = rented(config);
        let start = |device| Arc::new(Device::start(config, device, &sockets, project.as_ref()));
        config.devices.iter().map(start).collect()
    }

    fn start(
        config: &Config,
        device: &DeviceConfig,
        sockets: &Path,
        project: Option<&Result<Arc<Project>, String>>,
    ) -> Device {
        let place = match &device.place {
            PlaceConfig::Embedded { model } => {
                Place::Embedded(Embedded::start(&config.worker, model, device.gpus, sockets))
            }
            PlaceConfig::Worker { endpoint, token } => {
                Place::Worker(Grant { worker: endpoint.clone(), token: token.clone() })
            }
            PlaceConfig::Dstack(_) => match project {
                Some(Ok(project)) => Place::Dstack(Dstack::start(project, device.model(), sockets)),
                Some(Err(why)) => Place::Broken(why.clone()),
                None => Place::Broken("no dstack project is configured".to_owned()),
            },
        };
        let slots = Arc::new(Semaphore::new(device.slots));
        Device { config: device.clone(), place, draining: AtomicBool::new(false), slots }
    }

    /// Waits until the device has a free slot and is ready.
    pub async fn ready(&self, request: &DeviceRequest<'_>) -> Result<DeviceGuard, DeviceError> {
        // The semaphore is never closed.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let (address, generation, holder) = match &self.place {
            Place::Embedded(embedded) => (embedded.ready().await?, embedded.generation(), None),
            Place::Worker(address) => (address.clone(), 0, None),
            Place::Dstack(dstack) => {
                let (address, generation, holder) = dstack.ready(request).await?;
                (address, generation, Some(holder))
            }
            Place::Broken(why) => return Err(DeviceError::Dstack(why.clone())),
        };
        Ok(DeviceGuard { address, generation, _holder: holder, _slot: slot })
    }

    /// Returns whether the worker of a guard has ended since the guard was created.
    pub async fn was_lost(&self, guard: &DeviceGuard) -> bool {
        match &self.place {
            Place::Embedded(embedded) => embedded.generation() != guard.generation,
            Place::Dstack(dstack) => dstack.was_lost(guard.generation).await,
            Place::Worker(_) | Place::Broken(_) => false,
        }
    }

    pub fn state(&self) -> DeviceState {
        if self.draining.load(Ordering::Relaxed) {
            return DeviceState::Draining;
        }
        match &self.place {
            Place::Embedded(embedded) if embedded.is_up() => DeviceState::Ready,
            Place::Embedded(_) | Place::Broken(_) => DeviceState::Offline,
            Place::Dstack(dstack) => dstack.state(),
            Place::Worker(_) => DeviceState::Ready,
        }
    }

    /// Returns whether a submission would start immediately.
    pub fn is_warm(&self) -> bool {
        match &self.place {
            Place::Embedded(embedded) => embedded.is_up(),
            Place::Dstack(dstack) => dstack.is_up(),
            Place::Worker(_) => true,
            Place::Broken(_) => false,
        }
    }

    /// Returns the price in dollars per hour.
    pub fn price_per_hour(&self) -> f64 {
        match &self.place {
            Place::Dstack(dstack) => dstack.price().unwrap_or(self.config.price_per_hour),
            _ => self.config.price_per_hour,
        }
    }

    /// Returns the seconds until the device is ready; 0 if it is.
    pub fn start_seconds(&self) -> f64 {
        if self.is_warm() {
            return 0.0;
        }
        match &self.place {
            Place::Embedded(_) => 1.0,
            Place::Dstack(dstack) => dstack.start_seconds(),
            Place::Worker(_) | Place::Broken(_) => 0.0,
        }
    }

    pub fn place_name(&self) -> &'static str {
        match &self.place {
            Place::Embedded(_) => "embedded",
            Place::Worker(_) => "worker",
            Place::Dstack(_) | Place::Broken(_) => "dstack",
        }
    }

    /// Returns how often its worker was restarted.
    pub fn restarts(&self) -> u64 {
        match &self.place {
            Place::Embedded(embedded) => embedded.generation().saturating_sub(1),
            Place::Worker(_) | Place::Dstack(_) | Place::Broken(_) => 0,
        }
    }

    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// Stops the workers that the server started.
    pub async fn stop(&self) {
        match &self.place {
            Place::Embedded(embedded) => embedded.stop().await,
            Place::Dstack(dstack) => dstack.stop().await,
            Place::Worker(_) | Place::Broken(_) => {}
        }
    }
}

/// A device in use. A rented device is not stopped while the guard exists.
#[derive(Debug)]
pub struct DeviceGuard {
    pub address: Grant,
    generation: u64,
    _holder: Option<dstack::RentalGuard>,
    _slot: Option<OwnedSemaphorePermit>,
}

/// Opens the dstack project for rented devices; `None` if no device is rented.
fn rented(config: &Config) -> Option<Result<Arc<Project>, String>> {
    let settings = config.devices.iter().find_map(|device| match &device.place {
        PlaceConfig::Dstack(settings) => Some(settings),
        _ => None,
    })?;
    let is_rented = |device: &&DeviceConfig| matches!(device.place, PlaceConfig::Dstack(_));
    let gpus: Vec<&str> = config.devices.iter().filter(is_rented).map(DeviceConfig::model).collect();
    let project = Project::open(settings, &config.data.join("dstack"), &gpus);
    if let Err(why) = &project {
        tracing::error!("dstack: {why}");
    }
    Some(project)
}
