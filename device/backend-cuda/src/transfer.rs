//! Copies between the host and device memory, through pinned memory.

use std::sync::Arc;

use backend::{DeviceError, Extent, ReadSink, Region, StreamId, Tag};

use crate::device::{PIECE_BYTES, Shared};
use crate::region::{Side, copy};
use crate::stream::{Mark, Stream};

/// Largest read that is passed on without another copy.
const WHOLE_READ: usize = 64 << 20;

impl Shared {
    /// Writes packed bytes to a region in stream order. The bytes are copied before this returns.
    pub(crate) fn write(
        self: &Arc<Shared>,
        stream: &Arc<Stream>,
        tag: Tag,
        what: &Arc<str>,
        to: &Region,
        data: &[u8],
    ) -> Result<(), DeviceError> {
        for (part, bytes) in parts(to, PIECE_BYTES) {
            let mut piece = self.pinned.take(bytes.len())?;
            piece.bytes_mut(bytes.len()).copy_from_slice(&data[bytes]);
            let from = Region::packed(piece.address(), part.extent);
            let ((), mark) = stream.run(&self.functions, tag, what, false, |handle| {
                copy(&self.functions, (&part, Side::Device), (&from, Side::Host), handle)
            })?;
            self.waiter.push(vec![mark], move |_| drop(piece));
        }
        if to.is_empty() {
            stream.run(&self.functions, tag, what, false, |_| Ok(()))?;
        }
        Ok(())
    }

    /// Reads a region in stream order and passes the bytes to the sink once they are there.
    pub(crate) fn read(
        self: &Arc<Shared>,
        stream: &Arc<Stream>,
        tag: Tag,
        what: &Arc<str>,
        from: &Region,
        sink: ReadSink,
    ) {
        let total = from.bytes().unwrap_or(0) as usize;
        let most = if total <= WHOLE_READ { WHOLE_READ } else { PIECE_BYTES };
        let queued = parts(from, most)
            .into_iter()
            .map(|(part, bytes)| {
                let piece = self.pinned.take(bytes.len())?;
                let to = Region::packed(piece.address(), part.extent);
                let ((), mark) = stream.run(&self.functions, tag, what, false, |handle| {
                    copy(&self.functions, (&to, Side::Host), (&part, Side::Device), handle)
                })?;
                Ok((piece, bytes, mark))
            })
            .collect::<Result<Vec<_>, DeviceError>>();
        let mut pieces = match queued {
            Ok(pieces) => pieces,
            Err(error) => return sink(Err(self.blame(error))),
        };
        let marks = match pieces.last() {
            Some((_, _, mark)) => vec![mark.clone()],
            None => vec![stream.end()],
        };
        self.waiter.push(marks, move |result| match (result, &mut pieces[..]) {
            (Err(error), _) => sink(Err(error)),
            (Ok(()), []) => sink(Ok(&[])),
            (Ok(()), [(piece, bytes, _)]) => sink(Ok(piece.bytes(bytes.len()))),
            (Ok(()), several) => {
                let mut whole = Vec::with_capacity(total);
                several
                    .iter()
                    .for_each(|(piece, bytes, _)| whole.extend_from_slice(piece.bytes(bytes.len())));
                sink(Ok(&whole));
            }
        });
    }

    /// Lets the caller fill pinned memory, which is then written in stream order, if the stream is idle and the write is small
    /// enough for one piece.
    pub(crate) fn direct(
        self: &Arc<Shared>,
        stream: StreamId,
        to: u64,
        bytes: u64,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Option<bool> {
        if bytes == 0 || bytes > WHOLE_READ as u64 || self.fault().is_some() || self.spans.is_on() {
            return None;
        }
        let stream = self.streams.lock().get(stream).ok()?;
        let marks = self.marks(backend::Scope::Stream(stream.id)).ok()?;
        if !marks.iter().all(Mark::is_reached) || self.memory.check(to, bytes).is_err() {
            return None;
        }
        self.on(stream.device).ok()?;
        let mut piece = self.pinned.take(bytes as usize).ok()?;
        if !fill(piece.bytes_mut(bytes as usize)) {
            return Some(false);
        }
        self.waiter.note_work();
        let (part, from) = (Region::flat(to, bytes), Region::flat(piece.address(), bytes));
        let what = Arc::from("write");
        let queued = stream.run(&self.functions, 0, &what, false, |handle| {
            copy(&self.functions, (&part, Side::Device), (&from, Side::Host), handle)
        });
        match queued {
            Ok(((), mark)) => self.waiter.push(vec![mark], move |_| drop(piece)),
            Err(error) => drop(self.blame(error)),
        }
        Some(true)
    }

    /// Writes bytes at once, not ordered with any stream.
    pub(crate) fn write_aside(&self, to: u64, data: &[u8]) -> Result<(), DeviceError> {
        let gpu = self.on(self.memory.owner(to))?;
        for (at, data) in data.chunks(PIECE_BYTES).enumerate() {
            let mut piece = self.pinned.take(data.len())?;
            piece.bytes_mut(data.len()).copy_from_slice(data);
            gpu.write_aside(to + (at * PIECE_BYTES) as u64, piece.as_ptr(), data.len())?;
            // Before the piece goes back to its pool.
            gpu.finish_aside()?;
        }
        Ok(())
    }

    /// Passes the current bytes of a range to `show`, not ordered with any stream.
    pub(crate) fn read_aside(
        &self,
        from: u64,
        bytes: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        let gpu = self.on(self.memory.owner(from))?;
        let piece = self.pinned.take(bytes as usize)?;
        gpu.read_aside(piece.as_ptr(), from, bytes as usize)?;
        gpu.finish_aside()?;
        show(piece.bytes(bytes as usize));
        Ok(())
    }
}

/// Cuts a region into parts of about `most` bytes: each with the range of its bytes in packed data.
fn parts(region: &Region, most: usize) -> Vec<(Region, std::ops::Range<usize>)> {
    let Some(total) = region.bytes().map(|bytes| bytes as usize).filter(|bytes| *bytes > 0) else {
        return Vec::new();
    };
    if let Some(flat) = region.flat_bytes() {
        let starts = (0..flat as usize).step_by(most);
        return starts
            .map(|start| {
                let end = (start + most).min(flat as usize);
                (Region::flat(region.address + start as u64, (end - start) as u64), start..end)
            })
            .collect();
    }
    if total <= most {
        return vec![(*region, 0..total)];
    }
    // Whole rows of one slice at a time; a row may be larger than `most`.
    let Extent { width, height, depth } = region.extent;
    let rows_each = (most as u64 / width).clamp(1, height);
    let mut found = Vec::new();
    let mut at = 0;
    for slice in 0..depth {
        for row in (0..height).step_by(rows_each as usize) {
            let rows = rows_each.min(height - row);
            let address = region.address + (slice * region.rows + row) * region.pitch;
            let bytes = (rows * width) as usize;
            found.push((Region::rect(address, region.pitch, width, rows), at..at + bytes));
            at += bytes;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_region_cover_it_once() {
        let extent = |width, height, depth| Extent { width, height, depth };
        for region in [
            Region::flat(100, 1000),
            Region::flat(100, 0),
            Region::rect(0, 50, 30, 20),
            Region { address: 7, pitch: 40, rows: 9, extent: extent(33, 7, 3) },
            Region { address: 7, pitch: 33, rows: 9, extent: extent(33, 7, 3) },
        ] {
            for most in [1, 10, 64, 100, 5000] {
                let bytes = |region: &Region| -> Vec<u64> {
                    region.row_addresses().flat_map(|row| row..row + region.extent.width).collect()
                };
                let parts = parts(&region, most);
                let found: Vec<u64> = parts.iter().flat_map(|(part, _)| bytes(part)).collect();
                assert_eq!(found, bytes(&region), "{region:?} by {most}");
                let mut at = 0;
                for (part, range) in parts {
                    assert_eq!((range.start, range.len() as u64), (at, part.bytes().unwrap()));
                    at = range.end;
                }
                assert_eq!(at as u64, region.bytes().unwrap());
            }
        }
    }
}
