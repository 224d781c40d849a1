//! The interface of node agents, in both of its generations.
//!
//! Everything here turns pointers into this crate's terms and answers back into structures. What both generations share is in
//! [`shared`]; each has a file for what is its own. A panic becomes an internal error, and never crosses.

pub mod generation_a;
pub mod generation_e;
pub mod shared;
mod text;

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::agent::Chosen;
use crate::device::Device;
use crate::env::Settings;
use crate::log::{self, Level};
use crate::node::{Node, Notes};
use crate::refusal::{Refusal, SUCCESS};
use shared::{
    DeviceMetrics, MAX_EXTRA_METRICS, MAX_PROCESSES, MountPath, ProcessInformation,
    VirtualizationCapabilities,
};
pub use text::Text;

/// Names and templates are shorter; what is longer is cut, and then matches nothing.
const STRING_LIMIT: usize = 1024;
/// More devices than one call may ask about.
const ASKED_LIMIT: usize = 4096;

static NODE: RwLock<Option<Arc<Node>>> = RwLock::new(None);

/// Runs what a function does and turns it into its result.
fn answer(act: impl FnOnce() -> Result<(), Refusal>) -> c_int {
    // What is behind the pointers is written as a whole or not at all, and the core's locks do not poison.
    let refusal = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => return SUCCESS,
        Ok(Err(refusal)) => refusal,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Refusal::Internal(text.unwrap_or_else(|| "a panic".to_owned()))
        }
    };
    let level = match refusal {
        Refusal::InvalidParameter(_) | Refusal::NotFound(_) | Refusal::NotSupported(_) => Level::Warn,
        _ => Level::Error,
    };
    // Saying it may fail like anything else; the code is still the code.
    let _ = catch_unwind(AssertUnwindSafe(|| log::say(level, &refusal.to_string())));
    refusal.code()
}

fn say(notes: Notes) {
    for (level, message) in notes {
        log::say(level, &message);
    }
}

fn open() -> Result<(), Refusal> {
    if NODE.read().is_none() {
        let (node, notes) = Node::open(Settings::from_environment());
        let found = node.devices().len();
        // Of two threads that come here together, the second finds the place taken.
        NODE.write().get_or_insert_with(|| Arc::new(node));
        say(notes);
        log::say(Level::Info, &format!("{found} devices"));
    }
    Ok(())
}

fn close() -> Result<(), Refusal> {
    let node = NODE.write().take();
    drop(node);
    Ok(())
}

fn node() -> Result<Arc<Node>, Refusal> {
    let node = NODE.read().clone();
    node.ok_or_else(|| Refusal::Failed("the library is not initialised".to_owned()))
}

fn discover() -> Result<(Arc<Node>, Vec<Device>), Refusal> {
    let node = node()?;
    let (devices, notes) = node.discover();
    say(notes);
    Ok((node, devices))
}

/// A string of the caller's.
///
/// # Safety
///
/// The pointer is null or points to a string with a zero at its end.
unsafe fn string(pointer: *const c_char, what: &'static str) -> Result<String, Refusal> {
    if pointer.is_null() {
        return Err(Refusal::InvalidParameter(what));
    }
    // SAFETY: not null, so there is a zero somewhere; no byte behind it is looked at.
    let bytes = unsafe {
        let length = libc::strnlen(pointer, STRING_LIMIT);
        std::slice::from_raw_parts(pointer.cast::<u8>(), length)
    };
    if bytes.is_empty() {
        return Err(Refusal::InvalidParameter(what));
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Room of the caller's for one structure, made all zeros.
///
/// # Safety
///
/// The pointer is null or points to room for a `T`, which nobody else uses during the call; all zeros are a valid `T`.
unsafe fn room<'a, T>(pointer: *mut T, what: &'static str) -> Result<&'a mut T, Refusal> {
    // SAFETY: the caller's promise, passed on.
    let rooms = unsafe { rooms(pointer, 1, what)? };
    rooms.first_mut().ok_or(Refusal::InvalidParameter(what))
}

/// The same for several. Only as many as will be filled are touched.
///
/// # Safety
///
/// As for one, for `count` of them.
unsafe fn rooms<'a, T>(pointer: *mut T, count: usize, what: &'static str) -> Result<&'a mut [T], Refusal> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Refusal::InvalidParameter(what));
    }
    // SAFETY: there is room for `count`; once they are zeros they are initialised.
    unsafe {
        pointer.write_bytes(0, count);
        Ok(std::slice::from_raw_parts_mut(pointer, count))
    }
}

/// What each device can be used for.
fn capabilities(node: &Node, devices: &[Device]) -> Vec<VirtualizationCapabilities> {
    let (savable, notes) = node.savable(devices);
    say(notes);
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

/// Both generations ask for metrics in the same way.
///
/// # Safety
///
/// `names` is null or points to `count` pointers, each null or a string; `metrics` is null or has room for `count`.
unsafe fn device_metrics(
    names: *const *const c_char,
    count: usize,
    metrics: *mut DeviceMetrics,
) -> Result<(), Refusal> {
    if names.is_null() || count == 0 || count > ASKED_LIMIT {
        return Err(Refusal::InvalidParameter("no devices were named"));
    }
    if metrics.is_null() {
        return Err(Refusal::InvalidParameter("there is no room for metrics"));
    }
    let node = node()?;
    // SAFETY: the caller's promise.
    let (names, metrics) = unsafe {
        (std::slice::from_raw_parts(names, count), rooms(metrics, count, "there is no room for metrics")?)
    };
    // SAFETY: the caller's promise. A name that is none is answered like one that nobody has.
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
/// `infos` is null or has room for `most`; `count` is null or has room for a number.
unsafe fn process_information(
    infos: *mut ProcessInformation,
    most: usize,
    count: *mut usize,
) -> Result<(), Refusal> {
    if infos.is_null() || most == 0 {
        return Err(Refusal::InvalidParameter("there is no room for processes"));
    }
    // SAFETY: the caller's promise.
    let count = unsafe { room(count, "there is no room for the number of processes")? };
    let found = node()?.processes();
    let filled = found.len().min(most).min(MAX_PROCESSES);
    // SAFETY: the caller's promise, for fewer.
    let infos = unsafe { rooms(infos, filled, "there is no room for processes")? };
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
/// `mounts` is null or has room for `most`; `count` is null or has room for a number.
unsafe fn vendor_mounts(mounts: *mut MountPath, most: usize, count: *mut usize) -> Result<(), Refusal> {
    if mounts.is_null() || most == 0 {
        return Err(Refusal::InvalidParameter("there is no room for mounts"));
    }
    // SAFETY: the caller's promise.
    let count = unsafe { room(count, "there is no room for the number of mounts")? };
    let found = node()?.mounts();
    let filled = found.len().min(most);
    // SAFETY: the caller's promise, for fewer.
    let mounts = unsafe { rooms(mounts, filled, "there is no room for mounts")? };
    for (to, mount) in mounts.iter_mut().zip(&found) {
        to.host_path.set(&mount.host);
        to.guest_path.set(&mount.guest);
    }
    *count = filled;
    Ok(())
}

/// # Safety
///
/// `count` is null or has room for a number.
unsafe fn device_count(count: *mut usize) -> Result<(), Refusal> {
    // SAFETY: the caller's promise.
    let count = unsafe { room(count, "there is no room for the number of devices")? };
    *count = discover()?.1.len();
    Ok(())
}

fn limit_memory(worker: Option<&str>, uuid: &str, bytes: u64) -> Result<(), Refusal> {
    if bytes == 0 {
        return Err(Refusal::InvalidParameter("a limit of no memory at all"));
    }
    node()?.limit_memory(worker, uuid, bytes)
}

fn limit_compute(worker: Option<&str>, uuid: &str, percent: u32) -> Result<(), Refusal> {
    if !(1..=100).contains(&percent) {
        return Err(Refusal::InvalidParameter("compute is limited to 1 to 100 percent"));
    }
    node()?.limit_compute(worker, uuid, percent)
}

/// Processes by their numbers, and a device that may be left out, as both generations name them.
fn chosen(processes: &[libc::pid_t], device: Option<String>) -> Result<Chosen, Refusal> {
    let positive = |pid: &libc::pid_t| u32::try_from(*pid).ok().filter(|pid| *pid > 0);
    let processes: Option<Vec<u32>> = processes.iter().map(positive).collect();
    let processes = processes.ok_or(Refusal::InvalidParameter("a process has a number above 0"))?;
    Ok(Chosen { processes, device })
}
