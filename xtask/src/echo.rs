//! Forwards a program's output line by line, and keeps the lines that explain a failure or name a skipped test.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Mutex, PoisonError};

/// Lines kept from the end.
const LAST: usize = 40;
/// Lines kept of all panics together, and of each.
const PANICS: usize = 60;
const PANIC: usize = 6;

/// The kept lines of a program's output, of both streams together.
#[derive(Debug, Default)]
pub struct Echo {
    lines: Mutex<Lines>,
}

/// A test that lacked a prerequisite and did nothing. Tests report it in a line `skipped: NAME: reason`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub name: String,
    pub reason: String,
}

impl Skipped {
    fn parse(line: &str) -> Option<Skipped> {
        let (name, reason) = line.strip_prefix("skipped: ")?.split_once(": ")?;
        let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
        is_name.then(|| Skipped { name: name.to_owned(), reason: reason.to_owned() })
    }
}

#[derive(Debug, Default)]
struct Lines {
    skipped: Vec<Skipped>,
    panics: Vec<String>,
    /// Remaining lines of the previous panic.
    following: usize,
    last: VecDeque<String>,
}

impl Echo {
    /// Forwards everything until the end of the stream. Bytes are forwarded unchanged; the kept lines are text.
    pub fn pass(&self, from: impl Read, mut to: impl Write) {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while let Ok(1..) = from.read_until(b'\n', &mut line) {
            // A closed output is ignored; the program continues.
            let _ = to.write_all(&line).and_then(|()| to.flush());
            self.keep(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
    }

    /// Returns panics first, then the last lines.
    pub fn kept(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let panics = lines.panics.iter().filter(|line| !lines.last.contains(line));
        panics.chain(&lines.last).map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Returns the tests that were reported as skipped.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).skipped.clone()
    }

    fn keep(&self, line: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.skipped.extend(Skipped::parse(line));
        if line.contains("panicked at") {
            lines.following = PANIC;
        }
        if lines.following > 0 && lines.panics.len() < PANICS {
            lines.following -= 1;
            lines.panics.push(line.to_owned());
        }
        if !line.trim().is_empty() {
            lines.last.push_back(line.to_owned());
        }
        if lines.last.len() > LAST {
            lines.last.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_passed_on_and_panics_and_the_end_are_kept() {
        let mut text = String::from("thread 'one' panicked at src/a.rs:1:\nleft is not right\n");
        (0..200).for_each(|number| text.push_str(&format!("line {number}\n")));
        let (echo, mut passed) = (Echo::default(), Vec::new());
        echo.pass(text.as_bytes(), &mut passed);
        assert_eq!(String::from_utf8(passed).unwrap(), text);
        let kept = echo.kept();
        assert!(
            kept.starts_with("thread 'one' panicked at src/a.rs:1:\nleft is not right\nline 0\n"),
            "{kept}"
        );
        assert!(kept.ends_with("line 199") && !kept.contains("line 100"), "{kept}");
    }

    #[test]
    fn skipped_tests_are_collected_from_lines_of_the_exact_form() {
        let echo = Echo::default();
        let text =
            "skipped: net::ipv6: no address ::1\nskipped: no name here: really\nthis was skipped: a: b\n";
        echo.pass(text.as_bytes(), Vec::new());
        let expected = Skipped { name: "net::ipv6".to_owned(), reason: "no address ::1".to_owned() };
        assert_eq!(echo.skipped(), [expected]);
    }

    #[test]
    fn output_that_is_no_text_is_passed_as_it_is() {
        let (echo, mut passed) = (Echo::default(), Vec::new());
        echo.pass(&b"\xff\xfe no line end"[..], &mut passed);
        assert_eq!(passed, b"\xff\xfe no line end");
    }
}
