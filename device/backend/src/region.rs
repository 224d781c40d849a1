//! Address arithmetic of pitched boxes in memory: rows of bytes `pitch` apart, grouped into slices.
//!
//! Shared by the worker and every back end. Rejects boxes that overlap themselves or wrap around the address space.

use crate::DeviceError;

/// Address and pitches of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pitched {
    pub address: u64,
    /// Bytes from the start of one row to the next.
    pub pitch: u64,
    /// Rows from the start of one slice to the next.
    pub rows: u64,
}

/// Size of a box: bytes per row, rows per slice, slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl Extent {
    /// Extent of a single slice.
    pub fn flat(width: u64, height: u64) -> Extent {
        Extent { width, height, depth: 1 }
    }

    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Bytes of the box without gaps; `None` on overflow.
    pub fn volume(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        self.width.checked_mul(self.height)?.checked_mul(self.depth)
    }
}

impl Pitched {
    /// Location of a single slice.
    pub fn flat(address: u64, pitch: u64) -> Pitched {
        Pitched { address, pitch, rows: 0 }
    }

    /// Distance in bytes from the first byte of a box at this location to the end of its last row.
    pub fn span(&self, extent: &Extent) -> Result<u64, DeviceError> {
        if extent.is_empty() {
            return Ok(0);
        }
        let one_row = extent.height == 1 && extent.depth == 1;
        let sensible =
            (one_row || extent.width <= self.pitch) && (extent.depth == 1 || extent.height <= self.rows);
        let span = || {
            let slices = match extent.depth {
                1 => 0,
                depth => self.pitch.checked_mul(self.rows)?.checked_mul(depth - 1)?,
            };
            let rows = self.pitch.checked_mul(extent.height - 1)?;
            slices.checked_add(rows)?.checked_add(extent.width)
        };
        sensible.then(span).flatten().ok_or_else(|| {
            DeviceError::invalid_value(format!(
                "invalid box {extent:?} at {self:?}: it overlaps itself or exceeds the address space"
            ))
        })
    }

    /// Iterates over the row addresses of a box at this location, slice by slice. The caller must have checked the span.
    pub fn rows_of(self, extent: Extent) -> impl Iterator<Item = u64> {
        let (depth, height) = if extent.is_empty() { (0, 0) } else { (extent.depth, extent.height) };
        let slice = self.pitch.wrapping_mul(self.rows);
        (0..depth).flat_map(move |z| (0..height).map(move |y| self.address + z * slice + y * self.pitch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(pitch: u64, rows: u64, width: u64, height: u64, depth: u64) -> Option<u64> {
        Pitched { address: 0, pitch, rows }.span(&Extent { width, height, depth }).ok()
    }

    #[test]
    fn a_span_ends_with_the_last_byte_of_the_last_row() {
        assert_eq!(span(16, 4, 10, 3, 2), Some(16 * 4 + 2 * 16 + 10));
        assert_eq!(span(16, 0, 10, 3, 1), Some(42), "one slice needs no slice pitch");
        assert_eq!(span(0, 0, 10, 1, 1), Some(10), "one row needs no pitch");
        assert_eq!(span(u64::MAX, u64::MAX, 0, u64::MAX, u64::MAX), Some(0));
    }

    #[test]
    fn boxes_that_overlap_themselves_or_wrap_make_no_sense() {
        for (pitch, rows, width, height, depth) in [
            (8, 4, 10, 2, 1),
            (16, 2, 10, 3, 2),
            (8, 4, 10, 1, 2),
            (u64::MAX, 4, 1, 2, 2),
            (1 << 40, 1 << 20, 1, 2, 1 << 20),
            (u64::MAX, 0, 1, 3, 1),
        ] {
            assert_eq!(
                span(pitch, rows, width, height, depth),
                None,
                "{pitch} {rows} {width} {height} {depth}"
            );
        }
    }

    #[test]
    fn rows_come_slice_after_slice() {
        let place = Pitched { address: 100, pitch: 10, rows: 3 };
        let rows: Vec<u64> = place.rows_of(Extent { width: 4, height: 2, depth: 2 }).collect();
        assert_eq!(rows, [100, 110, 130, 140]);
        assert_eq!(place.rows_of(Extent { width: 0, height: u64::MAX, depth: 2 }).count(), 0);
    }
}
