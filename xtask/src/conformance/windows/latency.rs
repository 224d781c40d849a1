//! The time of a call that waits for its reply, beside a raw Winsock exchange of the same bytes: both under Wine, in turns, in one
//! process.

use super::Site;
use crate::examples;
use crate::step;
use crate::toolchain::Toolchain;
use crate::windows::programs;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The aim: at most this many times as long as the raw exchange. Missing it is reported, and is no failure: other load decides too.
const AIM: f64 = 1.3;
/// Calls by which two runs differ, for the bytes of one.
const MORE: u64 = 1000;

/// Measures, and prints both times and their ratio.
pub fn run(site: &Site<'_>, toolchain: &Toolchain, dlls: &Path) -> Result<()> {
    step::heading("latency under Wine");
    let source = site.repo.root.join("conformance/windows/latency.hip");
    let header = examples::header(site.repo);
    let compiled = programs::compile(toolchain, &[source], &header, dlls, &site.folder)?;
    let program = &compiled.first().context("the program was not compiled")?.program;
    let few = Bytes::of(site, program, 100)?;
    let many = Bytes::of(site, program, 100 + MORE)?;
    let (sent, received) = ((many.sent - few.sent) / MORE, (many.received - few.received) / MORE);
    let mut peer = Peer::start()?;
    let (port, sizes) = (peer.port.to_string(), [sent.to_string(), received.to_string()]);
    let mut command = site.command(program, &["turns", &port, &sizes[0], &sizes[1]], "tcp");
    let printed = step::output(&mut command)?;
    let _ = peer.child.wait();
    let (call, raw) = medians(&printed).with_context(|| format!("latency.exe printed:\n{printed}"))?;
    let ratio = call / raw;
    let verdict = if ratio <= AIM { "within the aim of" } else { "above the aim of" };
    step::progress(&format!(
        "hipMemGetInfo, {sent} bytes there, {received} back: {:.1} us; raw Winsock: {:.1} us; {ratio:.2} times, {verdict} {AIM}",
        call / 1e3,
        raw / 1e3
    ));
    mirror(site, program)
}

/// What pinned memory that kernels know adds to a launch: it is compared as a whole.
fn mirror(site: &Site<'_>, program: &Path) -> Result<()> {
    for size in ["1", "16", "64"] {
        let printed = step::output(&mut site.command(program, &["mirror", size], "tcp"))?;
        let (without, with) =
            medians(&printed).with_context(|| format!("latency.exe printed:\n{printed}"))?;
        step::progress(&format!(
            "launch and wait: {:.0} us; with {size} MiB of mapped pinned memory: {:.0} us",
            without / 1e3,
            with / 1e3
        ));
    }
    Ok(())
}

/// What a program sent and received.
#[derive(Debug, PartialEq, Eq)]
struct Bytes {
    sent: u64,
    received: u64,
}

impl Bytes {
    /// Of a run with so many calls.
    fn of(site: &Site<'_>, program: &Path, calls: u64) -> Result<Bytes> {
        let mut command = site.command(program, &["calls", &calls.to_string()], "tcp");
        let output = command.env("REMORA_STATS", "1").output().context("cannot start latency.exe")?;
        let text = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("latency.exe failed:\n{}{text}", String::from_utf8_lossy(&output.stdout));
        }
        text.lines()
            .find_map(Bytes::parse)
            .with_context(|| format!("latency.exe printed no counters:\n{text}"))
    }

    /// From the line that the client prints when a program ends.
    fn parse(line: &str) -> Option<Bytes> {
        let line = line.trim().strip_prefix("remora: ")?;
        let number = |suffix: &str| {
            line.split(", ")
                .find_map(|part| part.strip_suffix(suffix))
                .and_then(|text| text.trim().parse().ok())
        };
        Some(Bytes { sent: number(" bytes sent")?, received: number(" received")? })
    }
}

/// The other end of the raw exchange: this program, as in `cargo xtask bench`.
#[derive(Debug)]
struct Peer {
    child: Child,
    port: u16,
}

impl Peer {
    fn start() -> Result<Peer> {
        let program = std::env::current_exe().context("cannot determine the path of this program")?;
        let mut command = Command::new(program);
        command.args(["bench", "--peer"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the other end of the raw exchange")?;
        let mut line = String::new();
        let output = child.stdout.take().context("the other end has no standard output")?;
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        Ok(Peer { child, port: port.context("the other end printed no address")? })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two medians that the program printed, in nanoseconds.
fn medians(printed: &str) -> Option<(f64, f64)> {
    let line = printed.lines().find_map(|line| line.trim().strip_prefix("medians "))?;
    let (first, second) = line.split_once(' ')?;
    let (first, second) = (first.parse().ok()?, second.parse::<f64>().ok()?);
    (second > 0.0).then_some((first, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_bytes_are_found_in_their_lines() {
        assert_eq!(medians("medians 22000 20000\r\nPASS latency\r\n"), Some((22000.0, 20000.0)));
        assert_eq!(medians("medians 22000 0\n"), None);
        let line = "remora: 5 round trips, 7 posted, 99 bytes sent, 88 received, 0 reconnects\r";
        assert_eq!(Bytes::parse(line), Some(Bytes { sent: 99, received: 88 }));
    }
}
