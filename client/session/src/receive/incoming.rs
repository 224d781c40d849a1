//! The state of the receiving side of a connection: a buffer, and how frames are read from it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use transport::{BLOCK_BYTES, Link, Ready, StripedStream};
use wire::{Header, MAX_HEAD_BYTES, ReceiveCounter, WireError};

use super::pending::Destination;
use crate::link::extra_links::Throughput;
use crate::link::liveness::ReaderActivity;

const BUFFER: usize = 64 << 10;
const _: () = assert!(BUFFER as u64 <= BLOCK_BYTES);
/// Payload memory grows in steps of this size as bytes arrive. The length in the header is not trusted.
const STEP: usize = 1 << 20;

/// Whether the reading thread also holds the outgoing lock, so that no other thread notes what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutgoingLock {
    Held,
    NotHeld,
}

/// Result of reading without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    /// Everything that has arrived was read.
    All,
    /// Part of a frame that exceeds the buffer was left for a thread that waits.
    Part,
    /// The connection or the session is over.
    Ended,
}

/// Why reading stopped.
#[derive(Debug)]
pub enum ReadError {
    /// The connection is broken; it can be replaced.
    Broken(io::Error),
    /// The worker violates the protocol; a new connection would not help.
    Wire(WireError),
    /// A replayed request had another result than before.
    Diverged(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Broken(error)
    }
}

impl From<WireError> for ReadError {
    fn from(error: WireError) -> ReadError {
        ReadError::Wire(error)
    }
}

/// The state of the receiving side. The thread that holds its lock is the reader.
#[derive(Debug)]
pub struct Incoming {
    pub stream: StripedStream,
    buffer: Box<[u8]>,
    pub(super) start: usize,
    pub(super) end: usize,
    pub counter: ReceiveCounter,
    pub(super) bytes: u64,
    activity: Arc<ReaderActivity>,
    /// Throughput of large bodies.
    pub(super) throughput: Throughput,
}

impl Incoming {
    pub fn new(link: Link, activity: Arc<ReaderActivity>) -> Incoming {
        Incoming {
            stream: StripedStream::new(link),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            counter: ReceiveCounter::new(),
            bytes: 0,
            activity,
            throughput: Throughput::default(),
        }
    }

    /// Continues on a new connection. The worker sends the unfinished frame again.
    pub fn resume(&mut self, link: Link) {
        self.stream = StripedStream::new(link);
        self.start = 0;
        self.end = 0;
        self.counter.told_by_handshake();
    }

    pub fn has_buffered(&self) -> bool {
        self.start < self.end
    }

    fn receive(&mut self) -> io::Result<()> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        let bytes = self.activity.receiving(|| self.stream.read(&mut self.buffer[self.end..]))?;
        self.end += bytes;
        self.count(bytes)
    }

    /// Like [`receive`](Self::receive), without waiting. Returns false if the buffer is full.
    pub(super) fn try_receive(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            return Ok(false);
        }
        let bytes = self.stream.try_read(&mut self.buffer[self.end..])?;
        self.end += bytes;
        self.count(bytes)?;
        Ok(true)
    }

    /// Counts received bytes; 0 bytes are the end of the stream.
    #[inline]
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes += bytes as u64;
        self.activity.add(bytes);
        Ok(())
    }

    /// Whether the next frame can be read without waiting. True for an invalid header: rejecting it needs no further
    /// bytes.
    pub(super) fn holds_frame(&self) -> bool {
        let buffered = &self.buffer[self.start..self.end];
        buffered.first_chunk().is_some_and(|head| {
            Header::decode(head)
                .map_or(true, |header| header.payload_len <= (buffered.len() - Header::BYTES) as u64)
        })
    }

    pub(super) fn header(&mut self) -> Result<Header, ReadError> {
        loop {
            if let Some(head) = self.buffer[self.start..self.end].first_chunk() {
                let header = Header::decode(head)?;
                self.start += Header::BYTES;
                return Ok(header);
            }
            if self.buffer.len() - self.start < Header::BYTES {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            self.receive()?;
        }
    }

    /// Fills `destination` with the next bytes; most of a large one is read without an intermediate copy.
    pub(super) fn read_into(&mut self, destination: &mut [u8]) -> io::Result<()> {
        let buffered = destination.len().min(self.end - self.start);
        let (front, mut rest) = destination.split_at_mut(buffered);
        front.copy_from_slice(&self.buffer[self.start..self.start + buffered]);
        self.start += buffered;
        if rest.is_empty() {
            return Ok(());
        }
        // For a short rest, read it together with the following frames in one system call.
        if rest.len() <= BUFFER / 4 {
            while self.end - self.start < rest.len() {
                self.receive()?;
            }
            rest.copy_from_slice(&self.buffer[self.start..self.start + rest.len()]);
            self.start += rest.len();
            return Ok(());
        }
        if self.stream.is_large(rest.len()) {
            let Incoming { stream, activity, .. } = self;
            activity.receiving(|| stream.read_large(rest, &|bytes| activity.add(bytes)))?;
            self.bytes += rest.len() as u64;
            return Ok(());
        }
        while !rest.is_empty() {
            let bytes = self.activity.receiving(|| self.stream.read(rest))?;
            self.count(bytes)?;
            rest = &mut rest[bytes..];
        }
        Ok(())
    }

    /// Waits until this stream is readable or the outgoing stream is writable.
    pub fn wait_either(&self, outgoing: &StripedStream, timeout: Duration) -> io::Result<Ready> {
        self.activity.receiving(|| outgoing.wait_either(&self.stream, Some(timeout)))
    }

    pub(super) fn payload(&mut self, bytes: u64) -> Result<Vec<u8>, ReadError> {
        if bytes > MAX_HEAD_BYTES {
            let what = "a payload without a destination";
            return Err(WireError::TooLarge { what, bytes, limit: MAX_HEAD_BYTES }.into());
        }
        let mut payload = Vec::new();
        while (payload.len() as u64) < bytes {
            let before = payload.len();
            payload.resize(before + STEP.min(bytes as usize - before), 0);
            self.read_into(&mut payload[before..])?;
        }
        Ok(payload)
    }

    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), ReadError> {
        self.pass(bytes, |_| ())
    }

    /// Reads bytes without keeping them; `see` gets them in pieces.
    pub fn pass(&mut self, mut bytes: u64, mut see: impl FnMut(&[u8])) -> Result<(), ReadError> {
        let mut sink = [0; 4096];
        while bytes > 0 {
            let step = bytes.min(sink.len() as u64) as usize;
            self.read_into(&mut sink[..step])?;
            see(&sink[..step]);
            bytes -= step as u64;
        }
        Ok(())
    }

    /// Number of the worker's frame that is being read.
    pub fn frame(&self) -> u64 {
        self.counter.received() + 1
    }

    /// Reads a body into its destination.
    pub(super) fn body(&mut self, destination: Destination) -> io::Result<()> {
        // SAFETY: `Destination` guarantees valid memory that only the reader writes, and this thread is the reader.
        let bytes = unsafe { std::slice::from_raw_parts_mut(destination.start.as_ptr(), destination.bytes) };
        self.read_into(bytes)
    }
}
