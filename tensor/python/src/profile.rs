//! The profiler: records operations and their durations while enabled.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pyo3::prelude::*;

static ON: AtomicBool = AtomicBool::new(false);
static EVENTS: Mutex<Option<(Instant, Vec<Event>)>> = Mutex::new(None);

/// The most events that are kept.
const MOST: usize = 1_000_000;

#[derive(Clone)]
struct Event {
    name: String,
    device: String,
    /// Microseconds since the profile began.
    start: f64,
    length: f64,
}

fn timed<T>(name: &str, device: &str, work: impl FnOnce() -> T) -> T {
    if !ON.load(Ordering::Relaxed) {
        return work();
    }
    let start = Instant::now();
    let result = work();
    let end = Instant::now();
    if let Some((begin, events)) = EVENTS.lock().expect("no code panics while holding this lock").as_mut()
        && events.len() < MOST
    {
        events.push(Event {
            name: name.to_owned(),
            device: device.to_owned(),
            start: start.saturating_duration_since(*begin).as_secs_f64() * 1e6,
            length: end.saturating_duration_since(start).as_secs_f64() * 1e6,
        });
    }
    result
}

/// Records a download, including the wait for everything it depends on.
pub fn waited<T>(device: &str, work: impl FnOnce() -> T) -> T {
    timed("download", device, work)
}

/// Records planning and submission of steps.
pub fn begun<T>(name: &str, device: &str, work: impl FnOnce() -> T) -> T {
    timed(name, device, work)
}

/// Starts to record the operations of a profile.
#[pyfunction]
fn profile_start() {
    *EVENTS.lock().expect("no code panics while holding this lock") = Some((Instant::now(), Vec::new()));
    ON.store(true, Ordering::Relaxed);
}

/// Stops the profiler. Returns all events: name, device, start and duration in microseconds.
#[pyfunction]
fn profile_stop() -> Vec<(String, String, f64, f64)> {
    ON.store(false, Ordering::Relaxed);
    let events = EVENTS.lock().expect("no code panics while holding this lock").take();
    events
        .map(|(_, events)| {
            events.into_iter().map(|event| (event.name, event.device, event.start, event.length)).collect()
        })
        .unwrap_or_default()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(profile_start, module)?)?;
    module.add_function(wrap_pyfunction!(profile_stop, module)?)
}
