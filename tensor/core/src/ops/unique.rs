//! Grouping of equal elements. Computed on the host, because the number of groups depends on the elements.

use std::cmp::Ordering;

use half::{bf16, f16};

use crate::dtype::{DType, Kind};
use crate::layout::Shape;
use crate::ops::axes::{Axes, axis};
use crate::ops::shape::{permuted, to_shape};
use crate::ops::sort::sort;
use crate::tensor::{Result, Tensor};

/// Groups of equal elements or slices, in ascending order. NaN is never equal to another NaN.
#[derive(Debug)]
pub struct Groups {
    /// The index of the first member of each group.
    pub first: Tensor,
    /// The group of each element; in the shape of the tensor, or a vector if slices are compared.
    pub inverse: Tensor,
    /// How often each element occurs.
    pub counts: Tensor,
}

/// Groups all elements by their row-major position, or the slices along an axis.
pub fn groups(x: &Tensor, dim: Option<isize>) -> Result<Groups> {
    let (rows, shape) = match dim {
        None => (to_shape(&x.snapshot(), &[x.elements(), 1])?, Shape::from(x.shape())),
        Some(dim) => {
            let axis = axis("unique", dim, x.rank())?;
            let length = x.shape().get(axis).copied().unwrap_or(1);
            let mut order: Axes = (0..x.rank()).filter(|&other| other != axis).collect();
            if x.rank() > 0 {
                order.insert(0, axis);
            }
            let width = x.elements().checked_div(length).unwrap_or(0);
            (to_shape(&permuted(&x.snapshot(), &order), &[length, width])?, Shape::from_elem(length, 1))
        }
    };
    let (count, width) = (rows.shape()[0], rows.shape()[1]);
    if width == 1 && !x.dtype().is_complex() && count > 0 {
        return numbers(x, &to_shape(&rows, &[count])?, &shape);
    }
    let keys: Vec<Key> =
        rows.to_bytes()?.chunks_exact(x.dtype().bytes()).map(|bytes| Key::new(bytes, x.dtype())).collect();
    let row = |at: usize| &keys[at * width..(at + 1) * width];
    let compare = |a: usize, b: usize| {
        row(a)
            .iter()
            .zip(row(b))
            .map(|(a, b)| a.compare(b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    let (mut first, mut counts, mut inverse) = (Vec::<i64>::new(), Vec::<i64>::new(), vec![0_i64; count]);
    for (n, &at) in order.iter().enumerate() {
        let same = n > 0 && compare(order[n - 1], at).is_eq() && !row(at).iter().any(Key::is_nan);
        match counts.last_mut() {
            Some(count) if same => *count += 1,
            _ => {
                first.push(at as i64);
                counts.push(1);
            }
        }
        inverse[at] = first.len() as i64 - 1;
    }
    Groups::new(x, &first, (&inverse, &shape), &counts)
}

/// Groups numbers, which the device sorts.
fn numbers(x: &Tensor, row: &Tensor, shape: &[usize]) -> Result<Groups> {
    let (values, places) = sort(row, 0, false)?;
    crate::execute::eval(&[values.clone(), places.clone()])?;
    let (values, places) = (values.to_bytes()?, places.to_bytes()?);
    let places = places.as_chunks::<8>().0;
    let (mut first, mut counts) = (Vec::<i64>::new(), Vec::<i64>::new());
    let mut inverse = vec![0_i64; places.len()];
    macro_rules! group {
        ($T:ty, |$a:ident, $b:ident| $same:expr) => {
            let mut before: Option<$T> = None;
            for (value, &at) in values.as_chunks::<{ size_of::<$T>() }>().0.iter().zip(places) {
                let (value, at) = (<$T>::from_le_bytes(*value), i64::from_le_bytes(at));
                let same = |$a: $T, $b: $T| $same;
                match (before, counts.last_mut()) {
                    (Some(before), Some(count)) if same(before, value) => *count += 1,
                    _ => {
                        first.push(at);
                        counts.push(1);
                    }
                }
                before = Some(value);
                inverse[at as usize] = first.len() as i64 - 1;
            }
        };
    }
    match x.dtype() {
        DType::F16 => {
            group!(f16, |a, b| a == b);
        }
        DType::BF16 => {
            group!(bf16, |a, b| a == b);
        }
        DType::F32 => {
            group!(f32, |a, b| a == b);
        }
        DType::F64 => {
            group!(f64, |a, b| a == b);
        }
        dtype => match dtype.bytes() {
            1 => {
                group!(u8, |a, b| a == b);
            }
            2 => {
                group!(u16, |a, b| a == b);
            }
            4 => {
                group!(u32, |a, b| a == b);
            }
            _ => {
                group!(u64, |a, b| a == b);
            }
        },
    }
    Groups::new(x, &first, (&inverse, shape), &counts)
}

impl Groups {
    fn new(x: &Tensor, first: &[i64], inverse: (&[i64], &[usize]), counts: &[i64]) -> Result<Groups> {
        let made = |numbers: &[i64], shape: &[usize]| {
            let mut bytes = vec![0; numbers.len() * 8];
            for (to, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
                *to = number.to_le_bytes();
            }
            Tensor::from_bytes(x.device(), DType::I64, shape, &bytes)
        };
        Ok(Groups {
            first: made(first, &[first.len()])?,
            inverse: made(inverse.0, inverse.1)?,
            counts: made(counts, &[counts.len()])?,
        })
    }
}

/// One element in comparable form.
enum Key {
    Whole(i128),
    Fraction(f64, f64),
}

impl Key {
    fn new(bytes: &[u8], dtype: DType) -> Key {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        match dtype.kind() {
            Kind::Bool | Kind::Unsigned => Key::Whole(i128::from(bits)),
            Kind::Signed => {
                let unused = 64 - 8 * bytes.len() as u32;
                Key::Whole(i128::from((bits << unused).cast_signed() >> unused))
            }
            Kind::Float => Key::Fraction(
                match dtype {
                    DType::F16 => f64::from(f16::from_bits(bits as u16)),
                    DType::BF16 => f64::from(bf16::from_bits(bits as u16)),
                    DType::F32 => f64::from(f32::from_bits(bits as u32)),
                    _ => f64::from_bits(bits),
                },
                0.0,
            ),
            Kind::Complex => {
                let part = |shift: u32| f64::from(f32::from_bits((bits >> shift) as u32));
                Key::Fraction(part(0), part(32))
            }
        }
    }

    /// NaN sorts last; both zeros are equal.
    fn compare(&self, other: &Key) -> Ordering {
        let part = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        match (self, other) {
            (Key::Whole(a), Key::Whole(b)) => a.cmp(b),
            (Key::Fraction(a, x), Key::Fraction(b, y)) => part(*a, *b).then_with(|| part(*x, *y)),
            _ => Ordering::Equal,
        }
    }

    fn is_nan(&self) -> bool {
        matches!(self, Key::Fraction(a, b) if a.is_nan() || b.is_nan())
    }
}
