//! A worker on the same machine: through shared memory and over the unix socket, compared with raw shared memory and a copy in memory.

use super::memory_peer::{MemoryPeer, copy_speed};
use super::program::Programs;
use super::report::{Aim, Report, Row};
use super::sample::{Pair, Sample};
use super::{DEVICE, Extent};
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use anyhow::{Result, bail};
use std::process::Command;

const MICRO: f64 = 1e6;
const GIGA: f64 = 1e-9;

/// Turns everything over to the socket.
const OVER_SOCKET: &[(&str, &str)] = &[("REMORA_SHARED_MEMORY", "off")];

const CALLS: &str = "calls to a worker on the same machine (reference: two processes that exchange messages in shared memory)";
const COPIES: &str = "copies to a worker on the same machine, compared with one copy in memory";

pub fn measure(
    repo: &Repo,
    built: &Built,
    programs: &Programs,
    extent: Extent,
    report: &mut Report,
) -> Result<()> {
    let socket = repo.target.join("bench/worker.socket");
    let listen = format!("unix:{}", socket.display());
    let arguments = ["--no-upload-cache", "--listen", &listen];
    let remora = Command::new(&built.remora);
    let _worker = LocalWorker::start_with(remora, DEVICE, &arguments, &programs.log("worker-unix"))?;
    waiting(programs, &listen, extent, report)?;
    posting(programs, &listen, extent, report)?;
    copying(programs, &listen, extent, report)
}

/// Calls that wait for their reply.
fn waiting(programs: &Programs, listen: &str, extent: Extent, report: &mut Report) -> Result<()> {
    let folder =
        if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let mut raw = MemoryPeer::start(&folder.join(format!("remora-bench-{}", std::process::id())))?;
    let mut memory = programs.start_on(&programs.calls, listen)?;
    let mut socket = programs.start_with(&programs.calls, listen, OVER_SOCKET)?;
    let (mut shared, mut plain) = (Pair::default(), Pair::default());
    let count = extent.calls;
    memory.seconds("synchronize 2")?;
    socket.seconds("synchronize 2")?;
    for _ in 0..6 * extent.rounds {
        // The bytes of a waiting call are known from the local measurements.
        let reference = raw.echo(32, 28, count)? / count as f64;
        shared.push(memory.seconds(&format!("synchronize {count}"))? / count as f64, reference);
        plain.push(socket.seconds(&format!("synchronize {count}"))? / count as f64, reference);
    }
    memory.finish()?;
    socket.finish()?;
    report.push(Row {
        best: shared.ours.best() * MICRO,
        median: shared.ours.median() * MICRO,
        reference: Some(shared.reference.best() * MICRO),
        aim: Some(Aim::AtMost(3.0)),
        ..Row::plain(CALLS, "sync_memory", "hipStreamSynchronize, shared memory", "us")
    });
    report.push(Row {
        best: plain.ours.best() * MICRO,
        median: plain.ours.median() * MICRO,
        reference: Some(plain.reference.best() * MICRO),
        ..Row::plain(CALLS, "sync_unix", "hipStreamSynchronize, unix socket", "us")
    });
    Ok(())
}

/// Calls that do not wait: the time in the calling thread.
fn posting(programs: &Programs, listen: &str, extent: Extent, report: &mut Report) -> Result<()> {
    for (variables, key, name) in [
        (&[][..], "launch_memory", "kernel<<<...>>>(...), shared memory"),
        (OVER_SOCKET, "launch_unix", "kernel<<<...>>>(...), unix socket"),
    ] {
        let mut program = programs.start_with(&programs.remote, listen, variables)?;
        let mut posting = Sample::default();
        program.query("storm 1000")?;
        for _ in 0..4 * extent.rounds {
            let [few, _] = program.query("storm 1000")?[..] else {
                bail!("`storm` did not reply with two numbers")
            };
            posting.push(few as f64 * 1e-9 / 1000.0);
        }
        program.finish()?;
        let aim = variables.is_empty().then_some(Aim::AtMost(0.15));
        report.push(Row { aim, ..Row::plain(CALLS, key, name, "us").timed(&posting, MICRO) });
    }
    Ok(())
}

/// Copies, which go from one process's memory to the other's where the system permits it.
fn copying(programs: &Programs, listen: &str, extent: Extent, report: &mut Report) -> Result<()> {
    let mut program = programs.start_on(&programs.remote, listen)?;
    let bytes = extent.largest_copy;
    for direction in ["upload", "download"] {
        let mut pair = Pair::default();
        program.seconds(&format!("{direction} {bytes}"))?;
        for _ in 0..extent.rounds {
            let raw = bytes as f64 / copy_speed(bytes as usize, 1);
            pair.push(program.seconds(&format!("{direction} {bytes}"))?, raw);
        }
        let speed = |seconds: f64| bytes as f64 / seconds * GIGA;
        report.push(Row {
            best: speed(pair.ours.best()),
            median: speed(pair.ours.median()),
            reference: Some(speed(pair.reference.best())),
            ratio: Some(1.0 / pair.ratio()),
            best_ratio: Some(1.0 / pair.best_ratio()),
            aim: Some(Aim::AtLeast(0.5)),
            ..Row::plain(
                COPIES,
                format!("{direction}_unix"),
                format!("{direction} of {} MiB", bytes >> 20),
                "GB/s",
            )
        });
    }
    program.finish().map(drop)
}
