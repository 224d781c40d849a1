//! Control-flow graph of a kernel's machine code.
//!
//! A block is keyed by its address and by the calls that lead to it, so that calls are inlined. Functions that cannot be inlined
//! (recursion, functions that are called through pointers) are shared: they have one copy of their blocks, and return to one of
//! the calls. Jumps through registers are followed where the register is a known constant, or one of several addresses; the
//! lifter adds a check of the target to each.

mod constants;
mod explorer;
mod functions;
mod release;

use isa::{Arch, Inst};

use crate::Code;
pub use constants::Constants;
pub use explorer::is_exit;
use explorer::{Explorer, Sharing, Stop};

/// The blocks of a kernel, in reverse post-order; block 0 is the entry.
#[derive(Debug)]
pub struct Graph {
    /// Blocks.
    pub blocks: Vec<GraphBlock>,
}

/// A run of instructions.
#[derive(Debug)]
pub struct GraphBlock {
    /// Address of the first instruction, relative to the base.
    pub address: u64,
    /// Addresses and instructions; a jump is the last one.
    pub instructions: Vec<(u64, Inst)>,
    /// What follows.
    pub exit: Exit<usize>,
    /// What is probably known at the start.
    pub known: Constants,
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit<T> {
    /// The wave ends.
    End,
    /// A trap.
    Trap(u8),
    /// Continues there.
    Jump(T),
    /// A conditional branch: taken, not taken.
    Branch(T, T),
    /// A jump through a register, to the block at this address (relative to the base).
    Register(u64, T),
    /// A jump through a register, to one of the blocks at these addresses (relative to the base).
    Switch(Vec<(u64, T)>),
}

/// Why there is no graph: the address and the reason.
#[derive(Debug)]
pub struct Failure {
    /// Address of the instruction, relative to the base.
    pub address: u64,
    /// The instruction, if it could be decoded.
    pub inst: Option<Inst>,
    /// What is wrong.
    pub reason: String,
}

impl<T: Copy + PartialEq> Exit<T> {
    /// What may follow, each once.
    pub fn targets(&self) -> Vec<T> {
        match self {
            Exit::End | Exit::Trap(_) => Vec::new(),
            Exit::Jump(to) | Exit::Register(_, to) => vec![*to],
            // Both sides may be the same block, which then is reached by a plain jump.
            Exit::Branch(taken, next) if taken == next => vec![*taken],
            Exit::Branch(taken, next) => vec![*taken, *next],
            Exit::Switch(targets) => targets.iter().map(|(_, to)| *to).collect(),
        }
    }

    fn map<U>(&self, mut f: impl FnMut(T) -> U) -> Exit<U> {
        match self {
            Exit::End => Exit::End,
            Exit::Trap(code) => Exit::Trap(*code),
            Exit::Jump(to) => Exit::Jump(f(*to)),
            Exit::Register(address, to) => Exit::Register(*address, f(*to)),
            Exit::Branch(taken, next) => {
                let taken = f(*taken);
                Exit::Branch(taken, f(*next))
            }
            Exit::Switch(targets) => {
                Exit::Switch(targets.iter().map(|(address, to)| (*address, f(*to))).collect())
            }
        }
    }
}

/// Where an exploration starts.
#[derive(Debug)]
pub struct Start {
    /// Address of the first instruction, relative to the base.
    pub entry: u64,
    /// Load address of the code object.
    pub base: u64,
    /// A fragment ends where its bytes end.
    pub fragment: bool,
    /// What is known before the first instruction.
    pub known: Constants,
}

/// Finds the blocks that can be reached. Starts with all calls inlined, and shares functions where that is impossible.
pub fn explore(arch: Arch, code: &Code<'_>, start: &Start) -> Result<Graph, Box<Failure>> {
    let pointers = std::cell::OnceCell::new();
    let mut sharing = Sharing::default();
    loop {
        match Explorer::new(arch, code, start, &sharing, &pointers).run() {
            Ok(graph) => return Ok(graph),
            Err(Stop::Failure(failure)) => return Err(failure),
            Err(Stop::Share(functions)) => sharing.functions.extend(functions),
            Err(Stop::ShareAll) => sharing.all = true,
            Err(Stop::Merge) => sharing.merged = true,
        }
    }
}
