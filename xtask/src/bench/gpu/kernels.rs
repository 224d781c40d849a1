//! Thirteen kernels: the time of a launch by events, on both sides, and the results compared.

use super::site::{NATIVE, OURS, Site, ask};
use crate::bench::program::BenchProcess;
use crate::bench::report::{Aim, Report, Row};
use crate::bench::sample::Sample;
use crate::local_worker::LocalWorker;
use crate::step;
use anyhow::{Result, bail, ensure};

const GROUP: &str = "kernels through `remora run` over TCP, compared with nvcc -O2 of the same source; ratio = native time / ours";

/// Launches that are timed.
const LAUNCHES: u64 = 15;

/// A kernel to measure.
struct Kernel {
    name: &'static str,
    description: &'static str,
    /// Elements, edge or bodies, on a GPU.
    size: u64,
    /// The size at which results are compared with the processor's.
    checked: u64,
    /// Largest relative difference of the two sides' checksums. 0 where every rounding is determined.
    tolerance: f64,
    /// Least ratio.
    aim: f64,
}

const MI: u64 = 1 << 20;

const KERNELS: &[Kernel] = &[
    kernel("saxpy", "saxpy, 256 Mi elements", 256 * MI, 5000, 0.0),
    kernel("reduce", "sum of 256 Mi elements, shuffles", 256 * MI, 5000, 1e-5),
    kernel("compact", "compaction of 256 Mi elements, votes", 256 * MI, 5000, 1e-9),
    kernel("wavescan", "scan of each 64 elements (DPP), 256 Mi", 256 * MI, 5000, 0.0),
    kernel("wavesync", "lanes in lockstep through LDS, 256 Mi", 256 * MI, 5000, 0.0),
    kernel("stencil", "stencil with masked borders, 512^3", 512, 20, 1e-6),
    kernel("mandelbrot", "mandelbrot 4096, divergent", 4096, 32, 1e-3),
    kernel("nbody", "n-body, 65,536", 65536, 512, 1e-4),
    kernel("matmul", "matmul 4096, LDS tiles", 4096, 48, 1e-6),
    kernel("dmatmul", "f64 matmul 4096", 4096, 32, 1e-12),
    kernel("sgemm", "sgemm 4096, 8x8 a lane", 4096, 128, 1e-6),
    Kernel { aim: 0.7, ..kernel("hgemm", "f16 gemm 8192, MFMA", 8192, 128, 1e-6) },
    kernel("hgemm_wide", "f16 gemm 8192, MFMA, 128 sums a lane", 8192, 256, 1e-6),
];

const fn kernel(
    name: &'static str,
    description: &'static str,
    size: u64,
    checked: u64,
    tolerance: f64,
) -> Kernel {
    Kernel { name, description, size, checked, tolerance, aim: 0.6 }
}

pub fn measure(site: &Site, report: &mut Report, failures: &mut Vec<String>) -> Result<()> {
    let worker = site.worker("kernels", &[])?;
    let mut sides = Sides::start(site, &worker)?;
    let mut ratios = Vec::new();
    for kernel in KERNELS {
        match sides.measure(site, kernel) {
            Ok(row) => {
                if let Some(ratio) = row.ratio {
                    step::progress(&format!("{}: {ratio:.2}", kernel.name));
                    ratios.push(ratio);
                }
                report.push(row);
            }
            Err(error) => {
                step::progress(&format!("{} failed: {error:#}", kernel.name));
                failures.push(format!("{}: {error:#}", kernel.name));
                report.push(Row { aim: Some(Aim::AtLeast(kernel.aim)), ..blank(kernel) });
                // A fault ends the session; the next kernel gets a new one.
                sides = Sides::start(site, &worker)?;
            }
        }
    }
    if !ratios.is_empty() {
        let name = format!("geometric mean of {} of {} kernels", ratios.len(), KERNELS.len());
        report.push(Row {
            best: geometric_mean(&ratios),
            aim: Some(Aim::AtLeast(1.0)),
            ..Row::plain(GROUP, "kernels_mean", name, "")
        });
    }
    Ok(())
}

fn blank(kernel: &Kernel) -> Row {
    Row::plain(GROUP, format!("kernel_{}", kernel.name), kernel.description, "ms")
}

struct Sides {
    ours: BenchProcess,
    native: Option<BenchProcess>,
}

impl Sides {
    fn start(site: &Site, worker: &LocalWorker) -> Result<Sides> {
        let ours = site.ours("kernels", &worker.address().to_string(), &[])?;
        Ok(Sides { ours, native: site.native("kernels")? })
    }

    fn measure(&mut self, site: &Site, kernel: &Kernel) -> Result<Row> {
        // Few threads first: what is wrong there is wrong everywhere.
        let check = format!("check {} {}", kernel.name, kernel.checked);
        ask(&mut self.ours, OURS, &check)?;
        let size = site.sized(kernel.size, kernel.checked);
        let run = format!("run {} {size} {}", kernel.name, site.sized(LAUNCHES, 2));
        let ours = Run::parse(&ask(&mut self.ours, OURS, &run)?)?;
        let row = blank(kernel).timed(&ours.times, 1e3);
        let Some(native) = &mut self.native else { return Ok(row) };
        ask(native, NATIVE, &check)?;
        let native = Run::parse(&ask(native, NATIVE, &run)?)?;
        ours.same_results(&native, kernel.tolerance)?;
        Ok(Row {
            reference: Some(native.times.best() * 1e3),
            ratio: Some(native.times.median() / ours.times.median()),
            best_ratio: Some(native.times.best() / ours.times.best()),
            aim: Some(Aim::AtLeast(kernel.aim)),
            ..row
        })
    }
}

/// The reply to `run`: checksums of the results of one launch, and times of more launches.
struct Run {
    checksums: [f64; 2],
    times: Sample,
}

impl Run {
    fn parse(reply: &[u64]) -> Result<Run> {
        let [plain, placed, launches @ ..] = reply else {
            bail!("`run` replied with {} numbers, which lack the checksums", reply.len());
        };
        ensure!(!launches.is_empty(), "`run` replied without times");
        let mut times = Sample::default();
        for nanoseconds in launches {
            times.push(*nanoseconds as f64 * 1e-9);
        }
        Ok(Run { checksums: [f64::from_bits(*plain), f64::from_bits(*placed)], times })
    }

    fn same_results(&self, other: &Run, tolerance: f64) -> Result<()> {
        for (name, ours, native) in [("sum", 0), ("weighted sum", 1)]
            .map(|(name, index)| (name, self.checksums[index], other.checksums[index]))
        {
            ensure!(
                (ours - native).abs() <= tolerance * native.abs(),
                "the {name} of the results is {ours:e}, natively {native:e}: they differ by more than {tolerance:e}"
            );
        }
        Ok(())
    }
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}
