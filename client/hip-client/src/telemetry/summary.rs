//! Per-function cost of the program's calls, printed as a table at exit.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::tally::Tally;

/// Counters of one function.
#[derive(Debug, Default)]
struct Row {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    longest: AtomicU64,
    round_trips: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// Counters of every function, by its number.
#[derive(Debug)]
pub struct Summary {
    rows: Box<[Row]>,
}

impl Summary {
    pub fn new() -> Summary {
        let last = hip_api::meta::TABLE.iter().map(|row| row.number).max().unwrap_or(0);
        Summary { rows: (0..=last).map(|_| Row::default()).collect() }
    }

    pub fn count(&self, number: u16, nanoseconds: u64, tally: &Tally) {
        let Some(row) = self.rows.get(usize::from(number)) else { return };
        row.calls.fetch_add(1, Relaxed);
        row.nanoseconds.fetch_add(nanoseconds, Relaxed);
        row.longest.fetch_max(nanoseconds, Relaxed);
        if tally.frames > 0 {
            row.round_trips.fetch_add(tally.round_trips, Relaxed);
            row.sent.fetch_add(tally.sent, Relaxed);
            row.received.fetch_add(tally.received, Relaxed);
        }
    }

    /// The table, sorted by time, with a line of totals.
    pub fn table(&self, program: &str, pid: u32) -> String {
        let mut lines: Vec<(&str, [u64; 6])> = Vec::new();
        for (row, number) in self.rows.iter().zip(0..) {
            let values = [
                row.calls.load(Relaxed),
                row.nanoseconds.load(Relaxed),
                row.longest.load(Relaxed),
                row.round_trips.load(Relaxed),
                row.sent.load(Relaxed),
                row.received.load(Relaxed),
            ];
            if values[0] > 0 {
                lines.push((hip_api::meta::function_name(number).unwrap_or("?"), values));
            }
        }
        lines.sort_by_key(|(name, values)| (std::cmp::Reverse(values[1]), *name));
        let mut total = [0; 6];
        for (_, values) in &lines {
            for (index, (sum, value)) in total.iter_mut().zip(values).enumerate() {
                *sum = if index == 2 { (*sum).max(*value) } else { *sum + value };
            }
        }
        lines.push(("all", total));
        let wide = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = format!(
            "remora: calls of {program} ({pid}), times in microseconds\n{:<wide$} {:>10} {:>13} {:>10} {:>12} {:>11} {:>13} {:>13}\n",
            "function", "calls", "total", "mean", "longest", "round trips", "bytes sent", "received"
        );
        for (name, [calls, nanoseconds, longest, round_trips, sent, received]) in lines {
            let micro = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
            let _ = writeln!(
                text,
                "{name:<wide$} {calls:>10} {:>13.1} {:>10.2} {:>12.1} {round_trips:>11} {sent:>13} {received:>13}",
                micro(nanoseconds),
                micro(nanoseconds) / calls.max(1) as f64,
                micro(longest)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_by_time_and_ends_with_sums() {
        let summary = Summary::new();
        let number = |name| hip_api::meta::function_named(name).unwrap().number;
        let waited = Tally { frames: 1, round_trips: 1, sent: 40, received: 28 };
        summary.count(number("hipMalloc"), 1_000, &Tally::default());
        summary.count(number("hipMalloc"), 3_000, &Tally::default());
        summary.count(number("hipDeviceSynchronize"), 9_000, &waited);
        let table = summary.table("prog", 1);
        let lines: Vec<Vec<&str>> =
            table.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["hipDeviceSynchronize", "1", "9.0", "9.00", "9.0", "1", "40", "28"]);
        assert_eq!(lines[1], ["hipMalloc", "2", "4.0", "2.00", "3.0", "0", "0", "0"]);
        assert_eq!(lines[2], ["all", "3", "13.0", "4.33", "9.0", "1", "40", "28"]);
    }
}
