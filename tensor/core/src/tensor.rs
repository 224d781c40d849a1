//! The user-facing tensor: a shape, a type, a device, and a node of the graph.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::autograd::{Backward, History};
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::{DeviceError, TensorError};
use crate::execute;
use crate::layout::{Layout, Shape};
use crate::node::{Inputs, Node, Op, Place};
use crate::ops;

/// The result of an operation on tensors.
pub type Result<T> = std::result::Result<T, TensorError>;

/// A tensor: elements of one type on one device. Clones share the same tensor.
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    shape: Shape,
    dtype: DType,
    device: Arc<dyn Device>,
    /// Replaced by `set_data`.
    node: RwLock<Arc<Node>>,
    requires_grad: AtomicBool,
    pub grad: Mutex<Option<Tensor>>,
    /// The autograd history, if gradients flow through it.
    pub history: Mutex<Option<History>>,
}

impl Tensor {
    /// The lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.shape.len()
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// The device that holds or computes the elements.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.device
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.0.shape.iter().product()
    }

    /// Whether gradients flow to or through this tensor.
    pub fn requires_grad(&self) -> bool {
        self.0.requires_grad.load(Ordering::Relaxed)
    }

    /// Makes a leaf collect gradients, or stops it.
    pub fn set_requires_grad(&self, requires: bool) -> Result<()> {
        if requires && !differentiable(self.dtype()) {
            return Err(TensorError::state(
                "requires_grad",
                format!(
                    "only floating point and complex tensors have gradients, this one is {}",
                    self.dtype()
                ),
            ));
        }
        if !requires && !self.is_leaf() {
            return Err(TensorError::state(
                "requires_grad",
                "requires_grad can only be switched off for leaf tensors; use detach() for the results of operations",
            ));
        }
        self.0.requires_grad.store(requires, Ordering::Relaxed);
        Ok(())
    }

    /// The gradient that backward passes have accumulated.
    pub fn grad(&self) -> Option<Tensor> {
        self.0.grad.lock().clone()
    }

    /// Replaces the accumulated gradient.
    pub fn set_grad(&self, grad: Option<Tensor>) {
        *self.0.grad.lock() = grad;
    }

    /// Whether it is a leaf: not the result of an operation with recorded gradients.
    pub fn is_leaf(&self) -> bool {
        self.0.history.lock().is_none()
    }

    /// The name of the function that recorded the gradient of this tensor.
    pub fn grad_fn(&self) -> Option<&'static str> {
        match &*self.0.history.lock() {
            Some(History::Function(function)) => Some(function.name),
            _ => None,
        }
    }

    /// Returns a tensor with the same elements, without autograd history.
    pub fn detach(&self) -> Tensor {
        Tensor::of_node(self.node())
    }

    /// Whether the elements are in memory already.
    pub fn is_realised(&self) -> bool {
        Place::of(&self.node()).buffer().is_some()
    }

    /// Creates a tensor from row-major elements. They are copied before this returns.
    pub fn from_bytes(
        device: &Arc<dyn Device>,
        dtype: DType,
        shape: &[usize],
        bytes: &[u8],
    ) -> Result<Tensor> {
        let expected = size_in_bytes("tensor", shape, dtype)?;
        if bytes.len() != expected {
            return Err(TensorError::shape(
                "tensor",
                format!("{shape:?} of {dtype} takes {expected} bytes, {} were given", bytes.len()),
            ));
        }
        let failed = |source| device_error("tensor", device, source);
        let buffer = device.allocate(expected.max(1)).map_err(failed)?;
        if !bytes.is_empty() {
            device.upload(&buffer, 0, bytes).map_err(failed)?;
        }
        Ok(Tensor::of_node(Node::leaf(buffer, shape.into(), dtype, device.clone())))
    }

    /// Evaluates the tensor if necessary, waits, and downloads its elements in row-major order.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut source = self.detach();
        let mut place = Place::of(&source.node());
        if !place.layout.is_contiguous() {
            source = ops::shape::contiguous(&source)?;
            place = Place::of(&source.node());
        }
        execute::eval(std::slice::from_ref(&source))?;
        let mut bytes = vec![0; self.elements() * self.dtype().bytes()];
        if let Some(buffer) = place.buffer()
            && !bytes.is_empty()
        {
            self.device()
                .download(buffer, place.layout.offset * self.dtype().bytes(), &mut bytes)
                .map_err(|source| device_error("download", self.device(), source))?;
        }
        Ok(bytes)
    }

    /// Returns the tensor itself if it is on this device already, else a copy. Evaluates and waits.
    pub fn to_device(&self, device: &Arc<dyn Device>) -> Result<Tensor> {
        if Arc::ptr_eq(self.device(), device) {
            return Ok(self.clone());
        }
        let moved = Tensor::from_bytes(device, self.dtype(), self.shape(), &self.to_bytes()?)?;
        Ok(moved.record("to_device", &[self], |_| {
            let home = self.device().clone();
            Box::new(move |g| Ok(vec![Some(g.to_device(&home)?)]))
        }))
    }

    /// The elements converted to another type.
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        ops::elementwise::cast(self, dtype)
    }

    /// Accumulates gradients into every leaf tensor that this one depends on and that requires one. A tensor with several
    /// elements needs an initial gradient.
    pub fn backward(&self, gradient: Option<&Tensor>, retain_graph: bool) -> Result<()> {
        crate::autograd::backward(self, gradient, Backward { retain_graph, create_graph: false })
    }

    /// Like [`Tensor::backward`], but the gradients have gradients themselves. They and their graph reference each other until
    /// the gradients are dropped.
    pub fn backward_with_graph(&self, gradient: Option<&Tensor>) -> Result<()> {
        crate::autograd::backward(self, gradient, Backward { retain_graph: true, create_graph: true })
    }

    /// Replaces the elements by those of another tensor, for optimizers and loading of files. Tensors computed from the old
    /// elements keep them.
    pub fn set_data(&self, other: &Tensor) -> Result<()> {
        if self.shape() != other.shape() || self.dtype() != other.dtype() {
            return Err(TensorError::shape(
                "set_data",
                format!(
                    "{:?} of {} cannot take the place of {:?} of {}",
                    other.shape(),
                    other.dtype(),
                    self.shape(),
                    self.dtype()
                ),
            ));
        }
        same_device("set_data", self, other)?;
        let new = other.node();
        new.hold();
        let old = std::mem::replace(&mut *self.0.node.write(), new);
        old.let_go();
        Ok(())
    }

    pub(crate) fn node(&self) -> Arc<Node> {
        self.0.node.read().clone()
    }

    pub(crate) fn of_node(node: Arc<Node>) -> Tensor {
        node.hold();
        Tensor(Arc::new(Inner {
            shape: node.shape.clone(),
            dtype: node.dtype,
            device: node.device.clone(),
            node: RwLock::new(node),
            requires_grad: AtomicBool::new(false),
            grad: Mutex::new(None),
            history: Mutex::new(None),
        }))
    }

    /// Creates a node from others, without autograd history.
    pub(crate) fn make(op: Op, inputs: &[&Tensor], shape: Shape, dtype: DType) -> Tensor {
        let device = inputs[0].device().clone();
        let inputs: Inputs = inputs.iter().map(|input| input.node()).collect();
        Tensor::of_node(Node::new(op, inputs, shape, dtype, device))
    }

    /// A tensor with one value for all elements; it takes no memory.
    pub(crate) fn constant(device: &Arc<dyn Device>, value: Scalar, shape: &[usize], dtype: DType) -> Tensor {
        let node = Node::new(Op::Constant(value), Inputs::new(), shape.into(), dtype, device.clone());
        Tensor::of_node(node)
    }

    /// A constant in the shape and type of this tensor.
    pub(crate) fn filled_like(&self, value: f64) -> Tensor {
        Tensor::constant(self.device(), Scalar::Float(value), self.shape(), self.dtype())
    }

    /// The value of all elements, if it is a constant.
    pub(crate) fn known(&self) -> Option<Scalar> {
        match self.node().op {
            Op::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// A view of this tensor's memory, without autograd history.
    pub(crate) fn viewed(&self, change: impl FnOnce(&Layout) -> Layout) -> Tensor {
        let node = self.node();
        if let Op::Constant(value) = node.op {
            let shape = change(&Layout::contiguous(&node.shape)).shape;
            return Tensor::constant(&node.device, value, &shape, node.dtype);
        }
        let (base, layout) = match &node.op {
            Op::View(layout) => (node.inputs()[0].clone(), change(layout)),
            _ => (node.clone(), change(&Layout::contiguous(&node.shape))),
        };
        let shape = layout.shape.clone();
        let inputs = Inputs::from_iter([base]);
        Tensor::of_node(Node::new(Op::View(layout), inputs, shape, node.dtype, node.device.clone()))
    }

    /// The memory layout, present or future.
    pub fn layout(&self) -> Layout {
        let node = self.node();
        match &node.op {
            Op::View(layout) => layout.clone(),
            _ => Layout::contiguous(&node.shape),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.node.get_mut().let_go();
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?}, {}, {})", self.shape(), self.dtype(), self.device().name())
    }
}

pub(crate) fn differentiable(dtype: DType) -> bool {
    dtype.is_float() || dtype == DType::C64
}

pub(crate) fn device_error(
    operation: &'static str,
    device: &Arc<dyn Device>,
    source: DeviceError,
) -> TensorError {
    TensorError::Device { operation, device: device.name().to_owned(), source }
}

pub(crate) fn same_device(operation: &'static str, first: &Tensor, second: &Tensor) -> Result<()> {
    if Arc::ptr_eq(first.device(), second.device()) {
        return Ok(());
    }
    Err(TensorError::state(
        operation,
        format!(
            "the tensors are on different devices, {} and {}; move one with .to()",
            first.device().name(),
            second.device().name()
        ),
    ))
}

/// Returns the size in bytes, or an error if it does not fit into the address space.
pub(crate) fn size_in_bytes(operation: &'static str, shape: &[usize], dtype: DType) -> Result<usize> {
    shape
        .iter()
        .try_fold(dtype.bytes(), |size, &length| size.checked_mul(length.max(1)))
        .filter(|&size| isize::try_from(size).is_ok())
        .map(|size| if shape.contains(&0) { 0 } else { size })
        .ok_or_else(|| TensorError::shape(operation, format!("{shape:?} is too large to address")))
}
