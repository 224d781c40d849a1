//! `remora impair`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use transport::Endpoint;
use transport::impair::{Impair, Impairment};

use crate::output::outln;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The worker to forward to: host:port
    #[arg(long, value_name = "ENDPOINT")]
    to: Endpoint,
    /// Where to listen, on this machine only; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
    /// Milliseconds added in each direction: half of what a round trip grows by
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    delay: f64,
    /// Bytes a second in each direction, such as 12M; as fast as it goes by default
    #[arg(long, value_name = "BYTES", value_parser = crate::worker::parse_bytes)]
    bandwidth: Option<u64>,
    /// Cut the first connection after so many bytes, the second after the next such number, and so on. Repeatable
    #[arg(long, value_name = "BYTES", value_parser = crate::worker::parse_bytes)]
    cut: Vec<u64>,
    /// Forward nothing on the first connection after so many bytes but keep it open, on the second after the next such number, and so
    /// on. Repeatable
    #[arg(long, value_name = "BYTES", value_parser = crate::worker::parse_bytes)]
    silence: Vec<u64>,
}

/// Forwards until the process is ended.
pub fn impair(arguments: &Arguments) -> Result<()> {
    ensure!(
        arguments.listen.ip().is_loopback(),
        "{} is not an address of this machine alone",
        arguments.listen
    );
    ensure!((0.0..60_000.0).contains(&arguments.delay), "a delay of {} ms makes no sense", arguments.delay);
    let impairment = Impairment {
        delay: Duration::from_secs_f64(arguments.delay / 1000.0),
        bandwidth: arguments.bandwidth,
        cuts: arguments.cut.clone(),
        silences: arguments.silence.clone(),
    };
    let proxy = Impair::listen(arguments.listen, arguments.to.clone(), impairment)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    outln!("listening on {}", proxy.address());
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}
