//! Text output of check reports, 100 columns wide.

use std::fmt::Write;

use super::check::{Accessor, CheckReport, Finding};
use super::conflict::Problem;
use super::listing::offset;

/// Formats a report as text.
pub fn check_text(report: &CheckReport) -> String {
    let mut text = String::new();
    let notes = report.findings.iter().filter(|finding| finding.problem.is_note()).count();
    let problems = report.problems();
    let _ = match (problems, notes) {
        (0, 0) => writeln!(text, "== check: nothing found"),
        (0, _) => writeln!(text, "== check: no problem, {notes} {}", plural(notes as u64, "note")),
        (_, 0) => writeln!(text, "== check: {problems} {}", plural(problems, "problem")),
        _ => writeln!(
            text,
            "== check: {problems} {}, {notes} {}",
            plural(problems, "problem"),
            plural(notes as u64, "note")
        ),
    };
    for (number, finding) in report.findings.iter().enumerate() {
        describe(&mut text, number + 1, finding);
    }
    if report.more > 0 {
        let _ = writeln!(text, "\nand {} more, which are not listed", report.more);
    }
    if report.unchecked > 0 {
        let _ = writeln!(
            text,
            "\n{} accesses were not checked for races: the kernel touches more than 32 MiB of global memory",
            report.unchecked
        );
    }
    text
}

fn describe(text: &mut String, number: usize, finding: &Finding) {
    let what = match finding.problem {
        Problem::Fault => "fault",
        Problem::LocalRace => "race on local memory",
        Problem::GlobalRace => "race on global memory",
        Problem::LocalOutOfBounds => "out-of-bounds access to local memory",
        Problem::LocalUnset => "read of local memory that was never written",
        Problem::SameInstruction => "note: lanes write different values to one address",
    };
    let _ = writeln!(text, "\n{number}. {what} in {}", finding.kernel);
    if let Some(access) = &finding.access {
        accessor(text, finding, access);
    }
    if let Some(other) = &finding.other {
        accessor(text, finding, other);
    }
    if let Some(detail) = &finding.detail {
        for part in detail.split("; ") {
            let _ = writeln!(text, "   {part}");
        }
    }
    let _ = match finding.times {
        1 => writeln!(text, "   in launch {}", finding.launch),
        times => writeln!(text, "   seen {times} times, first in launch {}", finding.launch),
    };
}

fn accessor(text: &mut String, finding: &Finding, accessor: &Accessor) {
    let _ = write!(text, "   {:<6}{:<50}", offset(accessor.offset), accessor.instruction);
    if let Some(source) = &accessor.source {
        let _ = write!(text, " {}", source.rsplit('/').next().unwrap_or(source));
    }
    let [x, y, z] = accessor.workgroup;
    let _ = write!(text, "\n         {}", accessor.verb);
    if finding.address != 0 || finding.memory == "local" {
        let _ = match finding.memory {
            "local" => write!(text, " local {:#06x}", finding.address),
            _ => write!(text, " {:#x}", finding.address),
        };
    }
    let _ = write!(text, ", workgroup {x},{y},{z}, wave {}", accessor.wave);
    if let Some([x, y, z]) = accessor.work_item {
        let _ = write!(text, ", work-item {x},{y},{z}");
    }
    text.push('\n');
}

fn plural(count: u64, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
