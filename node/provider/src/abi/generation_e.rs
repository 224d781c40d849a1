//! The accelerator interface since March 2026 (generation E): every function name begins with `Accel`.

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
use crate::env::TopologyForm;
use crate::error::ProviderError;
use crate::node::Node;
use crate::topology::Link;

/// Partition result type: the partition is passed as device nodes.
const PARTITION_TYPE_DEVICE_NODE: c_int = 1;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceBasicInfo {
    pub uuid: Text<64>,
    pub vendor: Text<32>,
    pub model: Text<128>,
    pub driver_version: Text<80>,
    pub firmware_version: Text<64>,
    pub device_node: Text<64>,
    pub index: i32,
    pub numa_node: i32,
    pub total_memory_bytes: u64,
    pub total_compute_units: u64,
    pub max_tflops: f64,
    pub pcie_gen: u32,
    pub pcie_width: u32,
}
layout!(
    DeviceBasicInfo, 472,
    uuid @ 0, vendor @ 64, model @ 96, driver_version @ 224, firmware_version @ 304, device_node @ 368, index @ 432,
    numa_node @ 436, total_memory_bytes @ 440, total_compute_units @ 448, max_tflops @ 456, pcie_gen @ 464,
    pcie_width @ 468,
);

impl BasicInfo for DeviceBasicInfo {
    fn fill(&mut self, index: usize, device: &Device) {
        fill_basic_info!(self, index, device);
        self.device_node.set(&device.device_node().unwrap_or_default());
    }
}

layout!(ExtendedDeviceInfo<DeviceBasicInfo>, 20976, basic @ 0, props @ 472, capabilities @ 20960);

/// A topology peer as defined by the C header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceTopoNode {
    pub peer_uuid: Text<64>,
    pub peer_index: i32,
    pub topo_level: c_int,
}
layout!(DeviceTopoNode, 72, peer_uuid @ 0, peer_index @ 64, topo_level @ 68);

/// A topology peer as the interface's Go reader expects it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GoTopoNode {
    pub peer_uuid: Text<64>,
    pub peer_index: i32,
    pub topo_level: c_int,
    pub bandwidth_bytes_per_second: i64,
}
layout!(GoTopoNode, 80, peer_uuid @ 0, peer_index @ 64, topo_level @ 68, bandwidth_bytes_per_second @ 72);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceTopologyInfo<Peer> {
    pub device_uuid: Text<64>,
    pub device_index: i32,
    pub numa_node: i32,
    pub peers: [Peer; MAX_TOPOLOGY_DEVICES],
    pub peer_count: usize,
}
layout!(
    DeviceTopologyInfo<DeviceTopoNode>, 4688,
    device_uuid @ 0, device_index @ 64, numa_node @ 68, peers @ 72, peer_count @ 4680,
);
layout!(DeviceTopologyInfo<GoTopoNode>, 5200, peers @ 72, peer_count @ 5192);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtendedDeviceTopology<Peer> {
    pub devices: [DeviceTopologyInfo<Peer>; MAX_TOPOLOGY_DEVICES],
    pub device_count: usize,
}
layout!(ExtendedDeviceTopology<DeviceTopoNode>, 300040, devices @ 0, device_count @ 300032);
layout!(ExtendedDeviceTopology<GoTopoNode>, 332808, devices @ 0, device_count @ 332800);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SnapshotContext {
    pub process_ids: *const libc::pid_t,
    pub process_count: usize,
    pub device_uuid: *const c_char,
}
layout!(SnapshotContext, 24, process_ids @ 0, process_count @ 8, device_uuid @ 16);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PartitionResult {
    pub kind: c_int,
    pub device_uuid: Text<64>,
    pub env_vars: [Text<256>; MAX_PARTITION_ENVS],
    pub device_nodes: [Text<1026>; MAX_PARTITION_ENVS],
}
layout!(PartitionResult, 20580, kind @ 0, device_uuid @ 4, env_vars @ 68, device_nodes @ 4164);

exports! {
    init: AccelInit,
    device_count: AccelGetDeviceCount,
    all_devices: AccelGetAllDevices(DeviceBasicInfo),
    snapshot: AccelSnapshot(SnapshotContext),
    resume: AccelResume(SnapshotContext),
    process_information: AccelGetProcessInformation,
    device_metrics: AccelGetDeviceMetrics,
    vendor_mounts: AccelGetVendorMountLibs,
    log_callback: AccelRegisterLogCallback,
}

/// Shuts the library down and drops all its state, including partition assignments.
#[unsafe(no_mangle)]
pub extern "C" fn AccelShutdown() -> c_int {
    respond(super::close)
}

/// Writes 300,040 bytes; 332,808 if `TF_ACCEL_TOPO_ABI=go` was set when the library was initialised.
///
/// # Safety
///
/// The pointer is null or valid for writing that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AccelGetAllDevicesTopology(
    topology: *mut ExtendedDeviceTopology<DeviceTopoNode>,
) -> c_int {
    respond(|| {
        if topology.is_null() {
            return Err(ProviderError::InvalidParameter("the topology pointer is null or misaligned"));
        }
        let node = node()?;
        // SAFETY: the caller upholds the safety contract, for the topology form that was configured.
        unsafe {
            match node.settings().topology {
                TopologyForm::Header => fill(&node, topology),
                TopologyForm::Go => fill(&node, topology.cast::<ExtendedDeviceTopology<GoTopoNode>>()),
            }
        }
    })
}

/// # Safety
///
/// The first two pointers are null or C strings, the third is null or valid for writing a result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AccelAssignPartition(
    template: *const c_char,
    uuid: *const c_char,
    result: *mut PartitionResult,
) -> c_int {
    respond(|| {
        // SAFETY: the caller upholds the safety contract.
        let (template, uuid) = unsafe {
            (string(template, "the template name is null")?, string(uuid, "the device name is null")?)
        };
        // SAFETY: the caller upholds the safety contract.
        let to = unsafe { output(result, "the result pointer is null or misaligned")? };
        let given = node()?.assign(&template, &uuid)?;
        to.kind = PARTITION_TYPE_DEVICE_NODE;
        to.device_uuid.set(&given.uuid);
        for (to, node) in to.device_nodes.iter_mut().zip(&given.device_nodes) {
            to.set(&format!("{node}={node}"));
        }
        Ok(())
    })
}

/// # Safety
///
/// Both pointers are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AccelRemovePartition(template: *const c_char, uuid: *const c_char) -> c_int {
    respond(|| {
        // SAFETY: the caller upholds the safety contract.
        let (template, uuid) = unsafe {
            (string(template, "the template name is null")?, string(uuid, "the device name is null")?)
        };
        node()?.remove(&template, &uuid).map(drop)
    })
}

/// # Safety
///
/// The pointer is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AccelSetMemHardLimit(uuid: *const c_char, bytes: u64) -> c_int {
    // SAFETY: the caller upholds the safety contract.
    respond(|| super::limit_memory(None, &unsafe { string(uuid, "the device name is null")? }, bytes))
}

/// # Safety
///
/// The pointer is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AccelSetComputeUnitHardLimit(uuid: *const c_char, percent: u32) -> c_int {
    // SAFETY: the caller upholds the safety contract.
    respond(|| super::limit_compute(None, &unsafe { string(uuid, "the device name is null")? }, percent))
}

/// A topology peer in either form.
trait Peer {
    fn set(&mut self, index: usize, device: &Device, link: Link);
}

impl Peer for DeviceTopoNode {
    fn set(&mut self, index: usize, device: &Device, link: Link) {
        self.peer_uuid.set(&device.uuid);
        self.peer_index = index as i32;
        self.topo_level = link.kind.level();
    }
}

impl Peer for GoTopoNode {
    fn set(&mut self, index: usize, device: &Device, link: Link) {
        self.peer_uuid.set(&device.uuid);
        self.peer_index = index as i32;
        self.topo_level = link.kind.level();
        self.bandwidth_bytes_per_second = i64::try_from(link.bandwidth_bytes).unwrap_or(i64::MAX);
    }
}

/// # Safety
///
/// The pointer is valid for writing a topology with such peers.
unsafe fn fill<P: Peer>(node: &Node, topology: *mut ExtendedDeviceTopology<P>) -> Result<(), ProviderError> {
    let mut devices = node.devices();
    devices.truncate(MAX_TOPOLOGY_DEVICES);
    // SAFETY: the caller upholds the safety contract.
    let topology = unsafe { output(topology, "the topology pointer is null or misaligned")? };
    for (index, (to, device)) in topology.devices.iter_mut().zip(&devices).enumerate() {
        to.device_uuid.set(&device.uuid);
        to.device_index = index as i32;
        to.numa_node = device.numa;
        let others = devices.iter().enumerate().filter(|(other, _)| *other != index);
        for (to, (other, peer)) in to.peers.iter_mut().zip(others) {
            to.set(other, peer, node.link(device, peer));
        }
        to.peer_count = devices.len() - 1;
    }
    topology.device_count = devices.len();
    Ok(())
}

/// # Safety
///
/// The pointer is null or points to a context.
unsafe fn processes_of(context: *const SnapshotContext) -> Result<ProcessSelection, ProviderError> {
    if context.is_null() || !context.is_aligned() {
        return Err(ProviderError::InvalidParameter("the context pointer is null or misaligned"));
    }
    // SAFETY: not null, and the caller has filled it in.
    let context = unsafe { *context };
    let named = !context.process_ids.is_null() && context.process_count > 0;
    let none = context.process_count == 0;
    if context.process_count > MAX_PROCESSES || !(named || none && !context.device_uuid.is_null()) {
        return Err(ProviderError::InvalidParameter(
            "the context must name up to 1024 processes or a device",
        ));
    }
    if named && !context.process_ids.is_aligned() {
        return Err(ProviderError::InvalidParameter("the process id array is misaligned"));
    }
    // SAFETY: the array has `process_count` elements, and the name is null or a string.
    let (processes, device) = unsafe {
        let processes =
            if named { std::slice::from_raw_parts(context.process_ids, context.process_count) } else { &[] };
        let device =
            (!context.device_uuid.is_null()).then(|| string(context.device_uuid, "the device name is null"));
        (processes, device.transpose()?)
    };
    super::selection(processes, device)
}
