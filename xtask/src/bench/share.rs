//! Shares of a software GPU, as allocated by an agent: how close usage is to a limit, and the latency of an allocation.
//!
//! Usage is what the workers measure: CPU time of the threads that run kernels, relative to the machine's. Other load on the
//! machine takes CPU time from both, so the run reports how busy the machine was.

use super::Extent;
use super::program::{BenchProcess, Programs};
use super::report::{Aim, Report, Row};
use super::resources::Process;
use crate::agent_api;
use crate::bench::machine::Machine;
use crate::build::Built;
use crate::step;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMITS: &str = "Two clients of one software MI300X: use of the GPU";
const CONTENDED: &str = "Two clients that share a whole GPU while other threads load every CPU";
const ALLOCATING: &str = "Allocation of a share of a GPU";
const GONE: &str = "Killed client: time until its resources are free";
const AGENT: &str = "The agent";
/// Polling interval and timeout for the resources of a killed client to be freed.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_secs(60);
/// The shortest measurement on busy processors.
const MIN_CONTENDED_SECONDS: u64 = 5;
/// The shares of two clients, in percent.
const PARTS: [f64; 2] = [25.0, 50.0];
/// The shares of two clients under CPU contention, and the number of competing threads per CPU.
const CONTENDED_PARTS: [f64; 2] = [25.0, 75.0];
const LOAD_THREADS: usize = 4;

pub fn measure(built: &Built, programs: &Programs, extent: Extent) -> Result<Report> {
    let mut report = Report::new(Machine::detect());
    let quick = extent.rounds < Extent::FULL.rounds;
    let seconds = match () {
        () if extent.is_smoke() => 1,
        () if quick => 10,
        () => 60,
    };
    let agent = Agent::start(built, programs)?;
    step::heading("allocating and releasing shares");
    agent.allocation_times(extent.rounds, &mut report)?;
    step::heading("killing clients");
    agent.release_times(programs, if quick { 1 } else { 5 }, &mut report)?;
    step::heading(&format!("two clients with 25 and 50 % of a software MI300X for {seconds} s"));
    agent.accuracy(programs, seconds, &mut report)?;
    // A kernel on busy processors can take longer than a second, so a shorter window may count no work of a share.
    let contended = seconds.max(MIN_CONTENDED_SECONDS);
    step::heading(&format!("two clients with 25 and 75 % on busy processors for {contended} s"));
    agent.contention(programs, contended, &mut report)?;
    report.close();
    Ok(report)
}

/// An agent on a free port, with a temporary folder.
struct Agent {
    child: Child,
    address: String,
    token: String,
    folder: std::path::PathBuf,
}

impl Agent {
    fn start(built: &Built, programs: &Programs) -> Result<Agent> {
        let folder = std::env::temp_dir().join(format!("remora-bench-agent-{}", std::process::id()));
        let mut command = Command::new(&built.remora);
        command.args([
            "agent",
            "--ready",
            "--drain",
            "--listen",
            "127.0.0.1:0",
            "--software",
            "mi300x=8G",
            "--data",
        ]);
        command.arg(&folder).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(File::create(programs.log("agent"))?).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .context("the agent printed no address")?
            .to_owned();
        let token = std::fs::read_to_string(folder.join("api-token"))?.trim().to_owned();
        Ok(Agent { child, address, token, folder })
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        agent_api::request(&self.address, &self.token, method, path, body)
    }

    fn allocate(&self, percent: f64) -> Result<Value> {
        self.request("POST", "allocations", &json!({ "percent": percent }).to_string())
    }

    /// Returns the nanoseconds of GPU time that an allocation has used.
    fn spent(&self, allocation: &Value) -> Result<f64> {
        let id = allocation["id"].as_str().context("no id")?;
        let worker = self.request("GET", &format!("workers/{id}"), "")?;
        worker["status"]["devices"][0]["limits"]["spent_ns"].as_f64().context("the worker reports no usage")
    }

    fn allocation_times(&self, rounds: usize, report: &mut Report) -> Result<()> {
        let (mut made, mut released) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let start = Instant::now();
            let allocation = self.allocate(10.0)?;
            made.push(start.elapsed().as_secs_f64() * 1e3);
            let id = allocation["id"].as_str().context("no id")?;
            let start = Instant::now();
            self.request("DELETE", &format!("allocations/{id}"), "")?;
            released.push(start.elapsed().as_secs_f64() * 1e3);
        }
        for (key, name, times) in [
            ("allocate", "until the worker listens", made),
            ("release", "until the share is free again", released),
        ] {
            report.push(summary(Row::plain(ALLOCATING, key, name, "ms"), times));
        }
        Ok(())
    }

    /// Starts a scale program on an allocation, connects it and runs a kernel.
    fn client(&self, programs: &Programs, allocation: &Value) -> Result<BenchProcess> {
        let url = allocation["url"].as_str().context("no url")?;
        let (token, place) = url.trim_start_matches("remora://").split_once('@').context("no token")?;
        let mut client = programs.start_with(&programs.scale, place, &[("REMORA_TOKEN", token)])?;
        client.query("busy 200")?;
        Ok(client)
    }

    /// Measures how long the resources of a killed client are held: its session within an allocation, and an allocation that was
    /// leased to it.
    fn release_times(&self, programs: &Programs, rounds: usize, report: &mut Report) -> Result<()> {
        let (mut sessions, mut leases) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let allocation = self.allocate(10.0)?;
            let id = allocation["id"].as_str().context("no id")?;
            let worker = format!("workers/{id}");
            let client = self.client(programs, &allocation)?;
            let is_free = || {
                let status = self.request("GET", &worker, "")?;
                let held = status["status"]["sessions"]
                    .as_array()
                    .context("the worker's status lists no sessions")?;
                Ok(held.is_empty())
            };
            ensure!(!is_free()?, "the client has no session");
            sessions.push(until(|| client.kill(), is_free)?);
            self.request("DELETE", &format!("allocations/{id}"), "")?;

            let mut process = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn()?;
            let request = json!({ "percent": 10, "lease": { "process": process.id() } });
            let leased = self.request("POST", "allocations", &request.to_string())?;
            // Gives its worker a session to end.
            let client = self.client(programs, &leased)?;
            let is_free =
                || Ok(self.request("GET", "allocations", "")?.as_array().is_some_and(Vec::is_empty));
            leases.push(until(|| Ok(process.kill()?), is_free)?);
            process.wait()?;
            client.kill()?;
        }
        for (key, name, times) in
            [("session", "memory of its session", sessions), ("lease", "allocation leased to it", leases)]
        {
            let worst = times.iter().copied().fold(0.0, f64::max);
            report.push(summary(Row::plain(GONE, format!("gone_{key}"), name, "s"), times));
            let row = Row::plain(GONE, format!("gone_{key}_worst"), "  longest of all rounds", "s");
            report.push(Row { best: worst, median: worst, aim: Some(Aim::AtMost(5.0)), ..row });
        }
        Ok(())
    }

    /// Returns the GPU usage, in percent, of clients with these shares that use all they can get, and the agent's CPU time per
    /// second.
    fn usage(&self, programs: &Programs, parts: &[f64], seconds: u64) -> Result<(Vec<f64>, f64)> {
        let parts: Vec<Value> = parts.iter().map(|part| self.allocate(*part)).collect::<Result<_>>()?;
        let mut clients = Vec::new();
        for allocation in &parts {
            clients.push(self.client(programs, allocation)?);
        }
        let (process, before) = (Process(self.child.id()), Instant::now());
        let agent_before = process.cpu_seconds()?;
        let spent: Vec<f64> = parts.iter().map(|it| self.spent(it)).collect::<Result<_>>()?;
        let start = Instant::now();
        let over = Arc::new(AtomicBool::new(false));
        let running: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                let over = Arc::clone(&over);
                std::thread::spawn(move || -> Result<BenchProcess> {
                    client.query(&format!("busy {}", seconds * 1000))?;
                    while !over.load(Ordering::Relaxed) {
                        client.query("busy 200")?;
                    }
                    Ok(client)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        // On a slow machine a client may need longer for its first kernel.
        let spent_now = || -> Result<Vec<f64>> { parts.iter().map(|it| self.spent(it)).collect() };
        let mut after = spent_now()?;
        while spent.iter().zip(&after).any(|(before, after)| after <= before) {
            ensure!(start.elapsed() < TIMEOUT, "a client made no progress within {TIMEOUT:?}");
            std::thread::sleep(POLL_INTERVAL);
            after = spent_now()?;
        }
        let elapsed = start.elapsed().as_secs_f64() * 1e9;
        let agent = (process.cpu_seconds()? - agent_before) / before.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        for client in running {
            match client.join() {
                Ok(client) => drop(client?),
                Err(_) => bail!("a client thread panicked"),
            }
        }
        for allocation in &parts {
            let id = allocation["id"].as_str().context("no id")?;
            self.request("DELETE", &format!("allocations/{id}"), "")?;
        }
        let used = spent.iter().zip(&after).map(|(before, after)| 100.0 * (after - before) / elapsed);
        Ok((used.collect(), agent))
    }

    fn accuracy(&self, programs: &Programs, seconds: u64, report: &mut Report) -> Result<()> {
        let (used, agent) = self.usage(programs, &PARTS, seconds)?;
        for (part, used) in PARTS.iter().zip(used) {
            let row =
                Row::plain(LIMITS, format!("used_{part}"), format!("used with a limit of {part} %"), "%");
            report.push(Row { best: used, median: used, ..row });
            let off = (used - part).abs();
            let row = Row::plain(LIMITS, format!("off_{part}"), "  deviation", "points");
            report.push(Row { best: off, median: off, aim: Some(Aim::AtMost(5.0)), ..row });
        }
        let row =
            Row::plain(AGENT, "cpu", "CPU time per second, with two workers sampled every second", "ms");
        report.push(Row { best: agent * 1e3, median: agent * 1e3, ..row });
        Ok(())
    }

    /// Guaranteed shares under CPU contention: each client gets less than its limit, in proportion to its request.
    fn contention(&self, programs: &Programs, seconds: u64, report: &mut Report) -> Result<()> {
        let over = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism()?.get();
        let others: Vec<_> = (0..processors * LOAD_THREADS)
            .map(|_| {
                let over = Arc::clone(&over);
                std::thread::spawn(move || while !over.load(Ordering::Relaxed) {})
            })
            .collect();
        let used = self.usage(programs, &CONTENDED_PARTS, seconds);
        over.store(true, Ordering::Relaxed);
        for other in others {
            let _ = other.join();
        }
        let (used, _) = used?;
        for (part, used) in CONTENDED_PARTS.iter().zip(&used) {
            let name = format!("used with a limit and a request of {part} %");
            let row = Row::plain(CONTENDED, format!("contended_{part}"), name, "%");
            report.push(Row { best: *used, median: *used, ..row });
        }
        let off = 100.0 * (used[1] / used[0] / (CONTENDED_PARTS[1] / CONTENDED_PARTS[0]) - 1.0).abs();
        let row =
            Row::plain(CONTENDED, "contended_off", "  deviation from the proportion of the requests", "%");
        report.push(Row { best: off, median: off, aim: Some(Aim::AtMost(10.0)), ..row });
        Ok(())
    }
}

/// Returns the seconds from an action until a condition holds; fails after [`TIMEOUT`].
fn until(act: impl FnOnce() -> Result<()>, mut holds: impl FnMut() -> Result<bool>) -> Result<f64> {
    let start = Instant::now();
    act()?;
    while !holds()? {
        ensure!(start.elapsed() < TIMEOUT, "the condition did not hold within {TIMEOUT:?}");
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(start.elapsed().as_secs_f64())
}

fn summary(row: Row, mut times: Vec<f64>) -> Row {
    times.sort_by(f64::total_cmp);
    Row { best: times[0], median: times[times.len() / 2], ..row }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Ok(pid) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: kill accesses no memory of this process, and the child is not yet waited for, so the pid is still its own.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
