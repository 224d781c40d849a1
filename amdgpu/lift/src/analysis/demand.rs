//! Demand: the lanes in which a value is observed, and what becomes simpler because other lanes do not matter.
//!
//! The demand of a value is a set of masks, each of which contains all lanes in which the value is observed. A use under a mask
//! demands the mask and its supersets; two uses demand what both have. A mask stays in a demand only if its definition dominates
//! the value's: then the instance of the mask that the use sees is the one that the definition sees, in loops as well.
//!
//! Rewrites keep every value equal in its demanded lanes, as the original function has them; therefore all of them can be made
//! at once.

use rustc_hash::FxHashMap;

use super::dominators::{Dominators, reverse_post_order};
use crate::form::{Binary, Block, Function, Kind, Operation, Shape, Unary, Value};

/// Masks that contain a set of lanes, sorted. `None` is the empty set of lanes, which every mask contains.
type Bounds = Option<Vec<Value>>;

/// Larger sets are cut; fewer bounds are always right.
const MOST_BOUNDS: usize = 48;

/// Removes selects and conjunctions whose mask contains all lanes that matter. Returns whether there were any.
pub fn narrow(function: &mut Function) -> bool {
    let analysis = Analysis::of(function);
    let replaced = analysis.rewrites(function);
    if replaced.is_empty() {
        return false;
    }
    let resolve = |mut value: Value| {
        while let Some(&next) = replaced.get(&value) {
            value = next;
        }
        value
    };
    for block in &mut function.blocks {
        for &index in &block.instructions {
            for operand in &mut function.instructions[index as usize].operands {
                *operand = resolve(*operand);
            }
        }
    }
    true
}

struct Analysis {
    order: Vec<usize>,
    dominators: Dominators,
    /// Block and position of each value; phis have position 0.
    place: Vec<Option<(Block, usize)>>,
    /// Supersets of each mask.
    supersets: FxHashMap<Value, Bounds>,
    /// Demand of each value.
    demand: Vec<Demand>,
}

/// Demand of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Demand {
    /// Nothing observes it.
    Nowhere,
    /// It is observed in lanes that all these masks contain.
    Within(Vec<Value>),
}

fn meet(a: &[Value], b: &[Value]) -> Vec<Value> {
    a.iter().copied().filter(|value| b.binary_search(value).is_ok()).collect()
}

fn join(a: &[Value], b: &[Value]) -> Vec<Value> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all.truncate(MOST_BOUNDS);
    all
}

impl Analysis {
    fn of(function: &Function) -> Analysis {
        let mut place = vec![None; function.values.len()];
        for (number, block) in function.blocks.iter().enumerate() {
            for (at, &index) in block.instructions.iter().enumerate() {
                let instruction = &function.instructions[index as usize];
                let position = if instruction.operation == Operation::Phi { 0 } else { at + 1 };
                for result in &instruction.results {
                    place[result.0 as usize] = Some((Block(number as u32), position));
                }
            }
        }
        let mut analysis = Analysis {
            order: reverse_post_order(function),
            dominators: Dominators::of(function),
            place,
            supersets: FxHashMap::default(),
            demand: vec![Demand::Nowhere; function.values.len()],
        };
        analysis.find_supersets(function);
        analysis.find_demand(function);
        analysis
    }

    /// Whether `a` is defined wherever `b` is, and not after it. Phis of one block are defined at once.
    fn precedes(&self, a: Value, b: Value) -> bool {
        match (self.place[a.0 as usize], self.place[b.0 as usize]) {
            (Some((home, at)), Some((block, position))) if home == block => at <= position,
            (Some((home, _)), Some((block, _))) => self.dominators.dominates(home, block),
            _ => false,
        }
    }

    /// Whether `a` is defined in a block that dominates `block` and is another one.
    fn is_above(&self, a: Value, block: Block) -> bool {
        self.place[a.0 as usize]
            .is_some_and(|(home, _)| home != block && self.dominators.dominates(home, block))
    }

    /// Masks that contain the lanes of a mask, itself included.
    fn bounds(&self, function: &Function, mask: Value) -> Bounds {
        match function.constant(mask) {
            Some(0) => return None,
            Some(_) => return Some(Vec::new()),
            None => {}
        }
        match self.supersets.get(&mask) {
            Some(bounds) => bounds.clone(),
            // A uniform bit is not a mask that anything is compared with.
            None => Some(Vec::new()),
        }
    }

    /// Supersets, by iteration from "a subset of everything".
    fn find_supersets(&mut self, function: &Function) {
        let mut masks = Vec::new();
        for &number in &self.order {
            for &index in &function.blocks[number].instructions {
                for &result in &function.instructions[index as usize].results {
                    if function.kind(result) == Kind::Bit && function.shape(result) == Shape::Lane {
                        masks.push(result);
                        self.supersets.insert(result, None);
                    }
                }
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &mask in &masks {
                let mut bounds = self.superset(function, mask);
                if let Some(list) = &mut bounds {
                    list.retain(|bound| *bound == mask || self.precedes(*bound, mask));
                    *list = join(list, &[mask]);
                }
                if self.supersets.get(&mask) != Some(&bounds) {
                    self.supersets.insert(mask, bounds);
                    changed = true;
                }
            }
        }
    }

    fn superset(&self, function: &Function, mask: Value) -> Bounds {
        let definition = function.definition(mask);
        let of = |n: usize| self.bounds(function, definition.operands[n]);
        let either = |a: Bounds, b: Bounds| match (a, b) {
            (None, other) | (other, None) => other,
            (Some(a), Some(b)) => Some(meet(&a, &b)),
        };
        match definition.operation {
            Operation::Binary(Binary::And) => match (of(0), of(1)) {
                (Some(a), Some(b)) => Some(join(&a, &b)),
                _ => None,
            },
            Operation::Binary(Binary::Or) => either(of(0), of(1)),
            Operation::Select => either(of(1), of(2)),
            Operation::Phi => {
                let (block, _) = self.place[mask.0 as usize]?;
                let mut all = None;
                for n in 0..definition.operands.len() {
                    all = either(all, of(n));
                }
                // Only masks from above mean the same lanes on all edges.
                all.map(|list| list.into_iter().filter(|bound| self.is_above(*bound, block)).collect())
            }
            _ => Some(Vec::new()),
        }
    }

    /// Adds a use to a value's demand. Returns whether the demand grew.
    fn observe(&mut self, function: &Function, value: Value, lanes: &Bounds) -> bool {
        let Some(lanes) = lanes else { return false };
        if function.shape(value) == Shape::Uniform {
            return false;
        }
        let known: Vec<Value> = lanes.iter().copied().filter(|mask| self.precedes(*mask, value)).collect();
        let new = match &self.demand[value.0 as usize] {
            Demand::Nowhere => known,
            Demand::Within(old) => meet(old, &known),
        };
        let new = Demand::Within(new);
        if self.demand[value.0 as usize] == new {
            return false;
        }
        self.demand[value.0 as usize] = new;
        true
    }

    fn find_demand(&mut self, function: &Function) {
        let everywhere = Some(Vec::new());
        // Backwards, uses before definitions: without loops one round is enough. An instruction is looked at again only after the
        // demand of its results has changed.
        let backwards: Vec<u32> = self
            .order
            .iter()
            .rev()
            .flat_map(|number| function.blocks[*number].instructions.iter().rev().copied())
            .collect();
        let mut pending = vec![false; function.instructions.len()];
        backwards.iter().for_each(|index| pending[*index as usize] = true);
        let listed = pending.clone();
        let mut left = backwards.len();
        let mut next = backwards.iter().copied().cycle();
        while left > 0
            && let Some(index) = next.next()
        {
            if !std::mem::replace(&mut pending[index as usize], false) {
                continue;
            }
            left -= 1;
            let instruction = &function.instructions[index as usize];
            let operands = &instruction.operands;
            let mut uses: Vec<(Value, Bounds)> = Vec::new();
            match &instruction.operation {
                Operation::Load(_) | Operation::Store(_) | Operation::Atomic(..) => {
                    uses.push((operands[0], everywhere.clone()));
                    let active = self.bounds(function, operands[0]);
                    uses.extend(operands[1..].iter().map(|operand| (*operand, active.clone())));
                }
                operation
                    if operation.is_pure() && self.is_local(function, operation, &instruction.results) =>
                {
                    let Demand::Within(lanes) = &self.demand[instruction.results[0].0 as usize] else {
                        continue;
                    };
                    let lanes = lanes.clone();
                    self.uses(function, index, lanes, &mut uses);
                }
                Operation::ReadFirstLane => {
                    // With no active lane it reads lane 0, so the value is observed beyond the mask.
                    uses.extend(operands.iter().map(|operand| (*operand, everywhere.clone())));
                }
                _ => uses.extend(operands.iter().map(|operand| (*operand, everywhere.clone()))),
            }
            for (value, lanes) in uses {
                if self.observe(function, value, &lanes) {
                    let definition = function.values[value.0 as usize].instruction;
                    let is_new = listed[definition as usize] && !pending[definition as usize];
                    pending[definition as usize] |= is_new;
                    left += usize::from(is_new);
                }
            }
        }
    }

    /// Whether each lane of the result depends on the same lane of the operands only.
    fn is_local(&self, function: &Function, operation: &Operation, results: &[Value]) -> bool {
        let cross = operation.crosses_lanes() || matches!(operation, Operation::AnyLane);
        !cross && results.len() == 1 && function.shape(results[0]) == Shape::Lane
    }

    /// The operands of a lane-local operation with the lanes in which they matter.
    fn uses(&self, function: &Function, index: u32, lanes: Vec<Value>, uses: &mut Vec<(Value, Bounds)>) {
        let instruction = &function.instructions[index as usize];
        let operands = &instruction.operands;
        let within = |mask: Value| self.bounds(function, mask).map(|bounds| join(&lanes, &bounds));
        match instruction.operation {
            Operation::Select => {
                uses.push((operands[0], Some(lanes.clone())));
                uses.push((operands[1], within(operands[0])));
                let rest = self.complement(function, operands[0]);
                uses.push((operands[2], Some(join(&lanes, &rest))));
            }
            Operation::Binary(Binary::And) if function.kind(instruction.results[0]) == Kind::Bit => {
                // The later one matters only in the lanes of the earlier one.
                let (first, second) = if self.precedes(operands[0], operands[1]) {
                    (operands[0], operands[1])
                } else {
                    (operands[1], operands[0])
                };
                uses.push((second, within(first)));
                uses.push((first, Some(lanes)));
            }
            Operation::Phi => {
                let Some((block, _)) = self.place[instruction.results[0].0 as usize] else { return };
                for (n, operand) in operands.iter().enumerate() {
                    let mut translated: Bounds = Some(Vec::new());
                    for &mask in &lanes {
                        let more = if self.is_above(mask, block) {
                            Some(vec![mask])
                        } else {
                            // A phi of the same block: on this edge it is its operand.
                            match function.definition(mask).operands.get(n) {
                                Some(from) => self.bounds(function, *from),
                                None => Some(Vec::new()),
                            }
                        };
                        translated = match (translated, more) {
                            (Some(a), Some(b)) => Some(join(&a, &b)),
                            _ => None,
                        };
                    }
                    uses.push((*operand, translated));
                }
            }
            _ => uses.extend(operands.iter().map(|operand| (*operand, Some(lanes.clone())))),
        }
    }

    /// Masks that contain the lanes outside of a mask.
    fn complement(&self, function: &Function, mask: Value) -> Vec<Value> {
        let definition = function.definition(mask);
        match definition.operation {
            Operation::Unary(Unary::Not) => self.bounds(function, definition.operands[0]).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// What each value can be replaced by.
    fn rewrites(&self, function: &Function) -> FxHashMap<Value, Value> {
        let mut replaced = FxHashMap::default();
        for block in &function.blocks {
            for &index in &block.instructions {
                let instruction = &function.instructions[index as usize];
                let Some(&result) = instruction.results.first() else { continue };
                let Demand::Within(lanes) = &self.demand[result.0 as usize] else { continue };
                let has = |mask: Value| lanes.binary_search(&mask).is_ok();
                let operands = &instruction.operands;
                match instruction.operation {
                    Operation::Select if has(operands[0]) => {
                        replaced.insert(result, operands[1]);
                    }
                    Operation::Binary(Binary::And) if function.kind(result) == Kind::Bit => {
                        if has(operands[0]) {
                            replaced.insert(result, operands[1]);
                        } else if has(operands[1]) {
                            replaced.insert(result, operands[0]);
                        }
                    }
                    _ => {}
                }
            }
        }
        replaced
    }
}
