//! Attention as one launch, without a matrix of scores in memory.

use crate::dtype::{DType, Scalar};
use crate::layout::Shape;
use crate::node::{Inputs, Node, Op};
use crate::ops::elementwise::{binary, cast, mul, scaled, sub, unary, where_};
use crate::ops::iota::iota;
use crate::ops::matmul::{Precision, matmul, precision};
use crate::ops::reduce::sum_over;
use crate::ops::shape::permuted;
use crate::program::{Binary, Unary};
use crate::step::Work;
use crate::tensor::{Result, Tensor, same_device};

/// The widest heads of one launch.
const WIDEST: usize = 128;

/// Attention of `[batch, heads, length, width]` queries, keys and values: `softmax(q k^T * scale) v`. A causal one hides the keys
/// after a query. `None` if it is not for one launch: the types differ or are not f32, f16 or bf16, heads are wider than 128, the
/// scale is not positive, the device computes steps at once and gains nothing, or products must have the same bits on every device.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool, scale: f64) -> Result<Option<Tensor>> {
    same_device("attention", q, k)?;
    same_device("attention", q, v)?;
    let four = [q, k, v].iter().all(|x| x.rank() == 4 && x.dtype() == q.dtype());
    let fits = four
        && k.shape() == v.shape()
        && q.shape()[..2] == k.shape()[..2]
        && q.shape()[3] == k.shape()[3]
        && (1..=WIDEST).contains(&q.shape()[3])
        && q.elements() > 0
        && k.elements() > 0
        && scale > 0.0
        && matches!(q.dtype(), DType::F32 | DType::F16 | DType::BF16);
    let work = Work::Attention { causal, scale };
    if !fits
        || q.device().is_immediate()
        || precision() == Precision::Ordered
        || !q.device().supports(&work, &[q.dtype()])
    {
        return Ok(None);
    }
    let mut rows = Shape::from(q.shape());
    rows[3] = 1;
    let inputs = Inputs::from_iter([q.node(), k.node(), v.node()]);
    let op = Op::Whole(Box::new(work), vec![(rows.clone(), DType::F32); 2]);
    let whole = Node::new(op, inputs, q.shape().into(), q.dtype(), q.device().clone());
    let [highest, share] = [1, 2].map(|number| part(&whole, number, &rows, DType::F32));
    let y = Tensor::of_node(whole);
    Ok(Some(y.record("attention", &[q, k, v], |y| {
        let it = Saved { q: q.saved(), k: k.saved(), v: v.saved(), y, highest, share, causal, scale };
        Box::new(move |g| {
            let [of_q, of_k, of_v] =
                if crate::grad_mode::is_enabled() { it.differentiable(g)? } else { it.gradient(g)? };
            Ok(vec![Some(of_q), Some(of_k), Some(of_v)])
        })
    })))
}

fn part(whole: &std::sync::Arc<Node>, number: usize, shape: &[usize], dtype: DType) -> Tensor {
    let inputs = Inputs::from_iter([whole.clone()]);
    Tensor::of_node(Node::new(Op::Part(number), inputs, shape.into(), dtype, whole.device.clone()))
}

/// What the gradient needs.
struct Saved {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    /// The highest score of each row.
    highest: Tensor,
    /// The weight of that score.
    share: Tensor,
    causal: bool,
    scale: f64,
}

impl Saved {
    fn gradient(&self, g: &Tensor) -> Result<[Tensor; 3]> {
        let Saved { q, k, v, y, highest, share, causal, scale } = self;
        let work = Work::AttentionGradient { causal: *causal, scale: *scale };
        let shape = Shape::from(k.shape());
        let more = vec![(shape.clone(), q.dtype()), (shape.clone(), q.dtype())];
        let inputs = Inputs::from_iter([q, k, v, y, highest, share, &cast(g, q.dtype())?].map(Tensor::node));
        let op = Op::Whole(Box::new(work), more);
        let whole = Node::new(op, inputs, q.shape().into(), q.dtype(), q.device().clone());
        let [of_k, of_v] = [1, 2].map(|number| part(&whole, number, &shape, q.dtype()));
        Ok([Tensor::of_node(whole), of_k, of_v])
    }

    /// The gradients as operations that have gradients themselves.
    fn differentiable(&self, g: &Tensor) -> Result<[Tensor; 3]> {
        let Saved { q, k, v, scale, .. } = self;
        let turned = |x: &Tensor| permuted(x, &[0, 1, 3, 2]);
        let mut scores = scaled(&matmul(q, &turned(k))?, *scale)?;
        if self.causal {
            let number = |axis| iota(q.device(), scores.shape(), axis);
            let later = binary(Binary::Gt, &number(3)?, &number(2)?)?;
            let hidden =
                Tensor::constant(q.device(), Scalar::Float(f64::NEG_INFINITY), scores.shape(), q.dtype());
            scores = where_(&later, &hidden, &scores)?;
        }
        let weights = unary(Unary::Exp, &crate::ops::softmax::log_softmax(&scores, 3)?)?;
        let of_v = matmul(&turned(&weights), g)?;
        let of_weights = matmul(g, &turned(v))?;
        let less = sum_over(&mul(&of_weights, &weights)?, &[3])?;
        let of_scores = scaled(&mul(&weights, &sub(&of_weights, &less)?)?, *scale)?;
        Ok([matmul(&of_scores, k)?, matmul(&turned(&of_scores), q)?, of_v])
    }
}
