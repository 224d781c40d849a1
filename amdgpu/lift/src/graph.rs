//! Control-flow graph of a kernel's machine code.
//!
//! A block is keyed by its address and by the return addresses of the calls that lead to it, so that calls are inlined. Jumps
//! through registers are followed where the register is a known constant; the lifter adds a check of the target to each.

mod constants;
mod release;

use std::collections::VecDeque;

use isa::{Arch, Inst, Op};
use rustc_hash::FxHashMap;

use crate::Code;
use constants::Constants;

/// A kernel with more blocks is refused: inlining has exploded.
const MOST_BLOCKS: usize = 20_000;
/// Deeper calls are refused: recursion.
const MOST_CALLS: usize = 32;

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

impl<T: Copy> Exit<T> {
    fn targets(&self) -> Vec<T> {
        match *self {
            Exit::End | Exit::Trap(_) => Vec::new(),
            Exit::Jump(to) | Exit::Register(_, to) => vec![to],
            Exit::Branch(taken, next) => vec![taken, next],
        }
    }

    fn map<U>(&self, mut f: impl FnMut(T) -> U) -> Exit<U> {
        match *self {
            Exit::End => Exit::End,
            Exit::Trap(code) => Exit::Trap(code),
            Exit::Jump(to) => Exit::Jump(f(to)),
            Exit::Register(address, to) => Exit::Register(address, f(to)),
            Exit::Branch(taken, next) => {
                let taken = f(taken);
                Exit::Branch(taken, f(next))
            }
        }
    }
}

/// Address and call stack.
type Key = (u64, u32);

struct Explorer<'a> {
    arch: Arch,
    code: &'a Code<'a>,
    base: u64,
    /// A fragment ends where its bytes end.
    fragment: bool,
    /// Call stacks: the stack below, the return address and the depth. Stack 0 is empty.
    stacks: Vec<(u32, u64, usize)>,
    /// What is known at the start of each block.
    starts: FxHashMap<Key, Constants>,
    exits: FxHashMap<Key, Exit<Key>>,
}

/// Finds the blocks that can be reached from `entry` (relative to `base`, the load address).
pub fn explore(
    arch: Arch,
    code: &Code<'_>,
    entry: u64,
    base: u64,
    fragment: bool,
) -> Result<Graph, Box<Failure>> {
    let mut explorer = Explorer {
        arch,
        code,
        base,
        fragment,
        stacks: vec![(0, 0, 0)],
        starts: FxHashMap::default(),
        exits: FxHashMap::default(),
    };
    let first = (entry, 0);
    explorer.starts.insert(first, Constants::default());
    let mut queue = VecDeque::from([first]);
    while let Some(key) = queue.pop_front() {
        let (exit, known) = explorer.follow(key)?;
        for target in exit.targets() {
            let changed = match explorer.starts.get_mut(&target) {
                Some(start) => start.meet(&known),
                None => {
                    explorer.starts.insert(target, known.clone());
                    true
                }
            };
            if changed && !queue.contains(&target) {
                queue.push_back(target);
            }
        }
        explorer.exits.insert(key, exit);
        if explorer.starts.len() > MOST_BLOCKS {
            return Err(failure(key.0, None, "too many blocks"));
        }
    }
    explorer.graph(first)
}

fn failure(address: u64, inst: Option<Inst>, reason: impl Into<String>) -> Box<Failure> {
    Box::new(Failure { address, inst, reason: reason.into() })
}

impl Explorer<'_> {
    fn decode(&self, address: u64) -> Result<Inst, Box<Failure>> {
        isa::decode(self.arch, self.code.at(address))
            .map_err(|error| failure(address, None, error.to_string()))
    }

    fn ended(&self, address: u64) -> bool {
        self.fragment && address == self.code.address + self.code.bytes.len() as u64
    }

    /// Runs from a block's start to the next jump.
    fn follow(&mut self, key: Key) -> Result<(Exit<Key>, Constants), Box<Failure>> {
        let (mut address, stack) = key;
        let mut known = self.starts.get(&key).cloned().unwrap_or_default();
        loop {
            if self.ended(address) {
                return Ok((Exit::End, known));
            }
            let inst = self.decode(address)?;
            if let Some(exit) = self.exit(address, &inst, stack, &mut known)? {
                return Ok((exit, known));
            }
            known.step(&inst, self.base + address);
            address += u64::from(inst.size);
        }
    }

    /// Where a jump goes; `None` for other instructions.
    fn exit(
        &mut self,
        address: u64,
        inst: &Inst,
        stack: u32,
        known: &mut Constants,
    ) -> Result<Option<Exit<Key>>, Box<Failure>> {
        let next = address + u64::from(inst.size);
        let target = next.wrapping_add_signed(i64::from(inst.imm as i16) * 4);
        let outside = || failure(address, Some(*inst), "jump out of the code");
        let relative = |absolute: u64| absolute.checked_sub(self.base).ok_or_else(outside);
        let exit = match inst.op {
            Op::s_endpgm | Op::s_endpgm_saved => Exit::End,
            Op::s_trap if inst.imm & 0xff != 3 => Exit::Trap(inst.imm as u8),
            Op::s_branch => Exit::Jump((target, stack)),
            Op::s_cbranch_scc0
            | Op::s_cbranch_scc1
            | Op::s_cbranch_vccz
            | Op::s_cbranch_vccnz
            | Op::s_cbranch_execz
            | Op::s_cbranch_execnz => Exit::Branch((target, stack), (next, stack)),
            Op::s_call_b64 => {
                known.step(inst, self.base + address);
                let called = self.push(address, inst, stack, next)?;
                Exit::Jump((target, called))
            }
            Op::s_swappc_b64 => {
                let to = known.pair(&inst.src[0]).ok_or_else(|| {
                    failure(address, Some(*inst), "the address of the called function is not known")
                })?;
                let to = relative(to)?;
                known.step(inst, self.base + address);
                let called = self.push(address, inst, stack, next)?;
                Exit::Register(to, (to, called))
            }
            Op::s_setpc_b64 => {
                let (below, back, _) = self.stacks[stack as usize];
                match known.pair(&inst.src[0]).map(relative).transpose()? {
                    Some(to) if stack != 0 && to == back => Exit::Register(to, (to, below)),
                    // A jump with a constant target inside of a function, or a tail call.
                    Some(to) => Exit::Register(to, (to, stack)),
                    None if stack != 0 => Exit::Register(back, (back, below)),
                    None => return Err(failure(address, Some(*inst), "the target of the jump is not known")),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(exit))
    }

    fn push(&mut self, address: u64, inst: &Inst, stack: u32, back: u64) -> Result<u32, Box<Failure>> {
        let depth = self.stacks[stack as usize].2 + 1;
        if depth > MOST_CALLS {
            return Err(failure(address, Some(*inst), "calls are nested too deeply"));
        }
        let frame = (stack, back, depth);
        if let Some(found) = self.stacks.iter().position(|known| *known == frame) {
            return Ok(found as u32);
        }
        self.stacks.push(frame);
        Ok(self.stacks.len() as u32 - 1)
    }

    /// The graph: runs are cut where another block starts.
    fn graph(&self, first: Key) -> Result<Graph, Box<Failure>> {
        let mut blocks: FxHashMap<Key, Piece> = FxHashMap::default();
        for (&key, exit) in &self.exits {
            let (mut address, stack) = key;
            let mut instructions = Vec::new();
            let exit = loop {
                if self.ended(address) {
                    break Exit::End;
                }
                if address != key.0 && self.starts.contains_key(&(address, stack)) {
                    break Exit::Jump((address, stack));
                }
                let inst = self.decode(address)?;
                instructions.push((address, inst));
                address += u64::from(inst.size);
                if is_exit(&inst) {
                    break exit.clone();
                }
            };
            blocks.insert(key, (instructions, exit));
        }
        let order = post_order(first, &blocks);
        let number: FxHashMap<Key, usize> = order.iter().rev().copied().zip(0..).collect();
        let place = |key: Key| number.get(&key).copied().unwrap_or(0);
        let blocks = order.iter().rev().filter_map(|key| {
            let (instructions, exit) = blocks.remove(key)?;
            Some(GraphBlock { address: key.0, instructions, exit: exit.map(place) })
        });
        Ok(Graph { blocks: blocks.collect() })
    }
}

fn is_exit(inst: &Inst) -> bool {
    match inst.op {
        Op::s_trap => inst.imm & 0xff != 3,
        Op::s_endpgm
        | Op::s_endpgm_saved
        | Op::s_branch
        | Op::s_cbranch_scc0
        | Op::s_cbranch_scc1
        | Op::s_cbranch_vccz
        | Op::s_cbranch_vccnz
        | Op::s_cbranch_execz
        | Op::s_cbranch_execnz
        | Op::s_call_b64
        | Op::s_swappc_b64
        | Op::s_setpc_b64 => true,
        _ => false,
    }
}

/// Instructions of a block with their addresses, and how it ends.
type Piece = (Vec<(u64, Inst)>, Exit<Key>);

/// Keys in post-order. The not-taken side of a branch is visited last, so that it follows directly in reverse.
fn post_order(first: Key, blocks: &FxHashMap<Key, Piece>) -> Vec<Key> {
    let mut order = Vec::with_capacity(blocks.len());
    let mut seen = rustc_hash::FxHashSet::from_iter([first]);
    let targets = |key: Key| blocks.get(&key).map_or_else(Vec::new, |(_, exit)| exit.targets());
    let mut path = vec![(first, targets(first))];
    while let Some((key, rest)) = path.last_mut() {
        if rest.is_empty() {
            order.push(*key);
            path.pop();
            continue;
        }
        let next = rest.remove(0);
        if seen.insert(next) {
            path.push((next, targets(next)));
        }
    }
    order
}
