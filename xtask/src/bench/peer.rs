//! The reference: two processes that only exchange bytes over TCP on the loopback interface.
//!
//! The other end is this same program, started with `bench --peer`, because Remora also crosses a process boundary. Buffers are
//! as large as the messages, as in Remora, and were touched before.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The most bytes of one system call, as in Remora's sender.
const CHUNK: usize = 1 << 20;
/// The size of a request for bytes, about that of Remora's.
const REQUEST: usize = 48;
/// The longest message.
const LONGEST: u64 = 1 << 30;

/// A command for the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Replies to messages of one length with messages of another.
    Echo { request: u64, reply: u64 },
    /// Receives messages, and confirms the last one.
    Receive { bytes: u64 },
    /// Sends a message for every request.
    Send { bytes: u64 },
}

const ORDER: usize = 32;

fn encode(task: Task, count: u64) -> [u8; ORDER] {
    let words = match task {
        Task::Echo { request, reply } => [1, request, reply, count],
        Task::Receive { bytes } => [2, bytes, 0, count],
        Task::Send { bytes } => [3, bytes, 0, count],
    };
    let mut order = [0; ORDER];
    for (place, word) in order.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    order
}

fn decode(order: &[u8; ORDER]) -> Result<(Task, u64)> {
    let mut words = [0; 4];
    for (word, place) in words.iter_mut().zip(order.chunks_exact(8)) {
        *word = u64::from_le_bytes(place.try_into()?);
    }
    let task = match words {
        [1, request, reply, _] => Task::Echo { request, reply },
        [2, bytes, _, _] => Task::Receive { bytes },
        [3, bytes, _, _] => Task::Send { bytes },
        [other, ..] => bail!("unknown task {other}"),
    };
    if words[1].max(words[2]) > LONGEST {
        bail!("a message of {} bytes is too long", words[1].max(words[2]));
    }
    Ok((task, words[3]))
}

/// Runs the other end: serves one connection, then returns.
pub fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on the loopback interface")?;
    println!("{}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    let mut order = [0; ORDER];
    // The connection is closed between two orders.
    while stream.read_exact(&mut order).is_ok() {
        let (task, count) = decode(&order)?;
        execute(&mut stream, task, count, &mut buffer)?;
    }
    Ok(())
}

fn execute(stream: &mut TcpStream, task: Task, count: u64, buffer: &mut Vec<u8>) -> Result<()> {
    let longest = match task {
        Task::Echo { request, reply } => request.max(reply),
        Task::Receive { bytes } | Task::Send { bytes } => bytes,
    };
    if buffer.len() < longest as usize {
        buffer.resize(longest as usize, 1);
    }
    // Ready: the buffer is allocated.
    stream.write_all(&[1])?;
    match task {
        Task::Echo { request, reply } => {
            for _ in 0..count {
                stream.read_exact(&mut buffer[..request as usize])?;
                stream.write_all(&buffer[..reply as usize])?;
            }
        }
        Task::Receive { bytes } => {
            for _ in 0..count {
                stream.read_exact(&mut buffer[..bytes as usize])?;
            }
            stream.write_all(&[1])?;
        }
        Task::Send { bytes } => {
            let mut request = [0; REQUEST];
            for _ in 0..count {
                stream.read_exact(&mut request)?;
                send(stream, &buffer[..bytes as usize])?;
            }
        }
    }
    Ok(())
}

fn send(stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    for chunk in bytes.chunks(CHUNK) {
        stream.write_all(chunk)?;
    }
    Ok(())
}

/// The local end.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Peer {
    pub fn start() -> Result<Peer> {
        Peer::start_behind(Ok)
    }

    /// Connects through `path`, which maps the other end's address to the address to connect to.
    pub fn start_behind(path: impl FnOnce(SocketAddr) -> Result<SocketAddr>) -> Result<Peer> {
        let program = std::env::current_exe().context("cannot determine the path of this program")?;
        let mut child = Command::new(program)
            .args(["bench", "--peer"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the other end of the raw TCP measurements")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("the other end has no standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address: SocketAddr = line.trim().parse().context("the other end printed no address")?;
        let stream = TcpStream::connect(path(address)?)?;
        stream.set_nodelay(true)?;
        Ok(Peer { child, stream: Some(stream), buffer: Vec::new() })
    }

    /// Seconds for `count` messages of `request` bytes, each answered by one of `reply` bytes.
    pub fn echo(&mut self, request: u64, reply: u64, count: u64) -> Result<f64> {
        self.order(Task::Echo { request, reply }, count, request.max(reply))?;
        let (stream, buffer) = self.parts()?;
        let started = Instant::now();
        for _ in 0..count {
            stream.write_all(&buffer[..request as usize])?;
            stream.read_exact(&mut buffer[..reply as usize])?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Seconds until `count` messages of `bytes` bytes have arrived at the other end.
    pub fn upload(&mut self, bytes: u64, count: u64) -> Result<f64> {
        self.order(Task::Receive { bytes }, count, bytes)?;
        let (stream, buffer) = self.parts()?;
        let started = Instant::now();
        for _ in 0..count {
            send(stream, &buffer[..bytes as usize])?;
        }
        stream.read_exact(&mut [0])?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Seconds until `count` requested messages of `bytes` bytes have arrived here.
    pub fn download(&mut self, bytes: u64, count: u64) -> Result<f64> {
        self.order(Task::Send { bytes }, count, bytes)?;
        let (stream, buffer) = self.parts()?;
        let started = Instant::now();
        for _ in 0..count {
            stream.write_all(&[0; REQUEST])?;
            stream.read_exact(&mut buffer[..bytes as usize])?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    fn order(&mut self, task: Task, count: u64, longest: u64) -> Result<()> {
        if self.buffer.len() < longest as usize {
            self.buffer.resize(longest as usize, 1);
        }
        let (stream, _) = self.parts()?;
        stream.write_all(&encode(task, count))?;
        stream.read_exact(&mut [0]).context("the other end of the raw TCP measurements is gone")
    }

    fn parts(&mut self) -> Result<(&mut TcpStream, &mut Vec<u8>)> {
        Ok((self.stream.as_mut().context("the connection is closed")?, &mut self.buffer))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The other end exits when its connection is closed.
        self.stream = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_wire_and_absurd_ones_are_refused() {
        let task = Task::Echo { request: 32, reply: 29 };
        assert_eq!(decode(&encode(task, 7)).unwrap(), (task, 7));
        assert!(decode(&encode(Task::Receive { bytes: LONGEST + 1 }, 1)).is_err());
        assert!(decode(&[9; ORDER]).is_err());
    }

    #[test]
    fn both_ends_agree_on_every_task() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut buffer = Vec::new();
                let mut order = [0; ORDER];
                while stream.read_exact(&mut order).is_ok() {
                    let (task, count) = decode(&order).unwrap();
                    execute(&mut stream, task, count, &mut buffer).unwrap();
                }
            });
            // Any child process will do: only the connection is used here.
            let child = Command::new("true").spawn().unwrap();
            let stream = TcpStream::connect(address).unwrap();
            let mut peer = Peer { child, stream: Some(stream), buffer: Vec::new() };
            assert!(peer.echo(32, 29, 10).unwrap() > 0.0);
            assert!(peer.upload(3 << 20, 2).unwrap() > 0.0);
            assert!(peer.download(3 << 20, 2).unwrap() > 0.0);
            drop(peer);
            other.join().unwrap();
        });
    }
}
