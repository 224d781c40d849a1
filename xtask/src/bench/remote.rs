//! The same program with increasing network latency, compared with raw TCP through the same relay.
//!
//! The relay adds its delay to every byte of both, without limiting the bandwidth of either. It completes TCP's handshake itself,
//! so the connection time counts the exchanges of Remora's handshake and not TCP's.

use super::peer::Peer;
use super::program::{BenchProcess, Counters, Programs};
use super::relay::Relay;
use super::report::{Aim, Report, Row, number};
use super::sample::{Pair, Sample};
use super::svg::{Anchor, FAINT, INK, Svg};
use super::{DEVICE, Extent, failover, same_host};
use crate::bench::machine::Machine;
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

const MILLI: f64 = 1e3;
const MICRO: f64 = 1e6;
const GIGA: f64 = 1e-9;

/// Added round-trip latency, in microseconds.
const DELAYS_US: &[u64] = &[0, 500, 5_000, 30_000, 130_000];
/// The delay at which a training step is judged.
const FAR_US: u64 = 30_000;
/// The delays of a smoke run, which spends most of its time waiting for the relay.
const SMOKE_DELAYS_US: &[u64] = &[0, SMOKE_FAR_US];
const SMOKE_FAR_US: u64 = 5_000;
/// Programs that copy one after another.
const COPYING_PROGRAMS: usize = 7;
/// Launches of a training step, and of a burst.
const STEP_LAUNCHES: u64 = 300;
const STORM: u64 = 10_000;
/// Kernels of a program as large as PyTorch.
const REGISTERED: u64 = 121_000;
/// Weights of the program that is started twice.
const TENSOR: u64 = 8 << 20;
const TENSORS: u64 = 8;
/// Clients that share a worker.
const CLIENTS: usize = 4;

const WAITING: &str = "B1: call that waits for its reply, compared with raw TCP";
const BULK: &str = "B4: copies, compared with raw TCP";
const STEP: &str = "B6: training step of 300 launches, 10 events, 100 polls, 3 uploads, 1 result";

/// A part of the measurements that can run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Calls and copies through a relay, with increasing latency
    Network,
    /// Shared memory and unix sockets on one machine
    SameHost,
    /// Checkpoints, and recovery of a session
    Failover,
}

/// Measures all parts, or the selected one.
pub fn measure(
    repo: &Repo,
    built: &Built,
    programs: &Programs,
    extent: Extent,
    part: Option<Part>,
) -> Result<Report> {
    let mut report = Report::new(Machine::detect());
    let bench = Bench { repo, built, programs, extent };
    let measures = |candidate| part.is_none_or(|part| part == candidate);
    if measures(Part::Network) {
        bench.network(&mut report)?;
    }
    if measures(Part::SameHost) {
        same_host::measure(repo, built, programs, extent, &mut report)?;
    }
    if measures(Part::Failover) {
        failover::measure(repo, built, programs, extent, &mut report)?;
    }
    if measures(Part::Network) {
        bench.second_start(&mut report)?;
    }
    let mut groups = Vec::new();
    for row in &report.rows {
        if !groups.contains(&row.group) {
            groups.push(row.group);
        }
    }
    report.rows.sort_by_key(|row| groups.iter().position(|group| *group == row.group));
    report.close();
    Ok(report)
}

struct Bench<'a> {
    repo: &'a Repo,
    built: &'a Built,
    programs: &'a Programs,
    extent: Extent,
}

impl Bench<'_> {
    /// Everything that one worker behind a relay can show.
    fn network(&self, report: &mut Report) -> Result<()> {
        step::heading(&format!("measuring a software {DEVICE} over a slow network"));
        let worker = self.worker("worker-remote")?;
        for &delay in self.delays() {
            step::progress(&format!("{} ms of latency", delay as f64 / 1e3));
            self.at(&worker, Duration::from_micros(delay), report)?;
        }
        step::progress("several clients, a cut connection, a large program, a second start");
        self.fairness(&worker, report)?;
        for delay in [Duration::ZERO, self.far()] {
            self.recovery(&worker, delay, report)?;
        }
        self.registration(&worker, report)?;
        self.narrow(&worker, report)?;
        self.spread(&worker, report)
    }

    /// Starts a worker with an empty cache.
    fn worker(&self, log: &str) -> Result<LocalWorker> {
        let cache = self.repo.target.join("bench/cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).with_context(|| format!("cannot empty {}", cache.display()))?;
        }
        self.worker_again(log)
    }

    /// Starts a worker with the cache of the previous one.
    fn worker_again(&self, log: &str) -> Result<LocalWorker> {
        let mut remora = Command::new(&self.built.remora);
        remora.env("XDG_CACHE_HOME", self.repo.target.join("bench/cache"));
        LocalWorker::start_with(remora, DEVICE, &[], &self.programs.log(log))
    }

    fn relay(&self, worker: &LocalWorker, delay: Duration) -> Result<Relay> {
        Relay::start(&self.built.remora, worker.address(), delay, &[])
    }

    fn remote(&self, relay: &Relay) -> Result<BenchProcess> {
        self.programs.start_at(&self.programs.remote, relay.address())
    }

    /// Returns the counters of a program that executes these commands.
    fn counters(&self, relay: &Relay, commands: &[String]) -> Result<Counters> {
        let mut program = self.remote(relay)?;
        for command in commands {
            program.query(command)?;
        }
        program.finish()
    }

    /// Returns the round trips of commands, as the difference to a program that only connects.
    fn trips(&self, relay: &Relay, commands: &[String]) -> Result<u64> {
        let base = self.counters(relay, &["connect".to_owned()])?.round_trips;
        Ok(self.counters(relay, commands)?.round_trips - base)
    }

    fn at(&self, worker: &LocalWorker, delay: Duration, report: &mut Report) -> Result<()> {
        let relay = self.relay(worker, delay)?;
        let (mut peer, _between) = self.raw_pair(delay)?;
        self.waiting(&relay, &mut peer, delay, report)?;
        self.copying(&relay, delay, report)?;
        self.stepping(&relay, &mut peer, delay, report)?;
        self.polling(&relay, delay, report)?;
        self.posting(&relay, delay, report)?;
        self.setting_up(&relay, delay, report)
    }

    /// Starts two processes that only exchange bytes, and the relay between them.
    fn raw_pair(&self, delay: Duration) -> Result<(Peer, Relay)> {
        let mut between = None;
        let peer = Peer::start_behind(|address| {
            let relay = Relay::start(&self.built.remora, address, delay, &[])?;
            Ok(between.insert(relay).address())
        })?;
        Ok((peer, between.context("the raw pair has no relay")?))
    }

    /// Added round-trip latencies, in microseconds.
    fn delays(&self) -> &'static [u64] {
        if self.extent.is_smoke() { SMOKE_DELAYS_US } else { DELAYS_US }
    }

    /// The delay at which a training step is judged.
    fn far(&self) -> Duration {
        Duration::from_micros(if self.extent.is_smoke() { SMOKE_FAR_US } else { FAR_US })
    }

    /// A repetition count, reduced in a smoke run.
    fn many(&self, count: u64) -> u64 {
        if self.extent.is_smoke() { 2 } else { count }
    }

    /// How often an operation that takes `each` fits into the time budget.
    fn often(&self, each: Duration, most: u64) -> u64 {
        let budget = Duration::from_millis(20 * self.extent.rounds as u64);
        (budget.as_micros() as u64 / each.as_micros().max(1) as u64).clamp(2, most)
    }

    fn waiting(&self, relay: &Relay, peer: &mut Peer, delay: Duration, report: &mut Report) -> Result<()> {
        let mut program = self.programs.start_at(&self.programs.calls, relay.address())?;
        // The bytes of a waiting call are known from the local measurements.
        let (sent, received) = (32, 28);
        let count = self.often(delay, self.extent.calls);
        let mut pair = Pair::default();
        program.seconds("synchronize 2")?;
        let turns = (if delay.is_zero() { 6 } else { 2 }) * self.extent.rounds;
        for _ in 0..turns {
            let reference = peer.echo(sent, received, count)? / count as f64;
            pair.push(program.seconds(&format!("synchronize {count}"))? / count as f64, reference);
        }
        let (calls, trips) = (turns as u64 * count, program.finish()?.round_trips);
        if trips < calls {
            bail!(
                "{calls} calls of hipStreamSynchronize took {trips} round trips; this measurement needs one each"
            );
        }
        report.push(Row {
            aim: Some(Aim::AtMost(1.2)),
            ..Row::plain(WAITING, key("sync", delay), named("hipStreamSynchronize", delay), "ms")
                .compared(&pair, MILLI)
        });
        Ok(())
    }

    fn copying(&self, relay: &Relay, delay: Duration, report: &mut Report) -> Result<()> {
        let bytes = self.extent.largest_copy;
        let (mut up, mut down) = (Pair::default(), Pair::default());
        // The speed of a connection depends on which CPUs its reader and writer run on, and that placement persists: several
        // programs and several raw pairs tell more than many rounds of one.
        for _ in 0..(if self.extent.is_smoke() { 1 } else { COPYING_PROGRAMS }) {
            let (mut peer, _between) = self.raw_pair(delay)?;
            peer.upload(bytes, 1)?;
            peer.download(bytes, 1)?;
            let mut program = self.remote(relay)?;
            program.seconds(&format!("upload {bytes}"))?;
            program.seconds(&format!("download {bytes}"))?;
            for _ in 0..self.extent.rounds.div_ceil(2) {
                let raw = peer.upload(bytes, 1)?;
                up.push(program.seconds(&format!("upload {bytes}"))?, raw);
                let raw = peer.download(bytes, 1)?;
                down.push(program.seconds(&format!("download {bytes}"))?, raw);
            }
            program.finish()?;
        }
        for (direction, name, pair) in
            [("upload", "host to device", &up), ("download", "device to host", &down)]
        {
            let speed = |seconds: f64| bytes as f64 / seconds * GIGA;
            report.push(Row {
                best: speed(pair.ours.best()),
                median: speed(pair.ours.median()),
                reference: Some(speed(pair.reference.best())),
                ratio: Some(1.0 / pair.ratio()),
                best_ratio: Some(1.0 / pair.best_ratio()),
                aim: Some(Aim::AtLeast(0.95)),
                ..Row::plain(
                    BULK,
                    key(direction, delay),
                    named(&format!("{name}, {} MiB", bytes >> 20), delay),
                    "GB/s",
                )
            });
        }
        Ok(())
    }

    fn stepping(&self, relay: &Relay, peer: &mut Peer, delay: Duration, report: &mut Report) -> Result<()> {
        let mut program = self.remote(relay)?;
        program.query(&format!("step 3 {STEP_LAUNCHES}"))?;
        let mut pair = Pair::default();
        for _ in 0..self.often(delay + Duration::from_millis(1), 50).max(self.many(12)) {
            let raw = peer.echo(32, 28, 1)?;
            for nanoseconds in program.query(&format!("step 1 {STEP_LAUNCHES}"))? {
                pair.push(nanoseconds as f64 * 1e-9, raw);
            }
        }
        program.finish()?;
        report.push(Row {
            best: pair.ours.best() * MILLI,
            median: pair.ours.median() * MILLI,
            reference: Some(pair.reference.best() * MILLI),
            ..Row::plain(STEP, key("step", delay), named("time of a step", delay), "ms")
        });
        // The kernels' own time belongs to the device; only the added time is judged.
        let near = key("step", Duration::ZERO);
        if let Some(near) = report.rows.iter().find(|row| row.key == near).filter(|_| !delay.is_zero()) {
            report.push(Row {
                best: pair.ours.best() * MILLI - near.best,
                median: pair.ours.median() * MILLI - near.median,
                reference: Some(pair.reference.best() * MILLI),
                aim: (delay == self.far()).then_some(Aim::AtMost(31.0)),
                ..Row::plain(STEP, key("step_added", delay), named("time added by the distance", delay), "ms")
            });
        }
        const MORE: u64 = 8;
        let steps = |count: u64| format!("step {count} {STEP_LAUNCHES}");
        let few = self.counters(relay, &[steps(4)])?;
        let many = self.counters(relay, &[steps(4 + MORE)])?;
        report.push(Row {
            best: (many.round_trips - few.round_trips) as f64 / MORE as f64,
            aim: Some(Aim::AtMost(1.0)),
            ..Row::plain(STEP, key("step_trips", delay), named("round trips per step", delay), "")
        });
        Ok(())
    }

    fn polling(&self, relay: &Relay, delay: Duration, report: &mut Report) -> Result<()> {
        let count = self.often(delay + Duration::from_micros(100), 50);
        for (command, name) in [("poll_event", "hipEventQuery"), ("poll_stream", "hipStreamQuery")] {
            let mut program = self.remote(relay)?;
            program.query(&format!("{command} 4"))?;
            let [polls, nanoseconds] = program.query(&format!("{command} {count}"))?[..] else {
                bail!("{command} did not reply with two numbers");
            };
            program.finish()?;
            let few = self.trips(relay, &[format!("{command} 4")])?;
            let many = self.trips(relay, &[format!("{command} {}", 4 + count)])?;
            let name = format!("{name}: round trips per wait of {} polls", polls / count);
            report.push(Row {
                best: (many.saturating_sub(few)) as f64 / count as f64,
                aim: Some(Aim::AtMost(1.0)),
                ..Row::plain("B2: polling", key(&format!("{command}_trips"), delay), named(&name, delay), "")
            });
            report.push(Row {
                best: nanoseconds as f64 * 1e-6 / count as f64,
                ..Row::plain("B2: polling", key(command, delay), named("time of that wait", delay), "ms")
            });
        }
        Ok(())
    }

    fn posting(&self, relay: &Relay, delay: Duration, report: &mut Report) -> Result<()> {
        let mut program = self.remote(relay)?;
        let (mut posting, mut all, mut pairs) = (Sample::default(), Sample::default(), Sample::default());
        program.query(&format!("storm {STORM}"))?;
        let most = 4 * self.extent.rounds as u64;
        for _ in 0..self.often(delay + Duration::from_millis(20), most).max(self.many(20)) {
            // First few enough that none waits for the flow-control window, then a whole burst.
            let [few, _] = program.query("storm 1000")?[..] else {
                bail!("`storm` did not reply with two numbers")
            };
            posting.push(few as f64 * 1e-9 / 1000.0);
            let [_, both] = program.query(&format!("storm {STORM}"))?[..] else {
                bail!("`storm` did not reply with two numbers");
            };
            all.push(both as f64 * 1e-9);
            pairs.push(program.seconds("pairs 1000")? / 1000.0);
        }
        program.finish()?;
        let group = "B2, B3: posted calls, time in the calling thread";
        report.push(Row {
            aim: Some(Aim::AtMost(0.3)),
            ..Row::plain(group, key("launch", delay), named("kernel<<<...>>>(...)", delay), "us")
                .timed(&posting, MICRO)
        });
        report.push(
            Row::plain(group, key("pair", delay), named("hipMalloc and hipFree", delay), "us")
                .timed(&pairs, MICRO),
        );
        report.push(
            Row::plain(
                "B5: 10,000 launches and one wait",
                key("storm", delay),
                named("total time", delay),
                "ms",
            )
            .timed(&all, MILLI),
        );
        Ok(())
    }

    /// Creates 100 buffers, 50 kernels and 10 streams.
    fn setting_up(&self, relay: &Relay, delay: Duration, report: &mut Report) -> Result<()> {
        let group = "setup of 100 buffers, 50 kernels and 10 streams";
        let (mut connecting, mut making) = (Sample::default(), Sample::default());
        for _ in 0..self.often(3 * delay + Duration::from_millis(20), 8).max(self.many(4)) {
            let mut program = self.remote(relay)?;
            connecting.push(program.seconds("connect")?);
            let [_, all] = program.query("setup 100 10")?[..] else {
                bail!("`setup` did not reply with two numbers")
            };
            making.push(all as f64 * 1e-9);
            program.finish()?;
        }
        let trips = self.trips(relay, &["setup 100 10".to_owned()])?;
        report.push(Row {
            best: trips as f64,
            aim: Some(Aim::AtMost(2.0)),
            ..Row::plain(
                group,
                key("setup_trips", delay),
                named("round trips, without connecting", delay),
                "",
            )
        });
        // The time to start a session without latency is not part of the round trips.
        let near = report.rows.iter().find(|row| row.key == key("connect", Duration::ZERO));
        let starting = near.map_or(0.0, |row| row.best / MILLI);
        if delay >= self.far() {
            let greeting = ((connecting.best() - starting) / delay.as_secs_f64()).round();
            let name = "round trips, with Remora's handshake (TCP's own takes one more)";
            report.push(Row {
                best: trips as f64 + greeting,
                aim: Some(Aim::AtMost(2.0)),
                ..Row::plain(group, key("setup_trips_connected", delay), named(name, delay), "")
            });
        }
        report.push(
            Row::plain(group, key("setup", delay), named("time, without connecting", delay), "ms")
                .timed(&making, MILLI),
        );
        report.push(
            Row::plain(group, key("connect", delay), named("time to connect", delay), "ms")
                .timed(&connecting, MILLI),
        );
        Ok(())
    }

    /// Several clients at once: the least served compared with the most served.
    fn fairness(&self, worker: &LocalWorker, report: &mut Report) -> Result<()> {
        let mut programs = (0..CLIENTS)
            .map(|_| self.programs.start_at(&self.programs.remote, worker.address()))
            .collect::<Result<Vec<_>>>()?;
        for program in &mut programs {
            program.query("hammer 10")?;
        }
        let milliseconds = 100 * self.extent.rounds;
        let counts = std::thread::scope(|scope| {
            let counts: Vec<_> = programs
                .iter_mut()
                .map(|program| scope.spawn(move || program.query(&format!("hammer {milliseconds}"))))
                .collect();
            counts
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a client thread panicked"))?)
                .collect::<Result<Vec<_>>>()
        })?;
        let counts: Vec<f64> = counts.iter().flatten().map(|&count| count as f64).collect();
        for (program, count) in programs.into_iter().zip(&counts) {
            let trips = program.finish()?.round_trips as f64;
            if trips < *count {
                bail!(
                    "{count} waiting calls of a client took {trips} round trips; this measurement needs one each"
                );
            }
        }
        let least = counts.iter().copied().fold(f64::INFINITY, f64::min);
        let most = counts.iter().copied().fold(0.0, f64::max);
        let group = "B7: four clients at once";
        report.push(Row {
            best: least / most,
            ..Row::plain(group, "fairness", "calls of the slowest client, relative to the fastest", "")
        });
        report.push(Row {
            best: counts.iter().sum::<f64>() / milliseconds as f64,
            ..Row::plain(group, "together", "calls that wait, of all clients", "k/s")
        });
        Ok(())
    }

    /// A connection that is cut during an upload and during the download that follows.
    fn recovery(&self, worker: &LocalWorker, delay: Duration, report: &mut Report) -> Result<()> {
        let bytes = self.extent.largest_copy / 4;
        let (mut whole, mut cut) = (Sample::default(), Sample::default());
        for _ in 0..self.extent.rounds.min(3) {
            for (sample, cuts) in [(&mut whole, &[][..]), (&mut cut, &[bytes / 2, bytes][..])] {
                let relay = Relay::start(&self.built.remora, worker.address(), delay, cuts)?;
                // No upload cache, so that all bytes are sent. One connection, because a cut happens after a byte count of one
                // connection.
                let variables = [
                    ("REMORA_UPLOAD_CACHE", "never"),
                    ("REMORA_COMPRESSION", "never"),
                    ("REMORA_LINKS", "1"),
                ];
                let address = relay.address().to_string();
                let mut program = self.programs.start_with(&self.programs.remote, &address, &variables)?;
                program.seconds("connect")?;
                sample.push(program.seconds(&format!("transfer {bytes}"))?);
                let counters = program.finish()?;
                if counters.reconnects != cuts.len() as u64 {
                    bail!("{} cuts caused {} reconnects", cuts.len(), counters.reconnects);
                }
            }
        }
        report.push(Row {
            best: (cut.best() - whole.best()).max(0.0) / 2.0 * MILLI,
            ..Row::plain(
                "B8: connection cut during a copy; all bytes are compared",
                key("recovery", delay),
                named("time lost by a cut", delay),
                "ms",
            )
        });
        Ok(())
    }

    fn registration(&self, worker: &LocalWorker, report: &mut Report) -> Result<()> {
        let mut sample = Sample::default();
        let kernels = self.extent.scaled(REGISTERED);
        for _ in 0..self.extent.rounds.min(3) {
            let mut program = self.programs.start_at(&self.programs.remote, worker.address())?;
            let command = format!("register {kernels} {}", self.programs.code_object.display());
            let [registered, _] = program.query(&command)?[..] else {
                bail!("`register` gave an unexpected reply");
            };
            sample.push(registered as f64 * 1e-9);
            program.finish()?;
        }
        report.push(Row {
            best: sample.best(),
            median: sample.median(),
            aim: Some(Aim::AtMost(0.2)),
            ..Row::plain("B9: 121,000 kernels", "register", "registration", "s")
        });
        Ok(())
    }

    /// Uploads over a link of low bandwidth, uncompressed and compressed where that is worthwhile.
    fn narrow(&self, worker: &LocalWorker, report: &mut Report) -> Result<()> {
        const BANDWIDTH: u64 = 100_000_000;
        let bytes: u64 = if self.extent.is_smoke() { 1 << 20 } else { 16 << 20 };
        let delay = Duration::from_millis(5);
        let relay = Relay::start_narrow(&self.built.remora, worker.address(), delay, BANDWIDTH)?;
        let start = |compression: &'static str| {
            // The relay limits the bandwidth of each connection; this measures one connection.
            let mut variables = vec![("REMORA_UPLOAD_CACHE", "never"), ("REMORA_LINKS", "1")];
            if !compression.is_empty() {
                variables.push(("REMORA_COMPRESSION", compression));
            }
            self.programs.start_with(&self.programs.remote, &relay.address().to_string(), &variables)
        };
        let (mut plain, mut measured) = (start("never")?, start("")?);
        let contents = [
            ("upload", "packed_noise", "incompressible bytes", Aim::AtMost(1.02)),
            ("upload_sparse", "packed_sparse", "bytes that are 7/8 zeros", Aim::AtMost(1.0)),
        ];
        for (command, key, name, aim) in contents {
            let command = format!("{command} {bytes}");
            let mut pair = Pair::default();
            plain.seconds(&command)?;
            measured.seconds(&command)?;
            for _ in 0..self.extent.rounds {
                let reference = plain.seconds(&command)?;
                pair.push(measured.seconds(&command)?, reference);
            }
            report.push(Row {
                aim: Some(aim),
                ..Row::plain("16 MiB over 100 MB/s, 5 ms away, compared with no compression", key, name, "ms")
                    .compared(&pair, MILLI)
            });
        }
        plain.finish()?;
        measured.finish().map(drop)
    }

    /// Copies over a link that limits each connection, with one connection and with the default number.
    fn spread(&self, worker: &LocalWorker, report: &mut Report) -> Result<()> {
        // A copy must be slow for a while before the client opens more connections.
        let (bytes, bandwidth): (u64, u64) =
            if self.extent.is_smoke() { (24 << 20, 200_000_000) } else { (96 << 20, 40_000_000) };
        let relay = Relay::start_narrow(&self.built.remora, worker.address(), self.far(), bandwidth)?;
        let start = |links: &[(&'static str, &'static str)]| {
            let mut variables = vec![("REMORA_COMPRESSION", "never"), ("REMORA_UPLOAD_CACHE", "never")];
            variables.extend_from_slice(links);
            self.programs.start_with(&self.programs.remote, &relay.address().to_string(), &variables)
        };
        let (mut one, mut many) = (start(&[("REMORA_LINKS", "1")])?, start(&[])?);
        for (direction, name) in [("upload", "host to device"), ("download", "device to host")] {
            let command = format!("{direction} {bytes}");
            let mut pair = Pair::default();
            for _ in 0..self.extent.rounds.min(3) {
                let reference = one.seconds(&command)?;
                pair.push(many.seconds(&command)?, reference);
            }
            report.push(Row {
                aim: Some(Aim::AtMost(0.25)),
                ..Row::plain(
                    "96 MiB, 30 ms away, 40 MB/s per connection: several connections compared with one",
                    format!("{direction}_spread"),
                    name,
                    "ms",
                )
                .compared(&pair, MILLI)
            });
        }
        one.finish()?;
        many.finish().map(drop)
    }

    /// A program with weights, started twice; the worker is restarted in between.
    fn second_start(&self, report: &mut Report) -> Result<()> {
        let tensors = if self.extent.is_smoke() { 1 } else { TENSORS };
        let commands = [format!("weights {TENSOR} {tensors}"), "setup 100 10".to_owned()];
        let mut runs = Vec::new();
        for (round, log) in ["worker-first", "worker-second"].into_iter().enumerate() {
            let worker = if round == 0 { self.worker(log)? } else { self.worker_again(log)? };
            let relay = self.relay(&worker, self.far())?;
            let started = Instant::now();
            let counters = self.counters(&relay, &commands)?;
            runs.push((counters, started.elapsed().as_secs_f64()));
        }
        let [(first, first_time), (second, second_time)] = runs[..] else { bail!("there must be two runs") };
        let group = "B10: the same program again, 64 MiB of weights, 30 ms away";
        report.push(Row {
            best: second.sent as f64 / first.sent as f64,
            aim: Some(Aim::AtMost(0.05)),
            ..Row::plain(group, "second_bytes", "bytes sent by the second run, relative to the first", "")
        });
        report.push(Row {
            best: second_time / first_time,
            ..Row::plain(group, "second_time", "time of the second run, relative to the first", "")
        });
        Ok(())
    }
}

fn key(what: &str, delay: Duration) -> String {
    format!("{what}_{}_us", delay.as_micros())
}

fn named(what: &str, delay: Duration) -> String {
    format!("{what}, {} ms away", delay.as_micros() as f64 / 1e3)
}

/// Ratios to raw TCP over the delay.
pub fn plot(report: &Report) -> String {
    const LEFT: f64 = 60.0;
    const RIGHT: f64 = 700.0;
    const TOP: f64 = 70.0;
    const BOTTOM: f64 = 330.0;
    const HIGHEST: f64 = 1.4;
    let mut svg = Svg::new(720.0, 370.0);
    let title = "Remora compared with raw TCP through the same relay, by added round-trip time";
    svg.text((16.0, 24.0), Anchor::Start, 15, INK, title);
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value.min(HIGHEST) / HIGHEST;
    let x = |index: usize| {
        LEFT + 30.0 + (RIGHT - LEFT - 60.0) * index as f64 / (DELAYS_US.len().max(2) - 1) as f64
    };
    for tick in 0..=7 {
        let value = f64::from(tick) * 0.2;
        svg.line((LEFT, y(value)), (RIGHT, y(value)), FAINT, tick == 5);
        svg.text((LEFT - 8.0, y(value) + 4.0), Anchor::End, 12, INK, &number(value));
    }
    for (index, delay) in DELAYS_US.iter().enumerate() {
        let text = format!("{} ms", *delay as f64 / 1e3);
        svg.text((x(index), BOTTOM + 20.0), Anchor::Middle, 12, INK, &text);
    }
    let kinds = [
        ("time of a call that waits", "sync", "#0969da"),
        ("speed of an upload", "upload", "#1a7f37"),
        ("speed of a download", "download", "#bc4c00"),
    ];
    for (index, (name, what, colour)) in kinds.into_iter().enumerate() {
        let points: Vec<(f64, f64)> = DELAYS_US
            .iter()
            .enumerate()
            .filter_map(|(at, delay)| {
                let wanted = key(what, Duration::from_micros(*delay));
                let row = report.rows.iter().find(|row| row.key == wanted)?;
                Some((x(at), y(row.ratio?)))
            })
            .collect();
        svg.curve(&points, colour, false);
        let at = LEFT + 200.0 * index as f64;
        svg.line((at, 46.0), (at + 26.0, 46.0), colour, false);
        svg.text((at + 32.0, 50.0), Anchor::Start, 12, INK, name);
    }
    svg.finish()
}
