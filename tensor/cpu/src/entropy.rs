//! Cross-entropy of logits and classes, and its gradient, without storing probabilities: each row is read while it is in the
//! cache, computed in f32 (f64 for f64) and rounded once.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::step::Reduction;

use crate::element::{Element, Number};
use crate::fold::Folder;
use crate::level::{Level, leveled};
use crate::rows::{Real, each_row, exponentials, folded, folder_of, narrow, widen, with_float};
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::{Walk, gather};

leveled! {
    /// `to = exp(from - less) * by`. Safety: both hold `n` elements and do not overlap.
    unsafe fn shares<W: Real>(from: *const W, less: W, by: W, to: *mut W, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(i) = (*from.add(i)).sub(less).exp().mul(by) };
        }
    }
}

/// Rows of logits along an axis.
struct Rows<T> {
    from: Shared<T>,
    walk: Walk,
    length: usize,
    count: usize,
    inner: usize,
    /// Whether a row can be read in place.
    direct: bool,
    level: Level,
}

impl<T: Element<Wide: Real>> Rows<T> {
    fn new(logits: &View, axis: usize, level: Level) -> Rows<T> {
        let shape = logits.shape();
        let mut order: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).collect();
        order.push(axis);
        let walk = logits.walk_of(&order);
        let direct = walk.is_contiguous() && T::Wide::DTYPE == logits.dtype;
        Rows {
            from: Shared::new(logits.start()),
            walk,
            length: shape[axis],
            count: logits.elements().checked_div(shape[axis]).unwrap_or(0),
            inner: shape[axis + 1..].iter().product(),
            direct,
            level,
        }
    }

    /// Returns a row in the type it is computed in; `room` is used if it is elsewhere or has another type.
    ///
    /// # Safety
    /// The row exists; both rooms have space for it.
    unsafe fn row(&self, number: usize, raw: &mut [T], room: &mut [T::Wide]) -> *const T::Wide {
        let start = number * self.length;
        // SAFETY: guaranteed by the caller; a direct row has the type it is computed in.
        unsafe {
            if self.direct {
                return self.from.get().add(start).cast_const().cast();
            }
            gather(self.from.get().cast_const(), &self.walk, start, self.length, raw.as_mut_ptr());
            widen::<T>(self.level, raw.as_ptr(), room.as_mut_ptr(), self.length);
        }
        room.as_ptr()
    }
}

fn check(axis: usize, logits: &View, alike: &[&View]) -> Result<(), DeviceError> {
    let mut small = logits.shape().to_vec();
    if axis >= small.len() {
        return Err(wrong("a cross-entropy has no axis of classes"));
    }
    small[axis] = 1;
    if alike.iter().all(|view| view.shape() == small) && alike[0].dtype == DType::I64 {
        return Ok(());
    }
    Err(wrong("the operands of a cross-entropy do not match"))
}

/// The type that a row is computed in.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

pub fn loss(
    threads: &Threads,
    axis: usize,
    logits: &View,
    classes: &View,
    outputs: &[View],
) -> Result<(), DeviceError> {
    let [losses, sums] = outputs else { return Err(wrong("a cross-entropy has two outputs")) };
    check(axis, logits, &[classes, losses, sums])?;
    if [losses, sums].iter().any(|view| view.dtype != wide(logits.dtype)) {
        return Err(wrong("a cross-entropy's outputs have the wrong type"));
    }
    with_float!(logits.dtype, T => {
        loss_of::<T>(threads, axis, logits, classes, losses, sums);
        Ok(())
    })
}

fn loss_of<T: Element<Wide: Real>>(
    threads: &Threads,
    axis: usize,
    logits: &View,
    classes: &View,
    losses: &View,
    sums: &View,
) {
    let level = threads.level();
    let rows = Rows::<T>::new(logits, axis, level);
    let [largest, sum]: [Folder; 2] =
        [Reduction::Max, Reduction::Sum].map(|one| folder_of::<T::Wide>(one, level));
    let class_walk = classes.walk();
    let from = Shared::new(classes.start::<i64>());
    let (to, logarithms) = (Shared::new(losses.start::<T::Wide>()), Shared::new(sums.start::<T::Wide>()));
    each_row(threads, rows.count, rows.length, 1000, |range| {
        let mut raw = vec![T::narrow(T::Wide::ZERO); rows.length];
        let mut room = vec![T::Wide::ZERO; rows.length];
        let mut powers = vec![T::Wide::ZERO; rows.length];
        for number in range {
            // SAFETY: the row exists, and so do its class and outputs; a class is checked before it is used.
            unsafe {
                let row = rows.row(number, &mut raw, &mut room);
                let most = folded(&largest, row, rows.length);
                exponentials(level, row, most, powers.as_mut_ptr(), rows.length);
                let logarithm = folded(&sum, powers.as_ptr(), rows.length).ln();
                let class = *from.get().offset(class_walk.offset(number));
                let value = match usize::try_from(class) {
                    // The maximum is subtracted first: its sum with the logarithm could lose all digits of that.
                    Ok(class) if class < rows.length => logarithm.sub((*row.add(class)).sub(most)),
                    // It was out of bounds.
                    _ if class == -1 => T::Wide::of(f64::NAN),
                    _ => T::Wide::ZERO,
                };
                *to.get().add(number) = value;
                *logarithms.get().add(number) = most.add(logarithm);
            }
        }
    });
}

/// The gradient for the logits.
pub fn gradient(threads: &Threads, axis: usize, inputs: &[View], output: &View) -> Result<(), DeviceError> {
    let [logits, classes, sums, gradients] = inputs else {
        return Err(wrong("the gradient of a cross-entropy has four inputs"));
    };
    check(axis, logits, &[classes, sums, gradients])?;
    if [sums, gradients].iter().any(|view| view.dtype != wide(logits.dtype))
        || output.shape() != logits.shape()
        || output.dtype != logits.dtype
    {
        return Err(wrong("the operands of a cross-entropy's gradient do not match"));
    }
    with_float!(logits.dtype, T => {
        gradient_of::<T>(threads, axis, logits, classes, [sums, gradients], output);
        Ok(())
    })
}

fn gradient_of<T: Element<Wide: Real>>(
    threads: &Threads,
    axis: usize,
    logits: &View,
    classes: &View,
    [sums, gradients]: [&View; 2],
    output: &View,
) {
    let level = threads.level();
    let rows = Rows::<T>::new(logits, axis, level);
    let (class_walk, sum_walk, gradient_walk) = (classes.walk(), sums.walk(), gradients.walk());
    let from = Shared::new(classes.start::<i64>());
    let (logarithms, given) =
        (Shared::new(sums.start::<T::Wide>()), Shared::new(gradients.start::<T::Wide>()));
    let to = Shared::new(output.start::<T>());
    let direct = rows.inner == 1 && T::Wide::DTYPE == output.dtype;
    each_row(threads, rows.count, rows.length, 1000, |range| {
        let mut raw = vec![T::narrow(T::Wide::ZERO); rows.length];
        let mut room = vec![T::Wide::ZERO; rows.length];
        let mut answers = vec![T::Wide::ZERO; rows.length];
        for number in range {
            // SAFETY: the row exists, and so do its class, sum and gradient; a class is checked before it is used; rows of the
            // output do not overlap.
            unsafe {
                let class = *from.get().offset(class_walk.offset(number));
                let class = usize::try_from(class).ok().filter(|&class| class < rows.length);
                let by = *given.get().offset(gradient_walk.offset(number));
                let answer = match direct {
                    true => to.get().add(number * rows.length).cast::<T::Wide>(),
                    false => answers.as_mut_ptr(),
                };
                match class {
                    Some(class) => {
                        let row = rows.row(number, &mut raw, &mut room);
                        let logarithm = *logarithms.get().offset(sum_walk.offset(number));
                        shares(level, row, logarithm, by, answer, rows.length);
                        *answer.add(class) = (*answer.add(class)).sub(by);
                    }
                    None => (0..rows.length).for_each(|n| *answer.add(n) = T::Wide::ZERO),
                }
                if !direct {
                    narrow::<T>(level, answer.cast_const(), raw.as_mut_ptr(), rows.length);
                    let start =
                        to.get().add(number / rows.inner * rows.inner * rows.length + number % rows.inner);
                    for (n, &value) in raw.iter().enumerate() {
                        *start.add(n * rows.inner) = value;
                    }
                }
            }
        }
    });
}
