//! Steps that replace several others where a device executes them.

use crate::dtype::DType;
use crate::layout::Shape;
use crate::node::{Inputs, Node, Op};
use crate::step::{Fused, Work};
use crate::tensor::Tensor;

/// Returns the step if the device of these tensors executes it for their types.
pub(crate) fn supported(step: Fused, inputs: &[&Tensor]) -> Option<Box<Work>> {
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype()).collect();
    let work = Work::Fused(step);
    inputs.first()?.device().supports(&work, &dtypes).then(|| Box::new(work))
}

/// Creates the results of a step: the first, and one of another shape and type. Without history.
pub(crate) fn pair(
    work: Box<Work>,
    inputs: &[&Tensor],
    first: (&[usize], DType),
    second: (&[usize], DType),
) -> (Tensor, Tensor) {
    let device = inputs[0].device();
    let op = Op::Whole(work, vec![(second.0.into(), second.1)]);
    let inputs: Inputs = inputs.iter().map(|input| input.node()).collect();
    let whole = Node::new(op, inputs, Shape::from(first.0), first.1, device.clone());
    let inputs = Inputs::from_iter([whole.clone()]);
    let part = Node::new(Op::Part(1), inputs, second.0.into(), second.1, device.clone());
    (Tensor::of_node(whole), Tensor::of_node(part))
}
