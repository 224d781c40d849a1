//! Link: a connected byte stream that one thread may read while another writes.
//!
//! Owns the socket. Every method takes `&self`; a `Link` is a handle, and cloning it is cheap. The bytes go over the socket itself,
//! through TLS, or through shared memory (`os/unix/fifo_pair.rs`); the socket then only tells that the peer exists.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::os::fifo_pair::{FifoPair, SharedMemory};
use crate::os::socket::{self, Socket};
use crate::tls::Session;

/// How long sent bytes may stay unacknowledged before the peer counts as dead. Generous, because a worker too busy to read looks
/// dead to the kernel, too.
pub(crate) const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether a call on a socket may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    Forever,
    /// The call fails with `WouldBlock` instead.
    Never,
}

/// How often a wait for two links of different kinds looks at the one that has no descriptor to poll.
const MIXED_WAIT_SLICE: Duration = Duration::from_millis(1);

/// One connected socket. Clones share it.
#[derive(Clone, Debug)]
pub struct Link {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    socket: Socket,
    carrier: Carrier,
}

/// What carries the bytes.
#[derive(Debug)]
enum Carrier {
    Socket,
    Tls(Box<Session>),
    Fifos(Box<Fifos>),
}

#[derive(Debug)]
struct Fifos {
    pair: FifoPair,
    /// The memory, on the side that created it, until it was passed to the peer.
    offer: Mutex<Option<SharedMemory>>,
}

/// Kinds of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// A socket without encryption: TCP or unix.
    Socket,
    /// TLS over TCP.
    Tls,
    /// Memory that both processes have mapped.
    SharedMemory,
}

/// Readiness of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// Whether a read would return at once.
    pub readable: bool,
    /// Whether a write would take bytes.
    pub writable: bool,
}

/// A process on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Process id.
    pub pid: u32,
    /// User id.
    pub uid: u32,
}

impl Link {
    /// Takes over a TCP connection and sets its options: no Nagle delay (the sender batches), keepalive, and a limit on how long
    /// sent bytes may stay unacknowledged.
    pub fn from_tcp(stream: TcpStream) -> io::Result<Link> {
        stream.set_nodelay(true)?;
        Ok(Link::new(Socket::from_tcp(stream)?))
    }

    fn new(socket: Socket) -> Link {
        Link { inner: Arc::new(Inner { socket, carrier: Carrier::Socket }) }
    }

    /// Adds TLS to the link, on the same socket.
    pub(crate) fn with_tls(self, tls: Session) -> io::Result<Link> {
        self.carried_by(Carrier::Tls(Box::new(tls)))
    }

    /// Continues over memory that the peer has passed. The peer must have started to use it after the last byte that was read.
    pub fn over_memory(self, memory: &SharedMemory) -> io::Result<Link> {
        let fifos = Fifos { pair: FifoPair::open(memory)?, offer: Mutex::new(None) };
        self.carried_by(Carrier::Fifos(Box::new(fifos)))
    }

    fn carried_by(self, carrier: Carrier) -> io::Result<Link> {
        let socket = match Arc::try_unwrap(self.inner) {
            Ok(inner) => inner.socket,
            Err(shared) => shared.socket.try_clone()?,
        };
        Ok(Link { inner: Arc::new(Inner { socket, carrier }) })
    }

    /// What carries the bytes.
    pub fn transport(&self) -> Transport {
        match &self.inner.carrier {
            Carrier::Socket => Transport::Socket,
            Carrier::Tls(_) => Transport::Tls,
            Carrier::Fifos(_) => Transport::SharedMemory,
        }
    }

    /// Whether the link uses TLS.
    pub fn is_encrypted(&self) -> bool {
        self.transport() == Transport::Tls
    }

    /// Waits for bytes and reads some; returns 0 at the end of the stream.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer, Wait::Forever)
    }

    /// Like [`Link::read`], but never blocks: fails with `WouldBlock` if no bytes have arrived.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer, Wait::Never)
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        match &self.inner.carrier {
            Carrier::Socket => self.socket().receive(buffer, wait),
            Carrier::Tls(tls) => tls.read(self.socket(), buffer, wait),
            Carrier::Fifos(fifos) => fifos.pair.receive(self.socket(), buffer, wait),
        }
    }

    /// Like [`Link::read`], for a handshake: also takes shared memory that the peer has attached to the bytes.
    pub(crate) fn read_attached(
        &self,
        buffer: &mut [u8],
        memory: &mut Option<SharedMemory>,
    ) -> io::Result<usize> {
        match &self.inner.carrier {
            Carrier::Socket => self.socket().receive_attached(buffer, memory),
            _ => self.read(buffer),
        }
    }

    /// Writes the last bytes of a handshake. They go over the socket, with the shared memory attached if the link uses it.
    pub fn write_greeting(&self, bytes: &[u8]) -> io::Result<()> {
        let Carrier::Fifos(fifos) = &self.inner.carrier else { return self.write_all(bytes) };
        let offer = fifos.offer.lock().take();
        let sent = match &offer {
            Some(memory) => self.socket().send_attached(bytes, memory)?,
            None => 0,
        };
        let mut rest = &bytes[sent..];
        while !rest.is_empty() {
            let sent = self.socket().send(&[IoSlice::new(rest)], Wait::Forever)?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    /// Fills the buffer. Fails if the stream ends first.
    pub fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => buffer = &mut buffer[bytes..],
            }
        }
        Ok(())
    }

    /// Waits until some bytes can be written, and returns how many were.
    #[inline]
    pub fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.inner.carrier {
            Carrier::Socket => self.socket().send(slices, Wait::Forever),
            Carrier::Tls(tls) => tls.write(self.socket(), slices),
            Carrier::Fifos(fifos) => fifos.pair.send(self.socket(), slices, Wait::Forever),
        }
    }

    /// Writes all bytes.
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_all_vectored(&mut [IoSlice::new(bytes)])
    }

    /// Writes all bytes; the slices are consumed.
    pub fn write_all_vectored(&self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.write_vectored(slices)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                bytes => IoSlice::advance_slices(&mut slices, bytes),
            }
        }
        Ok(())
    }

    /// Writes what fits without blocking; fails with `WouldBlock` if nothing does.
    #[inline]
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.inner.carrier {
            Carrier::Socket => self.socket().send(slices, Wait::Never),
            Carrier::Tls(tls) => tls.try_write(self.socket(), slices),
            Carrier::Fifos(fifos) => fifos.pair.send(self.socket(), slices, Wait::Never),
        }
    }

    /// Passes bytes that [`Link::try_write_vectored`] has buffered to the kernel; returns false while some are left.
    #[inline]
    pub fn try_flush(&self) -> io::Result<bool> {
        match &self.inner.carrier {
            Carrier::Tls(tls) => tls.try_flush(self.socket()),
            _ => Ok(true),
        }
    }

    /// Waits until the link is ready for one of the requested operations, or the timeout expires.
    pub fn wait(&self, readable: bool, writable: bool, timeout: Option<Duration>) -> io::Result<Ready> {
        wait(readable.then_some(self), writable.then_some(self), timeout)
    }

    /// Returns the process at the other end of a named unix socket, from the kernel's peer credentials. `None` for any other
    /// link, such as a forwarded one.
    pub fn unix_peer(&self) -> Option<Peer> {
        if self.is_encrypted() { None } else { self.socket().unix_peer() }
    }

    /// Whether a read would return at once, with bytes or with the end of the stream.
    pub fn has_news(&self) -> bool {
        match &self.inner.carrier {
            Carrier::Socket => self.socket().is_readable(),
            Carrier::Tls(tls) => tls.has_plaintext() || self.socket().is_readable(),
            Carrier::Fifos(fifos) => fifos.pair.has_news(),
        }
    }

    /// Returns the bytes sent that the peer's kernel has not acknowledged; 0 if the kernel does not report it. In shared memory:
    /// those that the peer has not read.
    pub fn unacknowledged(&self) -> u64 {
        self.fifos().map_or_else(|| self.socket().unacknowledged(), |pair| pair.unread().0)
    }

    /// Returns the bytes that the peer's kernel has acknowledged since the connection began; `None` if the kernel does not report
    /// it, as for unix sockets. In shared memory: those that the peer has read.
    pub fn acknowledged(&self) -> Option<u64> {
        self.fifos().map_or_else(|| self.socket().acknowledged(), |pair| Some(pair.unread().1))
    }

    /// Whether a small write would not block.
    pub fn has_room(&self) -> bool {
        self.fifos().map_or_else(|| self.socket().is_writable(), FifoPair::has_room)
    }

    /// Whether the peer or the network has closed the connection. Bytes sent before may still be readable.
    pub fn has_ended(&self) -> bool {
        self.fifos().is_some_and(FifoPair::is_over) || self.socket().has_ended()
    }

    /// Closes the connection in both directions and wakes every thread that waits on it.
    pub fn shutdown(&self) {
        if let Some(pair) = self.fifos() {
            pair.shutdown();
        }
        self.socket().shutdown();
    }

    /// Returns received bytes without consuming them. Waits for the first byte; returns 0 at the end of the stream. On an
    /// encrypted link these are encrypted bytes.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket().peek(buffer)
    }

    /// Makes reads fail with `WouldBlock` or `TimedOut` after this long; `None` waits forever. Has no effect in shared memory.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket().set_read_timeout(timeout)
    }

    /// Limits how long a write may block; `None` for no limit. Has no effect in shared memory.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket().set_write_timeout(timeout)
    }

    #[inline]
    pub(crate) fn socket(&self) -> &Socket {
        &self.inner.socket
    }

    fn fifos(&self) -> Option<&FifoPair> {
        match &self.inner.carrier {
            Carrier::Fifos(fifos) => Some(&fifos.pair),
            _ => None,
        }
    }

    /// Whether a read would return bytes that were decrypted already.
    fn has_plaintext(&self) -> bool {
        matches!(&self.inner.carrier, Carrier::Tls(tls) if tls.has_plaintext())
    }
}

/// Links as file descriptors, which a worker passes between its processes.
#[cfg(unix)]
impl Link {
    /// Wraps a connected unix socket.
    pub fn from_unix(stream: UnixStream) -> Link {
        Link::from_fd(stream.into())
    }

    /// Takes over a connected stream socket without changes, such as one received from another process.
    pub fn from_fd(socket: OwnedFd) -> Link {
        Link::new(Socket::from_fd(socket))
    }

    /// Takes over a file descriptor by number, such as an inherited one.
    ///
    /// # Safety
    /// The descriptor must be open, a connected stream socket, and have no other owner.
    pub unsafe fn from_raw_fd(descriptor: RawFd) -> Link {
        // SAFETY: the caller guarantees ownership.
        Link::from_fd(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Creates shared memory for both directions. It is passed to the peer by [`Link::write_greeting`]; what is written after that
    /// goes through the memory. Not for encrypted links.
    pub fn share_memory(&self) -> io::Result<Link> {
        let socket = Link::from_fd(self.try_clone_fd()?);
        let (pair, memory) = FifoPair::create()?;
        socket.carried_by(Carrier::Fifos(Box::new(Fifos { pair, offer: Mutex::new(Some(memory)) })))
    }

    /// Creates two links in this process that are connected through shared memory.
    pub fn memory_pair() -> io::Result<(Link, Link)> {
        let (left, right) = Link::pair()?;
        let left = left.share_memory()?;
        left.write_greeting(&[0])?;
        let mut memory = None;
        right.read_attached(&mut [0], &mut memory)?;
        let memory = memory.ok_or(io::ErrorKind::NotFound)?;
        Ok((left, right.over_memory(&memory)?))
    }

    /// Creates two connected links in this process.
    pub fn pair() -> io::Result<(Link, Link)> {
        let (left, right) = UnixStream::pair()?;
        Ok((Link::from_unix(left), Link::from_unix(right)))
    }

    /// Number of the socket's descriptor.
    pub fn raw_fd(&self) -> RawFd {
        self.socket().fd().as_raw_fd()
    }

    /// Duplicates the socket's descriptor, to be passed to another process. Not for encrypted links.
    pub fn try_clone_fd(&self) -> io::Result<OwnedFd> {
        if self.is_encrypted() {
            return Err(io::Error::other(
                "cannot duplicate an encrypted link: its TLS state is not in the socket",
            ));
        }
        self.socket().fd().try_clone()
    }
}

/// Waits until one link is readable or another writable, or the timeout expires.
pub(crate) fn wait(
    readable: Option<&Link>,
    writable: Option<&Link>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    if readable.is_some_and(Link::has_plaintext) {
        return Ok(Ready { readable: true, writable: false });
    }
    let is_shared = |link: Option<&Link>| link.is_some_and(|link| link.fifos().is_some());
    if !is_shared(readable) && !is_shared(writable) {
        return socket::wait(readable.map(Link::socket), writable.map(Link::socket), timeout);
    }
    let same = match (readable, writable) {
        (Some(left), Some(right)) => Arc::ptr_eq(&left.inner, &right.inner),
        _ => true,
    };
    if same
        && let Some(link) = readable.or(writable)
        && let Some(pair) = link.fifos()
    {
        let wanted = Ready { readable: readable.is_some(), writable: writable.is_some() };
        return pair.wait(link.socket(), wanted, timeout);
    }
    wait_mixed(readable, writable, timeout)
}

/// Waits for two links, of which at least one is in shared memory.
#[cold]
fn wait_mixed(
    readable: Option<&Link>,
    writable: Option<&Link>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    let start = Instant::now();
    loop {
        let ready = Ready {
            readable: readable.is_some_and(|link| link.has_news() || link.has_ended()),
            writable: writable.is_some_and(|link| link.has_room() || link.has_ended()),
        };
        if ready.readable || ready.writable || timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
            return Ok(ready);
        }
        std::thread::sleep(MIXED_WAIT_SLICE);
    }
}

impl Read for &Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Link::read(self, buffer)
    }
}

impl Write for &Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Link::write_vectored(self, &[IoSlice::new(bytes)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_full_link_says_so_instead_of_waiting_and_a_write_to_a_closed_one_is_an_error() {
        let (left, right) = Link::pair().unwrap();
        let block = vec![7; 1 << 16];
        let mut written = 0;
        let error = loop {
            match left.try_write_vectored(&[IoSlice::new(&block)]) {
                Ok(bytes) => written += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let ready = left.wait(false, true, Some(Duration::from_millis(5))).unwrap();
        assert!(!ready.writable);
        let mut all = vec![0; written];
        right.read_exact(&mut all).unwrap();
        assert!(all.iter().all(|&byte| byte == 7));
        assert!(left.wait(true, true, None).unwrap().writable);
        drop(right);
        assert_eq!(left.write_all(&block).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn only_the_ends_of_a_named_unix_socket_know_each_other() {
        let (left, right) = Link::pair().unwrap();
        assert_eq!((left.unix_peer(), right.unix_peer()), (None, None));
        let folder = std::env::temp_dir().join(format!("remora-link-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&folder).unwrap();
        let near = Link::from_unix(UnixStream::connect(&folder).unwrap());
        let far = Link::from_unix(listener.accept().unwrap().0);
        std::fs::remove_file(&folder).unwrap();
        for link in [near, far] {
            assert_eq!(link.unix_peer().map(|peer| peer.pid), Some(std::process::id()));
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link::from_tcp(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        assert_eq!(link.unix_peer(), None);
    }

    #[test]
    fn bytes_that_the_other_side_has_not_read_are_unacknowledged_once_its_buffer_is_full() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = Link::from_tcp(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let far = Link::from_tcp(listener.accept().unwrap().0).unwrap();
        let start = near.acknowledged().unwrap();
        let block = vec![7; 1 << 16];
        let mut written = 0;
        while let Ok(bytes) = near.try_write_vectored(&[IoSlice::new(&block)]) {
            written += bytes as u64;
        }
        let before = near.acknowledged().unwrap();
        assert!(near.unacknowledged() > 0 && before - start < written);
        far.read_exact(&mut vec![0; written as usize]).unwrap();
        let patience = std::time::Instant::now();
        while near.unacknowledged() > 0 {
            assert!(
                patience.elapsed() < Duration::from_secs(20),
                "the kernel must acknowledge bytes that were read"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(near.acknowledged().unwrap() - start, written);
        assert_eq!(Link::pair().unwrap().0.acknowledged(), None);
    }

    #[test]
    fn shutdown_wakes_a_reader() {
        let (left, _right) = Link::pair().unwrap();
        let reader = left.clone();
        let thread = std::thread::spawn(move || reader.read(&mut [0; 8]).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        left.shutdown();
        assert_eq!(thread.join().unwrap(), 0);
    }

    #[test]
    fn a_read_time_out_ends_the_wait() {
        let (left, _right) = Link::pair().unwrap();
        left.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        assert!(left.read(&mut [0; 8]).is_err());
    }
}
