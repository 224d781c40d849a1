//! Nodes of the computation graph, computed or pending. Independent of gradients and launches.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::device::{Buffer, Device};
use crate::dtype::{DType, Scalar};
use crate::layout::{Layout, Shape};
use crate::program::{Binary, Unary};
use crate::step::{Accumulation, Convolution, Reduction, Work};

pub(crate) type Inputs = SmallVec<[Arc<Node>; 3]>;

/// One buffer per node, except for launches with several results.
pub(crate) type Buffers = SmallVec<[Buffer; 1]>;

/// The operation that computes a node from its inputs. Inputs of elementwise operations have the node's shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// Memory that was uploaded or imported.
    Leaf,
    /// A strided view of its input's memory.
    View(Layout),
    /// An additional output of its input.
    Part(usize),
    Constant(Scalar),
    Index(u8),
    Copy,
    Cast,
    Unary(Unary),
    Binary(Binary),
    Select,
    /// Reduced axes are kept with length one.
    Reduce {
        reduction: Reduction,
        axes: SmallVec<[usize; 6]>,
    },
    Contract {
        batch: usize,
        rows: usize,
        columns: usize,
        depth: usize,
        accumulation: Accumulation,
        convolution: Option<Box<Convolution>>,
    },
    /// The first input with the elements of the second at this layout, whose elements are distinct.
    Write(Layout),
    /// A launch that fuses with nothing, and the shapes and types of its outputs after the first.
    Whole(Box<Work>, Vec<(Shape, DType)>),
}

impl Op {
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self,
            Op::Constant(_) | Op::Index(_) | Op::Copy | Op::Cast | Op::Unary(_) | Op::Binary(_) | Op::Select
        )
    }

    /// Whether elementwise operations on its result can run in the same launch.
    pub fn has_epilogue(&self) -> bool {
        matches!(self, Op::Reduce { .. } | Op::Contract { .. })
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    pub id: u64,
    pub op: Op,
    pub shape: Shape,
    pub dtype: DType,
    pub device: Arc<dyn Device>,
    /// The number of operations on the longest path from memory to this node, at the time of its creation.
    pub depth: u32,
    /// Released when the node is stored, except by views and parts.
    inputs: Mutex<Inputs>,
    stored: OnceLock<Buffers>,
    /// Number of tensors that reference this node or a view of it.
    handles: AtomicUsize,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Node {
    pub fn new(op: Op, inputs: Inputs, shape: Shape, dtype: DType, device: Arc<dyn Device>) -> Arc<Node> {
        let pending = inputs.iter().filter(|input| input.stored().is_none());
        let depth = pending.map(|input| input.depth).max().unwrap_or(0).saturating_add(1);
        Arc::new(Node {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            op,
            shape,
            dtype,
            device,
            depth,
            inputs: Mutex::new(inputs),
            stored: OnceLock::new(),
            handles: AtomicUsize::new(0),
        })
    }

    pub fn leaf(buffer: Buffer, shape: Shape, dtype: DType, device: Arc<dyn Device>) -> Arc<Node> {
        let node = Node::new(Op::Leaf, Inputs::new(), shape, dtype, device);
        node.store(Buffers::from_iter([buffer]));
        node
    }

    /// A node with the elements of this one at a layout. The node is row-major in its memory, in any shape.
    pub fn view(self: &Arc<Node>, layout: &Layout) -> Arc<Node> {
        let (owner, layout) = match &self.op {
            &Op::Constant(value) => {
                let (shape, device) = (layout.shape.clone(), self.device.clone());
                return Node::new(Op::Constant(value), Inputs::new(), shape, self.dtype, device);
            }
            Op::View(under) => {
                let offset = under.offset + layout.offset;
                (self.inputs.lock()[0].clone(), Layout { offset, ..layout.clone() })
            }
            _ => (self.clone(), layout.clone()),
        };
        let shape = layout.shape.clone();
        let device = self.device.clone();
        Node::new(Op::View(layout), Inputs::from_iter([owner]), shape, self.dtype, device)
    }

    pub fn inputs(&self) -> Inputs {
        self.inputs.lock().clone()
    }

    /// Stores the node's result, contiguous from the start of each buffer, and releases its inputs.
    pub fn store(&self, buffers: Buffers) {
        if self.stored.set(buffers).is_ok() {
            let inputs = std::mem::take(&mut *self.inputs.lock());
            drop_without_recursion(inputs);
        }
    }

    pub fn stored(&self) -> Option<&[Buffer]> {
        self.stored.get().map(Buffers::as_slice)
    }

    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Counts one more tensor that references the node.
    pub fn hold(&self) {
        self.of_owner(|owner| owner.handles.fetch_add(1, Ordering::Relaxed));
    }

    pub fn let_go(&self) {
        self.of_owner(|owner| owner.handles.fetch_sub(1, Ordering::Relaxed));
    }

    /// Views and parts are counted at the node that owns their memory.
    fn of_owner(&self, act: impl FnOnce(&Node) -> usize) {
        match self.op {
            Op::View(_) | Op::Part(_) => {
                let owner = self.inputs.lock()[0].clone();
                match owner.op {
                    Op::Part(_) => owner.of_owner(act),
                    _ => {
                        act(&owner);
                    }
                }
            }
            _ => {
                act(self);
            }
        }
    }

    /// Whether a tensor references it or a view of it.
    pub fn is_held(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop_without_recursion(std::mem::take(self.inputs.get_mut()));
    }
}

/// Drops inputs iteratively: a chain of many thousand nodes would overflow the stack.
fn drop_without_recursion(inputs: Inputs) {
    // Every input has another owner, even if several of these are the same node. (If that owner drops it right now, the recursion
    // is one frame deep.)
    if inputs.iter().all(|input| Arc::strong_count(input) > inputs.len()) {
        return;
    }
    let mut waiting: Vec<Arc<Node>> = inputs.into_vec();
    while let Some(node) = waiting.pop() {
        if let Some(node) = Arc::into_inner(node) {
            waiting.extend(std::mem::take(&mut *node.inputs.lock()));
        }
    }
}

/// The location of a node's elements, present or future: the computed node, which of its outputs, and the layout.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub node: Arc<Node>,
    pub output: usize,
    pub layout: Layout,
}

impl Place {
    pub fn of(node: &Arc<Node>) -> Place {
        let (mut node, layout) = match &node.op {
            Op::View(layout) => (node.inputs.lock()[0].clone(), layout.clone()),
            _ => (node.clone(), Layout::contiguous(&node.shape)),
        };
        let mut output = 0;
        if let Op::Part(number) = node.op {
            output = number;
            let whole = node.inputs.lock()[0].clone();
            node = whole;
        }
        Place { node, output, layout }
    }

    /// The memory, if it is computed.
    pub fn buffer(&self) -> Option<&Buffer> {
        self.node.stored().map(|buffers| &buffers[self.output])
    }

    /// Whether it covers all elements of the output in their order, in any shape.
    pub fn is_whole(&self) -> bool {
        let elements: usize = match (&self.node.op, self.output) {
            (Op::Whole(_, more), output @ 1..) => more[output - 1].0.iter().product(),
            _ => self.node.elements(),
        };
        self.layout.offset == 0 && self.layout.elements() == elements && self.layout.is_contiguous()
    }
}
