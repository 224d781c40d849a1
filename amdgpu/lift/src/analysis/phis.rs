//! Phis that always have one value, also where they are operands of each other: Braun et al., "Simple and Efficient Construction
//! of Static Single Assignment Form", section 3.2. Graphs with shared functions have such groups of phis for every register that
//! the functions leave alone.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::form::{Block, Function, Kind, Operation, Shape, Value};

/// How deep groups may be inside of groups. What is deeper stays as it is.
const MOST_DEPTH: u32 = 32;

/// Finds the phis that can be replaced, and by what.
pub fn redundant(function: &mut Function) -> FxHashMap<Value, Value> {
    let all = function.blocks.iter().flat_map(|block| &block.instructions).copied();
    let phis: Vec<u32> =
        all.filter(|index| function.instructions[*index as usize].operation == Operation::Phi).collect();
    let mut pass = Pass { replaced: FxHashMap::default(), constants: FxHashMap::default() };
    pass.groups(function, &phis, MOST_DEPTH);
    pass.replaced
}

struct Pass {
    replaced: FxHashMap<Value, Value>,
    /// Constants of the entry block, which all phis of an equal constant become.
    constants: FxHashMap<(Kind, u64), Value>,
}

impl Pass {
    fn resolve(&self, mut value: Value) -> Value {
        while let Some(&next) = self.replaced.get(&value) {
            value = next;
        }
        value
    }

    /// Replaces the phis of each group that has one operand from outside. Groups come after those that they depend on.
    fn groups(&mut self, function: &mut Function, phis: &[u32], depth: u32) {
        for group in components(function, phis) {
            let own: FxHashSet<Value> =
                group.iter().map(|index| function.instructions[*index as usize].results[0]).collect();
            let mut outer: Option<Value> = None;
            let mut differs = false;
            let mut inner = Vec::new();
            for index in &group {
                let mut is_inner = true;
                for operand in &function.instructions[*index as usize].operands {
                    let operand = self.resolve(*operand);
                    if own.contains(&operand) {
                        continue;
                    }
                    is_inner = false;
                    differs |= outer.is_some_and(|outer| !is_same(function, outer, operand));
                    outer = outer.or(Some(operand));
                }
                if is_inner {
                    inner.push(*index);
                }
            }
            match outer {
                Some(outer) if !differs => {
                    let value = self.everywhere(function, outer);
                    self.replaced.extend(own.into_iter().map(|phi| (phi, value)));
                }
                Some(_) if depth > 0 && !inner.is_empty() => self.groups(function, &inner, depth - 1),
                _ => {}
            }
        }
    }

    /// The value, or an equal one that dominates everything if it is a constant: equal constants may be of different blocks.
    fn everywhere(&mut self, function: &mut Function, value: Value) -> Value {
        let Some(bits) = function.constant(value) else { return value };
        let kind = function.kind(value);
        *self.constants.entry((kind, bits)).or_insert_with(|| {
            let address = function.definition(value).address;
            let result = [(kind, Shape::Uniform)];
            let index = function.create(Operation::Constant(bits), Vec::new(), &result, address);
            function.blocks[Block(0).0 as usize].instructions.push(index);
            function.instructions[index as usize].results[0]
        })
    }
}

fn is_same(function: &Function, a: Value, b: Value) -> bool {
    let constant = |value: Value| function.constant(value).map(|bits| (function.kind(value), bits));
    a == b || constant(a).is_some() && constant(a) == constant(b)
}

/// Phis that depend on each other, by Tarjan's algorithm. A component comes after those that it depends on.
fn components(function: &Function, phis: &[u32]) -> Vec<Vec<u32>> {
    const UNSEEN: u32 = u32::MAX;
    let places: FxHashMap<u32, usize> = phis.iter().copied().zip(0..).collect();
    let operands = |phi: usize| -> Vec<usize> {
        let operands = &function.instructions[phis[phi] as usize].operands;
        let of = |value: &Value| places.get(&function.values[value.0 as usize].instruction).copied();
        operands.iter().filter_map(of).collect()
    };
    let mut number = vec![UNSEEN; phis.len()];
    let mut lowest = vec![0; phis.len()];
    let mut is_open = vec![false; phis.len()];
    let (mut open, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    for first in 0..phis.len() {
        if number[first] != UNSEEN {
            continue;
        }
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut enter = Some(first);
        loop {
            if let Some(phi) = enter.take() {
                number[phi] = next;
                lowest[phi] = next;
                next += 1;
                open.push(phi);
                is_open[phi] = true;
                path.push((phi, operands(phi)));
            }
            let Some((phi, rest)) = path.last_mut() else { break };
            let phi = *phi;
            match rest.pop() {
                Some(operand) if number[operand] == UNSEEN => enter = Some(operand),
                Some(operand) if is_open[operand] => lowest[phi] = lowest[phi].min(number[operand]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((below, _)) = path.last() {
                        lowest[*below] = lowest[*below].min(lowest[phi]);
                    }
                    if lowest[phi] == number[phi] {
                        let mut component = Vec::new();
                        while let Some(member) = open.pop() {
                            is_open[member] = false;
                            component.push(phis[member]);
                            if member == phi {
                                break;
                            }
                        }
                        found.push(component);
                    }
                }
            }
        }
    }
    found
}
