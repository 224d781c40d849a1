//! Device probe: lists the devices of a back end before the first session.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use backend::{DeviceError, DeviceInfo};
use hip_api::hipError_t;
use hip_api::types::hipErrorSharedObjectInitFailed;
use serde::{Deserialize, Serialize};

use crate::config::{BackendConfig, SessionConfig};
use crate::confine::PreopenedResources;
use crate::error::WorkerError;
use crate::session::executor::open_device;

/// Most bytes that are read of a child's answer.
const ANSWER_BYTES: u64 = 1 << 20;

/// What a child found, or the code and text of its error.
type Answer = Result<Vec<DeviceSummary>, (u32, String)>;

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
/// For AMD's runtime this loads and initialises it in the calling process. NVIDIA's driver is loaded in a child process that ends
/// afterwards, because a process that has opened a GPU holds 0.5 GB of its memory as long as it lives. The caller must not have started
/// threads yet.
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
    let mut devices = match config.backend {
        BackendConfig::Cuda { .. } => list_in_child(config)?,
        BackendConfig::Emulator { .. } | BackendConfig::Hip { .. } => {
            list(config).map_err(WorkerError::Device)?
        }
    };
    if let Some(limit) = config.limits.and_then(|limits| limits.memory) {
        devices.iter_mut().for_each(|device| device.memory = device.memory.min(limit));
    }
    Ok(devices)
}

fn list(config: &SessionConfig) -> Result<Vec<DeviceSummary>, DeviceError> {
    let device = open_device(config, None, None, &PreopenedResources::default())?;
    Ok(device.info().iter().map(DeviceSummary::from).collect())
}

fn list_in_child(config: &SessionConfig) -> Result<Vec<DeviceSummary>, WorkerError> {
    let failed = |source| WorkerError::Io { what: "cannot start a process that lists the GPUs", source };
    let (ours, theirs) = std::io::pipe().map_err(failed)?;
    // SAFETY: this process has no other threads, so the child may do everything that this process may.
    match unsafe { libc::fork() } {
        -1 => Err(failed(std::io::Error::last_os_error())),
        0 => {
            drop(ours);
            answer(theirs, || list(config).map_err(|error| (error.code.0, error.text)));
            // SAFETY: ends the child, without what this process would do at its end.
            unsafe { libc::_exit(0) }
        }
        child => {
            drop(theirs);
            let found = read(ours);
            // SAFETY: the child is ours, and nothing else waits for it.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            found.map_err(|(code, text)| WorkerError::Device(DeviceError::new(hipError_t(code), text)))
        }
    }
}

/// The child's side. A panic must not unwind into what is the parent's.
fn answer(mut to: PipeWriter, list: impl FnOnce() -> Answer) {
    if let Ok(found) = catch_unwind(AssertUnwindSafe(list))
        && let Ok(text) = serde_json::to_vec(&found)
    {
        // If nobody reads it, the parent has ended.
        let _ = to.write_all(&text);
    }
}

/// The parent's side. A child that ended without an answer has crashed.
fn read(from: PipeReader) -> Answer {
    let mut text = Vec::new();
    let crashed =
        || (hipErrorSharedObjectInitFailed.0, "the driver crashed when it opened the GPUs".to_owned());
    from.take(ANSWER_BYTES).read_to_end(&mut text).map_err(|_| crashed())?;
    serde_json::from_slice(&text).unwrap_or_else(|_| Err(crashed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchanged(list: impl FnOnce() -> Answer) -> Answer {
        let (ours, theirs) = std::io::pipe().unwrap();
        answer(theirs, list);
        read(ours)
    }

    #[test]
    fn what_a_child_finds_is_read_and_a_crash_is_an_error() {
        let gpu = DeviceSummary { name: "NVIDIA H200 as gfx942".to_owned(), memory: 1, ..Default::default() };
        assert_eq!(exchanged(|| Ok(vec![gpu.clone()])), Ok(vec![gpu]));
        assert_eq!(exchanged(|| Err((100, "none".to_owned()))), Err((100, "none".to_owned())));
        let (_, text) = exchanged(|| panic!("expected")).unwrap_err();
        assert!(text.contains("crashed"), "{text}");
    }
}
