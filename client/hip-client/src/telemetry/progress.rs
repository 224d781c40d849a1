//! Progress of long uploads, compilations and translations: one line on a terminal, rewritten in place and removed at the end.
//!
//! Shown only if `remora run` asks for it (`REMORA_PROGRESS`) and stderr is a terminal, so nothing of it is ever in a log. Short
//! operations show nothing.

use std::borrow::Cow;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::process::env;

/// Time before an operation counts as long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two updates.
const INTERVAL: Duration = Duration::from_millis(200);
/// The smallest upload that is watched.
const LARGE: usize = 16 << 20;
/// The characters of a kernel's name that are shown; names of C++ templates have thousands.
const LONGEST_NAME: usize = 60;
/// Moves to the start of the line and erases it.
const ERASE: &str = "\r\x1b[K";

/// An upload whose calling thread reports its progress.
#[derive(Debug)]
pub struct Upload {
    total: usize,
    start: Instant,
    shown: Option<Instant>,
}

impl Upload {
    /// `None` if progress is off or the upload is small.
    pub fn start(total: usize) -> Option<Upload> {
        (total >= LARGE && is_on()).then(|| Upload { total, start: Instant::now(), shown: None })
    }

    /// `sent` bytes are sent or about to be.
    pub fn reached(&mut self, sent: usize) {
        let now = Instant::now();
        let due = self.shown.map_or(self.start + PATIENCE, |shown| shown + INTERVAL);
        if now >= due && sent < self.total {
            let (percent, rate) = share(sent, self.total, now - self.start);
            let (sent, total) = (Bytes(sent), Bytes(self.total));
            write(format_args!("{ERASE}remora: uploading, {sent} of {total} ({percent} %), {rate}/s"));
            self.shown = Some(now);
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.shown.is_some() {
            write(format_args!("{ERASE}"));
        }
    }
}

/// A wait for the worker, shown by a thread because the calling thread is blocked.
#[derive(Debug)]
pub struct Waiting {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    shown: bool,
}

impl Waiting {
    /// `None` if progress is off.
    pub fn start(what: impl Into<Cow<'static, str>>) -> Option<Waiting> {
        is_on().then(|| Waiting::watch(what.into()))
    }

    fn watch(what: Cow<'static, str>) -> Waiting {
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let watched = Arc::clone(&shared);
        // Without the thread there is no line, which is no error.
        let _ = transport::spawn_quietly("progress", move || {
            let start = Instant::now();
            let (state, ended) = &*watched;
            let mut state = state.lock();
            while !state.ended {
                ended.wait_for(&mut state, PATIENCE);
                if !state.ended && start.elapsed() >= PATIENCE {
                    let seconds = start.elapsed().as_secs();
                    write(format_args!("{ERASE}remora: {what}, {seconds} s"));
                    state.shown = true;
                }
            }
        });
        Waiting { shared }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Under the lock, so that the thread prints nothing afterwards.
        let mut state = self.shared.0.lock();
        state.ended = true;
        self.shared.1.notify_all();
        if state.shown {
            write(format_args!("{ERASE}"));
        }
    }
}

/// The worker translates a kernel that is launched for the first time, or has done so.
pub fn translating(kernel: Option<&str>) {
    static SHOWN: Mutex<Option<Waiting>> = Mutex::new(None);
    let waiting =
        kernel.and_then(|kernel| Waiting::start(format!("translating kernel {}", printable(kernel))));
    *SHOWN.lock() = waiting;
}

/// The start of a name that the worker sent, without control characters, which could write anything to the terminal.
fn printable(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(LONGEST_NAME).collect()
}

fn is_on() -> bool {
    static VALUE: OnceLock<bool> = OnceLock::new();
    *VALUE.get_or_init(|| env::progress() && std::io::stderr().is_terminal())
}

/// Errors are ignored, for example a closed terminal.
fn write(text: fmt::Arguments<'_>) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_fmt(text).and_then(|()| out.flush());
}

/// Percentage and bytes per second.
fn share(sent: usize, total: usize, time: Duration) -> (usize, Bytes) {
    let rate = sent as f64 / time.as_secs_f64().max(0.001);
    (sent.saturating_mul(100) / total.max(1), Bytes(rate as usize))
}

/// A number of bytes in a readable unit.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 30 => write!(f, "{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
            bytes if bytes >= 1 << 20 => write!(f, "{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
            bytes => write!(f, "{:.1} KiB", bytes as f64 / 1024.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_name_cannot_control_the_terminal() {
        assert_eq!(printable("saxpy\x1b[2J\r\n"), "saxpy[2J");
        assert_eq!(printable(&"k".repeat(5000)).len(), LONGEST_NAME);
    }

    #[test]
    fn the_share_is_a_percentage_and_a_rate() {
        let (percent, rate) = share(64 << 20, 256 << 20, Duration::from_secs(2));
        assert_eq!((percent, rate.to_string().as_str()), (25, "32.0 MiB"));
        assert_eq!(share(0, 0, Duration::ZERO).0, 0);
        assert_eq!(Bytes(3 << 29).to_string(), "1.5 GiB");
    }
}
