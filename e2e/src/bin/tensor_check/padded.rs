//! Test cases for convolutions whose zeros are not in memory: the CPU computes them from padded copies.

use tensor_core::dtype::DType;
use tensor_core::layout::{Layout, Shape};
use tensor_core::program::Program;
use tensor_core::step::{Accumulation, Padding, Work};

use crate::contractions::{bias_and_relu, rounding};
use crate::judge::Case;
use crate::operand::{Content, real};

/// A convolution over the axes of `size`; all lists have one number for each of them.
#[derive(Clone, Copy)]
struct Convolution {
    dtype: DType,
    images: usize,
    groups: usize,
    /// Channels of the input and of the result, in each group.
    channels: [usize; 2],
    size: &'static [usize],
    kernel: &'static [usize],
    before: &'static [usize],
    after: &'static [usize],
    stride: usize,
    dilation: usize,
    accumulation: Accumulation,
}

impl Convolution {
    fn padding(&self) -> Padding {
        let mut within = Shape::from_slice(&[self.images, self.groups * self.channels[0]]);
        within.extend_from_slice(self.size);
        let (mut before, mut shape) = (Shape::from_slice(&[0, 0]), within.clone());
        before.extend_from_slice(self.before);
        for (axis, after) in self.after.iter().enumerate() {
            shape[2 + axis] += self.before[axis] + after;
        }
        Padding { within: Layout::contiguous(&within), before, shape }
    }

    /// The windows of the padded input: images, groups, channels, positions, kernel.
    fn windows(&self, padding: &Padding) -> Layout {
        let whole = Layout::contiguous(&padding.shape);
        let mut layout = Layout {
            shape: [self.images, self.groups, self.channels[0]].into_iter().collect(),
            strides: [whole.strides[0], whole.strides[1] * self.channels[0] as isize, whole.strides[1]]
                .into_iter()
                .collect(),
            offset: 0,
        };
        for (axis, &taps) in self.kernel.iter().enumerate() {
            let reach = (taps - 1) * self.dilation + 1;
            layout.shape.push((padding.shape[2 + axis] - reach) / self.stride + 1);
            layout.strides.push(whole.strides[2 + axis] * self.stride as isize);
        }
        for (axis, &taps) in self.kernel.iter().enumerate() {
            layout.shape.push(taps);
            layout.strides.push(whole.strides[2 + axis] * self.dilation as isize);
        }
        layout
    }

    fn case(&self, name: &str, work: Work, inputs: Vec<Content>, output: &[usize]) -> Case {
        let outputs = [(self.dtype, output)];
        match self.accumulation {
            Accumulation::Ordered => Case::exact(name, work, inputs, &outputs),
            Accumulation::Fast => {
                let tolerance = if self.dtype == DType::F32 { 1e-4 } else { 3e-2 };
                Case::near(name, tolerance, work, inputs, &outputs)
            }
        }
    }

    fn work(&self, counts: [usize; 4], padding: Padding, epilogue: Program) -> Work {
        let [batch, rows, columns, depth] = counts;
        let padding = Some(Box::new(padding));
        let accumulation = self.accumulation;
        Work::Contract { batch, rows, columns, depth, accumulation, padding, convolution: None, epilogue }
    }

    fn right(&self, padding: &Padding, order: impl Iterator<Item = usize>) -> Content {
        let view = self.windows(padding).permute(&order.collect::<Vec<_>>());
        real(self.dtype, &padding.within.shape).with_view(&view.shape, &view.strides, view.offset)
    }

    fn sums(&self) -> DType {
        match self.dtype {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    fn forward(&self, name: &str, with_bias: bool) -> Case {
        let (padding, axes) = (self.padding(), self.size.len());
        let order = [0, 1].into_iter().chain(3..3 + axes).chain([2]).chain(3 + axes..3 + 2 * axes);
        let right = self.right(&padding, order);
        let mut weight = Shape::from_slice(&[self.groups, self.channels[1], self.channels[0]]);
        weight.extend_from_slice(self.kernel);
        let mut left = real(self.dtype, &weight);
        left.layout.shape.insert(0, self.images);
        left.layout.strides.insert(0, 0);
        let mut output = Shape::from_slice(&[self.images, self.groups, self.channels[1]]);
        output.extend_from_slice(&right.layout.shape[2..2 + axes]);
        let mut inputs = vec![left, right];
        let epilogue = if with_bias { bias_and_relu() } else { rounding(self.sums(), self.dtype) };
        if with_bias {
            let mut strides = vec![0; output.len()];
            (strides[1], strides[2]) = (self.channels[1] as isize, 1);
            inputs.push(real(self.dtype, &[self.groups, self.channels[1]]).with_view(&output, &strides, 0));
        }
        let work = self.work([2, 1, axes, 1 + axes], padding, epilogue);
        self.case(&format!("{name}, forward"), work, inputs, &output)
    }

    fn of_weight(&self, name: &str) -> Case {
        let (padding, axes) = (self.padding(), self.size.len());
        let order = [1, 2].into_iter().chain(3 + axes..3 + 2 * axes).chain([0]).chain(3..3 + axes);
        let right = self.right(&padding, order);
        let mut g = Shape::from_slice(&[self.images, self.groups, self.channels[1]]);
        g.extend_from_slice(&right.layout.shape[3 + axes..]);
        let mut left = real(self.dtype, &g);
        let order: Vec<usize> = [1, 2, 0].into_iter().chain(3..3 + axes).collect();
        left.layout = left.layout.permute(&order);
        let mut output = Shape::from_slice(&[self.groups, self.channels[1], self.channels[0]]);
        output.extend_from_slice(self.kernel);
        let work = self.work([1, 1, 1 + axes, 1 + axes], padding, rounding(self.sums(), self.dtype));
        self.case(&format!("{name}, of weights"), work, vec![left, right], &output)
    }
}

pub fn all() -> Vec<Case> {
    let ordered = Accumulation::Ordered;
    let plain = Convolution {
        dtype: DType::F32,
        images: 2,
        groups: 1,
        channels: [3, 5],
        size: &[9, 7],
        kernel: &[3, 3],
        before: &[1, 1],
        after: &[1, 1],
        stride: 1,
        dilation: 1,
        accumulation: ordered,
    };
    let all = [
        ("padded by one", plain),
        ("a line", Convolution { size: &[300], kernel: &[7], before: &[3], after: &[3], ..plain }),
        (
            "a volume",
            Convolution {
                size: &[5, 4, 6],
                kernel: &[3, 2, 3],
                before: &[1, 1, 1],
                after: &[1, 0, 2],
                stride: 2,
                ..plain
            },
        ),
        ("another frame on each side", Convolution { before: &[0, 4], after: &[3, 2], ..plain }),
        ("zeros before only", Convolution { before: &[2, 0], after: &[0, 0], ..plain }),
        ("steps and gaps", Convolution { stride: 2, dilation: 2, before: &[2, 2], after: &[2, 3], ..plain }),
        ("steps over whole windows", Convolution { stride: 4, before: &[3, 3], after: &[3, 3], ..plain }),
        (
            "groups",
            Convolution {
                groups: 3,
                channels: [2, 4],
                dilation: 2,
                before: &[2, 2],
                after: &[2, 2],
                ..plain
            },
        ),
        ("every channel by itself", Convolution { groups: 6, channels: [1, 1], ..plain }),
        ("windows in zeros only", Convolution { size: &[2, 1], before: &[5, 4], after: &[4, 5], ..plain }),
        ("many panels", Convolution { images: 3, channels: [40, 20], size: &[20, 21], ..plain }),
        ("larger tiles", Convolution { images: 12, channels: [4, 80], size: &[32, 32], ..plain }),
        ("f16", Convolution { dtype: DType::F16, stride: 2, ..plain }),
        ("bf16", Convolution { dtype: DType::BF16, dilation: 2, ..plain }),
        ("f64", Convolution { dtype: DType::F64, ..plain }),
        ("i32", Convolution { dtype: DType::I32, stride: 2, ..plain }),
    ];
    let mut cases = Vec::new();
    for (name, it) in all {
        cases.extend([it.forward(name, false), it.of_weight(name)]);
    }
    cases.push(plain.forward("bias and relu", true));
    let strided = Convolution { stride: 2, ..plain };
    let mut turned = strided.forward("an input with channels last", false);
    if let Work::Contract { padding: Some(padding), .. } = &mut turned.work {
        padding.within = Layout::contiguous(&[2, 9, 7, 3]).permute(&[0, 3, 1, 2]);
    }
    cases.push(turned);
    let mut mirrored = strided.forward("an input in the opposite order", false);
    if let Work::Contract { padding: Some(padding), .. } = &mut mirrored.work {
        padding.within = padding.within.slice(3, 6, 7, -1);
    }
    cases.push(mirrored);
    // Zeros are multiplied too: the windows at the edge are not numbers.
    let mut infinite = plain.forward("infinite weights", false);
    infinite.inputs[0].bytes[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    cases.push(infinite);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let fast = Convolution {
            dtype,
            channels: [20, 40],
            size: &[13, 14],
            accumulation: Accumulation::Fast,
            ..plain
        };
        let name = format!("fast, {dtype}");
        cases.extend([fast.forward(&name, false), fast.of_weight(&name)]);
    }
    cases
}
