//! Formats the events of a submission for the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use board_contract::{
    AccessReport, BenchmarkResult, Bill, DebugInfo, ElementKind, Event, EventRecord, KernelFacts,
    OutputDifferences, ProfileReport, SampleResult, SampleValue, Status, Submitted, TestResult, Verdict,
};

const SAMPLES: usize = 10;
/// Source lines of a profile that are shown.
const LINES: usize = 20;

/// Formats events as lines. On a terminal it uses colours, and a status line that is overwritten by the next event.
#[derive(Debug)]
pub struct Report {
    colours: bool,
    /// Whether the last line is a status line, which the next line overwrites.
    open: bool,
    headings: (bool, bool),
}

#[derive(Clone, Copy)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Grey = 90,
}

impl Report {
    pub fn new(colours: bool) -> Report {
        Report { colours, open: false, headings: (false, false) }
    }

    /// Formats a table of the submissions of one source on several devices.
    pub fn comparison(&mut self, ended: &[(Submitted, EventRecord)]) -> String {
        let mut text = self.line("");
        let _ = writeln!(text, "{:<20} {:<22} {:>12} {:>10}", "device", "verdict", "time", "GFLOP/s");
        for (submitted, last) in ended {
            let (time, rate) = match &last.event {
                Event::Benchmarked { avg_runtime_ms, avg_gflops, .. } => (
                    format!("{avg_runtime_ms:.4} ms"),
                    avg_gflops.map_or_else(String::new, |rate| format!("{rate:.1}")),
                ),
                _ => (String::new(), String::new()),
            };
            let verdict = last.event.status().to_string();
            let row = format!("{:<20} {verdict:<22} {time:>12} {rate:>10}", words(&submitted.gpu));
            let _ = writeln!(text, "{}", row.trim_end());
        }
        text
    }

    /// Formats the start of a submission, with its device if there are several.
    pub fn accepted(&mut self, submitted: &Submitted, several: bool) -> String {
        self.headings = (false, false);
        let text = match several {
            true => format!("submission {} on {}", words(&submitted.id), words(&submitted.gpu)),
            false => format!("submission {}", words(&submitted.id)),
        };
        let text = self.paint(&text, Colour::Grey);
        self.line(&text)
    }

    pub fn note(&mut self, text: &str) -> String {
        let text = self.paint(text, Colour::Yellow);
        self.passing(&text)
    }

    /// Formats an event.
    pub fn event(&mut self, record: &EventRecord) -> String {
        let text = match &record.event {
            Event::InQueue { message, expected_wait_s: wait, .. } => {
                let wait = if *wait >= 1.0 { format!(", about {wait:.0} s") } else { String::new() };
                self.passing(&format!("{}{wait}", words(message)))
            }
            Event::Provisioning { message }
            | Event::Compiling { message }
            | Event::Checking { message, .. }
            | Event::Benchmarking { message, .. } => self.passing(words(message)),
            Event::Warning { message } => {
                let text = self.paint(&format!("warning: {}", words(message)), Colour::Yellow);
                self.line(&text)
            }
            Event::Compiled { compile_ms, kernels, warnings, .. } => {
                self.compiled(*compile_ms, kernels, warnings)
            }
            // Stored with the submission, not streamed.
            Event::Isa { .. } => String::new(),
            Event::TestResult { result, .. } => self.checked_case(result),
            Event::BenchmarkResult { result, .. } => self.measured_case(result),
            Event::SandboxOutput { line, .. } => self.line(words(line)),
            Event::Checked { passed_tests, total_tests, .. } => {
                let text = format!("{passed_tests} of {total_tests} cases passed");
                let text = self.paint(&text, Colour::Green);
                self.line(&text)
            }
            event @ Event::Benchmarked { .. } => self.measured(event),
            Event::WrongAnswer { debug_info, passed_tests, total_tests, .. } => {
                self.wrong(debug_info, *passed_tests, *total_tests)
            }
            Event::Passed(sample) | Event::Failed(sample) => {
                let status = record.event.status();
                let parts = sample_parts(sample);
                self.ended(status, "", &parts.each_ref().map(|(label, text)| (*label, text.as_str())))
            }
            Event::Clean { report } | Event::Findings { report } => {
                self.accesses(record.event.status(), report)
            }
            Event::Profiled { profile } => self.profiled(profile),
            Event::SandboxSuccess { stdout, stderr, .. } => {
                self.ended(Status::SandboxSuccess, "", &[("stdout", stdout), ("stderr", stderr)])
            }
            Event::SandboxError { message, stdout, stderr, .. }
            | Event::SandboxTimeout { message, stdout, stderr } => {
                self.ended(record.event.status(), message, &[("stdout", stdout), ("stderr", stderr)])
            }
            Event::CompileError { message, details }
            | Event::RuntimeError { message, details }
            | Event::TimeLimitExceeded { message, details }
            | Event::MemoryLimitExceeded { message, details }
            | Event::Rejected { message, details, .. }
            | Event::Error { message, details, .. } => {
                self.ended(record.event.status(), message, &[("", details)])
            }
            Event::Cancelled { message } => self.ended(Status::Cancelled, message, &[]),
        };
        // A check that ends a submission shows no time, as its cases were not measured.
        match (&record.event, record.bill) {
            (Event::Checked { .. } | Event::Compiled { .. }, _) | (_, None) => text,
            (_, Some(bill)) => text + &self.bill(bill),
        }
    }

    fn compiled(&mut self, compile_ms: f64, kernels: &[KernelFacts], warnings: &str) -> String {
        let mut text = self.line(&format!("compiled in {compile_ms:.0} ms"));
        for kernel in kernels {
            let _ = writeln!(
                text,
                "  {}: {} VGPRs, {} SGPRs, {} bytes of LDS, {} of scratch; {} waves per SIMD with workgroups of {}",
                words(&kernel.name),
                kernel.vgprs + kernel.agprs,
                kernel.sgprs,
                kernel.lds_bytes,
                kernel.scratch_bytes,
                kernel.waves_per_simd,
                kernel.workgroup
            );
        }
        if !warnings.trim().is_empty() {
            let _ = writeln!(text, "{}", self.paint(warnings.trim_end(), Colour::Yellow));
        }
        text
    }

    fn checked_case(&mut self, result: &TestResult) -> String {
        let mut text = String::new();
        if !std::mem::replace(&mut self.headings.0, true) {
            text += &self.line(&format!("{:>4}  {:<32} {:<8} {:>14}", "CASE", "", "", "DIFFERENCE"));
        }
        let (verdict, colour) = match result.status {
            Verdict::Passed => ("passed", Colour::Green),
            Verdict::Failed => ("failed", Colour::Red),
        };
        let verdict = self.paint(&format!("{verdict:<8}"), colour);
        let difference = format!("{:.3e}", result.max_difference);
        let row = format!("{:>4}  {:<32} {verdict} {difference:>14}", result.test_id, words(&result.name));
        text + &self.line(&row)
    }

    fn measured_case(&mut self, result: &BenchmarkResult) -> String {
        let mut text = String::new();
        if !std::mem::replace(&mut self.headings.1, true) {
            let heading = format!(
                "{:>4}  {:<32} {:>12} {:>23} {:>10} {:>10}",
                "CASE", "", "MEDIAN", "95 % OF MEDIANS", "GFLOP/s", "GB/s"
            );
            text += &self.line(&heading);
        }
        let range = format!("{} to {}", time(result.ci_low_ms), time(result.ci_high_ms));
        let row = format!(
            "{:>4}  {:<32} {:>12} {range:>23} {:>10} {:>10}",
            result.test_id,
            words(&result.name),
            time(result.runtime_ms),
            result.gflops.map_or("-".to_owned(), |rate| format!("{rate:.1}")),
            format!("{:.1}", result.gbytes_per_s)
        );
        text + &self.line(&row)
    }

    fn measured(&mut self, event: &Event) -> String {
        let Event::Benchmarked {
            avg_runtime_ms,
            ci_low_ms,
            ci_high_ms,
            avg_gflops,
            emulated,
            device,
            deterministic,
            flags,
            ..
        } = event
        else {
            return String::new();
        };
        let mut verdict = format!("accepted: {} on average", time(*avg_runtime_ms));
        if let (Some(low), Some(high)) = (ci_low_ms, ci_high_ms) {
            let _ = write!(verdict, " ({} to {})", time(*low), time(*high));
        }
        if let Some(rate) = avg_gflops {
            let _ = write!(verdict, ", {rate:.1} GFLOP/s");
        }
        match device {
            _ if *emulated => verdict.push_str(" (software GPU)"),
            Some(device) => {
                let _ = write!(verdict, " ({})", words(device));
            }
            None => {}
        }
        let mut text = self.paint(&verdict, Colour::Green);
        if !deterministic {
            let note = self.paint("not deterministic: equal inputs gave different bits", Colour::Grey);
            let _ = write!(text, "\n{note}");
        }
        for flag in flags {
            let flag = self.paint(&format!("flagged: {}", words(flag)), Colour::Yellow);
            let _ = write!(text, "\n{flag}");
        }
        self.line(&text)
    }

    fn accesses(&mut self, status: Status, report: &AccessReport) -> String {
        let mut text = self.ended(status, &format!("{} cases checked", report.cases.len()), &[]);
        for finding in &report.findings {
            let line = finding.line.map_or("-".to_owned(), |line| line.to_string());
            let other = finding.other_line.map_or(String::new(), |line| format!(" and line {line}"));
            let place = self.paint(&format!("line {line}{other}"), Colour::Yellow);
            let _ = writeln!(
                text,
                "  {place}: {} ({}, {} times)",
                shown(&finding.message),
                finding.kind,
                finding.count
            );
            for detail in &finding.details {
                let _ = writeln!(text, "      {}", shown(detail));
            }
        }
        if report.more > 0 {
            let _ = writeln!(text, "  and {} more", report.more);
        }
        if !report.stopped.is_empty() {
            let _ = writeln!(text, "  {}", shown(&report.stopped));
        }
        text
    }

    fn profiled(&mut self, profile: &ProfileReport) -> String {
        let message = format!("{} on a software {}", profile.case, profile.gpu);
        let mut text = self.ended(Status::Profiled, &message, &[]);
        for kernel in &profile.kernels {
            let _ = writeln!(
                text,
                "  {}: {} instructions, {} estimated, limited by {}",
                shown(&kernel.kernel),
                kernel.instructions,
                time(kernel.estimated_ms),
                shown(&kernel.limited_by)
            );
            let _ = writeln!(
                text,
                "  {:>6} {:>14} {:>7} {:>7} {:>6} {:>14} {:>10}",
                "LINE", "INSTRUCTIONS", "SHARE", "WAITS", "LANES", "GLOBAL BYTES", "CONFLICTS"
            );
            for line in kernel.lines.iter().take(LINES) {
                let _ = writeln!(
                    text,
                    "  {:>6} {:>14} {:>6.1}% {:>6.1}% {:>6.1} {:>14} {:>10}",
                    line.line.map_or("-".to_owned(), |line| line.to_string()),
                    line.instructions,
                    100.0 * line.share,
                    100.0 * line.stalled,
                    line.lanes,
                    line.global_bytes,
                    line.bank_conflicts
                );
            }
        }
        text
    }

    fn wrong(&mut self, info: &DebugInfo, passed_tests: usize, total_tests: usize) -> String {
        let head = format!("wrong answer: {passed_tests} of {total_tests} cases passed");
        let head = self.paint(&head, Colour::Red);
        let mut text = self.line(&head);
        if !info.message.is_empty() {
            let _ = writeln!(text, "  {}", words(&info.message));
        }
        let _ = writeln!(text, "  case {}", words(&info.case));
        for output in &info.outputs {
            self.differences(&mut text, output);
        }
        text
    }

    fn differences(&self, text: &mut String, output: &OutputDifferences) {
        let OutputDifferences { output: name, mismatches, total_elements, max_difference, .. } = output;
        if *mismatches == 0 {
            let _ = writeln!(text, "  {}: all {total_elements} elements are right", words(name));
            return;
        }
        let _ = writeln!(
            text,
            "  {}: {mismatches} of {total_elements} elements differ, by at most {max_difference:?}",
            words(name)
        );
        if output.samples.is_empty() {
            return;
        }
        let _ = writeln!(text, "  {:<20} {:>18} {:>18} {:>14}", "ELEMENT", "EXPECTED", "YOURS", "DIFFERENCE");
        for sample in output.samples.iter().take(SAMPLES) {
            let index: Vec<String> = sample.index.iter().map(usize::to_string).collect();
            let index = format!("({})", index.join(", "));
            let expected = self.paint(&format!("{:>18}", words(&sample.expected)), Colour::Green);
            let colour = match sample.kind {
                ElementKind::NotANumber => Colour::Yellow,
                _ => Colour::Red,
            };
            let actual = self.paint(&format!("{:>18}", words(&sample.actual)), colour);
            let _ = writeln!(text, "  {index:<20} {expected} {actual} {:>14}", shown(&sample.diff));
        }
    }

    /// Formats the end of a submission: the status, a message, and labelled parts.
    fn ended(&mut self, status: Status, message: &str, parts: &[(&str, &str)]) -> String {
        let verdict = status.name().to_lowercase().replace('_', " ");
        let message = words(message);
        let verdict = if message.is_empty() { verdict } else { format!("{verdict}: {message}") };
        let colour = if status.is_success() { Colour::Green } else { Colour::Red };
        let verdict = self.paint(&verdict, colour);
        let mut text = self.line(&verdict);
        for (label, said) in parts {
            let said = shown(said);
            if !said.trim().is_empty() {
                let label = if label.is_empty() { String::new() } else { format!("{label}:\n") };
                let _ = writeln!(text, "{label}{}", said.trim_end());
            }
        }
        text
    }

    fn bill(&self, Bill { execution_time: seconds, cost_usd: usd }: Bill) -> String {
        let cost = if usd > 0.0 { format!(", ${usd:.4}") } else { String::new() };
        self.paint(&format!("{seconds:.1} s{cost}"), Colour::Grey) + "\n"
    }

    /// A permanent line.
    fn line(&mut self, text: &str) -> String {
        let erase = if std::mem::replace(&mut self.open, false) { "\r\x1b[K" } else { "" };
        format!("{erase}{text}\n")
    }

    /// A status line, which the next line overwrites on a terminal.
    fn passing(&mut self, text: &str) -> String {
        if !self.colours {
            return self.line(text);
        }
        let erase = if std::mem::replace(&mut self.open, true) { "\r\x1b[K" } else { "" };
        format!("{erase}{text}")
    }

    fn paint(&self, text: &str, colour: Colour) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
    }
}

/// Returns the parts of a sample, with their labels.
fn sample_parts(sample: &SampleResult) -> [(&'static str, String); 5] {
    let json = |values: &BTreeMap<String, SampleValue>| serde_json::to_string(values).unwrap_or_default();
    [
        ("stdout", sample.stdout.clone()),
        ("stderr", sample.stderr.clone()),
        ("input", json(&sample.input)),
        ("output", json(&sample.output)),
        ("expected_output", json(&sample.expected_output)),
    ]
}

/// Text from the server; empty if it contains escape sequences, which could control the terminal.
fn words(text: &str) -> &str {
    if text.contains('\x1b') { "" } else { text }
}

/// Text from the server without control characters.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn time(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.2} us", ms * 1000.0),
        ms if ms < 1000.0 => format!("{ms:.3} ms"),
        ms => format!("{:.3} s", ms / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn record(status: &str, fields: Value) -> EventRecord {
        let mut all = json!({ "status": status, "submission_id": "s", "timestamp": 0 });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn without_a_terminal_every_event_is_a_plain_line() {
        let mut report = Report::new(false);
        let queued = json!({ "message": "Place 3", "position": 3, "expected_wait_s": 12.4 });
        let text = report.event(&record("IN_QUEUE", queued));
        assert_eq!(text, "Place 3, about 12 s\n");
        assert_eq!(report.event(&record("COMPILING", json!({ "message": "Compiling" }))), "Compiling\n");
    }

    #[test]
    fn on_a_terminal_passing_lines_are_written_over() {
        let mut report = Report::new(true);
        assert_eq!(report.event(&record("COMPILING", json!({ "message": "Compiling" }))), "Compiling");
        let next = report.event(&record("CHECKED", json!({ "passed_tests": 2, "total_tests": 2 })));
        assert_eq!(next, "\r\x1b[K\x1b[32m2 of 2 cases passed\x1b[0m\n");
    }

    #[test]
    fn a_wrong_answer_shows_what_differs() {
        let data = json!({
            "passed_tests": 1, "total_tests": 3, "execution_time": 0.5, "cost_usd": 0.0,
            "debug_info": {
                "case": "n=3", "message": "wrong", "outputs": [
                    { "output": "labels", "total_elements": 3 },
                    {
                        "output": "weights", "mismatches": 3, "total_elements": 9, "max_difference": 1.5, "samples": [
                            { "index": [0, 2], "expected": "2.5", "actual": "1.0", "diff": "1.5", "kind": "number" },
                            { "index": [0, 10], "expected": "2.5", "actual": "not a number", "diff": "not a number",
                              "kind": "not-a-number" }
                        ]
                    }
                ]
            }
        });
        let text = Report::new(false).event(&record("WRONG_ANSWER", data));
        assert!(text.contains("1 of 3 cases passed"), "{text}");
        assert!(text.contains("case n=3\n  labels: all 3 elements are right\n"), "{text}");
        assert!(text.contains("weights: 3 of 9 elements differ, by at most 1.5"), "{text}");
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.contains("(0, "))
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0], ["(0,", "2)", "2.5", "1.0", "1.5"]);
        assert_eq!(rows[1].join(" "), "(0, 10) 2.5 not a number not a number");
        assert!(text.ends_with("0.5 s\n"), "{text}");
    }

    #[test]
    fn an_accepted_submission_shows_its_interval_and_that_it_is_not_deterministic() {
        let data = json!({
            "avg_runtime_ms": 1.5, "ci_low_ms": 1.25, "ci_high_ms": 2.0, "total_tests": 1, "emulated": true,
            "deterministic": false, "flags": []
        });
        let text = Report::new(false).event(&record("BENCHMARKED", data));
        assert!(
            text.starts_with("accepted: 1.500 ms on average (1.250 ms to 2.000 ms) (software GPU)\n"),
            "{text}"
        );
        assert!(text.contains("not deterministic") && !text.contains("flagged"), "{text}");
    }

    #[test]
    fn what_a_kernel_says_cannot_steer_the_terminal() {
        let data = json!({ "message": "\u{1b}[2J", "details": "a\u{1b}[31mb\r\nc" });
        let text = Report::new(false).event(&record("COMPILE_ERROR", data));
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
        assert!(text.contains("a[31mb\nc"), "{text:?}");
    }
}
