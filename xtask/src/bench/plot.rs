//! The plots of docs/performance.md.

use super::report::{Aim, Copies, Report, Row, number};
use super::svg::{Anchor, FAINT, GREY, INK, Svg};
use super::{calls, kernels};

const BLUE: &str = "#0969da";
const ORANGE: &str = "#bc4c00";
pub const GREEN: &str = "#1a7f37";
pub const RED: &str = "#cf222e";

/// Returns every plot: the name of its file and its SVG text.
pub fn all(report: &Report) -> Vec<(&'static str, String)> {
    vec![
        ("latency.svg", latency(report)),
        ("bandwidth.svg", bandwidth(report)),
        ("emulator.svg", emulator(report)),
    ]
}

/// Waiting calls next to the raw exchange of as many bytes.
fn latency(report: &Report) -> String {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.group == calls::WAITING).collect();
    let mut svg = Svg::new(720.0, 60.0 + 84.0 * rows.len() as f64);
    svg.text(
        (16.0, 24.0),
        Anchor::Start,
        15,
        INK,
        "Call that waits for its reply (median over rounds; dashed: aim)",
    );
    let left = 240.0;
    let longest = rows.iter().map(|row| row.judged()).fold(1.5, f64::max);
    let scale = 330.0 / longest;
    for (index, row) in rows.iter().enumerate() {
        let top = 44.0 + 84.0 * index as f64;
        let (name, _) = row.name.split_once(',').unwrap_or((&row.name, ""));
        let (_, cores) = row.name.rsplit_once(',').unwrap_or(("", ""));
        svg.text((left - 10.0, top + 20.0), Anchor::End, 13, INK, &format!("{name},{cores}"));
        svg.text((left - 10.0, top + 48.0), Anchor::End, 13, GREY, "raw TCP, same bytes");
        let ratio = row.judged();
        svg.bar((left, top + 4.0), ratio * scale, 22.0, if row.is_met() == Some(false) { RED } else { BLUE });
        svg.bar((left, top + 32.0), scale, 22.0, GREY);
        let aim = row.aim.map_or(1.0, Aim::limit);
        svg.line((left + aim * scale, top), (left + aim * scale, top + 60.0), INK, true);
        let beside = left + ratio.max(aim) * scale + 8.0;
        let text = format!("{}, {} us at best", number(ratio), number(row.best));
        svg.text((beside, top + 20.0), Anchor::Start, 13, INK, &text);
        let text = format!("1, {} us at best", number(row.reference.unwrap_or(f64::NAN)));
        svg.text((beside, top + 48.0), Anchor::Start, 13, GREY, &text);
    }
    svg.finish()
}

/// Bandwidth over the size of a copy.
fn bandwidth(report: &Report) -> String {
    const LEFT: f64 = 60.0;
    const RIGHT: f64 = 700.0;
    const TOP: f64 = 70.0;
    const BOTTOM: f64 = 360.0;
    let mut svg = Svg::new(720.0, 400.0);
    svg.text(
        (16.0, 24.0),
        Anchor::Start,
        15,
        INK,
        "Copies between host and device: GB/s by size of the copy",
    );
    let copies = &report.copies;
    let fastest = copies
        .iter()
        .flat_map(|copies| [copies.upload.0, copies.upload.1, copies.download.0, copies.download.1])
        .fold(0.1, f64::max);
    let step = tick(fastest);
    let highest = (fastest / step).ceil() * step;
    let y = |speed: f64| BOTTOM - (BOTTOM - TOP) * speed / highest;
    let x =
        |index: usize| LEFT + 20.0 + (RIGHT - LEFT - 40.0) * index as f64 / (copies.len().max(2) - 1) as f64;
    let ticks = (highest / step).round() as usize;
    for value in (0..=ticks).map(|index| index as f64 * step) {
        svg.line((LEFT, y(value)), (RIGHT, y(value)), FAINT, false);
        svg.text((LEFT - 8.0, y(value) + 4.0), Anchor::End, 12, INK, &number(value));
    }
    for (index, copies) in copies.iter().enumerate() {
        svg.text((x(index), BOTTOM + 20.0), Anchor::Middle, 12, INK, &size(copies.bytes));
    }
    let speeds = |select: fn(&Copies) -> f64| -> Vec<f64> { copies.iter().map(select).collect() };
    let kinds = [
        ("host to device", BLUE, false, speeds(|copies| copies.upload.0)),
        ("device to host", ORANGE, false, speeds(|copies| copies.download.0)),
        ("raw TCP, host to device", BLUE, true, speeds(|copies| copies.upload.1)),
        ("raw TCP, device to host", ORANGE, true, speeds(|copies| copies.download.1)),
    ];
    for (index, (name, colour, dashed, speeds)) in kinds.into_iter().enumerate() {
        let points: Vec<(f64, f64)> =
            speeds.iter().enumerate().map(|(index, &speed)| (x(index), y(speed))).collect();
        svg.curve(&points, colour, dashed);
        let at = LEFT + 160.0 * index as f64;
        svg.line((at, 46.0), (at + 26.0, 46.0), colour, dashed);
        svg.text((at + 32.0, 50.0), Anchor::Start, 12, INK, name);
    }
    svg.finish()
}

/// Kernels on one core, as fractions of their aims. Empty launches compute nothing and are omitted.
fn emulator(report: &Report) -> String {
    let rows: Vec<(&Row, f64)> = report
        .rows
        .iter()
        .filter(|row| row.group == kernels::ONE_CORE && row.key != kernels::EMPTY)
        .filter_map(|row| match row.aim {
            Some(Aim::AtLeast(aim)) => Some((row, aim)),
            _ => None,
        })
        .collect();
    let mut svg = Svg::new(720.0, 60.0 + 36.0 * rows.len() as f64);
    svg.text((16.0, 24.0), Anchor::Start, 15, INK, "The software GPU on one core (dashed: aim)");
    let left = 230.0;
    let longest = rows.iter().map(|(row, aim)| row.best / aim).fold(1.5, f64::max);
    let scale = 330.0 / longest;
    for (index, (row, aim)) in rows.iter().enumerate() {
        let top = 44.0 + 36.0 * index as f64;
        svg.text((left - 10.0, top + 17.0), Anchor::End, 13, INK, &row.name);
        let width = row.best / aim * scale;
        svg.bar((left, top), width, 24.0, if row.best >= *aim { GREEN } else { RED });
        let text = format!("{} {} (aim {})", number(row.best), row.unit, number(*aim));
        svg.text((left + width.max(scale) + 8.0, top + 17.0), Anchor::Start, 12, INK, &text);
        svg.line((left + scale, top - 6.0), (left + scale, top + 30.0), INK, true);
    }
    svg.finish()
}

/// A round distance between grid lines that gives five to ten of them.
fn tick(highest: f64) -> f64 {
    let magnitude = 10f64.powf((highest / 5.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * magnitude)
        .rfind(|step| highest / step >= 5.0)
        .unwrap_or(magnitude)
}

fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::*;

    #[test]
    fn there_are_between_five_and_ten_lines() {
        for highest in [0.13, 0.9, 1.0, 3.7, 12.0, 49.0, 51.0] {
            let lines = highest / tick(highest);
            assert!((5.0..=12.5).contains(&lines), "{highest}: {lines}");
        }
    }

    #[test]
    fn a_missed_aim_is_red_in_its_plot_and_the_other_is_not() {
        let machine =
            Machine { processor: "P".into(), cores: 1, kernel: "6".into(), wide_vectors: true, load: 0.0 };
        let mut report = Report::new(machine);
        let row = |key: &str, best| Row {
            best,
            aim: Some(Aim::AtLeast(10.0)),
            ..Row::plain(kernels::ONE_CORE, key, key, "GB/s")
        };
        report.push(row("slow", 5.0));
        report.push(row("fast", 20.0));
        report.copies.push(Copies { bytes: 4096, upload: (1.0, 2.0), download: (1.0, 2.0) });
        let text = emulator(&report);
        assert_eq!(text.matches(RED).count(), 1);
        assert_eq!(text.matches(GREEN).count(), 1);
        assert!(bandwidth(&report).contains("4 KiB"));
    }
}
