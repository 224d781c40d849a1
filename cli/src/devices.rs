//! `remora devices`: lists the GPUs of a worker, or without one those of this machine and the models of software GPUs.

use anyhow::Result;
use backend_emulator::MODELS;
use worker::{DeviceStatus, Status};

use crate::compiler::{self, Need};
use crate::env::Environment;
use crate::inspect::inspect;
use crate::machine::{self, MachineGpu};
use crate::output::{errln, outln};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Worker to query: host:port, tls://host:port, unix:/path or a URL from an agent
    #[arg(long, value_name = "ENDPOINT")]
    worker: Option<String>,
    /// Print the worker's complete status as JSON
    #[arg(long)]
    json: bool,
}

pub fn show(arguments: &Arguments, environment: &Environment) -> Result<()> {
    let environment = &environment.for_worker(arguments.worker.as_deref());
    let Some(endpoint) = environment.worker(None)? else {
        return show_models(arguments.json, environment);
    };
    let status = inspect(&endpoint, environment)?;
    if arguments.json {
        outln!(
            "{}",
            serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&status.to_json())?)?
        );
        return Ok(());
    }
    outln!(
        "{} at {endpoint}, up {}, {} of {} sessions",
        status.worker,
        duration(status.uptime_s),
        status.sessions.len(),
        status.max_sessions
    );
    print_table(&status);
    Ok(())
}

/// Without a worker, lists the GPUs of this machine, and the software GPU models that `remora run` can start.
fn show_models(json: bool, environment: &Environment) -> Result<()> {
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

fn print_table(status: &Status) {
    let mut rows = vec![
        ["#", "NAME", "ARCHITECTURE", "MEMORY", "USED", "CUs", "CLOCK", "MEM CLOCK", "LOAD", "SESSIONS"]
            .map(str::to_owned),
    ];
    for device in &status.devices {
        rows.push([
            device.ordinal.to_string(),
            device.name.clone(),
            device.isa.clone(),
            bytes(device.memory_total),
            bytes(device.memory_used),
            device.compute_units.to_string(),
            format!("{} MHz", device.clock_mhz),
            format!("{} MHz", device.memory_clock_mhz),
            format!("{:.0} %", device.load_percent),
            device.sessions.to_string(),
        ]);
    }
    print_rows(&rows, |column| column == 0 || (3..=8).contains(&column));
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

/// Prints aligned columns; `right` says which are aligned to the right.
fn print_rows<const COLUMNS: usize>(rows: &[[String; COLUMNS]], right: impl Fn(usize) -> bool) {
    let widths: Vec<usize> =
        (0..COLUMNS).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| match right(column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            })
            .collect();
        outln!("{}", cells.join("  ").trim_end());
    }
}

pub fn bytes(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        bytes if bytes % (1 << 30) == 0 => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 1 << 30 => format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64),
        bytes if bytes >= 1 << 20 => format!("{:.1} MiB", bytes as f64 / (1u64 << 20) as f64),
        bytes => format!("{:.1} KiB", bytes as f64 / 1024.0),
    }
}

pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
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
