//! Measures the connection against bare TCP on the same machine, in one run: a call against a ping-pong of the same
//! sizes, the time a posted request takes in the application thread, and bulk transfers against a raw stream. With the argument
//! `memory` or `unix` the connection goes through shared memory or over a unix socket; the reference stays TCP.

#[path = "../tests/simulated/mod.rs"]
mod simulated;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use session::{Config, Connection, CopyPolicy};
use transport::Endpoint;
use wire::{Launch, MemoryInfo, SynchronizeStream};

const BULK: usize = 32 << 20;
const PING: usize = 28;
const PONG: usize = 44;

fn main() {
    let kind = std::env::args().nth(1).unwrap_or_default();
    let path = std::env::temp_dir().join(format!("remora-connection-cost-{}", std::process::id()));
    let worker = match kind.as_str() {
        "memory" | "unix" => simulated::Simulated::start_at(&Endpoint::Unix { path }, None),
        _ => simulated::Simulated::start(),
    };
    let copies = CopyPolicy { sockets_only: kind == "unix", ..CopyPolicy::default() };
    let config = Config { endpoint: worker.endpoint.clone(), copies, ..Config::default() };
    let (connection, welcome) = Connection::open(config).expect("the simulated worker");

    let info = MemoryInfo { device: 0 };
    let mut calls = Vec::new();
    let mut pings = Vec::new();
    let mut raw = raw_ping_pong();
    for _ in 0..40 {
        pings.push(time(500, &mut raw));
        calls.push(time(500, || {
            connection.call(&info, 0).expect("a reply");
        }));
    }
    let (ping, call) = (best(&pings), best(&calls));
    println!("raw ping-pong      {:8.2} us (median {:.2})", us(ping), us(median(&mut pings)));
    println!("synchronous call   {:8.2} us (median {:.2})", us(call), us(median(&mut calls)));
    println!("  ratio            {:8.2}", us(call) / us(ping));

    let launch = Launch { function: 1, grid: [64, 1, 1], block: [64, 1, 1], ..Launch::default() };
    let arguments = [7u8; 48];
    let mut posts = Vec::new();
    for _ in 0..40 {
        posts.push(time(2000, || connection.post(&launch, &arguments, 1).expect("a session")));
        connection.call(&SynchronizeStream { stream: 0 }, 0).expect("a reply");
    }
    println!(
        "posted launch      {:8.3} us (median of bursts of 2000: {:.3})",
        us(best(&posts)),
        us(median(&mut posts))
    );
    let mut sparse = Vec::new();
    for _ in 0..200 {
        std::thread::sleep(Duration::from_micros(300));
        sparse.push(time(1, || connection.post(&launch, &arguments, 1).expect("a session")));
    }
    println!("posted, sender asleep {:5.2} us (median)", us(median(&mut sparse)));

    let bytes: Vec<u8> = (0..BULK).map(|i| i as u8).collect();
    let mut back = vec![0; BULK];
    let mut stream = raw_stream();
    let (mut raws, mut downs, mut ups) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..15 {
        raws.push(time(1, || stream(&bytes)));
        ups.push(time(1, || connection.write(0, welcome.arena_base, &bytes, 0).expect("a write")));
        downs.push(time(1, || connection.read(0, welcome.arena_base, &mut back, 0).expect("a read")));
    }
    assert!(bytes == back);
    let rate = |time: Duration| BULK as f64 / time.as_secs_f64() / 1e9;
    println!("raw stream         {:8.2} GB/s", rate(best(&raws)));
    println!(
        "host to device     {:8.2} GB/s, ratio {:.2}",
        rate(best(&ups)),
        rate(best(&ups)) / rate(best(&raws))
    );
    println!(
        "device to host     {:8.2} GB/s, ratio {:.2}",
        rate(best(&downs)),
        rate(best(&downs)) / rate(best(&raws))
    );
    println!("{}", connection.statistics());
    connection.close(Duration::from_secs(2));
}

fn time(times: u32, mut run: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        run();
    }
    start.elapsed() / times
}

fn best(times: &[Duration]) -> Duration {
    times.iter().copied().min().unwrap_or_default()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let far = listener.accept().expect("a connection").0;
    near.set_nodelay(true).expect("an option");
    far.set_nodelay(true).expect("an option");
    (near, far)
}

fn raw_ping_pong() -> impl FnMut() {
    let (mut near, mut far) = connected();
    std::thread::spawn(move || {
        let mut ping = [0; PING];
        while far.read_exact(&mut ping).is_ok() && far.write_all(&[0; PONG]).is_ok() {}
    });
    move || {
        near.write_all(&[0; PING]).expect("a write");
        near.read_exact(&mut [0; PONG]).expect("a read");
    }
}

/// Sends everything and waits for one byte that confirms its arrival.
fn raw_stream() -> impl FnMut(&[u8]) {
    let (mut near, mut far) = connected();
    std::thread::spawn(move || {
        let mut bytes = vec![0; BULK];
        while far.read_exact(&mut bytes).is_ok() && far.write_all(&[0]).is_ok() {}
    });
    move |bytes| {
        near.write_all(bytes).expect("a write");
        near.read_exact(&mut [0]).expect("a read");
    }
}
