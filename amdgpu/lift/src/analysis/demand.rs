//! Demand: the lanes in which a value is observed, and what becomes simpler because other lanes do not matter.
//!
//! The demand of a value is a set of bounds: masks, and complements of masks, each of which contains all lanes in which the value
//! is observed. A use under a mask demands the mask and its supersets; two uses demand what both have. A mask stays in a demand
//! only if its definition dominates the value's: then the instance of the mask that the use sees is the one that the definition
//! sees, in loops as well.
//!
//! Complements tell that no lane is left: what both sides of an `if` write is not observed before it, and what every lane of a
//! loop writes is not observed before the loop.
//!
//! Rewrites keep every value equal in its demanded lanes, as the original function has them; therefore all of them can be made
//! at once.

mod bound;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;

use super::dominators::{Dominators, reverse_post_order};
use crate::form::{Binary, Block, Function, Kind, Operation, Shape, Unary, Value};
use bound::{Bound, Bounds, join, meet};

/// Removes selects and conjunctions whose mask contains all lanes that matter, and operands of phis that matter in no lane. Returns
/// whether there were any.
pub fn narrow(function: &mut Function) -> bool {
    let analysis = Analysis::of(function);
    let replaced = analysis.rewrites(function);
    let unobserved = analysis.unobserved(function);
    if replaced.is_empty() && unobserved.is_empty() {
        return false;
    }
    for (index, n) in unobserved {
        let kind = function.kind(function.instructions[index as usize].results[0]);
        let zero = function.constant_at_entry(kind, 0);
        function.instructions[index as usize].operands[n] = zero;
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
    /// Comparisons with the opposite result that precede comparisons.
    opposites: FxHashMap<Value, Value>,
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
    /// It is observed in lanes that all these contain.
    Within(Vec<Bound>),
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
            opposites: FxHashMap::default(),
            supersets: FxHashMap::default(),
            demand: vec![Demand::Nowhere; function.values.len()],
        };
        analysis.find_opposites(function);
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

    fn find_opposites(&mut self, function: &Function) {
        let mut known: FxHashMap<(Operation, [Value; 2]), Vec<Value>> = FxHashMap::default();
        for &number in &self.order {
            for &index in &function.blocks[number].instructions {
                let instruction = &function.instructions[index as usize];
                let [a, b] = instruction.operands[..] else { continue };
                let Some((operation, exchanged)) = bound::opposite(&instruction.operation) else { continue };
                let result = instruction.results[0];
                let wanted = (operation, if exchanged { [b, a] } else { [a, b] });
                let mut same = known.get(&wanted).into_iter().flatten().copied();
                if let Some(before) = same.find(|value| self.precedes(*value, result)) {
                    self.opposites.insert(result, before);
                }
                known.entry((instruction.operation.clone(), [a, b])).or_default().push(result);
            }
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
                    list.retain(|bound| bound.mask == mask || self.precedes(bound.mask, mask));
                    *list = join(list, &[Bound::inside(mask)]);
                }
                // Sets only shrink, also where they were cut before.
                if let (Some(Some(old)), new) = (self.supersets.get(&mask), &mut bounds) {
                    *new = Some(new.as_ref().map_or_else(|| old.clone(), |new| meet(old, new)));
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
        let of = |n: usize| self.implied(function, Bound::inside(definition.operands[n]));
        let either = |a: Bounds, b: Bounds| match (a, b) {
            (None, other) | (other, None) => other,
            (Some(a), Some(b)) => Some(meet(&a, &b)),
        };
        match definition.operation {
            Operation::Binary(Binary::And) => match (of(0), of(1)) {
                (Some(a), Some(b)) => self.close(function, join(&a, &b)),
                _ => None,
            },
            Operation::Unary(Unary::Not) => self.implied(function, Bound::outside(definition.operands[0])),
            Operation::Binary(Binary::Or) => either(of(0), of(1)),
            Operation::Select => either(of(1), of(2)),
            Operation::Phi => {
                let (block, _) = self.place[mask.0 as usize]?;
                let mut all = None;
                for n in 0..definition.operands.len() {
                    all = either(all, of(n));
                }
                // Only masks from above mean the same lanes on all edges.
                all.map(|list| list.into_iter().filter(|bound| self.is_above(bound.mask, block)).collect())
            }
            _ => Some(self.opposites.get(&mask).copied().map(Bound::outside).into_iter().collect()),
        }
    }

    /// Adds a use to a value's demand. Returns whether the demand grew.
    fn observe(&mut self, function: &Function, value: Value, lanes: &Bounds) -> bool {
        let Some(lanes) = lanes else { return false };
        if function.shape(value) == Shape::Uniform {
            return false;
        }
        let known: Vec<Bound> =
            lanes.iter().copied().filter(|bound| self.precedes(bound.mask, value)).collect();
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
                    let active = self.implied(function, Bound::inside(operands[0]));
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
    fn uses(&self, function: &Function, index: u32, lanes: Vec<Bound>, uses: &mut Vec<(Value, Bounds)>) {
        let instruction = &function.instructions[index as usize];
        let operands = &instruction.operands;
        match instruction.operation {
            Operation::Select => {
                uses.push((operands[1], self.within(function, &lanes, Bound::inside(operands[0]))));
                uses.push((operands[2], self.within(function, &lanes, Bound::outside(operands[0]))));
                uses.push((operands[0], Some(lanes)));
            }
            Operation::Binary(Binary::And) if function.kind(instruction.results[0]) == Kind::Bit => {
                // The later one matters only in the lanes of the earlier one.
                let (first, second) = if self.precedes(operands[0], operands[1]) {
                    (operands[0], operands[1])
                } else {
                    (operands[1], operands[0])
                };
                uses.push((second, self.within(function, &lanes, Bound::inside(first))));
                uses.push((first, Some(lanes)));
            }
            Operation::Phi => {
                let Some((block, _)) = self.place[instruction.results[0].0 as usize] else { return };
                for (n, operand) in operands.iter().enumerate() {
                    uses.push((*operand, self.on_edge(function, block, n, &lanes)));
                }
            }
            _ => uses.extend(operands.iter().map(|operand| (*operand, Some(lanes.clone())))),
        }
    }

    /// Lanes of a phi of a block, as an edge to the block sees them.
    fn on_edge(&self, function: &Function, block: Block, edge: usize, lanes: &[Bound]) -> Bounds {
        let mut all = Vec::new();
        for &bound in lanes {
            let more = if self.is_above(bound.mask, block) {
                vec![bound]
            } else {
                // A phi of the same block: on this edge it is its operand.
                match function.definition(bound.mask).operands.get(edge) {
                    Some(from) => self.implied(function, Bound { mask: *from, ..bound })?,
                    None => Vec::new(),
                }
            };
            all = join(&all, &more);
        }
        self.close(function, all)
    }

    /// What each value can be replaced by.
    fn rewrites(&self, function: &Function) -> FxHashMap<Value, Value> {
        let mut replaced = FxHashMap::default();
        for block in &function.blocks {
            for &index in &block.instructions {
                let instruction = &function.instructions[index as usize];
                let Some(&result) = instruction.results.first() else { continue };
                let Demand::Within(lanes) = &self.demand[result.0 as usize] else { continue };
                let operands = &instruction.operands;
                let is_inside = |mask: Value| self.within(function, lanes, Bound::outside(mask)).is_none();
                match instruction.operation {
                    Operation::Select if is_inside(operands[0]) => {
                        replaced.insert(result, operands[1]);
                    }
                    Operation::Select
                        if self.within(function, lanes, Bound::inside(operands[0])).is_none() =>
                    {
                        replaced.insert(result, operands[2]);
                    }
                    Operation::Binary(Binary::And) if function.kind(result) == Kind::Bit => {
                        if is_inside(operands[0]) {
                            replaced.insert(result, operands[1]);
                        } else if is_inside(operands[1]) {
                            replaced.insert(result, operands[0]);
                        }
                    }
                    _ => {}
                }
            }
        }
        replaced
    }

    /// Operands of phis that no lane observes.
    fn unobserved(&self, function: &Function) -> Vec<(u32, usize)> {
        let mut found = Vec::new();
        for (number, block) in function.blocks.iter().enumerate() {
            for &index in &block.instructions {
                let instruction = &function.instructions[index as usize];
                if instruction.operation != Operation::Phi {
                    break;
                }
                let Demand::Within(lanes) = &self.demand[instruction.results[0].0 as usize] else { continue };
                for (n, operand) in instruction.operands.iter().enumerate() {
                    if function.constant(*operand).is_none()
                        && self.on_edge(function, Block(number as u32), n, lanes).is_none()
                    {
                        found.push((index, n));
                    }
                }
            }
        }
        found
    }
}
