//! The graphs of a session, and how they are changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hip_api::types::*;
use parking_lot::Mutex;

use super::executable::Executable;
use super::memory::GraphMemory;
use super::node::Work;
use super::object::UserObject;
use super::{Graph, Node, NodeOf};
use crate::state::handles::{Kind, Table};

/// Graphs and what belongs to them, by handle.
#[derive(Debug)]
pub struct GraphTables {
    pub graphs: Table<Graph>,
    pub nodes: Table<NodeOf>,
    pub executables: Table<Executable>,
    pub user_objects: Table<UserObject>,
    pub memory: GraphMemory,
}

impl GraphTables {
    /// Empty tables.
    pub fn new() -> GraphTables {
        GraphTables {
            graphs: Table::new(Kind::Graph),
            nodes: Table::new(Kind::GraphNode),
            executables: Table::new(Kind::Executable),
            user_objects: Table::new(Kind::UserObject),
            memory: GraphMemory::default(),
        }
    }

    /// Creates an empty graph.
    pub fn new_graph(&self, device: usize, original: u64) -> Result<Arc<Graph>, hipError_t> {
        let make = |id| Graph { id, device, original, state: Mutex::default() };
        self.graphs.insert_with(make).map(|(_, graph)| graph).ok_or(hipErrorOutOfMemory)
    }

    /// The graph behind a handle.
    pub fn graph(&self, graph: hipGraph_t) -> Result<Arc<Graph>, hipError_t> {
        self.graphs.get(graph as u64).ok_or(hipErrorInvalidValue)
    }

    /// The graph that a node belongs to.
    pub fn graph_of(&self, node: hipGraphNode_t) -> Result<Arc<Graph>, hipError_t> {
        self.nodes.get(node as u64).map(|it| Arc::clone(&it.graph)).ok_or(hipErrorInvalidValue)
    }

    /// Adds a node that depends on the given ones, which must be distinct and of the same graph.
    pub fn add_node(&self, graph: &Arc<Graph>, before: &[u64], work: Work) -> Result<u64, hipError_t> {
        let mut state = graph.state.lock();
        let mut seen = HashSet::new();
        if !before.iter().all(|it| state.nodes.contains_key(it) && seen.insert(*it)) {
            return Err(hipErrorInvalidValue);
        }
        if state.order.len() >= wire::MAX_GRAPH_NODES {
            return Err(hipErrorOutOfMemory);
        }
        let made = self.nodes.insert_with(|_| NodeOf { graph: Arc::clone(graph) });
        let (handle, _) = made.ok_or(hipErrorOutOfMemory)?;
        state.nodes.insert(handle, Node { work, before: Vec::new(), after: Vec::new(), original: handle });
        state.order.push(handle);
        for from in before {
            state.link(*from, handle);
        }
        Ok(handle)
    }

    /// Removes a node and its edges; destroys its child graph.
    pub fn remove_node(&self, handle: u64) -> Result<(), hipError_t> {
        let owner = self.nodes.remove(handle).ok_or(hipErrorInvalidValue)?;
        let mut state = owner.graph.state.lock();
        let node = state.nodes.remove(&handle).ok_or(hipErrorInvalidValue)?;
        state.order.retain(|it| *it != handle);
        for from in &node.before {
            if let Some(from) = state.nodes.get_mut(from) {
                from.after.retain(|it| *it != handle);
            }
        }
        for to in &node.after {
            if let Some(to) = state.nodes.get_mut(to) {
                to.before.retain(|it| *it != handle);
            }
        }
        drop(state);
        if let Work::Child(child) = &node.work {
            self.destroy(child.id)?;
        }
        Ok(())
    }

    /// Clones a graph, child graphs included.
    pub fn clone_graph(&self, source: &Graph) -> Result<Arc<Graph>, hipError_t> {
        let copy = self.new_graph(source.device, source.id)?;
        let state = source.state.lock();
        let mut handles = HashMap::new();
        for handle in &state.order {
            let node = &state.nodes[handle];
            let work = match &node.work {
                Work::Child(child) => Work::Child(self.clone_graph(child)?),
                work => work.clone(),
            };
            let twin = self.add_node(&copy, &[], work)?;
            copy.with(twin, |it| it.original = *handle)?;
            handles.insert(*handle, twin);
        }
        let mut twins = copy.state.lock();
        for handle in &state.order {
            // Keep the order of the original's lists, which programs can see.
            let (node, twin) = (&state.nodes[handle], handles[handle]);
            if let Some(it) = twins.nodes.get_mut(&twin) {
                it.before = node.before.iter().map(|it| handles[it]).collect();
                it.after = node.after.iter().map(|it| handles[it]).collect();
            }
        }
        twins.objects = state.objects.retained();
        drop(twins);
        Ok(copy)
    }

    /// Destroys a graph, its nodes and its child graphs. Memory that only they used is released by
    /// [`sweep_graph_memory`](crate::state::runtime::Runtime::sweep_graph_memory).
    pub fn destroy(&self, id: u64) -> Result<(), hipError_t> {
        let graph = self.graphs.remove(id).ok_or(hipErrorInvalidValue)?;
        let (nodes, objects) = {
            let mut state = graph.state.lock();
            state.order.clear();
            (std::mem::take(&mut state.nodes), std::mem::take(&mut state.objects))
        };
        for (handle, node) in nodes {
            self.nodes.remove(handle);
            if let Work::Child(child) = &node.work {
                // Ignore a child graph that the program has already destroyed.
                let _ = self.destroy(child.id);
            }
        }
        objects.release(&self.user_objects);
        Ok(())
    }
}
