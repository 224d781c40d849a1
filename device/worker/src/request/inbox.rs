//! The inbox: buffered reads from the client. One system call reads many small frames; bulk data goes straight to its
//! destination.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use backend::Device;
use transport::{BLOCK_BYTES, Link, StripedStream};
use wire::{Header, WireError};

/// Frames up to this size are handled in the buffer, without another copy.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;
const _: () = assert!(BUFFER_BYTES as u64 <= BLOCK_BYTES);
/// Size of a header and the fields of a bulk write.
const BULK_HEAD_BYTES: usize = Header::BYTES + 16;
/// Limit on one growth step of a payload's memory, which grows only as bytes arrive.
const STEP_BYTES: usize = 16 << 20;

/// Reason why a connection cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The client closed the connection between two frames.
    #[error("the client closed the connection")]
    Closed,
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("the client violated the protocol")]
    Protocol(#[from] WireError),
}

impl Broken {
    /// Whether the client has definitely closed its end, as opposed to being unreachable.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Broken::Closed | Broken::Protocol(_) => true,
            Broken::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
                    // Invalid counters in shared memory.
                    | io::ErrorKind::InvalidData
            ),
        }
    }
}

/// Activity of a connection's reader, for other threads.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Bytes received so far.
    bytes: AtomicU64,
    /// Whether the reader is blocked in a read.
    receiving: AtomicBool,
}

impl Activity {
    /// Whether the reader has received bytes since the call that last updated `seen`, or is handling a frame.
    pub(crate) fn is_busy(&self, seen: &mut u64) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let came = std::mem::replace(seen, bytes) != bytes;
        came || !self.receiving.load(Ordering::Relaxed)
    }

    #[inline]
    fn during(&self, read: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.receiving.store(true, Ordering::Relaxed);
        let result = read();
        self.receiving.store(false, Ordering::Relaxed);
        if let Ok(bytes) = result {
            self.note(bytes);
        }
        result
    }

    /// Counts received bytes. Several threads may receive a large body.
    #[inline]
    fn note(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

pub(crate) struct Inbox {
    stream: StripedStream,
    activity: Arc<Activity>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The last frame was bulk, so the next one probably is: leave its body in the socket.
    bulk: bool,
    /// Told before the reader waits for the rest of a frame.
    device: Option<Arc<dyn Device>>,
}

impl Inbox {
    pub(crate) fn new(link: Link) -> Inbox {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Inbox {
            stream: StripedStream::new(link),
            activity: Arc::default(),
            buffer,
            start: 0,
            end: 0,
            bulk: false,
            device: None,
        }
    }

    /// Tells the device before it waits for the rest of a frame.
    pub(crate) fn serving(self, device: &Arc<dyn Device>) -> Inbox {
        Inbox { device: Some(Arc::clone(device)), ..self }
    }

    /// Records its activity in `activity`.
    pub(crate) fn noting(self, activity: &Arc<Activity>) -> Inbox {
        Inbox { activity: Arc::clone(activity), ..self }
    }

    /// Reads everything after the current frame from these links as well.
    pub(crate) fn spread(&mut self, strands: Vec<Link>) -> Result<(), WireError> {
        if self.stream.is_spread() {
            return Err(WireError::Unexpected { expected: "a request", found: "a second Spread".to_owned() });
        }
        self.stream.spread(strands, (self.end - self.start) as u64);
        Ok(())
    }

    /// Whether the buffer is empty, so that the next frame needs a read.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether a read would return at once.
    pub(crate) fn has_news(&self) -> bool {
        self.stream.has_news()
    }

    /// Called before the rest of a frame is read, for which the reader may have to wait long.
    fn leave_device(&self) {
        if let Some(device) = &self.device {
            device.idle(&mut || true);
        }
    }

    /// Waits for the next header.
    pub(crate) fn header(&mut self) -> Result<Header, Broken> {
        if self.is_empty() {
            self.start = 0;
            let most = if std::mem::take(&mut self.bulk) { BULK_HEAD_BYTES } else { BUFFER_BYTES };
            let read = self.activity.during(|| self.stream.read(&mut self.buffer[..most]))?;
            self.end = match read {
                0 => return Err(Broken::Closed),
                bytes => bytes,
            };
        }
        let bytes = self.take(Header::BYTES)?;
        let mut head = [0; Header::BYTES];
        head.copy_from_slice(bytes);
        Ok(Header::decode(&head)?)
    }

    /// Returns the next `bytes` bytes, at most the size of the buffer.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<&[u8], Broken> {
        if self.end - self.start < bytes {
            if self.buffer.len() - self.start < bytes {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            self.leave_device();
            while self.end - self.start < bytes {
                match self.activity.during(|| self.stream.read(&mut self.buffer[self.end..]))? {
                    0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    read => self.end += read,
                }
            }
        }
        let from = self.start;
        self.start += bytes;
        Ok(&self.buffer[from..from + bytes])
    }

    /// Fills `destination`, from the buffer first and then straight from the socket.
    pub(crate) fn read_into(&mut self, destination: &mut [u8]) -> Result<(), Broken> {
        let buffered = destination.len().min(self.end - self.start);
        let (head, mut rest) = destination.split_at_mut(buffered);
        head.copy_from_slice(&self.buffer[self.start..self.start + buffered]);
        self.start += buffered;
        self.bulk = !rest.is_empty();
        if !rest.is_empty() {
            self.leave_device();
        }
        if self.stream.is_large(rest.len()) {
            let Inbox { stream, activity, .. } = self;
            // The bytes are counted as they come.
            activity.during(|| stream.read_large(rest, &|bytes| activity.note(bytes)).map(|()| 0))?;
            return Ok(());
        }
        while !rest.is_empty() {
            match self.activity.during(|| self.stream.read(rest))? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                bytes => rest = &mut rest[bytes..],
            }
        }
        Ok(())
    }

    /// Reads the next `bytes` bytes into a new vector, which grows only as they arrive.
    pub(crate) fn read_vec(&mut self, bytes: u64) -> Result<Vec<u8>, Broken> {
        let Ok(total) = usize::try_from(bytes) else {
            return Err(WireError::TooLarge { what: "payload", bytes, limit: usize::MAX as u64 }.into());
        };
        let mut data = Vec::new();
        while data.len() < total {
            let step = (total - data.len()).min(STEP_BYTES.max(data.len()));
            let from = data.len();
            if data.try_reserve_exact(step).is_err() {
                return Err(io::Error::from(io::ErrorKind::OutOfMemory).into());
            }
            data.resize(from + step, 0);
            self.read_into(&mut data[from..])?;
        }
        Ok(data)
    }

    /// Reads and discards `bytes` bytes.
    pub(crate) fn skip(&mut self, mut bytes: u64) -> Result<(), Broken> {
        while bytes > 0 {
            let step = bytes.min(BUFFER_BYTES as u64);
            self.take(step as usize)?;
            bytes -= step;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_in_order_whatever_way_they_are_taken() {
        let (left, right) = Link::pair().unwrap();
        let data: Vec<u8> = (0..3 * BUFFER_BYTES).map(|at| (at % 251) as u8).collect();
        let expected = data.clone();
        let writer = std::thread::spawn(move || left.write_all(&data).unwrap());
        let mut inbox = Inbox::new(right);
        let mut got = inbox.take(1000).unwrap().to_vec();
        let mut some = vec![0; BUFFER_BYTES];
        inbox.read_into(&mut some).unwrap();
        got.extend(some);
        got.extend_from_slice(inbox.take(BUFFER_BYTES).unwrap());
        got.extend(inbox.read_vec(5000).unwrap());
        let skipped = 777;
        inbox.skip(skipped).unwrap();
        assert_eq!(got, expected[..got.len()]);
        let at = got.len() + skipped as usize;
        assert_eq!(inbox.take(10).unwrap(), &expected[at..at + 10]);
        let rest = (expected.len() - at - 10) as u64;
        inbox.skip(rest).unwrap();
        writer.join().unwrap();
        assert!(matches!(inbox.header(), Err(Broken::Closed)));
    }

    #[test]
    fn a_reader_is_busy_while_bytes_come_and_while_it_handles_them_but_not_while_it_waits() {
        let (left, right) = Link::pair().unwrap();
        let activity = Arc::new(Activity::default());
        let mut inbox = Inbox::new(right).noting(&activity);
        let mut seen = 0;
        left.write_all(b"some bytes").unwrap();
        inbox.take(10).unwrap();
        assert!(activity.is_busy(&mut seen) && seen == 10, "bytes came");
        assert!(activity.is_busy(&mut seen), "they are being handled");
        let waiting = std::thread::spawn(move || inbox.take(1).map(|_| ()));
        let start = std::time::Instant::now();
        while activity.is_busy(&mut seen) {
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "a reader that waits is not busy");
            std::thread::yield_now();
        }
        drop(left);
        assert!(waiting.join().unwrap().is_err());
    }

    #[test]
    fn a_frame_cut_off_is_not_a_clean_close_but_the_peer_is_gone() {
        let (left, right) = Link::pair().unwrap();
        left.write_all(b"HIPR").unwrap();
        drop(left);
        let error = Inbox::new(right).header().unwrap_err();
        assert!(matches!(error, Broken::Io(_)) && error.is_closed());
    }
}
