//! System calls on a connected stream socket. Writes never raise SIGPIPE, which programs that load the client library do not
//! expect.

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::link::{Peer, Ready, USER_TIMEOUT, Wait};
use crate::os::attached::{receive_attached, send_attached};
use crate::os::fifo_pair::SharedMemory;

const KEEPALIVE_IDLE_S: i32 = 10;
const KEEPALIVE_INTERVAL_S: i32 = 5;
const KEEPALIVE_PROBES: i32 = 4;
/// Limit on the slices of one system call.
const MAX_SLICES: usize = 64;

/// A connected stream socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Takes over a TCP connection, with keepalive and a limit on how long sent bytes may stay unacknowledged.
    pub(crate) fn from_tcp(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(false)?;
        let socket = Socket(stream.into());
        socket.option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        socket.option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_S)?;
        socket.option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)?;
        socket.option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES)?;
        socket.option(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, USER_TIMEOUT.as_millis() as i32)?;
        Ok(socket)
    }

    /// Takes over a connected socket without changes.
    pub(crate) fn from_fd(socket: OwnedFd) -> Socket {
        Socket(socket)
    }

    /// The owned descriptor.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    #[inline]
    fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Duplicates the handle of the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Socket> {
        self.0.try_clone().map(Socket)
    }

    /// Duplicates the handle as a TCP stream, to query its addresses.
    pub(crate) fn as_tcp(&self) -> io::Result<TcpStream> {
        self.0.try_clone().map(TcpStream::from)
    }

    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        loop {
            // SAFETY: the buffer is writable for its length, and this object keeps the descriptor open.
            let read =
                unsafe { libc::recv(self.raw(), buffer.as_mut_ptr().cast(), buffer.len(), flags(wait)) };
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
    pub(crate) fn send(&self, slices: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let slices = &slices[..slices.len().min(MAX_SLICES)];
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = slices.as_ptr().cast_mut().cast();
        message.msg_iovlen = slices.len() as _;
        let flags = flags(wait) | libc::MSG_NOSIGNAL;
        loop {
            let sent = match slices {
                // A small frame is a single slice, for which `send` is cheaper than `sendmsg`: the kernel has less to copy and
                // check.
                // SAFETY: the slice outlives the call and is only read.
                [only] => unsafe { libc::send(self.raw(), only.as_ptr().cast(), only.len(), flags) },
                // SAFETY: IoSlice has the layout of iovec; the slices outlive the call and are only read.
                _ => unsafe { libc::sendmsg(self.raw(), &message, flags) },
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

    /// Sends some bytes with a descriptor attached; returns how many were sent.
    pub(crate) fn send_attached(&self, bytes: &[u8], memory: &SharedMemory) -> io::Result<usize> {
        send_attached(self.0.as_fd(), bytes, Some(memory.0.as_raw_fd()), 0)
    }

    /// Like [`Socket::receive`], and takes a descriptor that is attached to the bytes. Further descriptors are closed.
    pub(crate) fn receive_attached(
        &self,
        buffer: &mut [u8],
        memory: &mut Option<SharedMemory>,
    ) -> io::Result<usize> {
        let (bytes, attached) = loop {
            match receive_attached(self.0.as_fd(), buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        *memory = memory.take().or(attached.map(SharedMemory));
        Ok(bytes)
    }

    /// Waits for bytes and returns them without consuming them; returns 0 at the end of the stream.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer is writable for its length.
        let bytes =
            unsafe { libc::recv(self.raw(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_PEEK) };
        usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
    }

    /// Whether a read would return at once.
    pub(crate) fn is_readable(&self) -> bool {
        self.poll(libc::POLLIN) != 0
    }

    /// Whether a small write would not block.
    pub(crate) fn is_writable(&self) -> bool {
        self.poll(libc::POLLOUT) != 0
    }

    /// Whether the peer or the network has closed the connection.
    pub(crate) fn has_ended(&self) -> bool {
        self.poll(libc::POLLRDHUP) & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
    }

    /// The pending ones of the events, without waiting.
    fn poll(&self, events: libc::c_short) -> libc::c_short {
        let mut poll = libc::pollfd { fd: self.raw(), events, revents: 0 };
        // SAFETY: one valid pollfd, for the duration of the call.
        let ready = unsafe { libc::poll(&mut poll, 1, 0) };
        if ready > 0 { poll.revents } else { 0 }
    }

    /// Returns the bytes sent that the peer's kernel has not acknowledged; 0 if the kernel does not report it.
    pub(crate) fn unacknowledged(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one int, which is passed.
        let failed = unsafe { libc::ioctl(self.raw(), libc::TIOCOUTQ, &raw mut bytes) };
        if failed == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
    }

    /// Returns the bytes that the peer's kernel has acknowledged; `None` if the kernel does not report it.
    pub(crate) fn acknowledged(&self) -> Option<u64> {
        // Offset of `tcpi_bytes_acked` in the kernel's `struct tcp_info`, which only grows at its end. Before it come 8 bytes, 24
        // fields of 4 bytes and two of 8.
        const OFFSET: usize = 8 + 24 * 4 + 2 * 8;
        const END: usize = OFFSET + size_of::<u64>();
        let mut info = [0u8; END];
        let mut length = END as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, the size of the array.
        let failed = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let bytes = info.last_chunk().filter(|_| failed == 0 && length as usize == END)?;
        Some(u64::from_ne_bytes(*bytes))
    }

    /// The process at the other end of a named unix socket.
    pub(crate) fn unix_peer(&self) -> Option<Peer> {
        let named = |name: unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32| {
            // SAFETY: all-zero is a valid sockaddr_un.
            let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
            let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
            // SAFETY: the address is writable for the length passed.
            let failed = unsafe { name(self.raw(), (&raw mut address).cast(), &raw mut length) };
            failed == 0
                && i32::from(address.sun_family) == libc::AF_UNIX
                && length as usize > size_of::<libc::sa_family_t>()
        };
        if !(named(libc::getsockname) || named(libc::getpeername)) {
            return None;
        }
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the value is writable for the length passed.
        let failed = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut length,
            )
        };
        (failed == 0 && peer.pid > 0).then_some(Peer { pid: peer.pid as u32, uid: peer.uid })
    }

    /// Closes the connection in both directions and wakes every thread that waits on it.
    pub(crate) fn shutdown(&self) {
        // SAFETY: the descriptor is open as long as `self` is. Failure means that it is shut down already.
        unsafe { libc::shutdown(self.raw(), libc::SHUT_RDWR) };
    }

    /// Makes reads fail after this long; `None` waits forever.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeout_option(libc::SO_RCVTIMEO, timeout)
    }

    /// Limits how long a write may block; `None` for no limit.
    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeout_option(libc::SO_SNDTIMEO, timeout)
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

    fn option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        self.set_option(level, name, &value)
    }

    fn set_option<T>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        // SAFETY: `value` is readable for the length passed.
        let result = unsafe {
            libc::setsockopt(
                self.raw(),
                level,
                name,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Waits until one socket is readable or another writable, or the timeout expires.
pub(crate) fn wait(
    readable: Option<&Socket>,
    writable: Option<&Socket>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    let milliseconds = timeout.map_or(-1, |timeout| timeout.as_millis().clamp(1, i32::MAX as u128) as i32);
    // poll ignores negative descriptors.
    let entry = |socket: Option<&Socket>, events| libc::pollfd {
        fd: socket.map_or(-1, Socket::raw),
        events,
        revents: 0,
    };
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

#[inline]
fn flags(wait: Wait) -> i32 {
    match wait {
        Wait::Forever => 0,
        Wait::Never => libc::MSG_DONTWAIT,
    }
}
