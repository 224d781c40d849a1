//! Steps as convolutions of tensors without gaps, as MIOpen takes them.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;
use tensor_core::program::{Code, Program};
use tensor_core::step::{Accumulation, Convolution, Fused, Operand, Padding, Step, Work};

use crate::source::Address;
use crate::work::address;

/// Which of input `x`, weight `w` and result `y` is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Forward,
    OfInput,
    OfWeight,
}

/// The sizes of a convolution. Everything but the groups has one number for each spatial axis; there are two or three.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sizes {
    pub role: Role,
    pub dtype: DType,
    /// Images, channels, lengths.
    pub x: Vec<i32>,
    /// Channels of the result, channels of a group of the input, lengths.
    pub w: Vec<i32>,
    pub y: Vec<i32>,
    pub padding: Vec<i32>,
    pub stride: Vec<i32>,
    pub dilation: Vec<i32>,
    pub groups: i32,
}

/// A step as a convolution, before its epilogue.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub sizes: Sizes,
    /// The operands that are read, in the order of MIOpen's function.
    inputs: [Operand; 2],
    pub step: &'a Step,
}

impl<'a> Call<'a> {
    /// Recognises a step as a convolution that MIOpen can compute. Returns `None` for other steps, for the fixed order of additions,
    /// and for operands that MIOpen does not take: empty or too large ones, and ones with gaps between elements.
    pub(crate) fn of(step: &'a Step) -> Option<Call<'a>> {
        match &step.work {
            Work::Contract {
                accumulation: Accumulation::Fast,
                padding,
                convolution: Some(convolution),
                epilogue,
                ..
            } => {
                narrowed(epilogue, step.inputs[0].dtype)?;
                of_contraction(step, convolution, padding.as_deref())
            }
            Work::Fused(Fused::ConvolutionGradient { stride, padding, dilation, groups }) => {
                let [g, weight] = &step.inputs[..] else { return None };
                let all = [g, weight, &step.outputs[0]];
                if !all.iter().all(|it| it.layout.is_contiguous() && takes(it.dtype)) {
                    return None;
                }
                let sizes = Sizes {
                    role: Role::OfInput,
                    dtype: g.dtype,
                    x: lengths(&step.outputs[0].layout.shape)?,
                    w: lengths(&weight.layout.shape)?,
                    y: lengths(&g.layout.shape)?,
                    padding: numbers(padding)?,
                    stride: numbers(stride)?,
                    dilation: numbers(dilation)?,
                    groups: i32::try_from(*groups).ok()?,
                };
                Some(Call { sizes: sizes.in_two()?, inputs: [g.clone(), weight.clone()], step })
            }
            _ => None,
        }
    }

    /// The addresses of the operands in the order of MIOpen's function.
    pub(crate) fn inputs(&self) -> Result<[Address; 2], DeviceError> {
        Ok([address(&self.inputs[0])?, address(&self.inputs[1])?])
    }

    /// What computes the outputs from the sums, in the type of the operands; `None` if the sums are the output.
    pub(crate) fn epilogue(&self) -> Option<Program> {
        let Work::Contract { epilogue, .. } = &self.step.work else { return None };
        let narrowed = narrowed(epilogue, self.sizes.dtype)?;
        let same = self.step.outputs.len() == 1
            && self.step.outputs[0].dtype == self.sizes.dtype
            && only_casts(&narrowed, self.sizes.dtype);
        (!same).then_some(narrowed)
    }

    /// A key for the tuning cache. An epilogue is part of it, because it takes another launch after a library's.
    pub(crate) fn key(&self) -> String {
        let epilogue = if self.epilogue().is_some() { " with epilogue" } else { "" };
        format!("{}{epilogue}", self.sizes)
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sizes { role, dtype, x, w, padding, stride, dilation, groups, .. } = self;
        let list = |numbers: &[i32]| numbers.iter().map(i32::to_string).collect::<Vec<_>>().join("x");
        let [x, w, padding, stride, dilation] = [x, w, padding, stride, dilation].map(|all| list(all));
        write!(f, "{role:?} {dtype} {x} {w} {padding} {stride} {dilation} {groups}")
    }
}

impl Sizes {
    /// The same convolution over two axes if it has only one.
    fn in_two(mut self) -> Option<Sizes> {
        match self.stride.len() {
            1 => {
                for shape in [&mut self.x, &mut self.w, &mut self.y] {
                    shape.insert(2, 1);
                }
                self.padding.insert(0, 0);
                self.stride.insert(0, 1);
                self.dilation.insert(0, 1);
                Some(self)
            }
            2 | 3 => Some(self),
            _ => None,
        }
    }
}

/// Whether MIOpen convolves numbers of a type.
pub(crate) fn takes(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32)
}

/// The lengths of a tensor as MIOpen's numbers; `None` if it is empty, or has too many elements for one.
fn lengths(shape: &[usize]) -> Option<Vec<i32>> {
    let elements = shape.iter().try_fold(1_usize, |product, &length| product.checked_mul(length))?;
    i32::try_from(elements).ok().filter(|&elements| elements > 0)?;
    numbers(shape)
}

/// Options as MIOpen's numbers.
fn numbers(all: &[usize]) -> Option<Vec<i32>> {
    all.iter().map(|&number| i32::try_from(number).ok()).collect()
}

fn of_contraction<'a>(
    step: &'a Step,
    convolution: &Convolution,
    padding: Option<&Padding>,
) -> Option<Call<'a>> {
    let Convolution { of_weight, shape, groups, stride, dilation } = convolution;
    let (left, right) = (&step.inputs[0], &step.inputs[1]);
    let axes = stride.len();
    if left.dtype != right.dtype || !takes(left.dtype) || shape.len() != 2 + axes {
        return None;
    }
    // The input in memory, and the zeros around it.
    let mut around = vec![0; axes];
    let x = match padding {
        None => Operand {
            layout: Layout { offset: right.layout.offset, ..Layout::contiguous(shape) },
            ..right.clone()
        },
        Some(Padding { within, before, shape: all }) => {
            let spatial = |axis: usize| 2 * before[axis] + within.shape[axis] == shape[axis];
            let fits =
                all == shape && within.is_contiguous() && before[..2] == [0, 0] && (0..2 + axes).all(spatial);
            if !fits {
                return None;
            }
            around.copy_from_slice(&before[2..]);
            Operand { layout: within.clone(), ..right.clone() }
        }
    };
    // The operands are the windows of the input, and the weight or the gradient of the result, with these layouts.
    let windows = &right.layout;
    let (counts, taps) = match of_weight {
        false => (2, 3 + axes),
        true => (3 + axes, 2),
    };
    let order: Vec<usize> = match of_weight {
        false => (0..2).chain(3..3 + axes).chain([2]).chain(3 + axes..3 + 2 * axes).collect(),
        true => (1..3).chain(3 + axes..3 + 2 * axes).chain([0]).chain(3..3 + axes).collect(),
    };
    let (counts, taps) = (&windows.shape[counts..counts + axes], &windows.shape[taps..taps + axes]);
    let (images, channels) = (shape[0], shape[1] / groups);
    let rows = left.layout.shape[if *of_weight { 1 } else { 2 }];
    let whole = Layout::contiguous(shape);
    let mut expected = Layout::contiguous(&[images, *groups, channels]);
    expected.strides =
        [whole.strides[0], whole.strides[1] * channels as isize, whole.strides[1]].into_iter().collect();
    for axis in 0..axes {
        let reach = taps[axis].checked_sub(1)? * dilation[axis] + 1;
        if (shape[2 + axis].checked_sub(reach)?) / stride[axis] + 1 != counts[axis] {
            return None;
        }
        // The windows read one of several elements, so their layout does not say where the others are.
        if padding.is_none() && counts[axis] * taps[axis] == 1 && shape[2 + axis] > 1 {
            return None;
        }
        expected.shape.push(counts[axis]);
        expected.strides.push(whole.strides[2 + axis] * stride[axis] as isize);
    }
    for axis in 0..axes {
        expected.shape.push(taps[axis]);
        expected.strides.push(whole.strides[2 + axis] * dilation[axis] as isize);
    }
    let weight = [&[groups * rows, channels][..], taps].concat();
    let result = [&[images, groups * rows][..], counts].concat();
    let other = match of_weight {
        false => {
            let mut layout = Layout::contiguous(&[&[*groups, rows, channels][..], taps].concat());
            layout.shape.insert(0, images);
            layout.strides.insert(0, 0);
            layout
        }
        true => {
            let order: Vec<usize> = [1, 2, 0].into_iter().chain(3..3 + axes).collect();
            Layout::contiguous(&[&[images, *groups, rows][..], counts].concat()).permute(&order)
        }
    };
    if !same(&expected.permute(&order), windows) || !same(&other, &left.layout) {
        return None;
    }
    if padding.is_some() && windows.offset != 0 {
        return None;
    }
    let sizes = Sizes {
        role: if *of_weight { Role::OfWeight } else { Role::Forward },
        dtype: left.dtype,
        x: lengths(&x.layout.shape)?,
        w: lengths(&weight)?,
        y: lengths(&result)?,
        padding: numbers(&around)?,
        stride: numbers(stride)?,
        dilation: numbers(dilation)?,
        groups: i32::try_from(*groups).ok()?,
    };
    Some(Call { sizes: sizes.in_two()?, inputs: [left.clone(), x], step })
}

/// Whether both layouts visit elements at the same distances from their first one.
fn same(one: &Layout, other: &Layout) -> bool {
    one.shape == other.shape
        && one.shape.iter().zip(&one.strides).zip(&other.strides).all(|((&n, a), b)| n == 1 || a == b)
}

/// The same epilogue for sums that were rounded to a type already; `None` if it needs the sums before rounding.
fn narrowed(epilogue: &Program, dtype: DType) -> Option<Program> {
    let mut narrowed = epilogue.clone();
    for (number, instruction) in epilogue.instructions.iter().enumerate() {
        if instruction.code != Code::Input(0) || instruction.dtype == dtype {
            continue;
        }
        let number = number as u16;
        let rounds = epilogue.instructions.iter().all(|user| match user.code {
            Code::Cast(x) => x != number || user.dtype == dtype,
            Code::Unary(_, x) => x != number,
            Code::Binary(_, x, y) => x != number && y != number,
            Code::Select(x, y, z) => ![x, y, z].contains(&number),
            Code::Input(_) | Code::Constant(_) | Code::Index(_) => true,
        });
        if !rounds || epilogue.results.contains(&number) {
            return None;
        }
        narrowed.instructions[usize::from(number)].dtype = dtype;
    }
    Some(narrowed)
}

/// Whether a program returns its first input, of this type.
fn only_casts(program: &Program, dtype: DType) -> bool {
    let alone = program
        .instructions
        .iter()
        .all(|it| it.dtype == dtype && matches!(it.code, Code::Input(0) | Code::Cast(_)));
    alone && program.results.len() == 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tensor_core::program::{Binary, Instruction};

    use super::*;
    use crate::memory::Imaginary;

    fn operand(layout: Layout, dtype: DType) -> Operand {
        Operand { buffer: Arc::new(Imaginary(4096)), layout, dtype }
    }

    fn layout(shape: &[usize], strides: &[isize]) -> Layout {
        Layout { shape: shape.into(), strides: strides.into(), offset: 0 }
    }

    /// Rounds sums to a type.
    fn rounding(dtype: DType) -> Program {
        let codes = [(Code::Input(0), DType::F32), (Code::Cast(0), dtype)];
        let instructions = codes.map(|(code, dtype)| Instruction { code, dtype }).into();
        Program { instructions, results: vec![1] }
    }

    fn contraction(
        counts: [usize; 4],
        of_weight: bool,
        operands: [Layout; 2],
        padding: Option<Padding>,
        shape: &[usize],
        output: &[usize],
    ) -> Step {
        let [batch, rows, columns, depth] = counts;
        let axes = shape.len() - 2;
        let (stride, dilation) = (vec![2; axes][..].into(), vec![1; axes][..].into());
        let convolution = Convolution { of_weight, shape: shape.into(), groups: 2, stride, dilation };
        let work = Work::Contract {
            batch,
            rows,
            columns,
            depth,
            accumulation: Accumulation::Fast,
            padding: padding.map(Box::new),
            convolution: Some(Box::new(convolution)),
            epilogue: rounding(DType::F16),
        };
        let inputs = operands.map(|layout| operand(layout, DType::F16)).into();
        Step { work, inputs, outputs: vec![operand(Layout::contiguous(output), DType::F16)] }
    }

    /// Three images of two groups of four channels, nine by seven, with a frame of one; five by three windows of three by three, and
    /// six channels of each group of the result.
    fn forward() -> Step {
        let weight = layout(&[3, 2, 6, 4, 3, 3], &[0, 216, 36, 9, 3, 1]);
        let windows = layout(&[3, 2, 5, 4, 4, 3, 3], &[792, 396, 18, 2, 99, 9, 1]);
        let padding = Padding {
            within: Layout::contiguous(&[3, 8, 9, 7]),
            before: [0, 0, 1, 1].into_iter().collect(),
            shape: [3, 8, 11, 9].into_iter().collect(),
        };
        contraction([2, 1, 2, 3], false, [weight, windows], Some(padding), &[3, 8, 11, 9], &[3, 2, 6, 5, 4])
    }

    fn refused(change: impl FnOnce(&mut Step)) -> bool {
        let mut step = forward();
        change(&mut step);
        Call::of(&step).is_none()
    }

    #[test]
    fn a_padded_convolution_and_its_gradients_are_what_miopen_takes() {
        let step = forward();
        let found = Call::of(&step).unwrap();
        let sizes = Sizes {
            role: Role::Forward,
            dtype: DType::F16,
            x: vec![3, 8, 9, 7],
            w: vec![12, 4, 3, 3],
            y: vec![3, 12, 5, 4],
            padding: vec![1, 1],
            stride: vec![2, 2],
            dilation: vec![1, 1],
            groups: 2,
        };
        assert_eq!(found.sizes, sizes);
        assert_eq!(found.epilogue(), None, "its half results are those that are asked for");
        let mut of_weight = contraction(
            [1, 1, 3, 3],
            true,
            [
                layout(&[2, 6, 3, 5, 4], &[120, 20, 240, 4, 1]),
                layout(&[2, 4, 3, 3, 3, 5, 4], &[396, 99, 9, 1, 792, 18, 2]),
            ],
            None,
            &[3, 8, 11, 9],
            &[2, 6, 4, 3, 3],
        );
        if let Work::Contract { padding, .. } = &mut of_weight.work {
            let Work::Contract { padding: known, .. } = &step.work else { return };
            padding.clone_from(known);
        }
        assert_eq!(Call::of(&of_weight).unwrap().sizes, Sizes { role: Role::OfWeight, ..sizes.clone() });
        let gradient = Step {
            work: Work::Fused(Fused::ConvolutionGradient {
                stride: [2, 2].into_iter().collect(),
                padding: [1, 1].into_iter().collect(),
                dilation: [1, 1].into_iter().collect(),
                groups: 2,
            }),
            inputs: [&[3, 12, 5, 4][..], &[12, 4, 3, 3]]
                .map(|shape| operand(Layout::contiguous(shape), DType::F16))
                .into(),
            outputs: vec![operand(Layout::contiguous(&[3, 8, 9, 7]), DType::F16)],
        };
        assert_eq!(Call::of(&gradient).unwrap().sizes, Sizes { role: Role::OfInput, ..sizes });
    }

    #[test]
    fn a_line_is_an_image_of_one_row() {
        let weight = layout(&[1, 2, 3, 1, 5], &[0, 15, 5, 5, 1]);
        let windows = layout(&[1, 2, 8, 1, 5], &[40, 20, 2, 20, 1]);
        let step = contraction([2, 1, 1, 2], false, [weight, windows], None, &[1, 2, 20], &[1, 2, 3, 8]);
        let sizes = Call::of(&step).unwrap().sizes;
        assert_eq!((sizes.x, sizes.w, sizes.y), (vec![1, 2, 1, 20], vec![6, 1, 1, 5], vec![1, 6, 1, 8]));
        assert_eq!((sizes.padding, sizes.stride), (vec![0, 0], vec![1, 2]));
    }

    #[test]
    fn empty_tensors_are_not_for_miopen() {
        // Two images without channels: the sums of no products are zeros.
        let whole = Layout::contiguous(&[2, 0, 7, 9]).strides;
        let windows = layout(&[2, 2, 4, 4, 0, 1, 3], &[whole[0], 0, 18, 2, whole[1], 9, 1]);
        let mut weight = Layout::contiguous(&[2, 3, 0, 1, 3]);
        weight.shape.insert(0, 2);
        weight.strides.insert(0, 0);
        let step = contraction([2, 1, 2, 3], false, [weight, windows], None, &[2, 0, 7, 9], &[2, 2, 3, 4, 4]);
        assert!(Call::of(&step).is_none());
    }

    #[test]
    fn elements_that_windows_do_not_read_must_be_where_miopen_expects_them() {
        // One row of two, and the second one is not in memory.
        let step = |rows: usize| {
            let weight = layout(&[1, 2, 3, 1, 1, 3], &[0, 9, 3, 3, 3, 1]);
            let windows = layout(&[1, 2, 1, 4, 1, 1, 3], &[0, 9 * rows as isize, 0, 2, 0, 0, 1]);
            contraction([2, 1, 2, 3], false, [weight, windows], None, &[1, 2, rows, 9], &[1, 2, 3, 1, 4])
        };
        assert!(Call::of(&step(1)).is_some());
        assert!(Call::of(&step(2)).is_none());
    }

    #[test]
    fn an_epilogue_is_part_of_the_tuning_key() {
        let (plain, mut relu) = (forward(), forward());
        let Work::Contract { epilogue, .. } = &mut relu.work else { return };
        epilogue.instructions.push(Instruction { code: Code::Binary(Binary::Max, 1, 1), dtype: DType::F16 });
        epilogue.results = vec![2];
        let keys = [&plain, &relu].map(|step| Call::of(step).unwrap().key());
        assert_eq!(keys[0], "Forward float16 3x8x9x7 12x4x3x3 1x1 2x2 1x1 2");
        assert_eq!(keys[1], format!("{} with epilogue", keys[0]));
    }

    #[test]
    fn what_miopen_would_compute_otherwise_is_not_for_it() {
        assert!(!refused(|_| ()));
        assert!(refused(|step| {
            let Work::Contract { accumulation, .. } = &mut step.work else { return };
            *accumulation = Accumulation::Ordered;
        }));
        assert!(refused(|step| step.inputs.iter_mut().for_each(|input| input.dtype = DType::F64)));
        assert!(refused(|step| step.inputs[0].layout.strides.swap(4, 5)), "a turned weight");
        assert!(refused(|step| step.inputs[1].layout.strides[2] = 9), "other windows");
        assert!(refused(|step| {
            let Work::Contract { padding: Some(padding), .. } = &mut step.work else { return };
            (padding.before[2], padding.within.shape[2]) = (2, 9);
        }));
        assert!(refused(|step| {
            // A product of sums that were not rounded.
            let Work::Contract { epilogue, .. } = &mut step.work else { return };
            let twice = Instruction { code: Code::Binary(Binary::Mul, 0, 0), dtype: DType::F32 };
            epilogue.instructions.insert(1, twice);
            epilogue.instructions[2].code = Code::Cast(1);
            epilogue.results = vec![2];
        }));
    }
}
