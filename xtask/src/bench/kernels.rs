//! Kernel benchmarks: the speed of the software GPU on one core and on all.
//!
//! Other load on the machine must not count. On one core, speeds are per second of CPU time. On all cores, they are by elapsed
//! time less the time that the busiest thread waited for a CPU, alternating with one core.

use super::affinity::{self, PinnedThread};
use super::cpu_time::Sessions;
use super::program::{BenchProcess, Programs};
use super::report::{Aim, Report, Row};
use super::sample::{Pair, Sample};
use super::{DEVICE, Extent};
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::step;
use anyhow::{Context, Result};
use std::process::Command;

/// Groups of the report.
pub const ONE_CORE: &str = "kernels, per second of one core";
const ALL_CORES: &str = "kernels on all cores, compared with a worker on one core";

/// Aims of the software GPU, as fractions of the speed of the same loop in native code.
const NATIVE: &str = "kernels on one core, compared with the same loop in C++";

/// The kernel that does nothing.
pub const EMPTY: &str = "empty";

/// Required parallel efficiency of every additional core.
const EFFICIENCY: f64 = 0.9;

/// Wavefronts in a block of the multiply-add kernels.
const WAVES: u64 = 4;

/// A kernel to measure.
pub(super) struct Kernel {
    pub key: &'static str,
    pub name: &'static str,
    unit: &'static str,
    /// The number of blocks per core, if the work grows with the cores.
    pub blocks: Option<u64>,
    /// Iterations, elements, edge of a matrix or launches.
    size: u64,
    /// Units of work, in `unit` times seconds, of one run of `size` in `blocks`.
    work: fn(size: u64, blocks: u64, turn: u64) -> f64,
    /// Measured by elapsed time, because waiting counts as much as computing.
    by_clock: bool,
    /// The aim per core.
    aim: Option<f64>,
    /// Whether it must become faster with every core.
    scales: bool,
    /// The same loop in native code.
    pub twin: Option<Twin>,
}

/// The native counterpart of a kernel: its loop in `bench/native.cpp`.
#[derive(Clone, Copy)]
pub(super) struct Twin {
    pub unit: &'static str,
    /// Units of work, in `unit` times seconds.
    pub work: fn(size: u64, blocks: u64) -> f64,
    /// The required fraction of the native speed.
    aim: Option<f64>,
}

pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        key: "fma_loop",
        name: "multiply-add loop",
        unit: "M instr/s",
        blocks: Some(8),
        size: 16384,
        work: |size, blocks, turn| (size * blocks * WAVES * turn) as f64 * 1e-6,
        by_clock: false,
        aim: Some(60.0),
        scales: true,
        twin: Some(Twin {
            unit: "GFLOP/s",
            work: |size, blocks| (size * blocks * 256 * 32 * 2) as f64 * 1e-9,
            aim: Some(1.0 / 4.0),
        }),
    },
    Kernel {
        key: "packed_fma_loop",
        name: "packed multiply-add loop",
        unit: "M instr/s",
        blocks: Some(8),
        size: 16384,
        work: |size, blocks, turn| (size * blocks * WAVES * turn) as f64 * 1e-6,
        by_clock: false,
        aim: None,
        scales: true,
        twin: None,
    },
    Kernel {
        key: "saxpy",
        name: "saxpy, 8 M elements",
        unit: "GB/s",
        blocks: None,
        size: 8 << 20,
        work: |size, _, _| (12 * size) as f64 * 1e-9,
        by_clock: false,
        aim: Some(1.5),
        scales: false,
        twin: Some(Twin { unit: "GB/s", work: |size, _| (12 * size) as f64 * 1e-9, aim: Some(1.0 / 3.0) }),
    },
    Kernel {
        key: "matmul",
        name: "matmul in local memory, 512",
        unit: "GFLOP/s",
        blocks: None,
        size: 512,
        work: |size, _, _| 2.0 * (size as f64).powi(3) * 1e-9,
        by_clock: false,
        aim: Some(3.0),
        scales: true,
        twin: Some(Twin { unit: "GFLOP/s", work: |size, _| 2.0 * (size as f64).powi(3) * 1e-9, aim: None }),
    },
    Kernel {
        key: "nbody",
        name: "n-body, 8192 bodies",
        unit: "GFLOP/s",
        blocks: None,
        size: 8192,
        work: |size, _, _| 20.0 * (size as f64).powi(2) * 1e-9,
        by_clock: false,
        aim: None,
        scales: true,
        twin: Some(Twin {
            unit: "GFLOP/s",
            work: |size, _| 20.0 * (size as f64).powi(2) * 1e-9,
            aim: Some(1.0 / 6.0),
        }),
    },
    Kernel {
        key: "mfma_half",
        name: "matrix core, f16 32x32x8",
        unit: "GFLOP/s",
        blocks: Some(16),
        size: 32768,
        work: |size, blocks, _| (size * blocks * 2 * 32 * 32 * 8) as f64 * 1e-9,
        by_clock: false,
        aim: Some(25.0),
        scales: true,
        twin: None,
    },
    Kernel {
        key: "mfma_float",
        name: "matrix core, f32 16x16x4",
        unit: "GFLOP/s",
        blocks: Some(16),
        size: 131_072,
        work: |size, blocks, _| (size * blocks * 2 * 16 * 16 * 4) as f64 * 1e-9,
        by_clock: false,
        aim: None,
        scales: true,
        twin: None,
    },
    Kernel {
        key: EMPTY,
        name: "empty launches",
        unit: "k/s",
        blocks: None,
        size: 10_000,
        work: |size, _, _| size as f64 * 1e-3,
        by_clock: true,
        aim: Some(10.0),
        scales: false,
        twin: None,
    },
];

impl Kernel {
    /// The command that runs it on `cores`.
    pub fn command(&self, size: u64, cores: u64) -> String {
        match self.blocks {
            Some(blocks) => format!("{} {size} {}", self.key, blocks * cores),
            None => format!("{} {size}", self.key),
        }
    }

    /// The size for this run.
    pub fn size(&self, extent: Extent) -> u64 {
        // The work of these two grows faster than their size, which must stay a multiple of their tile size.
        match self.key {
            "matmul" | "nbody" if extent.is_smoke() => self.size / 8,
            "matmul" | "nbody" => self.size,
            _ => self.size / extent.work_divisor,
        }
    }

    /// Units of work of one run on `cores`.
    fn work(&self, size: u64, cores: u64, turn: u64) -> f64 {
        (self.work)(size, self.blocks.unwrap_or(0) * cores, turn)
    }
}

pub fn measure(built: &Built, programs: &Programs, extent: Extent, report: &mut Report) -> Result<()> {
    let all = affinity::processors();
    let mut one = Device::start(built, programs, 1, "", &[])?;
    // Both workers exist at the same time, so that their measurements can alternate.
    let mut many = if all > 1 { Some(Device::start(built, programs, all, "", &[])?) } else { None };
    let mut native = programs.start_native(&programs.native)?;
    let mut on_all = Vec::new();
    let mut against_native = Vec::new();
    for kernel in KERNELS {
        let turn = programs.turns.get(kernel.key).copied().unwrap_or(0);
        let size = kernel.size(extent);
        let mut alone = Sample::default();
        let mut turns = Pair::default();
        let mut native_turns = Pair::default();
        one.run(kernel, size)?;
        for _ in 0..extent.rounds {
            let run = one.run(kernel, size)?;
            alone.push(if kernel.by_clock { run.clock } else { run.processor });
            if kernel.twin.is_some() {
                native_turns.push(run.processor, native.seconds(&kernel.command(size, 1))?);
            }
            if let Some(many) = &mut many {
                turns.push(many.run(kernel, size)?.clock / many.growth(kernel), run.clock);
            }
        }
        let work = kernel.work(size, 1, turn);
        let speed = |seconds: f64| work / seconds;
        let row = Row {
            best: speed(alone.best()),
            median: speed(alone.median()),
            aim: kernel.aim.map(Aim::AtLeast),
            ..Row::plain(ONE_CORE, kernel.key, kernel.name, kernel.unit)
        };
        step::progress(&format!("{}: {:.2} {}", kernel.name, row.best, kernel.unit));
        report.push(row);
        if let Some(twin) = &kernel.twin {
            let work = (twin.work)(size, kernel.blocks.unwrap_or(0));
            against_native.push(Row {
                best: work / native_turns.ours.best(),
                median: work / native_turns.ours.median(),
                reference: Some(work / native_turns.reference.best()),
                ratio: Some(1.0 / native_turns.best_ratio()),
                aim: twin.aim.map(Aim::AtLeast),
                ..Row::plain(NATIVE, format!("{}_native", kernel.key), kernel.name, twin.unit)
            });
        }
        on_all.push(Row {
            best: speed(turns.ours.best()),
            median: speed(turns.ours.median()),
            reference: Some(speed(turns.reference.best())),
            // The ratio of the best times: unlike an exchange of bytes, a kernel runs long enough to be disturbed individually.
            ratio: Some(1.0 / turns.best_ratio()),
            aim: kernel.scales.then_some(Aim::AtLeast(EFFICIENCY * all as f64)),
            ..Row::plain(
                ALL_CORES,
                format!("{}_all", kernel.key),
                format!("{}, {all} cores", kernel.name),
                kernel.unit,
            )
        });
    }
    one.finish()?;
    against_native.into_iter().for_each(|row| report.push(row));
    if let Some(many) = many {
        on_all.into_iter().for_each(|row| report.push(row));
        many.finish()?;
    }
    Ok(())
}

/// A worker restricted to some CPUs, and a program that uses it.
pub(super) struct Device {
    cores: usize,
    program: BenchProcess,
    sessions: Sessions,
    // After the program, so that the program is dropped first.
    _worker: LocalWorker,
}

/// The duration of a kernel.
pub(super) struct Run {
    /// Elapsed time from its launch to its end, less the time that the busiest thread waited for a CPU.
    clock: f64,
    /// CPU time.
    pub processor: f64,
}

impl Device {
    /// `name` distinguishes it from others with as many cores; `variables` are set in the worker's environment.
    pub fn start(
        built: &Built,
        programs: &Programs,
        cores: usize,
        name: &str,
        variables: &[(&str, &str)],
    ) -> Result<Device> {
        let others = Sessions::find();
        let confined = PinnedThread::to(0..cores)?;
        let log = programs.log(&format!("worker-{cores}{name}"));
        let mut remora = Command::new(&built.remora);
        remora.envs(variables.iter().copied());
        let worker = LocalWorker::start_with(remora, DEVICE, &["--no-upload-cache"], &log)?;
        drop(confined);
        let mut program = programs.start(&programs.kernels, &worker)?;
        program.query("check").context("the kernels computed wrong results")?;
        Ok(Device { cores, program, sessions: Sessions::find().without(&others), _worker: worker })
    }

    pub fn run(&mut self, kernel: &Kernel, size: u64) -> Result<Run> {
        let command = kernel.command(size, self.cores as u64);
        let before = self.sessions.look();
        let clock = self.program.seconds(&command)?;
        let after = self.sessions.look();
        let undisturbed = after.undisturbed_since(&before, clock);
        Ok(Run {
            clock: if kernel.by_clock { clock } else { undisturbed },
            processor: after.ran_since(&before),
        })
    }

    /// The multiple of one core's work that a run does.
    fn growth(&self, kernel: &Kernel) -> f64 {
        if kernel.blocks.is_some() { self.cores as f64 } else { 1.0 }
    }

    pub fn finish(self) -> Result<()> {
        self.program.finish().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_in_the_unit_of_the_kernel() {
        let work = |key: &str, size, blocks, turn| {
            (KERNELS.iter().find(|kernel| kernel.key == key).unwrap().work)(size, blocks, turn)
        };
        assert_eq!(work("fma_loop", 1000, 10, 25), 1.0);
        assert_eq!(work("matmul", 1000, 0, 0), 2.0);
        assert!((work("mfma_half", 1, 1, 0) - 16384e-9).abs() < 1e-15);
        assert_eq!(work("empty", 2000, 0, 0), 2.0);
    }
}
