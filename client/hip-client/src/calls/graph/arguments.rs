//! Arguments that graph functions share: handles, lists and structs of the program.

use std::sync::Arc;

use hip_api::types::*;

use super::super::{Status, set};
use crate::graph::executable::Executable;
use crate::graph::node::Work;
use crate::state::runtime::{Runtime, runtime};

/// A list of node handles passed by the program.
///
/// # Safety
/// `list` is null or an array of `count` handles.
pub(super) unsafe fn handles(list: *const hipGraphNode_t, count: usize) -> Result<Vec<u64>, hipError_t> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if list.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's array, not null.
    Ok(unsafe { std::slice::from_raw_parts(list, count) }.iter().map(|it| *it as u64).collect())
}

/// Adds a node whose work `make` builds.
///
/// # Safety
/// `node` is null or valid for a write; `after` is null or an array of `count` handles.
pub(super) unsafe fn add(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    make: impl FnOnce(&Runtime) -> Result<Work, hipError_t>,
) -> Status {
    if node.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let graph = runtime.graphs.graph(graph)?;
    // SAFETY: the caller's array.
    let after = unsafe { handles(after, count)? };
    let made = runtime.graphs.add_node(&graph, &after, make(runtime)?)?;
    runtime.captures.set_apart(graph.id, made);
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(node, made as hipGraphNode_t) }
}

/// Runs `look` on a node's work.
pub(super) fn with<R>(
    node: hipGraphNode_t,
    look: impl FnOnce(&mut Work) -> Result<R, hipError_t>,
) -> Result<R, hipError_t> {
    runtime()?.graphs.graph_of(node)?.with(node as u64, |it| look(&mut it.work))?
}

/// Reads through a pointer of the program; null is hipErrorInvalidValue.
///
/// # Safety
/// `pointer` is null or valid for a read.
pub(super) unsafe fn get<T: Copy>(pointer: *const T) -> Result<T, hipError_t> {
    if pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: not null, and the caller guarantees the rest.
    Ok(unsafe { pointer.read() })
}

/// Returns a list as HIP does: only its length, or as many entries as there is room for, padded with nulls.
///
/// # Safety
/// `count` is null or valid; `list` is null or an array of `*count` entries.
pub(super) unsafe fn give(found: &[u64], list: *mut hipGraphNode_t, count: *mut usize) -> Status {
    // SAFETY: the caller's pointers.
    unsafe {
        let room = get(count)?;
        if list.is_null() {
            return set(count, found.len());
        }
        for index in 0..room {
            list.add(index).write(found.get(index).copied().unwrap_or(0) as hipGraphNode_t);
        }
        set(count, room.min(found.len()))
    }
}

/// The executable graph behind a handle.
pub(super) fn find(executable: hipGraphExec_t) -> Result<(&'static Runtime, Arc<Executable>), hipError_t> {
    let runtime = runtime()?;
    let found = runtime.graphs.executables.get(executable as u64).ok_or(hipErrorInvalidValue)?;
    Ok((runtime, found))
}
