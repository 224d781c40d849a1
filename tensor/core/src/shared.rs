//! Elements in memory that others read and write too, such as those of a NumPy array.
//!
//! Nodes never change, but such memory does, at any time. So a read takes a copy, and the next reads take the same copy as long as
//! the memory equals it. A write waits for the elements and puts them into the memory at once.

use std::any::Any;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::device::{Buffer, Device};
use crate::dtype::DType;
use crate::layout::{Layout, Shape};
use crate::node::Node;
use crate::tensor::{Result, Tensor, device_error};

/// Memory of this process that someone else owns.
pub struct HostMemory {
    start: *mut u8,
    layout: Layout,
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the memory is only accessed by `Shared`, under its lock, and its owner is `Send` and `Sync`.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Elements at `layout`, whose offset is zero, counted from the element at `start`.
    ///
    /// # Safety
    /// All elements of the layout are valid for reads and writes as long as `owner` lives. Nobody writes them while this process
    /// executes a function of this library in another thread, except as NumPy does.
    pub unsafe fn new(start: *mut u8, layout: Layout, owner: Box<dyn Any + Send + Sync>) -> HostMemory {
        HostMemory { start, layout, _owner: owner }
    }
}

/// Read-only memory of this process, such as a mapped file. It is valid as long as its owner lives. The first use of a tensor copies
/// its elements from there to a buffer; until then they take no other memory.
pub struct ConstantMemory {
    start: *const u8,
    bytes: usize,
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the memory is only read, and its owner is `Send` and `Sync`.
unsafe impl Send for ConstantMemory {}
// SAFETY: as above.
unsafe impl Sync for ConstantMemory {}

impl ConstantMemory {
    /// # Safety
    /// The bytes are valid for reads, and do not change, as long as `owner` lives.
    pub unsafe fn new(start: *const u8, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> ConstantMemory {
        ConstantMemory { start, bytes, _owner: owner }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: as `new` requires; the owner lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl std::fmt::Debug for ConstantMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConstantMemory({:?}, {} bytes)", self.start, self.bytes)
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostMemory({:?}, {:?})", self.start, self.layout)
    }
}

/// The right to read and write the memory of a tensor. The tensor sees what is written to it.
#[derive(Debug)]
pub struct Lease {
    /// The first byte of the memory.
    pub start: *mut u8,
    /// The elements of the tensor in the memory.
    pub layout: Layout,
    pub(crate) _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: an address; who holds a lease synchronises its accesses.
unsafe impl Send for Lease {}
// SAFETY: as above.
unsafe impl Sync for Lease {}

/// Memory of a buffer that is lent.
#[derive(Debug)]
struct Lent {
    _buffer: Buffer,
}

#[derive(Debug)]
enum Memory {
    /// Of this storage's own buffer, as long as someone has a lease.
    Own(Weak<Lent>, *mut u8),
    Foreign(Arc<HostMemory>),
}

/// The shared memory of a storage.
#[derive(Debug)]
pub(crate) struct Shared {
    memory: Memory,
    shape: Shape,
    dtype: DType,
    device: Arc<dyn Device>,
    /// A copy of the elements when they were last read.
    seen: Mutex<Option<Arc<Node>>>,
}

// SAFETY: the pointer is that of a buffer which the storage keeps; it is accessed under the lock of `seen`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    pub fn foreign(memory: HostMemory, dtype: DType, device: Arc<dyn Device>) -> Shared {
        let shape = memory.layout.shape.clone();
        Shared { memory: Memory::Foreign(Arc::new(memory)), shape, dtype, device, seen: Mutex::new(None) }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Lends the memory of a buffer at this address.
    pub fn lend(start: *mut u8, buffer: Buffer, node: &Node) -> (Shared, Lease) {
        let lent = Arc::new(Lent { _buffer: buffer });
        let (shape, dtype, device) = (node.shape.clone(), node.dtype, node.device.clone());
        let memory = Memory::Own(Arc::downgrade(&lent), start);
        let layout = Layout::contiguous(&shape);
        (
            Shared { memory, shape, dtype, device, seen: Mutex::new(None) },
            Lease { start, layout, _owner: lent },
        )
    }

    /// Lends the memory once more. `None` if the last lease has just ended.
    pub fn again(&self) -> Option<Lease> {
        let (start, layout) = self.place();
        let owner: Arc<dyn Any + Send + Sync> = match &self.memory {
            Memory::Own(lent, _) => lent.upgrade()?,
            Memory::Foreign(memory) => memory.clone(),
        };
        Some(Lease { start, layout, _owner: owner })
    }

    /// Whether others may still access the memory.
    pub fn is_shared(&self) -> bool {
        match &self.memory {
            Memory::Own(lent, _) => lent.strong_count() > 0,
            Memory::Foreign(_) => true,
        }
    }

    fn place(&self) -> (*mut u8, Layout) {
        match &self.memory {
            Memory::Own(_, start) => (*start, Layout::contiguous(&self.shape)),
            Memory::Foreign(memory) => (memory.start, memory.layout.clone()),
        }
    }

    /// A node with the elements as they are now.
    pub fn read(&self) -> Result<Arc<Node>> {
        let mut seen = self.seen.lock();
        let (start, layout) = self.place();
        let (size, count) = (self.dtype.bytes(), layout.elements());
        let gathered;
        let bytes = if layout.is_contiguous() && count > 0 {
            // SAFETY: the elements follow each other, and the lock excludes writes by this library.
            unsafe { std::slice::from_raw_parts(start, count * size) }
        } else {
            let mut rows = Vec::with_capacity(count * size);
            each(&layout, |at| {
                // SAFETY: the element is in the layout of the memory.
                rows.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(start.offset(at * size as isize), size)
                });
            });
            gathered = rows;
            &gathered[..]
        };
        if let Some(node) = &*seen
            && let Some([buffer]) = node.stored()
            && let Some(copy) = self.device.host_address(buffer)
        {
            // SAFETY: the copy holds as many bytes, and no write overwrites it, because the node is held.
            let copy = unsafe { std::slice::from_raw_parts(copy, bytes.len()) };
            if copy == bytes {
                return Ok(node.clone());
            }
        }
        let failed = |source| device_error("read of shared memory", &self.device, source);
        let buffer = self.device.allocate(bytes.len().max(1)).map_err(failed)?;
        if !bytes.is_empty() {
            self.device.upload(&buffer, 0, bytes).map_err(failed)?;
        }
        let node = Node::leaf(buffer, self.shape.clone(), self.dtype, self.device.clone());
        node.hold();
        if let Some(old) = seen.replace(node.clone()) {
            old.let_go();
        }
        Ok(node)
    }

    /// Computes elements and puts them at a layout of the row-major elements, or everywhere.
    pub fn write(&self, at: Option<&Layout>, elements: Arc<Node>) -> Result<()> {
        let bytes = Tensor::of_node(elements).to_bytes()?;
        let _turn = self.seen.lock();
        let (start, own) = self.place();
        let size = self.dtype.bytes();
        let mut chunks = bytes.chunks_exact(size);
        let rows = Layout::contiguous(&self.shape);
        each(at.unwrap_or(&rows), |number| {
            let place = if own.is_contiguous() { number } else { offset(&own, number as usize) };
            if let Some(chunk) = chunks.next() {
                // SAFETY: a layout of the storage is within its elements, and these are in the layout of the memory.
                unsafe {
                    std::ptr::copy_nonoverlapping(chunk.as_ptr(), start.offset(place * size as isize), size);
                }
            }
        });
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(node) = self.seen.get_mut().take() {
            node.let_go();
        }
    }
}

/// Calls a function with the offset of each element of a layout, in row-major order.
fn each(layout: &Layout, mut act: impl FnMut(isize)) {
    if layout.elements() == 0 {
        return;
    }
    let rank = layout.rank();
    let mut index = vec![0; rank];
    let mut at = layout.offset as isize;
    loop {
        act(at);
        let mut axis = rank;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            at += layout.strides[axis];
            if index[axis] < layout.shape[axis] {
                break;
            }
            at -= layout.strides[axis] * layout.shape[axis] as isize;
            index[axis] = 0;
        }
    }
}

/// The offset in a layout of the element with a number, in row-major order.
fn offset(layout: &Layout, mut number: usize) -> isize {
    let mut at = layout.offset as isize;
    for axis in (0..layout.rank()).rev() {
        at += (number % layout.shape[axis]) as isize * layout.strides[axis];
        number /= layout.shape[axis];
    }
    at
}
