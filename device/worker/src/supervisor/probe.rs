//! Device probe: lists the devices of a back end before the first session.

use backend::DeviceInfo;
use serde::{Deserialize, Serialize};

use crate::config::{BackendConfig, SessionConfig};
use crate::confine::PreopenedResources;
use crate::error::WorkerError;
use crate::session::executor::open_device;

/// Summary of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// Marketing name.
    pub name: String,
    /// Full target id, as in `gfx942:sramecc+:xnack-`.
    pub isa: String,
    /// Bytes of memory that sessions may use.
    pub memory: u64,
    /// Number of compute units.
    pub compute_units: u32,
    /// Clock of the compute units.
    pub clock_mhz: u32,
    /// Clock of the memory.
    pub memory_clock_mhz: u32,
}

impl From<&DeviceInfo> for DeviceSummary {
    fn from(info: &DeviceInfo) -> DeviceSummary {
        DeviceSummary {
            name: info.name.clone(),
            isa: info.isa.clone(),
            memory: info.total_memory,
            compute_units: info.properties.multiProcessorCount.max(0) as u32,
            clock_mhz: (info.properties.clockRate.max(0) / 1000) as u32,
            memory_clock_mhz: (info.properties.memoryClockRate.max(0) / 1000) as u32,
        }
    }
}

/// Lists the GPUs that a back end would give to a session.
///
/// For AMD's runtime and NVIDIA's driver this loads and initialises them in the calling process.
pub fn probe(config: &SessionConfig) -> Result<Vec<DeviceSummary>, WorkerError> {
    let models: Vec<&String> = match &config.backend {
        BackendConfig::Emulator { devices, .. } => devices.iter().map(|device| &device.model).collect(),
        BackendConfig::Cuda { model, .. } => vec![model],
        BackendConfig::Hip { .. } => Vec::new(),
    };
    for model in models {
        if backend_emulator::Model::find(model).is_none() {
            let known: Vec<&str> = backend_emulator::MODELS.iter().map(|model| model.key).collect();
            return Err(WorkerError::UnknownModel { model: model.clone(), known: known.join(", ") });
        }
    }
    let device =
        open_device(config, None, None, &PreopenedResources::default()).map_err(WorkerError::Device)?;
    let mut devices: Vec<DeviceSummary> = device.info().iter().map(DeviceSummary::from).collect();
    if let Some(limit) = config.limits.and_then(|limits| limits.memory) {
        devices.iter_mut().for_each(|device| device.memory = device.memory.min(limit));
    }
    Ok(devices)
}
