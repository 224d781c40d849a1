//! Index tensors.

use std::sync::Arc;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::TensorError;
use crate::node::{Inputs, Node, Op};
use crate::tensor::{Result, Tensor, size_in_bytes};

/// The index along an axis, as i64.
pub fn iota(device: &Arc<dyn Device>, shape: &[usize], axis: usize) -> Result<Tensor> {
    size_in_bytes("iota", shape, DType::I64)?;
    if axis >= shape.len() {
        return Err(TensorError::index("iota", format!("{shape:?} has no dimension {axis}")));
    }
    let op = Op::Index(axis as u8);
    Ok(Tensor::of_node(Node::new(op, Inputs::new(), shape.into(), DType::I64, device.clone())))
}
