//! Launches: the time in the calling thread, and a launch with a wait.

use super::site::{NATIVE, OURS, Site, time, times};
use crate::bench::peer::Peer;
use crate::bench::report::{Aim, Report, Row};
use crate::bench::sample::{Pair, Sample};
use anyhow::Result;

const MICRO: f64 = 1e6;

/// Launches in one measurement: fewer than the queues of Remora and of the driver hold, so that none waits for the GPU.
const LAUNCHES: u64 = 400;
/// Launches with a wait in one measurement.
const WAITS: u64 = 100;
/// Bytes of a launch and a wait, and of the reply, about.
const MESSAGES: (u64, u64) = (128, 32);

pub fn measure(site: &Site, report: &mut Report, _: &mut Vec<String>) -> Result<()> {
    let worker = site.worker("launches", &[])?;
    let mut ours = site.ours("calls", &worker.address().to_string(), &[])?;
    let mut native = site.native("calls")?;
    let mut peer = Peer::start()?;
    let rounds = site.sized(15, 1);
    let (launches, waits) = (site.sized(LAUNCHES, 20), site.sized(WAITS, 5));
    let (post, wait) = (format!("launch {launches}"), format!("launch_wait {waits}"));
    let mut posting = (Sample::default(), Sample::default());
    let (mut waiting, mut native_waiting, mut trips) =
        (Pair::default(), Sample::default(), Sample::default());
    // The first launch includes the translation.
    times(&mut ours, OURS, &wait)?;
    for _ in 0..rounds {
        let trip = peer.echo(MESSAGES.0, MESSAGES.1, waits)? / waits as f64;
        trips.push(trip);
        posting.0.push(time(&mut ours, OURS, &post)? / launches as f64);
        let here = middle(&times(&mut ours, OURS, &wait)?);
        let mut limit = trip;
        if let Some(native) = &mut native {
            posting.1.push(time(native, NATIVE, &post)? / launches as f64);
            let there = middle(&times(native, NATIVE, &wait)?);
            native_waiting.push(there);
            limit += there;
        }
        waiting.push(here, limit);
    }
    let group = "launch of a kernel that does nothing";
    report.push(Row {
        reference: native.is_some().then(|| posting.1.best() * MICRO),
        aim: Some(Aim::AtMost(0.5)),
        ..Row::plain(group, "launch", "enqueue, time in the program (reference: cudaLaunchKernel)", "us")
            .timed(&posting.0, MICRO)
    });
    let name = "launch and wait (reference: native + one raw TCP round trip)";
    let row = Row::plain(group, "launch_wait", name, "us").compared(&waiting, MICRO);
    report.push(match native.is_some() {
        true => Row { aim: Some(Aim::AtMost(1.0)), ..row },
        false => Row { reference: None, ratio: None, best_ratio: None, ..row },
    });
    if native.is_some() {
        report.push(
            Row::plain(group, "launch_wait_native", "launch and wait, native", "us")
                .timed(&native_waiting, MICRO),
        );
    }
    let name = "round trip of raw TCP on the loopback interface";
    report.push(Row::plain(group, "trip", name, "us").timed(&trips, MICRO));
    Ok(())
}

/// The median of some times.
pub fn middle(times: &[f64]) -> f64 {
    let mut sample = Sample::default();
    times.iter().for_each(|time| sample.push(*time));
    sample.median()
}
