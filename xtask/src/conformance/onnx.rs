//! The node models of ONNX's own package, run with pyflame by `conformance/onnx/nodes.py`.

use super::LocalWorker;
use crate::build::Built;
use crate::pyflame;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::process::Command;

/// Known failures: the reference rounds to the half type after every operation, and its tolerance is a fraction of one step of
/// that type; pyflame accumulates in f32 and rounds at the end.
const KNOWN: &[&str] = &[
    "test_attention_3d_causal_bf16_expanded",
    "test_attention_4d_attn_mask_causal_bf16_expanded",
    "test_attention_4d_causal_bf16_expanded",
    "test_attention_4d_causal_fp16_expanded",
    "test_attention_4d_causal_padded_kv_bf16_expanded",
    "test_attention_4d_padded_kv_bf16_expanded",
];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only models whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Only this device
    #[arg(long, value_parser = ["cpu", "rocm"])]
    device: Option<String>,
}

pub fn run(repo: &Repo, built: &Built, arguments: &Arguments) -> Result<()> {
    let python = pyflame::install(repo)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--requirement"]);
    pip.arg(repo.root.join("conformance/onnx/requirements.txt"));
    step::run_logged("pip install of onnx", &mut pip, &repo.logs().join("onnx-pip.log"))?;
    let mut failed = 0;
    for device in ["cpu", "rocm"] {
        if arguments.device.as_deref().is_some_and(|only| only != device) {
            continue;
        }
        let worker = LocalWorker::start(&built.remora, "mi300x", &repo.logs().join("onnx-worker.log"))?;
        let mut nodes = pyflame::command(&python, built);
        nodes.arg(repo.root.join("conformance/onnx/nodes.py")).args(["--device", device]);
        nodes.args(["--filter", &arguments.filter]).env("REMORA_WORKER", worker.address().to_string());
        let output = nodes.output().context("cannot start nodes.py")?;
        if !output.status.success() {
            bail!("nodes.py failed before the last model: {}", String::from_utf8_lossy(&output.stderr));
        }
        failed += print_result(device, &String::from_utf8_lossy(&output.stdout));
    }
    if failed > 0 {
        bail!("{failed} models failed unexpectedly");
    }
    Ok(())
}

/// Prints the results of all models; returns the number of unexpected failures.
fn print_result(device: &str, lines: &str) -> usize {
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut passed, mut failed) = (0, Vec::new());
    for line in lines.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [_, "passed", _] => passed += 1,
            [_, "not ours", why] => *missing.entry(why).or_default() += 1,
            [name, "failed", why] => failed.push((name, why)),
            _ => step::progress(line),
        }
    }
    step::heading(&format!(
        "{device}: {passed} passed, {} failed, {} not supported",
        failed.len(),
        missing.values().sum::<usize>()
    ));
    for (name, why) in &failed {
        let word = if KNOWN.contains(name) { "failed, as expected" } else { "failed" };
        step::progress(&format!("{word}: {name}: {why}"));
    }
    for (why, count) in missing {
        step::progress(&format!("not supported: {count} because of {why}"));
    }
    failed.iter().filter(|(name, _)| !KNOWN.contains(name)).count()
}
