//! The proof that each lane of a wave may follow its own path.
//!
//! On the machine a wave goes where one of its lanes wants to go, and the other lanes come along with their bit of EXEC clear. If a
//! lane decides every [`Operation::AnyLane`] by its own bit instead, it leaves out the code in which it has no part. The two ways
//! differ where the lane's bit is clear and another lane's is set: a deviation. This analysis takes one deviation at a time and
//! compares a lane that follows the wave with one that does not, from there to the end of the kernel. If no effect can tell the
//! two apart, whatever later decisions the wave makes, then all deviations together make no difference either: a lane's way can
//! be changed into its own way one deviation after the other.
//!
//! Values are compared by what they were at the deviation: a symbol is a bit that is known, a value of that moment, or anything.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::dominators::Dominators;
use crate::form::*;

/// Why lanes must stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The instruction at fault.
    pub instruction: Option<u32>,
    /// The reason.
    pub reason: &'static str,
}

impl Obstacle {
    fn at(instruction: u32, reason: &'static str) -> Obstacle {
        Obstacle { instruction: Some(instruction), reason }
    }
}

/// Ways in which a mask can be clear that are looked at one by one.
const MOST_CASES: usize = 24;

/// Visits of blocks for one deviation; more are given up.
const MOST_VISITS: usize = 4000;

/// Checks all deviations of a function.
pub fn check(function: &Function) -> Result<(), Obstacle> {
    let place = places(function);
    let dominators = Dominators::of(function);
    for (number, block) in function.blocks.iter().enumerate() {
        for (at, &index) in block.instructions.iter().enumerate() {
            let instruction = &function.instructions[index as usize];
            if instruction.operation.crosses_lanes() {
                return Err(Obstacle::at(index, "an operation that crosses lanes"));
            }
            if matches!(instruction.operation, Operation::Clock(_)) {
                return Err(Obstacle::at(index, "a clock differs between lanes"));
            }
            if instruction.operation != Operation::AnyLane {
                continue;
            }
            let cases = cases(function, instruction.operands[0], false)
                .ok_or(Obstacle::at(index, "a mask with too many parts"))?;
            for facts in cases {
                let from = (Block(number as u32), at);
                let moment = Moment {
                    function,
                    facts,
                    place: &place,
                    dominators: &dominators,
                    from,
                    known: RefCell::default(),
                };
                Walk { moment, entries: vec![None; function.blocks.len()], work: Vec::new() }.run(index)?;
            }
        }
    }
    Ok(())
}

fn places(function: &Function) -> Vec<Option<(Block, usize)>> {
    let mut place = vec![None; function.values.len()];
    for (number, block) in function.blocks.iter().enumerate() {
        for (at, &index) in block.instructions.iter().enumerate() {
            for result in &function.instructions[index as usize].results {
                place[result.0 as usize] = Some((Block(number as u32), at));
            }
        }
    }
    place
}

/// Bits that are known at the moment of the deviation.
type Facts = FxHashMap<Value, bool>;

/// The ways in which a bit can have a value: disjoint cases, each a list of bits that are known then.
fn cases(function: &Function, bit: Value, is: bool) -> Option<Vec<Facts>> {
    let definition = function.definition(bit);
    let operands = &definition.operands;
    let mut all = match (&definition.operation, is) {
        (Operation::Constant(bits), _) => {
            return Some(if (bits & 1 == 1) == is { vec![Facts::default()] } else { Vec::new() });
        }
        (Operation::Unary(Unary::Not), _) => cases(function, operands[0], !is)?,
        (Operation::Binary(Binary::And), true) | (Operation::Binary(Binary::Or), false) => {
            both(cases(function, operands[0], is)?, &cases(function, operands[1], is)?)
        }
        (Operation::Binary(Binary::And), false) | (Operation::Binary(Binary::Or), true) => {
            let mut all = cases(function, operands[0], is)?;
            all.extend(both(cases(function, operands[0], !is)?, &cases(function, operands[1], is)?));
            all
        }
        _ => vec![Facts::default()],
    };
    all.iter_mut().for_each(|facts| {
        facts.insert(bit, is);
    });
    (all.len() <= MOST_CASES).then_some(all)
}

/// Cases in which one of each list holds.
fn both(first: Vec<Facts>, second: &[Facts]) -> Vec<Facts> {
    let mut all = Vec::new();
    for a in &first {
        for b in second {
            if b.iter().all(|(value, bit)| a.get(value).is_none_or(|other| other == bit)) {
                all.push(a.iter().chain(b).map(|(value, bit)| (*value, *bit)).collect());
            }
        }
    }
    all
}

/// What is known of a value in one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    /// A bit.
    Bit(bool),
    /// What the value was at the deviation. For a constant, the constant.
    Was(Value),
    /// Nothing.
    Anything,
}

/// A value in a lane that follows the wave, and in one that follows its own bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    wave: Symbol,
    own: Symbol,
    /// Both are equal, known or not.
    equal: bool,
}

impl Pair {
    const EQUAL: Pair = Pair { wave: Symbol::Anything, own: Symbol::Anything, equal: true };

    fn is_clear(self) -> bool {
        self.wave == Symbol::Bit(false) && self.own == Symbol::Bit(false)
    }

    fn of(wave: Symbol, own: Symbol, equal: bool) -> Pair {
        Pair { wave, own, equal: equal || wave == own && wave != Symbol::Anything }
    }
}

/// The values that were computed since the deviation. Others are what they were.
type State = FxHashMap<Value, Pair>;

/// The moment of the deviation.
struct Moment<'a> {
    function: &'a Function,
    facts: Facts,
    place: &'a [Option<(Block, usize)>],
    dominators: &'a Dominators,
    from: (Block, usize),
    /// Answers of [`Moment::was`].
    known: RefCell<FxHashMap<Value, Symbol>>,
}

impl Moment<'_> {
    /// What a value was. Operands of an instruction that dominates the moment are still those that it used.
    fn was(&self, value: Value, depth: u32) -> Symbol {
        if let Some(bit) = self.facts.get(&value) {
            return Symbol::Bit(*bit);
        }
        let definition = self.function.definition(value);
        if let Operation::Constant(bits) = definition.operation {
            let is_bit = self.function.kind(value) == Kind::Bit;
            return if is_bit { Symbol::Bit(bits & 1 == 1) } else { Symbol::Was(value) };
        }
        let before = self.place[value.0 as usize].is_some_and(|(block, at)| {
            if block == self.from.0 {
                at < self.from.1
            } else {
                self.dominators.dominates(block, self.from.0)
            }
        });
        let simple = matches!(
            definition.operation,
            Operation::Select | Operation::Unary(Unary::Not) | Operation::Binary(_)
        );
        if !before || !simple || depth == 0 {
            return Symbol::Was(value);
        }
        if let Some(known) = self.known.borrow().get(&value) {
            return *known;
        }
        let operands: Vec<Symbol> =
            definition.operands.iter().map(|operand| self.was(*operand, depth - 1)).collect();
        let found = match apply(&definition.operation, self.function.kind(value), &operands) {
            Symbol::Anything => Symbol::Was(value),
            known => known,
        };
        self.known.borrow_mut().insert(value, found);
        found
    }

    fn get(&self, state: &State, value: Value) -> Pair {
        state.get(&value).copied().unwrap_or_else(|| {
            let was = self.was(value, DEPTH);
            Pair { wave: was, own: was, equal: true }
        })
    }

    /// The result of a pure operation.
    fn pure(&self, state: &State, instruction: &Instruction) -> Pair {
        let kind = self.function.kind(instruction.results[0]);
        if matches!(instruction.operation, Operation::Constant(_)) {
            let is = self.was(instruction.results[0], DEPTH);
            return Pair { wave: is, own: is, equal: true };
        }
        let pairs: Vec<Pair> = instruction.operands.iter().map(|operand| self.get(state, *operand)).collect();
        let wave: Vec<Symbol> = pairs.iter().map(|pair| pair.wave).collect();
        let own: Vec<Symbol> = pairs.iter().map(|pair| pair.own).collect();
        let operation = &instruction.operation;
        // An operand that is not chosen may differ.
        let equal = match (operation, &pairs[..]) {
            (Operation::Select, [condition, x, y]) if condition.wave == condition.own => {
                match condition.wave {
                    Symbol::Bit(true) => x.equal,
                    Symbol::Bit(false) => y.equal,
                    _ => condition.equal && x.equal && y.equal,
                }
            }
            _ => pairs.iter().all(|pair| pair.equal),
        };
        Pair::of(apply(operation, kind, &wave), apply(operation, kind, &own), equal)
    }
}

/// How far definitions are followed.
const DEPTH: u32 = 12;

/// The result of an operation, as far as it follows from known bits and from equal operands.
fn apply(operation: &Operation, kind: Kind, operands: &[Symbol]) -> Symbol {
    use Symbol::{Anything, Bit};
    match (operation, operands) {
        (Operation::Select, [Bit(true), x, _]) => *x,
        (Operation::Select, [Bit(false), _, y]) => *y,
        (Operation::Select, [_, x, y]) if x == y => *x,
        (Operation::Binary(Binary::And | Binary::Or), [x, y]) if x == y => *x,
        (Operation::Unary(Unary::Not), [Bit(bit)]) => Bit(!bit),
        (Operation::Binary(operation), [x, y]) if kind == Kind::Bit => match (operation, x, y) {
            (Binary::And, Bit(false), _) | (Binary::And, _, Bit(false)) => Bit(false),
            (Binary::And, Bit(true), x) | (Binary::And, x, Bit(true)) => *x,
            (Binary::Or, Bit(true), _) | (Binary::Or, _, Bit(true)) => Bit(true),
            (Binary::Or | Binary::Xor, Bit(false), x) | (Binary::Or | Binary::Xor, x, Bit(false)) => *x,
            (Binary::Xor, Bit(true), Bit(true)) => Bit(false),
            _ => Anything,
        },
        _ => Anything,
    }
}

/// The comparison of the two ways after a deviation.
struct Walk<'a> {
    moment: Moment<'a>,
    /// State of each block behind its phis.
    entries: Vec<Option<State>>,
    work: Vec<usize>,
}

impl Walk<'_> {
    fn run(mut self, deviation: u32) -> Result<(), Obstacle> {
        let function = self.moment.function;
        let (block, at) = self.moment.from;
        let mut state = State::default();
        let decided = function.instructions[deviation as usize].results[0];
        state.insert(decided, Pair { wave: Symbol::Bit(true), own: Symbol::Bit(false), equal: false });
        self.block(block, at + 1, state)?;
        let mut visits = 0;
        while let Some(number) = self.work.pop() {
            visits += 1;
            if visits > MOST_VISITS {
                return Err(Obstacle::at(deviation, "control flow that is too large to compare"));
            }
            let Some(state) = self.entries[number].clone() else { continue };
            let block = &function.blocks[number].instructions;
            let phis = block.iter().take_while(|index| is_phi(function, **index)).count();
            self.block(Block(number as u32), phis, state)?;
        }
        Ok(())
    }

    /// Both ways through a block, from an instruction on.
    fn block(&mut self, block: Block, from: usize, mut state: State) -> Result<(), Obstacle> {
        let function = self.moment.function;
        for &index in &function.blocks[block.0 as usize].instructions[from..] {
            self.step(index, &mut state)?;
        }
        let terminator = &function.blocks[block.0 as usize].terminator;
        let last = function.blocks[block.0 as usize].instructions.last().copied();
        let fault = |reason| Obstacle { instruction: last, reason };
        let Some(decides) = terminator.operand() else {
            for to in terminator.successors() {
                self.follow(block, to, &state);
            }
            return Ok(());
        };
        let pair = self.moment.get(&state, decides);
        match (terminator, pair) {
            (Terminator::Branch { then, otherwise, .. }, Pair { wave: Symbol::Bit(wave), own, .. })
                if own == Symbol::Bit(wave) =>
            {
                self.follow(block, if wave { *then } else { *otherwise }, &state);
            }
            (
                Terminator::Branch { then, otherwise, .. },
                Pair { wave: Symbol::Bit(wave), own: Symbol::Bit(_), .. },
            ) => {
                let (away, home) = if wave { (*then, *otherwise) } else { (*otherwise, *then) };
                self.part(block, away, home, &state).map_err(fault)?;
            }
            (_, pair) if pair.equal => {
                for to in terminator.successors() {
                    self.follow(block, to, &state);
                }
            }
            _ => return Err(fault("a branch depends on lanes that are not active")),
        }
        Ok(())
    }

    /// Both ways through an instruction.
    fn step(&self, index: u32, state: &mut State) -> Result<(), Obstacle> {
        let instruction = &self.moment.function.instructions[index as usize];
        let get = |state: &State, at: usize| self.moment.get(state, instruction.operands[at]);
        match &instruction.operation {
            Operation::AnyLane => {
                let mask = get(state, 0);
                if !mask.equal {
                    return Err(Obstacle::at(index, "a branch depends on lanes that are not active"));
                }
                // A lane whose bit is set decides; otherwise the others do.
                let any = if mask.wave == Symbol::Bit(true) { Symbol::Bit(true) } else { Symbol::Anything };
                state.insert(instruction.results[0], Pair { wave: any, own: any, equal: true });
            }
            Operation::Load(_) | Operation::Store(_) | Operation::Atomic(..) => {
                let all = |state: &State| (0..instruction.operands.len()).all(|at| get(state, at).equal);
                if !get(state, 0).is_clear() && !all(state) {
                    return Err(Obstacle::at(index, "an access depends on lanes that are not active"));
                }
                for result in &instruction.results {
                    state.insert(*result, Pair::EQUAL);
                }
            }
            operation if operation.is_pure() => {
                for result in &instruction.results {
                    let pair = self.moment.pure(state, instruction);
                    state.insert(*result, pair);
                }
            }
            _ => {
                if !(0..instruction.operands.len()).all(|at| get(state, at).equal) {
                    return Err(Obstacle::at(index, "an effect depends on lanes that are not active"));
                }
            }
        }
        Ok(())
    }

    /// Both ways go over an edge.
    fn follow(&mut self, from: Block, to: Block, state: &State) {
        let mut new = state.clone();
        for (phi, operand) in phis(self.moment.function, from, to) {
            new.insert(phi, self.moment.get(state, operand));
        }
        self.enter(to, new);
    }

    fn enter(&mut self, block: Block, state: State) {
        let number = block.0 as usize;
        let joined = match &self.entries[number] {
            None => state,
            Some(old) => self.join(old, &state),
        };
        if self.entries[number].as_ref() != Some(&joined) {
            self.entries[number] = Some(joined);
            if !self.work.contains(&number) {
                self.work.push(number);
            }
        }
    }

    fn join(&self, a: &State, b: &State) -> State {
        let same = |x: Symbol, y: Symbol| if x == y { x } else { Symbol::Anything };
        a.keys()
            .chain(b.keys())
            .map(|value| {
                let (x, y) = (self.moment.get(a, *value), self.moment.get(b, *value));
                let pair =
                    Pair { wave: same(x.wave, y.wave), own: same(x.own, y.own), equal: x.equal && y.equal };
                (*value, pair)
            })
            .collect()
    }

    /// The wave goes `away`, the lane goes `home`: the wave's way is followed until it comes home too. Meanwhile the lane must have
    /// no effect.
    fn part(&mut self, block: Block, away: Block, home: Block, state: &State) -> Result<(), &'static str> {
        let function = self.moment.function;
        let mut entries: FxHashMap<usize, State> = FxHashMap::default();
        let mut arrived: Option<State> = None;
        let mut work = vec![(block, away, state.clone())];
        let mut visits = 0;
        while let Some((from, to, state_at_end)) = work.pop() {
            visits += 1;
            if visits > MOST_VISITS {
                return Err("control flow that is too large to compare");
            }
            let mut new = state_at_end.clone();
            for (phi, operand) in phis(function, from, to) {
                let wave = self.moment.get(&state_at_end, operand).wave;
                // A lane at home has its own value of a phi there.
                let own = if to == home {
                    let mine = phis(function, block, home).find(|(other, _)| *other == phi);
                    mine.map_or(Symbol::Anything, |(_, operand)| self.moment.get(state, operand).own)
                } else {
                    self.moment.get(&state_at_end, phi).own
                };
                // Over the lane's own edge: the pair relates the wave's value to the lane's.
                let equal = to == home && from == block && self.moment.get(&state_at_end, operand).equal;
                new.insert(phi, Pair::of(wave, own, equal));
            }
            if to == home {
                arrived = Some(match arrived {
                    None => new,
                    Some(old) => self.join(&old, &new),
                });
                continue;
            }
            let joined = match entries.get(&(to.0 as usize)) {
                None => new,
                Some(old) => self.join(old, &new),
            };
            if entries.get(&(to.0 as usize)) == Some(&joined) {
                continue;
            }
            entries.insert(to.0 as usize, joined.clone());
            let mut state = joined;
            for &index in &function.blocks[to.0 as usize].instructions {
                if !is_phi(function, index) {
                    self.idle(index, &mut state)?;
                }
            }
            let terminator = &function.blocks[to.0 as usize].terminator;
            if matches!(terminator, Terminator::End | Terminator::Trap(_)) {
                return Err("the wave may end where a lane waits");
            }
            let known = terminator.operand().map(|value| self.moment.get(&state, value).wave);
            match (terminator, known) {
                (Terminator::Branch { then, otherwise, .. }, Some(Symbol::Bit(bit))) => {
                    work.push((to, if bit { *then } else { *otherwise }, state));
                }
                _ => {
                    for next in terminator.successors() {
                        work.push((to, next, state.clone()));
                    }
                }
            }
        }
        if let Some(state) = arrived {
            self.enter(home, state);
        }
        Ok(())
    }

    /// The wave's way through an instruction in which the lane has no part.
    fn idle(&self, index: u32, state: &mut State) -> Result<(), &'static str> {
        let instruction = &self.moment.function.instructions[index as usize];
        let wave = match &instruction.operation {
            Operation::Store(_) | Operation::Atomic(..) => {
                if self.moment.get(state, instruction.operands[0]).wave != Symbol::Bit(false) {
                    return Err("a lane that is not known to be inactive has an effect");
                }
                Symbol::Anything
            }
            Operation::Barrier | Operation::GridBarrier | Operation::Observe(_) | Operation::Fence(_) => {
                return Err("a barrier where not all lanes may come");
            }
            Operation::AnyLane => Symbol::Anything,
            operation if operation.is_pure() => self.moment.pure(state, instruction).wave,
            _ => Symbol::Anything,
        };
        for result in &instruction.results {
            let own = self.moment.get(state, *result).own;
            state.insert(*result, Pair::of(wave, own, false));
        }
        Ok(())
    }
}

fn is_phi(function: &Function, index: u32) -> bool {
    function.instructions[index as usize].operation == Operation::Phi
}

/// The phis of a block with their operands for an edge.
fn phis(function: &Function, from: Block, to: Block) -> impl Iterator<Item = (Value, Value)> + '_ {
    let block = &function.blocks[to.0 as usize];
    let place = block.predecessors.iter().position(|block| *block == from);
    block.instructions.iter().take_while(|index| is_phi(function, **index)).filter_map(move |index| {
        let instruction = &function.instructions[*index as usize];
        Some((instruction.results[0], *instruction.operands.get(place?)?))
    })
}
