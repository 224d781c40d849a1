//! What a node does, as the program said it and will ask for it again.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use code_object::Kernel as Code;
use hip_api::types::*;

use super::Graph;
use super::lower::Block;
use super::memory::GraphAllocation;
use crate::module::Function;
use crate::runtime::{Event, Runtime};

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
    /// What the program named the kernel by: a host stub or a function handle.
    pub symbol: usize,
    pub blocks: dim3,
    pub launch: wire::Launch,
    pub arguments: Arguments,
    pub attributes: HashMap<u32, hipLaunchAttributeValue>,
}

/// A copy, in the terms it was asked for in.
#[derive(Clone, Debug)]
pub enum Copy {
    /// Also to and from variables of the program, whose addresses are known.
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
    /// From slice to slice.
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

// SAFETY: the raw pointers inside are the program's own, kept as values and followed by nobody but where HIP says so.
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

/// The arguments of a kernel, where the program can look at them and change them.
#[derive(Debug)]
pub struct Arguments {
    bytes: Box<[Cell<u8>]>,
    /// The address of each argument.
    each: Box<[Cell<usize>]>,
    /// As one buffer: the list that `extra` is. The program gave it so.
    packed: Option<Box<[Cell<usize>; 6]>>,
}

impl Arguments {
    /// `packed`: they came as one buffer, and go so.
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

    /// `kernelParams` and `extra`, as hipGraphKernelNodeGetParams gives them.
    pub fn lists(&self) -> (*mut *mut c_void, *mut *mut c_void) {
        match &self.packed {
            Some(list) => (std::ptr::null_mut(), list.as_ptr() as *mut *mut c_void),
            None if self.each.is_empty() => (std::ptr::null_mut(), std::ptr::null_mut()),
            None => (self.each.as_ptr() as *mut *mut c_void, std::ptr::null_mut()),
        }
    }
}

impl Clone for Arguments {
    /// With memory of its own: the program changes one node's arguments, not another's.
    fn clone(&self) -> Arguments {
        let bytes = self.bytes.clone();
        let (old, start) = (self.bytes.as_ptr() as usize, bytes.as_ptr() as usize);
        let moved = |it: usize| if it == 0 { 0 } else { it - old + start };
        // Where the program has put pointers of its own into the list, the bytes are what counts.
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

impl Allocate {
    /// An allocation on a device, with an address of its own from now on.
    pub fn new(runtime: &Runtime, device: usize, bytes: usize) -> Result<Allocate, hipError_t> {
        if bytes == 0 {
            return Err(hipErrorInvalidValue);
        }
        let location = hipMemLocation { r#type: hipMemLocationTypeDevice, id: device as c_int };
        Ok(Allocate {
            memory: runtime.reserve_graph_memory(device, bytes as u64)?,
            properties: hipMemPoolProps {
                allocType: hipMemAllocationTypePinned,
                location,
                ..Default::default()
            },
            access: Vec::new(),
        })
    }
}
