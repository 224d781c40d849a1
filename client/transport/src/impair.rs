//! A TCP proxy that simulates a bad network: delay, limited bandwidth, disconnects and stalls, after given numbers of bytes or on
//! command.
//!
//! For tests, for measurements, and for trying out how a program behaves from far away. It does not interpret what it carries.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::os::timer;
use crate::{Endpoint, Link};

/// Limit on bytes in flight in one direction: more than the delay times any realistic bandwidth.
const IN_FLIGHT_LIMIT: usize = 1 << 30;
const BLOCK: usize = 256 << 10;
/// Additional wake-up latency of an idle machine. The end of a long delay is therefore spent polling.
const WAKING: Duration = Duration::from_micros(150);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Poll interval at which a stalled connection checks whether it was cut.
const SILENT_LOOK: Duration = Duration::from_millis(10);

/// Which direction of a connection stalls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stall {
    /// Bytes from the target.
    Answers,
    /// Both directions.
    Both,
}

/// Impairment of the simulated network.
#[derive(Clone, Debug, Default)]
pub struct Impairment {
    /// Delay added in each direction: half the extra round trip.
    pub delay: Duration,
    /// Bytes per second in each direction; `None` for unlimited.
    pub bandwidth: Option<u64>,
    /// The first connection is cut after this many bytes (of both directions together), the second after the next number, and so
    /// on; connections beyond the list are not cut.
    pub cuts: Vec<u64>,
    /// Like `cuts`, but the connection stays open and stops forwarding.
    pub stalls: Vec<u64>,
}

/// A running proxy. Dropping it cuts all connections and stops listening.
#[derive(Debug)]
pub struct Impair {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: Endpoint,
    impairment: Impairment,
    stopping: AtomicBool,
    refusing: AtomicBool,
    accepted: AtomicU64,
    carried: AtomicU64,
    connections: Mutex<Vec<Weak<Tunnel>>>,
}

#[derive(Debug)]
struct Tunnel {
    near: Link,
    far: Link,
    left: Option<AtomicU64>,
    /// Bytes left until it stalls.
    bytes_until_stall: Option<AtomicU64>,
    /// Whether bytes to the target, and bytes from it, are held back.
    silent: [AtomicBool; 2],
    ended: AtomicBool,
}

impl Impair {
    /// Listens on a free loopback port and forwards every connection to the target.
    pub fn start(target: Endpoint, impairment: Impairment) -> io::Result<Impair> {
        Impair::listen("127.0.0.1:0".parse().map_err(io::Error::other)?, target, impairment)
    }

    /// Like [`Impair::start`], but on a given address.
    pub fn listen(address: SocketAddr, target: Endpoint, impairment: Impairment) -> io::Result<Impair> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            impairment,
            stopping: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            carried: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let thread = thread::Builder::new().name("impair".into()).spawn({
            let shared = shared.clone();
            move || shared.serve(&listener)
        })?;
        Ok(Impair { shared, address, thread: Some(thread) })
    }

    /// Address that the proxy listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Endpoint that the proxy listens on.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::tcp(self.address.ip().to_string(), self.address.port())
    }

    /// Cuts every current connection.
    pub fn cut(&self) {
        for tunnel in self.shared.connections.lock().drain(..) {
            if let Some(tunnel) = tunnel.upgrade() {
                tunnel.cut();
            }
        }
    }

    /// Stalls every current connection: it stays open and forwards nothing from now on. New connections work.
    pub fn stall(&self, what: Stall) {
        for tunnel in self.shared.connections.lock().iter().filter_map(Weak::upgrade) {
            tunnel.stall(what);
        }
    }

    /// While refusing, closes new connections at once, as if the worker were gone.
    pub fn refuse(&self, refusing: bool) {
        self.shared.refusing.store(refusing, Ordering::Relaxed);
    }

    /// Returns the number of connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Returns the bytes carried so far, both directions together.
    pub fn carried(&self) -> u64 {
        self.shared.carried.load(Ordering::Relaxed)
    }
}

impl Drop for Impair {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.cut();
        // Connects to itself to wake the accepting thread.
        let _ = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(self: &Arc<Shared>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            let Ok(stream) = stream else { continue };
            if self.refusing.load(Ordering::Relaxed) {
                continue;
            }
            // If the target is unreachable, the client sees a connection that closes at once.
            let (Ok(near), Ok(far)) = (Link::from_tcp(stream), self.target.connect(CONNECT_TIMEOUT)) else {
                continue;
            };
            let index = self.accepted.fetch_add(1, Ordering::Relaxed) as usize;
            let left = self.impairment.cuts.get(index).map(|&bytes| AtomicU64::new(bytes));
            let bytes_until_stall = self.impairment.stalls.get(index).map(|&bytes| AtomicU64::new(bytes));
            let (silent, ended) = (Default::default(), AtomicBool::new(false));
            let tunnel = Arc::new(Tunnel { near, far, left, bytes_until_stall, silent, ended });
            let mut connections = self.connections.lock();
            connections.retain(|tunnel| tunnel.strong_count() > 0);
            connections.push(Arc::downgrade(&tunnel));
            drop(connections);
            for backwards in [false, true] {
                let (shared, tunnel) = (self.clone(), tunnel.clone());
                thread::spawn(move || shared.forward(&tunnel, backwards));
            }
        }
    }

    fn forward(&self, tunnel: &Arc<Tunnel>, backwards: bool) {
        let (from, to) = if backwards { (&tunnel.far, &tunnel.near) } else { (&tunnel.near, &tunnel.far) };
        let bad = !self.impairment.delay.is_zero() || self.impairment.bandwidth.is_some();
        let queue = bad.then(|| {
            let queue = Arc::new(Queue::default());
            let (feed, to, delay) = (queue.clone(), to.clone(), self.impairment.delay);
            thread::spawn(move || feed.drain(&to, delay));
            queue
        });
        let mut buffer = vec![0; BLOCK];
        let mut next_free = Instant::now();
        while let Ok(mut bytes) = from.read(&mut buffer) {
            if bytes == 0 {
                break;
            }
            if let Some(bytes_until_stall) = &tunnel.bytes_until_stall
                && spend(bytes_until_stall, bytes).1
            {
                tunnel.stall(Stall::Both);
            }
            tunnel.hold(backwards);
            let cut = tunnel.spend(&mut bytes);
            self.carried.fetch_add(bytes as u64, Ordering::Relaxed);
            if let Some(bandwidth) = self.impairment.bandwidth {
                next_free = next_free.max(Instant::now())
                    + Duration::from_nanos(
                        (bytes as u128 * 1_000_000_000 / u128::from(bandwidth.max(1))) as u64,
                    );
                thread::sleep(next_free.saturating_duration_since(Instant::now()));
            }
            let forwarded = match &queue {
                Some(queue) => queue.push(buffer[..bytes].to_vec()),
                None => to.write_all(&buffer[..bytes]).is_ok(),
            };
            if cut || !forwarded {
                tunnel.cut();
                break;
            }
        }
        match queue {
            Some(queue) => queue.close(),
            None => tunnel.cut(),
        }
    }
}

impl Tunnel {
    /// Takes bytes out of what is left before the cut; returns true when none is left.
    fn spend(&self, bytes: &mut usize) -> bool {
        let Some(left) = &self.left else { return false };
        let (spent, end) = spend(left, *bytes);
        *bytes = spent;
        end
    }

    fn stall(&self, what: Stall) {
        self.silent[0].store(what == Stall::Both, Ordering::Relaxed);
        self.silent[1].store(true, Ordering::Relaxed);
    }

    /// Holds bytes back while the direction is stalled.
    fn hold(&self, backwards: bool) {
        while self.silent[usize::from(backwards)].load(Ordering::Relaxed)
            && !self.ended.load(Ordering::Relaxed)
        {
            thread::sleep(SILENT_LOOK);
        }
    }

    fn cut(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.near.shutdown();
        self.far.shutdown();
    }
}

/// Takes up to `bytes` out of what is left; returns how many were taken, and whether none is left.
fn spend(left: &AtomicU64, bytes: usize) -> (usize, bool) {
    let mut now = left.load(Ordering::Relaxed);
    loop {
        let spent = now.min(bytes as u64);
        match left.compare_exchange(now, now - spent, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return (spent as usize, spent == now),
            Err(changed) => now = changed,
        }
    }
}

/// Blocks in flight, each with the time it was sent.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    blocks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    fn push(&self, block: Vec<u8>) -> bool {
        let mut state = self.state.lock();
        while state.bytes > IN_FLIGHT_LIMIT && !state.closed {
            self.changed.wait(&mut state);
        }
        state.bytes += block.len();
        state.blocks.push_back((Instant::now(), block));
        self.changed.notify_all();
        !state.closed
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    fn drain(&self, to: &Link, delay: Duration) {
        // Delays may be only a few hundred microseconds.
        timer::sharpen();
        loop {
            let mut state = self.state.lock();
            while state.blocks.is_empty() && !state.closed {
                self.changed.wait(&mut state);
            }
            let Some((sent, block)) = state.blocks.pop_front() else { break };
            state.bytes -= block.len();
            self.changed.notify_all();
            drop(state);
            sleep_until(sent + delay);
            if to.write_all(&block).is_err() {
                break;
            }
        }
        self.close();
        to.shutdown();
    }
}

/// Sleeps until `due` as precisely as possible: the end of a long wait is spent polling.
fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if left < 2 * WAKING {
        return thread::sleep(left);
    }
    thread::sleep(left - WAKING);
    while Instant::now() < due {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo() -> (Endpoint, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (Endpoint::tcp("127.0.0.1", address.port()), listener)
    }

    fn serve_echo(listener: TcpListener) {
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let link = Link::from_tcp(stream).unwrap();
                    let mut buffer = [0; 4096];
                    while let Ok(bytes @ 1..) = link.read(&mut buffer) {
                        if link.write_all(&buffer[..bytes]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn delay_is_added_in_both_directions() {
        let (target, listener) = echo();
        serve_echo(listener);
        let delay = Duration::from_millis(20);
        let impair = Impair::start(target, Impairment { delay, ..Default::default() }).unwrap();
        let link = impair.endpoint().connect(CONNECT_TIMEOUT).unwrap();
        let start = Instant::now();
        link.write_all(b"ping").unwrap();
        let mut answer = [0; 4];
        link.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
        assert!(start.elapsed() >= 2 * delay);
    }

    #[test]
    fn connections_are_cut_after_the_bytes_named_and_later_ones_are_not() {
        let (target, listener) = echo();
        serve_echo(listener);
        let impair = Impair::start(target, Impairment { cuts: vec![1000], ..Default::default() }).unwrap();
        let link = impair.endpoint().connect(CONNECT_TIMEOUT).unwrap();
        let mut back = 0;
        loop {
            if link.write_all(&[1; 100]).is_err() {
                break;
            }
            match link.read(&mut [0; 100]) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => back += bytes,
            }
        }
        assert!(back < 1000, "{back}");
        assert_eq!(impair.carried(), 1000);
        let link = impair.endpoint().connect(CONNECT_TIMEOUT).unwrap();
        for _ in 0..100 {
            link.write_all(&[1; 100]).unwrap();
            link.read_exact(&mut [0; 100]).unwrap();
        }
    }

    #[test]
    fn a_silent_connection_stays_open_and_later_ones_are_heard() {
        let (target, listener) = echo();
        serve_echo(listener);
        let stalls = vec![10];
        let impair = Impair::start(target, Impairment { stalls, ..Default::default() }).unwrap();
        let link = impair.endpoint().connect(CONNECT_TIMEOUT).unwrap();
        link.write_all(b"12345").unwrap();
        let mut answer = [0; 5];
        assert!(link.wait(true, false, Some(Duration::from_millis(50))).unwrap() == crate::Ready::default());
        link.write_all(b"67890").unwrap();
        assert!(!link.has_ended(), "the socket stays open");
        let link = impair.endpoint().connect(CONNECT_TIMEOUT).unwrap();
        link.write_all(b"12345").unwrap();
        link.read_exact(&mut answer).unwrap();
        impair.stall(Stall::Answers);
        link.write_all(b"67890").unwrap();
        assert!(!link.wait(true, false, Some(Duration::from_millis(50))).unwrap().readable);
    }

    #[test]
    fn a_cut_on_command_ends_the_stream() {
        let (target, listener) = echo();
        serve_echo(listener);
        let impair = Impair::start(target, Impairment::default()).unwrap();
        let link = impair.endpoint().connect(CONNECT_TIMEOUT).unwrap();
        link.write_all(b"x").unwrap();
        link.read_exact(&mut [0; 1]).unwrap();
        impair.cut();
        assert!(matches!(link.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
}
