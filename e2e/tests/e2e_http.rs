//! The HTTP servers of board and agent: clients that send half a request and wait do not block others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{Marker, Running, remora};

const HALF_SENT: usize = 1100;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a service with the default descriptor limit of common systems.
fn start(arguments: &[&str], marker: &Marker) -> (Running, String) {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 1024; exec \"$0\" \"$@\""]).arg(remora()).args(arguments);
    let process = Running::start(command.env(Marker::NAME, marker.value()));
    let line = process.wait_for_line("listening on ");
    (process, line.trim().strip_prefix("listening on http://").unwrap().to_owned())
}

fn healthz(address: &str) -> Duration {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("/healthz responds");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    start.elapsed()
}

fn expect_health(address: &str) {
    e2e::raise_descriptor_limit(2 * HALF_SENT);
    let halves = [
        "GET /healthz HTTP/1.1\r\nhost: local",
        "POST /api/v1/allocations HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
        "",
    ];
    let mut crowd = Vec::new();
    for half in halves.iter().cycle().take(HALF_SENT) {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(half.as_bytes());
        crowd.push(stream);
    }
    let time = healthz(address);
    assert!(time < Duration::from_secs(1), "{time:?}");
    drop(crowd);
}

#[test]
fn half_sent_requests_do_not_stop_the_board() {
    let (folder, marker) = (tempfile::tempdir().unwrap(), Marker::new());
    let data = folder.path().to_str().unwrap();
    let (process, address) =
        start(&["serve", "--ready", "--listen", "127.0.0.1:0", "--device", "mi210", "--data", data], &marker);
    expect_health(&address);
    drop(process);
}

#[test]
fn half_sent_requests_do_not_stop_the_agent() {
    let (folder, marker) = (tempfile::tempdir().unwrap(), Marker::new());
    let data = folder.path().to_str().unwrap();
    let (process, address) = start(
        &[
            "agent",
            "--ready",
            "--listen",
            "127.0.0.1:0",
            "--node",
            "n",
            "--data",
            data,
            "--software",
            "mi300x=1G",
        ],
        &marker,
    );
    expect_health(&address);
    drop(process);
}
