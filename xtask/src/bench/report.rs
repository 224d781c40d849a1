//! The results of one run, as a table and as JSON.

use super::machine::{self, Machine};
use super::sample::{Pair, Sample};
use serde_json::{Value, json};

/// The required value of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

impl Aim {
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Aim::AtMost(limit) => value <= limit,
            Aim::AtLeast(limit) => value >= limit,
        }
    }

    /// The aim as it is shown in tables.
    pub fn text(self) -> String {
        match self {
            Aim::AtMost(0.0) => "0".to_owned(),
            Aim::AtMost(limit) => format!("<= {limit}"),
            Aim::AtLeast(limit) => format!(">= {limit}"),
        }
    }

    pub fn limit(self) -> f64 {
        let (Aim::AtMost(limit) | Aim::AtLeast(limit)) = self;
        limit
    }
}

/// One measurement. The aim applies to the ratio if there is one, else to the best value.
#[derive(Debug, Clone)]
pub struct Row {
    pub group: &'static str,
    /// A stable key for programs.
    pub key: String,
    pub name: String,
    pub unit: &'static str,
    pub best: f64,
    pub median: f64,
    /// The best value of the reference.
    pub reference: Option<f64>,
    /// The median ratio to the reference, measured alternately.
    pub ratio: Option<f64>,
    pub best_ratio: Option<f64>,
    pub aim: Option<Aim>,
}

impl Row {
    /// A measurement without a reference.
    pub fn plain(
        group: &'static str,
        key: impl Into<String>,
        name: impl Into<String>,
        unit: &'static str,
    ) -> Row {
        Row {
            group,
            key: key.into(),
            name: name.into(),
            unit,
            best: f64::NAN,
            median: f64::NAN,
            reference: None,
            ratio: None,
            best_ratio: None,
            aim: None,
        }
    }

    /// Sets measured times, in units of `scale` per second.
    pub fn timed(self, sample: &Sample, scale: f64) -> Row {
        Row { best: sample.best() * scale, median: sample.median() * scale, ..self }
    }

    /// Sets times measured alternately with those of a reference, in units of `scale` per second.
    pub fn compared(self, pair: &Pair, scale: f64) -> Row {
        Row {
            reference: Some(pair.reference.best() * scale),
            ratio: Some(pair.ratio()),
            best_ratio: Some(pair.best_ratio()),
            ..self.timed(&pair.ours, scale)
        }
    }

    pub fn judged(&self) -> f64 {
        self.ratio.unwrap_or(self.best)
    }

    pub fn is_met(&self) -> Option<bool> {
        self.aim.map(|aim| aim.is_met(self.judged()))
    }
}

/// Copies of one size: the best GB/s, ours and the reference's.
#[derive(Debug, Clone, Copy)]
pub struct Copies {
    pub bytes: u64,
    pub upload: (f64, f64),
    pub download: (f64, f64),
}

#[derive(Debug, Clone)]
pub struct Report {
    pub machine: Machine,
    pub rows: Vec<Row>,
    pub copies: Vec<Copies>,
    load_at_end: f64,
}

impl Report {
    pub fn new(machine: Machine) -> Report {
        Report { machine, rows: Vec::new(), copies: Vec::new(), load_at_end: 0.0 }
    }

    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Completes the report after the last measurement.
    pub fn close(&mut self) {
        self.load_at_end = machine::load();
    }

    pub fn table(&self) -> String {
        let head = ["measurement", "best", "median", "reference", "ratio", "(best)", "aim", "met"]
            .map(str::to_owned);
        let mut lines = vec![head];
        for row in &self.rows {
            let optional = |value: Option<f64>| value.map(number).unwrap_or_default();
            lines.push([
                row.name.clone(),
                with_unit(row.best, row.unit),
                with_unit(row.median, row.unit),
                row.reference.map(|value| with_unit(value, row.unit)).unwrap_or_default(),
                optional(row.ratio),
                optional(row.best_ratio),
                row.aim.map(Aim::text).unwrap_or_default(),
                row.is_met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
            ]);
        }
        let widths: Vec<usize> =
            (0..8).map(|i| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0)).collect();
        let mut text = format!("\n{}\n", self.heading());
        let mut group = "";
        for (index, line) in lines.iter().enumerate() {
            if let Some(row) = index.checked_sub(1).and_then(|index| self.rows.get(index))
                && row.group != group
            {
                group = row.group;
                text.push_str(&format!("\n{group}\n"));
            }
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let cell = if column == 0 { format!("  {cell:width$}") } else { format!("  {cell:>width$}") };
                text.push_str(&cell);
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text.push_str(&self.verdict());
        text
    }

    fn heading(&self) -> String {
        let machine = &self.machine;
        let vectors = if machine.wide_vectors { "with" } else { "without" };
        format!(
            "{}, {} cores, {vectors} AVX-512, Linux {}; load average {:.1} before, {:.1} after",
            machine.processor, machine.cores, machine.kernel, machine.load, self.load_at_end
        )
    }

    fn verdict(&self) -> String {
        let judged: Vec<&Row> = self.rows.iter().filter(|row| row.aim.is_some()).collect();
        let missed: Vec<&str> =
            judged.iter().filter(|row| row.is_met() == Some(false)).map(|row| row.name.as_str()).collect();
        let met = judged.len() - missed.len();
        let mut text = format!("\n{met} of {} aims met", judged.len());
        if !missed.is_empty() {
            text.push_str(&format!("; missed: {}", missed.join(", ")));
        }
        if self.machine.load > 0.5 {
            text.push_str(
                "\nthe machine was busy before the run: times may be too long, ratios are still valid",
            );
        }
        if !self.machine.wide_vectors {
            text.push_str("\nthe aims of the emulator assume AVX-512, which this CPU lacks");
        }
        text
    }

    pub fn json(&self) -> Value {
        let machine = &self.machine;
        json!({
            "machine": {
                "processor": machine.processor,
                "cores": machine.cores,
                "kernel": machine.kernel,
                "avx512": machine.wide_vectors,
                "load_before": machine.load,
                "load_after": self.load_at_end,
            },
            "rows": self.rows.iter().map(|row| json!({
                "key": row.key,
                "name": row.name,
                "unit": row.unit,
                "best": row.best,
                "median": row.median,
                "reference": row.reference,
                "ratio": row.ratio,
                "best_ratio": row.best_ratio,
                "aim": row.aim.map(Aim::text),
                "met": row.is_met(),
            })).collect::<Vec<_>>(),
            "copies": self.copies.iter().map(|copies| json!({
                "bytes": copies.bytes,
                "upload_gb_s": copies.upload.0,
                "upload_raw_gb_s": copies.upload.1,
                "download_gb_s": copies.download.0,
                "download_raw_gb_s": copies.download.1,
            })).collect::<Vec<_>>(),
        })
    }
}

/// Formats with three significant digits and no exponent.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    match () {
        () if !value.is_finite() => "-".to_owned(),
        () if magnitude == 0.0 => "0".to_owned(),
        () if magnitude >= 100.0 => format!("{value:.0}"),
        () if magnitude >= 10.0 => format!("{value:.1}"),
        () if magnitude >= 0.1 => format!("{value:.2}"),
        () => format!("{value:.4}"),
    }
}

fn with_unit(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return String::new();
    }
    if unit.is_empty() { number(value) } else { format!("{} {unit}", number(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine { processor: "P".into(), cores: 2, kernel: "6".into(), wide_vectors: true, load: 0.0 }
    }

    #[test]
    fn the_aim_is_about_the_ratio_where_there_is_one() {
        let mut row = Row { best: 10.0, aim: Some(Aim::AtMost(1.3)), ..Row::plain("g", "k", "n", "us") };
        assert_eq!(row.is_met(), Some(false));
        row.ratio = Some(1.2);
        assert_eq!(row.is_met(), Some(true));
    }

    #[test]
    fn a_missed_aim_is_named_below_the_table() {
        let mut report = Report::new(machine());
        report.push(Row {
            best: 40.0,
            aim: Some(Aim::AtLeast(60.0)),
            ..Row::plain("g", "a", "slow thing", "M/s")
        });
        report.push(Row { best: 0.0, aim: Some(Aim::AtMost(0.0)), ..Row::plain("g", "b", "free thing", "") });
        let table = report.table();
        assert!(table.ends_with("1 of 2 aims met; missed: slow thing"), "{table}");
        assert!(table.contains(">= 60") && table.contains("NO") && table.contains("yes"), "{table}");
        assert_eq!(report.json()["rows"][0]["met"], false);
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(number(1234.5), "1234");
        assert_eq!(number(12.345), "12.3");
        assert_eq!(number(0.2345), "0.23");
        assert_eq!(number(0.0123), "0.0123");
        assert_eq!(number(0.0), "0");
    }
}
