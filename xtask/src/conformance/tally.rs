//! The results of a suite: one row per program, every failure by name, and whether it was expected.

use super::verdict::{Problem, Verdict};
use crate::step;
use anyhow::{Result, bail};
use std::time::Duration;

/// A known failure and its cause. The name may contain one `*`.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub test: &'static str,
    pub cause: &'static str,
}

impl Known {
    fn names(&self, test: &str) -> bool {
        match self.test.split_once('*') {
            Some((start, end)) => test.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
            None => test == self.test,
        }
    }
}

#[derive(Debug, Default)]
pub struct Row {
    pub program: String,
    pub passed: u64,
    pub skipped: u64,
    pub failed: Vec<Problem>,
    pub unfinished: Vec<Problem>,
    /// Tests that were never started, because the program exceeded its time limit.
    pub not_run: u64,
    pub time: Duration,
}

impl Row {
    pub fn of(program: String, verdict: Verdict, time: Duration) -> Row {
        let not_run = verdict.left();
        let Verdict { passed, skipped, failed, unfinished, .. } = verdict;
        Row { program, passed, skipped, failed, unfinished, not_run, time }
    }
}

/// The rows of a suite.
#[derive(Debug, Default)]
pub struct Tally {
    rows: Vec<Row>,
}

impl Tally {
    /// Adds a row, and prints it.
    pub fn add(&mut self, row: Row) {
        let (passed, failed, time) = (row.passed, row.failed.len(), step::seconds(row.time));
        let unfinished = match row.unfinished.len() as u64 + row.not_run {
            0 => String::new(),
            count => format!(", {count} not finished"),
        };
        step::progress(&format!("{}: {passed} passed, {failed} failed{unfinished}, {time}", row.program));
        self.rows.push(row);
    }

    /// Whether no program was selected.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints the table. An unexpected failure is an error, and so is a suite without a passed test.
    pub fn finish(&self, known: &[Known]) -> Result<()> {
        println!("{}", self.table());
        for row in &self.rows {
            for Problem { test, reason } in &row.unfinished {
                println!("not finished: {}: {test}: {reason}", row.program);
            }
            if row.not_run > 0 {
                println!("not run: {}: {} tests, because of the time limit", row.program, row.not_run);
            }
        }
        let mut unexpected = Vec::new();
        for row in &self.rows {
            for Problem { test, reason } in &row.failed {
                match known.iter().find(|known| known.names(test)) {
                    Some(known) => println!("known to fail: {}: {test}: {}", row.program, known.cause),
                    None => unexpected.push(format!("{}: {test}: {reason}", row.program)),
                }
            }
        }
        if self.rows.iter().all(|row| row.passed == 0) {
            bail!("no test passed");
        }
        if !unexpected.is_empty() {
            bail!("{} tests failed:\n  {}", unexpected.len(), unexpected.join("\n  "));
        }
        Ok(())
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| program | passed | failed | not finished | not run | skipped | seconds |\n|---|---:|---:|---:|---:|---:|---:|\n",
        );
        let total = Row {
            program: "all".to_owned(),
            passed: self.rows.iter().map(|row| row.passed).sum(),
            skipped: self.rows.iter().map(|row| row.skipped).sum(),
            failed: self.rows.iter().flat_map(|row| row.failed.iter().cloned()).collect(),
            unfinished: self.rows.iter().flat_map(|row| row.unfinished.iter().cloned()).collect(),
            not_run: self.rows.iter().map(|row| row.not_run).sum(),
            time: self.rows.iter().map(|row| row.time).sum(),
        };
        for row in self.rows.iter().chain([&total]) {
            let (passed, failed, skipped) = (row.passed, row.failed.len(), row.skipped);
            let (unfinished, not_run, seconds) = (row.unfinished.len(), row.not_run, row.time.as_secs_f64());
            let program = &row.program;
            text += &format!(
                "| {program} | {passed} | {failed} | {unfinished} | {not_run} | {skipped} | {seconds:.0} |\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(failed: &[&str]) -> Tally {
        let problem = |name: &&str| Problem { test: (*name).to_owned(), reason: "so".to_owned() };
        let failed = failed.iter().map(problem).collect();
        let unfinished = vec![problem(&"slow")];
        let (passed, skipped, not_run, time) = (3, 1, 5, Duration::from_secs(2));
        Tally {
            rows: vec![Row { program: "p".to_owned(), passed, skipped, failed, unfinished, not_run, time }],
        }
    }

    #[test]
    fn only_failures_that_nobody_knows_are_errors() {
        let known = [
            Known { test: "a.one/*", cause: "because" },
            Known { test: "b", cause: "because" },
            Known { test: "c/*_1", cause: "because" },
        ];
        assert!(tally(&[]).finish(&known).is_ok());
        assert!(tally(&["a.one/3", "b", "c/8_1"]).finish(&known).is_ok());
        assert!(tally(&["c/8_0"]).finish(&known).is_err());
        let error = tally(&["a.one/3", "bb"]).finish(&known).unwrap_err().to_string();
        assert!(error.contains("bb") && !error.contains("a.one/3"), "{error}");
    }

    #[test]
    fn the_last_row_of_the_table_is_the_sum() {
        let mut tally = tally(&["x"]);
        tally.rows.extend(self::tally(&["y"]).rows);
        assert!(tally.table().ends_with("| all | 6 | 2 | 2 | 10 | 2 | 4 |\n"), "{}", tally.table());
    }

    #[test]
    fn a_suite_in_which_nothing_passed_is_an_error() {
        assert!(Tally::default().finish(&[]).is_err());
    }
}
