//! Draws a trace of `REMORA_TRACE`.

use crate::bench::svg::{Anchor, FAINT, GREY, INK, Svg};
use crate::step;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Trace file to read
    trace: PathBuf,
    /// SVG file to write
    drawing: PathBuf,
    /// Start, in milliseconds after the first event
    #[arg(long, default_value_t = 0.0)]
    from: f64,
    /// End, in milliseconds after the first event; default: the last event
    #[arg(long)]
    to: Option<f64>,
}

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 190.0;
const TOP: f64 = 34.0;
const ROW: f64 = 22.0;
const BAR: f64 = 16.0;
/// The width of a letter in a label.
const LETTER: f64 = 6.2;

/// One slice of the trace; times in milliseconds since the first.
struct Slice {
    row: (u64, u64),
    name: String,
    category: String,
    begin: f64,
    end: f64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let text = fs::read_to_string(&arguments.trace)
        .with_context(|| format!("cannot read {}", arguments.trace.display()))?;
    if is_truncated(&text) {
        step::progress(&format!(
            "{} is truncated: the program was killed or its disk was full; the last events are missing",
            arguments.trace.display()
        ));
    }
    let drawing = draw(&text, arguments.from, arguments.to)?;
    fs::write(&arguments.drawing, drawing)
        .with_context(|| format!("cannot write {}", arguments.drawing.display()))
}

/// A program that exits normally closes the JSON array.
fn is_truncated(text: &str) -> bool {
    !text.trim_end().ends_with(']')
}

fn draw(text: &str, from: f64, to: Option<f64>) -> Result<String> {
    let events: Vec<Value> = match serde_json::from_str(text) {
        Ok(events) => events,
        // A killed program leaves no closing bracket, and possibly an incomplete line.
        Err(_) => {
            let (whole, _) = text.rsplit_once('\n').context("no events")?;
            serde_json::from_str(&format!("{}]", whole.trim_end_matches(','))).context("not a trace")?
        }
    };
    let number = |event: &Value, key: &str| event[key].as_u64().unwrap_or(0);
    let of_kind = |kind: &'static str| events.iter().filter(move |event| event["ph"] == kind);
    let first = of_kind("X").filter_map(|event| event["ts"].as_f64()).fold(f64::INFINITY, f64::min);
    let mut slices: Vec<Slice> = of_kind("X")
        .map(|event| {
            let begin = (event["ts"].as_f64().unwrap_or(0.0) - first) / 1000.0;
            Slice {
                row: (number(event, "pid"), number(event, "tid")),
                name: event["name"].as_str().unwrap_or_default().to_owned(),
                category: event["cat"].as_str().unwrap_or_default().to_owned(),
                begin,
                end: begin + event["dur"].as_f64().unwrap_or(0.0) / 1000.0,
            }
        })
        .collect();
    let to = to.unwrap_or_else(|| slices.iter().map(|slice| slice.end).fold(from, f64::max));
    ensure!(to > from, "the interval from {from} to {to} ms is empty");
    slices.retain(|slice| slice.end >= from && slice.begin <= to);
    let mut names: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut processes: BTreeMap<u64, String> = BTreeMap::new();
    for event in of_kind("M") {
        let name = event["args"]["name"].as_str().unwrap_or_default().to_owned();
        match event["name"].as_str() {
            Some("thread_name") => drop(names.insert((number(event, "pid"), number(event, "tid")), name)),
            Some("process_name") => drop(processes.insert(number(event, "pid"), name)),
            _ => {}
        }
    }
    // Processes of the trace are numbered in display order: a heading for each, a line for each of its rows.
    let mut places: BTreeMap<(u64, u64), f64> = slices.iter().map(|slice| (slice.row, 0.0)).collect();
    let mut headings = Vec::new();
    let mut y = TOP;
    let mut process = None;
    for (row, place) in &mut places {
        if process.replace(row.0) != Some(row.0) {
            headings.push((y, row.0));
            y += ROW;
        }
        *place = y;
        y += ROW;
    }
    let x = |time: f64| LEFT + (time.clamp(from, to) - from) / (to - from) * (WIDTH - LEFT - 10.0);
    let mut svg = Svg::new(WIDTH, y + 8.0);
    for step in 0..=8 {
        let time = from + (to - from) * f64::from(step) / 8.0;
        svg.line((x(time), TOP - 8.0), (x(time), y), FAINT, false);
        svg.text((x(time), TOP - 14.0), Anchor::Middle, 11, GREY, &format!("{time:.2} ms"));
    }
    for (y, process) in headings {
        let name = processes.get(&process).map_or("", String::as_str);
        svg.text((8.0, y + BAR), Anchor::Start, 12, INK, name);
    }
    for (row, y) in &places {
        let name = names.get(row).map_or("", String::as_str);
        svg.text((20.0, y + BAR - 3.0), Anchor::Start, 11, GREY, &short(name, (LEFT - 26.0) / LETTER));
    }
    for slice in &slices {
        let (left, right, y) = (x(slice.begin), x(slice.end), places[&slice.row]);
        let colour = match slice.category.as_str() {
            "call" => "#54aeff",
            "wire" => "#fbca70",
            _ => "#6fdd8b",
        };
        svg.bar((left, y), (right - left).max(1.0), BAR, colour);
        let letters = ((right - left - 4.0) / LETTER).floor();
        if letters >= 3.0 {
            svg.text((left + 2.0, y + BAR - 4.0), Anchor::Start, 11, INK, &short(&slice.name, letters));
        }
    }
    let mut starts: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let end_of = |event: &Value| {
        let time = (event["ts"].as_f64()? - first) / 1000.0;
        let y = places.get(&(number(event, "pid"), number(event, "tid")))?;
        (from..=to).contains(&time).then(|| (x(time), y + BAR / 2.0))
    };
    for event in of_kind("s") {
        if let (Some(id), Some(end)) = (event["id"].as_str(), end_of(event)) {
            starts.insert(id, end);
        }
    }
    for event in of_kind("f") {
        let start = event["id"].as_str().and_then(|id| starts.get(id));
        if let (Some(start), Some(end)) = (start, end_of(event)) {
            svg.line(*start, end, GREY, true);
        }
    }
    Ok(svg.finish())
}

fn short(name: &str, letters: f64) -> String {
    let most = letters.max(0.0) as usize;
    if name.chars().count() <= most { name.to_owned() } else { name.chars().take(most).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"[
{"ph":"M","pid":7,"tid":0,"name":"process_name","args":{"name":"saxpy"}},
{"ph":"M","pid":7,"tid":9,"name":"thread_name","args":{"name":"main"}},
{"ph":"X","pid":7,"tid":9,"cat":"call","name":"hipMalloc","ts":1000.000,"dur":500.000,"args":{}},
{"ph":"X","pid":8,"tid":1,"cat":"device","name":"kernel<1>","ts":1200.000,"dur":900.000,"args":{}},
{"ph":"s","pid":7,"tid":9,"id":"1","ts":1100.0},
{"ph":"f","bp":"e","pid":8,"tid":1,"id":"1","ts":1200.0}
]"#;

    #[test]
    fn slices_rows_and_arrows_are_drawn() {
        let svg = draw(TRACE, 0.0, None).unwrap();
        for text in ["saxpy", "main", "hipMalloc", "kernel&lt;1&gt;", "1.10 ms", "stroke-dasharray"] {
            assert!(svg.contains(text), "{text} in\n{svg}");
        }
    }

    #[test]
    fn a_trace_that_was_cut_off_is_drawn_as_far_as_it_goes() {
        let svg = draw(&TRACE[..TRACE.find("{\"ph\":\"s\"").unwrap() + 8], 0.0, None).unwrap();
        assert!(svg.contains("hipMalloc") && !svg.contains("stroke-dasharray"));
        assert!(is_truncated(&TRACE[..TRACE.len() - 1]) && !is_truncated(TRACE), "and it is said");
        assert!(draw("", 0.0, None).is_err());
        assert!(draw(TRACE, 5.0, Some(4.0)).is_err());
    }
}
