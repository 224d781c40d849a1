//! The GPUs of this machine, as the provider library reports them: AMD's by the kernel's files, NVIDIA's by NVML.

use accelerator_amd::{Device, Node, Settings, SmiChoice};
use serde_json::{Value, json};

/// A GPU of this machine with its current use. What is unknown is `None`.
#[derive(Debug)]
pub struct MachineGpu {
    pub device: Device,
    pub memory_used: Option<u64>,
    /// In percent.
    pub load: Option<u32>,
    pub temperature: Option<f64>,
    pub watts: Option<f64>,
    /// Ids of the processes that use it.
    pub processes: Vec<u32>,
}

/// Lists the GPUs, and why NVIDIA's cannot be listed, if so.
pub fn gpus() -> (Vec<MachineGpu>, Vec<String>) {
    // AMD's library is not loaded into this process: without its driver it may crash, and the kernel's files suffice.
    let settings = Settings { software: Vec::new(), smi: SmiChoice::Off, ..Settings::from_environment() };
    let (node, notes) = Node::open(settings);
    let devices = node.devices();
    let uuids: Vec<&str> = devices.iter().map(|device| device.uuid.as_str()).collect();
    let metrics = node.metrics_of(&uuids);
    let processes = node.processes();
    let gpus = devices.iter().zip(metrics).map(|(device, metrics)| {
        let metrics = metrics.unwrap_or_default();
        let of_device = processes.iter().filter(|process| process.device == device.uuid);
        MachineGpu {
            device: device.clone(),
            memory_used: metrics.memory_used,
            load: metrics.utilization,
            temperature: metrics.temperature,
            watts: metrics.power_watts,
            processes: of_device.map(|process| process.pid).collect(),
        }
    });
    let about_nvidia = |text: &String| text.contains("NVIDIA");
    (gpus.collect(), notes.into_iter().map(|(_, text)| text).filter(about_nvidia).collect())
}

impl MachineGpu {
    /// The GPU in the form of `remora devices --json`.
    pub fn to_json(&self) -> Value {
        let device = &self.device;
        json!({
            "uuid": device.uuid,
            "vendor": device.vendor(),
            "name": device.model,
            "driver": device.driver,
            "architecture": device.architecture(),
            "pci_address": self.address(),
            "memory_total": device.memory,
            "memory_used": self.memory_used,
            "compute_units": device.compute_units,
            "load_percent": self.load,
            "temperature_celsius": self.temperature,
            "power_watts": self.watts,
            "processes": self.processes,
        })
    }

    /// The PCI address, as the kernel writes it.
    pub fn address(&self) -> Option<String> {
        self.device.properties().into_iter().find(|(key, _)| *key == "pciAddress").map(|(_, address)| address)
    }
}
