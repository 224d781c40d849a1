//! Text output of profiles, 100 columns wide.

use std::fmt::Write;

use super::listing::offset;
use super::profile::{Executed, KernelProfile, LocalTraffic, Place, Traffic, ratio};

/// Maximum line length.
const WIDTH: usize = 100;

/// Formats profiles as text.
pub fn profile_text(profiles: &[KernelProfile]) -> String {
    let mut text = String::new();
    for profile in profiles {
        heading(&mut text, profile);
        mix(&mut text, profile);
        control(&mut text, profile);
        global(&mut text, profile);
        local(&mut text, profile);
        places(&mut text, "bank conflicts, cycles lost", &profile.worst_conflicts);
        places(&mut text, "uncoalesced accesses, excess 64-byte lines", &profile.worst_lines);
        blocks(&mut text, profile);
        text.push('\n');
    }
    text
}

/// Appends a line without trailing spaces. Writing to a string cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let start = $text.len();
        let _ = write!($text, $($format)*);
        let kept = $text[start..].trim_end().len();
        $text.truncate(start + kept);
        $text.push('\n');
    }};
}
pub(crate) use line;

fn heading(text: &mut String, profile: &KernelProfile) {
    let name = shortened(&profile.kernel, WIDTH - 12);
    line!(text, "== profile: {name}");
    line!(
        text,
        "== {}, {}, {}, {}",
        counted(profile.launches, "launch", "launches"),
        counted(profile.workgroups, "workgroup", "workgroups"),
        counted(profile.waves, "wave", "waves"),
        counted(profile.instructions, "instruction", "instructions"),
    );
}

/// Writes classes on the left and the most executed opcodes on the right.
fn mix(text: &mut String, profile: &KernelProfile) {
    let row = |executed: Option<&Executed>, width: usize| match executed {
        None => String::new(),
        Some(executed) => format!(
            "{:<width$} {:>12} {:>5.1}% {:>5.1}",
            executed.name,
            executed.instructions,
            100.0 * ratio(executed.instructions, profile.instructions),
            executed.mean_lanes(),
        ),
    };
    line!(
        text,
        "\n{:<16} {:>12} {:>6} {:>5}    {:<26} {:>12} {:>6} {:>5}",
        "class",
        "executed",
        "share",
        "lanes",
        "operation",
        "executed",
        "share",
        "lanes"
    );
    let opcodes = profile.top_opcodes();
    for at in 0..profile.classes.len().max(opcodes.len()) {
        line!(text, "{:<42}    {}", row(profile.classes.get(at), 16), row(opcodes.get(at), 26));
    }
}

fn control(text: &mut String, profile: &KernelProfile) {
    line!(text, "\nlanes active in a vector instruction, mean {:>28.1} of 64", profile.mean_active_lanes);
    let part = |name: &str, part: u64, whole: u64, what: &str| {
        format!("{name:<42} {whole:>12}, {what} {part} ({:.1}%)", 100.0 * ratio(part, whole))
    };
    line!(
        text,
        "{}",
        part("branches on a scalar condition", profile.branches_taken, profile.branches, "taken")
    );
    let split = part("branches by EXEC mask", profile.masks_split, profile.masks, "divergent");
    line!(text, "{split}");
    line!(text, "{:<42} {:>12}", "barriers, by wave", profile.barriers);
}

fn global(text: &mut String, profile: &KernelProfile) {
    let rows: [(&str, &Traffic); 3] = [
        ("loads", &profile.global_loads),
        ("stores", &profile.global_stores),
        ("atomics", &profile.global_atomics),
    ];
    let scalar = &profile.scalar_loads;
    if rows.iter().all(|(_, traffic)| traffic.instructions == 0) && scalar.instructions == 0 {
        return;
    }
    line!(
        text,
        "\n{:<14} {:>12} {:>16} {:>14} {:>7} {:>14} {:>7}",
        "global memory",
        "executed",
        "bytes",
        "64 B lines",
        "used",
        "128 B lines",
        "used"
    );
    for (name, traffic) in rows.iter().filter(|(_, traffic)| traffic.instructions > 0) {
        line!(
            text,
            "{name:<14} {:>12} {:>16} {:>14} {:>6.1}% {:>14} {:>6.1}%",
            traffic.instructions,
            traffic.bytes,
            traffic.lines_64,
            100.0 * traffic.used_64(),
            traffic.lines_128,
            100.0 * traffic.used_128(),
        );
    }
    if scalar.instructions > 0 {
        line!(text, "{:<14} {:>12} {:>16}", "scalar", scalar.instructions, scalar.bytes);
    }
}

fn local(text: &mut String, profile: &KernelProfile) {
    let rows: [(&str, &LocalTraffic); 3] = [
        ("loads", &profile.local_loads),
        ("stores", &profile.local_stores),
        ("atomics", &profile.local_atomics),
    ];
    if rows.iter().all(|(_, traffic)| traffic.instructions == 0) {
        return;
    }
    line!(
        text,
        "\n{:<14} {:>12} {:>16} {:>14} {:>7} {:>14}",
        "local memory",
        "executed",
        "bytes",
        "cycles",
        "",
        "bank conflicts"
    );
    for (name, traffic) in rows.iter().filter(|(_, traffic)| traffic.instructions > 0) {
        line!(
            text,
            "{name:<14} {:>12} {:>16} {:>14} {:>7} {:>14}",
            traffic.instructions,
            traffic.bytes,
            traffic.cycles,
            "",
            traffic.conflicts
        );
    }
}

fn places(text: &mut String, title: &str, places: &[Place]) {
    if places.is_empty() {
        return;
    }
    line!(text, "\n{title}");
    for place in places {
        let source = place.source.as_deref().map_or("", file_name);
        line!(
            text,
            "{:>12}  {:<6}{:<48} {source}",
            place.cost,
            offset(place.offset),
            shortened(&place.text, 48)
        );
    }
}

fn blocks(text: &mut String, profile: &KernelProfile) {
    for (number, block) in profile.blocks.iter().enumerate() {
        let share = 100.0 * ratio(block.instructions, profile.instructions);
        // Skip blocks with a small share.
        if number > 0 && share < 5.0 {
            break;
        }
        line!(
            text,
            "\nhot block {}: {share:.1}% of the instructions, entered {}, in {}",
            number + 1,
            counted(block.executions, "time", "times"),
            shortened(&block.function, 40),
        );
        let mut before = "";
        // The hottest block gets more lines than the others.
        let shown = if number == 0 { 24 } else { 12 };
        for code in block.code.iter().take(shown) {
            let source = code.source.as_deref().map_or("", file_name);
            // A repeated source line is shown only once.
            let place = if source == before { "" } else { source };
            before = source;
            line!(text, "  {:<6}{:<60} {place}", offset(code.offset), shortened(&code.text, 60));
        }
        let left = block.omitted + block.code.len().saturating_sub(shown);
        if left > 0 {
            line!(text, "  and {} more", left);
        }
    }
}

/// Removes folders from `FILE:LINE`.
pub(crate) fn file_name(source: &str) -> &str {
    source.rsplit('/').next().unwrap_or(source)
}

pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 3).chain("...".chars()).collect()
}
