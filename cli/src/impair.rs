//! `remora impair`: a proxy that simulates a bad network in front of a worker.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use transport::Endpoint;
use transport::impair::{Impair, Impairment};

use crate::output::outln;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Worker to forward to: host:port
    #[arg(long, value_name = "ENDPOINT")]
    to: Endpoint,
    /// Loopback address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
    /// Milliseconds of latency added in each direction; a round trip takes twice as much longer
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    delay: f64,
    /// Bandwidth in bytes per second in each direction, such as 12M [default: unlimited]
    #[arg(long, value_name = "BYTES", value_parser = worker_status::parse_bytes)]
    bandwidth: Option<u64>,
    /// Close the first connection after BYTES bytes. Repeatable: the second value applies to the second connection, and so on
    #[arg(long, value_name = "BYTES", value_parser = worker_status::parse_bytes)]
    cut: Vec<u64>,
    /// Stop forwarding on the first connection after BYTES bytes, but keep it open. Repeatable: the second value applies to the second
    /// connection, and so on
    #[arg(long, value_name = "BYTES", value_parser = worker_status::parse_bytes)]
    silence: Vec<u64>,
}

/// Forwards until the process is terminated.
pub fn impair(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.listen.ip().is_loopback(), "{} is not a loopback address", arguments.listen);
    ensure!(
        (0.0..60_000.0).contains(&arguments.delay),
        "--delay {} ms is out of range (0 to 60000)",
        arguments.delay
    );
    let impairment = Impairment {
        delay: Duration::from_secs_f64(arguments.delay / 1000.0),
        bandwidth: arguments.bandwidth,
        cuts: arguments.cut.clone(),
        stalls: arguments.silence.clone(),
    };
    let proxy = Impair::listen(arguments.listen, arguments.to.clone(), impairment)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    outln!("listening on {}", proxy.address());
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}
