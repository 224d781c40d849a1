//! A dense matrix in host memory, of f64 or Complex64.

use std::fmt::Debug;
use std::ops::{Add, Div, Index, IndexMut, Mul, Neg, Sub};

use num_complex::Complex64;

use crate::dtype::DType;

/// The entry type of a matrix: f64 or Complex64.
pub(crate) trait Entry:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    fn of(real: f64) -> Self;
    fn real(self) -> f64;
    fn conj(self) -> Self;
    /// The absolute value.
    fn size(self) -> f64;
    /// Reads one element of a tensor of this type.
    fn read(bytes: &[u8], dtype: DType) -> Self;
    /// Appends the number as an element of a tensor of this type; real types take the real part.
    fn write(self, dtype: DType, into: &mut Vec<u8>);

    /// The number divided by its absolute value; one for zero.
    fn direction(self) -> Self {
        if self.size() == 0.0 { Self::of(1.0) } else { self / Self::of(self.size()) }
    }
}

impl Entry for f64 {
    fn of(real: f64) -> f64 {
        real
    }

    fn real(self) -> f64 {
        self
    }

    fn conj(self) -> f64 {
        self
    }

    fn size(self) -> f64 {
        self.abs()
    }

    fn read(bytes: &[u8], dtype: DType) -> f64 {
        if dtype == DType::F64 {
            f64::from_le_bytes(bytes.try_into().unwrap_or_default())
        } else {
            f64::from(f32::from_le_bytes(bytes.try_into().unwrap_or_default()))
        }
    }

    fn write(self, dtype: DType, into: &mut Vec<u8>) {
        if dtype == DType::F64 {
            into.extend(self.to_le_bytes());
        } else {
            into.extend((self as f32).to_le_bytes());
        }
    }
}

impl Entry for Complex64 {
    fn of(real: f64) -> Complex64 {
        Complex64::new(real, 0.0)
    }

    fn real(self) -> f64 {
        self.re
    }

    fn conj(self) -> Complex64 {
        Complex64::conj(&self)
    }

    fn size(self) -> f64 {
        self.re.hypot(self.im)
    }

    fn read(bytes: &[u8], _: DType) -> Complex64 {
        let part = |at: usize| f64::read(&bytes[at..at + 4], DType::F32);
        Complex64::new(part(0), part(4))
    }

    fn write(self, dtype: DType, into: &mut Vec<u8>) {
        self.re.write(dtype, into);
        if dtype == DType::C64 {
            self.im.write(DType::F32, into);
        }
    }
}

/// A matrix in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Matrix<E> {
    pub rows: usize,
    pub columns: usize,
    pub entries: Vec<E>,
}

impl<E> Index<(usize, usize)> for Matrix<E> {
    type Output = E;

    fn index(&self, (row, column): (usize, usize)) -> &E {
        &self.entries[row * self.columns + column]
    }
}

impl<E> IndexMut<(usize, usize)> for Matrix<E> {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut E {
        &mut self.entries[row * self.columns + column]
    }
}

impl<E: Entry> Matrix<E> {
    pub fn made(rows: usize, columns: usize, entry: impl Fn(usize, usize) -> E) -> Matrix<E> {
        let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        Matrix { rows, columns, entries: places.map(|(row, column)| entry(row, column)).collect() }
    }

    pub fn unit(rows: usize, columns: usize) -> Matrix<E> {
        Matrix::made(rows, columns, |row, column| E::of(f64::from(u8::from(row == column))))
    }

    /// The conjugate transpose.
    pub fn adjoint(&self) -> Matrix<E> {
        Matrix::made(self.columns, self.rows, |row, column| self[(column, row)].conj())
    }

    /// Selects columns, in this order.
    pub fn of_columns(&self, columns: &[usize]) -> Matrix<E> {
        Matrix::made(self.rows, columns.len(), |row, column| self[(row, columns[column])])
    }

    /// Rotates two columns in their plane: multiplies the first by a unit number, then rotates both by an angle.
    pub fn turn_columns(&mut self, first: usize, second: usize, turn: &Turn<E>) {
        for row in 0..self.rows {
            let (x, y) = (self[(row, first)] * turn.direction, self[(row, second)]);
            self[(row, first)] = x * E::of(turn.cosine) - y * E::of(turn.sine);
            self[(row, second)] = x * E::of(turn.sine) + y * E::of(turn.cosine);
        }
    }

    /// Rotates two rows by the adjoint rotation.
    pub fn turn_rows(&mut self, first: usize, second: usize, turn: &Turn<E>) {
        for column in 0..self.columns {
            let (x, y) = (self[(first, column)] * turn.direction.conj(), self[(second, column)]);
            self[(first, column)] = x * E::of(turn.cosine) - y * E::of(turn.sine);
            self[(second, column)] = x * E::of(turn.sine) + y * E::of(turn.cosine);
        }
    }
}

/// The Jacobi rotation that diagonalises a Hermitian 2x2 matrix.
pub(crate) struct Turn<E> {
    direction: E,
    cosine: f64,
    sine: f64,
}

impl<E: Entry> Turn<E> {
    /// Computes the rotation for the matrix `[first, beside; conj(beside), second]`.
    pub fn new(first: f64, second: f64, beside: E) -> Turn<E> {
        let apart = (second - first) / (2.0 * beside.size());
        let tangent = 1_f64.copysign(apart) / (apart.abs() + apart.hypot(1.0));
        let cosine = 1.0 / tangent.hypot(1.0);
        Turn { direction: beside.direction(), cosine, sine: tangent * cosine }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Deterministic pseudo-random numbers.
    pub fn some(rows: usize, columns: usize, salt: usize) -> Matrix<Complex64> {
        let number =
            |n: usize| ((n * n * n * 7919 + n * n * 31 + salt * 104_729) % 1009) as f64 / 504.5 - 1.0;
        Matrix::made(rows, columns, |row, column| {
            let n = 2 * (row * columns + column);
            Complex64::new(number(n + 1), number(n + 2))
        })
    }

    pub fn product(a: &Matrix<Complex64>, b: &Matrix<Complex64>) -> Matrix<Complex64> {
        Matrix::made(a.rows, b.columns, |row, column| {
            (0..a.columns).map(|at| a[(row, at)] * b[(at, column)]).sum()
        })
    }

    pub fn close(a: &Matrix<Complex64>, b: &Matrix<Complex64>) {
        assert_eq!((a.rows, a.columns), (b.rows, b.columns));
        for (x, y) in a.entries.iter().zip(&b.entries) {
            assert!((x - y).norm() < 1e-9, "{x} is not {y}");
        }
    }
}
