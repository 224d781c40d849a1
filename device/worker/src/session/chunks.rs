//! Piecewise transfer of a session over a link: Piece frames, then a Whole frame that marks the end.

use std::io::{self, Read, Write};

use transport::{Link, greet};
use wire::{Flags, Frame, MAX_PIECE_BYTES, Opcode, Piece, Reject, WireError, decode_request};

/// Sends what is written to it. [`PieceWriter::finish`] marks the end.
pub(crate) struct PieceWriter<'a> {
    link: &'a Link,
    buffer: Vec<u8>,
}

impl<'a> PieceWriter<'a> {
    pub(crate) fn new(link: &'a Link) -> PieceWriter<'a> {
        PieceWriter { link, buffer: Vec::with_capacity(MAX_PIECE_BYTES as usize) }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.send()?;
        greet::send(self.link, &wire::Whole {}).map_err(io::Error::other)
    }

    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut frame = Vec::new();
        wire::encode_request(&Piece {}, &self.buffer, Flags::UNSEQUENCED, 0, 0, &mut frame);
        self.buffer.clear();
        self.link.write_all(&frame)
    }
}

impl Write for PieceWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(MAX_PIECE_BYTES as usize - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() as u64 == MAX_PIECE_BYTES {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads pieces until the end. A rejection in between is returned as an error with its reason.
pub(crate) struct PieceReader<'a> {
    link: &'a Link,
    piece: Vec<u8>,
    at: usize,
    whole: bool,
}

impl<'a> PieceReader<'a> {
    pub(crate) fn new(link: &'a Link) -> PieceReader<'a> {
        PieceReader { link, piece: Vec::new(), at: 0, whole: false }
    }

    fn next(&mut self) -> io::Result<()> {
        let Frame { header, payload } =
            greet::receive(self.link, MAX_PIECE_BYTES).map_err(io::Error::other)?;
        if header.is(Opcode::Piece) {
            (self.piece, self.at) = (payload, 0);
            return Ok(());
        }
        if header.is(Opcode::Whole) {
            self.whole = true;
            return Ok(());
        }
        let error = match decode_request::<Reject>(&payload) {
            Ok((reject, _)) if header.is(Opcode::Reject) => WireError::from(reject),
            _ => WireError::Unexpected { expected: "Piece", found: wire::name(header.opcode) },
        };
        Err(io::Error::other(error))
    }
}

impl Read for PieceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() && !self.whole {
            self.next()?;
        }
        let taken = buffer.len().min(self.piece.len() - self.at);
        buffer[..taken].copy_from_slice(&self.piece[self.at..self.at + taken]);
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
            let mut pieces = PieceWriter::new(&left);
            pieces.write_all(&sent).unwrap();
            pieces.finish().unwrap();
            left
        });
        let mut got = Vec::new();
        PieceReader::new(&right).read_to_end(&mut got).unwrap();
        assert!(got == data);
        let left = writer.join().unwrap();
        greet::send(&left, &RejectCode::Failed.reject("not today")).unwrap();
        let error = PieceReader::new(&right).read_to_end(&mut got).unwrap_err();
        assert!(error.to_string().contains("not today"), "{error}");
    }
}
