//! Checks every gradient against finite differences, in f64.

mod reference;

use std::sync::Arc;

use reference::{Reference, decode};
use tensor_core::Tensor;
use tensor_core::autograd::{Backward, gradients};
use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::conv::{ConvOptions, conv, conv_transpose};
use tensor_core::ops::diagonal::diagonal;
use tensor_core::ops::einsum::einsum;
use tensor_core::ops::loss::{ClassOptions, LossReduction};
use tensor_core::ops::pool::{PoolOptions, adaptive_avg_pool, avg_pool, max_pool};
use tensor_core::ops::{
    activation, create, elementwise, index, join, length, linalg, loss, matmul, norm, reduce, shape, softmax,
    sort, strided, window,
};
use tensor_core::program::{Binary, Unary};
use tensor_cpu::CpuDevice;

type Function = Box<dyn Fn(&[Tensor]) -> tensor_core::Result<Tensor>>;

struct Case {
    name: String,
    /// Shapes, and the range of the numbers.
    inputs: Vec<(Vec<usize>, f64, f64)>,
    function: Function,
}

fn device() -> Arc<dyn Device> {
    Arc::new(Reference::default())
}

fn tensor(device: &Arc<dyn Device>, shape: &[usize], values: &[f64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::from_bytes(device, DType::F64, shape, &bytes).unwrap()
}

fn integers(device: &Arc<dyn Device>, shape: &[usize], values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::from_bytes(device, DType::I64, shape, &bytes).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.to_bytes().unwrap();
    bytes.chunks_exact(tensor.dtype().bytes()).map(|number| decode(number, tensor.dtype())).collect()
}

/// Numbers in a range that differ from each other by more than the step of the difference quotient.
fn numbers(count: usize, salt: usize, low: f64, high: f64) -> Vec<f64> {
    (0..count)
        .map(|n| low + (high - low) * (((n + 1) * 7919 + salt * 104_729) % 1009) as f64 / 1009.0)
        .collect()
}

/// The weighted sum of all results, with a different weight for each.
fn total(case: &Case, inputs: &[Tensor]) -> Tensor {
    let y = (case.function)(inputs).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    assert!(y.dtype().is_float(), "{}", case.name);
    let weights = tensor(y.device(), y.shape(), &numbers(y.elements(), 5, 0.5, 1.5));
    reduce::sum(&elementwise::mul(&y, &weights).unwrap(), None, false).unwrap()
}

/// Asserts that the CPU device agrees with the reference device.
fn agree(name: &str, loops: &[Tensor], cpu: &[Tensor]) {
    for (first, second) in loops.iter().zip(cpu) {
        assert_eq!((first.shape(), first.dtype()), (second.shape(), second.dtype()), "{name}");
        for (a, b) in values(first).iter().zip(values(second)) {
            assert!((a - b).abs() <= 1e-9 * (1.0 + a.abs()), "{name}: {a} by loops, {b} by the CPU");
        }
    }
}

fn check(case: &Case) {
    let device = device();
    let content: Vec<Vec<f64>> = case
        .inputs
        .iter()
        .enumerate()
        .map(|(n, (shape, low, high))| numbers(shape.iter().product(), n, *low, *high))
        .collect();
    let make = |content: &[Vec<f64>], device: &Arc<dyn Device>| -> Vec<Tensor> {
        content.iter().zip(&case.inputs).map(|(values, (shape, ..))| tensor(device, shape, values)).collect()
    };
    let second: Arc<dyn Device> = CpuDevice::new();
    let inputs = make(&content, &device);
    inputs.iter().for_each(|input| input.set_requires_grad(true).unwrap());
    let results = [(case.function)(&inputs).unwrap()];
    let others = make(&content, &second);
    others.iter().for_each(|input| input.set_requires_grad(true).unwrap());
    agree(&case.name, &results, &[(case.function)(&others).unwrap()]);
    total(case, &others).backward(None, false).unwrap();
    let sum = total(case, &inputs);
    sum.backward(None, false).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    assert!(values(&sum)[0].is_finite(), "{}", case.name);
    let all = |of: &[Tensor]| of.iter().map(|input| input.grad().unwrap()).collect::<Vec<_>>();
    agree(&case.name, &all(&inputs), &all(&others));
    for (n, input) in inputs.iter().enumerate() {
        let gradient = input.grad().unwrap_or_else(|| panic!("{}: input {n} has no gradient", case.name));
        assert_eq!((gradient.shape(), gradient.dtype()), (input.shape(), input.dtype()), "{}", case.name);
        let gradient = values(&gradient);
        for element in 0..content[n].len() {
            let step = 1e-5;
            let at = |change: f64| {
                let mut content = content.clone();
                content[n][element] += change;
                values(&total(case, &make(&content, &device)))[0]
            };
            let expected = (at(step) - at(-step)) / (2.0 * step);
            let allowed = 1e-6 * (1.0 + expected.abs());
            assert!(
                (gradient[element] - expected).abs() < allowed,
                "{}: input {n}, element {element}: {} instead of {expected}",
                case.name,
                gradient[element]
            );
        }
    }
    check_twice(case, &content, &|content: &[Vec<f64>]| make(content, &second));
}

/// Checks second-order gradients against finite differences of the gradients, on the CPU.
fn check_twice(case: &Case, content: &[Vec<f64>], make: &dyn Fn(&[Vec<f64>]) -> Vec<Tensor>) {
    // The weighted sum of all gradients.
    let first = |inputs: &[Tensor], create_graph: bool| {
        inputs.iter().for_each(|input| input.set_requires_grad(true).unwrap());
        let sum = total(case, inputs);
        let way = Backward { retain_graph: false, create_graph };
        let found = gradients(&[(&sum, None)], &inputs.iter().collect::<Vec<_>>(), way)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        found.into_iter().flatten().enumerate().fold(None, |all: Option<Tensor>, (n, gradient)| {
            let factors =
                tensor(gradient.device(), gradient.shape(), &numbers(gradient.elements(), 11 + n, 0.5, 1.5));
            let sum = reduce::sum(&elementwise::mul(&gradient, &factors).unwrap(), None, false).unwrap();
            Some(all.map_or(sum.clone(), |all| elementwise::add(&all, &sum).unwrap()))
        })
    };
    let inputs = make(content);
    let all = first(&inputs, true).unwrap_or_else(|| panic!("{}: no gradients", case.name));
    if all.requires_grad() {
        all.backward(None, false).unwrap_or_else(|error| panic!("{} twice: {error}", case.name));
    }
    for (n, input) in inputs.iter().enumerate() {
        let found = input.grad().map_or(vec![0.0; content[n].len()], |gradient| values(&gradient));
        for element in 0..content[n].len() {
            let at = |change: f64| {
                let mut content = content.to_vec();
                content[n][element] += change;
                first(&make(&content), false).map_or(0.0, |all| values(&all)[0])
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!(
                (found[element] - expected).abs() < 1e-5 * (1.0 + expected.abs()),
                "{} twice: input {n}, element {element}: {} instead of {expected}",
                case.name,
                found[element]
            );
        }
    }
}

/// A case whose inputs lie between -1 and 1.
fn case(
    name: &str,
    shapes: &[&[usize]],
    function: impl Fn(&[Tensor]) -> tensor_core::Result<Tensor> + 'static,
) -> Case {
    within(name, -1.0, 1.0, shapes, function)
}

fn within(
    name: &str,
    low: f64,
    high: f64,
    shapes: &[&[usize]],
    function: impl Fn(&[Tensor]) -> tensor_core::Result<Tensor> + 'static,
) -> Case {
    let inputs = shapes.iter().map(|shape| (shape.to_vec(), low, high)).collect();
    Case { name: name.into(), inputs, function: Box::new(function) }
}

#[test]
fn functions_of_one_number() {
    use Unary::*;
    for function in [Neg, Abs, Exp, Exp2, Expm1, Sin, Cos, Tan, Atan, Sinh, Cosh, Tanh, Asinh, Erf, Sigmoid] {
        check(&case(&format!("{function:?}"), &[&[5]], move |x| elementwise::unary(function, &x[0])));
    }
    for function in [Sqrt, Rsqrt, Recip, Log, Log2, Log10, Log1p, Asin, Acos, Atanh, Floor, Ceil, Trunc, Sign]
    {
        check(&within(&format!("{function:?}"), 0.1, 0.9, &[&[5]], move |x| {
            elementwise::unary(function, &x[0])
        }));
    }
    check(&within("Acosh", 1.2, 3.0, &[&[5]], |x| elementwise::unary(Acosh, &x[0])));
    let scalar = |function, number, reflected| {
        move |x: &[Tensor]| elementwise::binary_scalar(function, &x[0], Scalar::Float(number), reflected)
    };
    check(&within("2 ^ x", -1.0, 1.0, &[&[4]], scalar(Binary::Pow, 2.0, true)));
    check(&within("x ^ 3", -1.0, 1.0, &[&[4]], scalar(Binary::Pow, 3.0, false)));
    check(&within("x ^ 2", -1.0, 1.0, &[&[4]], scalar(Binary::Pow, 2.0, false)));
    check(&within("x ^ 0", -1.0, 1.0, &[&[4]], scalar(Binary::Pow, 0.0, false)));
    check(&within("3 / x", 0.5, 1.0, &[&[4]], scalar(Binary::Div, 3.0, true)));
}

#[test]
fn functions_of_two_numbers() {
    use Binary::*;
    for function in [Add, Sub, Mul, Div, Pow, Max, Min, Atan2, Hypot, Logaddexp, Rem, Copysign] {
        check(&within(&format!("{function:?}"), 0.3, 1.7, &[&[2, 3], &[2, 1]], move |x| {
            elementwise::binary(function, &x[0], &x[1])
        }));
    }
    check(&case("where", &[&[2, 3], &[3]], |x| {
        elementwise::where_(&elementwise::binary(Gt, &x[0], &x[1])?, &x[0], &x[1])
    }));
    check(&case("clamp", &[&[9]], |x| {
        elementwise::clamp(&x[0], Some(Scalar::Float(-0.4)), Some(Scalar::Float(0.3)))
    }));
    check(&case("clamp from below", &[&[9]], |x| elementwise::clamp(&x[0], Some(Scalar::Float(-0.4)), None)));
    check(&case("a tensor twice", &[&[4]], |x| elementwise::mul(&x[0], &x[0])));
}

#[test]
fn activations() {
    type Activation = fn(&Tensor) -> tensor_core::Result<Tensor>;
    let all: [(&str, Activation); 12] = [
        ("relu", activation::relu),
        ("sigmoid", activation::sigmoid),
        ("tanh", activation::tanh),
        ("gelu", |x| activation::gelu(x, false)),
        ("gelu with tanh", |x| activation::gelu(x, true)),
        ("silu", activation::silu),
        ("leaky_relu", |x| activation::leaky_relu(x, 0.1)),
        ("elu", |x| activation::elu(x, 1.3)),
        ("selu", activation::selu),
        ("softplus", activation::softplus),
        ("mish", activation::mish),
        ("dropout", |x| activation::dropout(x, 0.4, 3, 7)),
    ];
    for (name, function) in all {
        check(&within(name, -2.0, 2.0, &[&[7]], move |x| function(&x[0])));
    }
    check(&case("softmax", &[&[3, 4]], |x| softmax::softmax(&x[0], 0)));
    check(&case("log_softmax", &[&[3, 4]], |x| softmax::log_softmax(&x[0], -1)));
    check(&case("logsumexp", &[&[3, 4]], |x| softmax::logsumexp(&x[0], Some(&[1]), false)));
}

#[test]
fn reductions() {
    for (dims, keepdim) in [(None, false), (Some(&[1][..]), true), (Some(&[0, -1][..]), false)] {
        let name = |what: &str| format!("{what} over {dims:?}");
        check(&case(&name("sum"), &[&[2, 3, 2]], move |x| reduce::sum(&x[0], dims, keepdim)));
        check(&case(&name("mean"), &[&[2, 3, 2]], move |x| reduce::mean(&x[0], dims, keepdim)));
        check(&case(&name("prod"), &[&[2, 3, 2]], move |x| reduce::prod(&x[0], dims, keepdim)));
        check(&case(&name("max"), &[&[2, 3, 2]], move |x| reduce::max(&x[0], dims, keepdim)));
        check(&case(&name("min"), &[&[2, 3, 2]], move |x| reduce::min(&x[0], dims, keepdim)));
        check(&case(&name("var"), &[&[2, 3, 2]], move |x| norm::var(&x[0], dims, 1.0, keepdim)));
        check(&case(&name("std"), &[&[2, 3, 2]], move |x| norm::std(&x[0], dims, 0.0, keepdim)));
    }
    check(&case("max_with_indices", &[&[3, 4]], |x| Ok(sort::max_with_indices(&x[0], 1, false)?.0)));
    check(&case("sort", &[&[3, 4]], |x| Ok(sort::sort(&x[0], 0, true)?.0)));
    check(&case("topk", &[&[3, 4]], |x| Ok(sort::topk(&x[0], 2, -1, false)?.0)));
    check(&case("cumsum", &[&[3, 4]], |x| sort::cumsum(&x[0], 1)));
    check(&case("cumprod", &[&[3, 4]], |x| sort::cumprod(&x[0], 0)));
}

#[test]
fn products() {
    let shapes: [(&[usize], &[usize]); 8] = [
        (&[3], &[3]),
        (&[2, 3], &[3]),
        (&[3], &[3, 2]),
        (&[2, 3], &[3, 4]),
        (&[2, 2, 3], &[3, 2]),
        (&[2, 2, 3], &[2, 3, 2]),
        (&[2, 1, 2, 3], &[3, 3, 2]),
        (&[3], &[2, 3, 2]),
    ];
    for (left, right) in shapes {
        check(&case(&format!("{left:?} @ {right:?}"), &[left, right], |x| matmul::matmul(&x[0], &x[1])));
    }
    let equations: [(&str, &[&[usize]]); 14] = [
        ("ij,jk->ik", &[&[2, 3], &[3, 2]]),
        ("bij,bkj->bik", &[&[2, 2, 3], &[2, 2, 3]]),
        ("i,j", &[&[2], &[3]]),
        ("ii->i", &[&[3, 3]]),
        ("ii", &[&[3, 3]]),
        ("ijk->kj", &[&[2, 3, 2]]),
        ("ab,bc,cd->da", &[&[2, 3], &[3, 2], &[2, 2]]),
        ("...ij,...jk", &[&[2, 1, 2, 3], &[3, 3, 2]]),
        ("i...->...", &[&[3, 2, 2]]),
        ("a...,...->a...", &[&[2, 3], &[3]]),
        ("...->", &[&[2, 3]]),
        ("...ii->...i", &[&[2, 3, 3]]),
        ("iji,j->i", &[&[2, 3, 2], &[3]]),
        ("iii->", &[&[2, 2, 2]]),
    ];
    for (equation, shapes) in equations {
        check(&case(equation, shapes, move |x| einsum(equation, &x.iter().collect::<Vec<_>>())));
    }
    for offset in [-1, 0, 1, 5] {
        check(&case("diagonal", &[&[2, 3, 4]], move |x| diagonal(&x[0], offset, -2, -1)));
        check(&case("diagonal of other axes", &[&[3, 2, 3]], move |x| diagonal(&x[0], offset, 2, 0)));
    }
    check(&case("bmm", &[&[2, 2, 3], &[2, 3, 2]], |x| matmul::bmm(&x[0], &x[1])));
    check(&case("outer", &[&[2], &[3]], |x| matmul::outer(&x[0], &x[1])));
    check(&case("linear", &[&[2, 2, 3], &[4, 3], &[4]], |x| matmul::linear(&x[0], &x[1], Some(&x[2]))));
}

/// Adds the identity, to stay away from singular matrices.
/// Attention as the operations that it consists of.
fn attention_apart(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> tensor_core::Result<Tensor> {
    let number =
        |function, x: &Tensor, number| elementwise::binary_scalar(function, x, Scalar::Float(number), false);
    let scores = number(Binary::Mul, &matmul::matmul(q, &shape::transpose(k, -2, -1)?)?, 0.7)?;
    let nothing = number(Binary::Mul, &scores, 0.0)?;
    let later = number(Binary::Add, &nothing, if causal { -1e30 } else { 0.0 })?;
    let scores = elementwise::add(&scores, &index::triu(&later, 1)?)?;
    matmul::matmul(&softmax::softmax(&scores, -1)?, v)
}

#[test]
fn attention() {
    let shapes: [&[usize]; 3] = [&[1, 2, 3, 4], &[1, 2, 5, 4], &[1, 2, 5, 4]];
    for causal in [false, true] {
        check(&case("attention", &shapes, move |x| {
            // A device that computes at once declines it in one launch.
            let one = tensor_core::ops::attention::attention(&x[0], &x[1], &x[2], causal, 0.7)?;
            one.map_or_else(|| attention_apart(&x[0], &x[1], &x[2], causal), Ok)
        }));
    }
}

fn with_unit(x: &Tensor) -> tensor_core::Result<Tensor> {
    elementwise::add(x, &create::eye(x.device(), DType::F64, 2, 2)?)
}

#[test]
fn matrices() {
    for p in [1.0, 2.0, 3.0, f64::INFINITY] {
        check(&case("norm", &[&[2, 3]], move |x| length::norm(&x[0], p, Some(&[1]), false)));
    }
    check(&case("inv", &[&[2, 2, 2]], |x| linalg::inv(&with_unit(&x[0])?)));
    check(&case("solve", &[&[2, 2], &[3, 2, 1]], |x| linalg::solve(&with_unit(&x[0])?, &x[1])));
    check(&case("det", &[&[2, 2, 2]], |x| linalg::det(&with_unit(&x[0])?)));
    check(&case("slogdet", &[&[2, 2, 2]], |x| Ok(linalg::slogdet(&with_unit(&x[0])?)?.1)));
}

#[test]
fn shapes() {
    check(&case("reshape", &[&[2, 6]], |x| shape::reshape(&shape::transpose(&x[0], 0, 1)?, &[3, -1])));
    check(&case("permute", &[&[2, 3, 2]], |x| shape::permute(&x[0], &[2, 0, 1])));
    check(&case("expand", &[&[2, 1]], |x| shape::expand(&x[0], &[3, -1, 4])));
    check(&case("squeeze", &[&[2, 1, 3]], |x| shape::squeeze(&x[0], None)));
    check(&case("flatten", &[&[2, 2, 3]], |x| shape::flatten(&x[0], 1, -1)));
    check(&case("slice", &[&[7, 2]], |x| shape::slice(&x[0], 0, 1, 6, 2)));
    check(&case("slice backwards", &[&[2, 7]], |x| shape::slice(&x[0], 1, -1, -7, -2)));
    check(&case("select", &[&[3, 2]], |x| shape::select(&x[0], 0, -1)));
    check(&case("flip", &[&[3, 2]], |x| shape::flip(&x[0], &[0, 1])));
    check(&case("clone", &[&[3]], |x| shape::clone(&x[0])));
    check(&case("cat", &[&[2, 3], &[1, 3]], |x| join::cat(&[&x[0], &x[1], &x[0]], 0)));
    check(&case("stack", &[&[2, 3], &[2, 3]], |x| join::stack(&[&x[0], &x[1]], 1)));
    check(&case("split", &[&[2, 5]], |x| {
        let parts = join::split(&x[0], &[2, 3], 1)?;
        elementwise::mul(&parts[0], &shape::slice(&parts[1], 1, 0, 2, 1)?)
    }));
    check(&case("roll", &[&[5]], |x| join::roll(&x[0], 2, 0)));
    check(&case("tile", &[&[2, 3]], |x| join::tile(&x[0], &[2, 1, 2])));
    check(&case("repeat_interleave", &[&[2, 3]], |x| join::repeat_interleave(&x[0], 2, 1)));
    check(&case("pad", &[&[3, 2]], |x| window::pad(&x[0], &[(1, 2), (0, 1)], Scalar::Float(0.5))));
    check(&case("pad inwards", &[&[4, 2]], |x| window::pad(&x[0], &[(-1, 2), (1, -1)], Scalar::Int(0))));
    check(&case("windows", &[&[2, 7]], |x| window::windows(&x[0], &[3], &[2], &[1])));
    check(&case("fold", &[&[2, 3, 2]], |x| window::fold(&x[0], &[8], &[2], &[3])));
    check(&case("as_strided", &[&[3, 4]], |x| strided::as_strided(&x[0], &[3, 3], &[2, 1], 1)));
    check(&case("tril", &[&[3, 4]], |x| index::tril(&x[0], 1)));
    check(&case("triu", &[&[3, 4]], |x| index::triu(&x[0], 0)));
}

#[test]
fn indices() {
    let places = |x: &Tensor, shape: &[usize], values: &[i64]| integers(x.device(), shape, values);
    check(&case("gather", &[&[3, 4]], move |x| {
        index::gather(&x[0], 1, &places(&x[0], &[2, 3], &[0, 3, 3, 1, 1, 2]))
    }));
    check(&case("scatter_add", &[&[3, 2], &[2, 2]], move |x| {
        index::scatter_add(&x[0], 0, &places(&x[0], &[2, 2], &[0, 2, 0, 1]), &x[1])
    }));
    check(&case("scatter_add into a corner", &[&[3, 3], &[2, 2]], move |x| {
        index::scatter_add(&x[0], 0, &places(&x[0], &[2, 2], &[0, 2, 0, 1]), &x[1])
    }));
    check(&case("scatter", &[&[3, 2], &[2, 2]], move |x| {
        index::scatter(&x[0], 0, &places(&x[0], &[2, 2], &[0, 2, 1, 1]), &x[1])
    }));
    check(&case("index_select", &[&[3, 4]], move |x| {
        index::index_select(&x[0], 1, &places(&x[0], &[3], &[-1, 0, 0]))
    }));
    check(&case("embedding", &[&[4, 3]], move |x| {
        index::embedding(&x[0], &places(&x[0], &[2, 2], &[3, 1, 1, 0]))
    }));
    check(&case("take", &[&[2, 3]], move |x| index::take(&x[0], &places(&x[0], &[2, 2], &[5, 1, 1, 0]))));
    check(&case("masked_fill", &[&[2, 3]], |x| {
        let mask = create::eye(x[0].device(), DType::Bool, 2, 3)?;
        index::masked_fill(&x[0], &mask, Scalar::Float(3.0))
    }));
    check(&case("masked_select", &[&[2, 3]], |x| {
        index::masked_select(&x[0], &create::eye(x[0].device(), DType::Bool, 2, 3)?)
    }));
}

#[test]
fn convolutions() {
    let options = |stride: usize, padding: usize, dilation: usize, groups: usize| ConvOptions {
        stride: vec![stride],
        padding: vec![padding],
        dilation: vec![dilation],
        groups,
    };
    let cases = [
        ("conv1d", vec![2, 2, 6], vec![3, 2, 3], options(1, 0, 1, 1)),
        ("conv1d by 2", vec![1, 2, 7], vec![2, 2, 2], options(2, 1, 2, 1)),
        ("conv2d", vec![2, 2, 4, 3], vec![2, 2, 3, 2], options(1, 1, 1, 1)),
        ("conv2d in groups", vec![1, 4, 4, 4], vec![4, 2, 2, 2], options(2, 0, 1, 2)),
        ("conv2d of each channel", vec![1, 2, 4, 4], vec![2, 1, 3, 3], options(1, 1, 1, 2)),
        ("conv3d", vec![1, 2, 3, 3, 2], vec![2, 2, 2, 2, 2], options(1, 0, 1, 1)),
    ];
    for (name, x, weight, options) in cases {
        let out = [weight[0]];
        check(&case(name, &[&x, &weight, &out], move |x| conv(&x[0], &x[1], Some(&x[2]), &options)));
    }
    let transposed = [
        ("conv_transpose1d", vec![2, 2, 3], vec![2, 3, 3], options(2, 1, 1, 1), 1),
        ("conv_transpose2d", vec![1, 2, 2, 3], vec![2, 2, 3, 2], options(2, 1, 1, 1), 0),
        ("conv_transpose2d in groups", vec![1, 4, 2, 2], vec![4, 1, 2, 2], options(1, 0, 2, 2), 1),
    ];
    for (name, x, weight, options, extra) in transposed {
        let out = [weight[1] * options.groups];
        check(&case(name, &[&x, &weight, &out], move |x| {
            conv_transpose(&x[0], &x[1], Some(&x[2]), &options, &[extra])
        }));
    }
}

#[test]
fn pools() {
    let options = |kernel: usize, stride: usize, padding: usize, ceil: bool| PoolOptions {
        stride: vec![stride],
        padding: vec![padding],
        ceil_mode: ceil,
        ..PoolOptions::new(&[kernel])
    };
    for (kernel, stride, padding, ceil) in [(2, 2, 0, false), (3, 2, 1, true), (2, 1, 1, false)] {
        let options = options(kernel, stride, padding, ceil);
        let name = format!("{kernel} by {stride} with {padding}, {ceil}");
        for (x, axes) in [(vec![1, 2, 6], 1), (vec![1, 1, 5, 4], 2), (vec![1, 1, 3, 4, 3], 3)] {
            let chosen = options.clone();
            check(&case(&format!("max_pool{axes}d {name}"), &[&x], move |x| max_pool(&x[0], axes, &chosen)));
            for count_include_pad in [true, false] {
                let chosen = PoolOptions { count_include_pad, ..options.clone() };
                check(&case(&format!("avg_pool{axes}d {name}"), &[&x], move |x| {
                    avg_pool(&x[0], axes, &chosen)
                }));
            }
        }
    }
    check(&case("adaptive_avg_pool2d", &[&[1, 2, 4, 6]], |x| adaptive_avg_pool(&x[0], &[2, 3])));
    // 6 elements into 4 windows: the windows overlap.
    check(&case("adaptive_avg_pool1d", &[&[1, 2, 6]], |x| adaptive_avg_pool(&x[0], &[4])));
}

#[test]
fn norms() {
    check(&case("layer_norm", &[&[2, 3, 4], &[3, 4], &[3, 4]], |x| {
        norm::layer_norm(&x[0], &[3, 4], Some(&x[1]), Some(&x[2]), 1e-5)
    }));
    check(&case("layer_norm without weight", &[&[3, 4]], |x| {
        norm::layer_norm(&x[0], &[4], None, None, 1e-5)
    }));
    check(&case("group_norm", &[&[2, 4, 3], &[4], &[4]], |x| {
        norm::group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-5)
    }));
    check(&case("instance_norm", &[&[2, 2, 4], &[2], &[2]], |x| {
        norm::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5)
    }));
    check(&case("batch_norm", &[&[3, 2, 2], &[2], &[2]], |x| {
        norm::batch_norm(&x[0], None, Some(&x[1]), Some(&x[2]), true, 0.1, 1e-5)
    }));
    check(&case("batch_norm afterwards", &[&[3, 2, 2], &[2], &[2]], |x| {
        let (mean, variance) =
            (tensor(x[0].device(), &[2], &[0.1, -0.2]), tensor(x[0].device(), &[2], &[1.5, 0.7]));
        let running = norm::Running { mean: &mean, variance: &variance };
        norm::batch_norm(&x[0], Some(running), Some(&x[1]), Some(&x[2]), false, 0.1, 1e-5)
    }));
}

#[test]
fn losses() {
    for reduction in [LossReduction::None, LossReduction::Mean, LossReduction::Sum] {
        let pair: &[&[usize]] = &[&[3, 4], &[3, 4]];
        check(&case("mse", pair, move |x| loss::mse_loss(&x[0], &x[1], reduction)));
        check(&case("l1", pair, move |x| loss::l1_loss(&x[0], &x[1], reduction)));
        check(&case("smooth_l1", pair, move |x| loss::smooth_l1_loss(&x[0], &x[1], 0.5, reduction)));
        check(&case("huber", pair, move |x| loss::huber_loss(&x[0], &x[1], 0.5, reduction)));
        check(&within("bce", 0.1, 0.9, pair, move |x| loss::bce_loss(&x[0], &x[1], None, reduction)));
        check(&within("bce_with_logits", -2.0, 2.0, &[&[3, 4], &[3, 4], &[4]], move |x| {
            loss::bce_with_logits(&x[0], &x[1], Some(&x[1]), Some(&x[2]), reduction)
        }));
        check(&within("kl_div", 0.1, 0.9, pair, move |x| loss::kl_div(&x[0], &x[1], false, reduction)));
        check(&case("kl_div of logarithms", pair, move |x| loss::kl_div(&x[0], &x[1], true, reduction)));
        for (smoothing, weighted) in [(0.0, false), (0.2, true)] {
            check(&case("cross_entropy", &[&[4, 3]], move |x| {
                let target = integers(x[0].device(), &[4], &[2, 0, -100, 1]);
                let weight = tensor(x[0].device(), &[3], &[0.5, 1.0, 2.0]);
                let options = ClassOptions {
                    weight: weighted.then_some(&weight),
                    label_smoothing: smoothing,
                    reduction,
                    ..ClassOptions::default()
                };
                loss::cross_entropy(&x[0], &target, &options)
            }));
        }
        check(&case("nll of positions", &[&[2, 3, 2]], move |x| {
            let target = integers(x[0].device(), &[2, 2], &[2, 0, 1, 1]);
            let options = ClassOptions { ignore_index: 1, reduction, ..ClassOptions::default() };
            loss::nll_loss(&x[0], &target, &options)
        }));
        check(&case("cross_entropy of probabilities", pair, move |x| {
            let options = ClassOptions { label_smoothing: 0.1, reduction, ..ClassOptions::default() };
            loss::cross_entropy(&x[0], &x[1], &options)
        }));
    }
}
