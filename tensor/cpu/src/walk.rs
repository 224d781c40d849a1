//! Strided memory as one long row: maps ranges of row-major positions to runs of memory.

use smallvec::SmallVec;

/// A shape and strides, with adjacent axes merged where possible.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    shape: SmallVec<[usize; 6]>,
    strides: SmallVec<[isize; 6]>,
}

impl Walk {
    pub fn new(shape: &[usize], strides: &[isize]) -> Walk {
        let mut walk = Walk { shape: SmallVec::new(), strides: SmallVec::new() };
        for (&length, &stride) in shape.iter().zip(strides) {
            if length == 1 {
                continue;
            }
            match (walk.shape.last_mut(), walk.strides.last_mut()) {
                (Some(last_length), Some(last_stride)) if *last_stride == stride * length as isize => {
                    *last_length *= length;
                    *last_stride = stride;
                }
                _ => {
                    walk.shape.push(length);
                    walk.strides.push(stride);
                }
            }
        }
        walk
    }

    /// The lengths and strides of the merged axes.
    pub fn axes(&self) -> (&[usize], &[isize]) {
        (&self.shape, &self.strides)
    }

    /// Whether position `p` is at offset `p`.
    pub fn is_contiguous(&self) -> bool {
        match *self.strides {
            [] => true,
            [stride] => stride == 1,
            _ => false,
        }
    }

    /// Whether all positions are at one offset.
    pub fn is_constant(&self) -> bool {
        self.strides.iter().all(|&stride| stride == 0)
    }

    /// Returns the offset of a position.
    pub fn offset(&self, mut position: usize) -> isize {
        let mut offset = 0;
        for (&length, &stride) in self.shape.iter().zip(&self.strides).rev() {
            offset += (position % length) as isize * stride;
            position /= length;
        }
        offset
    }

    /// Returns all offsets, in order of position.
    pub fn offsets(&self, count: usize) -> Vec<isize> {
        let mut all = Vec::with_capacity(count);
        self.runs(0, count, |offset, stride, length| {
            all.extend((0..length as isize).map(|n| offset + n * stride));
        });
        all
    }

    /// Calls `run(offset, stride, length)` for each stretch of evenly spaced elements among `count` positions from `start` on.
    #[inline]
    pub fn runs(&self, start: usize, count: usize, mut run: impl FnMut(isize, isize, usize)) {
        if count == 0 {
            return;
        }
        let Some((&inner, outer)) = self.shape.split_last() else {
            return run(0, 0, count);
        };
        let (&stride, outer_strides) =
            self.strides.split_last().expect("strides and shape have equal length");
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
        let mut position = start / inner;
        let mut offset = 0;
        for axis in (0..outer.len()).rev() {
            index[axis] = position % outer[axis];
            position /= outer[axis];
            offset += index[axis] as isize * outer_strides[axis];
        }
        let (mut at, mut left) = (start % inner, count);
        loop {
            let length = left.min(inner - at);
            run(offset + at as isize * stride, stride, length);
            left -= length;
            if left == 0 {
                return;
            }
            at = 0;
            for axis in (0..outer.len()).rev() {
                index[axis] += 1;
                offset += outer_strides[axis];
                if index[axis] < outer[axis] {
                    break;
                }
                offset -= index[axis] as isize * outer_strides[axis];
                index[axis] = 0;
            }
        }
    }
}

/// Copies strided elements into a contiguous row.
///
/// # Safety
/// `base` plus every offset of the range is readable; `into` is writable for `count` elements and does not overlap; both are
/// aligned for T.
pub unsafe fn gather<T: Copy>(base: *const T, walk: &Walk, start: usize, count: usize, into: *mut T) {
    let mut to = into;
    walk.runs(start, count, |offset, stride, length| {
        // SAFETY: the caller guarantees that these offsets are readable and that there is space for `count` elements, which the
        // runs add up to.
        unsafe {
            let from = base.offset(offset);
            match stride {
                1 => std::ptr::copy_nonoverlapping(from, to, length),
                0 => {
                    let value = *from;
                    for n in 0..length {
                        *to.add(n) = value;
                    }
                }
                _ => {
                    for n in 0..length {
                        *to.add(n) = *from.offset(n as isize * stride);
                    }
                }
            }
            to = to.add(length);
        }
    });
}

/// Elements as a contiguous row: in place if they are one, or else copied into `room`.
///
/// # Safety
/// Like [`gather`], and nobody writes the elements while the row is used.
pub unsafe fn row<'a, T: Copy>(
    base: *const T,
    walk: &Walk,
    start: usize,
    count: usize,
    room: &'a mut [T],
) -> &'a [T] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if walk.is_contiguous() {
            return std::slice::from_raw_parts(base.add(start), count);
        }
        gather(base, walk, start, count, room[..count].as_mut_ptr());
    }
    &room[..count]
}

/// Like [`gather`], for elements of `bytes` bytes.
///
/// # Safety
/// Like `gather`, for elements of `bytes` bytes (1, 2, 4, 8 or 16).
pub unsafe fn gather_bytes(
    bytes: usize,
    base: *const u8,
    walk: &Walk,
    start: usize,
    count: usize,
    into: *mut u8,
) {
    // SAFETY: guaranteed by the caller, for the type of this size.
    unsafe {
        match bytes {
            1 => gather(base, walk, start, count, into),
            2 => gather(base.cast::<u16>(), walk, start, count, into.cast()),
            4 => gather(base.cast::<u32>(), walk, start, count, into.cast()),
            8 => gather(base.cast::<u64>(), walk, start, count, into.cast()),
            _ => gather(base.cast::<[u64; 2]>(), walk, start, count, into.cast()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_follow_one_another_are_merged() {
        assert!(Walk::new(&[2, 3, 4], &[12, 4, 1]).is_contiguous());
        assert!(Walk::new(&[2, 1, 4], &[4, 77, 1]).is_contiguous());
        assert!(Walk::new(&[], &[]).is_contiguous());
        assert!(Walk::new(&[3, 4], &[0, 0]).is_constant());
        assert_eq!(Walk::new(&[2, 3, 4], &[1, 8, 2]).shape.as_slice(), [2, 12]);
    }

    #[test]
    fn runs_agree_with_offsets() {
        for (shape, strides) in [
            (vec![2, 3, 4], vec![1, 8, 2]),
            (vec![5, 7], vec![0, -1]),
            (vec![3, 1, 5, 2], vec![10, 3, -2, 100]),
        ] {
            let walk = Walk::new(&shape, &strides);
            let count: usize = shape.iter().product();
            for start in 0..count {
                let mut position = start;
                walk.runs(start, count - start, |offset, stride, length| {
                    for n in 0..length {
                        assert_eq!(walk.offset(position), offset + n as isize * stride);
                        position += 1;
                    }
                });
                assert_eq!(position, count);
            }
        }
    }
}
