//! Operands of a contraction in the order in which the kernel reads them: groups of a tile's rows, depth by depth. Each is read from wherever
//! it lies, so a convolution never has its windows written out as a whole.

use crate::element::Element;

/// One operand's elements: `base` plus the offset of a row plus the offset of a depth.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a, T> {
    pub base: *const T,
    pub rows: &'a [isize],
    pub depth: &'a [isize],
}

/// Whether each offset is one more than the one before.
pub fn follow(offsets: &[isize]) -> bool {
    offsets.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

/// Writes groups of `width` rows, each `depth.len()` times `width` elements; rows that are missing in the last are zeros.
///
/// # Safety
/// Every sum of base and offsets is readable; `to` has room for all groups.
pub unsafe fn pack<T: Element>(grid: Grid<'_, T>, width: usize, to: *mut T::Wide) {
    let depth_follows = follow(grid.depth);
    for (group, rows) in grid.rows.chunks(width).enumerate() {
        // SAFETY: the caller says that there is room.
        let to = unsafe { to.add(group * width * grid.depth.len()) };
        let grid = Grid { rows, ..grid };
        // SAFETY: the caller's promise.
        unsafe {
            if rows.len() == width && follow(rows) {
                beside(grid, to);
            } else if depth_follows && !grid.depth.is_empty() {
                behind(grid, width, to);
            } else {
                anyhow(grid, width, to);
            }
        }
    }
}

/// Rows lie side by side.
///
/// # Safety
/// As [`pack`].
unsafe fn beside<T: Element>(grid: Grid<'_, T>, mut to: *mut T::Wide) {
    for &offset in grid.depth {
        // SAFETY: the caller's promise.
        unsafe {
            let from = grid.base.offset(grid.rows[0] + offset);
            for row in 0..grid.rows.len() {
                *to.add(row) = (*from.add(row)).widen();
            }
            to = to.add(grid.rows.len());
        }
    }
}

/// Each row lies in order of depth: a transposition, in squares so that both sides stay near.
///
/// # Safety
/// As [`pack`].
unsafe fn behind<T: Element>(grid: Grid<'_, T>, width: usize, to: *mut T::Wide) {
    use crate::element::Number;
    const SIDE: usize = 16;
    let depth = grid.depth.len();
    for first in (0..depth).step_by(SIDE) {
        let count = SIDE.min(depth - first);
        for (row, offset) in grid.rows.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let from = grid.base.offset(offset + grid.depth[first]);
                let to = to.add(first * width + row);
                for k in 0..count {
                    *to.add(k * width) = (*from.add(k)).widen();
                }
            }
        }
    }
    for row in grid.rows.len()..width {
        for k in 0..depth {
            // SAFETY: the caller says that there is room.
            unsafe { *to.add(k * width + row) = T::Wide::ZERO };
        }
    }
}

/// # Safety
/// As [`pack`].
unsafe fn anyhow<T: Element>(grid: Grid<'_, T>, width: usize, mut to: *mut T::Wide) {
    use crate::element::Number;
    for &offset in grid.depth {
        // SAFETY: the caller's promise.
        unsafe {
            let from = grid.base.offset(offset);
            for (row, &at) in grid.rows.iter().enumerate() {
                *to.add(row) = (*from.offset(at)).widen();
            }
            for row in grid.rows.len()..width {
                *to.add(row) = T::Wide::ZERO;
            }
            to = to.add(width);
        }
    }
}
