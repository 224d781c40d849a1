//! Formats the events of a submission for the terminal.

use std::fmt::Write as _;

use serde_json::Value;

const SAMPLES: usize = 10;

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

    pub fn accepted(&mut self, id: &str) -> String {
        let text = format!("submission {id}");
        let text = self.paint(&text, Colour::Grey);
        self.line(&text)
    }

    pub fn note(&mut self, text: &str) -> String {
        let text = self.paint(text, Colour::Yellow);
        self.passing(&text)
    }

    pub fn event(&mut self, status: &str, data: &Value) -> String {
        match status {
            "IN_QUEUE" => {
                let wait = data["expected_wait_s"].as_f64().unwrap_or(0.0);
                let wait = if wait >= 1.0 { format!(", about {wait:.0} s") } else { String::new() };
                self.passing(&format!("{}{wait}", words(&data["message"])))
            }
            "PROVISIONING" | "COMPILING" | "CHECKING" | "BENCHMARKING" => {
                self.passing(words(&data["message"]))
            }
            "WARNING" => {
                let text = self.paint(&format!("warning: {}", words(&data["message"])), Colour::Yellow);
                self.line(&text)
            }
            "COMPILED" => self.compiled(data),
            "TEST_RESULT" => self.checked_case(&data["result"]),
            "BENCHMARK_RESULT" => self.measured_case(&data["result"]),
            "SANDBOX_OUTPUT" => self.line(words(&data["line"])),
            "CHECKED" => {
                let text = format!("{} of {} cases passed", data["passed_tests"], data["total_tests"]);
                let text = self.paint(&text, Colour::Green);
                self.line(&text)
            }
            "BENCHMARKED" => self.measured(data),
            "WRONG_ANSWER" => self.wrong(data),
            "PASSED" | "SANDBOX_SUCCESS" => self.ended(status, data, Colour::Green),
            _ => self.ended(status, data, Colour::Red),
        }
    }

    fn compiled(&mut self, data: &Value) -> String {
        let mut text =
            self.line(&format!("compiled in {:.0} ms", data["compile_ms"].as_f64().unwrap_or(0.0)));
        for kernel in data["kernels"].as_array().into_iter().flatten() {
            let count = |name: &str| kernel[name].as_i64().unwrap_or(0);
            let _ = writeln!(
                text,
                "  {}: {} VGPRs, {} SGPRs, {} bytes of LDS, {} of scratch, {} waves per SIMD",
                words(&kernel["name"]),
                count("vgprs") + count("agprs"),
                count("sgprs"),
                count("lds_bytes"),
                count("scratch_bytes"),
                count("waves_per_simd")
            );
        }
        if let Some(warnings) = data["warnings"].as_str().filter(|warnings| !warnings.trim().is_empty()) {
            let _ = writeln!(text, "{}", self.paint(warnings.trim_end(), Colour::Yellow));
        }
        text
    }

    fn checked_case(&mut self, result: &Value) -> String {
        let mut text = String::new();
        if !std::mem::replace(&mut self.headings.0, true) {
            text += &self.line(&format!("{:>4}  {:<32} {:<8} {:>14}", "CASE", "", "", "DIFFERENCE"));
        }
        let passed = result["status"] == "PASSED";
        let verdict = format!("{:<8}", if passed { "passed" } else { "failed" });
        let verdict = self.paint(&verdict, if passed { Colour::Green } else { Colour::Red });
        let difference =
            result["max_difference"].as_f64().map_or(String::new(), |most| format!("{most:.3e}"));
        let row =
            format!("{:>4}  {:<32} {verdict} {difference:>14}", result["test_id"], words(&result["name"]));
        text + &self.line(&row)
    }

    fn measured_case(&mut self, result: &Value) -> String {
        let mut text = String::new();
        if !std::mem::replace(&mut self.headings.1, true) {
            let heading = format!(
                "{:>4}  {:<32} {:>12} {:>23} {:>10} {:>10}",
                "CASE", "", "MEDIAN", "95 % OF MEDIANS", "GFLOP/s", "GB/s"
            );
            text += &self.line(&heading);
        }
        let number = |name: &str| result[name].as_f64();
        let range = match (number("ci_low_ms"), number("ci_high_ms")) {
            (Some(low), Some(high)) => format!("{} to {}", time(low), time(high)),
            _ => String::new(),
        };
        let rate = |name: &str| number(name).map_or("-".to_owned(), |rate| format!("{rate:.1}"));
        let row = format!(
            "{:>4}  {:<32} {:>12} {range:>23} {:>10} {:>10}",
            result["test_id"],
            words(&result["name"]),
            time(number("runtime_ms").unwrap_or(0.0)),
            rate("gflops"),
            rate("gbytes_per_s")
        );
        text + &self.line(&row)
    }

    fn measured(&mut self, data: &Value) -> String {
        let mut verdict =
            format!("accepted: {} on average", time(data["avg_runtime_ms"].as_f64().unwrap_or(0.0)));
        if let Some(rate) = data["avg_gflops"].as_f64() {
            let _ = write!(verdict, ", {rate:.1} GFLOP/s");
        }
        if data["emulated"] == true {
            verdict.push_str(" (software GPU)");
        }
        let mut text = self.paint(&verdict, Colour::Green);
        for flag in data["flags"].as_array().into_iter().flatten() {
            let flag = self.paint(&format!("flagged: {}", words(flag)), Colour::Yellow);
            let _ = write!(text, "\n{flag}");
        }
        let bill = self.bill(data);
        self.line(&format!("{text}{bill}"))
    }

    fn wrong(&mut self, data: &Value) -> String {
        let info = &data["debug_info"];
        let head = format!("wrong answer: {} of {} cases passed", data["passed_tests"], data["total_tests"]);
        let head = self.paint(&head, Colour::Red);
        let mut text = self.line(&head);
        if let Some(message) = info["message"].as_str() {
            let _ = writeln!(text, "  {message}");
        }
        let _ = writeln!(
            text,
            "  case {}: {} of {} elements differ, by at most {}",
            words(&info["case"]),
            info["mismatches"],
            info["total_elements"],
            info["max_difference"]
        );
        let samples = info["sample_differences"].as_object();
        if let Some(samples) = samples.filter(|samples| !samples.is_empty()) {
            let _ =
                writeln!(text, "  {:<20} {:>18} {:>18} {:>14}", "ELEMENT", "EXPECTED", "YOURS", "DIFFERENCE");
            for (index, sample) in samples.iter().take(SAMPLES) {
                let expected = self.paint(&format!("{:>18}", words(&sample["expected"])), Colour::Green);
                let actual = self.paint(&format!("{:>18}", words(&sample["actual"])), Colour::Red);
                let _ = writeln!(text, "  {index:<20} {expected} {actual} {:>14}", shown(&sample["diff"]));
            }
        }
        let bill = self.bill(data);
        text + bill.trim_start_matches('\n') + if bill.is_empty() { "" } else { "\n" }
    }

    fn ended(&mut self, status: &str, data: &Value, colour: Colour) -> String {
        let verdict = status.to_lowercase().replace('_', " ");
        let message = words(&data["message"]);
        let verdict = if message.is_empty() { verdict } else { format!("{verdict}: {message}") };
        let verdict = self.paint(&verdict, colour);
        let mut text = self.line(&verdict);
        for part in ["details", "stdout", "stderr", "input", "output", "expected_output"] {
            let said = shown(&data[part]);
            if !said.trim().is_empty() {
                let label = if part == "details" { String::new() } else { format!("{part}:\n") };
                let _ = writeln!(text, "{label}{}", said.trim_end());
            }
        }
        let bill = self.bill(data);
        text + bill.trim_start_matches('\n') + if bill.is_empty() { "" } else { "\n" }
    }

    fn bill(&self, data: &Value) -> String {
        match (data["execution_time"].as_f64(), data["cost_usd"].as_f64()) {
            (Some(seconds), Some(usd)) if usd > 0.0 => {
                format!("\n{}", self.paint(&format!("{seconds:.1} s, ${usd:.4}"), Colour::Grey))
            }
            (Some(seconds), _) => format!("\n{}", self.paint(&format!("{seconds:.1} s"), Colour::Grey)),
            _ => String::new(),
        }
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

/// Text from the server; empty if it contains escape sequences, which could control the terminal.
fn words(value: &Value) -> &str {
    value.as_str().filter(|text| !text.contains('\x1b')).unwrap_or_default()
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
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
    use serde_json::json;

    #[test]
    fn without_a_terminal_every_event_is_a_plain_line() {
        let mut report = Report::new(false);
        let text = report.event("IN_QUEUE", &json!({ "message": "Place 3", "expected_wait_s": 12.4 }));
        assert_eq!(text, "Place 3, about 12 s\n");
        assert_eq!(report.event("COMPILING", &json!({ "message": "Compiling" })), "Compiling\n");
    }

    #[test]
    fn on_a_terminal_passing_lines_are_written_over() {
        let mut report = Report::new(true);
        assert_eq!(report.event("COMPILING", &json!({ "message": "Compiling" })), "Compiling");
        let next = report.event("CHECKED", &json!({ "passed_tests": 2, "total_tests": 2 }));
        assert_eq!(next, "\r\x1b[K\x1b[32m2 of 2 cases passed\x1b[0m\n");
    }

    #[test]
    fn a_wrong_answer_shows_what_differs() {
        let data = json!({
            "passed_tests": 1, "total_tests": 3, "execution_time": 0.5, "cost_usd": 0.0,
            "debug_info": {
                "case": "n=3", "mismatches": 2, "total_elements": 9, "max_difference": 1.5,
                "sample_differences": { "(0, 1)": { "expected": "2.5", "actual": "1.0", "diff": 1.5 } }
            }
        });
        let text = Report::new(false).event("WRONG_ANSWER", &data);
        assert!(text.contains("1 of 3 cases passed"), "{text}");
        assert!(text.contains("case n=3: 2 of 9 elements differ, by at most 1.5"), "{text}");
        let row: Vec<&str> =
            text.lines().find(|line| line.contains("(0, 1)")).unwrap().split_whitespace().collect();
        assert_eq!(row, ["(0,", "1)", "2.5", "1.0", "1.5"]);
        assert!(text.ends_with("0.5 s\n"), "{text}");
    }

    #[test]
    fn what_a_kernel_says_cannot_steer_the_terminal() {
        let data = json!({ "message": "\u{1b}[2J", "details": "a\u{1b}[31mb\r\nc" });
        let text = Report::new(false).event("COMPILE_ERROR", &data);
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
        assert!(text.contains("a[31mb\nc"), "{text:?}");
    }
}
