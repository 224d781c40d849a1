//! Instantiates graphs and updates executable ones.

use std::collections::HashMap;
use std::sync::Arc;

use hip_api::types::*;
use parking_lot::Mutex;
use wire::{Field, GraphNode, GraphUpdate};

use super::Graph;
use super::executable::{Executable, ExecutableState, Mismatch, Step};
use super::lower;
use super::lowered::{EarlierWrites, HostSide, Lowered};
use super::node::Work;
use super::object::Holdings;
use crate::state::Status;
use crate::state::runtime::Runtime;

/// Node definitions are sent in frames of about this size.
const PIECE: usize = 128 << 10;

impl Executable {
    /// Instantiates a graph.
    pub fn make(runtime: &Runtime, graph: &Graph, flags: u64) -> Result<Arc<Executable>, hipError_t> {
        let memory = match graph.any(&Work::is_memory) {
            true => Some(graph.claim_memory().ok_or(hipErrorNotSupported)?),
            false => None,
        };
        let nodes = flatten(runtime, graph)?;
        let index = nodes.iter().enumerate().map(|(index, it)| (it.handle, index)).collect();
        let objects = Holdings::default();
        let mut state =
            ExecutableState { nodes, index, facing: Vec::new(), noted: Vec::new(), slots: 0, objects };
        state.lower(runtime, |_| true)?;
        state.objects = graph.with_objects(|it| it.retained());
        let device = graph.device;
        let make = |id| Executable { id, flags, device, state: Mutex::new(state), _memory: memory };
        let (id, made) = runtime.graphs.executables.insert_with(make).ok_or(hipErrorOutOfMemory)?;
        made.state.lock().define(runtime, id)?;
        Ok(made)
    }

    /// Runs `look` on the work of a node, identified by its handle in the source graph, which must still exist.
    pub fn with<R>(
        &self,
        runtime: &Runtime,
        node: u64,
        look: impl FnOnce(&Work) -> R,
    ) -> Result<R, hipError_t> {
        runtime.graphs.nodes.get(node).ok_or(hipErrorInvalidValue)?;
        let state = self.state.lock();
        let index = state.index.get(&node).ok_or(hipErrorInvalidValue)?;
        Ok(look(&state.nodes[*index].work))
    }

    /// Enables or disables a node.
    pub fn enable(&self, runtime: &Runtime, node: u64, enabled: bool) -> Status {
        let mut state = self.state.lock();
        let index = *state.index.get(&node).ok_or(hipErrorInvalidValue)?;
        if state.nodes[index].enabled == enabled {
            return Ok(());
        }
        state.nodes[index].enabled = enabled;
        state.update(runtime, self.id, &[index])
    }

    /// Replaces the work of a node by work of the same kind.
    pub fn set(&self, runtime: &Runtime, node: u64, work: Work) -> Status {
        let index = *self.state.lock().index.get(&node).ok_or(hipErrorInvalidValue)?;
        self.change(runtime, vec![(index, work)])
    }

    /// Replaces the work of a child graph's nodes by that of another graph with the same topology.
    pub fn set_child(&self, runtime: &Runtime, node: u64, graph: &Graph) -> Status {
        let child = self.with(runtime, node, |work| match work {
            Work::Child(child) => Ok(Arc::clone(child)),
            _ => Err(hipErrorInvalidValue),
        })??;
        let (old, new) = (flatten(runtime, &child)?, flatten(runtime, graph)?);
        if !fits(&old, &new) {
            return Err(hipErrorUnknown);
        }
        let state = self.state.lock();
        let changes: Option<Vec<(usize, Work)>> =
            old.iter().zip(new).map(|(old, new)| Some((*state.index.get(&old.handle)?, new.work))).collect();
        drop(state);
        self.change(runtime, changes.ok_or(hipErrorInvalidValue)?)
    }

    /// Replaces the work of all nodes by that of a graph with the same topology.
    pub fn update(&self, runtime: &Runtime, graph: &Graph) -> Result<(), Mismatch> {
        let not = |node, result| Mismatch { node, result };
        let new = flatten(runtime, graph).map_err(|_| not(0, hipGraphExecUpdateErrorTopologyChanged))?;
        let state = self.state.lock();
        if new.len() != state.nodes.len() {
            return Err(not(0, hipGraphExecUpdateErrorTopologyChanged));
        }
        for (old, new) in state.nodes.iter().zip(&new) {
            if old.work.kind() != new.work.kind() {
                return Err(not(new.handle, hipGraphExecUpdateErrorNodeTypeChanged));
            }
            if old.after != new.after {
                return Err(not(new.handle, hipGraphExecUpdateErrorTopologyChanged));
            }
            match (&old.work, &new.work) {
                (Work::Kernel(_), Work::Kernel(_)) if old.ordinal != new.ordinal => {
                    return Err(not(new.handle, hipGraphExecUpdateErrorUnsupportedFunctionChange));
                }
                (Work::Copy(old), Work::Copy(copy)) if old.kind() != copy.kind() => {
                    return Err(not(new.handle, hipGraphExecUpdateErrorParametersChanged));
                }
                (Work::Allocate(old), Work::Allocate(it)) if old.memory.address != it.memory.address => {
                    return Err(not(new.handle, hipGraphExecUpdateErrorNotSupported));
                }
                (Work::Free(old), Work::Free(it)) if old.address != it.address => {
                    return Err(not(new.handle, hipGraphExecUpdateErrorNotSupported));
                }
                _ => {}
            }
        }
        drop(state);
        // Expanded child graphs stay this graph's own: their nodes keep their handles.
        let changes = new.into_iter().enumerate().filter(|(_, it)| !matches!(it.work, Work::Child(_)));
        let changes = changes.map(|(index, it)| (index, it.work)).collect();
        let failed = |_| not(0, hipGraphExecUpdateErrorParametersChanged);
        self.change(runtime, changes).map_err(failed)
    }

    fn change(&self, runtime: &Runtime, changes: Vec<(usize, Work)>) -> Status {
        let mut state = self.state.lock();
        let mut before = Vec::with_capacity(changes.len());
        let mut is_new = vec![false; state.nodes.len()];
        for (index, work) in changes {
            is_new[index] = true;
            before.push((index, std::mem::replace(&mut state.nodes[index].work, work)));
        }
        match state.lower(runtime, |index| is_new[index]) {
            Ok(changed) => state.update(runtime, self.id, &changed),
            Err(error) => {
                // All or nothing.
                for (index, work) in before {
                    state.nodes[index].work = work;
                }
                Err(error)
            }
        }
    }

    /// Its nodes as a new graph, for a launch that is captured.
    pub fn as_graph(&self, runtime: &Runtime) -> Result<Arc<Graph>, hipError_t> {
        let graph = runtime.graphs.new_graph(self.device, 0)?;
        let state = self.state.lock();
        let mut handles: Vec<u64> = Vec::with_capacity(state.nodes.len());
        for node in &state.nodes {
            let work = match &node.work {
                _ if !node.enabled => Work::Empty,
                Work::Child(_) => Work::Empty,
                work => work.clone(),
            };
            let after: Vec<u64> = node.after.iter().map(|it| handles[*it as usize]).collect();
            handles.push(runtime.graphs.add_node(&graph, &after, work)?);
        }
        Ok(graph)
    }

    /// Destroys it, here and on the worker.
    pub fn destroy(&self, runtime: &Runtime) -> Status {
        let objects = {
            let mut state = self.state.lock();
            state.nodes.clear();
            state.index.clear();
            state.facing.clear();
            state.noted.clear();
            std::mem::take(&mut state.objects)
        };
        runtime.post(&wire::DestroyGraph { graph: self.id }, &[])?;
        objects.release(&runtime.graphs.user_objects);
        runtime.sweep_graph_memory();
        Ok(())
    }
}

impl Step {
    fn new(runtime: &Runtime, graph: &Graph, handle: u64, work: Work, after: Vec<u32>) -> Step {
        let device = match &work {
            Work::Kernel(kernel) => kernel.function.device,
            _ => graph.device,
        };
        let ordinal = runtime.devices[device].ordinal;
        let (lowered, slots) = (Lowered::default(), Vec::new());
        Step { handle, work, ordinal, after, lowered, slots, enabled: true }
    }
}

/// All nodes of a graph, child graphs expanded, in topological order.
fn flatten(runtime: &Runtime, graph: &Graph) -> Result<Vec<Step>, hipError_t> {
    fn put(
        runtime: &Runtime,
        graph: &Graph,
        start: &[u32],
        all: &mut Vec<Step>,
    ) -> Result<Vec<u32>, hipError_t> {
        let order = graph.topological().ok_or(hipErrorInvalidValue)?;
        let mut places: HashMap<u64, u32> = HashMap::with_capacity(order.len());
        let mut leaves = Vec::new();
        for handle in order {
            let (work, before, is_leaf) =
                graph.with(handle, |it| (it.work.clone(), it.before.clone(), it.after.is_empty()))?;
            let mut after: Vec<u32> = before.iter().filter_map(|it| places.get(it).copied()).collect();
            if after.is_empty() {
                after = start.to_vec();
            }
            if let Work::Child(child) = &work {
                let inner = put(runtime, child, &after, all)?;
                if !inner.is_empty() {
                    after = inner;
                }
            }
            if all.len() >= wire::MAX_GRAPH_NODES {
                return Err(hipErrorOutOfMemory);
            }
            let place = all.len() as u32;
            all.push(Step::new(runtime, graph, handle, work, after));
            places.insert(handle, place);
            if is_leaf {
                leaves.push(place);
            }
        }
        Ok(leaves)
    }
    let mut all = Vec::new();
    put(runtime, graph, &[], &mut all)?;
    Ok(all)
}

impl ExecutableState {
    /// Lowers the new nodes, and those that read memory the new nodes may write. Returns the changed ones.
    fn lower(&mut self, runtime: &Runtime, is_new: impl Fn(usize) -> bool) -> Result<Vec<usize>, hipError_t> {
        let mut earlier = EarlierWrites::default();
        let mut fresh: Vec<(usize, Lowered)> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let reads = node
                .lowered
                .sides
                .iter()
                .any(|it| matches!(it, HostSide::Source { .. } | HostSide::SourceLater { .. }));
            if is_new(index) || reads {
                let lowered = lower::lower(runtime, &node.work, &earlier)?;
                earlier.note(&lowered);
                fresh.push((index, lowered));
            } else {
                earlier.note(&node.lowered);
            }
        }
        let mut changed = Vec::new();
        for (index, lowered) in fresh {
            let node = &mut self.nodes[index];
            if lowered.steps == node.lowered.steps && !is_new(index) {
                continue;
            }
            while node.slots.len() < lowered.sides.len() {
                if self.slots >= wire::MAX_GRAPH_SLOTS {
                    return Err(hipErrorOutOfMemory);
                }
                node.slots.push(self.slots);
                self.slots += 1;
            }
            if lowered.steps.size() as u64 > wire::MAX_GRAPH_PIECE / 2 {
                return Err(hipErrorOutOfMemory);
            }
            node.lowered = lowered;
            changed.push(index);
        }
        let facing = self.nodes.iter().enumerate().filter(|(_, it)| !it.lowered.sides.is_empty());
        self.facing = facing.map(|(index, _)| index).collect();
        let noted =
            self.nodes.iter().enumerate().filter(|(_, it)| {
                matches!(it.work, Work::RecordEvent(_) | Work::Allocate(_) | Work::Free(_))
            });
        self.noted = noted.map(|(index, _)| index).collect();
        Ok(changed)
    }

    fn update(&self, runtime: &Runtime, graph: u64, changed: &[usize]) -> Status {
        let mut updates = Vec::new();
        let mut bytes = 0;
        for index in changed {
            let update = GraphUpdate { node: *index as u32, steps: self.nodes[*index].wire() };
            bytes += update.size();
            updates.push(update);
            if bytes >= PIECE {
                let updates = std::mem::take(&mut updates);
                runtime.post(&wire::UpdateGraphNodes { graph, updates }, &[])?;
                bytes = 0;
            }
        }
        if updates.is_empty() {
            return Ok(());
        }
        runtime.post(&wire::UpdateGraphNodes { graph, updates }, &[])
    }

    fn define(&self, runtime: &Runtime, graph: u64) -> Status {
        runtime.post(&wire::DefineGraph { graph }, &[])?;
        let mut nodes = Vec::new();
        let mut bytes = 0;
        for it in &self.nodes {
            let node = GraphNode { device: it.ordinal, dependencies: it.after.clone(), steps: it.wire() };
            bytes += node.size();
            nodes.push(node);
            if bytes >= PIECE {
                let nodes = std::mem::take(&mut nodes);
                runtime.post(&wire::AddGraphNodes { graph, nodes }, &[])?;
                bytes = 0;
            }
        }
        if nodes.is_empty() {
            return Ok(());
        }
        runtime.post(&wire::AddGraphNodes { graph, nodes }, &[])
    }
}

/// Whether two graphs have the same topology and kinds of node.
fn fits(old: &[Step], new: &[Step]) -> bool {
    let same = |(old, new): (&Step, &Step)| old.work.kind() == new.work.kind() && old.after == new.after;
    old.len() == new.len() && old.iter().zip(new).all(same)
}
