//! Child graph nodes, and empty nodes that only join others.

use std::sync::Arc;

use hip_api::types::*;

use super::super::{Status, set};
use super::arguments::{add, find, with};
use crate::graph::Graph;
use crate::graph::node::Work;
use crate::state::runtime::Runtime;

/// A copy of a graph for use as a child node. A graph that allocates cannot be copied.
pub(super) fn embedded(runtime: &Runtime, child: hipGraph_t) -> Result<Arc<Graph>, hipError_t> {
    let child = runtime.graphs.graph(child)?;
    if child.any(&Work::is_memory) {
        return Err(hipErrorNotSupported);
    }
    runtime.graphs.clone_graph(&child)
}

pub unsafe fn hipGraphAddChildGraphNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    child: hipGraph_t,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |runtime| Ok(Work::Child(embedded(runtime, child)?))) }
}

pub unsafe fn hipGraphAddEmptyNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |_| Ok(Work::Empty)) }
}

pub unsafe fn hipGraphChildGraphNodeGetGraph(node: hipGraphNode_t, graph: *mut hipGraph_t) -> Status {
    let found = with(node, |work| match work {
        Work::Child(child) => Ok(child.id),
        _ => Err(hipErrorInvalidValue),
    })?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(graph, found as hipGraph_t) }
}

pub unsafe fn hipGraphExecChildGraphNodeSetParams(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    child: hipGraph_t,
) -> Status {
    let (runtime, executable) = find(executable)?;
    let child = runtime.graphs.graph(child)?;
    if runtime.graphs.graph_of(node)?.id == child.id {
        return Err(hipErrorUnknown);
    }
    executable.set_child(runtime, node as u64, &child)
}
