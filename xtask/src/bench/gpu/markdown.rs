//! The report as Markdown, for docs/performance.md.

use crate::bench::report::{Report, Row, number};

/// One table a group, with missed aims and failures below.
pub fn render(report: &Report, gpu: &str, failures: &[String]) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "Measured on {gpu}; {}, {} cores, Linux {}.\n",
        machine.processor, machine.cores, machine.kernel
    );
    let mut group = "";
    for row in &report.rows {
        if row.group != group {
            group = row.group;
            text.push_str(&format!(
                "\n{}\n\n| measurement | best | median | reference | ratio | aim | met |\n|---|---:|---:|---:|---:|---:|---|\n",
                sentence(group)
            ));
        }
        text.push_str(&line(row));
    }
    let judged = report.rows.iter().filter(|row| row.aim.is_some());
    let met = judged.clone().filter(|row| row.is_met() == Some(true)).count();
    text.push_str(&format!("\n{met} of {} aims met.\n", judged.count()));
    for failure in failures {
        text.push_str(&format!("\nFailed: {}\n", failure.replace('\n', " ")));
    }
    text
}

fn line(row: &Row) -> String {
    let figure = |value: f64| match (value.is_finite(), row.unit) {
        (false, _) => String::new(),
        (true, "") => number(value),
        (true, unit) => format!("{} {unit}", number(value)),
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |\n",
        row.name,
        figure(row.best),
        figure(row.median),
        row.reference.map(figure).unwrap_or_default(),
        row.ratio.map(number).unwrap_or_default(),
        row.aim.map(|aim| aim.text()).unwrap_or_default(),
        row.is_met().map_or("", |met| if met { "yes" } else { "no" }),
    )
}

/// A group's name as a sentence.
fn sentence(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}:", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::machine::Machine;
    use crate::bench::report::Aim;

    #[test]
    fn a_measurement_is_one_line_with_its_aim() {
        let row = Row {
            best: 1.25,
            median: 1.5,
            reference: Some(1.0),
            ratio: Some(0.8),
            aim: Some(Aim::AtLeast(0.6)),
            ..Row::plain("group", "key", "saxpy", "ms")
        };
        assert_eq!(line(&row), "| saxpy | 1.25 ms | 1.50 ms | 1.00 ms | 0.80 | >= 0.6 | yes |\n");
    }

    #[test]
    fn a_kernel_that_failed_has_an_empty_line_and_its_reason() {
        let mut report = Report::new(Machine::detect());
        report.push(Row { aim: Some(Aim::AtLeast(0.6)), ..Row::plain("group", "key", "hgemm", "ms") });
        let text = render(&report, "a GPU", &["hgemm: refused\nv_mfma".to_owned()]);
        assert!(text.contains("| hgemm |  |  |  |  | >= 0.6 | no |"), "{text}");
        assert!(text.ends_with("0 of 1 aims met.\n\nFailed: hgemm: refused v_mfma\n"), "{text}");
    }
}
