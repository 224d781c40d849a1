//! The C interface for node agents (accelerator interface), in both of its generations.
//!
//! Converts pointers to this crate's types, and results back to C structures. [`shared`] has the structures and `exports` the functions
//! that both generations have in common; each generation has a separate file for the rest. A panic becomes an internal error and never unwinds into C.

mod exports;
pub mod generation_a;
pub mod generation_e;
pub mod shared;
mod text;

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::agent::ProcessSelection;
use crate::device::Device;
use crate::env::Settings;
use crate::error::{ProviderError, SUCCESS};
use crate::log::{self, Level};
use crate::node::{Node, Notes};
use shared::{
    BasicInfo, DeviceMetrics, ExtendedDeviceInfo, MAX_EXTRA_METRICS, MAX_PROCESSES, MountPath,
    ProcessInformation, VirtualizationCapabilities,
};
pub use text::Text;

/// Most bytes read of a C string. Device and template names are shorter; a longer string is cut and matches nothing.
const STRING_LIMIT: usize = 1024;
/// Most devices in one call.
const ASKED_LIMIT: usize = 4096;

static NODE: RwLock<Option<Arc<Node>>> = RwLock::new(None);

/// Runs the body of an interface function, logs its error, and returns the result code.
fn respond(act: impl FnOnce() -> Result<(), ProviderError>) -> c_int {
    // Unwind safety: caller memory is written completely or not at all, and the core's locks do not poison.
    let error = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => return SUCCESS,
        Ok(Err(error)) => error,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            ProviderError::Internal(text.unwrap_or_else(|| "a panic".to_owned()))
        }
    };
    let level = match error {
        ProviderError::InvalidParameter(_) | ProviderError::NotFound(_) | ProviderError::NotSupported(_) => {
            Level::Warn
        }
        _ => Level::Error,
    };
    // The log callback may panic as well; the result code is returned anyway.
    let _ = catch_unwind(AssertUnwindSafe(|| log::log(level, &error.to_string())));
    error.code()
}

fn log_notes(notes: Notes) {
    for (level, message) in notes {
        log::log(level, &message);
    }
}

fn open() -> Result<(), ProviderError> {
    if NODE.read().is_none() {
        let (node, notes) = Node::open(Settings::from_environment());
        let found = node.devices().len();
        // If two threads race here, the first one's node stays.
        NODE.write().get_or_insert_with(|| Arc::new(node));
        log_notes(notes);
        log::log(Level::Info, &format!("{found} devices"));
    }
    Ok(())
}

fn close() -> Result<(), ProviderError> {
    let node = NODE.write().take();
    drop(node);
    Ok(())
}

fn node() -> Result<Arc<Node>, ProviderError> {
    let node = NODE.read().clone();
    node.ok_or_else(|| ProviderError::Failed("the library is not initialised".to_owned()))
}

fn discover() -> Result<(Arc<Node>, Vec<Device>), ProviderError> {
    let node = node()?;
    let (devices, notes) = node.discover();
    log_notes(notes);
    Ok((node, devices))
}

/// Copies a C string of the caller.
///
/// # Safety
///
/// The pointer is null or points to a zero-terminated string.
unsafe fn string(pointer: *const c_char, what: &'static str) -> Result<String, ProviderError> {
    if pointer.is_null() {
        return Err(ProviderError::InvalidParameter(what));
    }
    // SAFETY: not null, so the string is zero-terminated; no byte after the terminator is read.
    let bytes = unsafe {
        let length = libc::strnlen(pointer, STRING_LIMIT);
        std::slice::from_raw_parts(pointer.cast::<u8>(), length)
    };
    if bytes.is_empty() {
        return Err(ProviderError::InvalidParameter(what));
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Zeroes the caller's memory for one structure and returns it.
///
/// # Safety
///
/// The pointer is null or valid for writing a `T`, and nothing else accesses that memory during the call. All zeros is a valid `T`.
unsafe fn output<'a, T>(pointer: *mut T, what: &'static str) -> Result<&'a mut T, ProviderError> {
    // SAFETY: `outputs` has the same safety contract, here with a count of 1.
    let outputs = unsafe { outputs(pointer, 1, what)? };
    outputs.first_mut().ok_or(ProviderError::InvalidParameter(what))
}

/// Like [`output`], but for `count` structures. Memory after them is not touched.
///
/// # Safety
///
/// As for [`output`], for `count` elements.
unsafe fn outputs<'a, T>(
    pointer: *mut T,
    count: usize,
    what: &'static str,
) -> Result<&'a mut [T], ProviderError> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(ProviderError::InvalidParameter(what));
    }
    // SAFETY: the memory is valid for `count` elements, and zeroing initialises them.
    unsafe {
        pointer.write_bytes(0, count);
        Ok(std::slice::from_raw_parts_mut(pointer, count))
    }
}

/// Returns the virtualization capabilities of each device.
fn capabilities(node: &Node, devices: &[Device]) -> Vec<VirtualizationCapabilities> {
    let (savable, notes) = node.savable(devices);
    log_notes(notes);
    devices.iter().zip(savable).map(|(device, savable)| capabilities_of(node, device, savable)).collect()
}

fn capabilities_of(node: &Node, device: &Device, savable: bool) -> VirtualizationCapabilities {
    let can = node.capabilities(device);
    VirtualizationCapabilities {
        supports_partitioning: can.partitioning,
        supports_soft_isolation: can.isolation,
        supports_hard_isolation: can.isolation,
        supports_snapshot: savable,
        supports_metrics: true,
        supports_remoting: true,
        max_partitions: can.max_partitions,
        max_workers_per_device: crate::node::MAX_WORKERS,
    }
}

/// Describes every device.
///
/// # Safety
///
/// `devices` is null or valid for writing `most` elements, `count` is null or valid for writing one number.
unsafe fn all_devices<B: BasicInfo>(
    devices: *mut ExtendedDeviceInfo<B>,
    most: usize,
    count: *mut usize,
) -> Result<(), ProviderError> {
    if devices.is_null() || most == 0 {
        return Err(ProviderError::InvalidParameter("the buffer for devices is null, misaligned or empty"));
    }
    // SAFETY: the caller upholds the safety contract.
    let count = unsafe { output(count, "the pointer to the number of devices is null or misaligned")? };
    let (node, found) = discover()?;
    let filled = found.len().min(most);
    // SAFETY: the caller upholds the safety contract, and `filled` is at most `most`.
    let devices = unsafe { outputs(devices, filled, "the buffer for devices is null, misaligned or empty")? };
    let capabilities = capabilities(&node, &found[..filled]);
    for (index, ((to, device), can)) in devices.iter_mut().zip(&found).zip(capabilities).enumerate() {
        to.basic.fill(index, device);
        to.props.fill(&node.properties(device));
        to.capabilities = can;
    }
    *count = filled;
    Ok(())
}

/// Fills in device metrics.
///
/// # Safety
///
/// `names` is null or points to `count` pointers, each null or a C string; `metrics` is null or valid for writing `count` elements.
unsafe fn device_metrics(
    names: *const *const c_char,
    count: usize,
    metrics: *mut DeviceMetrics,
) -> Result<(), ProviderError> {
    if names.is_null() || count == 0 || count > ASKED_LIMIT {
        return Err(ProviderError::InvalidParameter("no devices were named, or more than 4096"));
    }
    if metrics.is_null() {
        return Err(ProviderError::InvalidParameter("the buffer for metrics is null, misaligned or empty"));
    }
    let node = node()?;
    // SAFETY: the caller upholds the safety contract.
    let (names, metrics) = unsafe {
        (
            std::slice::from_raw_parts(names, count),
            outputs(metrics, count, "the buffer for metrics is null, misaligned or empty")?,
        )
    };
    // SAFETY: the caller upholds the safety contract. A null name becomes an empty one, which matches no device.
    let names: Vec<String> =
        names.iter().map(|name| unsafe { string(*name, "") }.unwrap_or_default()).collect();
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    for ((uuid, found), to) in asked.iter().zip(node.metrics_of(&asked)).zip(metrics) {
        to.device_uuid.set(uuid);
        let Some(found) = found else { continue };
        to.power_usage_watts = found.power_watts.unwrap_or(0.0);
        to.temperature_celsius = found.temperature.unwrap_or(0.0);
        to.utilization_percent = found.utilization.unwrap_or(0);
        to.memory_used_bytes = found.memory_used.unwrap_or(0);
        for (extra, (key, value)) in to.extra_metrics.iter_mut().zip(&found.extra) {
            extra.key.set(key);
            extra.value = *value;
        }
        to.extra_metrics_count = found.extra.len().min(MAX_EXTRA_METRICS);
    }
    Ok(())
}

/// # Safety
///
/// `infos` is null or valid for writing `most` elements; `count` is null or valid for writing one number.
unsafe fn process_information(
    infos: *mut ProcessInformation,
    most: usize,
    count: *mut usize,
) -> Result<(), ProviderError> {
    if infos.is_null() || most == 0 {
        return Err(ProviderError::InvalidParameter("the buffer for processes is null, misaligned or empty"));
    }
    // SAFETY: the caller upholds the safety contract.
    let count = unsafe { output(count, "the pointer to the number of processes is null or misaligned")? };
    let found = node()?.processes();
    let filled = found.len().min(most).min(MAX_PROCESSES);
    // SAFETY: the caller upholds the safety contract, and `filled` is at most `most`.
    let infos = unsafe { outputs(infos, filled, "the buffer for processes is null, misaligned or empty")? };
    for (to, process) in infos.iter_mut().zip(&found) {
        to.process_id.set(&process.pid.to_string());
        to.device_uuid.set(&process.device);
        to.compute_utilization_percent = process.compute_percent();
        to.active_sms = process.occupied_units;
        to.total_sms = process.total_units;
        to.memory_used_bytes = process.memory_used;
        to.memory_utilization_percent = process.memory_percent();
    }
    *count = filled;
    Ok(())
}

/// # Safety
///
/// `mounts` is null or valid for writing `most` elements; `count` is null or valid for writing one number.
unsafe fn vendor_mounts(mounts: *mut MountPath, most: usize, count: *mut usize) -> Result<(), ProviderError> {
    if mounts.is_null() || most == 0 {
        return Err(ProviderError::InvalidParameter("the buffer for mounts is null, misaligned or empty"));
    }
    // SAFETY: the caller upholds the safety contract.
    let count = unsafe { output(count, "the pointer to the number of mounts is null or misaligned")? };
    let found = node()?.mounts();
    let filled = found.len().min(most);
    // SAFETY: the caller upholds the safety contract, and `filled` is at most `most`.
    let mounts = unsafe { outputs(mounts, filled, "the buffer for mounts is null, misaligned or empty")? };
    for (to, mount) in mounts.iter_mut().zip(&found) {
        to.host_path.set(&mount.host);
        to.guest_path.set(&mount.guest);
    }
    *count = filled;
    Ok(())
}

/// # Safety
///
/// `count` is null or valid for writing one number.
unsafe fn device_count(count: *mut usize) -> Result<(), ProviderError> {
    // SAFETY: the caller upholds the safety contract.
    let count = unsafe { output(count, "the pointer to the number of devices is null or misaligned")? };
    *count = discover()?.1.len();
    Ok(())
}

fn limit_memory(worker: Option<&str>, uuid: &str, bytes: u64) -> Result<(), ProviderError> {
    if bytes == 0 {
        return Err(ProviderError::InvalidParameter("the memory limit must not be 0"));
    }
    node()?.limit_memory(worker, uuid, bytes)
}

fn limit_compute(worker: Option<&str>, uuid: &str, percent: u32) -> Result<(), ProviderError> {
    if !(1..=100).contains(&percent) {
        return Err(ProviderError::InvalidParameter("a compute limit must be 1 to 100 percent"));
    }
    node()?.limit_compute(worker, uuid, percent)
}

/// Checks a selection of processes by PID and an optional device; used by both generations.
fn selection(processes: &[libc::pid_t], device: Option<String>) -> Result<ProcessSelection, ProviderError> {
    let positive = |pid: &libc::pid_t| u32::try_from(*pid).ok().filter(|pid| *pid > 0);
    let processes: Option<Vec<u32>> = processes.iter().map(positive).collect();
    let processes =
        processes.ok_or(ProviderError::InvalidParameter("a process id must be greater than 0"))?;
    Ok(ProcessSelection { processes, device })
}
