//! Copies of strided elements to contiguous memory. Where the elements that are adjacent in the source are not those that are
//! adjacent in the target, square blocks are transposed, so that every cache line is read and written once.

use crate::kernels::BLOCK;
use crate::level::Level;
use crate::threads::{Shared, Threads};
use crate::view::View;
use crate::walk::{Walk, gather_bytes};

/// The side of a block.
const SIDE: usize = 16;
/// Rows of the source of a task, in blocks: as many adjacent target elements are written one after another.
const TALL: usize = 64;

/// Copies all elements of a view to contiguous memory of the same type.
///
/// # Safety
/// `to` has space for all elements, aligned, and does not overlap them.
pub unsafe fn copy(threads: &Threads, input: &View, to: *mut u8) {
    let (walk, bytes) = (input.walk(), input.dtype.bytes());
    let (from, to) = (Shared::new(input.start::<u8>()), Shared::new(to));
    if let Some(planes) = Planes::of(&walk).filter(|_| bytes <= 8) {
        // SAFETY: guaranteed by the caller, for the type of this size.
        unsafe {
            match bytes {
                1 => planes.run::<u8>(threads, from, to),
                2 => planes.run::<u16>(threads, from, to),
                4 => planes.run::<u32>(threads, from, to),
                _ => planes.run::<u64>(threads, from, to),
            }
        }
        return;
    }
    let (elements, share) = (input.elements(), 16 * BLOCK);
    threads.each(elements.div_ceil(share), elements * bytes / 8, |task| {
        let (start, end) = (task * share, elements.min((task + 1) * share));
        // SAFETY: guaranteed by the caller; tasks write disjoint parts.
        unsafe {
            let to = to.get().add(start * bytes);
            gather_bytes(bytes, from.get().cast_const(), &walk, start, end - start, to);
        }
    });
}

/// Planes to transpose: the last axis of the target, and the axis that is contiguous in the source.
struct Planes {
    /// The offset of each plane in the source and in the target.
    offsets: Vec<(isize, usize)>,
    /// The number of source elements that are adjacent, and their distance in the target.
    along: (usize, usize),
    /// The length of the last axis, and its stride in the source.
    across: (usize, isize),
}

impl Planes {
    fn of(walk: &Walk) -> Option<Planes> {
        let (shape, strides) = walk.axes();
        let last = shape.len().checked_sub(1)?;
        let near = strides.iter().position(|&stride| stride == 1)?;
        if near == last || shape[near] < SIDE / 2 || shape[last] < SIDE / 2 || strides[last] == 0 {
            return None;
        }
        let distance = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        let mut offsets = vec![(0, 0)];
        for axis in (0..last).filter(|&axis| axis != near) {
            let each = |&(from, to): &(isize, usize)| {
                let stride = strides[axis];
                (0..shape[axis]).map(move |n| (from + n as isize * stride, to + n * distance(axis)))
            };
            offsets = offsets.iter().flat_map(each).collect();
        }
        Some(Planes { offsets, along: (shape[near], distance(near)), across: (shape[last], strides[last]) })
    }

    /// # Safety
    /// All elements are readable, and the target has space for them.
    unsafe fn run<T: Copy>(&self, threads: &Threads, from: Shared<u8>, to: Shared<u8>) {
        let &Planes { along: (along, distance), across: (across, stride), .. } = self;
        let stripes = along.div_ceil(TALL);
        let cost = self.offsets.len() * along * across / 2;
        threads.each(self.offsets.len() * stripes, cost, |task| {
            let (source, target) = self.offsets[task / stripes];
            let first = task % stripes * TALL;
            let rows = first..along.min(first + TALL);
            for column in (0..across).step_by(SIDE) {
                let wide = SIDE.min(across - column);
                for row in rows.clone().step_by(SIDE) {
                    let tall = SIDE.min(rows.end - row);
                    // SAFETY: the block is within the plane.
                    unsafe {
                        let from = from.get().cast::<T>().cast_const();
                        let from = from.offset(source + row as isize + column as isize * stride);
                        let to = to.get().cast::<T>().add(target + row * distance + column);
                        block(threads.level(), from, stride, to, distance, (tall, wide));
                    }
                }
            }
        });
    }
}

/// Transposes a block of at most [`SIDE`]: `to[row][column] = from[column][row]`, with the distances of rows in both.
///
/// # Safety
/// All elements of the block are readable in the source and writable in the target.
#[inline(always)]
unsafe fn block<T: Copy>(
    level: Level,
    from: *const T,
    stride: isize,
    to: *mut T,
    distance: usize,
    (tall, wide): (usize, usize),
) {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 && size_of::<T>() == 4 && (tall, wide) == (SIDE, SIDE) {
        // SAFETY: guaranteed by the caller; the level was detected on this processor.
        return unsafe { words512(from.cast(), stride, to.cast(), distance) };
    }
    let _ = level;
    for row in 0..tall {
        for column in 0..wide {
            // SAFETY: guaranteed by the caller.
            unsafe {
                *to.add(row * distance + column) = *from.offset(column as isize * stride + row as isize)
            };
        }
    }
}

/// # Safety
/// Like [`block`], for a full block, on a processor with these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn words512(from: *const f32, stride: isize, to: *mut f32, distance: usize) {
    use std::arch::x86_64::_mm512_storeu_ps;
    let offsets: [isize; SIDE] = std::array::from_fn(|column| column as isize * stride);
    // SAFETY: guaranteed by the caller. The values are only moved, so their type does not matter.
    unsafe {
        let lines = crate::contract::load_transposed(from, &offsets, SIDE);
        for (row, &line) in lines.iter().enumerate() {
            _mm512_storeu_ps(to.add(row * distance), line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::CpuMemory;
    use std::sync::Arc;
    use tensor_core::device::Buffer;
    use tensor_core::dtype::DType;
    use tensor_core::layout::Layout;
    use tensor_core::step::Operand;

    #[test]
    fn every_element_arrives_at_its_place() {
        let shapes: [(&[usize], &[isize]); 6] = [
            (&[33, 70], &[1, 33]),
            (&[3, 40, 50], &[2000, 1, 40]),
            (&[20, 3, 21], &[1, 21 * 20, 20]),
            (&[16, 16], &[1, 16]),
            (&[5, 64, 8], &[8, 40, 1]),
            (&[9, 100], &[1, -9]),
        ];
        for (shape, strides) in shapes {
            for dtype in [DType::U8, DType::BF16, DType::F32, DType::F64] {
                let elements: usize = shape.iter().product();
                let bytes = dtype.bytes();
                let memory = CpuMemory::allocate(&Arc::default(), elements * bytes).unwrap();
                for n in 0..elements * bytes {
                    // SAFETY: the memory has as many bytes.
                    unsafe { *memory.start().add(n) = (n * 37 % 251) as u8 };
                }
                let offset =
                    strides.iter().zip(shape).map(|(&s, &n)| (s * (n as isize - 1)).min(0)).sum::<isize>();
                let layout =
                    Layout { shape: shape.into(), strides: strides.into(), offset: -offset as usize };
                let operand = Operand { buffer: Arc::new(memory) as Buffer, layout, dtype };
                let view = View::new(&operand).unwrap();
                let (mut found, mut wanted) = (vec![0_u64; elements], vec![0_u64; elements]);
                for level in Level::all() {
                    // SAFETY: both have space for all elements.
                    unsafe {
                        copy(&Threads::new(Some(2), level), &view, found.as_mut_ptr().cast());
                        gather_bytes(
                            bytes,
                            view.start::<u8>(),
                            &view.walk(),
                            0,
                            elements,
                            wanted.as_mut_ptr().cast(),
                        );
                    }
                    assert_eq!(found, wanted, "{shape:?} {strides:?} {dtype}");
                }
            }
        }
    }
}
