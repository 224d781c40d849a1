//! The kernel of matrix products. Every element is the sum of its terms in the order of their index, as if it were computed alone.

use super::real::{Mode, Real};
use super::wide::wide;
use crate::threads::fill;

/// Columns and rows of the result that are computed at once, in registers: their sums do not wait for each other.
const COLUMNS: usize = 8;
const ROWS: usize = 4;

/// A matrix of k rows, in panels of some columns that contain a row after the other. Columns that are missing in the last one are zero.
#[derive(Debug)]
pub(super) struct Panels<M> {
    panels: Vec<[Real<M>; COLUMNS]>,
    k: usize,
    columns: usize,
}

impl<M: Mode> Panels<M> {
    /// Packs a row-major matrix (k x columns).
    pub(super) fn of_rows(matrix: &[Real<M>], k: usize, columns: usize) -> Self {
        Self::packed(k, columns, |first, panel| {
            let width = COLUMNS.min(columns - first);
            for (row, to) in matrix.chunks_exact(columns).zip(panel) {
                to[..width].copy_from_slice(&row[first..first + width]);
            }
        })
    }

    /// Packs a matrix whose transpose (columns x k) is row-major.
    pub(super) fn of_columns(transpose: &[Real<M>], k: usize) -> Self {
        Self::packed(k, transpose.len() / k, |first, panel| {
            for (place, column) in transpose.chunks_exact(k).skip(first).take(COLUMNS).enumerate() {
                panel.iter_mut().zip(column).for_each(|(to, element)| to[place] = *element);
            }
        })
    }

    fn packed(k: usize, columns: usize, pack: impl Fn(usize, &mut [[Real<M>; COLUMNS]]) + Sync) -> Self {
        let panels = fill(columns.div_ceil(COLUMNS) * k, k, COLUMNS, |range, part| {
            for (index, panel) in part.chunks_exact_mut(k).enumerate() {
                pack((range.start / k + index) * COLUMNS, panel);
            }
        });
        Self { panels, k, columns }
    }

    /// Multiplies rows of the left matrix with the first columns of this one. If they are shorter, with as many of its rows.
    pub(super) fn multiply(&self, rows: &[Real<M>], length: usize, columns: usize, to: &mut [Real<M>]) {
        multiply(&self.panels, self.k, rows, length, columns, to);
    }

    /// Multiplies the left matrix (m x k) with this one.
    pub(super) fn product(&self, a: &[Real<M>], m: usize) -> Vec<Real<M>> {
        let (k, columns) = (self.k, self.columns);
        // A few rows are split into columns, so that every thread has some.
        let unit = if m < FEW { COLUMNS } else { ROWS * columns };
        fill(m * columns, unit, 2 * k, |range, part| {
            if m >= FEW {
                let rows = range.start / columns..range.end / columns;
                return self.multiply(&a[rows.start * k..rows.end * k], k, columns, part);
            }
            let mut rest = part;
            let mut at = range.start;
            while !rest.is_empty() {
                let (row, first) = (at / columns, at % columns);
                let count = rest.len().min(columns - first);
                let (to, others) = rest.split_at_mut(count);
                self.some_columns(&a[row * k..(row + 1) * k], first, to);
                (rest, at) = (others, at + count);
            }
        })
    }

    /// Multiplies a row with the columns from `first` on.
    fn some_columns(&self, row: &[Real<M>], first: usize, to: &mut [Real<M>]) {
        let mut done = 0;
        while done < to.len() {
            let column = first + done;
            let (panel, within) = (column / COLUMNS, column % COLUMNS);
            let mut sums = [Real::zero(); COLUMNS];
            multiply(
                &self.panels[panel * self.k..(panel + 1) * self.k],
                self.k,
                row,
                self.k,
                COLUMNS,
                &mut sums,
            );
            let width = (COLUMNS - within).min(to.len() - done);
            to[done..done + width].copy_from_slice(&sums[within..within + width]);
            done += width;
        }
    }
}

/// Rows of a matrix that are too few to be shared among threads.
const FEW: usize = 64;

wide! {
    /// Multiplies rows of so many elements with the first columns of panels of k rows.
    fn multiply<M: Mode>(
        panels: &[[Real<M>; COLUMNS]],
        k: usize,
        rows: &[Real<M>],
        length: usize,
        columns: usize,
        to: &mut [Real<M>],
    ) {
        for (index, panel) in panels.chunks_exact(k.max(1)).take(columns.div_ceil(COLUMNS)).enumerate() {
            let first = index * COLUMNS;
            let width = COLUMNS.min(columns - first);
            let panel = &panel[..length];
            for (rows, to) in rows.chunks(ROWS * length).zip(to.chunks_mut(ROWS * columns)) {
                let sums = match rows.len() == ROWS * length {
                    true => four([0, 1, 2, 3].map(|row| &rows[row * length..][..length]), panel),
                    false => {
                        let mut sums = [[Real::zero(); COLUMNS]; ROWS];
                        rows.chunks_exact(length).zip(&mut sums).for_each(|(row, sums)| *sums = one(row, panel));
                        sums
                    }
                };
                for (to, sums) in to.chunks_exact_mut(columns).zip(&sums) {
                    to[first..first + width].copy_from_slice(&sums[..width]);
                }
            }
        }
    }
}

/// Multiplies a row with a panel.
#[inline(always)]
fn one<M: Mode>(row: &[Real<M>], panel: &[[Real<M>; COLUMNS]]) -> [Real<M>; COLUMNS] {
    let mut sums = [Real::zero(); COLUMNS];
    for (terms, factor) in panel.iter().zip(row) {
        for column in 0..COLUMNS {
            sums[column] += *factor * terms[column];
        }
    }
    sums
}

/// Multiplies rows with a panel.
#[inline(always)]
fn four<M: Mode>(rows: [&[Real<M>]; ROWS], panel: &[[Real<M>; COLUMNS]]) -> [[Real<M>; COLUMNS]; ROWS] {
    let [a, b, c, d] = rows;
    let zero = [Real::zero(); COLUMNS];
    let (mut of_a, mut of_b, mut of_c, mut of_d) = (zero, zero, zero, zero);
    for ((((terms, a), b), c), d) in panel.iter().zip(a).zip(b).zip(c).zip(d) {
        for column in 0..COLUMNS {
            of_a[column] += *a * terms[column];
            of_b[column] += *b * terms[column];
            of_c[column] += *c * terms[column];
            of_d[column] += *d * terms[column];
        }
    }
    [of_a, of_b, of_c, of_d]
}

/// The dot product of each of these rows with a vector.
pub(super) fn dots<M: Mode, const N: usize>(rows: [&[Real<M>]; N], vector: &[Real<M>]) -> [Real<M>; N] {
    let rows = rows.map(|row| &row[..vector.len()]);
    let mut sums = [Real::zero(); N];
    for (index, factor) in vector.iter().enumerate() {
        for (row, sum) in rows.iter().zip(&mut sums) {
            *sum += row[index] * *factor;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::matmul::{dot, transposed};
    use super::super::real::Exact;
    use super::*;
    use crate::generator::mixed;
    use crate::threads::with_small_parts;

    fn numbers(count: usize, seed: u64) -> Vec<Real<Exact>> {
        (1..=count as u64).map(|index| Real::input(mixed(seed, index) as i64 as f64 / 1e15)).collect()
    }

    fn bits(numbers: &[Real<Exact>]) -> Vec<u64> {
        numbers.iter().map(|number| number.output().to_bits()).collect()
    }

    #[test]
    fn products_have_the_bits_of_sums_that_are_computed_alone() {
        for (m, n, k) in [(1, 1, 1), (1, 19, 7), (3, 8, 64), (5, 9, 33), (66, 17, 40), (131, 50, 3)] {
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            let columns = transposed(&b, k, n);
            let rows = a.chunks_exact(k);
            let alone: Vec<Real<Exact>> =
                rows.flat_map(|row| columns.chunks_exact(k).map(|column| dot(row, column))).collect();
            for threads in [1, 3] {
                with_small_parts(threads, || {
                    assert_eq!(bits(&Panels::of_rows(&b, k, n).product(&a, m)), bits(&alone), "{m} {n} {k}");
                    assert_eq!(
                        bits(&Panels::of_columns(&columns, k).product(&a, m)),
                        bits(&alone),
                        "{m} {n} {k}"
                    );
                });
            }
        }
    }

    #[test]
    fn dot_products_have_the_bits_of_sums_that_are_computed_alone() {
        let (rows, vector) = (numbers(8 * 37, 1), numbers(37, 2));
        let mut each = rows.chunks_exact(37);
        let found = dots::<Exact, 8>([(); 8].map(|()| each.next().unwrap()), &vector);
        let alone: Vec<Real<Exact>> = rows.chunks_exact(37).map(|row| dot(row, &vector)).collect();
        assert_eq!(bits(&found), bits(&alone));
    }
}
