//! Finds the memory of a session that has changed since its last checkpoint.
//!
//! Changed pages are found by their hashes: that works for every back end and leaves kernels alone. The session stops meanwhile, so
//! several threads hash.

use std::collections::HashMap;
use std::ops::Range;

use backend::{Device, DeviceError, Holding};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

use crate::session::migrate_out::memory_section;
use crate::session::snapshot::{Kind, MEMORY_BYTES};

const PAGE: u64 = 4096;
/// Number of pages that a thread takes at a time.
const PIECE: usize = 1024;
/// Most threads that hash. More are not faster than memory.
const MOST_THREADS: usize = 4;

/// A section of the checkpoint's file.
pub(super) type Section = (Kind, Vec<u8>);
/// Hashes of the pages, by holding and its size.
pub(super) type KnownPages = HashMap<(Holding, u64), Vec<u128>>;

/// Instead of a hash: the page is zero. A collision would need a program that attacks its own checkpoints.
const ZERO: u128 = 0;
/// Instead of a hash: the page counts as changed.
const UNKNOWN: u128 = u128::MAX;
static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// The content of all pages that have changed. A holding that is missing in one checkpoint, or has another size, is new in the next.
pub(super) fn changes(
    device: &dyn Device,
    holdings: impl Iterator<Item = (Holding, u64)>,
    known: &mut KnownPages,
) -> Result<Vec<Section>, DeviceError> {
    let mut before = std::mem::take(known);
    let mut all: Vec<((Holding, u64), Vec<u128>)> = holdings
        .map(|key| (key, before.remove(&key).unwrap_or_else(|| vec![ZERO; page_count(key.0, key.1)])))
        .collect();
    drop(before);
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for ((holding, bytes), pages) in &mut all {
        let parts = pages.chunks_mut(PIECE).enumerate();
        pieces.extend(parts.map(|(index, pages)| Piece::new(*holding, *bytes, index * PIECE, pages)));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let threads = threads.min(pieces.len());
    let rest = Mutex::new(pieces.iter_mut());
    let look = || -> Result<(), DeviceError> {
        loop {
            // In a statement of its own, so that the lock is not held any longer.
            let piece = rest.lock().next();
            match piece {
                Some(piece) => piece.look(device)?,
                None => return Ok(()),
            }
        }
    };
    std::thread::scope(|scope| {
        // If no thread can be started, this one does all the work.
        let start = |_| std::thread::Builder::new().name("hash".to_owned()).spawn_scoped(scope, look).ok();
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let first = look();
        let failed = || DeviceError::invalid_value("a thread that looks for changed memory has ended");
        others
            .into_iter()
            .fold(first, |result, other| result.and(other.join().unwrap_or_else(|_| Err(failed()))))
    })?;
    let sections = pieces.into_iter().flat_map(|piece| piece.sections).collect();
    known.extend(all);
    Ok(sections)
}

/// Size of the part of a holding's first page that lies before the holding. Pages are those of the address space.
fn skew(holding: Holding) -> u64 {
    match holding {
        Holding::At(address) => address % PAGE,
        Holding::Memory(_) => 0,
    }
}

fn page_count(holding: Holding, bytes: u64) -> usize {
    (skew(holding) + bytes).div_ceil(PAGE) as usize
}

/// Finds the changed pages of a part of a holding. The holding may begin and end within a page.
struct Piece<'a> {
    holding: Holding,
    /// Size of the holding, and its offset in its first page.
    bytes: u64,
    skew: u64,
    /// The first page of the piece.
    first: u64,
    pages: &'a mut [u128],
    /// Pages that were shown.
    shown: Vec<bool>,
    sections: Vec<Section>,
}

impl<'a> Piece<'a> {
    fn new(holding: Holding, bytes: u64, first: usize, pages: &'a mut [u128]) -> Piece<'a> {
        let shown = vec![false; pages.len()];
        let (skew, first) = (skew(holding), first as u64);
        Piece { holding, bytes, skew, first, pages, shown, sections: Vec::new() }
    }

    fn look(&mut self, device: &dyn Device) -> Result<(), DeviceError> {
        let last = self.first + self.pages.len() as u64 - 1;
        let range = self.range(self.first).start..self.range(last).end;
        device.show(self.holding, range, &mut |offset, bytes| {
            self.add(offset, bytes);
            true
        })?;
        self.finish();
        Ok(())
    }

    /// Adds shown bytes.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut run) = (0, None);
        while at < bytes.len() {
            let start = offset + at as u64;
            let page = (start + self.skew) / PAGE;
            let end = (self.range(page).end - offset).min(bytes.len() as u64) as usize;
            if self.is_changed(page, start, &bytes[at..end]) {
                run.get_or_insert(at);
            } else if let Some(from) = run.take() {
                self.send(offset + from as u64, &bytes[from..at]);
            }
            at = end;
        }
        if let Some(from) = run {
            self.send(offset + from as u64, &bytes[from..]);
        }
    }

    fn is_changed(&mut self, page: u64, start: u64, bytes: &[u8]) -> bool {
        let (index, range) = ((page - self.first) as usize, self.range(page));
        if range != (start..start + bytes.len() as u64) {
            // Shown in parts: sent as a whole, now and the next time.
            if !std::mem::replace(&mut self.shown[index], true) {
                self.send(range.start, &ZEROS[..(range.end - range.start) as usize]);
            }
            self.pages[index] = UNKNOWN;
            return true;
        }
        self.shown[index] = true;
        let hash = match bytes == &ZEROS[..bytes.len()] {
            true => ZERO,
            false => xxh3_128(bytes).clamp(ZERO + 1, UNKNOWN - 1),
        };
        std::mem::replace(&mut self.pages[index], hash) != hash
    }

    /// The offsets of a page in the holding.
    fn range(&self, page: u64) -> Range<u64> {
        (page * PAGE).saturating_sub(self.skew)..((page + 1) * PAGE - self.skew).min(self.bytes)
    }

    fn send(&mut self, offset: u64, bytes: &[u8]) {
        for (index, piece) in bytes.chunks(MEMORY_BYTES).enumerate() {
            let offset = offset + (index * MEMORY_BYTES) as u64;
            self.sections.push((Kind::Memory, memory_section(self.holding, offset, piece)));
        }
    }

    /// Sends zeros for pages that an earlier checkpoint has and that were not shown.
    fn finish(&mut self) {
        for index in 0..self.pages.len() {
            if !self.shown[index] && std::mem::take(&mut self.pages[index]) != ZERO {
                let range = self.range(self.first + index as u64);
                self.send(range.start, &ZEROS[..(range.end - range.start) as usize]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A holding that begins 100 bytes before the end of a page and ends 100 bytes after the start of another one.
    const START: u64 = 8 * PAGE - 100;
    const SIZE: usize = 3 * PAGE as usize + 200;

    /// Sends a holding, shown in pieces. Returns offset and size of what was sent, and the pages.
    fn send(shown: &[(usize, &[u8])], known: Option<Vec<u128>>) -> (Vec<(u64, usize)>, Vec<u128>) {
        let mut pages = known.unwrap_or_else(|| vec![ZERO; page_count(Holding::At(START), SIZE as u64)]);
        let mut piece = Piece::new(Holding::At(START), SIZE as u64, 0, &mut pages);
        for (offset, bytes) in shown {
            piece.add(*offset as u64, bytes);
        }
        piece.finish();
        let parts = piece.sections.iter().map(|(_, section)| {
            let (_, offset, bytes) = crate::session::migrate_in::memory_parts(section).unwrap();
            (offset, bytes.len())
        });
        (parts.collect(), pages)
    }

    #[test]
    fn only_changed_pages_are_sent() {
        let page = PAGE as usize;
        let mut content = vec![0u8; SIZE];
        (content[5], content[SIZE - 1]) = (1, 2);
        let (sent, pages) = send(&[(0, &content)], None);
        assert_eq!(sent, [(0, 100), (3 * PAGE + 100, 100)], "zeros need not be sent");
        let (sent, pages) = send(&[(0, &content[..100]), (100, &content[100..])], Some(pages));
        assert!(sent.is_empty(), "{sent:?}");
        (content[5], content[100]) = (0, 3);
        let (sent, pages) = send(&[(0, &content)], Some(pages));
        assert_eq!(sent, [(0, 100 + page)], "a page that has become zero has changed");
        let (sent, _) = send(&[(0, &content[..100])], Some(pages));
        assert_eq!(sent, [(100, page), (3 * PAGE + 100, 100)], "pages that are not shown any more are zero");
    }

    #[test]
    fn a_page_that_is_shown_in_parts_is_always_sent() {
        let content = vec![7u8; SIZE];
        let parts = [(0, &content[..200]), (200, &content[200..])];
        let (_, pages) = send(&parts, None);
        let (sent, _) = send(&parts, Some(pages));
        assert_eq!(sent, [(100, PAGE as usize), (100, 100), (200, PAGE as usize - 100)], "after its zeros");
    }

    #[test]
    fn pieces_cover_a_holding_without_gaps() {
        let bytes = 5 * PIECE as u64 * PAGE / 2;
        for holding in [Holding::At(START), Holding::At(PAGE), Holding::Memory(1)] {
            let mut pages = vec![ZERO; page_count(holding, bytes)];
            let mut end = 0;
            for (index, pages) in pages.chunks_mut(PIECE).enumerate() {
                let piece = Piece::new(holding, bytes, index * PIECE, pages);
                let last = piece.first + piece.pages.len() as u64 - 1;
                assert_eq!(piece.range(piece.first).start, end);
                end = piece.range(last).end;
            }
            assert_eq!(end, bytes, "{holding:?}");
        }
    }
}
