//! One attempt to find the blocks of a kernel, with a given set of shared functions.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use isa::{Arch, Inst, Op};
use rustc_hash::{FxHashMap, FxHashSet};

use super::constants::{Constants, scalar};
use super::{Exit, Failure, Graph, GraphBlock, Start, functions};
use crate::Code;

/// With more blocks inlining has exploded. A kernel that has more although its functions are shared is refused.
const MOST_BLOCKS: usize = 20_000;
/// Calls that are inlined in each other.
const MOST_CALLS: u32 = 32;
/// The register pair in which functions get their return address.
const RETURN_ADDRESS: u8 = 30;

/// Which functions are shared: they have one copy of their blocks. Others have one for every call.
#[derive(Debug, Default)]
pub struct Sharing {
    /// Entries of shared functions.
    pub functions: BTreeSet<u64>,
    /// All functions are shared.
    pub all: bool,
    /// All functions are one with the kernel: every return may go to every call.
    pub merged: bool,
}

/// Why an attempt ended.
#[derive(Debug)]
pub enum Stop {
    /// These functions must be shared.
    Share(Vec<u64>),
    /// All functions must be shared.
    ShareAll,
    /// One return address leads to several contexts of the caller, so all functions must share one context.
    Merge,
    /// The kernel is refused.
    Failure(Box<Failure>),
}

impl From<Box<Failure>> for Stop {
    fn from(failure: Box<Failure>) -> Stop {
        Stop::Failure(failure)
    }
}

/// Address and context.
type Key = (u64, u32);

/// What leads to a block: a call, or the entry of a shared function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Context {
    /// The called function.
    function: u64,
    /// Calls that are inlined in each other.
    depth: u32,
    /// Context and return address of the call, if the function is inlined.
    inlined: Option<(u32, u64)>,
}

pub struct Explorer<'a> {
    arch: Arch,
    code: &'a Code<'a>,
    start: &'a Start,
    sharing: &'a Sharing,
    /// Functions whose address is a value, once they are needed.
    pointers: &'a OnceCell<Vec<u64>>,
    /// Context 0 is the kernel.
    contexts: Vec<Context>,
    /// Return addresses of the calls of each shared function, by context.
    returns: FxHashMap<u32, BTreeMap<u64, Key>>,
    /// What callers know after a call because functions keep some registers: those that a function has saved in memory are
    /// not known at its end.
    kept: FxHashMap<Key, Constants>,
    /// Blocks that end with a return, by context.
    returning: FxHashMap<u32, BTreeSet<Key>>,
    /// Blocks to be looked at again.
    again: Vec<Key>,
    /// What is known at the start of each block.
    starts: FxHashMap<Key, Constants>,
    exits: FxHashMap<Key, Exit<Key>>,
}

fn failure(address: u64, inst: Option<Inst>, reason: impl Into<String>) -> Box<Failure> {
    Box::new(Failure { address, inst, reason: reason.into() })
}

impl<'a> Explorer<'a> {
    pub fn new(
        arch: Arch,
        code: &'a Code<'a>,
        start: &'a Start,
        sharing: &'a Sharing,
        pointers: &'a OnceCell<Vec<u64>>,
    ) -> Explorer<'a> {
        Explorer {
            arch,
            code,
            start,
            sharing,
            pointers,
            contexts: vec![Context { function: start.entry, depth: 0, inlined: None }],
            returns: FxHashMap::default(),
            kept: FxHashMap::default(),
            returning: FxHashMap::default(),
            again: Vec::new(),
            starts: FxHashMap::default(),
            exits: FxHashMap::default(),
        }
    }

    /// Finds the blocks that can be reached.
    pub fn run(mut self) -> Result<Graph, Stop> {
        let first = (self.start.entry, 0);
        self.starts.insert(first, self.start.known.clone());
        let mut queue = VecDeque::from([first]);
        while let Some(key) = queue.pop_front() {
            let (exit, known) = self.follow(key)?;
            let returns = self.returning.get(&key.1).is_some_and(|blocks| blocks.contains(&key));
            for target in exit.targets() {
                let mut known = known.clone();
                if let Some(kept) = self.kept.get(&target).filter(|_| returns) {
                    known.fill(kept);
                }
                let changed = match self.starts.get_mut(&target) {
                    Some(start) => start.meet(&known),
                    None => {
                        self.starts.insert(target, known);
                        true
                    }
                };
                if changed && !queue.contains(&target) {
                    queue.push_back(target);
                }
            }
            self.exits.insert(key, exit);
            for key in std::mem::take(&mut self.again) {
                if !queue.contains(&key) {
                    queue.push_back(key);
                }
            }
            if self.starts.len() > MOST_BLOCKS {
                if self.sharing.all {
                    return Err(failure(key.0, None, "too many blocks").into());
                }
                return Err(Stop::ShareAll);
            }
        }
        Ok(self.graph(first)?)
    }

    fn decode(&self, address: u64) -> Result<Inst, Box<Failure>> {
        isa::decode(self.arch, self.code.at(address))
            .map_err(|error| failure(address, None, error.to_string()))
    }

    fn ended(&self, address: u64) -> bool {
        self.start.fragment && address == self.code.address + self.code.bytes.len() as u64
    }

    /// Runs from a block's start to the next jump.
    fn follow(&mut self, key: Key) -> Result<(Exit<Key>, Constants), Stop> {
        let (mut address, _) = key;
        let mut known = self.starts.get(&key).cloned().unwrap_or_default();
        loop {
            if self.ended(address) {
                return Ok((Exit::End, known));
            }
            let inst = self.decode(address)?;
            if let Some(exit) = self.exit(key, address, &inst, &mut known)? {
                return Ok((exit, known));
            }
            known.step(&inst, self.start.base + address);
            address += u64::from(inst.size);
        }
    }

    /// Where a jump at the end of block `key` goes; `None` for other instructions.
    fn exit(
        &mut self,
        key: Key,
        address: u64,
        inst: &Inst,
        known: &mut Constants,
    ) -> Result<Option<Exit<Key>>, Stop> {
        let base = self.start.base;
        let context = key.1;
        let next = address + u64::from(inst.size);
        let target = next.wrapping_add_signed(i64::from(inst.imm as i16) * 4);
        let relative = |absolute: u64| {
            absolute.checked_sub(base).ok_or_else(|| failure(address, Some(*inst), "jump out of the code"))
        };
        let exit = match inst.op {
            Op::s_endpgm | Op::s_endpgm_saved => Exit::End,
            Op::s_trap if inst.imm & 0xff != 3 => Exit::Trap(inst.imm as u8),
            Op::s_branch => Exit::Jump((target, context)),
            Op::s_cbranch_scc0
            | Op::s_cbranch_scc1
            | Op::s_cbranch_vccz
            | Op::s_cbranch_vccnz
            | Op::s_cbranch_execz
            | Op::s_cbranch_execnz => Exit::Branch((target, context), (next, context)),
            Op::s_call_b64 => {
                known.step(inst, base + address);
                Exit::Jump(self.call(target, (next, context), known)?)
            }
            Op::s_swappc_b64 => {
                let to = known.pair(&inst.src[0]).map(relative).transpose()?;
                known.step(inst, base + address);
                match to {
                    Some(to) => Exit::Register(to, self.call(to, (next, context), known)?),
                    None => Exit::Switch(self.call_any(address, inst, (next, context), known)?),
                }
            }
            Op::s_setpc_b64 => {
                let to = known.pair(&inst.src[0]).map(relative).transpose()?;
                self.jump(key, address, inst, to)?
            }
            _ => return Ok(None),
        };
        Ok(Some(exit))
    }

    /// A call of the function at `to` that returns to block `back`.
    fn call(&mut self, to: u64, back: Key, known: &Constants) -> Result<Key, Stop> {
        let context = self.called(to, back)?;
        let kept = known.kept();
        if self.kept.get(&back) != Some(&kept) {
            self.kept.insert(back, kept);
            self.again.extend(self.returning.get(&context).into_iter().flatten());
        }
        Ok((to, context))
    }

    /// The context of a called function.
    fn called(&mut self, to: u64, back: Key) -> Result<u32, Stop> {
        let (_, from) = back;
        if self.sharing.all || self.sharing.merged || self.sharing.functions.contains(&to) {
            let context = self.shared(to);
            self.add_return(context, back)?;
            return Ok(context);
        }
        let depth = self.contexts[from as usize].depth + 1;
        if self.functions(from).contains(&to) {
            return Err(Stop::Share(vec![to]));
        }
        if depth > MOST_CALLS {
            return Err(Stop::ShareAll);
        }
        Ok(self.context(Context { function: to, depth, inlined: Some((from, back.0)) }))
    }

    /// A call of an unknown function.
    fn call_any(
        &mut self,
        address: u64,
        inst: &Inst,
        back: Key,
        known: &Constants,
    ) -> Result<Vec<(u64, Key)>, Stop> {
        let pointers = self.pointers();
        if pointers.is_empty() {
            let reason = "the address of the called function is not known";
            return Err(failure(address, Some(*inst), reason).into());
        }
        let is_inlined = |function: &u64| !self.sharing.functions.contains(function);
        if !self.sharing.all && !self.sharing.merged && pointers.iter().any(is_inlined) {
            return Err(Stop::Share(pointers.to_vec()));
        }
        pointers.iter().map(|to| Ok((*to, self.call(*to, back, known)?))).collect()
    }

    /// A jump through a register whose contents may be known.
    fn jump(&mut self, key: Key, address: u64, inst: &Inst, to: Option<u64>) -> Result<Exit<Key>, Stop> {
        let context = key.1;
        self.returning.entry(context).or_default().insert(key);
        let returns: Vec<(u64, Key)> = match self.contexts[context as usize].inlined {
            Some((below, back)) => vec![(back, (back, below))],
            None => {
                let all = self.returns.get(&context).into_iter().flatten();
                all.map(|(address, key)| (*address, *key)).collect()
            }
        };
        if let Some(to) = to {
            let known = returns.iter().find(|(address, _)| *address == to);
            // Else it is a jump inside of a function, or a tail call.
            return Ok(Exit::Register(to, known.map_or((to, context), |(_, key)| *key)));
        }
        let mut targets = returns;
        if scalar(&inst.src[0]) != Some(RETURN_ADDRESS) || targets.is_empty() {
            // A tail call, or a return by a convention of its own.
            for function in self.pointers() {
                if targets.iter().all(|(address, _)| address != function) {
                    targets.push((*function, (*function, context)));
                }
            }
        }
        match targets[..] {
            [] => Err(failure(address, Some(*inst), "the target of the jump is not known").into()),
            [(address, to)] => Ok(Exit::Register(address, to)),
            _ => Ok(Exit::Switch(targets)),
        }
    }

    fn pointers(&self) -> &'a [u64] {
        self.pointers.get_or_init(|| functions::pointers(self.arch, self.code, self.start.base))
    }

    /// The context of a shared function.
    fn shared(&mut self, function: u64) -> u32 {
        if self.sharing.merged {
            return 0;
        }
        self.context(Context { function, depth: 0, inlined: None })
    }

    fn context(&mut self, context: Context) -> u32 {
        // The kernel itself has no callers: if it is called, that is another context.
        let found = self.contexts.iter().skip(1).position(|known| *known == context);
        found.map_or_else(
            || {
                self.contexts.push(context);
                self.contexts.len() as u32 - 1
            },
            |found| found as u32 + 1,
        )
    }

    /// The functions that are inlined in each other, and the one that they are inlined in.
    fn functions(&self, context: u32) -> Vec<u64> {
        let mut all = Vec::new();
        let mut at = Some(context);
        while let Some(context) = at {
            let Context { function, inlined, .. } = self.contexts[context as usize];
            all.push(function);
            at = inlined.map(|(below, _)| below);
        }
        all
    }

    /// Records a call of a shared function. Fails if its return address already leads to another context of the caller: a return
    /// chooses its target by the address alone.
    fn add_return(&mut self, context: u32, back: Key) -> Result<(), Stop> {
        match self.returns.entry(context).or_default().insert(back.0, back) {
            Some(old) if old == back => Ok(()),
            None => {
                self.again.extend(self.returning.get(&context).into_iter().flatten());
                Ok(())
            }
            Some(old) => {
                let mut inlined: Vec<u64> = Vec::new();
                for (_, from) in [old, back] {
                    let mut all = self.functions(from);
                    // The last one is the kernel or already shared.
                    all.pop();
                    inlined.extend(all);
                }
                Err(if inlined.is_empty() { Stop::Merge } else { Stop::Share(inlined) })
            }
        }
    }

    /// The graph: runs are cut where another block starts.
    fn graph(&self, first: Key) -> Result<Graph, Box<Failure>> {
        let mut blocks: FxHashMap<Key, Piece> = FxHashMap::default();
        for (&key, exit) in &self.exits {
            let (mut address, context) = key;
            let mut instructions = Vec::new();
            let exit = loop {
                if self.ended(address) {
                    break Exit::End;
                }
                if address != key.0 && self.starts.contains_key(&(address, context)) {
                    break Exit::Jump((address, context));
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
            let known = self.starts.get(key).cloned().unwrap_or_default();
            Some(GraphBlock { address: key.0, instructions, exit: exit.map(place), known })
        });
        Ok(Graph { blocks: blocks.collect() })
    }
}

/// Whether an instruction ends a block.
pub fn is_exit(inst: &Inst) -> bool {
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
    let mut seen = FxHashSet::from_iter([first]);
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
