//! torch's OpInfo database, computed with torch on the CPU and with pyflame by `conformance/opinfo/samples.py`.
//!
//! torch is Debian's CPU-only build; PyPI's depends on gigabytes of GPU libraries.

use super::LocalWorker;
use crate::build::Built;
use crate::pyflame;
use crate::repo::Repo;
use crate::step;
use crate::torch::Torch;
use crate::venv;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::env::join_paths;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Known failures, by name prefix, and the reason.
const KNOWN: &[(&str, &str)] = &[
    ("all uint8 ", "any and all of uint8 are bools, as of every other type; torch answers uint8"),
    ("any uint8 ", "any and all of uint8 are bools, as of every other type; torch answers uint8"),
    ("dot complex64 ", DOT),
    ("dot complex128 ", DOT),
    ("matmul complex64 0", DOT),
    ("matmul complex128 0", DOT),
    ("__rmatmul__ complex64 0", DOT),
    ("__rmatmul__ complex128 0", DOT),
    ("linalg.vecdot complex64 ", DOT),
    ("linalg.vecdot complex128 ", DOT),
    ("einsum uint8 ", EINSUM),
    ("einsum int8 ", EINSUM),
    ("einsum int16 ", EINSUM),
    ("einsum int32 ", EINSUM),
    (
        "linspace int",
        "torch cuts the fractions off once for each vector register and then again for each element",
    ),
    (
        "linspace uint8 ",
        "torch cuts the fractions off once for each vector register and then again for each element",
    ),
    (
        "nn.functional._scaled_dot_product_attention bfloat16 12",
        "weights are rounded to bfloat16 between two products",
    ),
    ("nn.functional.conv2d bfloat16 ", "the bias is added to what was rounded already"),
    ("matmul complex64 11", CANCELLED),
    ("__rmatmul__ complex64 11", CANCELLED),
    ("nn.functional.conv2d float32 28", CANCELLED),
    ("nn.functional.conv2d complex64 28", CANCELLED),
    ("nn.functional.conv2d complex64 29", CANCELLED),
    ("nn.functional.conv_transpose3d float32 2 gradient", CANCELLED),
];

const DOT: &str = "Debian's torch answers zero to products of two complex vectors";
const EINSUM: &str =
    "sums by einsum keep the type of small integers, as its products do; torch makes int64 of sums alone";
const CANCELLED: &str = "sums in another order, of numbers that cancel each other";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only entries whose name contains this; `=NAME` selects the entry with this exact name
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Only this device
    #[arg(long, value_parser = ["cpu", "rocm"])]
    device: Option<String>,
    /// Only these element types, separated by commas
    #[arg(long, value_name = "TYPES", default_value = "")]
    types: String,
    /// Only the first few samples of each entry and type
    #[arg(long, value_name = "COUNT")]
    samples: Option<usize>,
    /// Time limit of a case, in seconds
    #[arg(long, default_value_t = 120)]
    limit: u32,
}

pub fn run(repo: &Repo, built: &Built, arguments: &Arguments) -> Result<()> {
    let torch = Torch::unpack(repo)?;
    let paths = Paths::of(repo, built, &torch)?;
    let mut failed = 0;
    for device in ["cpu", "rocm"] {
        if arguments.device.as_deref().is_some_and(|only| only != device) {
            continue;
        }
        let worker = LocalWorker::start(&built.remora, "mi300x", &repo.logs().join("opinfo-worker.log"))?;
        let mut samples = Command::new("/usr/bin/python3");
        samples.arg(repo.root.join("conformance/opinfo/samples.py"));
        samples.args(["--device", device, "--filter", &arguments.filter, "--types", &arguments.types]);
        samples.args(["--limit", &arguments.limit.to_string()]);
        if let Some(count) = arguments.samples {
            samples.args(["--samples", &count.to_string()]);
        }
        samples.env("PYTHONPATH", join_paths(&paths.modules)?);
        samples.env("LD_LIBRARY_PATH", join_paths(&paths.libraries)?);
        samples.env("PYTHONDONTWRITEBYTECODE", "1").env("OMP_NUM_THREADS", "1");
        samples.env("REMORA_WORKER", worker.address().to_string());
        failed += print_result(device, &cases(repo, device, &mut samples)?);
    }
    if failed > 0 {
        bail!("{failed} cases failed unexpectedly");
    }
    Ok(())
}

struct Paths {
    modules: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
}

impl Paths {
    fn of(repo: &Repo, built: &Built, torch: &Torch) -> Result<Paths> {
        let python = venv::with(repo, "venv-opinfo", "conformance/opinfo/requirements.txt")?;
        let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let more = step::output(Command::new(python).args(["-c", ask]))?;
        let modules = vec![pyflame::package_of(repo, built)?, torch.modules(), PathBuf::from(more.trim())];
        let libraries = [built.lib.clone()].into_iter().chain(torch.libraries()).collect();
        Ok(Paths { modules, libraries })
    }
}

/// Collects every line that the samples print. Failures are printed at once, because the run takes long.
fn cases(repo: &Repo, device: &str, samples: &mut Command) -> Result<Vec<String>> {
    let log = |ending: &str| {
        let path = repo.logs().join(format!("opinfo-{device}.{ending}"));
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))
    };
    let mut kept = log("tsv")?;
    step::heading(&format!("samples on {device}"));
    let mut child = samples
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log("err")?)
        .spawn()
        .context("cannot start samples.py")?;
    let stdout = child.stdout.take().context("samples.py has no standard output")?;
    let mut lines = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read the output of samples.py")?;
        writeln!(kept, "{line}")?;
        if let [name, "failed", why] = line.split('\t').collect::<Vec<_>>()[..] {
            let word = if known(name).is_some() { "failed, as expected" } else { "failed" };
            step::progress(&format!("{word}: {name}: {why}"));
        }
        lines.push(line);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("samples.py failed before the last sample ({status}); see {}", log_of(repo, device).display());
    }
    Ok(lines)
}

fn log_of(repo: &Repo, device: &str) -> PathBuf {
    Path::new(&repo.logs()).join(format!("opinfo-{device}.err"))
}

fn known(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(begin, _)| name.starts_with(begin)).map(|&(_, why)| why)
}

/// Prints the results of all cases; returns the number of unexpected failures.
fn print_result(device: &str, lines: &[String]) -> usize {
    let (mut missing, mut expected) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    let (mut passed, mut noted, mut failed) = (0, 0, 0);
    for line in lines {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [_, "passed", ""] => passed += 1,
            [_, "passed", _] => noted += 1,
            [_, "not ours", why] => *missing.entry(why).or_default() += 1,
            [name, "failed", _] => match known(name) {
                Some(why) => *expected.entry(why).or_default() += 1,
                None => failed += 1,
            },
            _ => step::progress(line),
        }
    }
    let (known, absent) = (expected.values().sum::<usize>(), missing.values().sum::<usize>());
    let ours = passed + noted + known + failed;
    let share = 100.0 * (passed + noted) as f64 / ours.max(1) as f64;
    step::heading(&format!(
        "{device}: {} of {ours} passed ({share:.2} %, {noted} of them by being as exact as torch), {} failed, {absent} not supported",
        passed + noted,
        known + failed
    ));
    for (why, count) in expected {
        step::progress(&format!("failed, as expected: {count}: {why}"));
    }
    for (why, count) in missing {
        step::progress(&format!("not supported: {count} because of {why}"));
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_that_are_not_known_are_counted() {
        let lines = [
            "add float32 0\tpassed\t",
            "add float32 1\tfailed\twhy",
            "any uint8 0\tfailed\tdtype",
            "fft.fft\tnot ours\tno",
        ];
        assert_eq!(print_result("cpu", &lines.map(str::to_owned)), 1);
    }

    #[test]
    fn a_known_failure_is_known_by_how_its_name_begins() {
        assert!(known("any uint8 12").is_some() && known("any int8 12").is_none());
    }
}
