//! `remora devices`: lists the GPUs of a worker, or, on Linux without one, those of this machine and the models of software GPUs.

#[cfg(unix)]
mod without_worker;

use anyhow::Result;
use worker_status::Status;

use crate::env::Environment;
use crate::inspect::inspect;
use crate::output::outln;

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
        #[cfg(unix)]
        return without_worker::show(arguments.json, environment);
        #[cfg(windows)]
        anyhow::bail!(
            "no worker is given: name one with --worker HOST:PORT or in REMORA_WORKER; workers and software GPUs run on Linux"
        );
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
        "{} at {endpoint}, up {}, {} of {} sessions{}",
        status.worker,
        duration(status.uptime_s),
        status.sessions.len(),
        status.max_sessions,
        transports(&status)
    );
    print_table(&status);
    Ok(())
}

/// Counts the connected sessions by what carries them, in parentheses; empty if there are none.
pub fn transports(status: &Status) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for session in status.sessions.iter().filter(|session| !session.transport.is_empty()) {
        *counts.entry(session.transport.as_str()).or_insert(0) += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} over {name}")).collect();
    if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) }
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
