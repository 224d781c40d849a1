//! Regions of memory that copies, fills, reads and writes address: a flat range, a rectangle or a box of rows.
//!
//! Shared by the worker and every back end. Rejects regions that overlap themselves or wrap around the address space.

use crate::DeviceError;

/// Bytes at an address: slices of rows, with gaps between rows and between slices where the pitches exceed the extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes from the start of one row to the next. Irrelevant for a single row.
    pub pitch: u64,
    /// Rows from the start of one slice to the next. Irrelevant for a single slice.
    pub rows: u64,
    /// Size of the region without the gaps.
    pub extent: Extent,
}

/// Size of a region: bytes per row, rows per slice, slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes per row.
    pub width: u64,
    /// Rows per slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
}

impl Region {
    /// Region of contiguous bytes.
    pub const fn flat(address: u64, bytes: u64) -> Region {
        Region::packed(address, Extent { width: bytes, height: 1, depth: 1 })
    }

    /// Region of `height` rows of `width` bytes that are `pitch` bytes apart.
    pub const fn rect(address: u64, pitch: u64, width: u64, height: u64) -> Region {
        Region { address, pitch, rows: height, extent: Extent { width, height, depth: 1 } }
    }

    /// Region of an extent's size without gaps: the layout of data that travels with a command.
    pub const fn packed(address: u64, extent: Extent) -> Region {
        Region { address, pitch: extent.width, rows: extent.height, extent }
    }

    /// Whether the region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.extent.width == 0 || self.extent.height == 0 || self.extent.depth == 0
    }

    /// Bytes of the region, without its gaps; `None` on overflow.
    #[inline]
    pub fn bytes(&self) -> Option<u64> {
        let Extent { width, height, depth } = self.extent;
        if self.is_empty() {
            return Some(0);
        }
        width.checked_mul(height)?.checked_mul(depth)
    }

    /// Bytes of the region if they are contiguous, whatever its form: back ends then need a single copy or fill. `None` if there
    /// are gaps, so a region without flat bytes is not empty.
    #[inline]
    pub fn flat_bytes(&self) -> Option<u64> {
        let Extent { width, height, depth } = self.extent;
        let rows_touch = self.pitch == width || (height == 1 && depth == 1);
        let slices_touch = self.rows == height || depth == 1;
        if (rows_touch && slices_touch) || self.is_empty() { self.bytes() } else { None }
    }

    /// Distance in bytes from the first byte to the end of the last row. Fails if rows or slices overlap, or on overflow.
    #[inline]
    pub fn span(&self) -> Result<u64, DeviceError> {
        let Extent { width, height, depth } = self.extent;
        match (height, depth) {
            (1, 1) => Ok(width),
            _ if self.is_empty() => Ok(0),
            _ => self.pitched_span().ok_or_else(|| {
                DeviceError::invalid_value(format!(
                    "invalid region {self:?}: it overlaps itself or exceeds the address space"
                ))
            }),
        }
    }

    /// The span of a region of several rows.
    fn pitched_span(&self) -> Option<u64> {
        let Extent { width, height, depth } = self.extent;
        if width > self.pitch || (depth > 1 && height > self.rows) {
            return None;
        }
        let slices = match depth {
            1 => 0,
            depth => self.pitch.checked_mul(self.rows)?.checked_mul(depth - 1)?,
        };
        let rows = self.pitch.checked_mul(height - 1)?;
        slices.checked_add(rows)?.checked_add(width)
    }

    /// Iterates over the addresses of the rows, slice by slice. The caller must have checked the span.
    pub fn row_addresses(&self) -> impl Iterator<Item = u64> + use<> {
        let Region { address, pitch, rows, extent } = *self;
        let (depth, height) = if self.is_empty() { (0, 0) } else { (extent.depth, extent.height) };
        let slice = pitch.wrapping_mul(rows);
        (0..depth).flat_map(move |z| (0..height).map(move |y| address + z * slice + y * pitch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(pitch: u64, rows: u64, width: u64, height: u64, depth: u64) -> Region {
        Region { address: 0, pitch, rows, extent: Extent { width, height, depth } }
    }

    #[test]
    fn a_span_ends_with_the_last_byte_of_the_last_row() {
        for (region, span) in [
            (region(16, 4, 10, 3, 2), 16 * 4 + 2 * 16 + 10),
            // One slice needs no slice pitch, and one row needs no pitch.
            (region(16, 0, 10, 3, 1), 42),
            (region(0, 0, 10, 1, 1), 10),
            (region(u64::MAX, u64::MAX, 0, u64::MAX, u64::MAX), 0),
            (Region::flat(0x1000, u64::MAX), u64::MAX),
            (Region::rect(0x1000, 16, 10, 3), 42),
        ] {
            assert_eq!(region.span().ok(), Some(span), "{region:?}");
        }
    }

    #[test]
    fn regions_that_overlap_themselves_or_wrap_have_no_span() {
        for region in [
            region(8, 4, 10, 2, 1),
            region(16, 2, 10, 3, 2),
            region(8, 4, 10, 1, 2),
            region(u64::MAX, 4, 1, 2, 2),
            region(1 << 40, 1 << 20, 1, 2, 1 << 20),
            region(u64::MAX, 0, 1, 3, 1),
        ] {
            assert!(region.span().is_err(), "{region:?}");
        }
    }

    #[test]
    fn regions_without_gaps_are_flat_in_every_form() {
        for (region, bytes) in [
            (Region::flat(0, 24), 24),
            (Region::rect(0, 8, 8, 3), 24),
            (Region::rect(0, 3, 24, 1), 24),
            (region(4, 3, 4, 3, 2), 24),
            (region(4, 0, 4, 6, 1), 24),
            (region(16, 9, 4, 0, 2), 0),
        ] {
            assert_eq!(region.flat_bytes(), Some(bytes), "{region:?}");
            assert_eq!(region.bytes(), Some(bytes), "{region:?}");
        }
        for region in
            [Region::rect(0, 9, 8, 3), region(4, 4, 4, 3, 2), region(8, 1, 4, 1, 2), region(5, 3, 4, 3, 2)]
        {
            assert_eq!(region.flat_bytes(), None, "{region:?}");
        }
        assert_eq!(region(1 << 40, 1 << 40, 1 << 40, 1 << 40, 1).bytes(), None);
    }

    #[test]
    fn rows_come_slice_after_slice() {
        let place = Region { address: 100, ..region(10, 3, 4, 2, 2) };
        assert_eq!(place.row_addresses().collect::<Vec<u64>>(), [100, 110, 130, 140]);
        assert_eq!(region(10, 3, 0, u64::MAX, 2).row_addresses().count(), 0);
    }
}
