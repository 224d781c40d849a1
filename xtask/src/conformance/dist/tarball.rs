//! Trials of the tarball.

use super::debs::passes;
use super::{Bench, FIRST_RUN};
use crate::dist;
use crate::step;
use crate::tree::Tree;
use anyhow::{Result, bail};
use std::time::Instant;

/// Unpacks it into a bare tree and uses it from there; with `is_new`, for a program of the examples too.
pub fn unpack_and_run(bench: &Bench<'_>, release: &str, is_new: bool) -> Result<String> {
    let tree = Tree::of(bench.repo, release, &["xz-utils"])?;
    let archive = tree.put(&dist::only(&bench.packages, ".tar.xz")?)?;
    tree.run(&["tar", "-C", "/opt", "-xf", &archive])?;
    let listed = tree.run(&["sh", "-c", "ls -d /opt/remora-*"])?;
    let folder = listed.trim();
    let remora = format!("{folder}/bin/remora");
    // Every symbol must resolve: the loader ends programs whose preloaded library lacks one.
    for soname in crate::client_libs::SONAMES {
        let preload = format!("LD_BIND_NOW=1 LD_PRELOAD={folder}/lib/remora/{soname} /bin/true");
        let text = tree.run(&["sh", "-c", &preload])?;
        if !text.trim().is_empty() {
            bail!("{soname} does not load: {}", text.trim());
        }
    }
    let started = Instant::now();
    let script = format!(
        "{remora} worker --device mi300x --listen 127.0.0.1:0 --ready >/trial/worker 2>&1 & \
         for _ in $(seq 100); do grep -q 'listening on' /trial/worker && break; sleep 0.1; done; \
         {remora} devices --worker $(sed -n 's/^listening on //p' /trial/worker | head -1)"
    );
    let devices = tree.run(&["sh", "-c", &script])?;
    if !devices.contains("gfx942") {
        bail!("`remora devices` printed:\n{devices}");
    }
    let answer = step::seconds(started.elapsed());
    let started = Instant::now();
    tree.run(&[&remora, "try"])?;
    if is_new {
        let program = tree.put(&bench.program)?;
        passes(&tree, &[&remora, "run", "--", &program])?;
    }
    let time = started.elapsed();
    if time > FIRST_RUN {
        bail!("the first programs took {}", step::seconds(time));
    }
    let glibc = tree.run(&["ldd", "--version"])?;
    let glibc = glibc.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
    let what = if is_new { "`remora try` and a program" } else { "`remora try`" };
    Ok(format!("glibc {glibc}: a worker answers after {answer}; {what} took {}", step::seconds(time)))
}
