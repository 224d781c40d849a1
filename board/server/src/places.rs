//! Where kernels run: how a device is made ready, and where its worker is then reached.

pub mod dstack;
mod embedded;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::config::{Config, DeviceConfig, PlaceConfig};
use dstack::{Dstack, Project, Want};
use embedded::Embedded;

/// Why a device could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("the software GPU does not start: {0}")]
    Embedded(String),
    #[error("{0}")]
    Dstack(String),
}

impl PlaceError {
    /// Whether trying again at once would be of no use, or would cost money again.
    pub fn is_final(&self) -> bool {
        matches!(self, PlaceError::Dstack(_))
    }
}

/// Whether a device takes work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceState {
    Ready,
    Draining,
    Offline,
    Provisioning,
}

/// Where the judge finds the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub worker: String,
    pub token: Option<String>,
}

/// A device that submissions can ask for.
#[derive(Debug)]
pub struct Device {
    pub config: DeviceConfig,
    place: Place,
    draining: AtomicBool,
}

#[derive(Debug)]
enum Place {
    Embedded(Arc<Embedded>),
    Worker(Address),
    Dstack(Dstack),
    /// Nothing can be rented, and why.
    Broken(String),
}

impl Device {
    /// Makes all devices of a server, and starts those that run here.
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
                Place::Embedded(Embedded::start(&config.worker, model, sockets))
            }
            PlaceConfig::Worker { endpoint, token } => {
                Place::Worker(Address { worker: endpoint.clone(), token: token.clone() })
            }
            PlaceConfig::Dstack(_) => match project {
                Some(Ok(project)) => Place::Dstack(Dstack::start(project, device.model(), sockets)),
                Some(Err(why)) => Place::Broken(why.clone()),
                None => Place::Broken("no dstack project is configured".to_owned()),
            },
        };
        Device { config: device.clone(), place, draining: AtomicBool::new(false) }
    }

    /// Waits until the device can be used.
    pub async fn ready(&self, want: &Want<'_>) -> Result<Lease, PlaceError> {
        let (address, generation, holder) = match &self.place {
            Place::Embedded(embedded) => (embedded.ready().await?, embedded.generation(), None),
            Place::Worker(address) => (address.clone(), 0, None),
            Place::Dstack(dstack) => {
                let (address, generation, holder) = dstack.ready(want).await?;
                (address, generation, Some(holder))
            }
            Place::Broken(why) => return Err(PlaceError::Dstack(why.clone())),
        };
        Ok(Lease { address, generation, _holder: holder })
    }

    /// Whether the worker that a lease was given for has ended since, through no fault of who used it.
    pub async fn was_lost(&self, lease: &Lease) -> bool {
        match &self.place {
            Place::Embedded(embedded) => embedded.generation() != lease.generation,
            Place::Dstack(dstack) => dstack.was_lost(lease.generation).await,
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

    /// Whether a submission would start at once.
    pub fn is_warm(&self) -> bool {
        match &self.place {
            Place::Embedded(embedded) => embedded.is_up(),
            Place::Dstack(dstack) => dstack.is_up(),
            Place::Worker(_) => true,
            Place::Broken(_) => false,
        }
    }

    /// Dollars an hour.
    pub fn price_per_hour(&self) -> f64 {
        match &self.place {
            Place::Dstack(dstack) => dstack.price().unwrap_or(self.config.price_per_hour),
            _ => self.config.price_per_hour,
        }
    }

    /// Seconds until a cold device is ready.
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

    /// How often its worker was started again.
    pub fn restarts(&self) -> u64 {
        match &self.place {
            Place::Embedded(embedded) => embedded.generation().saturating_sub(1),
            Place::Worker(_) | Place::Dstack(_) | Place::Broken(_) => 0,
        }
    }

    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// Ends what the server started.
    pub async fn stop(&self) {
        match &self.place {
            Place::Embedded(embedded) => embedded.stop().await,
            Place::Dstack(dstack) => dstack.stop().await,
            Place::Worker(_) | Place::Broken(_) => {}
        }
    }
}

/// A device in use. A rented one is not given back while this lives.
#[derive(Debug)]
pub struct Lease {
    pub address: Address,
    generation: u64,
    _holder: Option<dstack::Holder>,
}

/// The dstack project that devices are rented in, if any are.
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
