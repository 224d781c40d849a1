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

    /// Copies a matrix, which usually is column-major, a few rows at a time, so that no cache line is read twice.
    pub(crate) fn of(matrix: MatRef<'_, E>) -> Matrix<E> {
        const SIDE: usize = 8;
        let (rows, columns) = matrix.shape();
        if rows == 0 || columns == 0 {
            return Matrix { rows, columns, entries: Vec::new() };
        }
        let mut entries = vec![matrix[(0, 0)]; rows * columns];
        for (block, entries) in entries.chunks_mut(SIDE * columns).enumerate() {
            let matrix = matrix.subrows(block * SIDE, entries.len() / columns);
            for (column, own) in matrix.col_iter().enumerate() {
                for (entry, value) in entries[column..].iter_mut().step_by(columns).zip(own.iter()) {
                    *entry = *value;
                }
            }
        }
        Matrix { rows, columns, entries }
    }

    pub(crate) fn of_owned(matrix: &Mat<E>) -> Matrix<E> {
        Matrix::of(matrix.as_ref())
    }
}
