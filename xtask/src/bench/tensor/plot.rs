//! The plot of docs/performance.md: every judged measurement as a fraction of its aim.

use crate::bench::plot::{GREEN, RED};
use crate::bench::report::{Aim, Report, Row, number};
use crate::bench::svg::{Anchor, INK, Svg};

/// The longest bar, as a multiple of the aim.
const LONGEST: f64 = 2.5;

pub fn plot(report: &Report) -> String {
    let rows: Vec<(&Row, Aim)> = report.rows.iter().filter_map(|row| Some((row, row.aim?))).collect();
    let mut svg = Svg::new(880.0, 60.0 + 30.0 * rows.len() as f64);
    svg.text(
        (16.0, 24.0),
        Anchor::Start,
        15,
        INK,
        "pyflame compared with others (dashed: aim; longer is better)",
    );
    let left = 470.0;
    let scale = 230.0 / LONGEST;
    for (index, &(row, aim)) in rows.iter().enumerate() {
        let top = 44.0 + 30.0 * index as f64;
        svg.text((left - 10.0, top + 15.0), Anchor::End, 12, INK, &row.name);
        let width = part(row.judged(), aim).clamp(0.02, LONGEST) * scale;
        svg.bar((left, top), width, 20.0, if aim.is_met(row.judged()) { GREEN } else { RED });
        let sign = if matches!(aim, Aim::AtMost(_)) { "or less" } else { "or more" };
        let text = format!("{} (aim {} {sign})", number(row.judged()), number(aim.limit()));
        svg.text((left + width.max(scale) + 8.0, top + 15.0), Anchor::Start, 12, INK, &text);
        svg.line((left + scale, top - 5.0), (left + scale, top + 25.0), INK, true);
    }
    svg.finish()
}

/// The fraction of an aim that a number reaches: one or more is met.
fn part(judged: f64, aim: Aim) -> f64 {
    match aim {
        Aim::AtLeast(limit) => judged / limit,
        Aim::AtMost(limit) => limit / judged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::machine::Machine;

    #[test]
    fn what_misses_its_aim_is_red_and_ends_before_the_line() {
        assert!(part(0.8, Aim::AtLeast(0.9)) < 1.0 && part(1.2, Aim::AtMost(1.0)) < 1.0);
        assert!(part(0.5, Aim::AtMost(1.0)) >= 1.0);
        let machine =
            Machine { processor: "P".into(), cores: 1, kernel: "6".into(), wide_vectors: true, load: 0.0 };
        let mut report = Report::new(machine);
        let row = |key: &str, ratio, aim| Row {
            best: 1.0,
            ratio: Some(ratio),
            aim: Some(aim),
            ..Row::plain("g", key, key, "ms")
        };
        report.push(row("slow", 0.8, Aim::AtLeast(0.9)));
        report.push(row("quick", 0.5, Aim::AtMost(1.0)));
        report.push(row("far", 700.0, Aim::AtLeast(50.0)));
        let text = plot(&report);
        assert_eq!((text.matches(RED).count(), text.matches(GREEN).count()), (1, 2));
    }
}
