//! Maximum pooling, with the position of each maximum.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;

use crate::element::Element;
use crate::level::leveled;
use crate::threads::{Shared, Threads};
use crate::view::{View, wrong};
use crate::walk::Walk;

/// The windows along each pooled axis.
pub struct MaxPool<'a> {
    pub kernel: &'a [usize],
    pub stride: &'a [usize],
    pub padding: &'a [usize],
    pub dilation: &'a [usize],
}

/// The least value of a type, which a window without elements has.
trait Least: Element {
    const LEAST: Self;
}

macro_rules! least {
    ($($T:ty: $least:expr;)*) => {$(
        impl Least for $T {
            const LEAST: $T = $least;
        }
    )*};
}

least! {
    u8: 0;
    u16: 0;
    u32: 0;
    u64: 0;
    i8: i8::MIN;
    i16: i16::MIN;
    i32: i32::MIN;
    i64: i64::MIN;
    half::f16: half::f16::NEG_INFINITY;
    half::bf16: half::bf16::NEG_INFINITY;
    f32: f32::NEG_INFINITY;
    f64: f64::NEG_INFINITY;
}

leveled! {
    /// Replaces values by elements of a line that are after them in order, and their positions. A negative position has no value
    /// yet. Safety: `best` and `places` hold `n` elements, `line` holds one every `step` elements.
    unsafe fn raise<T: Element>(line: *const T, step: usize, first: i32, best: *mut T, places: *mut i32, n: usize) {
        macro_rules! each {
            ($step:expr) => {
                for i in 0..n {
                    // SAFETY: guaranteed by the caller.
                    unsafe {
                        let value = *line.add(i.wrapping_mul($step));
                        let (old, place) = (*best.add(i), *places.add(i));
                        let better = (place < 0) | old.before(value);
                        *best.add(i) = if better { value } else { old };
                        *places.add(i) = if better { first.wrapping_add(i.wrapping_mul($step) as i32) } else { place };
                    }
                }
            };
        }
        match step {
            1 => each!(1),
            2 => each!(2),
            _ => each!(step),
        }
    }
}

impl MaxPool<'_> {
    pub fn run(&self, threads: &Threads, input: &View, outputs: &[View]) -> Result<(), DeviceError> {
        let Some((values, places)) = outputs.split_first() else { return Ok(()) };
        let (axes, shape) = (self.kernel.len(), input.shape());
        let fits = axes > 0
            && [self.stride, self.padding, self.dilation].iter().all(|option| option.len() == axes)
            && shape.len() >= axes
            && values.shape().len() == shape.len()
            && values.shape()[..shape.len() - axes] == shape[..shape.len() - axes]
            && values.dtype == input.dtype
            && places.len() <= 1
            && places.iter().all(|places| places.shape() == values.shape() && places.dtype == DType::I64);
        let plane: usize = shape.iter().rev().take(axes).product();
        if !fits {
            return Err(wrong("the operands of a pooling do not match"));
        }
        if i32::try_from(plane).is_err() {
            return Err(DeviceError::Unsupported(format!("a pooling of planes of {plane} elements")));
        }
        macro_rules! go {
            ($($dtype:ident $T:ty,)*) => {
                match input.dtype {
                    $(DType::$dtype => self.of::<$T>(threads, input, values, places.first()),)*
                    other => return Err(DeviceError::Unsupported(format!("a maximum pooling of {other}"))),
                }
            };
        }
        go!(
            U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
        );
        Ok(())
    }

    fn of<T: Least>(&self, threads: &Threads, input: &View, values: &View, places: Option<&View>) {
        let axes = self.kernel.len();
        let outer = input.shape().len() - axes;
        let (lengths, strides) = (&input.shape()[outer..], &input.layout.strides[outer..]);
        let planes = Walk::new(&input.shape()[..outer], &input.layout.strides[..outer]);
        let counts = &values.shape()[outer..];
        let wide = counts[axes - 1];
        let lines: usize = counts[..axes - 1].iter().product();
        let count: usize = input.shape()[..outer].iter().product();
        let reach: usize = self.kernel.iter().product();
        let from = Shared::new(input.start::<T>());
        let to = Shared::new(values.start::<T>());
        let indices = places.map(|view| Shared::new(view.start::<i64>()));
        threads.each(count, count * lines * wide * reach / 4, |number| {
            // SAFETY: the plane exists.
            let plane = unsafe { from.get().offset(planes.offset(number)).cast_const() };
            let mut found = vec![-1_i32; wide];
            let mut line = vec![T::LEAST; lengths[axes - 1]];
            for at in 0..lines {
                // SAFETY: this line of the output is in memory, and no other task writes it.
                let best = unsafe {
                    std::slice::from_raw_parts_mut(to.get().add((number * lines + at) * wide), wide)
                };
                best.fill(T::LEAST);
                found.fill(-1);
                self.each_line(at, counts, lengths, |position| {
                    let (mut offset, mut rest) = (0, position);
                    for axis in (0..axes - 1).rev() {
                        offset += (rest % lengths[axis]) as isize * strides[axis];
                        rest /= lengths[axis];
                    }
                    // SAFETY: the line is within the view.
                    let source = unsafe { plane.offset(offset) };
                    let start = if strides[axes - 1] == 1 {
                        source
                    } else {
                        for (n, to) in line.iter_mut().enumerate() {
                            // SAFETY: as above.
                            *to = unsafe { *source.offset(n as isize * strides[axes - 1]) };
                        }
                        line.as_ptr()
                    };
                    let first = (position * lengths[axes - 1]) as i32;
                    self.along(threads, start, first, lengths[axes - 1], best, &mut found);
                });
                if let Some(indices) = indices {
                    // SAFETY: as for the values.
                    let to = unsafe { indices.get().add((number * lines + at) * wide) };
                    for (n, &place) in found.iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { *to.add(n) = i64::from(place) };
                    }
                }
            }
        });
    }

    /// Calls `task` with the number of each line of the input in the windows of a line of the output.
    fn each_line(&self, at: usize, counts: &[usize], lengths: &[usize], mut task: impl FnMut(usize)) {
        let leading = self.kernel.len() - 1;
        let windows: usize = self.kernel[..leading].iter().product();
        'windows: for number in 0..windows {
            let (mut window, mut within, mut line, mut size) = (at, number, 0, 1);
            for axis in (0..leading).rev() {
                let place = window % counts[axis] * self.stride[axis]
                    + within % self.kernel[axis] * self.dilation[axis];
                let Some(place) =
                    place.checked_sub(self.padding[axis]).filter(|&place| place < lengths[axis])
                else {
                    continue 'windows;
                };
                line += place * size;
                size *= lengths[axis];
                window /= counts[axis];
                within /= self.kernel[axis];
            }
            task(line);
        }
    }

    /// Raises the maxima of a line of windows by a line of `length` elements, whose first has this position.
    fn along<T: Element>(
        &self,
        threads: &Threads,
        line: *const T,
        first: i32,
        length: usize,
        best: &mut [T],
        found: &mut [i32],
    ) {
        let last = self.kernel.len() - 1;
        let (step, padding) = (self.stride[last], self.padding[last]);
        for within in 0..self.kernel[last] {
            let shift = within * self.dilation[last];
            // Windows whose element is inside the line.
            let from = padding.saturating_sub(shift).div_ceil(step);
            let end = (length + padding).saturating_sub(shift).div_ceil(step).min(best.len());
            if from >= end {
                continue;
            }
            let start = from * step + shift - padding;
            // SAFETY: these elements are inside the line, and there is a maximum for each window.
            unsafe {
                raise(
                    threads.level(),
                    line.add(start),
                    step,
                    first + start as i32,
                    best.as_mut_ptr().add(from),
                    found.as_mut_ptr().add(from),
                    end - from,
                );
            }
        }
    }
}
