//! Executable graphs: defined on the worker once, launched with one frame.
//!
//! Keeps a copy of the worker's definition, so that updates send only differences, and the client's side of every step.
//! Everything is posted; a launch costs no round trip, however many nodes there are.

use std::collections::HashMap;
use std::sync::Arc;

use hip_api::types::*;
use parking_lot::Mutex;
use wire::GraphStep;

use super::lowered::{HostSide, Lowered};
use super::node::Work;
use super::object::Holdings;

/// hipGraphInstantiateFlagAutoFreeOnLaunch: a launch frees memory that is still in use.
pub const AUTO_FREE: u64 = 1;

/// A graph that can be launched.
#[derive(Debug)]
pub struct Executable {
    pub id: u64,
    pub flags: u64,
    /// Device of the graph it was instantiated from.
    pub device: usize,
    pub(super) state: Mutex<ExecutableState>,
    /// Claim on the memory of the graph it was instantiated from, if that allocates.
    pub(super) _memory: Option<Arc<()>>,
}

#[derive(Debug)]
pub(super) struct ExecutableState {
    pub nodes: Vec<Step>,
    /// Node index by handle in the graph it was instantiated from.
    pub index: HashMap<u64, usize>,
    /// Nodes that access program memory.
    pub facing: Vec<usize>,
    /// Nodes that need client-side work per launch: events, allocations.
    pub noted: Vec<usize>,
    pub slots: u32,
    pub objects: Holdings,
}

/// A node in execution order. A child graph becomes its nodes, followed by a node that joins them.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub handle: u64,
    pub work: Work,
    pub ordinal: u32,
    pub after: Vec<u32>,
    pub lowered: Lowered,
    /// Wire numbers of the slots of `lowered`.
    pub slots: Vec<u32>,
    pub enabled: bool,
}

/// Why a graph does not match an executable one.
#[derive(Debug)]
pub struct Mismatch {
    pub node: u64,
    pub result: hipGraphExecUpdateResult,
}

impl Step {
    /// Its steps in wire form.
    pub fn wire(&self) -> Vec<GraphStep> {
        if !self.enabled {
            return Vec::new();
        }
        let mut steps = self.lowered.steps.clone();
        for step in &mut steps {
            if let GraphStep::Write { slot, .. } | GraphStep::Read { slot, .. } | GraphStep::Host { slot } =
                step
            {
                *slot = self.slots[*slot as usize];
            }
        }
        steps
    }
}

impl ExecutableState {
    /// The host sides that the next launch uses, with their slots.
    pub fn sides(&self) -> impl Iterator<Item = (u32, &HostSide)> {
        let facing = self.facing.iter().map(|index| &self.nodes[*index]).filter(|it| it.enabled);
        facing.flat_map(|it| it.slots.iter().copied().zip(&it.lowered.sides))
    }

    /// The work that needs client-side work per launch.
    pub fn noted(&self) -> impl Iterator<Item = &Work> {
        self.noted.iter().map(|index| &self.nodes[*index].work)
    }
}

impl Executable {
    /// Whether launches execute a node.
    pub fn is_enabled(&self, node: u64) -> Result<bool, hipError_t> {
        let state = self.state.lock();
        let index = state.index.get(&node).ok_or(hipErrorInvalidValue)?;
        Ok(state.nodes[*index].enabled)
    }

    /// Whether any node satisfies `is`.
    pub fn any(&self, is: impl Fn(&Work) -> bool) -> bool {
        self.state.lock().nodes.iter().any(|it| is(&it.work))
    }
}
