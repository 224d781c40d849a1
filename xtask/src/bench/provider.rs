//! The overhead of the provider library for an agent: an example program of its crate measures it on a simulated machine of 64
//! devices.

use super::machine::Machine;
use super::report::{Report, Row};
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::process::Command;

/// `prebuilt`: uses the program of an earlier build, if it exists.
pub fn measure(repo: &Repo, prebuilt: bool) -> Result<Report> {
    step::heading("measuring the provider library on a machine with 64 devices");
    let program = repo.target.join("release/examples/cost");
    let said = if prebuilt && program.exists() {
        step::output(&mut Command::new(program))?
    } else {
        let mut cargo = repo.cargo();
        cargo.args(["run", "--release", "--quiet", "--package", "provider", "--example", "cost"]);
        step::output(&mut cargo)?
    };
    let mut report = Report::new(Machine::detect());
    for line in said.lines() {
        report.push(row(line).with_context(|| format!("cannot parse the line `{line}`"))?);
    }
    report.close();
    Ok(report)
}

/// Parses `key best median name`, in microseconds.
fn row(line: &str) -> Option<Row> {
    let mut words = line.splitn(4, ' ');
    let key = words.next()?;
    let (best, median) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Row { best, median, ..Row::plain("provider", key, words.next()?, "us") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_row() {
        let row = row("discovery 1.5 2.5 find 64 devices").unwrap();
        assert_eq!(
            (row.key.as_str(), row.name.as_str(), row.best, row.median),
            ("discovery", "find 64 devices", 1.5, 2.5)
        );
        assert!(super::row("discovery soon").is_none());
    }
}
