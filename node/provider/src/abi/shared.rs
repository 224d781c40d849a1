//! C structures that both generations share, with compile-time checks of their layout.

#![allow(missing_docs, reason = "the structures are those of the C headers in include/")]

use super::text::Text;
use crate::device::Device;

pub const MAX_DEVICE_PROPERTIES: usize = 64;
pub const MAX_EXTRA_METRICS: usize = 64;
pub const MAX_TOPOLOGY_DEVICES: usize = 64;
pub const MAX_PARTITION_ENVS: usize = 16;
pub const MAX_PROCESSES: usize = 1024;

/// Asserts at compile time the size of a structure and the offsets of its fields.
macro_rules! layout {
    ($name:ty, $size:literal $(, $field:ident @ $offset:literal)* $(,)?) => {
        const _: () = assert!(size_of::<$name>() == $size);
        $(const _: () = assert!(std::mem::offset_of!($name, $field) == $offset);)*
    };
}
pub(super) use layout;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VirtualizationCapabilities {
    pub supports_partitioning: bool,
    pub supports_soft_isolation: bool,
    pub supports_hard_isolation: bool,
    pub supports_snapshot: bool,
    pub supports_metrics: bool,
    pub supports_remoting: bool,
    pub max_partitions: u32,
    pub max_workers_per_device: u32,
}
layout!(
    VirtualizationCapabilities, 16,
    supports_partitioning @ 0, supports_soft_isolation @ 1, supports_hard_isolation @ 2, supports_snapshot @ 3,
    supports_metrics @ 4, supports_remoting @ 5, max_partitions @ 8, max_workers_per_device @ 12,
);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DevicePropertyKv {
    pub key: Text<64>,
    pub value: Text<256>,
}
layout!(DevicePropertyKv, 320, key @ 0, value @ 64);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceProperties {
    pub properties: [DevicePropertyKv; MAX_DEVICE_PROPERTIES],
    pub count: usize,
}
layout!(DeviceProperties, 20488, properties @ 0, count @ 20480);

impl DeviceProperties {
    pub(super) fn fill(&mut self, values: &[(String, String)]) {
        for (to, (key, value)) in self.properties.iter_mut().zip(values) {
            to.key.set(key);
            to.value.set(value);
        }
        self.count = values.len().min(MAX_DEVICE_PROPERTIES);
    }
}

/// A device's description in one generation of the interface.
pub(super) trait BasicInfo {
    /// Describes the device; `self` is zeroed.
    fn fill(&mut self, index: usize, device: &Device);
}

/// Fills in the fields that the description has in both generations.
macro_rules! fill_basic_info {
    ($to:expr, $index:expr, $device:expr) => {{
        let (to, device) = (&mut *$to, $device);
        to.uuid.set(&device.uuid);
        to.vendor.set(device.vendor());
        to.model.set(&device.model);
        to.driver_version.set(&device.driver);
        to.firmware_version.set(&device.firmware);
        to.index = $index as i32;
        to.numa_node = device.numa;
        to.total_memory_bytes = device.memory;
        to.total_compute_units = device.compute_units;
        to.max_tflops = device.tflops;
        if let Some(link) = device.pcie {
            to.pcie_gen = link.generation;
            to.pcie_width = link.width;
        }
    }};
}
pub(super) use fill_basic_info;

/// A device with its properties and capabilities. The description differs between the generations.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtendedDeviceInfo<Basic> {
    pub basic: Basic,
    pub props: DeviceProperties,
    pub capabilities: VirtualizationCapabilities,
}

/// Part of the interface, but not used by any of its functions: templates are reported as device properties.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PartitionTemplate {
    pub template_id: Text<64>,
    pub name: Text<128>,
    pub memory_bytes: u64,
    pub compute_units: u64,
    pub tflops: f64,
    pub slice_count: u32,
    pub is_default: bool,
    pub description: Text<256>,
}
layout!(
    PartitionTemplate, 480,
    template_id @ 0, name @ 64, memory_bytes @ 192, compute_units @ 200, tflops @ 208, slice_count @ 216,
    is_default @ 220, description @ 221,
);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtraMetric {
    pub key: Text<64>,
    pub value: f64,
}
layout!(ExtraMetric, 72, key @ 0, value @ 64);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProcessInformation {
    pub process_id: Text<32>,
    pub device_uuid: Text<64>,
    pub compute_utilization_percent: f64,
    pub active_sms: u64,
    pub total_sms: u64,
    pub memory_used_bytes: u64,
    pub memory_reserved_bytes: u64,
    pub memory_utilization_percent: f64,
}
layout!(
    ProcessInformation, 144,
    process_id @ 0, device_uuid @ 32, compute_utilization_percent @ 96, active_sms @ 104, total_sms @ 112,
    memory_used_bytes @ 120, memory_reserved_bytes @ 128, memory_utilization_percent @ 136,
);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceMetrics {
    pub device_uuid: Text<64>,
    pub power_usage_watts: f64,
    pub temperature_celsius: f64,
    pub pcie_rx_bytes: u64,
    pub pcie_tx_bytes: u64,
    pub utilization_percent: u32,
    pub memory_used_bytes: u64,
    pub extra_metrics: [ExtraMetric; MAX_EXTRA_METRICS],
    pub extra_metrics_count: usize,
}
layout!(
    DeviceMetrics, 4728,
    device_uuid @ 0, power_usage_watts @ 64, temperature_celsius @ 72, pcie_rx_bytes @ 80, pcie_tx_bytes @ 88,
    utilization_percent @ 96, memory_used_bytes @ 104, extra_metrics @ 112, extra_metrics_count @ 4720,
);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MountPath {
    pub host_path: Text<512>,
    pub guest_path: Text<512>,
}
layout!(MountPath, 1024, host_path @ 0, guest_path @ 512);
