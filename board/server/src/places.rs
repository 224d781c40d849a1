//! Where kernels run: how a device is made ready, and where its worker is then reached.

mod embedded;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::config::{Config, DeviceConfig, PlaceConfig};
use embedded::Embedded;

/// Why a device could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("the software GPU does not start: {0}")]
    Embedded(String),
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
}

impl Device {
    /// Makes all devices of a server, and starts those that run here.
    pub fn all(config: &Config) -> Vec<Arc<Device>> {
        let sockets = config.data.join("sockets");
        config.devices.iter().map(|device| Arc::new(Device::start(config, device, &sockets))).collect()
    }

    fn start(config: &Config, device: &DeviceConfig, sockets: &Path) -> Device {
        let place = match &device.place {
            PlaceConfig::Embedded { model } => {
                Place::Embedded(Embedded::start(&config.worker, model, sockets))
            }
            PlaceConfig::Worker { endpoint, token } => {
                Place::Worker(Address { worker: endpoint.clone(), token: token.clone() })
            }
        };
        Device { config: device.clone(), place, draining: AtomicBool::new(false) }
    }

    /// Waits until the device can be used.
    pub async fn ready(&self) -> Result<Lease, PlaceError> {
        match &self.place {
            Place::Embedded(embedded) => {
                Ok(Lease { address: embedded.ready().await?, generation: embedded.generation() })
            }
            Place::Worker(address) => Ok(Lease { address: address.clone(), generation: 0 }),
        }
    }

    /// Whether the worker that a lease was given for has ended since, through no fault of who used it.
    pub fn was_lost(&self, lease: &Lease) -> bool {
        match &self.place {
            Place::Embedded(embedded) => embedded.generation() != lease.generation,
            Place::Worker(_) => false,
        }
    }

    pub fn state(&self) -> DeviceState {
        if self.draining.load(Ordering::Relaxed) {
            return DeviceState::Draining;
        }
        match &self.place {
            Place::Embedded(embedded) if embedded.is_up() => DeviceState::Ready,
            Place::Embedded(_) => DeviceState::Offline,
            Place::Worker(_) => DeviceState::Ready,
        }
    }

    /// Whether a submission would start at once.
    pub fn is_warm(&self) -> bool {
        match &self.place {
            Place::Embedded(embedded) => embedded.is_up(),
            Place::Worker(_) => true,
        }
    }

    /// Dollars an hour.
    pub fn price_per_hour(&self) -> f64 {
        self.config.price_per_hour
    }

    /// Seconds until a cold device is ready.
    pub fn start_seconds(&self) -> f64 {
        if self.is_warm() {
            return 0.0;
        }
        match &self.place {
            Place::Embedded(_) => 1.0,
            Place::Worker(_) => 0.0,
        }
    }

    pub fn place_name(&self) -> &'static str {
        match &self.place {
            Place::Embedded(_) => "embedded",
            Place::Worker(_) => "worker",
        }
    }

    /// How often its worker was started again.
    pub fn restarts(&self) -> u64 {
        match &self.place {
            Place::Embedded(embedded) => embedded.generation().saturating_sub(1),
            Place::Worker(_) => 0,
        }
    }

    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// Ends what the server started.
    pub async fn stop(&self) {
        match &self.place {
            Place::Embedded(embedded) => embedded.stop().await,
            Place::Worker(_) => {}
        }
    }
}

/// A device in use. A rented one is not given back while this lives.
#[derive(Debug)]
pub struct Lease {
    pub address: Address,
    generation: u64,
}
