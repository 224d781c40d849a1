//! The accelerator interface as of January 2026 (generation A): `VirtualGPUInit`, `GetDeviceCount` and so on.

#![allow(missing_docs, reason = "the structures are those of the C headers in include/")]

use std::ffi::{c_char, c_int};

use super::exports::exports;
use super::shared::{
    BasicInfo, ExtendedDeviceInfo, MAX_PARTITION_ENVS, MAX_PROCESSES, MAX_TOPOLOGY_DEVICES, fill_basic_info,
    layout,
};
use super::text::Text;
use super::{node, output, respond, string};
use crate::agent::ProcessSelection;
use crate::device::Device;
use crate::error::{ProviderError, SUCCESS};
use crate::topology::LinkKind;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceBasicInfo {
    pub uuid: Text<64>,
    pub vendor: Text<32>,
    pub model: Text<128>,
    pub driver_version: Text<64>,
    pub firmware_version: Text<64>,
    pub index: i32,
    pub numa_node: i32,
    pub total_memory_bytes: u64,
    pub total_compute_units: u64,
    pub max_tflops: f64,
    pub pcie_gen: u32,
    pub pcie_width: u32,
}
layout!(
    DeviceBasicInfo, 392,
    uuid @ 0, vendor @ 64, model @ 96, driver_version @ 224, firmware_version @ 288, index @ 352, numa_node @ 356,
    total_memory_bytes @ 360, total_compute_units @ 368, max_tflops @ 376, pcie_gen @ 384, pcie_width @ 388,
);

impl BasicInfo for DeviceBasicInfo {
    fn fill(&mut self, index: usize, device: &Device) {
        fill_basic_info!(self, index, device);
    }
}

layout!(ExtendedDeviceInfo<DeviceBasicInfo>, 20896, basic @ 0, props @ 392, capabilities @ 20880);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceTopology {
    pub device_uuid: Text<64>,
    pub numa_node: i32,
}
layout!(DeviceTopology, 68, device_uuid @ 0, numa_node @ 64);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtendedDeviceTopology {
    pub devices: [DeviceTopology; MAX_TOPOLOGY_DEVICES],
    pub device_count: usize,
    pub topology_type: Text<32>,
}
layout!(ExtendedDeviceTopology, 4392, devices @ 0, device_count @ 4352, topology_type @ 4360);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EnvVar {
    pub key: Text<64>,
    pub value: Text<256>,
}
layout!(EnvVar, 320, key @ 0, value @ 64);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PartitionAssignment {
    pub template_id: Text<64>,
    pub device_uuid: Text<64>,
    pub partition_uuid: Text<64>,
    pub env_vars: [EnvVar; MAX_PARTITION_ENVS],
    pub env_var_count: usize,
}
layout!(
    PartitionAssignment, 5320,
    template_id @ 0, device_uuid @ 64, partition_uuid @ 128, env_vars @ 192, env_var_count @ 5312,
);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProcessArray {
    pub process_ids: [libc::pid_t; MAX_PROCESSES],
    pub process_count: usize,
    pub device_uuid: Text<64>,
}
layout!(ProcessArray, 4168, process_ids @ 0, process_count @ 4096, device_uuid @ 4104);

exports! {
    init: VirtualGPUInit,
    device_count: GetDeviceCount,
    all_devices: GetAllDevices(DeviceBasicInfo),
    snapshot: Snapshot(ProcessArray),
    resume: Resume(ProcessArray),
    process_information: GetProcessInformation,
    device_metrics: GetDeviceMetrics,
    vendor_mounts: GetVendorMountLibs,
    log_callback: RegisterLogCallback,
}

/// # Safety
///
/// `indices` is null or points to `count` numbers, `topology` is null or valid for writing one topology.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetDeviceTopology(
    indices: *const i32,
    count: usize,
    topology: *mut ExtendedDeviceTopology,
) -> c_int {
    respond(|| {
        if indices.is_null() || count == 0 || count > MAX_TOPOLOGY_DEVICES {
            return Err(ProviderError::InvalidParameter("the call must name 1 to 64 devices"));
        }
        // SAFETY: the caller upholds the safety contract.
        let to = unsafe { output(topology, "the topology pointer is null or misaligned")? };
        // SAFETY: the caller upholds the safety contract, and the pointer is not null.
        let indices = unsafe { std::slice::from_raw_parts(indices, count) };
        let node = node()?;
        let devices = node.devices();
        let mut chosen = Vec::new();
        for index in indices {
            let device = usize::try_from(*index).ok().and_then(|index| devices.get(index));
            chosen
                .push(device.ok_or_else(|| ProviderError::NotFound(format!("there is no device {index}")))?);
        }
        for (to, device) in to.devices.iter_mut().zip(&chosen) {
            to.device_uuid.set(&device.uuid);
            to.numa_node = device.numa;
        }
        to.device_count = chosen.len();
        let near = |from: &&Device| {
            chosen.iter().all(|to| from.uuid == to.uuid || node.link(from, to).kind == LinkKind::Internal)
        };
        to.topology_type.set(if chosen.len() > 1 && chosen.iter().all(near) { "XGMI" } else { "NUMA" });
        Ok(())
    })
}

/// # Safety
///
/// The pointer is null or points to an assignment whose template and device are set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AssignPartition(assignment: *mut PartitionAssignment) -> bool {
    let done = respond(|| {
        if assignment.is_null() || !assignment.is_aligned() {
            return Err(ProviderError::InvalidParameter("the assignment pointer is null or misaligned"));
        }
        // SAFETY: not null, and template and device are set. The other fields may be uninitialised and are written before they are read.
        let (template, uuid) = unsafe { ((*assignment).template_id.get(), (*assignment).device_uuid.get()) };
        if template.is_empty() || uuid.is_empty() {
            return Err(ProviderError::InvalidParameter("the assignment must name a template and a device"));
        }
        let given = node()?.assign(&template, &uuid)?;
        // SAFETY: as above. The template and device were copied before `output` zeroes the structure.
        let to = unsafe { output(assignment, "the assignment pointer is null or misaligned")? };
        to.template_id.set(&template);
        to.device_uuid.set(&uuid);
        to.partition_uuid.set(&given.uuid);
        for (to, (key, value)) in to.env_vars.iter_mut().zip(&given.variables) {
            to.key.set(key);
            to.value.set(value);
        }
        to.env_var_count = given.variables.len().min(MAX_PARTITION_ENVS);
        Ok(())
    });
    done == SUCCESS
}

/// # Safety
///
/// Both pointers are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RemovePartition(template: *const c_char, uuid: *const c_char) -> bool {
    let done = respond(|| {
        // SAFETY: the caller upholds the safety contract.
        let (template, uuid) = unsafe {
            (string(template, "the template name is null")?, string(uuid, "the device name is null")?)
        };
        node()?.remove(&template, &uuid).map(drop)
    });
    done == SUCCESS
}

/// # Safety
///
/// Both pointers are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SetMemHardLimit(worker: *const c_char, uuid: *const c_char, bytes: u64) -> c_int {
    respond(|| {
        // SAFETY: the caller upholds the safety contract.
        let (worker, uuid) =
            unsafe { (string(worker, "the worker name is null")?, string(uuid, "the device name is null")?) };
        super::limit_memory(Some(&worker), &uuid, bytes)
    })
}

/// # Safety
///
/// Both pointers are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SetComputeUnitHardLimit(
    worker: *const c_char,
    uuid: *const c_char,
    percent: u32,
) -> c_int {
    respond(|| {
        // SAFETY: the caller upholds the safety contract.
        let (worker, uuid) =
            unsafe { (string(worker, "the worker name is null")?, string(uuid, "the device name is null")?) };
        super::limit_compute(Some(&worker), &uuid, percent)
    })
}

/// # Safety
///
/// The pointer is null or points to an array of processes.
unsafe fn processes_of(processes: *const ProcessArray) -> Result<ProcessSelection, ProviderError> {
    if processes.is_null() || !processes.is_aligned() {
        return Err(ProviderError::InvalidParameter("the processes pointer is null or misaligned"));
    }
    // SAFETY: not null, and only the count is read.
    let count = unsafe { (&raw const (*processes).process_count).read() };
    if count == 0 || count > MAX_PROCESSES {
        return Err(ProviderError::InvalidParameter("the call must name 1 to 1024 processes"));
    }
    // SAFETY: not null; the caller has set `count` process ids and the device name.
    let (numbers, device) = unsafe {
        let first = (&raw const (*processes).process_ids).cast::<libc::pid_t>();
        (std::slice::from_raw_parts(first, count), (*processes).device_uuid.get())
    };
    super::selection(numbers, Some(device).filter(|device| !device.is_empty()))
}
