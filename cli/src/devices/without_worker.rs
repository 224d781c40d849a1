//! The GPUs of this machine, and the models of software GPUs.

use anyhow::Result;
use backend_emulator::MODELS;
use worker_status::{DeviceStatus, Status};

use super::{bytes, print_rows, print_table};
use crate::compiler::{self, Need};
use crate::env::Environment;
use crate::machine::{self, MachineGpu};
use crate::output::{errln, outln};

/// Without a worker, lists the GPUs of this machine, and the software GPU models that `remora run` can start.
pub fn show(json: bool, environment: &Environment) -> Result<()> {
    let devices: Vec<DeviceStatus> = MODELS
        .iter()
        .zip(0..)
        .map(|(model, ordinal)| DeviceStatus {
            ordinal,
            name: model.name.to_owned(),
            isa: model.isa(),
            memory_total: model.memory_bytes,
            compute_units: model.compute_units,
            clock_mhz: model.clock_khz / 1000,
            memory_clock_mhz: model.memory_clock_khz / 1000,
            ..DeviceStatus::default()
        })
        .collect();
    let status =
        Status { worker: "none".to_owned(), backend: "emulator".to_owned(), devices, ..Status::default() };
    let (gpus, _) = machine::gpus();
    let warning = compiler::warning(environment.toolchain.as_deref(), Need::RunTimeCompilation);
    if json {
        let mut shown = serde_json::from_str::<serde_json::Value>(&status.to_json())?;
        shown["machine"] = gpus.iter().map(MachineGpu::to_json).collect();
        shown["warnings"] = warning.into_iter().collect();
        outln!("{}", serde_json::to_string_pretty(&shown)?);
        return Ok(());
    }
    if !gpus.is_empty() {
        outln!("GPUs of this machine, for `remora worker --backend hip` (AMD) or `--backend cuda` (NVIDIA):");
        print_machine(&gpus);
        outln!("");
    }
    let keys: Vec<&str> = MODELS.iter().map(|model| model.key).collect();
    outln!(
        "No worker is configured (--worker, REMORA_WORKER or TF_WORKER_HOST). `remora run` starts one of these"
    );
    outln!("software GPUs itself; choose one with --device {}:", keys.join("|"));
    print_table(&status);
    if let Some(warning) = warning {
        errln!("warning: {warning}");
    }
    Ok(())
}

/// The GPUs of this machine. What is unknown is a dash.
fn print_machine(gpus: &[MachineGpu]) {
    let head = [
        "#",
        "NAME",
        "ARCHITECTURE",
        "ADDRESS",
        "MEMORY",
        "USED",
        "CUs",
        "LOAD",
        "TEMP",
        "POWER",
        "PROCESSES",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for (ordinal, gpu) in gpus.iter().enumerate() {
        rows.push([
            ordinal.to_string(),
            gpu.device.model.clone(),
            or_dash(gpu.device.architecture()),
            or_dash(gpu.address()),
            bytes(gpu.device.memory),
            or_dash(gpu.memory_used.map(bytes)),
            gpu.device.compute_units.to_string(),
            or_dash(gpu.load.map(|percent| format!("{percent} %"))),
            or_dash(gpu.temperature.map(|degrees| format!("{degrees:.0} C"))),
            or_dash(gpu.watts.map(|watts| format!("{watts:.0} W"))),
            gpu.processes.len().to_string(),
        ]);
    }
    print_rows(&rows, |column| column == 0 || (4..=9).contains(&column));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The provider library has a separate table, because it does not depend on the emulator. The two must agree.
    #[test]
    fn node_agents_are_told_of_the_same_models() {
        let theirs = accelerator_amd::MODELS;
        assert_eq!(theirs.len(), MODELS.len());
        for (theirs, ours) in theirs.iter().zip(MODELS) {
            assert_eq!((theirs.key, theirs.name), (ours.key, ours.name));
            assert_eq!(theirs.processor().as_deref(), Some(ours.processor));
            assert_eq!(theirs.memory_gib << 30, ours.memory_bytes);
            assert_eq!(theirs.compute_units, u64::from(ours.compute_units));
            assert_eq!(theirs.dies, ours.xccs);
            assert_eq!(theirs.clock_mhz * 1000, u64::from(ours.clock_khz));
            assert_eq!(theirs.pci_chip, ours.pci_chip);
        }
    }
}
