//! Estimates of the performance model against published measurements of real GPUs.

use crate::examples::{ARCHITECTURES, checked};
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result};
use std::fs;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only kernels whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

/// Compiles the kernels for each architecture and prints the table. A missed estimate is printed, not an error.
pub fn run(repo: &Repo, toolchain: &Toolchain, arguments: &Arguments) -> Result<()> {
    let folder = repo.target.join("performance-model");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let source = repo.root.join("conformance/performance-model/kernels.hip");
    let mut cargo = repo.cargo();
    cargo.args(["run", "--release", "--quiet", "--package", "emulator", "--example", "model", "--"]);
    for (architecture, _) in ARCHITECTURES {
        let object = folder.join(format!("kernels-{architecture}.co"));
        let mut clang = toolchain.compile_hip(&[architecture]);
        clang.args(["-O3", "--offload-device-only", "--no-gpu-bundle-output"]).arg(&source);
        checked(clang.arg("-o").arg(&object))?;
        cargo.arg(object);
    }
    cargo.args(&arguments.filter);
    step::run_forwarded("estimates against published measurements", &mut cargo)
}
