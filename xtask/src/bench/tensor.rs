//! pyflame compared with NumPy, PyTorch and tinygrad: `bench/tensor.py` alternates it with each of the first two, and
//! `bench/tensor_operations.py` single operations with PyTorch's; this module evaluates the results.
//!
//! NumPy is from PyPI, with its own OpenBLAS. PyTorch is Debian's CPU-only build; it is incompatible with that NumPy, so it is
//! measured in a separate process, with pyflame. tinygrad runs a step of the same network, see [`emulated`].

mod emulated;
mod plot;

pub use plot::plot;

use super::machine::Machine;
use super::report::{Aim, Report, Row};
use super::sample::{Pair, Sample};
use super::{DEVICE, Extent, far_training};
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::pyflame;
use crate::repo::Repo;
use crate::step;
use crate::torch::Torch;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const MILLI: f64 = 1e3;
const MICRO: f64 = 1e6;

/// How a kind of measurement is judged.
#[derive(Clone, Copy)]
enum Judged {
    /// By the fraction of the reference's speed, at least this.
    Speed(f64),
    /// By the multiple of the reference's time, at most this.
    Time(f64),
    Not,
}

/// The name, unit and judgement of each kind of measurement.
const KINDS: &[(&str, &str, (&str, f64), Judged)] = &[
    ("matmul", "products on the CPU, as parts of the other's speed", ("ms", MILLI), Judged::Speed(0.9)),
    (
        "elementwise",
        "2048 x 1024 float32 on the CPU, as parts of the other's speed",
        ("ms", MILLI),
        Judged::Speed(1.0),
    ),
    (
        "overhead",
        "operations of four elements from Python, as parts of the other's time",
        ("us", MICRO),
        Judged::Time(1.0),
    ),
    (
        "operations",
        "operations and training steps on one CPU thread, as parts of PyTorch's speed",
        ("ms", MILLI),
        Judged::Speed(1.0),
    ),
    (
        "factorisations",
        "factorisations on one CPU thread, as parts of PyTorch's speed",
        ("ms", MILLI),
        Judged::Speed(0.5),
    ),
    ("memory", "memory of a training step, as multiples of PyTorch's", ("MB", 1.0), Judged::Time(1.0)),
    ("training", TRAINING, ("ms", MILLI), Judged::Not),
    ("far", "a training step with a worker 5 ms away", ("ms", MILLI), Judged::Not),
];
const TRAINING: &str = "training step: MLP 64-128-64-10, 64 rows";

/// The key of a step on the software GPU.
const STEP: &str = "tensor_rocm_step";

/// `package` is the folder that contains pyflame. A smoke run omits PyTorch and tinygrad, which are downloads of hundreds of
/// megabytes.
pub fn measure(
    repo: &Repo,
    built: &Built,
    package: &Path,
    extent: Extent,
    tinygrad: Option<&Path>,
) -> Result<Report> {
    let python = pyflame::environment(repo)?;
    let numpy = || {
        let mut command = pyflame::command(&python, built);
        command.env("PYTHONPATH", package);
        command
    };
    let mut report = Report::new(Machine::detect());
    let worker = LocalWorker::start(&built.remora, DEVICE, &repo.logs().join("bench-tensor-worker.log"))?;
    let rounds = if extent.is_smoke() { 1 } else { extent.rounds + 4 };
    let bench = |mut script: Command, what: &str, device: &str| {
        script.arg(repo.root.join("bench/tensor.py")).args([what, "--device", device]);
        script.arg("--rounds").arg(rounds.to_string());
        if extent.is_smoke() {
            script.arg("--smoke");
        }
        lines(script.env("REMORA_WORKER", worker.address().to_string()))
    };
    step::heading("measuring pyflame and NumPy");
    push(&mut report, &bench(numpy(), "numpy", "cpu")?, "cpu")?;
    let operations = |mut script: Command| {
        script.arg(repo.root.join("bench/tensor_operations.py")).arg("--rounds").arg(rounds.to_string());
        if extent.is_smoke() {
            script.arg("--smoke");
        }
        lines(&mut script)
    };
    if extent.is_smoke() {
        step::progress("skipped: PyTorch and tinygrad, which a smoke run does not download");
        push(&mut report, &operations(numpy())?, "cpu")?;
    } else {
        step::heading("measuring pyflame and PyTorch");
        let torch = Torch::unpack(repo)?;
        push(&mut report, &bench(torch.command(package, built)?, "torch", "cpu")?, "cpu")?;
        let fast = Torch::with_fast_products(repo)?;
        push(&mut report, &operations(fast.command(package, built)?)?, "cpu")?;
    }
    for device in ["cpu", "rocm"] {
        step::heading(&format!("measuring a training step on {device}"));
        push(&mut report, &bench(numpy(), "training", device)?, device)?;
    }
    far_training::measure(repo, built, &numpy, &worker, extent)?.into_iter().for_each(|row| report.push(row));
    if extent.is_smoke() {
        report.close();
        return Ok(report);
    }
    step::heading("measuring the same step in tinygrad's emulator");
    let ours = report.rows.iter().find(|row| row.key == STEP).map_or(f64::NAN, |row| row.best / MILLI);
    report.push(emulated::row(repo, extent, tinygrad, ours)?);
    report.close();
    Ok(report)
}

/// Returns the output of a measuring program.
fn lines(script: &mut Command) -> Result<String> {
    let output = script.output().context("cannot start the measuring program")?;
    if !output.status.success() {
        bail!("the measuring program failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn push(report: &mut Report, lines: &str, device: &str) -> Result<()> {
    for line in lines.lines() {
        report.push(row(line, device).with_context(|| format!("cannot parse the line `{line}`"))?);
    }
    Ok(())
}

pub fn row(line: &str, device: &str) -> Result<Row> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[kind, key, name, ours, reference] = fields.as_slice() else { bail!("expected five fields") };
    let &(_, group, unit, judged) =
        KINDS.iter().find(|(known, ..)| *known == kind).context("unknown kind of measurement")?;
    let numbers = |text: &str| -> Result<Vec<f64>> {
        text.split(',').filter(|one| !one.is_empty()).map(|one| Ok(one.parse()?)).collect()
    };
    let (ours, reference) = (numbers(ours)?, numbers(reference)?);
    let count = ["operations", "launches", "trips"].iter().any(|what| key.ends_with(what));
    let (unit, scale) = if count { ("", 1.0) } else { unit };
    let plain = Row::plain(group, format!("tensor_{device}_{key}"), name, unit);
    if reference.is_empty() {
        let mut sample = Sample::default();
        ours.into_iter().for_each(|one| sample.push(one));
        return Ok(plain.timed(&sample, scale));
    }
    let mut pair = Pair::default();
    ours.into_iter().zip(reference).for_each(|(a, b)| pair.push(a, b));
    let compared = plain.compared(&pair, scale);
    Ok(match judged {
        Judged::Speed(least) => Row {
            ratio: Some(1.0 / pair.ratio()),
            best_ratio: Some(1.0 / pair.best_ratio()),
            aim: Some(Aim::AtLeast(least)),
            ..compared
        },
        Judged::Time(most) => Row { aim: Some(Aim::AtMost(most)), ..compared },
        Judged::Not => compared,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_reference_is_judged_by_its_ratio() {
        let found = row("matmul\tmatmul_512\tfloat32 512^2\t2.0,4.0\t1.0,2.0", "cpu").unwrap();
        assert_eq!((found.ratio, found.is_met()), (Some(0.5), Some(false)));
        let found = row("overhead\teach\tx + y\t0.5,0.5\t1.0,1.0", "cpu").unwrap();
        assert_eq!((found.ratio, found.is_met()), (Some(0.5), Some(true)));
        let found = row("overhead\tremember\tx + y\t0.000001\t", "cpu").unwrap();
        assert_eq!((found.ratio, found.is_met()), (None, None));
        assert!((found.best - 1.0).abs() < 1e-9);
        let found = row("training\tlaunches\tlaunches\t13.0\t", "rocm").unwrap();
        assert_eq!((found.best, found.unit, found.key.as_str()), (13.0, "", "tensor_rocm_launches"));
        assert!(row("weather\ta\tb\t1\t", "cpu").is_err());
    }
}
