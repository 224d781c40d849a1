//! Kernels: how fast the software GPU computes, on one core and on all.
//!
//! On one core speeds are per second of processor time, on all of them per second of the clock.

use super::affinity::{self, Confined};
use super::cpu_time::Sessions;
use super::program::{Asked, Programs};
use super::report::{Aim, Report, Row};
use super::sample::Sample;
use super::{DEVICE, Effort};
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};

/// Headings of the report.
pub const ONE_CORE: &str = "kernels, per second of one core";
const ALL_CORES: &str = "kernels, all cores";

/// Waves in a block of the multiply-add kernels.
const WAVES: u64 = 4;

/// A kernel to measure.
struct Kernel {
    key: &'static str,
    name: &'static str,
    unit: &'static str,
    /// Whether work grows with the cores, by way of the blocks.
    blocks: Option<u64>,
    /// Iterations, elements, edge of a matrix or launches.
    size: u64,
    /// Units of work, in `unit` times seconds, of one run of `size` in `blocks`.
    work: fn(size: u64, blocks: u64, turn: u64) -> f64,
    /// Per core.
    aim: Option<f64>,
}

const KERNELS: &[Kernel] = &[
    Kernel {
        key: "fma_loop",
        name: "multiply-add loop",
        unit: "M instr/s",
        blocks: Some(8),
        size: 16384,
        work: |size, blocks, turn| (size * blocks * WAVES * turn) as f64 * 1e-6,
        aim: Some(60.0),
    },
    Kernel {
        key: "packed_fma_loop",
        name: "packed multiply-add loop",
        unit: "M instr/s",
        blocks: Some(8),
        size: 16384,
        work: |size, blocks, turn| (size * blocks * WAVES * turn) as f64 * 1e-6,
        aim: None,
    },
    Kernel {
        key: "saxpy",
        name: "saxpy, 8 M elements",
        unit: "GB/s",
        blocks: None,
        size: 8 << 20,
        work: |size, _, _| (12 * size) as f64 * 1e-9,
        aim: Some(1.5),
    },
    Kernel {
        key: "matmul",
        name: "matmul in local memory, 512",
        unit: "GFLOP/s",
        blocks: None,
        size: 512,
        work: |size, _, _| 2.0 * (size as f64).powi(3) * 1e-9,
        aim: Some(1.2),
    },
    Kernel {
        key: "mfma_half",
        name: "matrix core, f16 32x32x8",
        unit: "GFLOP/s",
        blocks: Some(16),
        size: 32768,
        work: |size, blocks, _| (size * blocks * 2 * 32 * 32 * 8) as f64 * 1e-9,
        aim: Some(15.0),
    },
    Kernel {
        key: "mfma_float",
        name: "matrix core, f32 16x16x4",
        unit: "GFLOP/s",
        blocks: Some(16),
        size: 131_072,
        work: |size, blocks, _| (size * blocks * 2 * 16 * 16 * 4) as f64 * 1e-9,
        aim: None,
    },
    Kernel {
        key: "empty",
        name: "empty launches",
        unit: "k/s",
        blocks: None,
        size: 10_000,
        work: |size, _, _| size as f64 * 1e-3,
        aim: Some(10.0),
    },
];

pub fn measure(
    repo: &Repo,
    built: &Built,
    programs: &Programs,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let all = affinity::processors();
    let one = run(repo, built, programs, effort, 1)?;
    for (kernel, sample) in KERNELS.iter().zip(&one) {
        let row = Row::plain(ONE_CORE, kernel.key, kernel.name, kernel.unit);
        report.push(Row { aim: kernel.aim.map(Aim::AtLeast), ..sample.fill(row) });
    }
    if all == 1 {
        return Ok(());
    }
    let many = run(repo, built, programs, effort, all)?;
    for ((kernel, one), many) in KERNELS.iter().zip(&one).zip(&many) {
        let name = format!("{}, {all} cores", kernel.name);
        let row = Row::plain(ALL_CORES, format!("{}_all", kernel.key), name, kernel.unit);
        report.push(many.fill(row));
        if kernel.key == "fma_loop" {
            report.push(Row {
                best: many.best / (one.best * all as f64),
                median: many.median / (one.median * all as f64),
                aim: Some(Aim::AtLeast(0.9)),
                ..Row::plain(ALL_CORES, "scaling", format!("... as part of {all} times one"), "")
            });
        }
    }
    Ok(())
}

/// Speeds, in the unit of the kernel.
#[derive(Debug, Clone, Copy)]
struct Speed {
    best: f64,
    median: f64,
}

impl Speed {
    fn fill(self, row: Row) -> Row {
        Row { best: self.best, median: self.median, ..row }
    }
}

/// All kernels, on a worker that has `cores` processors.
fn run(repo: &Repo, built: &Built, programs: &Programs, effort: Effort, cores: usize) -> Result<Vec<Speed>> {
    let confined = Confined::to(cores)?;
    let log = repo.logs().join(format!("bench-worker-{cores}.log"));
    let worker = LocalWorker::start(&built.remora, DEVICE, &log)?;
    drop(confined);
    let mut program = programs.start(&programs.kernels, &worker)?;
    program.ask("check").context("the kernels compute something wrong")?;
    let mut speeds = Vec::new();
    for kernel in KERNELS {
        let speed = one(&mut program, programs, effort, cores, kernel)?;
        step::detail(&format!("{} on {cores}: {:.2} {}", kernel.name, speed.best, kernel.unit));
        speeds.push(speed);
    }
    program.finish()?;
    Ok(speeds)
}

fn one(
    program: &mut Asked,
    programs: &Programs,
    effort: Effort,
    cores: usize,
    kernel: &Kernel,
) -> Result<Speed> {
    let turn = programs.turns.get(kernel.key).copied().unwrap_or(0);
    // A matrix is already small, and its edge is no measure of its work.
    let size = if kernel.key == "matmul" { kernel.size } else { kernel.size / effort.lightness };
    let blocks = kernel.blocks.unwrap_or(0) * cores as u64;
    let command = match kernel.blocks {
        Some(_) => format!("{} {size} {blocks}", kernel.key),
        None => format!("{} {size}", kernel.key),
    };
    let mut sample = Sample::default();
    program.seconds(&command)?;
    let sessions = Sessions::find();
    for _ in 0..effort.rounds {
        let before = sessions.seconds();
        let clock = program.seconds(&command)?;
        sample.push(if cores == 1 { sessions.seconds() - before } else { clock });
    }
    let work = (kernel.work)(size, blocks, turn);
    Ok(Speed { best: work / sample.best(), median: work / sample.median() })
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
