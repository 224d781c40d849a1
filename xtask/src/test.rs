//! `cargo xtask test`: runs all checks and prints a summary. Continuous integration calls exactly this.

use crate::audit;
use crate::bench;
use crate::build;
use crate::codegen;
use crate::compilers;
use crate::conformance;
use crate::demo;
use crate::pyflame;
use crate::repo::Repo;
use crate::setup;
use crate::step;
use crate::tidy;
use crate::ui;
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

pub fn run(repo: &Repo) -> Result<()> {
    let started = Instant::now();
    let toolchain = setup::run(repo)?;
    let built = build::run(repo, &build::Arguments { tests: true, ..Default::default() })?;
    let mut checks = Checks::default();
    checks.run("tidy", || tidy::run(repo));
    checks.run_noting("audit", || audit::run(repo, &audit::Arguments::default()));
    checks.run("derived pages", || codegen::run(repo, &codegen::Arguments { check: true }));
    checks.run("examples", || demo::show(repo, &toolchain, &built));
    checks.run("compilers", || compilers::run(repo, &toolchain, &built));
    checks.run("cargo test", || {
        // The release profile: tests what ships, and compiles nothing twice.
        let arguments = ["test", "--release", "--workspace", "--no-fail-fast", "--quiet"];
        step::loud("cargo test", repo.cargo().args(arguments))
    });
    checks.run("benches", || bench::smoke::run(repo, &toolchain, &built));
    checks.run("pages", || ui::check(repo, &built));
    checks.run("pyflame", || pyflame::check(repo, &built));
    checks.run("triton", || conformance::triton(repo, &built, conformance::Sizes::Small));
    checks.finish(started.elapsed())
}

/// A finished check.
struct Check {
    name: &'static str,
    time: Duration,
    /// A note for the summary, such as a part that was skipped.
    result: Result<String>,
}

/// A series of checks that all run, whatever the earlier ones found.
#[derive(Default)]
struct Checks {
    made: Vec<Check>,
}

impl Checks {
    fn run(&mut self, name: &'static str, check: impl FnOnce() -> Result<()>) {
        self.run_noting(name, || check().map(|()| String::new()));
    }

    /// Like [`Checks::run`], with a note for the summary.
    fn run_noting(&mut self, name: &'static str, check: impl FnOnce() -> Result<String>) {
        step::say(name);
        let started = Instant::now();
        let result = check();
        if result.is_err() {
            eprintln!("{name} failed: see the summary at the end");
        }
        self.made.push(Check { name, time: started.elapsed(), result });
    }

    fn finish(self, total: Duration) -> Result<()> {
        println!();
        for Check { name, time, result } in &self.made {
            let word = if result.is_ok() { "passed" } else { "FAILED" };
            let note = result.as_deref().unwrap_or_default();
            println!("{}", format!("{word}  {name:16}  {:>8}  {note}", step::seconds(*time)).trim_end());
        }
        println!("total   {:16}  {:>8}", "", step::seconds(total));
        for Check { name, result, .. } in &self.made {
            if let Err(error) = result {
                println!("\n{name} failed: {error:#}");
            }
        }
        let failed: Vec<&str> =
            self.made.iter().filter(|check| check.result.is_err()).map(|check| check.name).collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        println!("everything passed");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_does_not_stop_the_next_and_fails_the_whole() {
        let mut checks = Checks::default();
        checks.run("one", || bail!("no"));
        let mut reached = false;
        checks.run("two", || {
            reached = true;
            Ok(())
        });
        assert!(reached);
        assert_eq!(checks.finish(Duration::ZERO).unwrap_err().to_string(), "failed: one");
    }
}
