//! Operations along one axis: argmax and argmin, cumulative sums and products.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;

use crate::element::{Element, Number, with_element};
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::{Walk, gather};

/// All rows along an axis of the input, and the positions of their results.
pub struct Rows<T> {
    from: Shared<T>,
    walk: Walk,
    pub length: usize,
    /// The distance between neighbours along the axis in contiguous outputs, in elements.
    pub inner: usize,
    count: usize,
}

impl<T: Copy + Send + Sync> Rows<T> {
    pub fn new(input: &View, axis: usize) -> Rows<T> {
        let shape = input.shape();
        let mut order: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).collect();
        let count = order.iter().map(|&other| shape[other]).product();
        order.push(axis);
        let inner = shape[axis + 1..].iter().product();
        Rows {
            from: Shared::new(input.start()),
            walk: input.walk_of(&order),
            length: shape[axis],
            inner,
            count,
        }
    }

    /// Returns the position of a row's first element in a contiguous output with `length` elements along the axis.
    pub fn place(&self, row: usize, length: usize) -> usize {
        row / self.inner * self.inner * length + row % self.inner
    }

    /// Calls `task` with each row's number and elements.
    pub fn each(&self, threads: &Threads, picoseconds: usize, task: impl Fn(usize, &[T]) + Sync) {
        if self.length == 0 {
            return;
        }
        let share = (16_384 / self.length).max(1);
        let cost = self.count.saturating_mul(self.length).saturating_mul(picoseconds) / 1000;
        threads.each(self.count.div_ceil(share), cost, |number| {
            let mut row: Vec<T> = Vec::with_capacity(self.length);
            for index in number * share..self.count.min((number + 1) * share) {
                if self.walk.is_contiguous() {
                    let start = self.from.get().wrapping_add(index * self.length).cast_const();
                    // SAFETY: the view is within its buffer, and its rows follow one another.
                    task(index, unsafe { std::slice::from_raw_parts(start, self.length) });
                    continue;
                }
                // SAFETY: the view is within its buffer, and there is space for a row, which is completely written afterwards.
                unsafe {
                    gather(
                        self.from.get().cast_const(),
                        &self.walk,
                        index * self.length,
                        self.length,
                        row.as_mut_ptr(),
                    );
                    row.set_len(self.length);
                }
                task(index, &row);
            }
        });
    }
}

/// Checks that an output has the input's shape, except for a length along the axis.
pub fn check(axis: usize, input: &View, output: &View, along: usize) -> Result<(), DeviceError> {
    let fits = axis < input.shape().len()
        && input.shape().len() == output.shape().len()
        && output.shape()[axis] == along
        && (0..input.shape().len())
            .all(|other| other == axis || input.shape()[other] == output.shape()[other]);
    if fits { Ok(()) } else { Err(wrong("the shapes of the operands do not match along the axis")) }
}

/// Index of the extreme; the first of equals, NaN wins over everything.
pub fn arg_reduce(
    threads: &Threads,
    largest: bool,
    axis: usize,
    input: &View,
    output: &View,
) -> Result<(), DeviceError> {
    check(axis, input, output, 1)?;
    if output.dtype != DType::I64 {
        return Err(wrong("indices must be int64"));
    }
    let to = Shared::new(output.start::<i64>());
    with_element!(input.dtype, T => {
        Rows::<T>::new(input, axis).each(threads, 1000, |number, row| {
            let index = extreme(row, largest);
            // SAFETY: there is one index for each row.
            unsafe { *to.get().add(number) = index as i64 };
        });
    });
    Ok(())
}

fn extreme<T: Element>(row: &[T], largest: bool) -> usize {
    let (mut best, mut at) = (row[0], 0);
    if best.is_nan() {
        return 0;
    }
    for (index, &value) in row.iter().enumerate().skip(1) {
        if value.is_nan() {
            return index;
        }
        if if largest { best.before(value) } else { value.before(best) } {
            (best, at) = (value, index);
        }
    }
    at
}

/// Cumulative sum or product. Halves are accumulated in f32 and rounded where they are written.
pub fn cumulative(
    threads: &Threads,
    axis: usize,
    product: bool,
    input: &View,
    output: &View,
) -> Result<(), DeviceError> {
    check(axis, input, output, input.shape().get(axis).copied().unwrap_or(0))?;
    if input.dtype != output.dtype {
        return Err(wrong("a cumulative sum must keep its element type"));
    }
    if input.shape()[axis + 1..].iter().product::<usize>() > 1 && input.walk().is_contiguous() {
        with_element!(input.dtype, T => accumulate_columns::<T>(threads, axis, product, input, output));
        return Ok(());
    }
    with_element!(input.dtype, T => {
        let rows = Rows::<T>::new(input, axis);
        let to = Shared::new(output.start::<T>());
        rows.each(threads, 2000, |number, row| {
            let start = rows.place(number, rows.length);
            let mut sum = if product { <T as Element>::Wide::ONE } else { <T as Element>::Wide::ZERO };
            for (n, value) in row.iter().enumerate() {
                sum = if product { sum.mul(value.widen()) } else { sum.add(value.widen()) };
                // SAFETY: every element of the row has a position in the output.
                unsafe { *to.get().add(start + n * rows.inner) = T::narrow(sum) };
            }
        });
    });
    Ok(())
}

/// Columns that are accumulated at a time.
const COLUMNS: usize = 1024;

/// Accumulates along an axis that is not the last, for many columns at a time; the input is contiguous.
fn accumulate_columns<T: Element>(
    threads: &Threads,
    axis: usize,
    product: bool,
    input: &View,
    output: &View,
) {
    let shape = input.shape();
    let (outer, length): (usize, usize) = (shape[..axis].iter().product(), shape[axis]);
    let inner: usize = shape[axis + 1..].iter().product();
    let (from, to) = (Shared::new(input.start::<T>()), Shared::new(output.start::<T>()));
    let stripes = inner.div_ceil(COLUMNS);
    threads.each(outer * stripes, input.elements() / 4, |task| {
        let (row, first) = (task / stripes, task % stripes * COLUMNS);
        let width = COLUMNS.min(inner - first);
        let mut sums = [if product { T::Wide::ONE } else { T::Wide::ZERO }; COLUMNS];
        for step in 0..length {
            let at = (row * length + step) * inner + first;
            // SAFETY: these columns of this row are within both operands, and no other task has them.
            let (from, to) = unsafe {
                let from = std::slice::from_raw_parts(from.get().add(at).cast_const(), width);
                (from, std::slice::from_raw_parts_mut(to.get().add(at), width))
            };
            for ((sum, &value), to) in sums.iter_mut().zip(from).zip(to) {
                *sum = if product { sum.mul(value.widen()) } else { sum.add(value.widen()) };
                *to = T::narrow(*sum);
            }
        }
    });
}
