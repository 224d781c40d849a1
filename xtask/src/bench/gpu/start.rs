//! The first and the second start of a program with 50 kernels: translation, then the cache.

use super::site::{NATIVE, OURS, Site, time};
use crate::bench::program::BenchProcess;
use crate::bench::report::{Aim, Report, Row};
use crate::bench::sample::Sample;
use anyhow::{Context, Result};
use std::fs;

const GROUP: &str = "start of a program with 50 kernels: what the first launch of each adds";
const MILLI: f64 = 1e3;

pub fn measure(site: &Site, report: &mut Report, _: &mut Vec<String>) -> Result<()> {
    let cache = site.cache().join("start");
    if cache.exists() {
        fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
    }
    let worker = site.worker_with_cache("start", &[], &cache)?;
    let address = worker.address().to_string();
    let (mut first, mut second) = (Sample::default(), Sample::default());
    let (mut connecting, mut native) = (Sample::default(), Sample::default());
    for turn in 0..site.sized(6, 2) {
        let mut program = site.ours("start", &address, &[])?;
        connecting.push(time(&mut program, OURS, "connect")?);
        let added = added(&mut program, OURS)?;
        if turn == 0 {
            first.push(added)
        } else {
            second.push(added)
        }
        if let Some(mut program) = site.native("start")? {
            time(&mut program, NATIVE, "connect")?;
            native.push(self::added(&mut program, NATIVE)?);
        }
    }
    let reference = site.is_real().then(|| native.best() * MILLI);
    let name = "first start, translated (reference: native)";
    report.push(Row { reference, ..Row::plain(GROUP, "start_first", name, "ms").timed(&first, MILLI) });
    let name = "second start, from the cache (reference: native)";
    report.push(Row {
        reference,
        aim: site.is_real().then_some(Aim::AtMost(50.0)),
        ..Row::plain(GROUP, "start_second", name, "ms").timed(&second, MILLI)
    });
    let name = "first call of the program: connection and context";
    report.push(Row::plain(GROUP, "start_connect", name, "ms").timed(&connecting, MILLI));
    Ok(())
}

/// Seconds of the first launch of every kernel, less those of the second.
fn added(program: &mut BenchProcess, side: &str) -> Result<f64> {
    let first = time(program, side, "start")?;
    // The best of three: a launch that waits for a processor is no difference between the first launch and the second.
    let mut again = Sample::default();
    for _ in 0..3 {
        again.push(time(program, side, "start")?);
    }
    Ok(first - again.best())
}
