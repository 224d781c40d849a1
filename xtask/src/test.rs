//! `cargo xtask test`: runs all checks and prints a summary. Continuous integration calls exactly this.

use crate::audit;
use crate::bench;
use crate::build;
use crate::compilers;
use crate::conformance;
use crate::demo;
use crate::docs;
use crate::echo::Skipped;
use crate::ptxas;
use crate::pyflame;
use crate::repo::Repo;
use crate::sample;
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
    checks.run_with_outcome("tidy", || tidy::run(repo).map(Outcome::skipped));
    checks.run_with_outcome("audit", || {
        audit::run(repo, &audit::Arguments::default()).map(|note| Outcome { note, ..Outcome::default() })
    });
    checks.run("examples", || demo::show(repo, &toolchain, &built, demo::Backend::Emulator));
    checks.run("sample", || sample::check(repo, &toolchain));
    checks.run("compilers", || compilers::run(repo, &toolchain, &built));
    checks.run_with_outcome("cargo test", || {
        // The release profile: tests what ships, and compiles nothing twice.
        let arguments =
            ["test", "--release", "--workspace", "--exclude", "xtask", "--no-fail-fast", "--quiet"];
        let mut cargo = repo.cargo();
        cargo.args(arguments).env("PTXAS", ptxas::locate(repo)?);
        let mut skipped = step::run_tests("cargo test", &mut cargo)?;
        let mut own = repo.cargo();
        own.args(["test", "--package", "xtask", "--quiet"]);
        skipped.extend(step::run_tests("cargo test of xtask", &mut own)?);
        Ok(Outcome::skipped(skipped))
    });
    checks.run("docs", || {
        docs::run(repo, &docs::Arguments { check: true })?;
        docs::run_tutorials(repo, &built, true)
    });
    checks.run("benches", || bench::smoke::run(repo, &toolchain, &built));
    checks.run("chaos", || {
        conformance::chaos::run(repo, &toolchain, &built, &conformance::chaos::Arguments::short())
    });
    checks.run("pages", || ui::check(repo, &built));
    checks.run_with_outcome("pyflame", || pyflame::check(repo, &built).map(Outcome::skipped));
    checks.run("triton", || conformance::triton(repo, &built, conformance::Sizes::Small));
    checks.finish(started.elapsed())
}

/// What a check that passed has to say.
#[derive(Debug, Default)]
struct Outcome {
    /// A note for the summary, such as a part that was left out.
    note: String,
    /// Tests that lacked a prerequisite.
    skipped: Vec<Skipped>,
}

impl Outcome {
    fn skipped(skipped: Vec<Skipped>) -> Outcome {
        let note = if skipped.is_empty() { String::new() } else { format!("{} skipped", skipped.len()) };
        Outcome { note, skipped }
    }
}

/// A finished check.
struct Check {
    name: &'static str,
    time: Duration,
    result: Result<Outcome>,
}

/// A series of checks that all run, whatever the earlier ones found.
#[derive(Default)]
struct Checks {
    finished: Vec<Check>,
}

impl Checks {
    fn run(&mut self, name: &'static str, check: impl FnOnce() -> Result<()>) {
        self.run_with_outcome(name, || check().map(|()| Outcome::default()));
    }

    fn run_with_outcome(&mut self, name: &'static str, check: impl FnOnce() -> Result<Outcome>) {
        step::heading(name);
        let started = Instant::now();
        let result = check();
        if result.is_err() {
            eprintln!("{name} failed: see the summary at the end");
        }
        self.finished.push(Check { name, time: started.elapsed(), result });
    }

    fn finish(self, total: Duration) -> Result<()> {
        println!("\n{}", self.summary(total));
        let failed: Vec<&str> =
            self.finished.iter().filter(|check| check.result.is_err()).map(|check| check.name).collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }

    fn summary(&self, total: Duration) -> String {
        let mut lines = Vec::new();
        for Check { name, time, result } in &self.finished {
            let word = if result.is_ok() { "passed" } else { "FAILED" };
            let note = result.as_ref().map_or("", |outcome| &outcome.note);
            lines.push(
                format!("{word}  {name:16}  {:>8}  {note}", step::seconds(*time)).trim_end().to_owned(),
            );
        }
        lines.push(format!("total   {:16}  {:>8}", "", step::seconds(total)));
        for Skipped { name, reason } in self.skipped() {
            lines.push(format!("skipped {name}: {reason}"));
        }
        for Check { name, result, .. } in &self.finished {
            if let Err(error) = result {
                lines.push(format!("\n{name} failed: {error:#}"));
            }
        }
        if self.finished.iter().all(|check| check.result.is_ok()) {
            lines.push(match self.skipped().count() {
                0 => "everything passed".to_owned(),
                count => format!("everything passed, except {count} skipped"),
            });
        }
        lines.join("\n")
    }

    fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.finished
            .iter()
            .filter_map(|check| check.result.as_ref().ok())
            .flat_map(|outcome| &outcome.skipped)
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
        let summary = checks.summary(Duration::ZERO);
        assert!(summary.contains("FAILED  one") && !summary.contains("everything passed"), "{summary}");
        assert_eq!(checks.finish(Duration::ZERO).unwrap_err().to_string(), "failed: one");
    }

    #[test]
    fn a_skipped_test_is_in_the_summary() {
        let mut checks = Checks::default();
        let skipped = Skipped { name: "ipv6".to_owned(), reason: "no address ::1".to_owned() };
        checks.run_with_outcome("tests", || Ok(Outcome::skipped(vec![skipped])));
        let summary = checks.summary(Duration::ZERO);
        assert!(summary.contains("1 skipped\n"), "{summary}");
        assert!(summary.contains("\nskipped ipv6: no address ::1\n"), "{summary}");
        assert!(summary.ends_with("everything passed, except 1 skipped"), "{summary}");
    }
}
