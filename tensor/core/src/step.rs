//! Steps: the units of work that a device executes, one launch each, in order.

use crate::device::Buffer;
use crate::dtype::DType;
use crate::layout::{Layout, Shape};
use crate::program::Program;

/// A tensor in memory, as a step reads or writes it.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The memory.
    pub buffer: Buffer,
    /// Where the elements are in it.
    pub layout: Layout,
    /// The type of the elements.
    pub dtype: DType,
}

/// Zeros around an operand that are not in memory: the elements that [`Work::Pad`] would write.
#[derive(Clone, Debug, PartialEq)]
pub struct Padding {
    /// Where the padded elements are in the operand's buffer.
    pub within: Layout,
    /// The number of zeros before them along each axis.
    pub before: Shape,
    /// The lengths with zeros on both sides. The operand's layout is one of a contiguous tensor of this shape.
    pub shape: Shape,
}

/// What a contraction means as a convolution, for devices with a library for these. The right operand has the windows of a tensor
/// of images, channels and lengths; the left one has the weight, or the gradient of the result for a gradient of the weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Whether the result is the gradient of the weight.
    pub of_weight: bool,
    /// The shape of the tensor with the windows, zeros around it included.
    pub shape: Shape,
    /// The groups of channels that are convolved separately.
    pub groups: usize,
    /// The distance between windows along each spatial axis.
    pub stride: Shape,
    /// The distance between the elements of a window along each spatial axis.
    pub dilation: Shape,
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is computed.
    pub work: Work,
    /// What is read.
    pub inputs: Vec<Operand>,
    /// Contiguous, unless the work says otherwise, and never overlapping an input.
    pub outputs: Vec<Operand>,
}

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// NaN if any element is.
    Max,
    /// The minimum; NaN if one element is.
    Min,
    /// Of bools.
    Any,
    /// Whether all elements are not zero.
    All,
}

/// The order of additions in a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulation {
    /// In panels of [`PANEL`] along the depth: each panel is one chain of fused multiply-adds from zero in order of depth, and
    /// the panels' sums are added in order. Produces the same bits on every device. Half types are accumulated in f32 and rounded
    /// at the end.
    Ordered,
    /// In whatever order is fastest on the device.
    Fast,
}

/// The depth of one multiply-add chain of an ordered contraction.
pub const PANEL: usize = 256;

/// The operation of a launch.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the texts of the variants explain the fields")]
pub enum Work {
    /// `outputs[j][i] = program(inputs[..][i]).j` for every index `i`. All inputs have the outputs' shape (broadcast by strides of zero).
    Map(Program),
    /// `outputs[0][o] = epilogue(reduction of program(inputs[..mapped][i]) over all i that agree with o, inputs[mapped..][o])`.
    /// The output has the inputs' rank, with length 1 along reduced axes; inputs from `mapped` on have the output's shape. The
    /// epilogue's input 0 is the reduced value, its input 1 is `inputs[mapped]`, and so on. There is always at least one mapped
    /// input. f16 and bf16 are reduced in f32: `program` casts, `epilogue` casts back.
    Reduce { program: Program, reduction: Reduction, axes: Vec<usize>, mapped: usize, epilogue: Program },
    /// The index (i64) of the maximum or minimum along an axis; the first of equals; NaN wins over everything.
    ArgReduce { largest: bool, axis: usize },
    /// `out[b.., m.., n..] = epilogue(sum over k.. of left[b.., m.., k..] * right[b.., n.., k..], inputs[2..][b.., m.., n..])`.
    /// The epilogue's input 0 is the sum, in the type of its instruction (f32 for half types); its input 1 is `inputs[2]`, and so
    /// on. Like a reduction's epilogue, it has one result per output, at most `Device::epilogue_results`. The four numbers are
    /// the counts of axes of each sort. Inputs 0 and 1 may have any layout, so convolutions are contractions too. Zeros around
    /// input 1 need not be in memory if there is a `padding`; it consists of simpler steps then, see [`crate::decompose`]. A
    /// `convolution` says what is known of the operands, and changes nothing.
    Contract {
        batch: usize,
        rows: usize,
        columns: usize,
        depth: usize,
        accumulation: Accumulation,
        padding: Option<Box<Padding>>,
        convolution: Option<Box<Convolution>>,
        epilogue: Program,
    },
    /// Softmax along an axis of any float type, with the maximum subtracted first; computed in f32 (f64 for f64).
    Softmax { axis: usize, log: bool },
    /// `(x - mean) * rsqrt(variance + epsilon)` over the last `axes` axes; the optional inputs 1 and 2 are a weight and a bias of
    /// the input's shape. Outputs: the result, and optionally mean and 1/deviation (f32, or f64 for f64; with length 1 along
    /// these axes).
    Normalise { axes: usize, epsilon: f64 },
    /// Attention of `[batch, heads, length, width]` queries, keys and values (inputs 0 to 2): `softmax(q k^T * scale) v`, where a
    /// causal one hides key j from query i < j. Outputs: the result, and for each row its highest score and the weight of that
    /// score (f32, with width 1). Computed in f32. There is at least one key. It consists of simpler steps, see
    /// [`crate::decompose`].
    Attention { causal: bool, scale: f64 },
    /// The gradients of queries, keys and values. Inputs: these, the three outputs of the attention, and the gradient of its
    /// result.
    AttentionGradient { causal: bool, scale: f64 },
    /// The cross entropy of logits (input 0) and classes (input 1: i64, with length 1 along the axis): the logarithm of the sum of
    /// exponentials less the logit of the class; NaN for class -1, zero for other negative ones. Outputs, with length 1 along the
    /// axis, in the type of computation (f32, or f64 for f64): that, and the logarithm.
    CrossEntropy { axis: usize },
    /// Input 0, copied to the output, which has any layout without overlaps. The rest of the output's buffer stays as it is.
    Write,
    /// Input 0, padded with one value.
    Pad { before: Shape, value: crate::dtype::Scalar },
    /// All inputs concatenated along an axis.
    Concat { axis: usize },
    /// The sum of overlapping windows, the adjoint of taking windows: the input is `[.., windows.., kernel..]` for the last
    /// `kernel.len()` axes of the output, and `out[.., p..] = sum of input[.., w.., k..] where w * stride + k * dilation == p`,
    /// in order of k.
    Fold { kernel: Shape, stride: Shape, dilation: Shape },
    /// `out[i, j, k] = input0[i, input1[i, j, k], k]`: both have one rank; indices are i64 and were checked, or read as zero if
    /// out of bounds.
    Gather { axis: usize },
    /// `out = input0; out[i, input1[i, j, k], k] += input2[i, j, k]` in order of j, with the same bits every time. With `add`
    /// false the last one wins.
    Scatter { axis: usize, add: bool },
    /// Numbers of the counter-based generator Philox 4x32-10, see `random.rs`: the same on every device.
    Random { seed: u64, offset: u64, distribution: Distribution },
    /// Values sorted along an axis, and their indices (i64): stable, NaN last.
    Sort { axis: usize, descending: bool },
    /// Cumulative sums or products along an axis.
    Cumulative { axis: usize, product: bool },
    /// A step that not every device executes.
    Fused(Fused),
}

/// Steps that replace several others where a device executes them. The graph contains one only if the device
/// [supports](crate::device::Device::supports) it for the types of its inputs.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the texts of the variants explain the fields")]
#[allow(clippy::large_enum_variant, reason = "a graph holds steps in boxes, and other steps are as large")]
pub enum Fused {
    /// The first elements along an axis in the order of [`Work::Sort`], and their indices (i64); as many as the outputs are long.
    TopK { axis: usize, descending: bool },
    /// The maximum of each window over the last `kernel.len()` axes; NaN wins. The optional output 1 is its row-major position
    /// (i64) in these axes, the first of equals. `padding` is what the windows extend beyond the front; beyond the end they may
    /// extend too.
    MaxPool { kernel: Shape, stride: Shape, padding: Shape, dilation: Shape },
    /// The gradient of a convolution for its input, added in any order: inputs are the gradient of the result and the weight, both
    /// contiguous. All lists have one number for each spatial axis. No tensor is empty, and the counts of elements and all numbers
    /// fit into an `i32`, as libraries expect.
    ConvolutionGradient { stride: Shape, padding: Shape, dilation: Shape, groups: usize },
    /// The gradient of [`Work::CrossEntropy`] for the logits: inputs are its inputs, the logarithms of the sums and the gradient of
    /// each sample's loss. Zero for negative classes.
    CrossEntropyGradient { axis: usize },
    /// Like [`Work::Gather`], with indices that the step itself checks and reports with `bound`, see [`crate::bounds`]. If it
    /// `wraps`, negative ones count from the end.
    Gather { axis: usize, wraps: bool, bound: i64 },
    /// Like [`Work::Scatter`]. Without input 0 into zeros; with a `bound`, the step checks the indices, else those out of bounds
    /// write nothing.
    Scatter { axis: usize, add: bool, bound: Option<i64> },
    /// The elements of input 0 where input 1 (bool, of the same shape) is true, in row-major order. There are as many as the
    /// output is long.
    Compress,
}

impl Fused {
    /// What [`crate::explain()`] calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Fused::TopK { .. } => "topk",
            Fused::MaxPool { .. } => "max pool",
            Fused::ConvolutionGradient { .. } => "convolution gradient",
            Fused::CrossEntropyGradient { .. } => "cross entropy gradient",
            Fused::Gather { .. } => "gather",
            Fused::Scatter { .. } => "scatter",
            Fused::Compress => "compress",
        }
    }
}

/// A distribution of random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// In [0, 1).
    Uniform,
    /// With mean 0 and standard deviation 1.
    Normal,
    /// In [low, high).
    Integers {
        /// The smallest.
        low: i64,
        /// One more than the largest.
        high: i64,
    },
}
