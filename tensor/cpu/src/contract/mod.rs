//! Matrix products and convolutions:
//! `out[b, m, n] = epilogue(sum over k of left[b, m, k] * right[b, n, k])`, each letter any number of axes.
//!
//! The output is divided into regions that tasks compute independently, with the whole depth and the epilogue. Inside a region,
//! panels of both operands are packed and multiplied tile by tile. Depth is always processed in the panels of the ordered
//! accumulation; it costs nothing, so there is no other mode. With many rows, all threads first pack the right operand together
//! ([`tall`]); with few, nothing is packed ([`thin`]).

mod across;
mod direct;
mod finish;
mod gapped;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod near;
mod pack;
mod tall;
mod thin;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod turned;

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::thread::LocalKey;

use num_complex::{Complex32, Complex64};
use smallvec::smallvec;
use tensor_core::dtype::{DType, Kind};
use tensor_core::error::DeviceError;
use tensor_core::program::{Code, Instruction, Program};
use tensor_core::step::PANEL;

use crate::element::Element;
use crate::level::Level;
use crate::map::{self, Feeds, check_axes};
use crate::memory::{BufferCache, CpuMemory, Line, ask_for_large_pages};
use crate::plan::{Feed, Plan};
use crate::plan_cache;
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::Walk;
use finish::Finish;
use kernel::{LARGEST, Sum, Tile};
#[cfg(target_arch = "x86_64")]
pub use pack::load_transposed;
use pack::{Grid, SIDE, pack};

/// Rows that are packed at a time. This and [`FIELD`] are sized for the second-level cache.
const ROWS: usize = 240;
/// Rows and columns of a field, whose sums are finished before the next field starts, so that they are not loaded again for every
/// panel of depth.
const FIELD: (usize, usize) = (480, 512);
/// The most rows for which nothing is packed.
const FEW_ROWS: usize = 4;

/// A contraction: the number of axes of each sort, and the epilogue of each sum.
pub struct Contract<'a> {
    pub batch: usize,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub epilogue: &'a Program,
}

impl Contract<'_> {
    pub fn run(&self, threads: &Threads, inputs: &[View], output: &View) -> Result<(), DeviceError> {
        let [left, right, others @ ..] = inputs else {
            return Err(wrong("a contraction needs two operands"));
        };
        self.check(left, right, others, output)?;
        let dtype = self.sum_type(left.dtype, right.dtype);
        let operand = |view: &View| operand_type(view.dtype, dtype);
        let cache = Arc::default();
        let held = [
            Held::new(threads, &cache, left, operand(left))?,
            Held::new(threads, &cache, right, operand(right))?,
        ];
        macro_rules! go {
            ($L:ty, $R:ty, $N:ty) => {
                self.typed::<$L, $R, $N>(threads, &held, left, right, others, output, dtype, threads.level())
            };
        }
        use DType::*;
        match (operand(left), operand(right)) {
            (F32, F32) => go!(f32, f32, f32),
            (F16, F16) => go!(half::f16, half::f16, f32),
            (BF16, BF16) => go!(half::bf16, half::bf16, f32),
            (F64, _) => go!(f64, f64, f64),
            (I32, _) => go!(i32, i32, i32),
            (I64, _) => go!(i64, i64, i64),
            (C64, _) => go!(Complex32, Complex32, Complex32),
            (C128, _) => go!(Complex64, Complex64, Complex64),
            (one, other) => Err(DeviceError::Unsupported(format!("a contraction of {one} and {other}"))),
        }
    }

    /// The number of leading batch axes whose batches are computed as further columns, because they have the same left operand, as
    /// the images of a convolution have: if they have few columns, tiles would be partly empty, and the left operand would be
    /// packed again for each.
    fn shared(&self, held: &Held, left: &View, right: &View, width: usize) -> usize {
        let Held::Same = held else { return 0 };
        let (shape, strides) = (right.shape(), &left.layout.strides);
        let axes = (0..self.batch).take_while(|&axis| strides[axis] == 0 || shape[axis] == 1).count();
        let count = |axes: Range<usize>| shape[axes].iter().product::<usize>();
        let columns = count(self.batch..self.batch + self.columns);
        let depth = count(self.batch + self.columns..shape.len());
        let rows: usize = left.shape()[self.batch..self.batch + self.rows].iter().product();
        // Estimates in units of a vector's columns: empty ones and packing against copying the sums.
        let lost = columns.next_multiple_of(width) - columns + width;
        let is_worth = columns < FIELD.1 && rows > FEW_ROWS && lost.saturating_mul(depth) > width * columns;
        if is_worth && count(0..axes) > 1 { axes } else { 0 }
    }

    fn check(&self, left: &View, right: &View, others: &[View], output: &View) -> Result<(), DeviceError> {
        let (a, b, c) = (left.shape(), right.shape(), output.shape());
        let fits = a.len() == self.batch + self.rows + self.depth
            && b.len() == self.batch + self.columns + self.depth
            && c.len() == self.batch + self.rows + self.columns
            && a[..self.batch] == b[..self.batch]
            && a[..self.batch + self.rows] == c[..self.batch + self.rows]
            && b[self.batch..self.batch + self.columns] == c[self.batch + self.rows..]
            && a[self.batch + self.rows..] == b[self.batch + self.columns..]
            && others.iter().all(|view| view.shape() == c);
        if !fits {
            return Err(wrong(format!(
                "the shapes of a contraction are incompatible: {a:?}, {b:?} and {c:?}"
            )));
        }
        check_axes(self.epilogue, c.len())
    }

    /// The accumulator type: the promoted type of the operands, or the wider type that the epilogue expects.
    fn sum_type(&self, left: DType, right: DType) -> DType {
        let mut common = left.promote(right);
        for instruction in &self.epilogue.instructions {
            if instruction.code == Code::Input(0) {
                common = common.promote(instruction.dtype);
            }
        }
        match common {
            DType::F16 | DType::BF16 => DType::F32,
            DType::U64 => DType::I64,
            other if other.kind() <= Kind::Signed && other.bytes() < 8 => DType::I32,
            other => other,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one contraction has this many parameters")]
    fn typed<L, R, N>(
        &self,
        threads: &Threads,
        held: &[Held; 2],
        left: &View,
        right: &View,
        others: &[View],
        output: &View,
        dtype: DType,
        level: Level,
    ) -> Result<(), DeviceError>
    where
        L: Element<Wide = N>,
        R: Element<Wide = N>,
        N: Sum,
    {
        let tile = N::tile(level);
        let [_, _, columns, right_depth] =
            held[1].walks(right, 0, self.batch, self.columns).map(|(walk, count)| walk.offsets(count));
        let shared = match gapped::is_gapped(&columns, &right_depth) {
            true => 0,
            false => self.shared(&held[0], left, right, tile.columns),
        };
        let ([_, batches, rows, depth], [images, right_batches, ..]) = (
            held[0].walks(left, shared, self.batch, self.rows),
            held[1].walks(right, shared, self.batch, self.columns),
        );
        let (images, in_place) = (images.0.offsets(images.1), shared == 0 && output.dtype == dtype);
        let mut types = vec![dtype];
        types.extend(others.iter().map(|view| view.dtype));
        let plan = plan_cache::plan(self.epilogue, &types, Some(&[output.dtype]), level)
            .map_err(DeviceError::Unsupported)?;
        let identity = Instruction { code: Code::Input(0), dtype };
        let mut feeds = smallvec![Feed::Given];
        feeds.extend(others.iter().map(|view| Feed::Memory(view.start::<u8>().cast_const(), view.walk())));
        let mut whole = Whole::<L, R, N> {
            left: Shared::new(held[0].start(left)),
            right: Shared::new(held[1].start(right)),
            left_batches: batches.0,
            right_batches: right_batches.0,
            batches: batches.1,
            left_rows: rows.0.offsets(rows.1),
            left_depth: depth.0.offsets(depth.1),
            right_rows: together(&images, &columns),
            images: images.len(),
            right_depth,
            out: Shared::new(output.start()),
            out_dtype: output.dtype,
            in_place,
            plain: in_place && self.epilogue.instructions == [identity],
            copied: output.dtype == dtype && self.epilogue.instructions == [identity],
            plan,
            feeds: Feeds(feeds),
            shape: output.shape(),
            tile,
            level,
            strips: Vec::new(),
            near: false,
        };
        whole.strips = whole.strips();
        whole.near = whole.is_near();
        let (batch, m, n, k) = (batches.1, rows.1, whole.right_rows.len(), depth.1);
        if batch * m * n == 0 {
            return Ok(());
        }
        let channels = if self.columns > 1 { right.shape()[self.batch] } else { 1 };
        if whole.by_gapped_columns(threads)
            || whole.across_batches(threads)
            || whole.by_turned_channels(threads, channels)
        {
            return Ok(());
        }
        if whole.is_tall(batch) {
            (0..batch).for_each(|batch| whole.by_rows(threads, batch));
            return Ok(());
        }
        let wanted = threads.count() * 2;
        let (height, width) = match whole.strips.is_empty() {
            true => region_size(batch, (m, n), (whole.tile.rows, whole.tile.columns), wanted),
            // Regions are at least a field wide.
            false => (m, n),
        };
        let (down, across) = (m.div_ceil(height), n.div_ceil(width));
        // An estimate: two multiply-adds a cycle in vectors of eight.
        let mut cost = (batch * m * n).saturating_mul(k.max(16)) / 40;
        if whole.is_thin(&(0..n)) {
            // Bound by reading the right operand once from memory.
            cost = cost.max((batch * n).saturating_mul(k) / 4);
        }
        threads.each(batch * down * across, cost, |task| {
            let (column, rest) = (task % across * width, task / across);
            let (row, batch) = (rest % down * height, rest / down);
            // SAFETY: the shapes were checked and views are within their buffers; regions do not overlap.
            unsafe { whole.region(batch, row..m.min(row + height), column..n.min(column + width)) };
        });
        Ok(())
    }
}

/// The type that an operand must have to be packed for these sums.
fn operand_type(of: DType, sum: DType) -> DType {
    match of {
        DType::F16 | DType::BF16 if sum == DType::F32 => of,
        _ => sum,
    }
}

/// An operand, either in place or cast to another type first, which only integers and mixed types need.
enum Held {
    Same,
    Cast(CpuMemory),
}

impl Held {
    fn new(
        threads: &Threads,
        cache: &Arc<BufferCache>,
        view: &View,
        dtype: DType,
    ) -> Result<Held, DeviceError> {
        if view.dtype == dtype {
            return Ok(Held::Same);
        }
        let elements = view.elements();
        let memory = CpuMemory::allocate(cache, elements.saturating_mul(dtype.bytes()))?;
        let program = Program {
            instructions: vec![
                Instruction { code: Code::Input(0), dtype: view.dtype },
                Instruction { code: Code::Cast(0), dtype },
            ],
            results: vec![1],
        };
        let plan = plan_cache::plan(&program, &[view.dtype], Some(&[dtype]), threads.level())
            .map_err(DeviceError::Unsupported)?;
        let feeds = Feeds(smallvec![Feed::Memory(view.start::<u8>().cast_const(), view.walk())]);
        let target = [(Shared::new(memory.start()), dtype.bytes())];
        // SAFETY: the view is within its buffer, and the memory has space for as many elements.
        unsafe { map::run(threads, &plan, &feeds, &target, view.shape(), elements) };
        Ok(Held::Cast(memory))
    }

    fn start<T>(&self, view: &View) -> *mut T {
        match self {
            Held::Same => view.start(),
            Held::Cast(memory) => memory.start().cast(),
        }
    }

    /// The walks and element counts of the first batch axes, of the other batch axes, of `others` further axes, and of the depth.
    fn walks(&self, view: &View, first: usize, batch: usize, others: usize) -> [(Walk, usize); 4] {
        let shape = view.shape();
        let contiguous = tensor_core::layout::Layout::contiguous(shape);
        let strides = match self {
            Held::Same => &view.layout.strides,
            Held::Cast(_) => &contiguous.strides,
        };
        [0..first, first..batch, batch..batch + others, batch + others..shape.len()].map(|axes| {
            let count = shape[axes.clone()].iter().product();
            (Walk::new(&shape[axes.clone()], &strides[axes]), count)
        })
    }
}

/// The offsets of the columns of all images.
fn together(images: &[isize], columns: &[isize]) -> Vec<isize> {
    images.iter().flat_map(|image| columns.iter().map(move |column| image + column)).collect()
}

/// Returns the rows and columns of a region: multiples of tiles, small enough to give every thread work.
fn region_size(batch: usize, (m, n): (usize, usize), tile: (usize, usize), wanted: usize) -> (usize, usize) {
    let (mut height, mut width) = (m, n);
    while batch * m.div_ceil(height) * n.div_ceil(width) < wanted {
        let (tall, broad) = (height > 4 * tile.0, width > 2 * tile.1);
        if tall && (height >= width || !broad) {
            height = height.div_ceil(2).next_multiple_of(tile.0);
        } else if broad {
            width = width.div_ceil(2).next_multiple_of(tile.1);
        } else {
            break;
        }
    }
    (height, width)
}

/// A contraction prepared for tasks.
struct Whole<'a, L, R, N> {
    left: Shared<L>,
    right: Shared<R>,
    left_batches: Walk,
    right_batches: Walk,
    /// The number of batches, without the images.
    batches: usize,
    /// Batches with the same left operand that were made columns, one after another: the leading batch axes of the output.
    images: usize,
    left_rows: Vec<isize>,
    left_depth: Vec<isize>,
    right_rows: Vec<isize>,
    right_depth: Vec<isize>,
    out: Shared<u8>,
    out_dtype: DType,
    /// Sums are accumulated in the output itself.
    in_place: bool,
    /// The sums in the output need no epilogue.
    plain: bool,
    /// Sums in other memory need no epilogue but a copy.
    copied: bool,
    plan: Arc<Plan>,
    feeds: Feeds,
    shape: &'a [usize],
    tile: Tile<N>,
    level: Level,
    /// The columns as [`direct`] reads them; empty if it does not.
    strips: Vec<direct::Strip>,
    /// [`near`] computes it.
    near: bool,
}

/// The location of sums: the first of a region, and the distance between its rows.
#[derive(Clone, Copy, Debug)]
struct Sums<N> {
    start: *mut N,
    stride: usize,
}

thread_local! {
    /// Packed panels of this thread, kept because fresh pages cost more than packing.
    static PACKED: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Scratch memory for packed panels; returns to its thread-local on drop.
struct Packed {
    lines: Vec<Line>,
    home: &'static LocalKey<RefCell<Vec<Line>>>,
}

impl Packed {
    /// Takes the memory instead of borrowing it: this thread may start a task while inside another one.
    fn take(home: &'static LocalKey<RefCell<Vec<Line>>>) -> Packed {
        Packed { lines: home.take(), home }
    }

    /// Returns space for two panels of these many elements.
    fn room<N>(&mut self, left: usize, right: usize) -> (*mut N, *mut N) {
        let per_line = 64 / size_of::<N>();
        let (left, right) = (left.div_ceil(per_line), right.div_ceil(per_line));
        if self.lines.len() < left + right {
            // Not a resize: the old content is useless and would be copied.
            self.lines = Vec::with_capacity(left + right);
            ask_for_large_pages(self.lines.as_mut_ptr().cast(), (left + right) * size_of::<Line>());
            self.lines.resize(left + right, Line::default());
        }
        let (left, right) = self.lines.split_at_mut(left);
        (left.as_mut_ptr().cast(), right.as_mut_ptr().cast())
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        self.home.set(std::mem::take(&mut self.lines));
    }
}

/// Prefetches elements to the second-level cache.
#[cfg(target_arch = "x86_64")]
pub fn fetch<N>(from: *const N, count: usize) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    for at in (0..count).step_by(64 / size_of::<N>()) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(at).cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn fetch<N>(_: *const N, _: usize) {}

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// # Safety
    /// Both operands and the output are in memory for all offsets; no other task writes the region.
    unsafe fn region(&self, batch: usize, rows: Range<usize>, columns: Range<usize>) {
        let tall = rows.len().min(ROWS).next_multiple_of(self.tile.rows).next_multiple_of(SIDE);
        let broad = match self.strips.is_empty() {
            true => columns.len().min(FIELD.1).next_multiple_of(self.tile.columns),
            false => columns.len(),
        };
        let deep = PANEL.min(self.left_depth.len());
        let mut packed = Packed::take(&PACKED);
        let panels = match self.strips.is_empty() {
            true => packed.room::<N>(tall * deep, broad * deep),
            false => packed.room::<N>(0, 0),
        };
        let mut held = match self.in_place {
            true => Vec::new(),
            false => vec![N::ZERO; rows.len().min(FIELD.0) * broad],
        };
        let mut finish = (!self.plain).then(|| Finish::new(self));
        let (down, across) = if self.strips.is_empty() { FIELD } else { (FIELD.0, columns.len().max(1)) };
        for top in rows.clone().step_by(down) {
            for first in columns.clone().step_by(across) {
                let field = (top..rows.end.min(top + down), first..columns.end.min(first + across));
                let sums = match self.in_place {
                    true => {
                        let at = (batch * self.left_rows.len() + top) * self.right_rows.len() + first;
                        // SAFETY: this is the first element of the field, which is in the output.
                        let start = unsafe { self.out.get().cast::<N>().add(at) };
                        Sums { start, stride: self.right_rows.len() }
                    }
                    false => Sums { start: held.as_mut_ptr(), stride: broad },
                };
                // SAFETY: guaranteed by the caller; the panels have space for the packed elements.
                unsafe { self.field(batch, field, sums, panels, &mut finish) };
            }
        }
    }

    /// Computes a field: a part of a region, of at most [`FIELD`].
    ///
    /// # Safety
    /// Like `region`; `sums` has space for all rows and columns, `packed` for a panel of each operand.
    unsafe fn field(
        &self,
        batch: usize,
        (rows, columns): (Range<usize>, Range<usize>),
        sums: Sums<N>,
        packed: (*mut N, *mut N),
        finish: &mut Option<Finish>,
    ) {
        let depth = self.left_depth.len();
        // SAFETY: the caller guarantees that offsets are within the operands.
        let (left, right) = unsafe { self.operands(batch) };
        if self.near || self.is_direct(&columns) || self.is_thin(&columns) {
            // SAFETY: as above; `sums` has space.
            unsafe {
                if self.near {
                    self.nearly((left, right), (rows.clone(), columns.clone()), sums, packed.0);
                } else if self.is_direct(&columns) {
                    self.directly((left, right), rows.clone(), sums);
                } else {
                    self.without_packing((left, right), (rows.clone(), columns.clone()), sums);
                }
                if let Some(finish) = finish {
                    self.finish(batch, rows, columns, sums, finish);
                }
            }
            return;
        }
        // With zero depth there is still one pass, which writes zeros.
        for from in (0..depth.max(1)).step_by(PANEL) {
            let panel = from..depth.min(from + PANEL);
            let grid = Grid {
                base: right,
                rows: &self.right_rows[columns.clone()],
                depth: &self.right_depth[panel.clone()],
            };
            // SAFETY: as above, and the panel has space.
            unsafe { pack(grid, self.tile.columns, packed.1, self.level) };
            for top in rows.clone().step_by(ROWS) {
                let block = top..rows.end.min(top + ROWS);
                let grid = Grid {
                    base: left,
                    rows: &self.left_rows[block.clone()],
                    depth: &self.left_depth[panel.clone()],
                };
                // SAFETY: as above.
                unsafe {
                    pack(grid, self.tile.rows, packed.0, self.level);
                    let start = sums.start.add((top - rows.start) * sums.stride);
                    let sums = Sums { start, ..sums };
                    self.block(block.len(), columns.len(), panel.len(), sums, packed, from == 0);
                    if panel.end == depth
                        && let Some(finish) = finish
                    {
                        self.finish(batch, block, columns.clone(), sums, finish);
                    }
                }
            }
        }
    }

    /// Returns the start of both operands of one batch.
    ///
    /// # Safety
    /// The batch exists.
    unsafe fn operands(&self, batch: usize) -> (*const L, *const R) {
        // SAFETY: the caller guarantees that offsets are within the operands.
        unsafe {
            (
                self.left.get().offset(self.left_batches.offset(batch)).cast_const(),
                self.right.get().offset(self.right_batches.offset(batch)).cast_const(),
            )
        }
    }

    /// Multiplies all tiles of two packed panels.
    ///
    /// # Safety
    /// Like `field`.
    unsafe fn block(
        &self,
        rows: usize,
        columns: usize,
        depth: usize,
        sums: Sums<N>,
        packed: (*mut N, *mut N),
        first: bool,
    ) {
        let tile = self.tile;
        let mut edge = [N::ZERO; LARGEST];
        for column in (0..columns).step_by(tile.columns) {
            let width = tile.columns.min(columns - column);
            for row in (0..rows).step_by(tile.rows) {
                let height = tile.rows.min(rows - row);
                if column + tile.columns < columns {
                    // The next group of columns may be far away; each tile prefetches a part of it.
                    let share = (tile.columns * depth * tile.rows).div_ceil(rows);
                    fetch(
                        packed.1.wrapping_add((column + tile.columns) * depth + row / tile.rows * share),
                        share,
                    );
                }
                // SAFETY: guaranteed by the caller. A tile that is wider than the remaining columns is computed in scratch memory
                // and copied.
                unsafe {
                    let (left, right) = (packed.0.add(row * depth), packed.1.add(column * depth));
                    let to = sums.start.add(row * sums.stride + column);
                    if width == tile.columns {
                        (tile.run)(height, depth, left, right, to, sums.stride, first);
                        continue;
                    }
                    (tile.run)(height, depth, left, right, edge.as_mut_ptr(), tile.columns, true);
                    for (row, sums_of_row) in edge.chunks(tile.columns).take(height).enumerate() {
                        for (column, &sum) in sums_of_row.iter().take(width).enumerate() {
                            let at = to.add(row * sums.stride + column);
                            *at = if first { sum } else { (*at).add(sum) };
                        }
                    }
                }
            }
        }
    }
}
