//! A training step: 300 launches, 3 uploads, one number read back; here and at a distance.

use super::site::{NATIVE, OURS, Site, times};
use crate::bench::peer::Peer;
use crate::bench::relay::Relay;
use crate::bench::report::{Aim, Report, Row};
use crate::bench::sample::Sample;
use crate::local_worker::LocalWorker;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const GROUP: &str =
    "training step: 300 launches, 3 uploads, 1 read-back; ratio = (ours - one raw round trip) / native";
const MILLI: f64 = 1e3;
const LAUNCHES: u64 = 300;
/// Elements that each launch changes: a few microseconds of a large GPU.
const ELEMENTS: u64 = 1 << 20;
/// Bytes of a read-back, and of its reply, about.
const MESSAGES: (u64, u64) = (64, 32);

/// Steps in one measurement, before the other side's turn.
const STEPS: u64 = 10;

/// Added round-trip times in microseconds, and measurements.
const DELAYS: [(u64, u64); 3] = [(0, 6), (500, 6), (30_000, 2)];
const TINY_DELAYS: [(u64, u64); 2] = [(0, 1), (500, 1)];

pub fn measure(site: &Site, report: &mut Report, _: &mut Vec<String>) -> Result<()> {
    let worker = site.worker("steps", &[])?;
    let (launches, elements) = (site.sized(LAUNCHES, 20), site.sized(ELEMENTS, 1000));
    let delays: &[(u64, u64)] = if site.is_real() { &DELAYS } else { &TINY_DELAYS };
    for &(delay, rounds) in delays {
        let place = Place::new(site, &worker, Duration::from_micros(delay))?;
        let command = format!("step {} {launches} {elements}", site.sized(STEPS, 2));
        let mut ours = site.ours("calls", &place.address.to_string(), &[])?;
        let mut native = site.native("calls")?;
        let (mut here, mut there) = (Sample::default(), Sample::default());
        // The first turn is a warm-up.
        for turn in 0..=rounds {
            let times_here = times(&mut ours, OURS, &command)?;
            let times_there = match &mut native {
                Some(native) => times(native, NATIVE, &command)?,
                None => Vec::new(),
            };
            if turn > 0 {
                times_here.into_iter().for_each(|time| here.push(time));
                times_there.into_iter().for_each(|time| there.push(time));
            }
        }
        let native = native.map(|_| there);
        let trip = place.round_trip(2 * STEPS)?;
        let name = match delay {
            0 => "on this machine (reference: native + raw round trip)".to_owned(),
            _ => format!("{} ms away (reference: native + raw round trip)", delay as f64 / 1000.0),
        };
        let row = Row::plain(GROUP, format!("step_{delay}_us"), name, "ms").timed(&here, MILLI);
        report.push(match native {
            None => row,
            Some(native) => Row {
                reference: Some((native.best() + trip.best()) * MILLI),
                ratio: Some((here.median() - trip.median()) / native.median()),
                best_ratio: Some((here.best() - trip.best()) / native.best()),
                aim: Some(Aim::AtMost(1.05)),
                ..row
            },
        });
    }
    Ok(())
}

/// A distance to the worker, and raw TCP across the same distance.
struct Place {
    address: SocketAddr,
    delay: Duration,
    remora: PathBuf,
    _relay: Option<Relay>,
}

impl Place {
    fn new(site: &Site, worker: &LocalWorker, delay: Duration) -> Result<Place> {
        let remora = site.remora().to_owned();
        if delay.is_zero() {
            return Ok(Place { address: worker.address(), delay, remora, _relay: None });
        }
        let relay = Relay::start(&remora, worker.address(), delay, &[])
            .with_context(|| format!("cannot start a relay by `{} impair`", remora.display()))?;
        Ok(Place { address: relay.address(), delay, remora, _relay: Some(relay) })
    }

    /// Round trips of raw TCP.
    fn round_trip(&self, count: u64) -> Result<Sample> {
        let mut between = None;
        let mut peer = match self.delay.is_zero() {
            true => Peer::start()?,
            false => Peer::start_behind(|address| {
                Ok(between.insert(Relay::start(&self.remora, address, self.delay, &[])?).address())
            })?,
        };
        let mut trips = Sample::default();
        for _ in 0..count {
            trips.push(peer.echo(MESSAGES.0, MESSAGES.1, 1)?);
        }
        Ok(trips)
    }
}
