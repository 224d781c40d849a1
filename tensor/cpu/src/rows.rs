//! Softmax and normalisation: rows that are read several times while in the cache, computed in f32 (f64 for f64) and rounded
//! once.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::step::Reduction;

use crate::element::{Element, Number};
use crate::fold::{Folder, folder};
use crate::level::{Level, leveled};
use crate::math;
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::{Walk, gather};

/// A type that rows are computed in.
pub trait Real: Number + PartialOrd {
    const DTYPE: DType;
    fn of(value: f64) -> Self;
    fn sub(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
}

macro_rules! reals {
    ($($T:ident, $dtype:expr, $exp:path;)*) => {$(
        impl Real for $T {
            const DTYPE: DType = $dtype;
            #[inline(always)]
            fn of(value: f64) -> $T { value as $T }
            #[inline(always)]
            fn sub(self, other: $T) -> $T { self - other }
            #[inline(always)]
            fn div(self, other: $T) -> $T { self / other }
            #[inline(always)]
            fn exp(self) -> $T { $exp(self) }
            #[inline(always)]
            fn ln(self) -> $T { self.ln() }
            #[inline(always)]
            fn sqrt(self) -> $T { self.sqrt() }
        }
    )*};
}

reals! {
    f32, DType::F32, math::exp;
    f64, DType::F64, f64::exp;
}

leveled! {
    /// `to = exp(from - less)`. Safety: both hold `n` elements and do not overlap.
    pub unsafe fn exponentials<W: Real>(from: *const W, less: W, to: *mut W, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(i) = (*from.add(i)).sub(less).exp() };
        }
    }
}

leveled! {
    /// `row *= by`. Safety: it holds `n` elements.
    unsafe fn scale<W: Real>(row: *mut W, by: W, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe { *row.add(i) = (*row.add(i)).mul(by) };
        }
    }
}

leveled! {
    /// `to = from - less`. Safety: both hold `n` elements and do not overlap.
    unsafe fn shift<W: Real>(from: *const W, less: W, to: *mut W, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(i) = (*from.add(i)).sub(less) };
        }
    }
}

leveled! {
    /// `to = (from - less)^2`. Safety: both hold `n` elements and do not overlap.
    unsafe fn squares<W: Real>(from: *const W, less: W, to: *mut W, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let apart = (*from.add(i)).sub(less);
                *to.add(i) = apart.mul(apart);
            }
        }
    }
}

leveled! {
    /// `to = (from - less) * by * weight + bias`; null operands are skipped. Safety: all others hold `n` elements, and `to` does
    /// not overlap them.
    unsafe fn spread<W: Real>(from: *const W, less: W, by: W, weight: *const W, bias: *const W, to: *mut W, n: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match (weight.is_null(), bias.is_null()) {
                (true, true) => for i in 0..n {
                    *to.add(i) = (*from.add(i)).sub(less).mul(by);
                },
                (false, true) => for i in 0..n {
                    *to.add(i) = (*from.add(i)).sub(less).mul(by).mul(*weight.add(i));
                },
                (true, false) => for i in 0..n {
                    *to.add(i) = (*from.add(i)).sub(less).mul(by).add(*bias.add(i));
                },
                (false, false) => for i in 0..n {
                    *to.add(i) = (*from.add(i)).sub(less).mul(by).fma(*weight.add(i), *bias.add(i));
                },
            }
        }
    }
}

leveled! {
    /// Safety: both hold `n` elements and do not overlap.
    pub unsafe fn widen<T: Element>(from: *const T, to: *mut T::Wide, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(i) = (*from.add(i)).widen() };
        }
    }
}

leveled! {
    /// Safety: both hold `n` elements and do not overlap.
    pub unsafe fn narrow<T: Element>(from: *const T::Wide, to: *mut T, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(i) = T::narrow(*from.add(i)) };
        }
    }
}

/// Runs an expression with the Rust type of a float element type.
macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F16 => {
                type $T = half::f16;
                $body
            }
            DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            other => Err(DeviceError::Unsupported(format!("softmax or normalisation of {other}"))),
        }
    };
}

pub(crate) use with_float;

pub fn softmax(
    threads: &Threads,
    axis: usize,
    log: bool,
    input: &View,
    output: &View,
) -> Result<(), DeviceError> {
    if input.shape() != output.shape() || axis >= input.shape().len() || input.dtype != output.dtype {
        return Err(wrong("the operands of a softmax do not match"));
    }
    with_float!(input.dtype, T => {
        softmax_of::<T>(threads, axis, log, input, output);
        Ok(())
    })
}

fn softmax_of<T: Element<Wide: Real>>(
    threads: &Threads,
    axis: usize,
    log: bool,
    input: &View,
    output: &View,
) {
    let shape = input.shape();
    let length = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    let rows = input.elements() / length.max(1);
    if input.elements() == 0 {
        return;
    }
    let mut order: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).collect();
    order.push(axis);
    let walk = input.walk_of(&order);
    let (from, to) = (Shared::new(input.start::<T>()), Shared::new(output.start::<T>()));
    let direct = inner == 1 && input.walk().is_contiguous() && T::Wide::DTYPE == input.dtype;
    let row = Softmax::new(log, threads.level());
    each_row(threads, rows, length, 1500, |range| {
        let mut buffer = vec![T::Wide::ZERO; length * 2];
        let mut raw = vec![T::narrow(T::Wide::ZERO); length];
        for number in range {
            // SAFETY: views are within their buffers, rows do not overlap; a direct row has the type it is computed in.
            unsafe {
                if direct {
                    let at = number * length;
                    let to = to.get().add(at).cast::<T::Wide>();
                    row.run(from.get().add(at).cast_const().cast(), to, length);
                    continue;
                }
                gather(from.get().cast_const(), &walk, number * length, length, raw.as_mut_ptr());
                let (wide, answer) = buffer.split_at_mut(length);
                widen::<T>(row.level, raw.as_ptr(), wide.as_mut_ptr(), length);
                row.run(wide.as_ptr(), answer.as_mut_ptr(), length);
                narrow::<T>(row.level, answer.as_ptr(), raw.as_mut_ptr(), length);
                let start = to.get().add(number / inner * inner * length + number % inner);
                for (n, &value) in raw.iter().enumerate() {
                    *start.add(n * inner) = value;
                }
            }
        }
    });
}

struct Softmax<W> {
    log: bool,
    level: Level,
    largest: Folder,
    sum: Folder,
    of: std::marker::PhantomData<W>,
}

pub fn folder_of<W: Real>(reduction: Reduction, level: Level) -> Folder {
    folder(reduction, W::DTYPE, level).expect("every reduction is defined for floats")
}

/// # Safety
/// The row holds `n` elements of the folder's type.
pub unsafe fn folded<W: Real>(folder: &Folder, row: *const W, n: usize) -> W {
    let mut value = W::ZERO;
    // SAFETY: guaranteed by the caller.
    unsafe { (folder.row)(row.cast(), n, (&raw mut value).cast()) };
    value
}

impl<W: Real> Softmax<W> {
    fn new(log: bool, level: Level) -> Softmax<W> {
        let [largest, sum] = [Reduction::Max, Reduction::Sum].map(|one| folder_of::<W>(one, level));
        Softmax { log, level, largest, sum, of: std::marker::PhantomData }
    }

    /// # Safety
    /// Both hold `n` elements and do not overlap.
    unsafe fn run(&self, from: *const W, to: *mut W, n: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let largest = folded(&self.largest, from, n);
            exponentials(self.level, from, largest, to, n);
            let sum = folded(&self.sum, to.cast_const(), n);
            if self.log {
                // Subtract the maximum first: its sum with the logarithm could lose all digits of the logarithm.
                shift(self.level, from, largest, to, n);
                let logarithm = sum.ln();
                for i in 0..n {
                    *to.add(i) = (*to.add(i)).sub(logarithm);
                }
            } else {
                scale(self.level, to, W::ONE.div(sum), n);
            }
        }
    }
}

pub fn normalise(
    threads: &Threads,
    axes: usize,
    epsilon: f64,
    inputs: &[View],
    outputs: &[View],
) -> Result<(), DeviceError> {
    let ([input, affine @ ..], [output, statistics @ ..]) = (inputs, outputs) else {
        return Err(wrong("a normalisation needs an input and an output"));
    };
    let shape = input.shape();
    let kept = shape
        .len()
        .checked_sub(axes)
        .ok_or_else(|| wrong("a normalisation has more axes than its input has"))?;
    let mut small = shape.to_vec();
    small[kept..].fill(1);
    let wide = if input.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    if affine.len() > 2
        || statistics.len() > 2
        || affine.iter().chain([output]).any(|view| view.shape() != shape)
        || output.dtype != input.dtype
        || affine.iter().any(|view| view.dtype != input.dtype && view.dtype != wide)
        || statistics.iter().any(|view| view.shape() != small || view.dtype != wide)
    {
        return Err(wrong("the operands of a normalisation do not match"));
    }
    with_float!(input.dtype, T => {
        normalise_of::<T>(threads, kept, epsilon, input, affine, output, statistics);
        Ok(())
    })
}

/// A weight or a bias: one row for all, or a different one for each.
struct Affine<W> {
    view: (Shared<u8>, DType),
    walk: Walk,
    /// Whether all rows are equal.
    same: bool,
    row: Vec<W>,
    level: Level,
}

impl<W: Real> Affine<W> {
    fn new<T: Element<Wide = W>>(view: &View, kept: usize, length: usize, level: Level) -> Affine<W> {
        let same = (0..kept).all(|axis| view.layout.strides[axis] == 0 || view.shape()[axis] == 1);
        let view_of = (Shared::new(view.start()), view.dtype);
        let row = vec![W::ZERO; length];
        let mut affine = Affine { view: view_of, walk: view.walk(), same, row, level };
        affine.read::<T>(0);
        affine
    }

    fn read<T: Element<Wide = W>>(&mut self, number: usize) {
        let (length, start) = (self.row.len(), number * self.row.len());
        // SAFETY: the view is within its buffer for all rows; its type is one of these two, as was checked.
        unsafe {
            if self.view.1 == W::DTYPE {
                let from = self.view.0.get().cast::<W>().cast_const();
                gather(from, &self.walk, start, length, self.row.as_mut_ptr());
            } else {
                let mut raw = vec![T::narrow(W::ZERO); length];
                let from = self.view.0.get().cast::<T>().cast_const();
                gather(from, &self.walk, start, length, raw.as_mut_ptr());
                widen::<T>(self.level, raw.as_ptr(), self.row.as_mut_ptr(), length);
            }
        }
    }

    /// Returns the row with this number.
    fn at<T: Element<Wide = W>>(&mut self, number: usize) -> *const W {
        if !self.same {
            self.read::<T>(number);
        }
        self.row.as_ptr()
    }
}

fn normalise_of<T: Element<Wide: Real>>(
    threads: &Threads,
    kept: usize,
    epsilon: f64,
    input: &View,
    affine: &[View],
    output: &View,
    statistics: &[View],
) {
    let length: usize = input.shape()[kept..].iter().product();
    let rows: usize = input.shape()[..kept].iter().product();
    if length == 0 || rows == 0 {
        return;
    }
    let walk = input.walk();
    let direct = walk.is_contiguous() && T::Wide::DTYPE == input.dtype;
    let (from, to) = (Shared::new(input.start::<T>()), Shared::new(output.start::<T>()));
    let places: Vec<Shared<T::Wide>> = statistics.iter().map(|view| Shared::new(view.start())).collect();
    let level = threads.level();
    let sum = folder_of::<T::Wide>(Reduction::Sum, level);
    let (count, epsilon) = (T::Wide::of(length as f64), T::Wide::of(epsilon));
    each_row(threads, rows, length, 600, |range| {
        let mut affine: Vec<_> =
            affine.iter().map(|view| Affine::new::<T>(view, kept, length, level)).collect();
        let mut raw = vec![T::narrow(T::Wide::ZERO); if direct { 0 } else { length }];
        let mut wide = vec![T::Wide::ZERO; if direct { 0 } else { length }];
        let mut other = vec![T::Wide::ZERO; length];
        for number in range {
            // SAFETY: views are within their buffers, rows do not overlap; a direct row has the type it is computed in.
            unsafe {
                let row = if direct {
                    from.get().add(number * length).cast_const().cast::<T::Wide>()
                } else {
                    gather(from.get().cast_const(), &walk, number * length, length, raw.as_mut_ptr());
                    widen::<T>(level, raw.as_ptr(), wide.as_mut_ptr(), length);
                    wide.as_ptr()
                };
                let mean = folded(&sum, row, length).div(count);
                squares(level, row, mean, other.as_mut_ptr(), length);
                let variance = folded(&sum, other.as_ptr(), length).div(count);
                let factor = T::Wide::ONE.div(variance.add(epsilon).sqrt());
                let mut at = [std::ptr::null(); 2];
                for (place, one) in at.iter_mut().zip(&mut affine) {
                    *place = one.at::<T>(number);
                }
                let answer = match direct {
                    true => to.get().add(number * length).cast::<T::Wide>(),
                    false => other.as_mut_ptr(),
                };
                spread(level, row, mean, factor, at[0], at[1], answer, length);
                if !direct {
                    narrow::<T>(level, answer.cast_const(), to.get().add(number * length), length);
                }
                for (place, value) in places.iter().zip([mean, factor]) {
                    *place.get().add(number) = value;
                }
            }
        }
    });
}

/// Divides rows into tasks of worthwhile size; `picoseconds` is the estimated cost of one element.
pub fn each_row(
    threads: &Threads,
    rows: usize,
    length: usize,
    picoseconds: usize,
    task: impl Fn(std::ops::Range<usize>) + Sync,
) {
    let share = (32_768 / length.max(1)).max(1);
    let cost = rows.saturating_mul(length).saturating_mul(picoseconds) / 1000;
    threads.each(rows.div_ceil(share), cost, |number| {
        task(number * share..rows.min((number + 1) * share));
    });
}
