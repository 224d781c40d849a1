//! Trial of the package `remora-compiler`.

use super::Bench;
use crate::dist;
use crate::tree::Tree;
use anyhow::{Result, bail};

/// The program that compiles a kernel at run time.
const COMPILING: &str = "hiprtc_saxpy";

/// Installs the compiler's package as `remora doctor` advises, and runs a program that compiles its kernel.
pub fn install_and_compile(bench: &Bench<'_>, release: &str) -> Result<String> {
    let tree = Tree::of(bench.repo, release, &["clang-19", "lld-19"])?;
    let mut files = Vec::new();
    let mut compiler = String::new();
    for deb in dist::debs(&bench.packages)? {
        match dist::deb_name(&deb)?.as_str() {
            dist::COMPILER => compiler = tree.put(&deb)?,
            "remora" | "libamdhip64-remora" => files.push(tree.put(&deb)?),
            _ => {}
        }
    }
    let program = tree.put(&super::program(bench.repo, bench.toolchain, COMPILING)?)?;
    let mut install = vec!["apt-get", "install", "--yes", "--no-install-recommends"];
    install.extend(files.iter().map(String::as_str));
    tree.run(&install)?;
    let advice = tree.run(&["sh", "-c", "remora doctor 2>&1 || true"])?;
    let Some(name) =
        compiler.rsplit('/').next().filter(|name| advice.contains(&format!("apt install ./{name}")))
    else {
        bail!("without a compiler, `remora doctor` does not advise to install {compiler}:\n{advice}");
    };
    tree.run(&["apt-get", "install", "--yes", "--no-install-recommends", &compiler])?;
    let text = tree.run(&["remora", "run", "--", &program])?;
    if !text.lines().any(|line| line == format!("PASS {COMPILING}")) {
        bail!("{COMPILING} printed no PASS:\n{}", text.trim_end());
    }
    Ok(format!("{name} installed, {COMPILING} compiled its kernel"))
}
