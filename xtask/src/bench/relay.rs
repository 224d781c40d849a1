//! A simulated network between two ends on this machine: `remora impair` as a separate process.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A relay process; stopped on drop.
#[derive(Debug)]
pub struct Relay {
    child: Child,
    address: SocketAddr,
}

impl Relay {
    /// Forwards to `to` with `round_trip` of added latency, and cuts its connections after the byte counts in `cuts`.
    pub fn start(remora: &Path, to: SocketAddr, round_trip: Duration, cuts: &[u64]) -> Result<Relay> {
        let cuts = cuts.iter().flat_map(|cut| ["--cut".to_owned(), cut.to_string()]).collect();
        Relay::start_with(remora, to, round_trip, cuts)
    }

    /// Like [`Relay::start`], but limits each connection to `bandwidth` bytes per second.
    pub fn start_narrow(
        remora: &Path,
        to: SocketAddr,
        round_trip: Duration,
        bandwidth: u64,
    ) -> Result<Relay> {
        Relay::start_with(remora, to, round_trip, vec!["--bandwidth".to_owned(), bandwidth.to_string()])
    }

    fn start_with(remora: &Path, to: SocketAddr, round_trip: Duration, more: Vec<String>) -> Result<Relay> {
        let mut command = Command::new(remora);
        command.args(["impair", "--to", &to.to_string()]);
        command.args(["--delay", &(round_trip.as_secs_f64() * 500.0).to_string()]).args(more);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut relay = Relay { child: child.context("cannot start remora impair")?, address: to };
        let stdout = relay.child.stdout.take().context("the relay has no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").context("the relay printed no address")?;
        relay.address = address.parse().context("the relay printed an invalid address")?;
        Ok(relay)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
