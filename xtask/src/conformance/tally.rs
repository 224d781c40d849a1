//! What a suite came to: one row per program, every failure by name, and whether it was expected.

use crate::step;
use anyhow::{Result, bail};
use std::time::Duration;

/// A test that is known to fail, and why. The name may end with `*`.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub test: &'static str,
    pub cause: &'static str,
}

impl Known {
    fn names(&self, test: &str) -> bool {
        match self.test.strip_suffix('*') {
            Some(start) => test.starts_with(start),
            None => test == self.test,
        }
    }
}

#[derive(Debug)]
pub struct Row {
    pub program: String,
    pub passed: u64,
    pub skipped: u64,
    pub failed: Vec<String>,
    pub time: Duration,
}

/// The rows of a suite.
#[derive(Debug, Default)]
pub struct Tally {
    rows: Vec<Row>,
}

impl Tally {
    /// Take a row, and say it.
    pub fn add(&mut self, row: Row) {
        let (passed, failed, time) = (row.passed, row.failed.len(), step::seconds(row.time));
        step::detail(&format!("{}: {passed} passed, {failed} failed, {time}", row.program));
        self.rows.push(row);
    }

    /// Print the table. A failure that nobody expects is an error, and so is a suite without tests.
    pub fn finish(&self, known: &[Known]) -> Result<()> {
        println!("{}", self.table());
        let failed: Vec<&String> = self.rows.iter().flat_map(|row| &row.failed).collect();
        let mut unexpected = Vec::new();
        for test in failed {
            match known.iter().find(|known| known.names(test)) {
                Some(known) => println!("known to fail: {test}: {}", known.cause),
                None => unexpected.push(test.as_str()),
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
        let mut text =
            String::from("| program | passed | failed | skipped | seconds |\n|---|---:|---:|---:|---:|\n");
        let total = Row {
            program: "all".to_owned(),
            passed: self.rows.iter().map(|row| row.passed).sum(),
            skipped: self.rows.iter().map(|row| row.skipped).sum(),
            failed: self.rows.iter().flat_map(|row| row.failed.iter().cloned()).collect(),
            time: self.rows.iter().map(|row| row.time).sum(),
        };
        for row in self.rows.iter().chain([&total]) {
            let (passed, failed, skipped) = (row.passed, row.failed.len(), row.skipped);
            let seconds = row.time.as_secs_f64();
            text += &format!("| {} | {passed} | {failed} | {skipped} | {seconds:.0} |\n", row.program);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(failed: &[&str]) -> Tally {
        let failed = failed.iter().map(|name| (*name).to_owned()).collect();
        let time = Duration::from_secs(2);
        Tally { rows: vec![Row { program: "p".to_owned(), passed: 3, skipped: 1, failed, time }] }
    }

    #[test]
    fn only_failures_that_nobody_knows_are_errors() {
        let known = [Known { test: "a.one/*", cause: "because" }, Known { test: "b", cause: "because" }];
        assert!(tally(&[]).finish(&known).is_ok());
        assert!(tally(&["a.one/3", "b"]).finish(&known).is_ok());
        let error = tally(&["a.one/3", "bb"]).finish(&known).unwrap_err().to_string();
        assert!(error.contains("bb") && !error.contains("a.one/3"), "{error}");
    }

    #[test]
    fn the_last_row_of_the_table_is_the_sum() {
        let mut tally = tally(&["x"]);
        tally.rows.extend(self::tally(&["y"]).rows);
        assert!(tally.table().ends_with("| all | 6 | 2 | 2 | 4 |\n"), "{}", tally.table());
    }

    #[test]
    fn a_suite_in_which_nothing_passed_is_an_error() {
        assert!(Tally::default().finish(&[]).is_err());
    }
}
