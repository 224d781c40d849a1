//! The user-facing tensor: a shape, a type, a device, and a node of the graph.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::autograd::{Backward, History, Hooks};
use crate::device::{Buffer, Device};
use crate::dtype::{DType, Scalar};
use crate::error::{DeviceError, TensorError};
use crate::execute;
use crate::layout::{Layout, Shape};
use crate::node::{Inputs, Node, Op, Place};
use crate::ops;
use crate::shared::{ConstantMemory, HostMemory, Lease};
use crate::storage::Storage;

/// The result of an operation on tensors.
pub type Result<T> = std::result::Result<T, TensorError>;

/// A tensor: elements of one type on one device. Clones share the same tensor.
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    shape: Shape,
    dtype: DType,
    device: Arc<dyn Device>,
    /// Replaced by `share`.
    place: RwLock<Elements>,
    requires_grad: AtomicBool,
    pub grad: Mutex<Option<Tensor>>,
    /// The autograd history, if gradients flow through it.
    pub history: Mutex<Option<History>>,
    /// The tensor that this one is a view of; never a view itself.
    base: Option<Tensor>,
    /// How often writes have replaced the history. For a view: that number of its base when its own history was recorded.
    pub rewritten: AtomicU64,
    /// Called with the gradients of a leaf.
    pub hooks: Hooks,
    /// Whether backward passes accumulate `grad` although it is no leaf.
    pub retains_grad: AtomicBool,
}

/// Where a tensor's elements are.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    pub storage: Arc<Storage>,
    /// `None`: all of the storage, in its shape.
    pub layout: Option<Layout>,
}

impl Elements {
    fn node(&self) -> Arc<Node> {
        let newest = self.storage.newest();
        match &self.layout {
            None => newest,
            Some(layout) => newest.view(layout),
        }
    }
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
        self.refresh();
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
        self.refresh();
        self.0.history.lock().is_none()
    }

    /// The name of the function that recorded the gradient of this tensor.
    pub fn grad_fn(&self) -> Option<&'static str> {
        self.refresh();
        match &*self.0.history.lock() {
            Some(History::Function(function)) => Some(function.name),
            _ => None,
        }
    }

    /// Returns a tensor that shares the elements, without autograd history.
    pub fn detach(&self) -> Tensor {
        self.without_history(self.elements_place())
    }

    /// Returns a tensor with the present elements, without autograd history. Later writes to this tensor do not change it. Nothing
    /// is copied before such a write.
    pub fn snapshot(&self) -> Tensor {
        let Elements { storage, layout } = self.elements_place();
        let version = storage.version();
        let copy = self.without_history(Elements { storage: Storage::new(storage.newest()), layout });
        crate::autograd::note_saved(&copy, storage, version);
        copy
    }

    /// Whether both tensors have elements in the same storage.
    pub fn shares_elements(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || Arc::ptr_eq(&self.0.place.read().storage, &other.0.place.read().storage)
    }

    /// Returns a tensor with the present elements and the same history that shares nothing with later writes. Nothing is copied
    /// before such a write.
    pub fn apart(&self) -> Tensor {
        let copy = self.snapshot();
        if self.requires_grad() {
            copy.take_history(self);
        }
        copy
    }

    /// The number of writes to the elements, through this tensor or others that share them.
    pub fn version(&self) -> u64 {
        self.0.place.read().storage.version()
    }

    /// Whether both tensors are the same view of the same elements.
    pub fn is_same_view(&self, other: &Tensor) -> bool {
        let (own, other_place) = (self.elements_place(), other.elements_place());
        Arc::ptr_eq(&own.storage, &other_place.storage)
            && self.shape() == other.shape()
            && self.layout() == other.layout()
    }

    /// Whether the elements are in memory already. Views of constants need none.
    pub fn is_realised(&self) -> bool {
        let node = self.node();
        Place::of(&node).buffer().is_some() || self.is_view_of_constant()
    }

    pub(crate) fn is_view_of_constant(&self) -> bool {
        self.0.place.read().layout.is_some() && self.known().is_some()
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
        execute::uploaded(expected);
        Ok(Tensor::of_node(Node::leaf(buffer, shape.into(), dtype, device.clone())))
    }

    /// A tensor whose elements are in memory that someone else owns, and may write. Each operation reads the memory when it is
    /// recorded, and writes reach the memory at once. The device accesses memory of this process.
    pub fn from_memory(device: &Arc<dyn Device>, dtype: DType, memory: HostMemory) -> Tensor {
        let storage = Storage::foreign(memory, dtype, device);
        let shape = Shape::from(storage.shape());
        Tensor::with(shape, dtype, device.clone(), Elements { storage, layout: None }, None)
    }

    /// A tensor with the bytes of read-only memory. They are copied when the tensor is first used.
    pub fn from_constant(
        device: &Arc<dyn Device>,
        dtype: DType,
        shape: &[usize],
        memory: ConstantMemory,
    ) -> Result<Tensor> {
        let (expected, given) = (size_in_bytes("tensor", shape, dtype)?, memory.bytes().len());
        if given != expected {
            return Err(TensorError::shape(
                "tensor",
                format!("{shape:?} of {dtype} takes {expected} bytes, {given} were given"),
            ));
        }
        let shape = Shape::from(shape);
        let storage = Storage::constant(memory, shape.clone(), dtype, device);
        Ok(Tensor::with(shape, dtype, device.clone(), Elements { storage, layout: None }, None))
    }

    /// Evaluates the tensor if necessary, and lends its memory, without a copy unless others use its elements. While someone
    /// has a lease, operations read the memory when they are recorded, and writes reach it at once. `None` if this process
    /// cannot access the memory of the device.
    pub fn lend(&self) -> Result<Option<Lease>> {
        let Elements { storage, layout } = self.elements_place();
        if storage.known().is_none() {
            let whole = self.without_history(Elements { storage: storage.clone(), layout: None });
            execute::eval(std::slice::from_ref(&whole))?;
        }
        let Some(lease) = storage.lend()? else { return Ok(None) };
        Ok(match layout {
            None => Some(lease),
            // A view's layout counts row-major elements.
            Some(layout) if lease.layout.is_contiguous() => Some(Lease { layout, ..lease }),
            Some(_) => None,
        })
    }

    /// Evaluates the tensor if necessary, waits, and downloads its elements in row-major order.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.elements() * self.dtype().bytes()];
        self.read_into(&mut bytes)?;
        Ok(bytes)
    }

    /// Like [`Tensor::to_bytes`], into memory of this size.
    pub(crate) fn read_into(&self, bytes: &mut [u8]) -> Result<()> {
        let mut source = self.snapshot();
        if let Some(value) = self.known().filter(|_| self.is_view_of_constant()) {
            // It takes the memory of the view, not of the whole constant.
            source = Tensor::constant(self.device(), value, self.shape(), self.dtype());
        }
        let mut place = Place::of(&source.node());
        if !place.layout.is_contiguous() {
            source = ops::shape::contiguous(&source)?;
            place = Place::of(&source.node());
        }
        execute::eval(std::slice::from_ref(&source))?;
        if let Some(buffer) = place.buffer()
            && !bytes.is_empty()
        {
            self.device()
                .download(buffer, place.layout.offset * self.dtype().bytes(), bytes)
                .map_err(|source| device_error("download", self.device(), source))?;
        }
        Ok(())
    }

    /// A tensor whose row-major elements are in a buffer of the device. They are not changed afterwards.
    pub fn from_buffer(
        device: &Arc<dyn Device>,
        dtype: DType,
        shape: &[usize],
        buffer: Buffer,
    ) -> Result<Tensor> {
        let expected = size_in_bytes("tensor", shape, dtype)?;
        if buffer.bytes() < expected {
            return Err(TensorError::shape(
                "tensor",
                format!("{shape:?} of {dtype} takes {expected} bytes, the buffer has {}", buffer.bytes()),
            ));
        }
        Ok(Tensor::of_node(Node::leaf(buffer, shape.into(), dtype, device.clone())))
    }

    /// Evaluates the tensor if necessary, and returns the buffer with the elements and their layout in it. Does not wait for
    /// asynchronous devices. Nothing writes to the buffer as long as the caller has it, and the caller does not either: other
    /// tensors may have elements there.
    pub fn in_memory(&self) -> Result<(Buffer, Layout)> {
        let mut source = self.snapshot();
        if let Some(value) = self.known() {
            // It takes the memory of the view, not of the whole constant.
            source = Tensor::constant(self.device(), value, self.shape(), self.dtype());
        }
        execute::eval(std::slice::from_ref(&source))?;
        let place = Place::of(&source.node());
        match place.buffer() {
            Some(buffer) => Ok((buffer.clone(), place.layout)),
            None => Err(TensorError::state("in_memory", "the elements were not computed")),
        }
    }

    /// Returns the tensor itself if it is on this device already, else a copy. Evaluates, and waits unless the devices copy
    /// directly.
    pub fn to_device(&self, device: &Arc<dyn Device>) -> Result<Tensor> {
        if Arc::ptr_eq(self.device(), device) {
            return Ok(self.clone());
        }
        let moved = match self.copied_to(device)? {
            Some(copy) => copy,
            None => Tensor::from_bytes(device, self.dtype(), self.shape(), &self.to_bytes()?)?,
        };
        Ok(moved.record("to_device", &[self], |_| {
            let home = self.device().clone();
            Box::new(move |g| Ok(vec![Some(g.to_device(&home)?)]))
        }))
    }

    /// A copy that passes through no other memory; `None` if neither device can access that of the other.
    fn copied_to(&self, device: &Arc<dyn Device>) -> Result<Option<Tensor>> {
        if self.is_view_of_constant() || self.elements() == 0 {
            return Ok(None);
        }
        let mut source = self.snapshot();
        if !Place::of(&source.node()).layout.is_contiguous() {
            source = ops::shape::contiguous(&source)?;
        }
        execute::eval(std::slice::from_ref(&source))?;
        let place = Place::of(&source.node());
        let Some(from) = place.buffer() else { return Ok(None) };
        let size = self.dtype().bytes();
        let bytes = self.elements() * size;
        let to = device.allocate(bytes).map_err(|source| device_error("to_device", device, source))?;
        let offset = place.layout.offset * size;
        let copied = if let Some(copied) = device.copy_from(&to, &**self.device(), from, offset, bytes) {
            copied.map_err(|source| device_error("to_device", device, source))
        } else if let Some(start) = device.host_address(&to) {
            // SAFETY: the device has just given this initialised memory of `bytes` bytes, and nobody else knows it.
            let into = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
            let downloaded = self.device().download(from, offset, into);
            downloaded.map_err(|source| device_error("download", self.device(), source))
        } else if let Some(start) = self.device().host_address(from) {
            // SAFETY: the elements are inside this buffer. No write overwrites them as long as `source` has them.
            let elements = unsafe { std::slice::from_raw_parts(start.add(offset), bytes) };
            execute::uploaded(bytes);
            device.upload(&to, 0, elements).map_err(|source| device_error("to_device", device, source))
        } else {
            return Ok(None);
        };
        copied?;
        Ok(Some(Tensor::of_node(Node::leaf(to, self.shape().into(), self.dtype(), device.clone()))))
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

    /// Writes the elements of another tensor to this one and to all that share its elements. Not recorded for gradients.
    pub(crate) fn write(&self, other: &Tensor) -> Result<()> {
        self.same_kind("write", other)?;
        let elements = other.node();
        let depth = elements.depth;
        let place = self.elements_place();
        place.storage.write(place.layout.as_ref(), elements)?;
        if place.storage.shared().is_none() {
            execute::relieve(self, depth.max(place.storage.newest().depth));
        }
        Ok(())
    }

    /// From now on shares the elements of another tensor. Those that shared this tensor's old elements keep them.
    pub fn share(&self, other: &Tensor) -> Result<()> {
        self.same_kind("share", other)?;
        let elements = other.elements_place();
        let old = std::mem::replace(&mut *self.0.place.write(), elements);
        drop(old);
        Ok(())
    }

    /// Returns an error unless the other tensor has the same shape, type and device.
    pub(crate) fn same_kind(&self, operation: &'static str, other: &Tensor) -> Result<()> {
        if self.shape() != other.shape() || self.dtype() != other.dtype() {
            return Err(TensorError::shape(
                operation,
                format!(
                    "{:?} of {} cannot take the place of {:?} of {}",
                    other.shape(),
                    other.dtype(),
                    self.shape(),
                    self.dtype()
                ),
            ));
        }
        same_device(operation, self, other)
    }

    pub(crate) fn node(&self) -> Arc<Node> {
        self.0.place.read().node()
    }

    pub(crate) fn elements_place(&self) -> Elements {
        self.0.place.read().clone()
    }

    /// The tensor that this one is a view of, if they still share their elements.
    pub(crate) fn base(&self) -> Option<&Tensor> {
        let base = self.0.base.as_ref()?;
        Arc::ptr_eq(&base.0.place.read().storage, &self.0.place.read().storage).then_some(base)
    }

    pub(crate) fn of_node(node: Arc<Node>) -> Tensor {
        let (shape, dtype, device) = (node.shape.clone(), node.dtype, node.device.clone());
        let place = match &node.op {
            Op::View(layout) => {
                Elements { storage: Storage::new(node.inputs()[0].clone()), layout: Some(layout.clone()) }
            }
            _ => Elements { storage: Storage::new(node), layout: None },
        };
        Tensor::with(shape, dtype, device, place, None)
    }

    /// The base of a view, and how often its history was replaced, if that was since the view's own history was recorded.
    pub(crate) fn outdated_base(&self) -> Option<(&Tensor, u64)> {
        let base = self.0.base.as_ref()?;
        let now = base.0.rewritten.load(Ordering::Relaxed);
        if self.0.rewritten.load(Ordering::Relaxed) == now {
            return None;
        }
        Some((self.base()?, now))
    }

    pub(crate) fn mark_differentiable(&self) {
        self.0.requires_grad.store(true, Ordering::Relaxed);
    }

    fn without_history(&self, place: Elements) -> Tensor {
        Tensor::with(self.0.shape.clone(), self.0.dtype, self.0.device.clone(), place, None)
    }

    fn with(
        shape: Shape,
        dtype: DType,
        device: Arc<dyn Device>,
        place: Elements,
        base: Option<Tensor>,
    ) -> Tensor {
        let rewritten = base.as_ref().map_or(0, |base| base.0.rewritten.load(Ordering::Relaxed));
        Tensor(Arc::new(Inner {
            shape,
            dtype,
            device,
            place: RwLock::new(place),
            requires_grad: AtomicBool::new(false),
            grad: Mutex::new(None),
            history: Mutex::new(None),
            base,
            rewritten: AtomicU64::new(rewritten),
            hooks: Hooks::default(),
            retains_grad: AtomicBool::new(false),
        }))
    }

    /// Creates a node from others, without autograd history.
    pub(crate) fn make(op: Op, inputs: &[&Tensor], shape: Shape, dtype: DType) -> Tensor {
        let device = inputs[0].device().clone();
        let inputs: Inputs = inputs.iter().map(|input| input.node()).collect();
        let node = Node::new(op, inputs, shape, dtype, device);
        let depth = node.depth;
        let made = Tensor::of_node(node);
        execute::relieve(&made, depth);
        made
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
        self.0.place.read().storage.known()
    }

    /// A view of this tensor's elements, without autograd history.
    pub(crate) fn viewed(&self, change: impl FnOnce(&Layout) -> Layout) -> Tensor {
        let Elements { storage, layout } = self.elements_place();
        let layout = change(&layout.unwrap_or_else(|| Layout::contiguous(self.shape())));
        let base = self.0.base.clone().unwrap_or_else(|| self.clone());
        let shape = layout.shape.clone();
        let all = layout.offset == 0 && *shape == *storage.shape() && layout.is_contiguous();
        let place = Elements { storage, layout: Some(layout).filter(|_| !all) };
        Tensor::with(shape, self.0.dtype, self.0.device.clone(), place, Some(base))
    }

    /// The layout in the storage.
    pub fn layout(&self) -> Layout {
        let layout = self.0.place.read().layout.clone();
        layout.unwrap_or_else(|| Layout::contiguous(self.shape()))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?}, {}, {})", self.shape(), self.dtype(), self.device().name())
    }
}

pub(crate) fn differentiable(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_complex()
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
