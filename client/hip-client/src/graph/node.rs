//! The work of a graph node, in the terms the program passed and can query.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use code_object::Kernel as Code;
use hip_api::types::*;

use super::Graph;
use super::block::Block;
use super::memory::GraphAllocation;
use crate::state::module::Function;
use crate::state::objects::Event;

/// The kinds of node.
#[derive(Clone, Debug)]
pub enum Work {
    Kernel(Kernel),
    Copy(Copy),
    Fill(Fill),
    Host(Host),
    Child(Arc<Graph>),
    Empty,
    WaitEvent(Arc<Event>),
    RecordEvent(Arc<Event>),
    Allocate(Allocate),
    Free(Arc<GraphAllocation>),
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub function: Arc<Function>,
    /// The program's name of the kernel: a host stub or a function handle.
    pub symbol: usize,
    pub blocks: dim3,
    pub launch: wire::Launch,
    pub arguments: Arguments,
    pub attributes: HashMap<u32, hipLaunchAttributeValue>,
}

/// A copy, in the terms of the call that made it.
#[derive(Clone, Debug)]
pub enum Copy {
    /// Also for copies to and from device variables, whose addresses are known.
    Flat {
        to: u64,
        from: u64,
        bytes: usize,
        kind: hipMemcpyKind,
    },
    Box(hipMemcpy3DParms),
    Driver(HIP_MEMCPY3D),
    /// Rows of a captured copy.
    Rows {
        to: Block,
        from: Block,
        kind: hipMemcpyKind,
    },
}

#[derive(Clone, Debug)]
pub struct Fill {
    pub parameters: hipMemsetParams,
    pub depth: usize,
    /// Rows from slice to slice.
    pub rows: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub function: unsafe extern "C" fn(*mut c_void),
    pub data: usize,
}

#[derive(Clone, Debug)]
pub struct Allocate {
    pub memory: Arc<GraphAllocation>,
    pub properties: hipMemPoolProps,
    pub access: Vec<hipMemAccessDesc>,
}

// SAFETY: the raw pointers inside belong to the program; they are stored as values and dereferenced only where HIP says
// so.
unsafe impl Send for Work {}

impl Work {
    pub fn kind(&self) -> hipGraphNodeType {
        match self {
            Work::Kernel(_) => hipGraphNodeTypeKernel,
            Work::Copy(_) => hipGraphNodeTypeMemcpy,
            Work::Fill(_) => hipGraphNodeTypeMemset,
            Work::Host(_) => hipGraphNodeTypeHost,
            Work::Child(_) => hipGraphNodeTypeGraph,
            Work::Empty => hipGraphNodeTypeEmpty,
            Work::WaitEvent(_) => hipGraphNodeTypeWaitEvent,
            Work::RecordEvent(_) => hipGraphNodeTypeEventRecord,
            Work::Allocate(_) => hipGraphNodeTypeMemAlloc,
            Work::Free(_) => hipGraphNodeTypeMemFree,
        }
    }

    /// Whether it allocates or frees.
    pub fn is_memory(&self) -> bool {
        matches!(self, Work::Allocate(_) | Work::Free(_))
    }
}

impl Copy {
    pub fn kind(&self) -> hipMemcpyKind {
        match self {
            Copy::Flat { kind, .. } | Copy::Rows { kind, .. } => *kind,
            Copy::Box(parameters) => parameters.kind,
            Copy::Driver(_) => hipMemcpyDefault,
        }
    }
}

/// The arguments of a kernel, in memory that the program can read and change.
#[derive(Debug)]
pub struct Arguments {
    bytes: Box<[Cell<u8>]>,
    /// The address of each argument.
    each: Box<[Cell<usize>]>,
    /// The `extra` list, if the program passed the arguments as one buffer.
    packed: Option<Box<[Cell<usize>; 6]>>,
}

impl Arguments {
    /// `packed`: the arguments were passed as one buffer, and are returned as one.
    pub fn new(code: &Code, bytes: &[u8], packed: bool) -> Arguments {
        let bytes: Box<[Cell<u8>]> = bytes.iter().copied().map(Cell::new).collect();
        let start = bytes.as_ptr() as usize;
        let explicit = &code.args[..code.explicit_args.min(code.args.len())];
        let each = explicit
            .iter()
            .map(|it| if (it.offset as usize) < bytes.len() { start + it.offset as usize } else { 0 })
            .map(Cell::new)
            .collect();
        let packed = packed.then(|| {
            let list = Box::new([1, start, 2, 0, 3, bytes.len()].map(Cell::new));
            list[3].set(list[5].as_ptr() as usize);
            list
        });
        Arguments { bytes, each, packed }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.iter().map(Cell::get).collect()
    }

    /// `kernelParams` and `extra`, as hipGraphKernelNodeGetParams returns them.
    pub fn lists(&self) -> (*mut *mut c_void, *mut *mut c_void) {
        match &self.packed {
            Some(list) => (std::ptr::null_mut(), list.as_ptr() as *mut *mut c_void),
            None if self.each.is_empty() => (std::ptr::null_mut(), std::ptr::null_mut()),
            None => (self.each.as_ptr() as *mut *mut c_void, std::ptr::null_mut()),
        }
    }
}

impl Clone for Arguments {
    /// Copies the memory too: a change of one node's arguments must not affect another's.
    fn clone(&self) -> Arguments {
        let bytes = self.bytes.clone();
        let (old, start) = (self.bytes.as_ptr() as usize, bytes.as_ptr() as usize);
        let moved = |it: usize| if it == 0 { 0 } else { it - old + start };
        // A list entry that the program replaced by its own pointer is dropped; the stored bytes are authoritative.
        let inside = |it: &Cell<usize>| (old..old + self.bytes.len()).contains(&it.get());
        let each =
            self.each.iter().map(|it| Cell::new(if inside(it) { moved(it.get()) } else { 0 })).collect();
        let packed = self.packed.as_ref().map(|_| {
            let list = Box::new([1, start, 2, 0, 3, bytes.len()].map(Cell::new));
            list[3].set(list[5].as_ptr() as usize);
            list
        });
        Arguments { bytes, each, packed }
    }
}
