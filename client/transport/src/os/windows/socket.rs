//! Winsock calls on a connected stream socket.
//!
//! Windows has no MSG_DONTWAIT: whether a call may wait is a property of the socket. The socket is therefore non-blocking, and
//! calls that wait first try, then wait for readiness.

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::windows::io::{AsRawSocket, OwnedSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windows_sys::Win32::Networking::WinSock as winsock;

use crate::link::{Peer, Ready, USER_TIMEOUT, Wait};
use crate::os::fifo_pair::SharedMemory;

const KEEPALIVE_IDLE_S: i32 = 10;
const KEEPALIVE_INTERVAL_S: i32 = 5;
const KEEPALIVE_PROBES: i32 = 4;
/// Limit on the slices of one system call.
const MAX_SLICES: usize = 64;
/// Limit on the bytes of one system call: Windows may take a larger write as a whole, however full its buffers are.
const MAX_SENT: usize = 1 << 20;
/// How long a wait lasts before it checks whether the socket was shut down: a local shutdown does not end a wait for readiness on
/// every Windows.
const WAIT_SLICE: Duration = Duration::from_millis(200);
/// No timeout.
const FOREVER: u64 = u64::MAX;

/// A connected stream socket, in non-blocking mode.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: OwnedSocket,
    /// Limits of calls that wait, in milliseconds.
    read_timeout: AtomicU64,
    write_timeout: AtomicU64,
    is_shut_down: AtomicBool,
}

impl Socket {
    /// Takes over a TCP connection, with keepalive and a limit on how long sent bytes may stay unacknowledged.
    pub(crate) fn from_tcp(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        let socket = Socket::new(stream.into());
        socket.option(winsock::SOL_SOCKET, winsock::SO_KEEPALIVE, 1)?;
        // Options of Windows 10 1709 and later; the session's own heartbeats find a dead peer without them.
        for (name, value) in [
            (winsock::TCP_KEEPIDLE, KEEPALIVE_IDLE_S),
            (winsock::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S),
            (winsock::TCP_KEEPCNT, KEEPALIVE_PROBES),
            (winsock::TCP_MAXRT, USER_TIMEOUT.as_secs() as i32),
        ] {
            let _ = socket.option(winsock::IPPROTO_TCP, name, value);
        }
        Ok(socket)
    }

    fn new(socket: OwnedSocket) -> Socket {
        Socket {
            socket,
            read_timeout: AtomicU64::new(FOREVER),
            write_timeout: AtomicU64::new(FOREVER),
            is_shut_down: AtomicBool::new(false),
        }
    }

    #[inline]
    fn raw(&self) -> winsock::SOCKET {
        self.socket.as_raw_socket() as winsock::SOCKET
    }

    /// Duplicates the handle of the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Socket> {
        let copy = Socket::new(self.socket.try_clone()?);
        copy.read_timeout.store(self.read_timeout.load(Ordering::Relaxed), Ordering::Relaxed);
        copy.write_timeout.store(self.write_timeout.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(copy)
    }

    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        self.take(buffer, 0, wait)
    }

    /// Like [`Socket::receive`]: Windows attaches nothing to bytes.
    pub(crate) fn receive_attached(
        &self,
        buffer: &mut [u8],
        _: &mut Option<SharedMemory>,
    ) -> io::Result<usize> {
        self.receive(buffer, Wait::Forever)
    }

    /// Sends no bytes: there is no memory to attach.
    pub(crate) fn send_attached(&self, _: &[u8], memory: &SharedMemory) -> io::Result<usize> {
        match *memory {}
    }

    /// Waits for bytes and returns them without consuming them; returns 0 at the end of the stream.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.take(buffer, winsock::MSG_PEEK, Wait::Forever)
    }

    fn take(&self, buffer: &mut [u8], flags: i32, wait: Wait) -> io::Result<usize> {
        let length = i32::try_from(buffer.len()).unwrap_or(i32::MAX);
        let mut deadline = None;
        loop {
            // SAFETY: the buffer is writable for the length passed, and this object keeps the socket open.
            let read = unsafe { winsock::recv(self.raw(), buffer.as_mut_ptr(), length, flags) };
            if let Ok(read) = usize::try_from(read) {
                return Ok(read);
            }
            let error = last_error();
            if self.is_shut_down.load(Ordering::Acquire) {
                return Ok(0);
            }
            if error.kind() != io::ErrorKind::WouldBlock || wait == Wait::Never {
                return Err(error);
            }
            self.wait_for(winsock::POLLRDNORM, &self.read_timeout, &mut deadline)?;
        }
    }

    #[inline]
    pub(crate) fn send(&self, slices: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let mut buffers = [winsock::WSABUF { len: 0, buf: std::ptr::null_mut() }; MAX_SLICES];
        let (mut count, mut room) = (0, MAX_SENT);
        for (buffer, slice) in buffers.iter_mut().zip(slices) {
            let length = slice.len().min(room);
            *buffer = winsock::WSABUF { len: length as u32, buf: slice.as_ptr().cast_mut() };
            (count, room) = (count + 1, room - length);
            if room == 0 {
                break;
            }
        }
        let mut deadline = None;
        loop {
            let mut sent = 0;
            // SAFETY: the first `count` buffers are parts of slices that outlive the call and are only read.
            let failed = unsafe {
                winsock::WSASend(
                    self.raw(),
                    buffers.as_ptr(),
                    count,
                    &raw mut sent,
                    0,
                    std::ptr::null_mut(),
                    None,
                )
            };
            if failed == 0 {
                return Ok(sent as usize);
            }
            let error = last_error();
            if error.kind() != io::ErrorKind::WouldBlock || wait == Wait::Never {
                return Err(error);
            }
            self.wait_for(winsock::POLLWRNORM, &self.write_timeout, &mut deadline)?;
        }
    }

    /// Waits until the socket is ready, shut down, or a timeout expires.
    fn wait_for(&self, event: i16, timeout: &AtomicU64, deadline: &mut Option<Instant>) -> io::Result<()> {
        let limit = timeout.load(Ordering::Relaxed);
        if limit != FOREVER && deadline.is_none() {
            *deadline = Some(Instant::now() + Duration::from_millis(limit));
        }
        loop {
            let slice = match *deadline {
                None => WAIT_SLICE,
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    left.min(WAIT_SLICE)
                }
            };
            if self.poll(event, slice.as_millis().max(1) as i32) != 0 {
                return Ok(());
            }
            if self.is_shut_down.load(Ordering::Acquire) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }

    /// Whether a read would return at once.
    pub(crate) fn is_readable(&self) -> bool {
        self.poll(winsock::POLLRDNORM, 0) != 0
    }

    /// Whether a small write would not block.
    pub(crate) fn is_writable(&self) -> bool {
        self.poll(winsock::POLLWRNORM, 0) != 0
    }

    /// Whether the peer or the network has closed the connection.
    pub(crate) fn has_ended(&self) -> bool {
        if self.poll(winsock::POLLRDNORM, 0) & (winsock::POLLHUP | winsock::POLLERR | winsock::POLLNVAL) != 0
        {
            return true;
        }
        let mut byte = 0u8;
        // SAFETY: one writable byte; the socket does not block.
        unsafe { winsock::recv(self.raw(), &raw mut byte, 1, winsock::MSG_PEEK) == 0 }
    }

    /// The pending ones of the events, within a time in milliseconds.
    fn poll(&self, events: i16, milliseconds: i32) -> i16 {
        let mut poll = winsock::WSAPOLLFD { fd: self.raw(), events, revents: 0 };
        // SAFETY: one valid entry, for the duration of the call.
        let ready = unsafe { winsock::WSAPoll(&raw mut poll, 1, milliseconds) };
        if ready > 0 { poll.revents } else { 0 }
    }

    /// Returns 0: Windows does not report it.
    pub(crate) fn unacknowledged(&self) -> u64 {
        0
    }

    /// Returns `None`: Windows does not report it.
    pub(crate) fn acknowledged(&self) -> Option<u64> {
        None
    }

    /// Returns `None`: unix sockets are not used on Windows.
    pub(crate) fn unix_peer(&self) -> Option<Peer> {
        None
    }

    /// Closes the connection in both directions and wakes every thread that waits on it.
    pub(crate) fn shutdown(&self) {
        self.is_shut_down.store(true, Ordering::Release);
        // SAFETY: the socket is open as long as `self` is. Failure means that it is shut down already.
        unsafe { winsock::shutdown(self.raw(), winsock::SD_BOTH) };
    }

    /// Makes reads fail after this long; `None` waits forever.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.read_timeout.store(milliseconds(timeout), Ordering::Relaxed);
        Ok(())
    }

    /// Limits how long a write may block; `None` for no limit.
    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.write_timeout.store(milliseconds(timeout), Ordering::Relaxed);
        Ok(())
    }

    fn option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        // SAFETY: the value is readable for its size.
        let failed = unsafe {
            winsock::setsockopt(self.raw(), level, name, (&raw const value).cast(), size_of::<i32>() as i32)
        };
        if failed == 0 { Ok(()) } else { Err(last_error()) }
    }
}

/// Waits until one socket is readable or another writable, or the timeout expires. Without a timeout it may return early, with
/// nothing ready.
pub(crate) fn wait(
    readable: Option<&Socket>,
    writable: Option<&Socket>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    let slice = timeout.map_or(WAIT_SLICE, |timeout| timeout.min(WAIT_SLICE));
    let mut polls = [winsock::WSAPOLLFD { fd: 0, events: 0, revents: 0 }; 2];
    let mut count = 0;
    for (socket, events) in [(readable, winsock::POLLRDNORM), (writable, winsock::POLLWRNORM)] {
        if let Some(socket) = socket {
            polls[count] = winsock::WSAPOLLFD { fd: socket.raw(), events, revents: 0 };
            count += 1;
        }
    }
    // SAFETY: the first `count` entries are valid, for the duration of the call.
    let ready =
        unsafe { winsock::WSAPoll(polls.as_mut_ptr(), count as u32, slice.as_millis().max(1) as i32) };
    if ready < 0 {
        return Err(last_error());
    }
    // A broken link is reported as ready, so that the caller's operation returns the error.
    let ended =
        |socket: Option<&Socket>| socket.is_some_and(|socket| socket.is_shut_down.load(Ordering::Acquire));
    let mut answers = polls.iter().take(count).map(|poll| poll.revents != 0);
    let mut next =
        |socket: Option<&Socket>| socket.is_some() && (answers.next() == Some(true) || ended(socket));
    Ok(Ready { readable: next(readable), writable: next(writable) })
}

fn milliseconds(timeout: Option<Duration>) -> u64 {
    timeout.map_or(FOREVER, |timeout| timeout.as_millis().clamp(1, FOREVER as u128 - 1) as u64)
}

fn last_error() -> io::Error {
    // SAFETY: returns a number of this thread.
    io::Error::from_raw_os_error(unsafe { winsock::WSAGetLastError() })
}
