//! Kernels as CPUs without AVX-512 run them: as native code and as micro-ops, compared with C++ for the same CPUs.
//!
//! Measured alternately, in CPU time of one core, on this CPU with AVX-512 disabled.

use super::Extent;
use super::kernels::{Device, KERNELS};
use super::program::Programs;
use super::report::{Report, Row};
use super::sample::{Pair, Sample};
use crate::build::Built;
use crate::step;
use anyhow::Result;

/// Groups of the report.
const NATIVE: &str =
    "kernels on one core without AVX-512, compared with the same loop in C++ without AVX-512";
const MICRO_OPS: &str = "kernels on one core without AVX-512, compared with micro-ops only";

const LEVEL: (&str, &str) = ("REMORA_LEVEL", "v3");

pub fn measure(built: &Built, programs: &Programs, extent: Extent, report: &mut Report) -> Result<()> {
    let mut device = Device::start(built, programs, 1, "-v3", &[LEVEL])?;
    let mut micro_ops = Device::start(built, programs, 1, "-v3-micro-ops", &[LEVEL, ("REMORA_NATIVE", "0")])?;
    let mut native = programs.start_native(&programs.native_v3)?;
    let mut against_micro_ops = Vec::new();
    for kernel in KERNELS {
        let Some(twin) = &kernel.twin else { continue };
        let size = kernel.size(extent);
        let (mut turns, mut slow) = (Pair::default(), Sample::default());
        device.run(kernel, size)?;
        for _ in 0..extent.rounds {
            let ours = device.run(kernel, size)?.processor;
            turns.push(ours, native.seconds(&kernel.command(size, 1))?);
            slow.push(micro_ops.run(kernel, size)?.processor);
        }
        let work = (twin.work)(size, kernel.blocks.unwrap_or(0));
        let row = Row {
            best: work / turns.ours.best(),
            median: work / turns.ours.median(),
            reference: Some(work / turns.reference.best()),
            ratio: Some(1.0 / turns.best_ratio()),
            ..Row::plain(NATIVE, format!("{}_v3_native", kernel.key), kernel.name, twin.unit)
        };
        step::progress(&format!("{} without AVX-512: {:.2} {}", kernel.name, row.best, twin.unit));
        against_micro_ops.push(Row {
            reference: Some(work / slow.best()),
            ratio: Some(slow.best() / turns.ours.best()),
            group: MICRO_OPS,
            key: format!("{}_v3_micro_ops", kernel.key),
            ..row.clone()
        });
        report.push(row);
    }
    against_micro_ops.into_iter().for_each(|row| report.push(row));
    device.finish()?;
    micro_ops.finish()
}
