//! Training steps of pyflame on the device `rocm`, beside the same steps of PyTorch on the same card.

use super::site::Site;
use crate::bench::report::{Report, Row};
use crate::bench::sample::Sample;
use crate::examples::checked;
use crate::pyflame;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;

const GROUP: &str = "training with pyflame; reference: PyTorch on the same card; ratio = ours / PyTorch's";
const MILLI: f64 = 1e3;
const SCRIPT: &str = "training.py";

/// The largest difference of the last losses, relative to PyTorch's.
const TOLERANCE: f64 = 0.02;

/// The models: the script's name for it, and a description.
const MODELS: [(&str, &str); 2] = [
    ("gpt", "GPT step, 6 layers of 384, 8 sequences of 256, float32, AdamW"),
    ("digits", "digits: step of an MLP 64-128-64-10, 64 rows, Adam"),
];

/// What the script prints.
#[derive(Debug, Deserialize)]
struct Trained {
    /// Seconds of each step after the first ones.
    seconds: Vec<f64>,
    losses: Vec<f64>,
    /// Of the digits' test set.
    accuracy: Option<f64>,
}

/// Collects the package, the script and the digits in a folder, for a machine without Rust.
pub fn collect(repo: &Repo, folder: &Path) -> Result<()> {
    // The module was built with the rest of the bundle.
    let package = pyflame::package(repo)?;
    let python = pyflame::environment(repo)?;
    checked(Command::new("cp").arg("--recursive").arg(package.join("pyflame")).arg(folder))?;
    checked(Command::new("strip").arg("--strip-unneeded").arg(folder.join("pyflame/_pyflame.abi3.so")))?;
    let script = repo.root.join("bench").join(SCRIPT);
    fs::copy(&script, folder.join(SCRIPT)).with_context(|| format!("cannot copy {}", script.display()))?;
    let mut data = Command::new(python);
    checked(data.arg(&script).arg("--save-digits").arg(folder.join("digits.npz")))
}

/// Without the bundle's part, nothing is measured.
pub fn measure(site: &Site, report: &mut Report, failures: &mut Vec<String>) -> Result<()> {
    let Some(folder) = site.pyflame() else {
        step::progress("left out: the bundle has no pyflame (--with pyflame)");
        return Ok(());
    };
    let worker = site.worker("training", &[])?;
    for (model, name) in MODELS {
        let train = |side: &str| -> Result<Trained> {
            let mut python = Command::new("python3");
            python.arg(folder.join(SCRIPT)).args(["--side", side, "--model", model]);
            python.arg("--digits").arg(folder.join("digits.npz"));
            python.env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1");
            python.env("LD_LIBRARY_PATH", site.lib()).env("REMORA_WORKER", worker.address().to_string());
            let text = step::output(&mut python).with_context(|| format!("{model} by {side}"))?;
            let line = text.lines().last().unwrap_or_default();
            serde_json::from_str(line).with_context(|| format!("{model} by {side} printed `{line}`"))
        };
        match train("pyflame").and_then(|ours| Ok((ours, train("torch")?))) {
            Ok((ours, theirs)) => {
                rows(model, name, &ours, &theirs)?.into_iter().for_each(|row| report.push(row));
                if let Some(complaint) = differs(&ours, &theirs) {
                    failures.push(format!("{model}: {complaint}"));
                }
            }
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    Ok(())
}

fn rows(model: &str, name: &str, ours: &Trained, theirs: &Trained) -> Result<Vec<Row>> {
    let sample = |trained: &Trained| {
        let mut sample = Sample::default();
        trained.seconds.iter().for_each(|seconds| sample.push(*seconds));
        sample
    };
    let (Some(loss), Some(reference)) = (ours.losses.last(), theirs.losses.last()) else {
        bail!("{model}: there is no loss");
    };
    let (here, there) = (sample(ours), sample(theirs));
    let mut rows = vec![
        Row {
            reference: Some(there.best() * MILLI),
            ratio: Some(here.median() / there.median()),
            best_ratio: Some(here.best() / there.best()),
            ..Row::plain(GROUP, format!("training_{model}"), name, "ms").timed(&here, MILLI)
        },
        Row {
            best: *loss,
            reference: Some(*reference),
            ratio: Some(loss / reference),
            ..Row::plain(GROUP, format!("training_{model}_loss"), loss_name(model, ours), "")
        },
    ];
    if let (Some(here), Some(there)) = (ours.accuracy, theirs.accuracy) {
        rows.push(Row {
            best: here * 100.0,
            reference: Some(there * 100.0),
            ..Row::plain(GROUP, format!("training_{model}_accuracy"), "digits: accuracy on the test set", "%")
        });
    }
    Ok(rows)
}

fn loss_name(model: &str, trained: &Trained) -> String {
    let first = trained.losses.first().copied().unwrap_or(f64::NAN);
    format!("{model}: loss of step {} (the first step's is {first:.3})", trained.losses.len())
}

/// Why the losses are not the same training.
fn differs(ours: &Trained, theirs: &Trained) -> Option<String> {
    let pairs = ours.losses.iter().zip(&theirs.losses);
    // Small losses of a training that has converged are compared with a part of the first loss.
    let least = theirs.losses.first().copied().unwrap_or(1.0) * 0.05;
    let far = |(a, b): &(&f64, &f64)| {
        let apart = (*a - *b).abs() / b.abs().max(least);
        apart.is_nan() || apart > TOLERANCE
    };
    let (step, (a, b)) = pairs.enumerate().find(|(_, pair)| far(pair))?;
    Some(format!("the loss of step {} is {a}, PyTorch's is {b}", step + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(losses: &[f64]) -> Trained {
        Trained { seconds: vec![0.001, 0.002], losses: losses.to_vec(), accuracy: None }
    }

    #[test]
    fn losses_that_part_are_no_training() {
        assert_eq!(differs(&trained(&[2.0, 1.0, 0.011]), &trained(&[2.0, 1.001, 0.0105])), None);
        assert!(differs(&trained(&[2.0, 1.0]), &trained(&[2.0, 1.1])).unwrap().contains("step 2"));
        assert!(differs(&trained(&[f64::NAN]), &trained(&[2.0])).is_some());
    }

    #[test]
    fn a_model_has_a_row_of_its_time_and_one_of_its_loss() {
        let rows = rows("gpt", "step", &trained(&[2.0, 1.0]), &trained(&[2.0, 1.0])).unwrap();
        assert_eq!((rows.len(), rows[0].best, rows[0].ratio), (2, 1.0, Some(1.0)));
        assert_eq!((rows[1].best, rows[1].reference), (1.0, Some(1.0)));
    }
}
