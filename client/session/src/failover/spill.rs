//! Segments of the journal in files: compressed, and written by a thread.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use transport::spawn_quietly;

use super::journal::Requests;

/// Size of what is compressed at once, and the least that is read.
const BLOCK_BYTES: usize = 256 << 10;

/// Hands segments to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Spiller {
    jobs: Sender<(u64, Arc<Requests>)>,
    results: Receiver<Spilled>,
    pending: usize,
}

/// A segment that was written, or not.
#[derive(Debug)]
pub(super) struct Spilled {
    /// The segment, by the number of its first request.
    pub(super) segment: u64,
    pub(super) requests: Arc<Requests>,
    pub(super) result: io::Result<Stored>,
}

impl Spiller {
    /// Starts the thread. Files are created in `folder`.
    pub(super) fn start(folder: PathBuf) -> io::Result<Spiller> {
        let (jobs, received) = channel::<(u64, Arc<Requests>)>();
        let (finished, results) = channel();
        spawn_quietly("remora-journal", move || {
            let mut scratch = Vec::new();
            for (segment, requests) in received {
                let result = tempfile::tempfile_in(&folder)
                    .and_then(|file| Stored::write(file, &requests, &mut scratch));
                if finished.send(Spilled { segment, requests, result }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Spiller { jobs, results, pending: 0 })
    }

    /// Number of segments that are being written.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Has a segment written.
    pub(super) fn begin(&mut self, segment: u64, requests: Arc<Requests>) {
        self.pending += usize::from(self.jobs.send((segment, requests)).is_ok());
    }

    /// The next segment that was written. `wait`: waits for it if none is.
    pub(super) fn finished(&mut self, wait: bool) -> Option<Spilled> {
        let done = if wait { self.results.recv().ok() } else { self.results.try_recv().ok() };
        self.pending -= usize::from(done.is_some());
        done
    }
}

/// A segment in a file.
#[derive(Debug)]
pub(super) struct Stored {
    file: File,
    /// Blocks of the requests, then those of their lengths.
    blocks: Vec<Block>,
    /// Size of the requests, which is where their lengths begin.
    bytes: u64,
    /// Number of requests.
    count: usize,
    /// Ends of the requests while they are read.
    ends: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    offset: u64,
    /// Size in the file; less than `bytes` if it is compressed.
    stored: usize,
    bytes: usize,
}

impl Stored {
    /// Writes requests to an empty file.
    fn write(file: File, requests: &Requests, scratch: &mut Vec<u8>) -> io::Result<Stored> {
        scratch.resize(lz4_flex::block::get_maximum_output_size(BLOCK_BYTES), 0);
        let mut stored = Stored {
            file,
            blocks: Vec::new(),
            bytes: requests.bytes.len() as u64,
            count: requests.ends.len(),
            ends: Vec::new(),
        };
        for block in requests.bytes.chunks(BLOCK_BYTES) {
            stored.append(block, scratch)?;
        }
        // Lengths repeat, ends do not.
        let mut before = 0;
        let lengths = requests.ends.iter().map(|end| end - std::mem::replace(&mut before, *end));
        let lengths: Vec<u8> = lengths.flat_map(u64::to_le_bytes).collect();
        for block in lengths.chunks(BLOCK_BYTES) {
            stored.append(block, scratch)?;
        }
        Ok(stored)
    }

    fn append(&mut self, block: &[u8], scratch: &mut [u8]) -> io::Result<()> {
        let packed = lz4_flex::block::compress_into(block, scratch).unwrap_or(usize::MAX);
        let written = if packed < block.len() { &scratch[..packed] } else { block };
        let offset = self.blocks.last().map_or(0, |last| last.offset + last.stored as u64);
        (&self.file).write_all(written)?;
        self.blocks.push(Block { offset, stored: written.len(), bytes: block.len() });
        Ok(())
    }

    /// Size in the file.
    pub(super) fn size(&self) -> u64 {
        self.blocks.last().map_or(0, |last| last.offset + last.stored as u64)
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
                return Err(io::Error::other("a file of the journal has changed"));
            }
        }
        Ok(&self.ends)
    }

    /// Frees the memory that [`Stored::ends`] takes.
    pub(super) fn forget_ends(&mut self) {
        self.ends = Vec::new();
    }

    /// Appends a range of the requests' bytes to `buffer`.
    pub(super) fn read(&self, range: Range<u64>, buffer: &mut Vec<u8>) -> io::Result<()> {
        let size = BLOCK_BYTES as u64;
        for at in range.start / size..range.end.div_ceil(size) {
            let bytes = self.unpack(self.blocks[at as usize])?;
            let within = |offset: u64| (offset.saturating_sub(at * size) as usize).min(bytes.len());
            buffer.extend_from_slice(&bytes[within(range.start)..within(range.end)]);
        }
        Ok(())
    }

    fn unpack(&self, block: Block) -> io::Result<Vec<u8>> {
        let mut stored = vec![0; block.stored];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(block.offset))?;
        file.read_exact(&mut stored)?;
        match block.stored < block.bytes {
            true => lz4_flex::block::decompress(&stored, block.bytes).map_err(io::Error::other),
            false => Ok(stored),
        }
    }
}
