//! Where the time of a judge goes: seconds of each step, for every case. `remora judge --times` shows them.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A step of the work on a case, on the thread that judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Inputs that the host makes, or computes again to verify a call.
    Inputs,
    /// Writing inputs to the device.
    Upload,
    /// Whole expected outputs.
    Reference,
    /// Waiting for other threads: for expected rows, inputs and verifications.
    Ahead,
    /// Reading outputs and inputs from the device.
    Download,
    /// Guard regions and inputs after a call.
    Guards,
    /// Comparison with expected outputs.
    Comparison,
    /// Calls, and what precedes them: generated inputs, poison, flushed caches.
    Device,
}

const NAMES: [&str; 8] =
    ["inputs", "upload", "reference", "ahead", "download", "guards", "comparison", "device"];

/// Times since the last line of the table.
#[derive(Debug, Default)]
pub(crate) struct Times {
    parts: [AtomicU64; NAMES.len()],
    /// What other threads computed at the same time.
    others: AtomicU64,
    has_heading: std::sync::atomic::AtomicBool,
    /// Steps in their order, for tests.
    #[cfg(test)]
    notes: std::sync::Mutex<Vec<&'static str>>,
}

impl Times {
    /// Runs a step, and adds its time. Steps must not be nested, or their time counts twice.
    pub fn of<T>(&self, part: Step, body: impl FnOnce() -> T) -> T {
        #[cfg(test)]
        self.note(match part {
            Step::Inputs => "Inputs",
            Step::Guards => "Guards",
            Step::Ahead => "Ahead",
            _ => "other",
        });
        timed(&self.parts[part as usize], body)
    }

    /// Notes an event for a test.
    #[cfg(test)]
    pub fn note(&self, event: &'static str) {
        self.notes.lock().unwrap().push(event);
    }

    /// Returns the events in their order.
    #[cfg(test)]
    pub fn noted(&self) -> Vec<&'static str> {
        self.notes.lock().unwrap().clone()
    }

    /// Runs work of another thread.
    pub fn of_another_thread<T>(&self, body: impl FnOnce() -> T) -> T {
        timed(&self.others, body)
    }

    /// Sets all times to zero, for the next case.
    pub fn clear(&self) {
        self.parts.iter().chain([&self.others]).for_each(|sum| sum.store(0, Ordering::Relaxed));
    }

    /// Returns a line for a case that took so long. There is a heading before the first line.
    pub fn line(&self, whole: Duration, case: &str) -> String {
        let mut text = String::new();
        if !self.has_heading.swap(true, Ordering::Relaxed) {
            let names = NAMES.map(|name| format!("{name:>11}")).concat();
            let _ = writeln!(text, "{:>10}{names}{:>11}{:>15}  case", "seconds", "rest", "other threads");
        }
        let seconds = |nanoseconds: &AtomicU64| nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        let parts: Vec<f64> = self.parts.iter().map(seconds).collect();
        let rest = (whole.as_secs_f64() - parts.iter().sum::<f64>()).max(0.0);
        let _ = write!(text, "{:10.2}", whole.as_secs_f64());
        parts.iter().chain([&rest]).for_each(|part| {
            let _ = write!(text, "{part:11.2}");
        });
        let _ = writeln!(text, "{:15.2}  {case}", seconds(&self.others));
        text
    }
}

fn timed<T>(sum: &AtomicU64, body: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = body();
    sum.fetch_add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_seconds_of_each_part_and_the_rest() {
        let times = Times::default();
        times.of(Step::Reference, || std::thread::sleep(Duration::from_millis(30)));
        let text = times.line(Duration::from_secs(2), "measured n=4");
        let (heading, line) = text.split_once('\n').unwrap();
        let column = |name: &str| {
            let index = heading.split_whitespace().position(|word| word == name).unwrap();
            line.split_whitespace().nth(index).unwrap().parse::<f64>().unwrap()
        };
        assert_eq!((column("seconds"), column("upload")), (2.0, 0.0));
        assert!((0.03..1.0).contains(&column("reference")), "{text}");
        assert!((column("rest") + column("reference") - 2.0).abs() < 0.011, "{text}");
        assert!(line.ends_with("  measured n=4\n"), "{text}");
        times.clear();
        let next = times.line(Duration::ZERO, "next");
        assert!(next.split_whitespace().all(|word| ["0.00", "next"].contains(&word)), "{next}");
    }
}
