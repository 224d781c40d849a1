//! Lowered nodes: steps of the worker, and what this process does for them.

use std::sync::Arc;

use wire::GraphStep;

use super::block::Block;
use super::node::Host;

/// An action of this process when its turn in the graph comes.
#[derive(Clone)]
pub struct HostAction(pub Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for HostAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostAction")
    }
}

/// The client's part of a step.
#[derive(Clone, Debug)]
pub enum HostSide {
    /// A function of the program.
    Call(Host),
    /// Host bytes that are sent with the launch and written to a block of the device.
    Source { from: Block, to: Block },
    /// Like `Source`, but read when the copy's turn comes, because an earlier node may write them.
    SourceLater { from: Block, to: Block },
    /// The destination of bytes from the device.
    Target(Block),
    /// An action of the library.
    Action(HostAction),
}

/// A lowered node. Slots count from 0; the executable graph assigns the numbers on the wire.
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    pub steps: Vec<GraphStep>,
    pub sides: Vec<HostSide>,
}

/// Writes to program memory by earlier nodes, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct EarlierWrites {
    /// A host function or action runs, which may write anything.
    pub turns: bool,
    pub targets: Vec<Block>,
}

impl EarlierWrites {
    /// Whether an earlier node may write to a block.
    pub fn may_write(&self, block: &Block) -> bool {
        self.turns || self.targets.iter().any(|target| target.overlaps(block))
    }

    /// Adds the writes of a node.
    pub fn note(&mut self, lowered: &Lowered) {
        for side in &lowered.sides {
            match side {
                HostSide::Call(_) | HostSide::Action(_) => self.turns = true,
                HostSide::Target(block) => self.targets.push(*block),
                HostSide::Source { .. } | HostSide::SourceLater { .. } => {}
            }
        }
    }
}
