//! Storage cells: the elements that a tensor shares with its views. Nodes never change; a write puts a new node into the cell, and
//! every tensor that shares the cell reads that one from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::layout::{Layout, Shape};
use crate::node::{Inputs, Node, Op, Place};
use crate::shared::{ConstantMemory, HostMemory, Lease, Shared};
use crate::tensor::{Result, Tensor};

#[derive(Debug)]
pub(crate) struct Storage {
    /// Stays the same, whatever the shape of what is written.
    shape: Shape,
    /// The newest elements: row-major, all of them.
    newest: RwLock<Arc<Node>>,
    version: AtomicU64,
    /// Whether `shared` has something, so that most reads take no lock.
    is_shared: AtomicBool,
    /// Memory outside of buffers with the elements; `newest` is not up to date.
    shared: Mutex<Option<Elsewhere>>,
}

#[derive(Debug)]
enum Elsewhere {
    /// Others access it.
    Shared(Arc<Shared>),
    /// Read-only memory. The first use copies it to a buffer.
    Constant(ConstantMemory),
}

impl Storage {
    /// `node` is no view, or a row-major one.
    pub fn new(node: Arc<Node>) -> Arc<Storage> {
        node.hold();
        let shape = node.shape.clone();
        Arc::new(Storage {
            shape,
            newest: RwLock::new(node),
            version: AtomicU64::new(0),
            is_shared: AtomicBool::new(false),
            shared: Mutex::new(None),
        })
    }

    /// Elements in memory that someone else owns.
    pub fn foreign(memory: HostMemory, dtype: DType, device: &Arc<dyn Device>) -> Arc<Storage> {
        let shared = Shared::foreign(memory, dtype, device.clone());
        let shape = shared.shape().clone();
        // Nobody sees this node while the memory is shared, and it is always shared.
        let node = Node::new(Op::Constant(Scalar::Int(0)), Inputs::new(), shape, dtype, device.clone());
        let storage = Storage::new(node);
        *storage.shared.lock() = Some(Elsewhere::Shared(Arc::new(shared)));
        storage.is_shared.store(true, Ordering::Release);
        storage
    }

    /// Elements in read-only memory: as many bytes as the shape needs.
    pub fn constant(
        memory: ConstantMemory,
        shape: Shape,
        dtype: DType,
        device: &Arc<dyn Device>,
    ) -> Arc<Storage> {
        // Nobody sees this node: the first use replaces it.
        let node = Node::new(Op::Constant(Scalar::Int(0)), Inputs::new(), shape, dtype, device.clone());
        let storage = Storage::new(node);
        *storage.shared.lock() = Some(Elsewhere::Constant(memory));
        storage.is_shared.store(true, Ordering::Release);
        storage
    }

    /// Lends the memory of the elements, which are computed already. If others use them, now or in a pending operation, these
    /// keep the old memory, and a copy is lent. `None` if the device has no memory in this process.
    pub fn lend(&self) -> Result<Option<Lease>> {
        if let Some(lease) = self.shared().and_then(|shared| shared.again()) {
            return Ok(Some(lease));
        }
        let mut newest = self.newest.write();
        let place = Place::of(&newest);
        let alone = Arc::strong_count(&newest) == 2
            && Arc::ptr_eq(&place.node, &newest)
            && place.is_whole()
            && matches!(newest.stored(), Some([buffer]) if Arc::strong_count(buffer) == 1);
        drop(place);
        let device = newest.device.clone();
        if matches!(newest.stored(), Some([buffer, ..]) if device.host_address(buffer).is_none()) {
            return Ok(None);
        }
        if !alone {
            let failed = |source| crate::tensor::device_error("lend", &device, source);
            let size = newest.elements() * newest.dtype.bytes();
            let buffer = device.allocate(size.max(1)).map_err(failed)?;
            if device.host_address(&buffer).is_none() {
                return Ok(None);
            }
            let bytes = Tensor::of_node(newest.clone()).to_bytes()?;
            device.upload(&buffer, 0, &bytes).map_err(failed)?;
            let copy = Node::leaf(buffer, self.shape.clone(), newest.dtype, device.clone());
            copy.hold();
            std::mem::replace(&mut *newest, copy).let_go();
        }
        let Some([buffer]) = newest.stored() else {
            return Err(TensorError::state("lend", "the elements are not computed yet"));
        };
        let Some(start) = device.host_address(buffer) else { return Ok(None) };
        let (shared, lease) = Shared::lend(start, buffer.clone(), &newest);
        *self.shared.lock() = Some(Elsewhere::Shared(Arc::new(shared)));
        self.is_shared.store(true, Ordering::Release);
        Ok(Some(lease))
    }

    /// The foreign memory with the elements, if they are in some.
    pub fn shared(&self) -> Option<Arc<Shared>> {
        if !self.is_shared.load(Ordering::Acquire) {
            return None;
        }
        let mut shared = self.shared.lock();
        match &*shared {
            None => return None,
            Some(Elsewhere::Shared(memory)) if memory.is_shared() => return Some(memory.clone()),
            // Nobody has a lease any more, and `newest` has the memory.
            Some(Elsewhere::Shared(_)) => {}
            // Only the allocation can fail. As in other allocations of the host, nothing can go on then.
            Some(Elsewhere::Constant(memory)) => {
                self.settle(memory).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        *shared = None;
        self.is_shared.store(false, Ordering::Release);
        None
    }

    /// Copies constant memory to a buffer, which `newest` has from then on.
    fn settle(&self, memory: &ConstantMemory) -> Result<()> {
        // Others take the lock of `shared` while they have this one, but only after `shared` has returned, which settles first.
        let mut newest = self.newest.write();
        let (dtype, device) = (newest.dtype, newest.device.clone());
        let failed = |source| crate::tensor::device_error("tensor", &device, source);
        let bytes = memory.bytes();
        let buffer = device.allocate(bytes.len().max(1)).map_err(failed)?;
        device.upload(&buffer, 0, bytes).map_err(failed)?;
        let made = Node::leaf(buffer, self.shape.clone(), dtype, device.clone());
        made.hold();
        std::mem::replace(&mut *newest, made).let_go();
        Ok(())
    }

    /// The value of all elements, if it is a constant.
    pub fn known(&self) -> Option<Scalar> {
        if self.shared().is_some() {
            return None;
        }
        match self.newest.read().op {
            Op::Constant(value) => Some(value),
            _ => None,
        }
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn newest(&self) -> Arc<Node> {
        if let Some(shared) = self.shared() {
            // Only the allocation can fail. As in other allocations of the host, nothing can go on then.
            return shared.read().unwrap_or_else(|error| panic!("{error}"));
        }
        self.newest.read().clone()
    }

    /// The number of writes so far.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Writes elements to a layout, or to all of the storage. The layout's elements are distinct.
    pub fn write(&self, layout: Option<&Layout>, elements: Arc<Node>) -> Result<()> {
        if let Some(shared) = self.shared() {
            shared.write(layout, elements)?;
            self.version.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let mut newest = self.newest.write();
        let whole = |layout: &Layout| {
            layout.offset == 0 && layout.is_contiguous() && layout.elements() == self.elements()
        };
        let new = match layout {
            Some(layout) if !whole(layout) => {
                let inputs = Inputs::from_iter([newest.clone(), elements]);
                let (dtype, device) = (newest.dtype, newest.device.clone());
                Node::new(Op::Write(layout.clone()), inputs, self.shape.clone(), dtype, device)
            }
            _ => self.row_major(elements),
        };
        new.hold();
        let old = std::mem::replace(&mut *newest, new);
        self.version.fetch_add(1, Ordering::Relaxed);
        drop(newest);
        old.let_go();
        Ok(())
    }

    /// The elements as a node that the cell may hold.
    fn row_major(&self, elements: Arc<Node>) -> Arc<Node> {
        let rows = match &elements.op {
            Op::View(layout) if !layout.is_contiguous() => {
                let (shape, dtype) = (elements.shape.clone(), elements.dtype);
                let device = elements.device.clone();
                Node::new(Op::Copy, Inputs::from_iter([elements]), shape, dtype, device)
            }
            _ => elements,
        };
        if rows.shape == self.shape { rows } else { rows.view(&Layout::contiguous(&self.shape)) }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.newest.get_mut().let_go();
    }
}
