//! pyflame beside NumPy: `bench/tensor.py` runs both in turns, here is what that comes to.

use super::machine::Machine;
use super::report::{Aim, Report, Row};
use super::sample::{Pair, Sample};
use super::{DEVICE, Effort, far_training};
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::pyflame;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};

const MILLI: f64 = 1e3;
const MICRO: f64 = 1e6;

/// What a kind of measurement is called, and how many times the reference's time it may take.
const KINDS: &[(&str, &str, Option<f64>)] = &[
    // 0.9 of the reference's speed.
    ("matmul", "products on the CPU", Some(1.11)),
    ("elementwise", "2048 x 1024 float32 on the CPU", Some(1.0)),
    ("overhead", "single operations of four elements, from Python", Some(1.0)),
    ("training", "a training step: MLP 64-128-64-10, 64 rows", None),
    ("far", "a training step with a worker 5 ms away", None),
];

pub fn measure(repo: &Repo, built: &Built, effort: Effort) -> Result<Report> {
    let python = pyflame::install(repo)?;
    let mut report = Report::new(Machine::look());
    let worker = LocalWorker::start(&built.remora, DEVICE, &repo.logs().join("bench-tensor-worker.log"))?;
    for device in ["cpu", "rocm"] {
        step::say(&format!("measuring pyflame on {device}"));
        let mut script = pyflame::command(&python, built);
        script.arg(repo.root.join("bench/tensor.py")).args(["--device", device]);
        script.arg("--rounds").arg((effort.rounds + 4).to_string());
        let output = script.env("REMORA_WORKER", worker.address().to_string()).output();
        let output = output.context("cannot start the measurements")?;
        if !output.status.success() {
            bail!("pyflame's measurements failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            report.push(row(line, device).with_context(|| format!("a strange line: {line}"))?);
        }
    }
    far_training::measure(repo, built, &python, &worker)?.into_iter().for_each(|row| report.push(row));
    report.close();
    Ok(report)
}

pub fn row(line: &str, device: &str) -> Result<Row> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[kind, key, name, ours, reference] = fields.as_slice() else { bail!("five fields are expected") };
    let &(_, group, limit) =
        KINDS.iter().find(|(known, ..)| *known == kind).context("a kind that is not known")?;
    let numbers = |text: &str| -> Result<Vec<f64>> {
        text.split(',').filter(|one| !one.is_empty()).map(|one| Ok(one.parse()?)).collect()
    };
    let (ours, reference) = (numbers(ours)?, numbers(reference)?);
    let key = format!("tensor_{device}_{key}");
    let count = ["operations", "launches", "trips"].iter().any(|what| key.ends_with(what));
    let (unit, scale) = match kind {
        _ if count => ("", 1.0),
        "overhead" => ("us", MICRO),
        _ => ("ms", MILLI),
    };
    let plain = Row::plain(group, key, format!("{name}, {device}"), unit);
    if reference.is_empty() {
        let mut sample = Sample::default();
        ours.into_iter().for_each(|one| sample.push(one));
        return Ok(Row { best: sample.best() * scale, median: sample.median() * scale, ..plain });
    }
    let mut pair = Pair::default();
    ours.into_iter().zip(reference).for_each(|(a, b)| pair.push(a, b));
    Ok(Row { aim: limit.map(Aim::AtMost), ..plain.compared(&pair, scale) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_reference_is_judged_by_its_ratio() {
        let found = row("matmul\tmatmul_512\tfloat32 512^2\t2.0,4.0\t1.0,2.0", "cpu").unwrap();
        assert_eq!((found.ratio, found.is_met()), (Some(2.0), Some(false)));
        let found = row("overhead\tremember\tx + y\t0.000001\t", "cpu").unwrap();
        assert_eq!((found.ratio, found.is_met()), (None, None));
        assert!((found.best - 1.0).abs() < 1e-9);
        assert!(row("weather\ta\tb\t1\t", "cpu").is_err());
    }
}
