//! Contractions as matrix products with leading dimensions, as BLAS libraries take them.

use tensor_core::dtype::DType;
use tensor_core::program::{Code, Program};
use tensor_core::step::{Accumulation, Operand, Step, Work};

use crate::axes::Axes;

/// An operand: where it begins, and how it lies in memory by columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    pub transposed: bool,
    /// Elements from one column to the next.
    pub leading: usize,
    /// Elements from one matrix of a batch to the next.
    pub batch: usize,
}

/// `out = a * b`, by columns. The result of a contraction lies by rows, so `a` is its right operand and `b` its left one.
#[derive(Clone, Debug)]
pub(crate) struct Gemm<'a> {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub batch: usize,
    pub a: Side,
    pub b: Side,
    /// The type of the operands.
    pub dtype: DType,
    pub step: &'a Step,
}

impl<'a> Gemm<'a> {
    /// Returns the product that a step is before its epilogue; `None` if it is none, or must be added in the fixed order.
    pub(crate) fn of(step: &'a Step) -> Option<Gemm<'a>> {
        let &Work::Contract {
            batch,
            rows,
            columns,
            depth,
            accumulation: Accumulation::Fast,
            padding: None,
            ..
        } = &step.work
        else {
            return None;
        };
        let (left, right) = (&step.inputs[0], &step.inputs[1]);
        let dtype = left.dtype;
        if dtype != right.dtype || !matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
            return None;
        }
        let (left, right) = (&left.layout, &right.layout);
        let one = |axes: Axes| match axes.0.as_slice() {
            [] => Some((1, Vec::new())),
            [axis] => Some((axis.length, axis.strides.to_vec())),
            _ => None,
        };
        let both = |from: [usize; 2], count: usize| {
            let [l, r] = from.map(|from| from..from + count);
            Axes::new(&left.shape[l.clone()], [&left.strides[l], &right.strides[r]].into_iter())
        };
        let alone = |layout: &tensor_core::layout::Layout, from: usize, count: usize| {
            let range = from..from + count;
            Axes::new(&layout.shape[range.clone()], [&layout.strides[range]].into_iter())
        };
        let (batches, batch_strides) = one(both([0, 0], batch))?;
        let (depths, depth_strides) = one(both([batch + rows, batch + columns], depth))?;
        let (rows, row_strides) = one(alone(left, batch, rows))?;
        let (columns, column_strides) = one(alone(right, batch, columns))?;
        let side = |lines: usize, line: isize, depth_stride: isize, batch: isize, inner_is_depth: bool| {
            // Its matrix has `lines` by `depths` elements; the first of the pair is the one without transposition.
            let by_depth = depth_stride == 1 && (line >= depths as isize || lines == 1);
            let by_line = line == 1 && (depth_stride >= lines as isize || depths == 1);
            let leading = |stride: isize, least: usize, single: bool| {
                if single { least.max(1) } else { usize::try_from(stride).unwrap_or(0).max(1) }
            };
            let batch = usize::try_from(batch).ok()?;
            if by_depth {
                Some(Side { transposed: !inner_is_depth, leading: leading(line, depths, lines == 1), batch })
            } else if by_line {
                Some(Side {
                    transposed: inner_is_depth,
                    leading: leading(depth_stride, lines, depths == 1),
                    batch,
                })
            } else {
                None
            }
        };
        let stride = |strides: &[isize], number: usize, missing: isize| {
            strides.get(number).copied().unwrap_or(missing)
        };
        let a = side(
            columns,
            stride(&column_strides, 0, 1),
            stride(&depth_strides, 1, 1),
            stride(&batch_strides, 1, 0),
            false,
        )?;
        let b = side(
            rows,
            stride(&row_strides, 0, 1),
            stride(&depth_strides, 0, 1),
            stride(&batch_strides, 0, 0),
            true,
        )?;
        let small = [rows, columns, depths, batches, a.leading, b.leading]
            .iter()
            .all(|&size| size <= i32::MAX as usize);
        let some = rows * columns * depths * batches > 0;
        (small && some).then_some(Gemm {
            rows: columns,
            columns: rows,
            depth: depths,
            batch: batches,
            a,
            b,
            dtype,
            step,
        })
    }

    pub(crate) fn multiplications(&self) -> usize {
        [self.rows, self.columns, self.depth, self.batch]
            .iter()
            .fold(1_usize, |all, &size| all.saturating_mul(size))
    }

    /// The operands in the order of the library.
    pub(crate) fn operands(&self) -> [&'a Operand; 2] {
        [&self.step.inputs[1], &self.step.inputs[0]]
    }

    /// The type that sums are written in: that of the output if nothing else is computed from them.
    pub(crate) fn sum_type(&self) -> DType {
        match self.writes_output() {
            true => self.step.outputs[0].dtype,
            false if matches!(self.dtype, DType::F16 | DType::BF16) => DType::F32,
            false => self.dtype,
        }
    }

    /// Whether the sums, rounded to the type of the operands, are the output.
    pub(crate) fn writes_output(&self) -> bool {
        let Work::Contract { epilogue, .. } = &self.step.work else { return false };
        self.step.outputs.len() == 1
            && self.step.outputs[0].dtype == self.dtype
            && is_cast(epilogue, self.dtype)
    }
}

/// Whether a program only converts its first input to a type.
fn is_cast(program: &Program, to: DType) -> bool {
    let codes: Vec<Code> = program.instructions.iter().map(|instruction| instruction.code).collect();
    matches!(codes[..], [Code::Input(0)] | [Code::Input(0), Code::Cast(0)])
        && matches!(program.results[..], [result] if usize::from(result) + 1 == codes.len())
        && program.instructions.last().is_some_and(|last| last.dtype == to)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tensor_core::layout::Layout;

    use super::*;
    use crate::memory::Imaginary;

    fn operand(shape: &[usize], strides: &[isize]) -> Operand {
        let layout = Layout { strides: strides.into(), ..Layout::contiguous(shape) };
        Operand { buffer: Arc::new(Imaginary(4096)), layout, dtype: DType::F32 }
    }

    fn step(left: Operand, right: Operand, counts: [usize; 4], accumulation: Accumulation) -> Step {
        let [batch, rows, columns, depth] = counts;
        let epilogue = Program::identity(DType::F32);
        let work = Work::Contract {
            batch,
            rows,
            columns,
            depth,
            accumulation,
            padding: None,
            convolution: None,
            epilogue,
        };
        Step { work, inputs: vec![left, right], outputs: vec![operand(&[2, 3], &[3, 1])] }
    }

    /// Computes what a library would, and what a contraction means, on numbered elements.
    fn agrees(step: &Step) -> bool {
        let Some(gemm) = Gemm::of(step) else { return false };
        let at = |side: Side, row: usize, column: usize, batch: usize| {
            let (row, column) = if side.transposed { (column, row) } else { (row, column) };
            row + column * side.leading + batch * side.batch
        };
        let Work::Contract { batch, rows, columns, .. } = step.work else { return false };
        let place = |layout: &Layout, index: &[usize]| -> usize {
            index.iter().zip(&layout.strides).map(|(&i, &stride)| i * stride as usize).sum()
        };
        let [left, right] = [&step.inputs[0].layout, &step.inputs[1].layout];
        assert!(batch <= 1 && rows == 1 && columns == 1);
        for b in 0..gemm.batch {
            for k in 0..gemm.depth {
                for n in 0..gemm.rows {
                    let index = [b, n, k];
                    assert_eq!(at(gemm.a, n, k, b), place(right, &index[1 - batch..]));
                }
                for m in 0..gemm.columns {
                    let index = [b, m, k];
                    assert_eq!(at(gemm.b, k, m, b), place(left, &index[1 - batch..]));
                }
            }
        }
        true
    }

    #[test]
    fn every_pair_of_orders_is_the_same_matrices_to_a_library() {
        for left in [[7, 1], [1, 5]] {
            for right in [[9, 1], [1, 4]] {
                let one =
                    step(operand(&[5, 7], &left), operand(&[4, 7], &right), [0, 1, 1, 1], Accumulation::Fast);
                assert!(agrees(&one), "{left:?} {right:?}");
            }
        }
        let batches = step(
            operand(&[3, 5, 7], &[35, 7, 1]),
            operand(&[3, 4, 7], &[0, 1, 4]),
            [1, 1, 1, 1],
            Accumulation::Fast,
        );
        assert!(agrees(&batches));
        let thin =
            step(operand(&[1, 7], &[0, 1]), operand(&[4, 7], &[7, 1]), [0, 1, 1, 1], Accumulation::Fast);
        assert!(agrees(&thin));
    }

    #[test]
    fn what_has_no_leading_dimension_or_a_fixed_order_is_not_for_a_library() {
        let fast = Accumulation::Fast;
        let of = |left: &[isize], accumulation| {
            step(operand(&[5, 7], left), operand(&[4, 7], &[7, 1]), [0, 1, 1, 1], accumulation)
        };
        assert!(Gemm::of(&of(&[7, 1], fast)).is_some());
        assert!(Gemm::of(&of(&[7, 1], Accumulation::Ordered)).is_none());
        assert!(Gemm::of(&of(&[14, 2], fast)).is_none());
        assert!(Gemm::of(&of(&[3, 1], fast)).is_none(), "rows overlap");
        assert!(Gemm::of(&of(&[-7, 1], fast)).is_none());
        assert!(Gemm::of(&of(&[0, 1], fast)).is_none());
    }
}
