//! Graph construction and queries. Node kinds, capture and execution have separate files.

mod any;
mod arguments;
mod capture;
mod child;
mod copy;
mod event;
mod executable;
mod fill;
mod host;
mod kernel;
mod memory;
mod object;

pub use any::*;
pub use capture::*;
pub use child::*;
pub use copy::*;
pub use event::*;
pub use executable::*;
pub use fill::*;
pub use host::*;
pub use kernel::*;
pub use memory::*;
pub use object::*;

use std::ffi::{c_char, c_uint};

use hip_api::types::*;

use super::{Status, set, text};
use crate::graph::dot;
use crate::graph::node::Work;
use crate::process::soname;
use crate::state::runtime::runtime;
use arguments::{give, handles, with};

pub unsafe fn hipGraphCreate(graph: *mut hipGraph_t, flags: c_uint) -> Status {
    if graph.is_null() || flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let (device, _) = runtime.current()?;
    let made = runtime.graphs.new_graph(device, 0)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(graph, made.id as hipGraph_t) }
}

pub unsafe fn hipGraphDestroy(graph: hipGraph_t) -> Status {
    runtime()?.destroy_graph(graph as u64)
}

pub unsafe fn hipGraphClone(clone: *mut hipGraph_t, original: hipGraph_t) -> Status {
    if clone.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let source = runtime.graphs.graph(original)?;
    if source.any(&Work::is_memory) {
        return Err(hipErrorNotSupported);
    }
    let made = runtime.graphs.clone_graph(&source)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(clone, made.id as hipGraph_t) }
}

pub unsafe fn hipGraphNodeFindInClone(
    node: *mut hipGraphNode_t,
    original: hipGraphNode_t,
    clone: hipGraph_t,
) -> Status {
    if node.is_null() || original.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let found = runtime()?.graphs.graph(clone)?;
    let twin = if found.original == 0 { None } else { found.clone_of(original as u64) };
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(node, twin.ok_or(hipErrorInvalidValue)? as hipGraphNode_t) }
}

pub unsafe fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) -> Status {
    let found = runtime()?.graphs.graph(graph)?.topological().ok_or(hipErrorInvalidValue)?;
    // SAFETY: the caller's array.
    unsafe { give(&found, nodes, count) }
}

pub unsafe fn hipGraphGetRootNodes(
    graph: hipGraph_t,
    nodes: *mut hipGraphNode_t,
    count: *mut usize,
) -> Status {
    let found = runtime()?.graphs.graph(graph)?.roots();
    // SAFETY: the caller's array.
    unsafe { give(&found, nodes, count) }
}

pub unsafe fn hipGraphGetEdges(
    graph: hipGraph_t,
    from: *mut hipGraphNode_t,
    to: *mut hipGraphNode_t,
    count: *mut usize,
) -> Status {
    if from.is_null() != to.is_null() || count.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let (starts, ends): (Vec<u64>, Vec<u64>) = runtime()?.graphs.graph(graph)?.edges().into_iter().unzip();
    // SAFETY: the caller's arrays, of the same length; the count is not null.
    unsafe {
        let mut room = *count;
        give(&starts, from, &mut room)?;
        give(&ends, to, count)
    }
}

pub unsafe fn hipGraphNodeGetDependencies(
    node: hipGraphNode_t,
    list: *mut hipGraphNode_t,
    count: *mut usize,
) -> Status {
    let found = runtime()?.graphs.graph_of(node)?.with(node as u64, |it| it.before.clone())?;
    // SAFETY: the caller's array.
    unsafe { give(&found, list, count) }
}

pub unsafe fn hipGraphNodeGetDependentNodes(
    node: hipGraphNode_t,
    list: *mut hipGraphNode_t,
    count: *mut usize,
) -> Status {
    let found = runtime()?.graphs.graph_of(node)?.with(node as u64, |it| it.after.clone())?;
    // SAFETY: the caller's array.
    unsafe { give(&found, list, count) }
}

/// Edges given as two lists.
///
/// # Safety
/// Both are null or arrays of `count` handles.
unsafe fn edges(
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
) -> Result<Vec<(u64, u64)>, hipError_t> {
    // SAFETY: the caller's arrays.
    unsafe { Ok(handles(from, count)?.into_iter().zip(handles(to, count)?).collect()) }
}

pub unsafe fn hipGraphAddDependencies(
    graph: hipGraph_t,
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
) -> Status {
    // SAFETY: the caller's arrays.
    runtime()?.graphs.graph(graph)?.connect(&unsafe { edges(from, to, count)? })
}

pub unsafe fn hipGraphRemoveDependencies(
    graph: hipGraph_t,
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
) -> Status {
    // SAFETY: the caller's arrays.
    runtime()?.graphs.graph(graph)?.disconnect(&unsafe { edges(from, to, count)? })
}

pub unsafe fn hipGraphNodeGetType(node: hipGraphNode_t, kind: *mut hipGraphNodeType) -> Status {
    let found = with(node, |work| Ok(work.kind()))?;
    let found = if soname::hip_major() < 6 { found.for_soname_5() } else { found };
    // SAFETY: the caller's out-pointer.
    unsafe { set(kind, found) }
}

pub unsafe fn hipGraphDestroyNode(node: hipGraphNode_t) -> Status {
    if with(node, |work| Ok(work.is_memory()))? {
        return Err(hipErrorNotSupported);
    }
    let runtime = runtime()?;
    runtime.graphs.remove_node(node as u64)?;
    runtime.sweep_graph_memory();
    Ok(())
}

pub unsafe fn hipGraphDebugDotPrint(graph: hipGraph_t, path: *const c_char, flags: c_uint) -> Status {
    let runtime = runtime()?;
    let graph = runtime.graphs.graph(graph)?;
    // SAFETY: the caller's string.
    let path = unsafe { text(path)? };
    std::fs::write(path, dot::text(&graph, flags)).map_err(|_| hipErrorOperatingSystem)
}
