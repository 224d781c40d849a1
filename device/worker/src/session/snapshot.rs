//! Snapshot format: a session as a file of sections, each followed by the hash of everything up to its end.
//!
//! Defines only the format; [`migrate_out`](crate::session::migrate_out) and [`migrate_in`](crate::session::migrate_in) define the
//! contents of sections.
//! Input is untrusted: sizes are limited by kind, memory grows only as bytes arrive, and a file that is truncated, modified or
//! reordered is refused. The hashes detect corruption, not tampering: a process that can write the file can also replace the hashes.

use std::io::{self, Read, Write};

use crate::request::packed;

pub(crate) const MAGIC: [u8; 8] = *b"RMRASESS";
/// Other versions are refused: sessions live for hours, not across releases. docs/protocol.md says when it rises.
pub(crate) const VERSION: u32 = 1;

/// Limit on the memory bytes in one section.
pub(crate) const MEMORY_BYTES: usize = 1 << 20;
/// Size of the head of a memory section: kind of holding, its number, the offset.
pub(crate) const MEMORY_HEAD_BYTES: usize = 17;
/// Limit on one growth step of a payload's memory.
const STEP_BYTES: usize = 1 << 20;
const HEAD_BYTES: usize = 24;
/// Flag: the payload is an LZ4 block.
const PACKED: u32 = 1;

/// Kind of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// JSON: everything that is neither bulk nor in a section of another kind. The first section.
    Manifest = 1,
    /// A code object.
    Image = 2,
    /// An executable graph.
    Graph = 3,
    /// A frame that the client has not acknowledged.
    Frame = 4,
    /// Bytes of memory. Memory in no section is zero.
    Memory = 5,
    /// The last section, without a payload.
    End = 6,
}

impl Kind {
    fn from_number(number: u32) -> Option<Kind> {
        Some(match number {
            1 => Kind::Manifest,
            2 => Kind::Image,
            3 => Kind::Graph,
            4 => Kind::Frame,
            5 => Kind::Memory,
            6 => Kind::End,
            _ => return None,
        })
    }

    /// Limit on the payload size in bytes.
    pub(crate) fn limit(self) -> u64 {
        match self {
            Kind::Manifest => 256 << 20,
            Kind::Image => 2 << 30,
            Kind::Graph => 512 << 20,
            Kind::Frame => 1 << 30,
            Kind::Memory => (MEMORY_BYTES + MEMORY_HEAD_BYTES) as u64,
            Kind::End => 0,
        }
    }
}

/// Error in a session's file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum SnapshotError {
    #[error("this is not a session snapshot")]
    Magic,
    #[error("the session snapshot has format version {found}, this worker supports version {VERSION}")]
    Version { found: u32 },
    #[error("the session snapshot is damaged: {what}")]
    Damaged { what: String },
    #[error("the session snapshot is cut off")]
    CutOff,
    #[error("a section of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    #[error("the session snapshot cannot be read or written")]
    Io(#[source] io::Error),
}

impl SnapshotError {
    pub(crate) fn damaged(what: impl Into<String>) -> SnapshotError {
        SnapshotError::Damaged { what: what.into() }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotError::CutOff,
            _ => SnapshotError::Io(error),
        }
    }
}

/// Writes sections.
pub(crate) struct Writer<W> {
    to: W,
    chain: [u8; 32],
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(mut to: W) -> Result<Writer<W>, SnapshotError> {
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&VERSION.to_le_bytes());
        start.extend_from_slice(&[0; 4]);
        to.write_all(&start)?;
        let chain = *blake3::hash(&start).as_bytes();
        Ok(Writer { to, chain })
    }

    pub(crate) fn section(&mut self, kind: Kind, payload: &[u8]) -> Result<(), SnapshotError> {
        let packed = (kind == Kind::Memory).then(|| lz4_flex::block::compress(payload));
        match packed.filter(|packed| packed.len() < payload.len() && payload.len() as u64 <= kind.limit()) {
            Some(packed) => self.put(kind, PACKED, payload.len() as u64, &packed),
            None => self.plain_section(kind, payload),
        }
    }

    /// Like [`Writer::section`], without compression.
    pub(crate) fn plain_section(&mut self, kind: Kind, payload: &[u8]) -> Result<(), SnapshotError> {
        let (bytes, limit) = (payload.len() as u64, kind.limit());
        if bytes > limit {
            return Err(SnapshotError::TooLarge { bytes, limit });
        }
        self.put(kind, 0, bytes, payload)
    }

    /// Writes the last section; nothing may follow.
    pub(crate) fn finish(mut self) -> Result<W, SnapshotError> {
        self.put(Kind::End, 0, 0, &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn put(&mut self, kind: Kind, flags: u32, unpacked: u64, stored: &[u8]) -> Result<(), SnapshotError> {
        let head = head(kind as u32, flags, stored.len() as u64, unpacked);
        self.chain = link(&self.chain, &head, stored);
        self.to.write_all(&head)?;
        self.to.write_all(stored)?;
        Ok(self.to.write_all(&self.chain)?)
    }
}

/// Reads sections.
pub(crate) struct Reader<R> {
    from: R,
    chain: [u8; 32],
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(mut from: R) -> Result<Reader<R>, SnapshotError> {
        let mut start = [0; 16];
        from.read_exact(&mut start).map_err(|error| match SnapshotError::from(error) {
            SnapshotError::CutOff => SnapshotError::Magic,
            other => other,
        })?;
        if start[..8] != MAGIC {
            return Err(SnapshotError::Magic);
        }
        let found = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if found != VERSION {
            return Err(SnapshotError::Version { found });
        }
        let chain = *blake3::hash(&start).as_bytes();
        Ok(Reader { from, chain })
    }

    /// Reads the next section. Must not be called after the last one.
    pub(crate) fn next(&mut self) -> Result<(Kind, Vec<u8>), SnapshotError> {
        let mut head = [0; HEAD_BYTES];
        self.from.read_exact(&mut head)?;
        let half = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        let (flags, stored, unpacked) = (half(4), word(8), word(16));
        let kind = Kind::from_number(half(0))
            .ok_or_else(|| SnapshotError::damaged(format!("unknown section kind {}", half(0))))?;
        let limit = kind.limit();
        if stored > limit || unpacked > limit {
            return Err(SnapshotError::TooLarge { bytes: stored.max(unpacked), limit });
        }
        let sound = match flags {
            0 => stored == unpacked,
            PACKED => kind == Kind::Memory && packed::is_plausible(stored, unpacked),
            _ => false,
        };
        if !sound {
            return Err(SnapshotError::damaged("the head of a section is inconsistent"));
        }
        let payload = self.read(stored as usize)?;
        let mut stored = [0; 32];
        self.from.read_exact(&mut stored)?;
        self.chain = link(&self.chain, &head, &payload);
        if stored != self.chain {
            return Err(SnapshotError::damaged("checksum mismatch"));
        }
        if flags != PACKED {
            return Ok((kind, payload));
        }
        let mut bytes = vec![0; unpacked as usize];
        match lz4_flex::block::decompress_into(&payload, &mut bytes) {
            Ok(length) if length == bytes.len() => Ok((kind, bytes)),
            _ => Err(SnapshotError::damaged("memory cannot be decompressed")),
        }
    }

    fn read(&mut self, total: usize) -> Result<Vec<u8>, SnapshotError> {
        let mut data = Vec::new();
        while data.len() < total {
            let from = data.len();
            let step = (total - from).min(STEP_BYTES.max(from));
            data.try_reserve_exact(step).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
            data.resize(from + step, 0);
            self.from.read_exact(&mut data[from..])?;
        }
        Ok(data)
    }
}

fn head(kind: u32, flags: u32, stored: u64, unpacked: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&kind.to_le_bytes());
    head[4..8].copy_from_slice(&flags.to_le_bytes());
    head[8..16].copy_from_slice(&stored.to_le_bytes());
    head[16..].copy_from_slice(&unpacked.to_le_bytes());
    head
}

/// Computes the hash chain: the hash of everything so far.
fn link(before: &[u8; 32], head: &[u8], payload: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before).update(head).update(payload);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.section(Kind::Manifest, b"{}").unwrap();
        writer.section(Kind::Memory, &[7; 5000]).unwrap();
        writer.section(Kind::Frame, b"frame").unwrap();
        writer.finish().unwrap()
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<(Kind, Vec<u8>)>, SnapshotError> {
        let mut reader = Reader::new(bytes)?;
        let mut sections = Vec::new();
        loop {
            match reader.next()? {
                (Kind::End, _) => return Ok(sections),
                section => sections.push(section),
            }
        }
    }

    #[test]
    fn what_was_written_is_read_and_memory_is_packed() {
        let bytes = sample();
        assert!(bytes.len() < 1000);
        let sections = read_all(&bytes).unwrap();
        assert_eq!(sections[0], (Kind::Manifest, b"{}".to_vec()));
        assert_eq!(sections[1], (Kind::Memory, vec![7; 5000]));
        assert_eq!(sections[2], (Kind::Frame, b"frame".to_vec()));
    }

    #[test]
    fn a_file_that_ends_early_or_was_changed_anywhere_is_refused() {
        let bytes = sample();
        for end in 0..bytes.len() {
            let error = read_all(&bytes[..end]).unwrap_err();
            assert!(matches!(error, SnapshotError::CutOff | SnapshotError::Magic), "{end}: {error}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(read_all(&changed).is_err(), "byte {at}");
        }
        assert!(matches!(read_all(b"GIF89a is no session"), Err(SnapshotError::Magic)));
        let mut newer = bytes;
        newer[8] = 2;
        assert!(matches!(read_all(&newer), Err(SnapshotError::Version { found: 2 })));
    }

    #[test]
    fn sections_that_claim_too_much_cost_no_memory() {
        let mut bytes = sample()[..16].to_vec();
        bytes.extend_from_slice(&head(Kind::Image as u32, 0, 1 << 40, 1 << 40));
        assert!(matches!(read_all(&bytes), Err(SnapshotError::TooLarge { .. })));
        bytes.truncate(16);
        bytes.extend_from_slice(&head(Kind::Image as u32, 0, 2 << 30, 2 << 30));
        assert!(matches!(read_all(&bytes), Err(SnapshotError::CutOff)));
        let mut writer = Writer::new(Vec::new()).unwrap();
        assert!(writer.section(Kind::Memory, &vec![0; 2 * MEMORY_BYTES]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), headed: bool) {
            let start = if headed { sample()[..16].to_vec() } else { Vec::new() };
            let _ = read_all(&[start, bytes].concat());
        }
    }
}
