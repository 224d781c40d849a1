//! Trials of the Debian packages.

use super::{Bench, FIRST_RUN, PROGRAM};
use crate::dist;
use crate::step;
use crate::tree::Tree;
use anyhow::{Result, bail};
use std::time::Instant;

/// Installs the packages into a bare tree, runs a precompiled program, and purges them: nothing may be left.
pub fn install_and_purge(bench: &Bench<'_>, release: &str) -> Result<String> {
    // Services need systemd-sysusers, and pyflame needs Python: with these in the tree, nothing has to be downloaded.
    let tree = Tree::of(bench.repo, release, &["systemd-standalone-sysusers", "python3"])?;
    let mut debs = dist::debs(&bench.packages)?;
    // It needs clang, and has a trial of its own.
    debs.retain(|deb| {
        !deb.file_name().is_some_and(|name| name.to_string_lossy().starts_with(dist::COMPILER))
    });
    let before = tree.files()?;
    let files = debs.iter().map(|deb| tree.put(deb)).collect::<Result<Vec<_>>>()?;
    let program = tree.put(&bench.program)?;
    let mut install = vec!["apt-get", "install", "--yes", "--no-install-recommends"];
    install.extend(files.iter().map(String::as_str));
    tree.run(&install)?;
    let installed = Instant::now();
    passes(&tree, &["remora", "run", "--", &program])?;
    let time = installed.elapsed();
    if time > FIRST_RUN {
        bail!("the first program took {}", step::seconds(time));
    }
    for file in PAGES {
        tree.run(&["test", "-s", file])?;
    }
    alternatives(&tree, &program)?;
    agent(&tree)?;
    let sum = "import pyflame; print(float(pyflame.tensor([1.0, 2.0]).sum()))";
    let text = tree.run(&["python3", "-c", sum])?;
    if text.trim() != "3.0" {
        bail!("pyflame computed {}", text.trim());
    }
    tree.run(&["sh", "-c", "dpkg --verify"])?;
    let names = debs.iter().map(|deb| dist::deb_name(deb)).collect::<Result<Vec<_>>>()?;
    let mut purge = vec!["apt-get", "purge", "--yes"];
    purge.extend(names.iter().map(String::as_str));
    tree.run(&purge)?;
    let after = tree.files()?;
    let left: Vec<&str> = after.symmetric_difference(&before).map(String::as_str).collect();
    if !left.is_empty() {
        bail!("installing and purging changed:\n{}", left.join("\n"));
    }
    Ok(format!(
        "{} packages installed, first program done {} later, purged without a trace",
        debs.len(),
        step::seconds(time)
    ))
}

/// Files that a shell and `man` look for.
const PAGES: &[&str] = &[
    "/usr/share/man/man1/remora.1.gz",
    "/usr/share/man/man1/remora-run.1.gz",
    "/usr/share/bash-completion/completions/remora",
    "/usr/share/zsh/vendor-completions/_remora",
    "/usr/share/fish/vendor_completions.d/remora.fish",
];

/// Makes the libraries those of every program, and then the system's again.
fn alternatives(tree: &Tree, program: &str) -> Result<()> {
    let choose = |configuration: &str| {
        tree.run(&["update-alternatives", "--set", "libamdhip64.conf", configuration])?;
        tree.run(&["ldconfig"])?;
        tree.run(&["ldconfig", "-p"])
    };
    if !choose("/usr/share/remora/ld-remora.conf")?.contains("/usr/lib/remora/libamdhip64.so.6") {
        bail!("the loader does not find the libraries after update-alternatives");
    }
    // Without `remora run`: the worker is started by hand, the library is found by the loader.
    let script = format!(
        "remora worker --device mi300x --listen 127.0.0.1:0 --ready >/trial/worker 2>&1 & \
         for _ in $(seq 100); do grep -q 'listening on' /trial/worker && break; sleep 0.1; done; \
         REMORA_WORKER=$(sed -n 's/^listening on //p' /trial/worker | head -1) {program}"
    );
    passes(tree, &["sh", "-c", &script])?;
    if choose("/usr/share/remora/ld-system.conf")?.contains("/usr/lib/remora") {
        bail!("the loader still finds the libraries after update-alternatives back to the system's");
    }
    // Purging must also undo the choice.
    choose("/usr/share/remora/ld-remora.conf").map(drop)
}

/// Starts the agent with the settings that the package installs. The provider library reports a software GPU instead of real ones.
fn agent(tree: &Tree) -> Result<()> {
    let get =
        "import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + '/healthz', timeout=10).read()";
    let script = format!(
        "REMORA_SOFTWARE_GPUS=mi300x remora agent --config /etc/remora/agent.toml --data /trial/agent \
         --listen 127.0.0.1:0 --ready >/trial/agent.log 2>&1 & \
         for _ in $(seq 100); do grep -q 'listening on' /trial/agent.log && break; sleep 0.1; done; \
         python3 -c \"{get}\" $(sed -n 's/^listening on //p' /trial/agent.log | head -1) || {{ cat /trial/agent.log; false; }}"
    );
    tree.run(&["sh", "-c", &script]).map(drop)
}

/// Runs a command that runs the self-checking program.
pub fn passes(tree: &Tree, words: &[&str]) -> Result<()> {
    let text = tree.run(words)?;
    if !text.lines().any(|line| line == format!("PASS {PROGRAM}")) {
        bail!("{} printed no PASS:\n{}", words.join(" "), text.trim_end());
    }
    Ok(())
}

/// Debian's own check of packages; the one of the newest release.
pub fn lintian(bench: &Bench<'_>) -> Result<String> {
    let tree = Tree::of(bench.repo, "bookworm", &["lintian"])?;
    let debs = dist::debs(&bench.packages)?;
    let files = debs.iter().map(|deb| tree.put(deb)).collect::<Result<Vec<_>>>()?;
    let mut lintian = vec!["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0"];
    lintian.extend(files.iter().map(String::as_str));
    let text = tree.run(&lintian)?;
    let warnings = text.lines().filter(|line| line.starts_with("W:")).count();
    Ok(format!("no errors, {warnings} warnings in {} packages", debs.len()))
}
