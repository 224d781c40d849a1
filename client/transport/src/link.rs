//! Link: a connected byte stream that one thread may read while another writes.
//!
//! Owns the socket and its options. Writes never raise SIGPIPE, which programs that load the client library do not expect. Every
//! method takes `&self`; a `Link` is a handle, and cloning it is cheap.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::tls::Session;

/// TCP_USER_TIMEOUT: how long sent bytes may stay unacknowledged before the peer counts as dead. Generous, because a worker too
/// busy to read looks dead to the kernel, too.
const USER_TIMEOUT: Duration = Duration::from_secs(60);
const KEEPALIVE_IDLE_S: i32 = 10;
const KEEPALIVE_INTERVAL_S: i32 = 5;
const KEEPALIVE_PROBES: i32 = 4;
/// Limit on the slices of one system call.
const MAX_SLICES: usize = 64;

/// One connected socket. Clones share it.
#[derive(Clone, Debug)]
pub struct Link {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    socket: OwnedFd,
    tls: Option<Session>,
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
        stream.set_nonblocking(false)?;
        let link = Link::from_fd(stream.into());
        link.option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        link.option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_S)?;
        link.option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)?;
        link.option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES)?;
        link.option(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, USER_TIMEOUT.as_millis() as i32)?;
        Ok(link)
    }

    /// Wraps a connected unix socket.
    pub fn from_unix(stream: UnixStream) -> Link {
        Link::from_fd(stream.into())
    }

    /// Takes over a connected stream socket without changes, such as one received from another process.
    pub fn from_fd(socket: OwnedFd) -> Link {
        Link { inner: Arc::new(Inner { socket, tls: None }) }
    }

    /// Takes over a file descriptor by number, such as an inherited one.
    ///
    /// # Safety
    /// The descriptor must be open, a connected stream socket, and have no other owner.
    pub unsafe fn from_raw_fd(descriptor: RawFd) -> Link {
        // SAFETY: the caller guarantees ownership.
        Link::from_fd(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Creates two connected links in this process.
    pub fn pair() -> io::Result<(Link, Link)> {
        let (left, right) = UnixStream::pair()?;
        Ok((Link::from_unix(left), Link::from_unix(right)))
    }

    /// Adds TLS to the link, on the same socket.
    pub(crate) fn with_tls(self, tls: Session) -> io::Result<Link> {
        let socket = match Arc::try_unwrap(self.inner) {
            Ok(inner) => inner.socket,
            Err(shared) => shared.socket.try_clone()?,
        };
        Ok(Link { inner: Arc::new(Inner { socket, tls: Some(tls) }) })
    }

    /// Whether the link uses TLS.
    pub fn is_encrypted(&self) -> bool {
        self.inner.tls.is_some()
    }

    /// Waits for bytes and reads some; returns 0 at the end of the stream.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.inner.tls {
            None => self.raw().receive(buffer, 0),
            Some(tls) => tls.read(&self.raw(), buffer, 0),
        }
    }

    /// Like [`Link::read`], but never blocks: fails with `WouldBlock` if no bytes have arrived.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.inner.tls {
            None => self.raw().receive(buffer, libc::MSG_DONTWAIT),
            Some(tls) => tls.read(&self.raw(), buffer, libc::MSG_DONTWAIT),
        }
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
        match &self.inner.tls {
            None => self.raw().send(slices, 0),
            Some(tls) => tls.write(&self.raw(), slices),
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
        match &self.inner.tls {
            None => self.raw().send(slices, libc::MSG_DONTWAIT),
            Some(tls) => tls.try_write(&self.raw(), slices),
        }
    }

    /// Passes bytes that [`Link::try_write_vectored`] has buffered to the kernel; returns false while some are left.
    #[inline]
    pub fn try_flush(&self) -> io::Result<bool> {
        match &self.inner.tls {
            None => Ok(true),
            Some(tls) => tls.try_flush(&self.raw()),
        }
    }

    /// Waits until the link is ready for one of the requested operations, or the timeout expires.
    pub fn wait(&self, readable: bool, writable: bool, timeout: Option<Duration>) -> io::Result<Ready> {
        wait(readable.then_some(self), writable.then_some(self), timeout)
    }

    /// Returns the process at the other end of a named unix socket, from the kernel's peer credentials. `None` for any other
    /// link, such as a forwarded one.
    pub fn unix_peer(&self) -> Option<Peer> {
        let named = |name: unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32| {
            // SAFETY: all-zero is a valid sockaddr_un.
            let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
            let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
            // SAFETY: the address is writable for the length passed.
            let failed = unsafe { name(self.raw_fd(), (&raw mut address).cast(), &raw mut length) };
            failed == 0
                && i32::from(address.sun_family) == libc::AF_UNIX
                && length as usize > size_of::<libc::sa_family_t>()
        };
        if self.is_encrypted() || !(named(libc::getsockname) || named(libc::getpeername)) {
            return None;
        }
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the value is writable for the length passed.
        let failed = unsafe {
            libc::getsockopt(
                self.raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut length,
            )
        };
        (failed == 0 && peer.pid > 0).then_some(Peer { pid: peer.pid as u32, uid: peer.uid })
    }

    /// Whether a read would return at once, with bytes or with the end of the stream.
    pub fn has_news(&self) -> bool {
        if self.inner.tls.as_ref().is_some_and(Session::has_plaintext) {
            return true;
        }
        let mut poll = libc::pollfd { fd: self.raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, for the duration of the call.
        unsafe { libc::poll(&mut poll, 1, 0) > 0 }
    }

    /// Returns the bytes sent that the peer's kernel has not acknowledged; 0 if the kernel does not report it.
    pub fn unacknowledged(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one int, which is passed.
        let failed = unsafe { libc::ioctl(self.raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if failed == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
    }

    /// Returns the bytes that the peer's kernel has acknowledged since the connection began; `None` if the kernel does not report
    /// it, as for anything but TCP.
    pub fn acknowledged(&self) -> Option<u64> {
        // Offset of `tcpi_bytes_acked` in the kernel's `struct tcp_info`, which only grows at its end. Before it come 8 bytes, 24
        // fields of 4 bytes and two of 8.
        const OFFSET: usize = 8 + 24 * 4 + 2 * 8;
        const END: usize = OFFSET + size_of::<u64>();
        let mut info = [0u8; END];
        let mut length = END as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, the size of the array.
        let failed = unsafe {
            libc::getsockopt(
                self.raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let bytes = info.last_chunk().filter(|_| failed == 0 && length as usize == END)?;
        Some(u64::from_ne_bytes(*bytes))
    }

    /// Whether a small write would not block.
    pub fn has_room(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one valid pollfd, for the duration of the call.
        unsafe { libc::poll(&mut poll, 1, 0) > 0 }
    }

    /// Whether the peer or the network has closed the connection. Bytes sent before may still be readable.
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one valid pollfd, for the duration of the call.
        let ready = unsafe { libc::poll(&mut poll, 1, 0) };
        ready > 0 && poll.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
    }

    /// Closes the connection in both directions and wakes every thread that waits on it.
    pub fn shutdown(&self) {
        // SAFETY: the descriptor is open as long as `self` is. Failure means that it is shut down already.
        unsafe { libc::shutdown(self.raw_fd(), libc::SHUT_RDWR) };
    }

    /// Returns received bytes without consuming them. Waits for the first byte; returns 0 at the end of the stream. On an
    /// encrypted link these are encrypted bytes.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer is writable for its length.
        let bytes =
            unsafe { libc::recv(self.raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_PEEK) };
        usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.inner.socket
    }

    /// Number of the socket's descriptor.
    pub fn raw_fd(&self) -> RawFd {
        self.inner.socket.as_raw_fd()
    }

    /// Duplicates the socket's descriptor, to be passed to another process. Not for encrypted links.
    pub fn try_clone_fd(&self) -> io::Result<OwnedFd> {
        if self.is_encrypted() {
            return Err(io::Error::other(
                "cannot duplicate an encrypted link: its TLS state is not in the socket",
            ));
        }
        self.inner.socket.try_clone()
    }

    /// Makes reads fail with `WouldBlock` or `TimedOut` after this long; `None` waits forever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeout_option(libc::SO_RCVTIMEO, timeout)
    }

    /// Limits how long a write may block; `None` for no limit.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeout_option(libc::SO_SNDTIMEO, timeout)
    }

    #[inline]
    fn raw(&self) -> Socket {
        Socket(self.raw_fd())
    }

    fn option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        self.set_option(level, name, &value)
    }

    fn timeout_option(&self, name: i32, timeout: Option<Duration>) -> io::Result<()> {
        // Zero would mean no timeout to the kernel.
        let timeout = timeout.map(|timeout| timeout.max(Duration::from_micros(1))).unwrap_or_default();
        let value = libc::timeval {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_usec: timeout.subsec_micros() as libc::suseconds_t,
        };
        self.set_option(libc::SOL_SOCKET, name, &value)
    }

    fn set_option<T>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        // SAFETY: `value` is readable for the length passed.
        let result = unsafe {
            libc::setsockopt(
                self.raw_fd(),
                level,
                name,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Waits until one link is readable or another writable, or the timeout expires.
pub(crate) fn wait(
    readable: Option<&Link>,
    writable: Option<&Link>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    if readable.is_some_and(|link| link.inner.tls.as_ref().is_some_and(Session::has_plaintext)) {
        return Ok(Ready { readable: true, writable: false });
    }
    let milliseconds = timeout.map_or(-1, |timeout| timeout.as_millis().clamp(1, i32::MAX as u128) as i32);
    // poll ignores negative descriptors.
    let entry =
        |link: Option<&Link>, events| libc::pollfd { fd: link.map_or(-1, Link::raw_fd), events, revents: 0 };
    let mut polls = [entry(readable, libc::POLLIN), entry(writable, libc::POLLOUT)];
    // SAFETY: two valid entries, for the duration of the call.
    match unsafe { libc::poll(polls.as_mut_ptr(), 2, milliseconds) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(Ready::default()),
            error => Err(error),
        },
        // A broken link is reported as ready, so that the caller's operation returns the error.
        _ => Ok(Ready { readable: polls[0].revents != 0, writable: polls[1].revents != 0 }),
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

/// Raw system calls on a stream socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket(RawFd);

impl Socket {
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
        loop {
            // SAFETY: the buffer is writable for its length; the link's owner keeps the descriptor open.
            let read = unsafe { libc::recv(self.0, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
            if read >= 0 {
                return Ok(read as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    #[inline]
    pub(crate) fn send(&self, slices: &[IoSlice<'_>], flags: i32) -> io::Result<usize> {
        let slices = &slices[..slices.len().min(MAX_SLICES)];
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = slices.as_ptr().cast_mut().cast();
        message.msg_iovlen = slices.len() as _;
        let flags = flags | libc::MSG_NOSIGNAL;
        loop {
            let sent = match slices {
                // A small frame is a single slice, for which `send` is cheaper than `sendmsg`: the kernel has less to copy and
                // check.
                // SAFETY: the slice outlives the call and is only read.
                [only] => unsafe { libc::send(self.0, only.as_ptr().cast(), only.len(), flags) },
                // SAFETY: IoSlice has the layout of iovec; the slices outlive the call and are only read.
                _ => unsafe { libc::sendmsg(self.0, &message, flags) },
            };
            if sent >= 0 {
                return Ok(sent as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
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
