//! Report of the check of memory accesses, from what a software GPU observed.

use board_contract::{AccessReport, Finding, FindingKind};

use crate::buffers::ForbiddenWrite;
use crate::observed::{Accessor, Observed, Problem, RawFinding, line_of};

/// Most findings of a report.
const MOST_FINDINGS: usize = 100;
/// Most characters of a text that contains names from the submission.
const MOST_TEXT: usize = 300;
/// What the emulator calls a kernel that its watchdog ended. Checked kernels are slow, so it is not a finding.
const TIMEOUT: &str = "watchdog:";

/// Adds what the sessions of a run observed. `lines` is the number of lines of the source.
pub(crate) fn add(report: &mut AccessReport, observed: Vec<Observed>, lines: usize) {
    for session in observed {
        report.launches += session.looked_at;
        let Some(check) = session.check else { continue };
        report.more += check.more;
        report.unchecked += check.unchecked;
        for raw in check.findings {
            if raw.detail.as_deref().is_some_and(|detail| detail.starts_with(TIMEOUT)) {
                continue;
            }
            add_finding(report, finding(&raw, lines));
        }
    }
    report.findings.sort_by_key(|finding| (finding.kind, finding.line));
}

/// Adds a write that the judge itself found after a call.
pub(crate) fn add_forbidden(report: &mut AccessReport, forbidden: &ForbiddenWrite, case: &str) {
    let kind = match forbidden {
        ForbiddenWrite::Guard { .. } => FindingKind::OutOfBounds,
        ForbiddenWrite::Input { .. } => FindingKind::InputWrite,
    };
    let finding = Finding {
        kind,
        line: None,
        other_line: None,
        kernel: String::new(),
        message: forbidden.message(),
        details: vec![format!("in the case {case}")],
        count: 1,
    };
    add_finding(report, finding);
}

/// Returns whether the report has a finding that is not only a note.
pub(crate) fn is_bad(report: &AccessReport) -> bool {
    report.more > 0 || report.findings.iter().any(|finding| !finding.kind.is_note())
}

/// Adds a finding. Instructions of the same lines are one finding.
fn add_finding(report: &mut AccessReport, new: Finding) {
    let same = |old: &&mut Finding| {
        let place = |finding: &Finding| (finding.kind, finding.line, finding.other_line);
        place(old) == place(&new)
            && old.kernel == new.kernel
            && (new.line.is_some() || old.message == new.message)
    };
    if let Some(old) = report.findings.iter_mut().find(same) {
        old.count += new.count;
    } else if report.findings.len() < MOST_FINDINGS {
        report.findings.push(new);
    } else {
        report.more += 1;
    }
}

fn finding(raw: &RawFinding, lines: usize) -> Finding {
    let line = |access: &Option<Accessor>| {
        access.as_ref().and_then(|access| access.source.as_deref()).and_then(|source| line_of(source, lines))
    };
    let (mut first, mut second) = (line(&raw.access), line(&raw.other));
    // The earlier line comes first, so that the same two lines are one finding in either order.
    if second.is_some() && (first.is_none() || second < first) {
        std::mem::swap(&mut first, &mut second);
    }
    let accesses = [&raw.access, &raw.other].into_iter().flatten().map(|access| described(raw, access));
    Finding {
        kind: kind(raw),
        line: first,
        other_line: second.filter(|other| Some(*other) != first),
        kernel: shortened(&raw.kernel),
        message: message(raw),
        details: accesses.collect(),
        count: raw.times,
    }
}

fn kind(raw: &RawFinding) -> FindingKind {
    match raw.problem {
        Problem::Fault
            if raw.detail.as_deref().is_some_and(|text| text.starts_with("memory access fault")) =>
        {
            FindingKind::OutOfBounds
        }
        Problem::Fault => FindingKind::Fault,
        Problem::LocalRace => FindingKind::LocalRace,
        Problem::GlobalRace => FindingKind::GlobalRace,
        Problem::LocalOutOfBounds => FindingKind::OutOfBounds,
        Problem::LocalUnset => FindingKind::UninitialisedRead,
        Problem::SameInstruction => FindingKind::SameAddress,
    }
}

fn message(raw: &RawFinding) -> String {
    let detail = raw.detail.as_deref().unwrap_or_default();
    let text = match raw.problem {
        Problem::Fault => detail.to_owned(),
        Problem::LocalRace => {
            "race on local memory: two waves access the same byte without a barrier between them, and one writes".to_owned()
        }
        Problem::GlobalRace => {
            "race on global memory: two workgroups access the same byte without an order, and one writes".to_owned()
        }
        Problem::LocalOutOfBounds => format!("access to local memory out of bounds: {detail}"),
        Problem::LocalUnset => "read of local memory that the workgroup has not written".to_owned(),
        Problem::SameInstruction => "lanes write different values to the same address in one instruction".to_owned(),
    };
    shortened(&text)
}

/// Describes an access: `work-item 64,0,0 of workgroup 0,0,0 (wave 1) writes local 0x100: ds_write_b32 v1, v2`.
fn described(raw: &RawFinding, access: &Accessor) -> String {
    let numbers = |numbers: [u32; 3]| numbers.map(|number| number.to_string()).join(",");
    let item = access.work_item.map_or("a wave".to_owned(), |item| format!("work-item {}", numbers(item)));
    let Accessor { verb, wave, instruction, .. } = access;
    let group = numbers(access.workgroup);
    let place = match raw.address {
        0 => String::new(),
        address => format!(" {} {address:#x}", raw.memory),
    };
    shortened(&format!("{item} of workgroup {group} (wave {wave}) {verb}{place}: {instruction}"))
}

pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} ...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn access(line: u32) -> Value {
        json!({
            "function": "solution", "offset": 4, "instruction": "ds_write_b32 v1, v2", "source": format!("solution.hip:{line}"),
            "verb": "writes", "workgroup": [0, 0, 0], "wave": 1, "work_item": [64, 0, 0]
        })
    }

    fn race(first: u32, second: u32) -> Value {
        json!({
            "problem": "local-race", "kernel": "solution", "launch": 0, "memory": "local", "address": 256, "bytes": 4,
            "access": access(first), "other": access(second), "detail": null, "times": 3
        })
    }

    fn report(findings: Vec<Value>) -> AccessReport {
        let text = json!({ "looked_at": 2, "check": { "findings": findings, "more": 0, "unchecked": 0 } });
        let mut report = AccessReport::default();
        add(&mut report, vec![serde_json::from_value(text).unwrap()], 20);
        report
    }

    #[test]
    fn a_race_of_the_same_lines_is_one_finding_in_either_order() {
        let report = report(vec![race(5, 9), race(9, 5), race(5, 5)]);
        assert_eq!(report.findings.len(), 2);
        let both = report.findings.iter().find(|finding| finding.other_line == Some(9)).unwrap();
        assert_eq!((both.line, both.count), (Some(5), 6));
        assert!(is_bad(&report));
    }

    #[test]
    fn findings_are_bounded() {
        let findings = (0..150).map(|index| {
            let mut race = race(5, 5);
            race["kernel"] = json!(format!("{}{index}", "k".repeat(1000)));
            race
        });
        let report = report(findings.collect());
        assert!(report.findings.iter().all(|finding| finding.kernel.len() < 400));
        assert!(report.findings.len() as u64 + report.more <= 150 && report.findings.len() <= MOST_FINDINGS);
    }

    #[test]
    fn a_slow_kernel_is_not_a_finding_and_a_note_is_not_bad() {
        let mut slow = race(5, 5);
        (slow["problem"], slow["detail"]) =
            (json!("fault"), json!("watchdog: the kernel ran past its time limit"));
        let mut note = race(6, 6);
        note["problem"] = json!("same-instruction");
        let report = report(vec![slow, note]);
        assert_eq!(report.findings.len(), 1);
        assert!(!is_bad(&report));
    }
}
