//! Loss functions. Means and sums take one launch where the elements need only one operation each.

use crate::bounds::within;
use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::launch::accumulator;
use crate::layout::Shape;
use crate::node::Op;
use crate::ops::elementwise::{
    add, binary, binary_scalar, cast, clamp, div, maximum, mul, plus, scaled, sub, unary, where_,
};
use crate::ops::fused;
use crate::ops::index::picked;
use crate::ops::iota::iota;
use crate::ops::reduce::{self, finish, sum_over};
use crate::ops::shape::{broadcast_to, to_shape, unsqueeze};
use crate::ops::softmax::log_softmax;
use crate::program::{Binary, Unary};
use crate::step::{Fused, Work};
use crate::tensor::{Result, Tensor, same_device};

/// How the losses of the elements are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossReduction {
    /// The loss of every element.
    None,
    /// The mean over the elements.
    #[default]
    Mean,
    /// The sum over the elements.
    Sum,
}

/// Computes a loss in the type that sums are computed in, and rounds only the result to the input's type.
fn precisely(input: &Tensor, loss: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    rounded(&loss(&cast(input, accumulator(input.dtype()))?)?, input.dtype())
}

/// Rounds to a type if sums of it are computed in a wider one.
fn rounded(loss: &Tensor, dtype: DType) -> Result<Tensor> {
    if accumulator(dtype) == dtype { Ok(loss.clone()) } else { cast(loss, dtype) }
}

impl LossReduction {
    fn apply(self, loss: &Tensor) -> Result<Tensor> {
        match self {
            LossReduction::None => Ok(loss.clone()),
            LossReduction::Mean => reduce::mean(loss, None, false),
            LossReduction::Sum => reduce::sum(loss, None, false),
        }
    }
}

/// The squared difference.
pub fn mse_loss(input: &Tensor, target: &Tensor, reduction: LossReduction) -> Result<Tensor> {
    precisely(&difference("mse_loss", input, target)?, |difference| {
        reduction.apply(&mul(difference, difference)?)
    })
}

/// The absolute difference.
pub fn l1_loss(input: &Tensor, target: &Tensor, reduction: LossReduction) -> Result<Tensor> {
    precisely(&difference("l1_loss", input, target)?, |difference| {
        reduction.apply(&unary(Unary::Abs, difference)?)
    })
}

/// Smooth L1 loss: quadratic below `beta`, linear above.
pub fn smooth_l1_loss(
    input: &Tensor,
    target: &Tensor,
    beta: f64,
    reduction: LossReduction,
) -> Result<Tensor> {
    if beta == 0.0 {
        return l1_loss(input, target, reduction);
    }
    precisely(&difference("smooth_l1_loss", input, target)?, |difference| {
        reduction.apply(&scaled(&huber(difference, beta)?, 1.0 / beta)?)
    })
}

/// Half of the squared difference where it is below `delta`, and linear beyond.
pub fn huber_loss(input: &Tensor, target: &Tensor, delta: f64, reduction: LossReduction) -> Result<Tensor> {
    if delta <= 0.0 {
        return Err(TensorError::shape("huber_loss", format!("delta must be above zero, not {delta}")));
    }
    precisely(&difference("huber_loss", input, target)?, |difference| {
        reduction.apply(&huber(difference, delta)?)
    })
}

fn huber(difference: &Tensor, delta: f64) -> Result<Tensor> {
    let distance = unary(Unary::Abs, difference)?;
    let near = binary_scalar(Binary::Lt, &distance, Scalar::Float(delta), false)?;
    let square = scaled(&mul(difference, difference)?, 0.5)?;
    where_(&near, &square, &scaled(&plus(&distance, -0.5 * delta)?, delta)?)
}

/// Binary cross entropy of probabilities; logarithms are clamped at -100 so that no loss is infinite.
pub fn bce_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: LossReduction,
) -> Result<Tensor> {
    alike("bce_loss", input, target)?;
    precisely(input, |input| bce(input, &cast(target, input.dtype())?, weight, reduction))
}

fn bce(input: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: LossReduction) -> Result<Tensor> {
    let least = Some(Scalar::Float(-100.0));
    let yes = clamp(&unary(Unary::Log, input)?, least, None)?;
    let no = clamp(&unary(Unary::Log1p, &unary(Unary::Neg, input)?)?, least, None)?;
    let one_less = binary_scalar(Binary::Sub, target, Scalar::Float(1.0), true)?;
    let loss = unary(Unary::Neg, &add(&mul(target, &yes)?, &mul(&one_less, &no)?)?)?;
    reduction.apply(&weighted(loss, weight)?)
}

/// Binary cross entropy of logits: the sigmoid is applied inside.
pub fn bce_with_logits(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: LossReduction,
) -> Result<Tensor> {
    alike("bce_with_logits", input, target)?;
    precisely(input, |input| {
        bce_of_logits(input, &cast(target, input.dtype())?, weight, pos_weight, reduction)
    })
}

fn bce_of_logits(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: LossReduction,
) -> Result<Tensor> {
    // log(1 + exp(-x)) = max(-x, 0) + log(1 + exp(-|x|)), which cannot overflow.
    let zero = input.filled_like(0.0);
    let small = unary(Unary::Log1p, &unary(Unary::Exp, &unary(Unary::Neg, &unary(Unary::Abs, input)?)?)?)?;
    let softplus = add(&maximum(&unary(Unary::Neg, input)?, &zero)?, &small)?;
    let one_less = binary_scalar(Binary::Sub, target, Scalar::Float(1.0), true)?;
    let loss = match pos_weight {
        // (1 - t) x + (1 + (p - 1) t) log(1 + exp(-x)).
        Some(pos_weight) => {
            let factor = plus(&mul(&plus(&cast(pos_weight, input.dtype())?, -1.0)?, target)?, 1.0)?;
            add(&mul(&one_less, input)?, &mul(&factor, &softplus)?)?
        }
        None => add(&mul(&one_less, input)?, &softplus)?,
    };
    reduction.apply(&weighted(loss, weight)?)
}

/// Kullback-Leibler divergence; the input is a logarithm already. `Mean` is over all elements, as in PyTorch.
pub fn kl_div(input: &Tensor, target: &Tensor, log_target: bool, reduction: LossReduction) -> Result<Tensor> {
    alike("kl_div", input, target)?;
    let wide = cast(target, accumulator(target.dtype()))?;
    let dtype = crate::ops::elementwise::result_type(input, target);
    let loss = divergence(&cast(input, accumulator(input.dtype()))?, &wide, log_target)?;
    rounded(&reduction.apply(&loss)?, dtype)
}

fn divergence(input: &Tensor, target: &Tensor, log_target: bool) -> Result<Tensor> {
    if log_target {
        mul(&unary(Unary::Exp, target)?, &sub(target, input)?)
    } else {
        let positive = binary_scalar(Binary::Gt, target, Scalar::Float(0.0), false)?;
        let one = target.filled_like(1.0);
        let logarithm = unary(Unary::Log, &where_(&positive, target, &one)?)?;
        sub(&mul(target, &logarithm)?, &mul(target, input)?)
    }
}

/// Options of a loss over classes.
#[derive(Clone, Copy, Debug)]
pub struct ClassOptions<'a> {
    /// One number for each class.
    pub weight: Option<&'a Tensor>,
    /// Targets of this class do not count.
    pub ignore_index: i64,
    /// The share of the target that is spread evenly over all classes.
    pub label_smoothing: f64,
    /// How the losses are combined.
    pub reduction: LossReduction,
}

impl Default for ClassOptions<'_> {
    fn default() -> Self {
        ClassOptions {
            weight: None,
            ignore_index: -100,
            label_smoothing: 0.0,
            reduction: LossReduction::Mean,
        }
    }
}

/// Negative log likelihood of log-probabilities `[n, classes, ..]` or `[classes]`; targets are class indices `[n, ..]`.
pub fn nll_loss(input: &Tensor, target: &Tensor, options: &ClassOptions<'_>) -> Result<Tensor> {
    precisely(input, |input| Classes::of("nll_loss", input, target, options)?.loss(0.0))
}

/// Cross entropy of logits `[n, classes, ..]` or `[classes]`; targets are class indices `[n, ..]`, or probabilities in the shape
/// of the input.
pub fn cross_entropy(input: &Tensor, target: &Tensor, options: &ClassOptions<'_>) -> Result<Tensor> {
    if !(0.0..=1.0).contains(&options.label_smoothing) {
        return Err(TensorError::shape(
            "cross_entropy",
            format!("label_smoothing must be from 0 to 1, not {}", options.label_smoothing),
        ));
    }
    let axis = usize::from(input.rank() > 1);
    if input.rank() == 0 {
        return Err(TensorError::shape("cross_entropy", "the input needs a dimension of classes"));
    }
    if options.label_smoothing == 0.0
        && !target.dtype().is_float()
        && let Some(loss) = in_one_launch(input, target, axis, options)?
    {
        return Ok(loss);
    }
    precisely(input, |input| {
        let logarithms = log_softmax(input, axis as isize)?;
        if target.dtype().is_float() {
            return of_probabilities(&logarithms, target, axis, options);
        }
        Classes::of("cross_entropy", &logarithms, target, options)?.loss(options.label_smoothing)
    })
}

/// Cross entropy of classes without the matrix of log-probabilities in memory; `None` if the device has no step for it.
fn in_one_launch(
    input: &Tensor,
    target: &Tensor,
    axis: usize,
    options: &ClassOptions<'_>,
) -> Result<Option<Tensor>> {
    let name = "cross_entropy";
    check_classes(name, input, target)?;
    let (device, work) = (input.device(), Work::CrossEntropy { axis });
    let fits = input.dtype().is_float() && input.elements() > 0;
    if !fits || !device.supports(&work, &[input.dtype(), DType::I64]) {
        return Ok(None);
    }
    let wide = accumulator(input.dtype());
    let target = cast(target, DType::I64)?;
    let counts = binary_scalar(Binary::Ne, &target, Scalar::Int(options.ignore_index), false)?;
    let none = target.filled_like(0.0);
    let checked = within(name, &where_(&counts, &target, &none)?, input.shape()[axis])?;
    let ignored = Tensor::constant(device, Scalar::Int(-2), target.shape(), DType::I64);
    let class = unsqueeze(&where_(&counts, &checked, &ignored)?, axis as isize)?;
    let small = class.shape();
    let (losses, sums) = fused::pair(Box::new(work), &[input, &class], (small, wide), (small, wide));
    let losses = losses.record(name, &[input], |_| {
        let x = input.saved();
        Box::new(move |g| Ok(vec![Some(of_logits(&x, &class, &sums, g, axis)?)]))
    });
    let mut losses = to_shape(&losses, target.shape())?;
    let mut weight = cast(&counts, wide)?;
    if let Some(weights) = options.weight {
        check_weight(weights, input.shape()[axis])?;
        let flat = to_shape(&checked, &[checked.elements()])?;
        let own = to_shape(&picked(&cast(weights, wide)?, 0, &flat)?, target.shape())?;
        weight = where_(&counts, &own, &weight.filled_like(0.0))?;
        losses = mul(&losses, &weight)?;
    }
    let loss = match options.reduction {
        LossReduction::None => losses,
        LossReduction::Sum => reduce::sum(&losses, None, false)?,
        LossReduction::Mean => div(&reduce::sum(&losses, None, false)?, &reduce::sum(&weight, None, false)?)?,
    };
    Ok(Some(rounded(&loss, input.dtype())?))
}

/// The gradient of [`in_one_launch`]'s losses for the logits.
fn of_logits(x: &Tensor, class: &Tensor, sums: &Tensor, g: &Tensor, axis: usize) -> Result<Tensor> {
    let is_recorded = crate::grad_mode::is_enabled();
    if !is_recorded
        && let Some(work) = fused::supported(Fused::CrossEntropyGradient { axis }, &[x, class, sums, g])
    {
        let op = Op::Whole(work, Vec::new());
        return Ok(Tensor::make(op, &[x, class, sums, g], x.shape().into(), x.dtype()));
    }
    let wide = cast(x, g.dtype())?;
    // The logarithms that the loss kept have no gradients.
    let logarithms = if is_recorded { log_softmax(&wide, axis as isize)? } else { sub(&wide, sums)? };
    let number = iota(x.device(), x.shape(), axis)?;
    let chosen = cast(&binary(Binary::Eq, &number, &broadcast_to(class, x.shape())?)?, g.dtype())?;
    let slope = mul(&sub(&unary(Unary::Exp, &logarithms)?, &chosen)?, g)?;
    let counts = broadcast_to(&binary_scalar(Binary::Ge, class, Scalar::Int(-1), false)?, x.shape())?;
    cast(&where_(&counts, &slope, &slope.filled_like(0.0))?, x.dtype())
}

fn of_probabilities(
    logarithms: &Tensor,
    target: &Tensor,
    axis: usize,
    options: &ClassOptions<'_>,
) -> Result<Tensor> {
    alike("cross_entropy", logarithms, target)?;
    let classes = logarithms.shape()[axis];
    let mut target = cast(target, logarithms.dtype())?;
    if options.label_smoothing > 0.0 {
        let share = options.label_smoothing / classes as f64;
        target = plus(&scaled(&target, 1.0 - options.label_smoothing)?, share)?;
    }
    let mut loss = unary(Unary::Neg, &mul(logarithms, &target)?)?;
    if let Some(weight) = options.weight {
        loss = mul(&loss, &per_class(weight, logarithms, axis)?)?;
    }
    let samples = logarithms.elements() / classes.max(1);
    match options.reduction {
        LossReduction::None => finish(&sum_over(&loss, &[axis])?, &[axis], false),
        LossReduction::Sum => reduce::sum(&loss, None, false),
        LossReduction::Mean => scaled(&reduce::sum(&loss, None, false)?, 1.0 / samples as f64),
    }
}

/// Checks that the targets are a class for each sample.
fn check_classes(name: &'static str, input: &Tensor, target: &Tensor) -> Result<()> {
    same_device(name, input, target)?;
    let axis = usize::from(input.rank() > 1);
    let mut samples = Shape::from(input.shape());
    if !samples.is_empty() {
        samples.remove(axis);
    }
    if input.rank() == 0 || target.shape() != samples.as_slice() {
        return Err(TensorError::shape(
            name,
            format!(
                "an input of {:?} ([n, classes, ..]) needs targets of {samples:?}, not {:?}",
                input.shape(),
                target.shape()
            ),
        ));
    }
    if !target.dtype().is_integer() {
        return Err(TensorError::type_of(
            name,
            format!("targets are class indices and must have an integer type, not {}", target.dtype()),
        ));
    }
    Ok(())
}

fn check_weight(weight: &Tensor, classes: usize) -> Result<()> {
    if weight.shape() == [classes] {
        return Ok(());
    }
    let why = format!("the weight is {:?}, there are {classes} classes", weight.shape());
    Err(TensorError::shape("cross_entropy", why))
}

fn per_class(weight: &Tensor, like: &Tensor, axis: usize) -> Result<Tensor> {
    let classes = like.shape()[axis];
    check_weight(weight, classes)?;
    let mut shape = Shape::from_elem(1, like.rank());
    shape[axis] = classes;
    broadcast_to(&to_shape(&cast(weight, like.dtype())?, &shape)?, like.shape())
}

/// Log-probabilities with the target class of each sample.
struct Classes<'a> {
    logarithms: &'a Tensor,
    axis: usize,
    /// In the shape of the logarithms: whether this is the sample's class.
    chosen: Tensor,
    /// In the shape of the logarithms: whether the sample counts.
    counts: Tensor,
    /// Zero, or NaN for a sample whose class is out of range; computing it makes the device report the bad class.
    zero: Tensor,
    weight: Option<Tensor>,
    reduction: LossReduction,
}

impl<'a> Classes<'a> {
    fn of(
        name: &'static str,
        logarithms: &'a Tensor,
        target: &Tensor,
        options: &ClassOptions<'_>,
    ) -> Result<Classes<'a>> {
        check_classes(name, logarithms, target)?;
        let axis = usize::from(logarithms.rank() > 1);
        let target =
            broadcast_to(&unsqueeze(&cast(target, DType::I64)?, axis as isize)?, logarithms.shape())?;
        let number = iota(logarithms.device(), logarithms.shape(), axis)?;
        let counts = binary_scalar(Binary::Ne, &target, Scalar::Int(options.ignore_index), false)?;
        let chosen = binary(Binary::And, &binary(Binary::Eq, &number, &target)?, &counts)?;
        // Only the loss checks the classes; its gradient does not check them again.
        let (none, not) = (target.filled_like(0.0), logarithms.filled_like(f64::NAN));
        let class = within(name, &where_(&counts, &target, &none)?, logarithms.shape()[axis])?;
        let wrong = binary_scalar(Binary::Lt, &class, Scalar::Int(0), false)?;
        let zero = where_(&wrong, &not.snapshot(), &logarithms.filled_like(0.0))?;
        let weight = options.weight.map(|weight| per_class(weight, logarithms, axis)).transpose()?;
        Ok(Classes { logarithms, axis, chosen, counts, zero, weight, reduction: options.reduction })
    }

    /// Takes one launch for the sum and one for the divisor; per-element losses are not stored.
    fn loss(&self, smoothing: f64) -> Result<Tensor> {
        let zero = self.logarithms.filled_like(0.0);
        let one = self.logarithms.filled_like(1.0);
        let weight = self.weight.as_ref().unwrap_or(&one);
        let minus = mul(&unary(Unary::Neg, self.logarithms)?, weight)?;
        let mut loss = where_(&self.chosen, &minus, &self.zero)?;
        if smoothing > 0.0 {
            let classes = self.logarithms.shape()[self.axis] as f64;
            let spread = where_(&self.counts, &scaled(&minus, smoothing / classes)?, &zero)?;
            loss = add(&scaled(&loss, 1.0 - smoothing)?, &spread)?;
        }
        match self.reduction {
            LossReduction::None => finish(&sum_over(&loss, &[self.axis])?, &[self.axis], false),
            LossReduction::Sum => reduce::sum(&loss, None, false),
            LossReduction::Mean => {
                let total = reduce::sum(&where_(&self.chosen, weight, &zero)?, None, false)?;
                div(&reduce::sum(&loss, None, false)?, &total)
            }
        }
    }
}

fn weighted(loss: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    match weight {
        Some(weight) => mul(&loss, &cast(weight, loss.dtype())?),
        None => Ok(loss),
    }
}

fn alike(name: &'static str, input: &Tensor, target: &Tensor) -> Result<()> {
    same_device(name, input, target)?;
    if input.shape() == target.shape() {
        return Ok(());
    }
    Err(TensorError::shape(
        name,
        format!(
            "the input is {:?}, the target {:?}; they must have one shape",
            input.shape(),
            target.shape()
        ),
    ))
}

fn difference(name: &'static str, input: &Tensor, target: &Tensor) -> Result<Tensor> {
    same_device(name, input, target)?;
    crate::ops::axes::broadcast(name, input.shape(), target.shape())?;
    sub(input, target)
}
