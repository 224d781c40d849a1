//! Segments of the journal that are compressed, in memory or in the journal's file.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::journal::{Requests, SEGMENT_BYTES};
use super::space::Space;

/// Size of what is compressed at once, and the least that is read.
const BLOCK_BYTES: usize = 256 << 10;

/// Where compressed segments are kept: in memory up to a limit, the rest in a file.
#[derive(Debug)]
pub(super) struct Shelf {
    space: Arc<Space>,
    /// Size of what is in memory, and its limit.
    in_memory: Arc<AtomicU64>,
    most_in_memory: u64,
    /// A segment and a block while they are compressed. Kept, since fresh memory costs more than the compression.
    segment: Vec<u8>,
    block: Vec<u8>,
}

/// A compressed segment.
#[derive(Debug)]
pub(super) struct Packed {
    place: Place,
    /// Blocks of the requests, then those of their lengths.
    blocks: Vec<Block>,
    /// Size of the requests, which is where their lengths begin.
    bytes: u64,
    /// Number of requests.
    count: usize,
    /// Ends of the requests, and the last block, while they are read.
    ends: Vec<u64>,
    unpacked: Option<(usize, Vec<u8>)>,
}

#[derive(Debug)]
enum Place {
    Memory { bytes: Vec<u8>, in_memory: Arc<AtomicU64> },
    File { range: Range<u64>, space: Arc<Space> },
}

#[derive(Clone, Copy, Debug)]
struct Block {
    offset: usize,
    /// Size of the stored block; less than `bytes` if it is compressed.
    stored: usize,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        match self {
            Place::Memory { bytes, in_memory } => {
                in_memory.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
            }
            Place::File { range, space } => space.release(range),
        }
    }
}

impl Shelf {
    pub(super) fn new(space: Space, most_in_memory: u64) -> Shelf {
        let block = vec![0; lz4_flex::block::get_maximum_output_size(BLOCK_BYTES)];
        let (space, in_memory) = (Arc::new(space), Arc::default());
        Shelf { space, in_memory, most_in_memory, segment: Vec::new(), block }
    }

    /// Compresses requests and keeps them.
    pub(super) fn pack(&mut self, requests: &Requests) -> io::Result<Packed> {
        self.segment.clear();
        let mut blocks: Vec<Block> = requests.bytes.chunks(BLOCK_BYTES).map(|it| self.append(it)).collect();
        // Lengths repeat, ends do not.
        let mut before = 0;
        let lengths = requests.ends.iter().map(|end| end - std::mem::replace(&mut before, *end));
        let lengths: Vec<u8> = lengths.flat_map(u64::to_le_bytes).collect();
        blocks.extend(lengths.chunks(BLOCK_BYTES).map(|it| self.append(it)));
        let (bytes, count) = (requests.bytes.len() as u64, requests.ends.len());
        let place = self.place();
        if self.segment.capacity() > 2 * SEGMENT_BYTES {
            // A single large request.
            self.segment = Vec::new();
        }
        Ok(Packed { place: place?, blocks, bytes, count, ends: Vec::new(), unpacked: None })
    }

    /// Appends a block to the segment, compressed if that makes it smaller.
    fn append(&mut self, bytes: &[u8]) -> Block {
        let offset = self.segment.len();
        match lz4_flex::block::compress_into(bytes, &mut self.block) {
            Ok(stored) if stored < bytes.len() => self.segment.extend_from_slice(&self.block[..stored]),
            _ => self.segment.extend_from_slice(bytes),
        }
        Block { offset, stored: self.segment.len() - offset, bytes: bytes.len() }
    }

    fn place(&self) -> io::Result<Place> {
        let size = self.segment.len() as u64;
        // Only this thread adds to it.
        if self.in_memory.load(Ordering::Relaxed) + size > self.most_in_memory {
            let range = self.space.write(&self.segment)?;
            return Ok(Place::File { range, space: Arc::clone(&self.space) });
        }
        self.in_memory.fetch_add(size, Ordering::Relaxed);
        Ok(Place::Memory { bytes: self.segment.clone(), in_memory: Arc::clone(&self.in_memory) })
    }
}

impl Packed {
    /// Size in memory or in the file.
    pub(super) fn size(&self) -> u64 {
        self.blocks.last().map_or(0, |last| (last.offset + last.stored) as u64)
    }

    #[cfg(test)]
    pub(super) fn is_in_file(&self) -> bool {
        matches!(self.place, Place::File { .. })
    }

    /// Offset of the end of each request.
    pub(super) fn ends(&mut self) -> io::Result<&[u64]> {
        if self.ends.is_empty() {
            let first = self.bytes.div_ceil(BLOCK_BYTES as u64) as usize;
            let mut lengths = Vec::new();
            for block in &self.blocks[first..] {
                lengths.extend_from_slice(&self.unpack(*block)?);
            }
            let (lengths, _) = lengths.as_chunks::<8>();
            let mut end = 0;
            self.ends = lengths
                .iter()
                .map(|length| {
                    end += u64::from_le_bytes(*length);
                    end
                })
                .collect();
            if self.ends.len() != self.count || end != self.bytes {
                return Err(io::Error::other("the file of the journal has changed"));
            }
        }
        Ok(&self.ends)
    }

    /// Frees the memory that reading takes.
    pub(super) fn end_reading(&mut self) {
        self.ends = Vec::new();
        self.unpacked = None;
    }

    /// Appends a range of the requests' bytes to `buffer`.
    pub(super) fn read(&mut self, range: Range<u64>, buffer: &mut Vec<u8>) -> io::Result<()> {
        let size = BLOCK_BYTES as u64;
        for at in range.start / size..range.end.div_ceil(size) {
            let index = at as usize;
            // Reads continue where the last one ended: a replay often reads a few requests at a time.
            let bytes = match self.unpacked.take().filter(|(known, _)| *known == index) {
                Some((_, bytes)) => bytes,
                None => self.unpack(self.blocks[index])?,
            };
            let within = |offset: u64| (offset.saturating_sub(at * size) as usize).min(bytes.len());
            buffer.extend_from_slice(&bytes[within(range.start)..within(range.end)]);
            self.unpacked = Some((index, bytes));
        }
        Ok(())
    }

    fn unpack(&self, block: Block) -> io::Result<Vec<u8>> {
        let decompress = |stored: &[u8]| match block.stored < block.bytes {
            true => lz4_flex::block::decompress(stored, block.bytes).map_err(io::Error::other),
            false => Ok(stored.to_vec()),
        };
        match &self.place {
            Place::Memory { bytes, .. } => decompress(&bytes[block.offset..block.offset + block.stored]),
            Place::File { range, space } => {
                let mut stored = vec![0; block.stored];
                space.read(range.start + block.offset as u64, &mut stored)?;
                decompress(&stored)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4,000 requests of 500 bytes.
    fn requests() -> Requests {
        let mut requests = Requests::default();
        for number in 0..4000u64 {
            requests.bytes.extend_from_slice(&[number as u8; 492]);
            requests.bytes.extend_from_slice(&number.to_le_bytes());
            requests.ends.push(requests.bytes.len() as u64);
        }
        requests
    }

    #[test]
    fn segments_are_in_memory_up_to_a_limit_and_then_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let requests = requests();
        let size = Shelf::new(Space::new(folder.path().to_owned()), u64::MAX).pack(&requests).unwrap().size();
        let mut shelf = Shelf::new(Space::new(folder.path().to_owned()), size * 2);
        let mut packed: Vec<Packed> = (0..4).map(|_| shelf.pack(&requests).unwrap()).collect();
        let in_file = |packed: &[Packed]| packed.iter().map(Packed::is_in_file).collect::<Vec<_>>();
        assert_eq!(in_file(&packed), [false, false, true, true]);
        for it in &mut packed {
            let mut all = Vec::new();
            assert_eq!(it.ends().unwrap(), requests.ends);
            it.read(0..requests.bytes.len() as u64, &mut all).unwrap();
            assert!(all == requests.bytes);
        }
        packed.remove(0);
        packed.push(shelf.pack(&requests).unwrap());
        assert_eq!(in_file(&packed), [false, true, true, false], "memory that became free is used");
    }

    #[test]
    fn small_reads_in_a_row_decompress_each_block_once() {
        let folder = tempfile::tempdir().unwrap();
        let requests = requests();
        let mut packed = Shelf::new(Space::new(folder.path().to_owned()), 0).pack(&requests).unwrap();
        let mut all = Vec::new();
        packed.read(0..10, &mut all).unwrap();
        // The block is not read from the file again: it could not be, because its range is overwritten here.
        let Place::File { range, space } = &packed.place else { panic!("it is in memory") };
        space.release(range);
        assert_eq!(space.write(&vec![0xee; packed.size() as usize]).unwrap(), *range);
        for start in (10..BLOCK_BYTES as u64).step_by(10_000) {
            packed.read(start..(start + 10_000).min(BLOCK_BYTES as u64), &mut all).unwrap();
        }
        assert!(all == requests.bytes[..BLOCK_BYTES]);
    }
}
