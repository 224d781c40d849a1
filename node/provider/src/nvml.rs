//! NVIDIA's management library (NVML), loaded at run time: `libnvidia-ml.so.1` of the driver.

mod device;
mod library;
mod session;

pub(crate) use device::devices;
pub(crate) use library::NvmlError;
pub(crate) use session::Nvml;
