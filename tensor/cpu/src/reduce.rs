//! Reductions with a program before and one after. The work is divided by shape alone, never by the number of threads, so that
//! sums have the same bits every time.

use smallvec::smallvec;
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::program::Program;
use tensor_core::step::Reduction;

use crate::fold::{Folder, folder};
use crate::kernels::BLOCK;
use crate::map::{self, Feeds, check_axes};
use crate::plan::{Feed, Frame, Plan};
use crate::plan_cache;
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::Walk;

/// Elements that are folded into one value before it is joined with others.
const CHUNK: usize = 64 * BLOCK;
/// Rows that are added to each other before their sum is added to the others'.
const ROWS: usize = 64;
/// Columns of rows that are added at a time, so that their sums stay in the cache.
const COLUMNS: usize = 4096;

/// The shape of a reduction, as `[outer, reduced, inner]`.
struct Shape3 {
    outer: usize,
    reduced: usize,
    inner: usize,
    /// The axes in that order.
    order: Vec<usize>,
}

pub struct Reduce<'a> {
    pub program: &'a Program,
    pub reduction: Reduction,
    pub axes: &'a [usize],
    pub mapped: usize,
    pub epilogue: &'a Program,
}

impl Reduce<'_> {
    pub fn run(&self, threads: &Threads, inputs: &[View], output: &View) -> Result<(), DeviceError> {
        let (mapped, others) = inputs
            .split_at_checked(self.mapped)
            .ok_or_else(|| wrong("a reduction has fewer inputs than its mapped count"))?;
        let shape = match mapped.first() {
            Some(first) => first.shape(),
            None => return Err(wrong("a reduction needs an input to determine its shape")),
        };
        let reduced_shape: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(axis, &n)| if self.axes.contains(&axis) { 1 } else { n })
            .collect();
        if mapped.iter().any(|view| view.shape() != shape)
            || output.shape() != reduced_shape
            || others.iter().any(|view| view.shape() != reduced_shape)
        {
            return Err(wrong("the shapes of a reduction's operands do not match its axes"));
        }
        check_axes(self.program, shape.len())?;
        check_axes(self.epilogue, shape.len())?;
        let types: Vec<DType> = mapped.iter().map(|view| view.dtype).collect();
        let plan = plan_cache::plan(self.program, &types, None, threads.level())
            .map_err(DeviceError::Unsupported)?;
        let dtype = plan.result(0);
        let folder = folder(self.reduction, dtype, threads.level())
            .ok_or_else(|| DeviceError::Unsupported(format!("{:?} of {dtype}", self.reduction)))?;
        let three = cut(shape, self.axes);
        let feeds = mapped
            .iter()
            .map(|view| Feed::Memory(view.start::<u8>().cast_const(), view.walk_of(&three.order)))
            .collect();
        // SAFETY: views are within their buffers for every position of the shape, in any axis order.
        let sums = unsafe { sums(threads, &plan, &Feeds(feeds), &folder, shape, &three) };
        self.finish(threads, sums.as_ptr().cast(), dtype, others, output)
    }

    /// Runs the epilogue over the reduced values.
    fn finish(
        &self,
        threads: &Threads,
        sums: *const u8,
        dtype: DType,
        others: &[View],
        output: &View,
    ) -> Result<(), DeviceError> {
        let mut types = vec![dtype];
        types.extend(others.iter().map(|view| view.dtype));
        let plan = plan_cache::plan(self.epilogue, &types, Some(&[output.dtype]), threads.level())
            .map_err(DeviceError::Unsupported)?;
        let flat = Walk::new(&[output.elements()], &[1]);
        let mut feeds = smallvec![Feed::Memory(sums, flat)];
        feeds.extend(others.iter().map(|view| Feed::Memory(view.start::<u8>().cast_const(), view.walk())));
        let target = [(Shared::new(output.start()), output.dtype.bytes())];
        // SAFETY: there is a sum for each element of the output; views are within their buffers.
        unsafe { map::run(threads, &plan, &Feeds(feeds), &target, output.shape(), output.elements()) };
        Ok(())
    }
}

/// Orders the axes: kept axes first, then reduced ones, then the trailing kept axes, if the last axis is kept.
fn cut(shape: &[usize], axes: &[usize]) -> Shape3 {
    let mut tail = shape.len();
    while tail > 0 && (!axes.contains(&(tail - 1)) || shape[tail - 1] == 1) {
        tail -= 1;
    }
    let mut order: Vec<usize> = (0..tail).filter(|axis| !axes.contains(axis)).collect();
    let outer = order.iter().map(|&axis| shape[axis]).product();
    let reduced_axes: Vec<usize> = (0..tail).filter(|axis| axes.contains(axis)).collect();
    let reduced = reduced_axes.iter().map(|&axis| shape[axis]).product();
    order.extend(reduced_axes);
    order.extend(tail..shape.len());
    let inner = shape[tail..].iter().product();
    Shape3 { outer, reduced, inner, order }
}

/// Reduces everything: one value for each `[outer, inner]`, in 8-byte aligned words.
///
/// # Safety
/// The feeds are readable for every position of the shape in its new order.
unsafe fn sums(
    threads: &Threads,
    plan: &Plan,
    feeds: &Feeds,
    folder: &Folder,
    shape: &[usize],
    three: &Shape3,
) -> Vec<u64> {
    let &Shape3 { outer, reduced, inner, .. } = three;
    let bytes = folder.bytes;
    let kept = outer * inner;
    let mut result = filled(folder, kept);
    if kept == 0 || reduced == 0 {
        return result;
    }
    let indices = |axis: usize| {
        let ordered: Vec<usize> = three.order.iter().map(|&one| shape[one]).collect();
        let strides: Vec<isize> = three.order.iter().map(|&one| isize::from(one == axis)).collect();
        Walk::new(&ordered, &strides)
    };
    let cost = plan.cost(kept * reduced);
    if inner == 1 && reduced * 2 <= BLOCK {
        // Several short rows in a block.
        let rows = BLOCK / reduced;
        let target = Shared::new(result.as_mut_ptr().cast::<u8>());
        let share = threads.share(outer, cost, rows * 16).next_multiple_of(rows);
        threads.each(outer.div_ceil(share), cost, |task| {
            // SAFETY: guaranteed by the caller.
            let mut frame = unsafe { Frame::new(plan, &feeds.0, &indices) };
            let end = outer.min((task + 1) * share);
            for first in (task * share..end).step_by(rows) {
                let count = rows.min(end - first);
                // SAFETY: the positions belong to existing rows; the value of each row has its own element.
                unsafe {
                    frame.run(first * reduced, count * reduced, std::ptr::null(), &[]);
                    let values = frame.result(0);
                    for row in 0..count {
                        let to = target.get().add((first + row) * bytes);
                        (folder.row)(values.add(row * reduced * bytes), reduced, to);
                    }
                }
            }
        });
        return result;
    }
    let length = if inner == 1 { CHUNK } else { (CHUNK / inner).max(ROWS) };
    let chunks = reduced.div_ceil(length);
    let columns = inner.div_ceil(COLUMNS);
    let mut parts = if chunks > 1 { filled(folder, kept * chunks) } else { Vec::new() };
    let target = Shared::new(if chunks > 1 { parts.as_mut_ptr() } else { result.as_mut_ptr() }.cast::<u8>());
    let pieces = outer * chunks * columns;
    let share = threads.share(pieces, cost, (CHUNK / length.min(reduced)).max(1));
    threads.each(pieces.div_ceil(share), cost, |task| {
        // SAFETY: guaranteed by the caller.
        let mut frame = unsafe { Frame::new(plan, &feeds.0, &indices) };
        for piece in task * share..pieces.min((task + 1) * share) {
            let (column, rest) = (piece % columns * COLUMNS, piece / columns);
            let (chunk, row) = (rest % chunks, rest / chunks);
            let rows = chunk * length..reduced.min((chunk + 1) * length);
            // SAFETY: guaranteed by the caller; each piece has its own values by row, chunk and columns.
            unsafe {
                let to = target.get().add(((chunk * outer + row) * inner + column) * bytes);
                if inner == 1 {
                    fold_row(&mut frame, folder, row * reduced, rows, to);
                } else {
                    let width = COLUMNS.min(inner - column);
                    fold_rows(&mut frame, folder, (row * reduced, column, inner, width), rows, to);
                }
            }
        }
    });
    if chunks > 1 {
        join_parts(folder, &mut parts, kept, chunks);
        let size = (kept * bytes).div_ceil(8);
        parts.truncate(size);
        return parts;
    }
    result
}

/// Folds one row, block by block.
///
/// # Safety
/// The frame may run these positions; `to` holds one value.
unsafe fn fold_row(
    frame: &mut Frame,
    folder: &Folder,
    base: usize,
    rows: std::ops::Range<usize>,
    to: *mut u8,
) {
    let mut part = [0_u64; 2];
    let there = frame.direct();
    for start in rows.clone().step_by(BLOCK) {
        let n = BLOCK.min(rows.end - start);
        // SAFETY: guaranteed by the caller; `part` has space for one value of any type.
        unsafe {
            let values = match there {
                Some(first) => first.add((base + start) * folder.bytes),
                None => {
                    frame.run(base + start, n, std::ptr::null(), &[]);
                    frame.result(0)
                }
            };
            (folder.row)(values, n, part.as_mut_ptr().cast());
            (folder.into)(to, part.as_ptr().cast(), 1);
        }
    }
}

/// Folds many rows into one, column by column: `(first position's row, first column, columns of a row, columns wanted)`.
///
/// # Safety
/// The frame may run these positions; `to` holds a value for each column.
unsafe fn fold_rows(
    frame: &mut Frame,
    folder: &Folder,
    (base, column, inner, width): (usize, usize, usize, usize),
    rows: std::ops::Range<usize>,
    to: *mut u8,
) {
    // As many rows at a time as fit in a block, or [`ROWS`] if values are read in place.
    let together = match frame.direct().is_some() {
        true => ROWS,
        false if width == inner => (BLOCK / inner).clamp(1, ROWS),
        false => 1,
    };
    let mut part = filled(folder, width);
    let mut held = 0;
    for first in rows.clone().step_by(together) {
        let count = together.min(rows.end - first);
        let most = if together == 1 { BLOCK } else { width };
        for beside in (0..width).step_by(most) {
            let wide = most.min(width - beside);
            // SAFETY: guaranteed by the caller; `part` holds a value for each column.
            unsafe {
                let start = (base + first) * inner + column + beside;
                frame.run(start, (count - 1) * inner + wide, std::ptr::null(), &[]);
                let to = part.as_mut_ptr().cast::<u8>().add(beside * folder.bytes);
                add_rows(folder, frame.result(0), (count, inner, wide), to);
            }
        }
        held += count;
        if held >= ROWS || first + count == rows.end {
            // SAFETY: as above.
            unsafe { (folder.into)(to, part.as_ptr().cast(), width) };
            held = 0;
            if first + count < rows.end {
                refill(folder, &mut part, width);
            }
        }
    }
}

/// Folds rows that are `stride` apart into one.
///
/// # Safety
/// There are `count` rows with `width` columns each, and `to` holds a value for each column.
unsafe fn add_rows(
    folder: &Folder,
    values: *const u8,
    (count, stride, width): (usize, usize, usize),
    to: *mut u8,
) {
    let mut row = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while row + 4 <= count {
            (folder.four)(to, values.add(row * stride * folder.bytes), stride, width);
            row += 4;
        }
        for row in row..count {
            (folder.into)(to, values.add(row * stride * folder.bytes), width);
        }
    }
}

/// Joins neighbouring chunks pairwise until only the first is left.
fn join_parts(folder: &Folder, parts: &mut [u64], kept: usize, chunks: usize) {
    let start = parts.as_mut_ptr().cast::<u8>();
    let mut step = 1;
    while step < chunks {
        for first in (0..chunks - step).step_by(step * 2) {
            // SAFETY: both chunks are among the parts, each with `kept` values.
            unsafe {
                let to = start.add(first * kept * folder.bytes);
                (folder.into)(to, start.add((first + step) * kept * folder.bytes), kept);
            }
        }
        step *= 2;
    }
}

/// Returns words filled with `count` neutral elements.
fn filled(folder: &Folder, count: usize) -> Vec<u64> {
    let mut words = vec![0_u64; (count * folder.bytes).div_ceil(8)];
    if folder.start != [0; 16] {
        refill(folder, &mut words, count);
    }
    words
}

fn refill(folder: &Folder, words: &mut [u64], count: usize) {
    assert!(count * folder.bytes <= words.len() * 8);
    // Neutral elements side by side in two words: all element sizes divide 16.
    let mut bytes = [0; 16];
    bytes.chunks_exact_mut(folder.bytes).for_each(|one| one.copy_from_slice(&folder.start[..folder.bytes]));
    let pair = [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte])));
    for chunk in words[..(count * folder.bytes).div_ceil(8)].chunks_mut(2) {
        chunk.copy_from_slice(&pair[..chunk.len()]);
    }
}
