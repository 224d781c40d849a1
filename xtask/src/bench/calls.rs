//! Call benchmarks: waiting calls, posted calls, copies, object creation.

use super::affinity::{self, PinnedThread};
use super::peer::Peer;
use super::program::{BenchProcess, Counters, Programs};
use super::report::{Aim, Copies, Report, Row};
use super::sample::{Pair, Sample};
use super::{DEVICE, Extent};
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::step;
use anyhow::{Result, bail};

const MICRO: f64 = 1e6;
const GIGA: f64 = 1e-9;
/// Launches in one measurement: far fewer than the flow-control window, so that none waits for the device.
const LAUNCHES: u64 = 1000;
/// Objects created for counting round trips.
const THINGS: u64 = 200;

/// The group of the waiting calls.
pub const WAITING: &str = "call that waits for its reply, compared with raw TCP";

/// The copy sizes whose bandwidth has an aim.
const LARGE: &[u64] = &[64 << 20, 256 << 20];

pub fn measure(built: &Built, programs: &Programs, extent: Extent, report: &mut Report) -> Result<()> {
    let worker = LocalWorker::start(&built.remora, DEVICE, &programs.log("worker"))?;
    let bench = Bench { built, programs, worker: &worker, extent };
    step::progress("calls that wait, alternating with raw TCP");
    bench.waiting(report)?;
    step::progress("launches");
    bench.posting(report)?;
    step::progress("copies, alternating with raw TCP");
    bench.copying(report)?;
    step::progress("round trips");
    bench.making(report)
}

struct Bench<'a> {
    built: &'a Built,
    programs: &'a Programs,
    worker: &'a LocalWorker,
    extent: Extent,
}

impl Bench<'_> {
    fn start(&self) -> Result<BenchProcess> {
        self.programs.start(&self.programs.calls, self.worker)
    }

    /// Returns the counters of a program that executes these commands.
    fn counters(&self, commands: &[String]) -> Result<Counters> {
        let mut program = self.start()?;
        for command in commands {
            program.query(command)?;
        }
        program.finish()
    }

    /// The placement of two communicating processes changes their times several times over. So both pairs are pinned alike: both
    /// ends on one core, then each on its own.
    fn waiting(&self, report: &mut Report) -> Result<()> {
        for (call, name) in [("memory_info", "hipMemGetInfo"), ("synchronize", "hipStreamSynchronize")] {
            let (sent, received) = self.frame_sizes(call)?;
            for (far, cores) in [(0, "one core"), (1, "two cores")] {
                if far >= affinity::processors() {
                    continue;
                }
                let pair = self.in_turns(call, (sent, received), far)?;
                report.push(Row {
                    aim: Some(Aim::AtMost(1.3)),
                    ..Row::plain(
                        WAITING,
                        format!("{call}_{}", cores.replace(' ', "_")),
                        format!("{name}, {sent} bytes there, {received} back, {cores}"),
                        "us",
                    )
                    .compared(&pair, MICRO)
                });
            }
        }
        Ok(())
    }

    /// Measures waiting calls and raw exchanges alternately, from the first core to the core at `far`.
    fn in_turns(&self, call: &str, (sent, received): (u64, u64), far: usize) -> Result<Pair> {
        let there = PinnedThread::to(far..far + 1)?;
        let worker = LocalWorker::start(&self.built.remora, DEVICE, &self.programs.log("worker-calls"))?;
        let mut peer = Peer::start()?;
        drop(there);
        let _here = PinnedThread::to(0..1)?;
        let mut program = self.programs.start(&self.programs.calls, &worker)?;
        let count = self.extent.calls;
        let mut pair = Pair::default();
        program.seconds(&format!("{call} {count}"))?;
        for _ in 0..6 * self.extent.rounds {
            let reference = peer.echo(sent, received, count)? / count as f64;
            pair.push(program.seconds(&format!("{call} {count}"))? / count as f64, reference);
        }
        program.finish()?;
        Ok(pair)
    }

    /// Returns the bytes that one waiting call sends and receives, after checking that it takes one round trip.
    fn frame_sizes(&self, call: &str) -> Result<(u64, u64)> {
        const MORE: u64 = 1000;
        let few = self.counters(&[format!("{call} 100")])?;
        let many = self.counters(&[format!("{call} {}", 100 + MORE)])?;
        if many.round_trips - few.round_trips != MORE {
            bail!(
                "`{call}`: {MORE} calls took {} round trips, but this measurement needs a call that waits for the worker, \
                 one round trip each. If the client now answers it locally, measure another call.",
                many.round_trips - few.round_trips
            );
        }
        Ok(((many.sent - few.sent) / MORE, (many.received - few.received) / MORE))
    }

    fn posting(&self, report: &mut Report) -> Result<()> {
        let group = "launch, time in the calling thread";
        let mut program = self.start()?;
        let kinds = [
            ("launch", "hipLaunchKernel", Some(Aim::AtMost(0.5))),
            ("expression", "kernel<<<...>>>(...), three HIP calls", None),
        ];
        for (command, name, aim) in kinds {
            let mut sample = Sample::default();
            for _ in 0..10 * self.extent.rounds {
                sample.push(program.seconds(&format!("{command} {LAUNCHES}"))? / LAUNCHES as f64);
            }
            report.push(Row { aim, ..Row::plain(group, command, name, "us").timed(&sample, MICRO) });
        }
        let mut sample = Sample::default();
        for nanoseconds in program.query(&format!("lone {}", 10 * self.extent.rounds))? {
            sample.push(nanoseconds as f64 * 1e-9);
        }
        report.push(
            Row::plain(group, "lone", "first launch after a pause of 2 ms", "us").timed(&sample, MICRO),
        );
        program.finish().map(drop)
    }

    fn copying(&self, report: &mut Report) -> Result<()> {
        let mut program = self.start()?;
        let mut peer = Peer::start()?;
        let mut bytes = 4 << 10;
        while bytes <= self.extent.largest_copy {
            let count = ((16 << 20) / bytes).clamp(1, 1000);
            let total = (bytes * count) as f64;
            let (mut up, mut down) = (Pair::default(), Pair::default());
            // A warm-up for the page tables, not counted.
            program.seconds(&format!("upload {bytes} 1"))?;
            program.seconds(&format!("download {bytes} 1"))?;
            for _ in 0..2 * self.extent.rounds {
                let raw = peer.upload(bytes, count)?;
                up.push(program.seconds(&format!("upload {bytes} {count}"))?, raw);
                let raw = peer.download(bytes, count)?;
                down.push(program.seconds(&format!("download {bytes} {count}"))?, raw);
            }
            let speeds =
                |pair: &Pair| (total / pair.ours.best() * GIGA, total / pair.reference.best() * GIGA);
            report.copies.push(Copies { bytes, upload: speeds(&up), download: speeds(&down) });
            if LARGE.contains(&bytes) {
                for (direction, pair) in [("upload", &up), ("download", &down)] {
                    report.push(copy_row(direction, bytes, total, pair));
                }
            }
            bytes *= 4;
        }
        program.finish().map(drop)
    }

    fn making(&self, report: &mut Report) -> Result<()> {
        let code_object = self.programs.code_object.display().to_string();
        let trips = |command: &str, kind: &str, count: u64| -> Result<f64> {
            let base =
                self.counters(&["make nothing 1 -".to_owned(), format!("{command} {kind} 1 {code_object}")])?;
            let more = self.counters(&[
                "make nothing 1 -".to_owned(),
                format!("{command} {kind} {count} {code_object}"),
            ])?;
            Ok(more.round_trips.saturating_sub(base.round_trips) as f64 / (count - 1) as f64)
        };
        let kinds = [
            ("memory", "hipMalloc", Some("hipFree")),
            ("stream", "hipStreamCreate", Some("hipStreamDestroy")),
            ("event", "hipEventCreate", Some("hipEventDestroy")),
            ("module", "hipModuleLoad", Some("hipModuleUnload")),
            ("function", "hipModuleGetFunction", None),
        ];
        for (kind, make, unmake) in kinds {
            let made = trips("make", kind, THINGS)?;
            report.push(trips_row(make, made));
            if let Some(unmake) = unmake {
                report.push(trips_row(unmake, (trips("unmake", kind, THINGS)? - made).max(0.0)));
            }
        }
        // A completed stream stays completed until work is submitted to it: the client caches this and does not query the worker
        // again.
        let few = self.counters(&["query 1".to_owned()])?;
        let many = self.counters(&[format!("query {THINGS}")])?;
        let per_query = many.round_trips.saturating_sub(few.round_trips) as f64 / (THINGS - 1) as f64;
        report.push(trips_row("hipStreamQuery", per_query));
        Ok(())
    }
}

fn copy_row(direction: &str, bytes: u64, total: f64, pair: &Pair) -> Row {
    let name = match direction {
        "upload" => "host to device",
        _ => "device to host",
    };
    let mib = bytes >> 20;
    Row {
        best: total / pair.ours.best() * GIGA,
        median: total / pair.ours.median() * GIGA,
        reference: Some(total / pair.reference.best() * GIGA),
        // The pair holds times; these are speeds.
        ratio: Some(1.0 / pair.ratio()),
        best_ratio: Some(1.0 / pair.best_ratio()),
        aim: Some(Aim::AtLeast(0.9)),
        ..Row::plain(
            "copies, compared with raw TCP",
            format!("{direction}_{mib}_mib"),
            format!("{name}, {mib} MiB"),
            "GB/s",
        )
    }
}

fn trips_row(function: &str, trips: f64) -> Row {
    Row {
        best: trips,
        aim: Some(Aim::AtMost(0.0)),
        ..Row::plain("round trips per call", format!("trips_{function}"), function, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_takes_twice_as_long_has_half_the_speed() {
        let mut pair = Pair::default();
        pair.push(2.0, 1.0);
        let row = copy_row("upload", 64 << 20, 4e9, &pair);
        assert_eq!((row.best, row.reference, row.ratio), (2.0, Some(4.0), Some(0.5)));
        assert_eq!(row.is_met(), Some(false));
    }
}
