//! `remora top`: monitors a worker.

mod table;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use transport::{DEFAULT_PORT, Endpoint};
use worker_status::Status;

use crate::env::Environment;
use crate::inspect::inspect;
use crate::os;
use crate::os::screen::Screen;
use crate::output::out;
use table::View;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Worker to monitor: host:port, tls://host:port, unix:/path or a URL from an agent
    #[arg(long, value_name = "ENDPOINT")]
    worker: Option<String>,
    /// Seconds between two samples, over which rates are measured
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Take two samples, print the second with the rates in between, and exit
    #[arg(long)]
    once: bool,
    /// Print one JSON object per sample, each on one line
    #[arg(long)]
    json: bool,
}

/// Result of one status query.
type Sample = Result<Status, String>;

pub fn top(arguments: &Arguments, environment: &Environment) -> Result<()> {
    ensure!(
        (0.05..=3600.0).contains(&arguments.interval),
        "--interval {} s is out of range (0.05 to 3600)",
        arguments.interval
    );
    let interval = Duration::from_secs_f64(arguments.interval);
    let environment = &environment.for_worker(arguments.worker.as_deref());
    let endpoint = environment.worker(None)?;
    let endpoint = endpoint.unwrap_or_else(|| Endpoint::tcp("127.0.0.1", DEFAULT_PORT));
    if arguments.once {
        let before = inspect(&endpoint, environment)?;
        std::thread::sleep(interval);
        let view = View::new(inspect(&endpoint, environment)?, Some(&before));
        return print(&if arguments.json { view.json() } else { view.text(&endpoint, None) });
    }
    let is_live = os::standard_output::is_terminal() && !arguments.json;
    // Blocks signals before other threads start, which must inherit the mask.
    let mut screen = if is_live { Some(Screen::open()?) } else { None };
    std::thread::scope(|scope| {
        let (sender, samples) = channel();
        let waker = screen.as_ref().map(Screen::waker).transpose()?;
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (asked, target, stopped) = (environment, &endpoint, Arc::clone(&stop));
        // On a separate thread, so that the user can quit while a worker does not answer.
        scope.spawn(move || {
            let mut next = Instant::now();
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                let sample = inspect(target, asked).map_err(|error| format!("{error:#}"));
                if sender.send(sample).is_err() {
                    return;
                }
                if let Some(waker) = &waker {
                    waker.wake();
                }
                next = (next + interval).max(Instant::now());
                while Instant::now() < next && !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::sleep((next - Instant::now()).min(Duration::from_millis(50)));
                }
            }
        });
        let done = match &mut screen {
            Some(screen) => watch(screen, &samples, &endpoint),
            None => list(&samples, &endpoint, arguments.json),
        };
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(samples);
        if screen.take().is_some() {
            // Do not join the thread: it may be waiting for a worker that does not answer.
            std::process::exit(i32::from(done.is_err()));
        }
        done
    })
}

/// Without a terminal: prints one table or JSON object after another.
fn list(samples: &Receiver<Sample>, endpoint: &Endpoint, json: bool) -> Result<()> {
    let mut before: Option<Status> = None;
    loop {
        let sample = match samples.recv_timeout(Duration::from_secs(60)) {
            Ok(sample) => sample,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let text = match sample {
            Ok(status) => {
                let view = View::new(status.clone(), before.as_ref());
                before = Some(status);
                if json { view.json() } else { view.text(endpoint, None) + "\n" }
            }
            Err(error) if json => serde_json::json!({ "error": error }).to_string() + "\n",
            Err(error) => format!("{error}\n\n"),
        };
        print(&text)?;
    }
}

/// On a terminal: redraws the screen until the user quits.
fn watch(screen: &mut Screen, samples: &Receiver<Sample>, endpoint: &Endpoint) -> Result<()> {
    let mut before: Option<Status> = None;
    let mut shown: Option<View> = None;
    let mut trouble: Option<(Instant, String)> = None;
    loop {
        for sample in samples.try_iter() {
            match sample {
                Ok(status) => {
                    shown = Some(View::new(status.clone(), before.as_ref()));
                    before = Some(status);
                    trouble = None;
                }
                Err(error) => {
                    let since = trouble.take().map_or_else(Instant::now, |(since, _)| since);
                    // The worker may have restarted, and its counters with it.
                    before = None;
                    trouble = Some((since, error));
                }
            }
        }
        let mut text = match &shown {
            Some(view) => view.text(endpoint, Some(screen.size())),
            None => format!("connecting to {endpoint} ...\n"),
        };
        if let Some((since, error)) = &trouble {
            let stale = if shown.is_some() { "; the last known status is below" } else { "" };
            text = format!("no answer for {} s, retrying{stale}: {error}\n{text}", since.elapsed().as_secs());
        }
        screen.draw(&text)?;
        if screen.wait()? {
            return Ok(());
        }
    }
}

fn print(text: &str) -> Result<()> {
    out!("{text}");
    Ok(())
}
