//! Chunked transfer of a session over a link: SnapshotChunk frames, then a SnapshotEnd frame that marks the end.

use std::io::{self, Read, Write};

use transport::{Link, greet};
use wire::{Flags, Frame, MAX_CHUNK_BYTES, Opcode, Reject, SnapshotChunk, WireError, decode_request};

/// Sends what is written to it. [`ChunkWriter::finish`] marks the end.
#[derive(Debug)]
pub struct ChunkWriter<'a> {
    link: &'a Link,
    buffer: Vec<u8>,
}

impl<'a> ChunkWriter<'a> {
    /// A writer to a link.
    pub fn new(link: &'a Link) -> ChunkWriter<'a> {
        ChunkWriter { link, buffer: Vec::with_capacity(MAX_CHUNK_BYTES as usize) }
    }

    /// Sends the rest and marks the end.
    pub fn finish(mut self) -> io::Result<()> {
        self.send()?;
        greet::send(self.link, &wire::SnapshotEnd {}).map_err(io::Error::other)
    }

    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut frame = Vec::new();
        wire::encode_request(&SnapshotChunk {}, &self.buffer, Flags::UNSEQUENCED, 0, 0, &mut frame);
        self.buffer.clear();
        self.link.write_all(&frame)
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(MAX_CHUNK_BYTES as usize - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() as u64 == MAX_CHUNK_BYTES {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads chunks until the end. A rejection in between is returned as an error with its reason.
#[derive(Debug)]
pub struct ChunkReader<'a> {
    link: &'a Link,
    chunk: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<'a> ChunkReader<'a> {
    /// A reader of a link.
    pub fn new(link: &'a Link) -> ChunkReader<'a> {
        ChunkReader { link, chunk: Vec::new(), at: 0, ended: false }
    }

    fn next(&mut self) -> io::Result<()> {
        let Frame { header, payload } =
            greet::receive(self.link, MAX_CHUNK_BYTES).map_err(io::Error::other)?;
        if header.is(Opcode::SnapshotChunk) {
            (self.chunk, self.at) = (payload, 0);
            return Ok(());
        }
        if header.is(Opcode::SnapshotEnd) {
            self.ended = true;
            return Ok(());
        }
        let error = match decode_request::<Reject>(&payload) {
            Ok((reject, _)) if header.is(Opcode::Reject) => WireError::from(reject),
            _ => WireError::Unexpected { expected: "SnapshotChunk", found: wire::name(header.opcode) },
        };
        Err(io::Error::other(error))
    }
}

impl Read for ChunkReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() && !self.ended {
            self.next()?;
        }
        let taken = buffer.len().min(self.chunk.len() - self.at);
        buffer[..taken].copy_from_slice(&self.chunk[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::RejectCode;

    #[test]
    fn what_is_written_is_read_to_its_end_and_no_further() {
        let (left, right) = Link::pair().unwrap();
        let data: Vec<u8> = (0..5_000_003u32).map(|at| (at % 251) as u8).collect();
        let sent = data.clone();
        let writer = std::thread::spawn(move || {
            let mut chunks = ChunkWriter::new(&left);
            chunks.write_all(&sent).unwrap();
            chunks.finish().unwrap();
            left
        });
        let mut got = Vec::new();
        ChunkReader::new(&right).read_to_end(&mut got).unwrap();
        assert!(got == data);
        let left = writer.join().unwrap();
        greet::send(&left, &RejectCode::Failed.reject("not today")).unwrap();
        let error = ChunkReader::new(&right).read_to_end(&mut got).unwrap_err();
        assert!(error.to_string().contains("not today"), "{error}");
    }
}
