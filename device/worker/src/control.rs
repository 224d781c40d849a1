//! The control socket between the supervisor and a session's process: JSON datagrams, some with a file descriptor attached.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use limits::LimitConfig;
use serde::{Deserialize, Serialize};
use transport::{receive_attached, send_attached};

use crate::compile::task::CompilerConfig;
use crate::config::SessionConfig;
use crate::session_report::SessionReport;

const MAX_DATAGRAM: usize = 64 << 10;
/// Handle of memory that sessions share: 32 random bytes that only the offering client receives.
pub(crate) type ShareToken = [u8; 32];

/// File descriptor of the session process's end.
pub(crate) const CONTROL_FD: RawFd = 3;

/// Messages from the supervisor to a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToSession {
    /// Sent before the first order if devices are shared: the limits page (attached) and the session's seat on it.
    Sit { limits: LimitConfig, seat: u32 },
    /// First order for a new session.
    Start {
        config: Box<SessionConfig>,
        session_id: u64,
        secret: [u8; 32],
        worker: String,
        has_compiler: bool,
    },
    /// First order for a migrated session: restore the session that arrives over the link (attached).
    Resume { config: Box<SessionConfig>, worker: String, has_compiler: bool },
    /// This worker has accepted the resumed session.
    Adopted,
    /// Hand the session over to the peer of the link (attached), if its work finishes in time.
    Depart { patience_ms: u32 },
    /// Write a checkpoint to the peer of the link (attached) at the next opportunity. `place` is the worker that stores it; empty if
    /// this one does.
    Checkpoint { complete: bool, place: String },
    /// Serve the observer at the other end of the link (attached).
    Observe,
    /// A connection (attached) that has authenticated for this session.
    Attach { hello: Vec<u8>, version: u16 },
    /// An additional link (attached) that has authenticated for this session's connection.
    Join { place: u16 },
    /// Requests a [`ToSupervisor::Report`].
    Report { ticket: u64 },
    /// The supervisor ended. Another one may adopt the session; if none does, the control socket closes. Sent by the keeper.
    Orphaned,
    /// Another supervisor has adopted the session. The session replies with [`ToSupervisor::Renewed`] and repeats its requests.
    Supervised,
    /// The token with which other sessions can request the memory that this session offered.
    Offered { ticket: u64, token: [u8; 32] },
    /// The memory (attached) that the session requested.
    Granted { ticket: u64, bytes: u64 },
    /// Whether more memory of a device was granted.
    Grown { ticket: u64, granted: bool },
    /// An offer or a request was refused.
    Refused { ticket: u64, text: String },
    /// The compiler service that the session requested: its socket (attached), or the reason why there is none.
    Compiler { refused: Option<String> },
    /// To a compiler service: accept tasks from the socket (attached).
    Serve { config: CompilerConfig },
}

/// Messages from a session to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToSupervisor {
    Report {
        ticket: u64,
        report: SessionReport,
    },
    /// A resumed session is restored and ready to be served.
    Arrived {
        session_id: u64,
        secret: [u8; 32],
        client: String,
        pid: u32,
    },
    /// The session has moved to `endpoint`, or to a file if there is none. Its process exits.
    Left {
        endpoint: Option<String>,
    },
    /// Offers memory (attached) to other sessions.
    Offer {
        ticket: u64,
        bytes: u64,
    },
    /// Requests memory that another session offered.
    Ask {
        ticket: u64,
        token: [u8; 32],
    },
    /// Requests `bytes` of a device beyond what was granted.
    Grow {
        ticket: u64,
        device: u32,
        bytes: u64,
    },
    /// Withdraws an offer.
    Withdraw {
        token: [u8; 32],
    },
    /// Requests a compiler service.
    Compiler {},
    /// Every request that was sent before this message and has no reply follows once more.
    Renewed,
    /// The session has ended as it should; its process exits. A supervisor that did not start the process cannot learn its exit status.
    Ended,
}

impl ToSupervisor {
    /// Whether the session sends it again to the next supervisor if it got no reply.
    pub(crate) fn is_repeated(&self) -> bool {
        matches!(
            self,
            ToSupervisor::Offer { .. }
                | ToSupervisor::Ask { .. }
                | ToSupervisor::Grow { .. }
                | ToSupervisor::Compiler {}
        )
    }
}

/// One end of the control socket.
#[derive(Debug)]
pub(crate) struct Control {
    fd: OwnedFd,
}

impl From<OwnedFd> for Control {
    fn from(fd: OwnedFd) -> Control {
        Control { fd }
    }
}

impl Control {
    pub(crate) fn pair() -> io::Result<(Control, Control)> {
        let mut fds = [0; 2];
        // SAFETY: the array has room for the two descriptors.
        let failed = unsafe {
            libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr())
        };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just created and have no other owner.
        Ok(unsafe { (Control::from_raw(fds[0]), Control::from_raw(fds[1])) })
    }

    /// # Safety
    /// `fd` must be an open socket that nothing else owns.
    pub(crate) unsafe fn from_raw(fd: RawFd) -> Control {
        // SAFETY: the caller guarantees ownership.
        Control { fd: unsafe { OwnedFd::from_raw_fd(fd) } }
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets how long [`Control::receive`] waits; `None` waits for as long as it takes.
    pub(crate) fn set_receive_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.unwrap_or_default();
        let value = libc::timeval {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_usec: timeout.subsec_micros() as libc::suseconds_t,
        };
        // SAFETY: the kernel reads a structure of the length passed, which lives through the call.
        let failed = unsafe {
            libc::setsockopt(
                self.raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets close-on-exec, so that programs started by this process do not inherit the socket.
    pub(crate) fn close_on_exec(&self) -> io::Result<()> {
        // SAFETY: changes a flag of an open descriptor.
        match unsafe { libc::fcntl(self.raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends one message, with an optional file descriptor attached.
    pub(crate) fn send(&self, message: &impl Serialize, attached: Option<RawFd>) -> io::Result<()> {
        self.send_with(message, attached, 0)
    }

    /// Sends one message, or fails if the peer has to read others first.
    pub(crate) fn try_send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, None, libc::MSG_DONTWAIT)
    }

    fn send_with(
        &self,
        message: &impl Serialize,
        attached: Option<RawFd>,
        flags: libc::c_int,
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
        send_attached(self.fd.as_fd(), &bytes, attached, flags).map(drop)
    }

    /// Waits for one message; returns `None` when the peer has closed its end and every message it sent has been received.
    pub(crate) fn receive<T: for<'de> Deserialize<'de>>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let mut bytes = vec![0u8; MAX_DATAGRAM];
        let (received, attached) = loop {
            match receive_attached(self.fd.as_fd(), &mut bytes) {
                // The kernel reports a reset once if the peer closed its end without reading everything, even if messages from the
                // peer are still queued here. Those, and then the end, follow.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionReset
                    ) => {}
                other => break other?,
            }
        };
        if received == 0 {
            return Ok(None);
        }
        let message = serde_json::from_slice(&bytes[..received]).map_err(io::Error::other)?;
        Ok(Some((message, attached)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_connection_travels_with_its_order() {
        let (left, right) = Control::pair().unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let order = ToSession::Attach { hello: vec![1, 2, 3], version: 1 };
        left.send(&order, Some(theirs.as_raw_fd())).unwrap();
        drop(theirs);
        let (order, attached) = right.receive::<ToSession>().unwrap().unwrap();
        assert!(matches!(order, ToSession::Attach { hello, .. } if hello == [1, 2, 3]));
        let mut stream = UnixStream::from(attached.unwrap());
        stream.write_all(b"through").unwrap();
        let mut buffer = [0; 7];
        ours.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"through");
        drop(left);
        assert!(right.receive::<ToSession>().unwrap().is_none());
    }

    #[test]
    fn the_last_message_arrives_even_if_its_sender_left_messages_unread() {
        let (ours, theirs) = Control::pair().unwrap();
        ours.send(&ToSession::Adopted, None).unwrap();
        theirs.send(&ToSupervisor::Left { endpoint: None }, None).unwrap();
        drop(theirs);
        let (message, _) = ours.receive::<ToSupervisor>().unwrap().unwrap();
        assert!(matches!(message, ToSupervisor::Left { endpoint: None }));
        assert!(ours.receive::<ToSupervisor>().unwrap().is_none());
    }
}
