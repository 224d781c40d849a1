//! The test results of one program, parsed line by line from the output of Google Test or Thrust's framework.

use super::gtest::Ended;
use crate::step;

/// The number of lines kept of a failure's text.
const REASON_LINES: usize = 4;

/// A test that did not pass, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub test: String,
    pub reason: String,
}

#[derive(Debug, Default)]
pub struct Verdict {
    pub passed: u64,
    pub skipped: u64,
    pub failed: Vec<Problem>,
    /// Tests that were killed because they took too long.
    pub unfinished: Vec<Problem>,
    /// Every test that was started, in order.
    started: Vec<String>,
    running: bool,
    /// The first failure message of the running test.
    reason: Vec<String>,
    expected: u64,
    /// The failed test whose reason is on the next line.
    telling: Option<String>,
    /// The number of failures when the program was last started.
    failed_before: usize,
    finished: bool,
}

impl Verdict {
    /// Parses one line of the program's output.
    pub fn note(&mut self, line: &str) {
        if self.note_of_thrust(line) {
            return;
        }
        if let Some(name) = line.strip_prefix("[ RUN      ] ") {
            self.started.push(name.trim().to_owned());
            self.running = true;
            self.reason.clear();
        } else if let Some(name) = line.strip_prefix("[  FAILED  ] ") {
            // The summary at the end repeats the names, when no test is running.
            if self.running() == Some(&first_word(name)) {
                let reason = std::mem::take(&mut self.reason).join(" ");
                self.running = false;
                self.failed.push(Problem { test: first_word(name), reason });
            }
        } else if line.starts_with("[       OK ] ") {
            self.passed += 1;
            self.running = false;
        } else if line.starts_with("[  SKIPPED ] ") && self.running {
            self.running = false;
            self.skipped += 1;
        } else if let Some(rest) = line.strip_prefix("[==========] Running ") {
            // Only the first run has the full count.
            if self.expected == 0 {
                self.expected = first_word(rest).parse().unwrap_or(0);
            }
        } else if line.starts_with("[==========] ") && line.contains(" ran.") {
            self.finished = true;
        } else if self.running && self.reason.len() < REASON_LINES {
            let begins = line.contains(": Failure") || line.contains("what():");
            if begins || !self.reason.is_empty() {
                self.reason.push(line.trim().to_owned());
            }
        }
    }

    /// Parses a line of Thrust's framework: `Running name...[PASS] ...`, and at the end `FAILURE: name` with the text below.
    fn note_of_thrust(&mut self, line: &str) -> bool {
        if let Some(test) = self.telling.take() {
            let failed = self.failed.iter_mut().find(|problem| problem.test == test);
            failed.into_iter().for_each(|problem| problem.reason = line.trim().to_owned());
            return true;
        }
        for kind in ["FAILURE: ", "ERROR: ", "UNKNOWN EXCEPTION: "] {
            if let Some(name) = line.strip_prefix(kind) {
                self.telling = Some(name.trim().to_owned());
                return true;
            }
        }
        if line.starts_with("Totals: ") && line.contains(" passes.") {
            self.finished = true;
            return true;
        }
        let Some(rest) = line.strip_prefix("Running ") else { return false };
        if let Some(count) = rest.strip_suffix(" unit tests.") {
            self.expected = count.parse().unwrap_or(0);
            return true;
        }
        let Some((name, outcome)) = rest.split_once("...") else { return false };
        // The result is printed over the name.
        let outcome = outcome.trim_start_matches('\r');
        self.started.push(name.to_owned());
        self.running = false;
        if outcome.starts_with("[PASS]") {
            self.passed += 1;
        } else if outcome.starts_with("[KNOWN FAILURE]") {
            self.skipped += 1;
        } else if outcome.starts_with('[') {
            self.failed.push(Problem { test: name.to_owned(), reason: String::new() });
        } else {
            self.running = true;
        }
        true
    }

    /// Closes a run after the program has ended. The running test has failed, unless it was killed for taking too long. So has a
    /// program that ended early, or that reports failure although all tests passed.
    pub fn close(&mut self, ended: &Ended) {
        let test = self.running().map(str::to_owned);
        self.running = false;
        match (test, ended) {
            (Some(test), Ended::Limit(after)) => {
                self.unfinished
                    .push(Problem { test, reason: format!("ended after {}", step::seconds(*after)) });
            }
            (Some(test), Ended::Itself(status)) => {
                let reason = format!("{status} {}", self.reason.join(" ")).trim_end().to_owned();
                self.failed.push(Problem { test, reason });
            }
            // A program without tests counts as one test.
            (None, Ended::Itself(status)) if status.success() && self.expected == 0 && !self.finished => {
                self.passed += 1;
                self.finished = true;
            }
            (None, Ended::Itself(status))
                if !self.finished || (!status.success() && self.failed.len() == self.failed_before) =>
            {
                self.failed
                    .push(Problem { test: "the program itself".to_owned(), reason: status.to_string() });
            }
            (None, _) => {}
        }
        self.failed_before = self.failed.len();
    }

    /// The test that has started and not ended.
    pub fn running(&self) -> Option<&str> {
        self.started.last().filter(|_| self.running).map(String::as_str)
    }

    pub fn started(&self) -> &[String] {
        &self.started
    }

    /// Whether the program reached the end of its tests.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The number of tests that were never started.
    pub fn left(&self) -> u64 {
        self.expected.saturating_sub(self.started.len() as u64)
    }
}

fn first_word(text: &str) -> String {
    text.split([',', ' ']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    fn verdict_on(lines: &[&str], ended: &Ended) -> Verdict {
        let mut verdict = Verdict::default();
        lines.iter().for_each(|line| verdict.note(line));
        verdict.close(ended);
        verdict
    }

    fn exit(code: i32) -> Ended {
        Ended::Itself(ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn every_test_is_counted_once_although_failures_are_listed_again() {
        let verdict = verdict_on(
            &[
                "[==========] Running 5 tests from 1 test suite.",
                "[ RUN      ] a.one",
                "[       OK ] a.one (3 ms)",
                "[ RUN      ] a.two/0",
                "some text",
                "a.cpp:12: Failure",
                "Expected equality of these values:",
                "[  FAILED  ] a.two/0, where GetParam() = 404 (197 ms)",
                "[ RUN      ] a.four",
                "[  FAILED  ] a.four, where GetParam() = { some: text }",
                "[ RUN      ] a.three",
                "[  SKIPPED ] a.three (0 ms)",
                "[==========] 3 tests from 1 test suite ran. (200 ms total)",
                "[  PASSED  ] 1 test.",
                "[  SKIPPED ] 1 test, listed below:",
                "[  SKIPPED ] a.three",
                "[  FAILED  ] 1 test, listed below:",
                "[  FAILED  ] a.two/0, where GetParam() = 404",
            ],
            &exit(1),
        );
        assert_eq!((verdict.passed, verdict.skipped, verdict.left()), (1, 1, 1));
        let failed: Vec<&str> = verdict.failed.iter().map(|problem| problem.test.as_str()).collect();
        assert_eq!(failed, ["a.two/0", "a.four"]);
        assert_eq!(verdict.failed[0].reason, "a.cpp:12: Failure Expected equality of these values:");
        assert_eq!(verdict.failed[1].reason, "");
    }

    #[test]
    fn a_test_that_takes_the_program_down_has_failed() {
        let verdict =
            verdict_on(&["[ RUN      ] a.one"], &Ended::Itself(ExitStatus::from_raw(libc::SIGABRT)));
        let reason = "signal: 6 (SIGABRT)".to_owned();
        assert_eq!(verdict.failed, [Problem { test: "a.one".to_owned(), reason }]);
    }

    #[test]
    fn a_program_that_ends_before_its_tests_do_has_failed() {
        let verdict = verdict_on(&["cannot open shared object file"], &exit(127));
        assert_eq!(verdict.failed[0].test, "the program itself");
        let verdict = verdict_on(&["[==========] 1 test from 1 test suite ran. (1 ms total)"], &exit(134));
        assert_eq!(verdict.failed[0].test, "the program itself");
    }

    #[test]
    fn a_program_that_has_no_tests_and_succeeds_is_one_test() {
        let verdict = verdict_on(&[], &exit(0));
        assert_eq!((verdict.passed, verdict.failed.len()), (1, 0));
        assert_eq!(
            verdict_on(&["[==========] Running 2 tests from 1 test suite."], &exit(0)).failed.len(),
            1
        );
    }

    #[test]
    fn tests_of_thrust_are_counted_and_their_reasons_found() {
        let lines = [
            "Running 5 unit tests.",
            "Running TestOne...\r[PASS]      0.006 ms TestOne",
            "Running TestTwo...\r[FAILURE]      1 ms TestTwo",
            "Running TestThree...\r[KNOWN FAILURE]      TestThree",
            "",
            "================================================================",
            "FAILURE: TestTwo",
            "[testing/two.cu:32] values differ",
            "Totals: 1 failures, 1 known failures, 0 errors, and 1 passes.",
        ];
        let verdict = verdict_on(&lines, &exit(1));
        assert_eq!((verdict.passed, verdict.skipped, verdict.left()), (1, 1, 2));
        let reason = "[testing/two.cu:32] values differ".to_owned();
        assert_eq!(verdict.failed, [Problem { test: "TestTwo".to_owned(), reason }]);
        let ended =
            verdict_on(&[lines[0], lines[1], "Running TestTwo..."], &Ended::Limit(Duration::from_secs(5)));
        assert_eq!((ended.unfinished[0].test.as_str(), ended.left()), ("TestTwo", 3));
    }

    #[test]
    fn a_test_that_was_ended_is_unfinished() {
        let verdict = verdict_on(&["[ RUN      ] a.one"], &Ended::Limit(Duration::from_secs(60)));
        assert!(verdict.failed.is_empty());
        assert_eq!(verdict.unfinished[0].reason, "ended after 60.0 s");
    }
}
