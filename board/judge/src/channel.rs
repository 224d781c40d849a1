//! The judge's side of a connection to a process that it has started: one request at a time, within a deadline.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::message::{self, DONE, HIP_ERROR};

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// HIP returned an error.
    Hip { code: i32, text: String },
    /// A time limit ran out.
    Time(Late),
    /// The process ended or closed the connection.
    Gone,
    /// The process sent an invalid reply.
    InvalidReply(String),
    /// The solution broke a rule while it ran.
    Rejected { rule: &'static str, text: String },
    /// The worker failed, which is not the solution's fault.
    Worker(String),
}

/// The time limit that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// That of the solution: for its calls, and for everything else that its code can delay.
    Solution,
    /// That of one request of the judge's own, such as to read a part of a buffer.
    Request,
    /// That of everything after the compilation.
    Submission,
}

/// A connection.
pub(crate) struct Channel {
    stream: UnixStream,
    /// Deadline of the whole submission.
    end: Instant,
    /// Deadline of the current operation, and what has run out then.
    until: Instant,
    late: Late,
}

impl Channel {
    /// Creates a connection for a submission of this duration. Returns the other end, too.
    pub fn new(whole: Duration) -> std::io::Result<(Channel, OwnedFd)> {
        let (stream, theirs) = UnixStream::pair()?;
        let end = Instant::now() + whole;
        Ok((Channel { stream, end, until: end, late: Late::Submission }, theirs.into()))
    }

    /// Sets the time limit of the following operations, and what has run out after that.
    pub fn allow(&mut self, time: Duration, late: Late) {
        let until = Instant::now() + time;
        (self.until, self.late) = match until < self.end {
            true => (until, late),
            false => (self.end, Late::Submission),
        };
    }

    /// Time until the deadline of the current operation.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Sends a request and returns the reply.
    pub fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, Fault> {
        self.post(&[request])?;
        let mut reply = Vec::new();
        self.reply(&mut reply)?;
        reply.remove(0);
        Ok(reply)
    }

    /// Sends a request that consists of these parts. There must be a call of [`Channel::reply`] for each, in the same order.
    pub fn post(&mut self, request: &[&[u8]]) -> Result<(), Fault> {
        self.set_timeout()?;
        message::send_parts(&mut self.stream, request).map_err(|error| self.fault(&error))
    }

    /// Receives a reply into `reply`, whose memory is used again, and returns what follows its first byte.
    pub fn reply<'a>(&mut self, reply: &'a mut Vec<u8>) -> Result<&'a [u8], Fault> {
        self.set_timeout()?;
        let mut limited = Limited { stream: &self.stream, until: self.until };
        message::receive_into(&mut limited, reply).map_err(|error| self.fault(&error))?;
        match reply.split_first() {
            Some((&DONE, rest)) => Ok(rest),
            Some((&HIP_ERROR, rest)) if rest.len() >= 4 => {
                let code = i32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
                Err(Fault::Hip { code, text: String::from_utf8_lossy(&rest[4..]).into_owned() })
            }
            Some((_, rest)) => Err(Fault::InvalidReply(String::from_utf8_lossy(rest).into_owned())),
            None => Err(Fault::InvalidReply("an empty reply".to_owned())),
        }
    }

    /// Closes the connection. The process then ends, unless it hangs.
    pub fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    fn set_timeout(&self) -> Result<(), Fault> {
        let left = self.left();
        if left.is_zero() {
            return Err(Fault::Time(self.late));
        }
        let set =
            self.stream.set_write_timeout(Some(left)).and_then(|()| self.stream.set_read_timeout(Some(left)));
        set.map_err(|error| Fault::InvalidReply(error.to_string()))
    }

    fn fault(&self, error: &std::io::Error) -> Fault {
        match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Fault::Time(self.late),
            std::io::ErrorKind::InvalidData => Fault::InvalidReply("a reply that is too long".to_owned()),
            _ => Fault::Gone,
        }
    }
}

/// Reader with a deadline for the whole reply, so that single bytes do not extend it.
struct Limited<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_ran_out_is_named() {
        let (mut channel, _other) = Channel::new(Duration::from_secs(60)).unwrap();
        for late in [Late::Solution, Late::Request] {
            channel.allow(Duration::ZERO, late);
            assert_eq!(channel.ask(&[1]), Err(Fault::Time(late)));
        }
        // The end of the submission comes before the end of what is allowed.
        let (mut channel, _other) = Channel::new(Duration::ZERO).unwrap();
        channel.allow(Duration::from_secs(60), Late::Solution);
        assert_eq!(channel.ask(&[1]), Err(Fault::Time(Late::Submission)));
    }
}
