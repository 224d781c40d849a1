//! Copies between the host and device memory, through pinned memory.

use std::sync::Arc;

use backend::{DeviceError, Extent, ReadSink, Region, StreamId};

use crate::device::{PIECE_BYTES, Shared};
use crate::pinned::Piece;
use crate::region::{Side, copy};
use crate::stream::{Numbers, Origin, Stream};

/// Largest read that is passed on without another copy.
const WHOLE_READ: usize = 64 << 20;
/// Reads from this size on take long to pass on.
const LONG_READ: usize = 64 << 10;
/// Writes from this size on advance the timeline, so that their pinned memory can be used again soon.
const LARGE_WRITE: usize = 64 << 10;
/// Pinned memory that queued writes may use before a writer has to wait for its stream.
const MOST_AHEAD: usize = 512 << 20;

impl Shared {
    /// Number of timeline numbers that a write needs: one for each part.
    pub(crate) fn write_parts(to: &Region) -> u32 {
        parts(to, PIECE_BYTES).len().max(1) as u32
    }

    /// Writes packed bytes to a region in stream order. The bytes are copied before this returns.
    pub(crate) fn submit_write(
        self: &Arc<Shared>,
        stream: &Arc<Stream>,
        numbers: Numbers,
        origin: &Origin,
        to: &Region,
        data: &[u8],
    ) -> Result<(), DeviceError> {
        let mut number = numbers.first;
        let mut result = Ok(());
        for (part, bytes) in parts(to, PIECE_BYTES) {
            let piece = self.pinned.take(bytes.len());
            let submitted = stream.submit(&self.functions, number, origin, |handle| {
                let mut piece = piece?;
                piece.bytes_mut(bytes.len()).copy_from_slice(&data[bytes]);
                let from = Region::packed(piece.address(), part.extent);
                copy(&self.functions, (&part, Side::Device), (&from, Side::Host), handle)?;
                Ok(piece)
            });
            match submitted {
                Ok(piece) => {
                    if part.bytes().is_some_and(|bytes| bytes as usize >= LARGE_WRITE) {
                        result = result.and(stream.publish(&self.functions));
                    }
                    self.pinned.retire(stream.mark(number), piece);
                }
                Err(error) => result = Err(error),
            }
            number = number.wrapping_add(1);
        }
        if to.is_empty() {
            return stream.submit(&self.functions, numbers.last, origin, |_| Ok(()));
        }
        result
    }

    /// Reads a region in stream order and passes the bytes to the sink once they are there.
    pub(crate) fn submit_read(
        self: &Arc<Shared>,
        stream: &Arc<Stream>,
        number: u32,
        origin: &Origin,
        from: &Region,
        sink: ReadSink,
    ) {
        let total = from.bytes().unwrap_or(0) as usize;
        let most = if total <= WHOLE_READ { WHOLE_READ } else { PIECE_BYTES };
        let queued = stream.submit(&self.functions, number, origin, |handle| {
            let parts = parts(from, most).into_iter();
            let each = parts.map(|(part, bytes)| {
                let piece = self.pinned.take(bytes.len())?;
                let to = Region::packed(piece.address(), part.extent);
                copy(&self.functions, (&to, Side::Host), (&part, Side::Device), handle)?;
                Ok((piece, bytes.len()))
            });
            each.collect::<Result<Vec<(Piece, usize)>, DeviceError>>()
        });
        let queued = queued.and_then(|pieces| stream.publish(&self.functions).map(|()| pieces));
        let pieces = match queued {
            Ok(pieces) => pieces,
            Err(error) => {
                // Not blamed here: the schedule is locked. The thread that waits finds a fault soon.
                return sink(Err(error));
            }
        };
        // Who waits for the stream waits for the bytes as well.
        stream.begin_read(number);
        let reading = Arc::clone(stream);
        self.waiter.push_read(stream.mark(number), total >= LONG_READ, move |result| {
            match (result, &pieces[..]) {
                (Err(error), _) => sink(Err(error)),
                (Ok(()), []) => sink(Ok(&[])),
                (Ok(()), [(piece, bytes)]) => sink(Ok(piece.bytes(*bytes))),
                (Ok(()), several) => {
                    let mut whole = Vec::with_capacity(total);
                    several.iter().for_each(|(piece, bytes)| whole.extend_from_slice(piece.bytes(*bytes)));
                    sink(Ok(&whole));
                }
            }
            reading.end_read(number);
        });
    }

    /// Lets the caller fill pinned memory, which is then written in stream order, if no stream is stopped and the write is small
    /// enough for one piece. The stream need not be idle, since the bytes are not in device memory yet.
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
        if !self.schedule.is_clear()
            || self.memory.check(to, bytes).is_err()
            || self.pinned.retired_bytes() > MOST_AHEAD
        {
            return None;
        }
        self.on(stream.device).ok()?;
        let mut piece = self.pinned.take(bytes as usize).ok()?;
        if !fill(piece.bytes_mut(bytes as usize)) {
            return Some(false);
        }
        let (part, from) = (Region::flat(to, bytes), Region::flat(piece.address(), bytes));
        let number = stream.reserve(1).last;
        let origin = self.origin(0, &self.names.write);
        let queued = stream.submit(&self.functions, number, &origin, |handle| {
            copy(&self.functions, (&part, Side::Device), (&from, Side::Host), handle)
        });
        self.waiter.note_work();
        let queued = match bytes >= LARGE_WRITE as u64 {
            true => queued.and_then(|()| stream.publish(&self.functions)),
            false => queued,
        };
        self.pinned.retire(stream.mark(number), piece);
        if let Err(error) = queued {
            self.blame(error);
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
