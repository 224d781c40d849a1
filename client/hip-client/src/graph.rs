//! Graphs as programs build and query them: nodes and edges.
//!
//! A graph exists only in this process until it is instantiated (see [`executable`]). Nodes have their own handles, so
//! that a node of a destroyed graph is rejected instead of dereferenced.

#![allow(non_upper_case_globals, reason = "constants are named as in HIP")]

mod allocate;
pub mod block;
pub mod capture;
pub mod dot;
pub mod executable;
mod instantiate;
mod launch;
pub mod lower;
pub mod lowered;
pub mod memory;
pub mod node;
pub mod object;
mod record;
pub mod tables;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use hip_api::types::*;
use parking_lot::Mutex;

use node::Work;
use object::Holdings;

/// A graph that can be changed.
#[derive(Debug)]
pub struct Graph {
    pub id: u64,
    /// The device that was current when it was created.
    pub device: usize,
    /// The graph it is a clone of, or 0.
    pub original: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In order of insertion.
    order: Vec<u64>,
    nodes: HashMap<u64, Node>,
    objects: Holdings,
    /// Claim held by the executable graph that uses its memory.
    memory: Weak<()>,
}

/// A node: its work and its edges.
#[derive(Debug)]
pub struct Node {
    pub work: Work,
    pub before: Vec<u64>,
    pub after: Vec<u64>,
    /// The node it was cloned from, or itself.
    pub original: u64,
}

/// The target of a node handle.
#[derive(Debug)]
pub struct NodeOf {
    pub graph: Arc<Graph>,
}

impl Graph {
    /// Runs `look` on a node.
    pub fn with<R>(&self, node: u64, look: impl FnOnce(&mut Node) -> R) -> Result<R, hipError_t> {
        self.state.lock().nodes.get_mut(&node).map(look).ok_or(hipErrorInvalidValue)
    }

    pub fn contains(&self, node: u64) -> bool {
        self.state.lock().nodes.contains_key(&node)
    }

    /// Its nodes in topological order; `None` if there is a cycle.
    pub fn topological(&self) -> Option<Vec<u64>> {
        self.state.lock().topological()
    }

    pub fn roots(&self) -> Vec<u64> {
        let state = self.state.lock();
        state.order.iter().filter(|it| state.nodes[*it].before.is_empty()).copied().collect()
    }

    /// Nodes that no other depends on.
    pub fn leaves(&self) -> Vec<u64> {
        let state = self.state.lock();
        state.order.iter().filter(|it| state.nodes[*it].after.is_empty()).copied().collect()
    }

    pub fn nodes(&self) -> Vec<u64> {
        self.state.lock().order.clone()
    }

    pub fn edges(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let from = |node: &u64| {
            let node = *node;
            state.nodes[&node].after.iter().map(move |to| (node, *to))
        };
        state.order.iter().flat_map(from).collect()
    }

    /// Adds all edges or none.
    pub fn connect(&self, edges: &[(u64, u64)]) -> Result<(), hipError_t> {
        let mut state = self.state.lock();
        let mut new = HashSet::new();
        for (from, to) in edges {
            let known = state.nodes.contains_key(to);
            let start = state.nodes.get(from).filter(|_| known && from != to).ok_or(hipErrorInvalidValue)?;
            if start.after.contains(to) || !new.insert((*from, *to)) {
                return Err(hipErrorInvalidValue);
            }
        }
        for (from, to) in edges {
            state.link(*from, *to);
        }
        Ok(())
    }

    /// Removes all edges or none.
    pub fn disconnect(&self, edges: &[(u64, u64)]) -> Result<(), hipError_t> {
        let mut state = self.state.lock();
        let mut gone = HashSet::new();
        for (from, to) in edges {
            let start = state.nodes.get(from).ok_or(hipErrorInvalidValue)?;
            if !start.after.contains(to) || !gone.insert((*from, *to)) {
                return Err(hipErrorInvalidValue);
            }
        }
        for (from, to) in edges {
            if let Some(node) = state.nodes.get_mut(from) {
                node.after.retain(|it| it != to);
            }
            if let Some(node) = state.nodes.get_mut(to) {
                node.before.retain(|it| it != from);
            }
        }
        Ok(())
    }

    /// Whether any node, here or in a child graph, satisfies `is`.
    pub fn any(&self, is: &dyn Fn(&Work) -> bool) -> bool {
        let state = self.state.lock();
        state.nodes.values().any(|node| match &node.work {
            Work::Child(child) => is(&node.work) || child.any(is),
            work => is(work),
        })
    }

    /// The node of this clone that corresponds to a node of its original.
    pub fn clone_of(&self, original: u64) -> Option<u64> {
        let state = self.state.lock();
        state.order.iter().find(|it| state.nodes[*it].original == original).copied()
    }

    /// Claims the graph's memory for an executable graph that allocates. The memory has one address, so only one
    /// executable can use it at a time; `None` while another does.
    pub fn claim_memory(&self) -> Option<Arc<()>> {
        let mut state = self.state.lock();
        if state.memory.strong_count() > 0 {
            return None;
        }
        let claim = Arc::new(());
        state.memory = Arc::downgrade(&claim);
        Some(claim)
    }

    /// Runs `look` on the user objects it holds.
    pub fn with_objects<R>(&self, look: impl FnOnce(&mut Holdings) -> R) -> R {
        look(&mut self.state.lock().objects)
    }
}

impl State {
    fn link(&mut self, from: u64, to: u64) {
        if let Some(node) = self.nodes.get_mut(&from) {
            node.after.push(to);
        }
        if let Some(node) = self.nodes.get_mut(&to) {
            node.before.push(from);
        }
    }

    fn topological(&self) -> Option<Vec<u64>> {
        let mut missing: HashMap<u64, usize> =
            self.nodes.iter().map(|(node, it)| (*node, it.before.len())).collect();
        let mut ready: VecDeque<u64> =
            self.order.iter().filter(|node| missing[*node] == 0).copied().collect();
        let mut sorted = Vec::with_capacity(self.order.len());
        while let Some(node) = ready.pop_front() {
            sorted.push(node);
            for after in &self.nodes[&node].after {
                let left = missing.get_mut(after)?;
                *left -= 1;
                if *left == 0 {
                    ready.push_back(*after);
                }
            }
        }
        (sorted.len() == self.order.len()).then_some(sorted)
    }
}
