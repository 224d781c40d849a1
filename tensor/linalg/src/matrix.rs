//! A dense matrix in host memory.

use faer::{Mat, MatRef};

/// A matrix in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<E> {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// Row after row.
    pub entries: Vec<E>,
}

impl<E: Copy> Matrix<E> {
    /// A matrix of entries computed from their row and column.
    pub fn made(rows: usize, columns: usize, entry: impl Fn(usize, usize) -> E) -> Matrix<E> {
        let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        Matrix { rows, columns, entries: places.map(|(row, column)| entry(row, column)).collect() }
    }

    pub(crate) fn view(&self) -> MatRef<'_, E> {
        MatRef::from_row_major_slice(&self.entries, self.rows, self.columns)
    }

    pub(crate) fn of(matrix: MatRef<'_, E>) -> Matrix<E> {
        Matrix::made(matrix.nrows(), matrix.ncols(), |row, column| matrix[(row, column)])
    }

    pub(crate) fn of_owned(matrix: &Mat<E>) -> Matrix<E> {
        Matrix::of(matrix.as_ref())
    }
}
