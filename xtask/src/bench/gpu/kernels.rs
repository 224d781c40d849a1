//! Thirteen kernels: the time of a launch by events, on both sides, and the results compared.

use super::site::{NATIVE, OURS, Site, ask};
use crate::bench::program::BenchProcess;
use crate::bench::report::{Aim, Report, Row};
use crate::bench::sample::Sample;
use crate::local_worker::LocalWorker;
use crate::step;
use anyhow::{Result, anyhow, bail, ensure};
use std::time::{Duration, Instant};

const GROUP: &str = "kernels through `remora run` over TCP, compared with nvcc -O2 of the same source; ratio = native time / ours";

/// Times in one measurement.
const TIMES: u64 = 8;
/// Measurements, in turn with the native side's.
const ROUNDS: u64 = 3;

/// Time after which no further kernel is measured: a GPU machine's time is limited.
const PART_LIMIT: Duration = Duration::from_secs(100);

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
    Kernel { aim: 0.7, ..kernel("hgemm", "f16 gemm 8192, MFMA", 8192, 128, 1e-4) },
    kernel("hgemm_wide", "f16 gemm 8192, MFMA, 128 sums a lane", 8192, 256, 1e-4),
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
    let (mut worker, started) = (site.worker("kernels", &[])?, Instant::now());
    let mut ratios = Vec::new();
    for kernel in KERNELS {
        let measured = match started.elapsed() < PART_LIMIT {
            // New programs for every kernel: a fault ends its session only.
            true => Sides::start(site, &worker).and_then(|mut sides| sides.measure(site, kernel)),
            false => Err(anyhow!("not measured: the kernels before took more than {PART_LIMIT:?}")),
        };
        match measured {
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
                worker = site.worker("kernels-again", &[])?;
            }
        }
    }
    if !ratios.is_empty() {
        let name = format!("geometric mean of {} of {} kernels", ratios.len(), KERNELS.len());
        report.push(Row {
            best: geometric_mean(&ratios),
            // A mean without the kernels that failed is none of the aim's.
            aim: (ratios.len() == KERNELS.len()).then_some(Aim::AtLeast(1.0)),
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
        let check = format!("check {} {}", kernel.name, kernel.checked);
        ask(&mut self.ours, OURS, &check)?;
        let size = site.sized(kernel.size, kernel.checked);
        let count = site.sized(TIMES, 2);
        let (run, again) = (format!("run {} {size} {count}", kernel.name), format!("again {count}"));
        let mut ours = Run::parse(&ask(&mut self.ours, OURS, &run)?)?;
        let Some(program) = &mut self.native else { return Ok(blank(kernel).timed(&ours.times, 1e3)) };
        ask(program, NATIVE, &check)?;
        let mut native = Run::parse(&ask(program, NATIVE, &run)?)?;
        ours.same_results(&native, kernel.tolerance)?;
        for _ in 1..ROUNDS {
            ours.more(&ask(&mut self.ours, OURS, &again)?);
            native.more(&ask(program, NATIVE, &again)?);
        }
        Ok(Row {
            reference: Some(native.times.best() * 1e3),
            ratio: Some(native.times.median() / ours.times.median()),
            best_ratio: Some(native.times.best() / ours.times.best()),
            aim: Some(Aim::AtLeast(kernel.aim)),
            ..blank(kernel).timed(&ours.times, 1e3)
        })
    }
}

/// The reply to `run`: checksums of the results of one launch, and times of a launch.
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
        let checksums = [f64::from_bits(*plain), f64::from_bits(*placed)];
        let mut run = Run { checksums, times: Sample::default() };
        run.more(launches);
        Ok(run)
    }

    /// Adds times in nanoseconds.
    fn more(&mut self, times: &[u64]) {
        times.iter().for_each(|nanoseconds| self.times.push(*nanoseconds as f64 * 1e-9));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(plain: f64, placed: f64) -> Run {
        Run::parse(&[plain.to_bits(), placed.to_bits(), 1000]).unwrap()
    }

    #[test]
    fn results_that_differ_beyond_the_tolerance_are_refused() {
        assert!(reply(100.0, 7.0).same_results(&reply(100.0, 7.0), 0.0).is_ok());
        assert!(reply(100.0, 7.0).same_results(&reply(100.01, 7.0), 1e-3).is_ok());
        assert!(reply(100.0, 7.0).same_results(&reply(101.0, 7.0), 1e-3).is_err());
        assert!(reply(100.0, 7.0).same_results(&reply(100.0, 7.1), 1e-3).is_err());
        assert!(reply(f64::NAN, 7.0).same_results(&reply(100.0, 7.0), 1e-3).is_err());
    }

    #[test]
    fn a_reply_without_times_is_an_error() {
        assert!(Run::parse(&[1, 2]).is_err());
        assert!(Run::parse(&[1]).is_err());
    }

    #[test]
    fn twice_and_half_are_one_in_the_geometric_mean() {
        assert!((geometric_mean(&[2.0, 0.5]) - 1.0).abs() < 1e-12);
    }
}
