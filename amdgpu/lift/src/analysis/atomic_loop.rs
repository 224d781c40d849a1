//! Loops that add a float to memory by compare-and-swap. Compilers write them where the machine's own operation would treat
//! denormals or NaNs in another way than the program wants. One operation on the memory instead of a race between waves.

use crate::form::*;

/// Replaces the loops whose old value nothing wants. Returns whether there were any.
pub fn recognise(function: &mut Function) -> bool {
    let mut changed = false;
    for number in 0..function.blocks.len() {
        if let Some(found) = find(function, Block(number as u32)) {
            replace(function, Block(number as u32), found);
            changed = true;
        }
    }
    changed
}

/// A loop of one block.
struct Loop {
    /// Which predecessor is the block itself.
    back: usize,
    exit: Block,
    access: Access,
    /// Mask at the start, address, and the number that is added.
    operands: Vec<Value>,
    address: u64,
}

fn find(function: &Function, block: Block) -> Option<Loop> {
    let data = &function.blocks[block.0 as usize];
    let Terminator::Branch { condition, then, otherwise } = data.terminator else { return None };
    let back = data.predecessors.iter().position(|from| *from == block)?;
    if data.predecessors.len() != 2 || then == otherwise {
        return None;
    }
    let enter = 1 - back;
    let operation = |value: Value| &function.definition(value).operation;
    let operands = |value: Value| &function.definition(value).operands[..];
    let inside = |value: Value| {
        let index = function.values[value.0 as usize].instruction;
        data.instructions.contains(&index) && function.constant(value).is_none()
    };
    // The loop goes on while any lane is left.
    let (any, exit) = match operation(condition) {
        Operation::Unary(Unary::Not) if otherwise == block => (operands(condition)[0], then),
        _ if then == block => (condition, otherwise),
        _ => return None,
    };
    if *operation(any) != Operation::AnyLane {
        return None;
    }
    let mut effects = data
        .instructions
        .iter()
        .map(|index| &function.instructions[*index as usize])
        .filter(|instruction| !instruction.operation.is_pure());
    let swap = effects.next()?;
    let Operation::Atomic(Atomic::CompareSwap, access, Returns::Old) = swap.operation else { return None };
    let ([active, address, new, expected], [old]) = (&swap.operands[..], &swap.results[..]) else {
        return None;
    };
    if effects.next().is_some() || access.bytes != 4 || !matches!(access.space, Space::Global | Space::Flat) {
        return None;
    }
    // The next round expects what this one found.
    let phi = |value: Value| {
        let is_phi = inside(value) && *operation(value) == Operation::Phi;
        is_phi.then(|| (operands(value)[enter], operands(value)[back]))
    };
    let (start, rest) = phi(*active)?;
    let (_, found) = phi(*expected)?;
    if found != *old || operands(any) != [rest] {
        return None;
    }
    if *operation(*new) != Operation::Float(Float::Add, FloatType::F32, Rounding::Nearest) {
        return None;
    }
    let number = other(operands(*new), *expected)?;
    if inside(number) || inside(*address) || inside(start) {
        return None;
    }
    // A lane is left until memory had what it expected.
    let pair = |value: Value, wanted: Binary| match operation(value) {
        Operation::Binary(binary) if *binary == wanted => Some(operands(value)),
        _ => None,
    };
    let stays = other(pair(rest, Binary::And)?, *active)?;
    let succeeded = |value: Value| {
        let both = operands(value);
        *operation(value) == Operation::Compare(Compare::Equal)
            && (both == [*old, *expected] || both == [*expected, *old])
    };
    let is_right = match operation(stays) {
        Operation::Compare(Compare::NotEqual) => {
            operands(stays) == [*old, *expected] || operands(stays) == [*expected, *old]
        }
        Operation::Unary(Unary::Not) => {
            let gone = operands(stays)[0];
            succeeded(gone)
                || pair(gone, Binary::Or).is_some_and(|both| {
                    both.iter().any(|one| succeeded(*one))
                        && both.iter().any(|left| {
                            phi(*left).is_some_and(|(first, then)| {
                                function.constant(first) == Some(0) && then == gone
                            })
                        })
                })
        }
        _ => false,
    };
    if !is_right || is_seen_outside(function, block) {
        return None;
    }
    let operands = vec![start, *address, number];
    Some(Loop { back, exit, access, operands, address: swap.address })
}

/// The operand that is not the given one.
fn other(pair: &[Value], one: Value) -> Option<Value> {
    match pair {
        [a, b] if *a == one && *b != one => Some(*b),
        [a, b] if *b == one && *a != one => Some(*a),
        _ => None,
    }
}

/// Whether other blocks use what a block computes. Constants do not count.
fn is_seen_outside(function: &Function, block: Block) -> bool {
    let mine = &function.blocks[block.0 as usize].instructions;
    let is_mine = |value: &Value| {
        function.constant(*value).is_none() && mine.contains(&function.values[value.0 as usize].instruction)
    };
    function.blocks.iter().enumerate().filter(|(number, _)| *number != block.0 as usize).any(|(_, other)| {
        other.terminator.operand().iter().any(is_mine)
            || other
                .instructions
                .iter()
                .any(|index| function.instructions[*index as usize].operands.iter().any(is_mine))
    })
}

fn replace(function: &mut Function, block: Block, found: Loop) {
    let Loop { back, exit, access, operands, address } = found;
    let add = Operation::Atomic(Atomic::FloatAdd, access, Returns::Nothing);
    let index = function.create(add, operands, &[], address);
    let mut instructions = std::mem::take(&mut function.blocks[block.0 as usize].instructions);
    instructions
        .retain(|index| matches!(function.instructions[*index as usize].operation, Operation::Constant(_)));
    instructions.push(index);
    let data = &mut function.blocks[block.0 as usize];
    data.instructions = instructions;
    data.predecessors.remove(back);
    data.terminator = Terminator::Jump(exit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::{Bytes, Fragment, run_fragment};
    use crate::{Builder, verify};

    const MEMORY: u64 = 0x1000_0000_0000;

    /// The compiler's loop: 64 lanes add to 4 places. `twist` makes it another one that must stay.
    fn looped(twist: u32) -> Function {
        let mut f = Function { name: "k".into(), ..Function::default() };
        let (entry, body, end) = (f.add_block(0), f.add_block(4), f.add_block(8));
        let mut b = Builder { function: &mut f, block: entry, address: 0 };
        let (place, number) =
            (b.input(Input::Register(Register::Vector(0))), b.input(Input::Register(Register::Vector(1))));
        let (zero, one, three, yes) = (b.word(0), b.word(1), b.word(3), b.bit(true));
        let bit = b.binary(Binary::And, number, one);
        let exec = b.compare(Compare::NotEqual, bit, zero);
        let place = b.binary(Binary::And, place, three);
        let two = b.word(2);
        let offset = b.binary(Binary::ShiftLeft, place, two);
        let (base, offset) = (b.double(MEMORY), b.pack(offset, zero));
        let address = b.binary(Binary::Add, base, offset);
        let access = Access {
            space: Space::Global,
            bytes: 4,
            signed: false,
            offset: 0,
            scope: MemoryScope::Device,
            align: 2,
        };
        let (word, mask) = ([(Kind::Word, Shape::Lane)], [(Kind::Bit, Shape::Lane)]);
        let first = b.append(Operation::Load(access), &[yes, address], &word)[0];
        let no = b.bit(twist == 1);
        b.function.blocks[0].terminator = Terminator::Jump(body);
        b.block = body;
        let active = b.append(Operation::Phi, &[exec, exec], &mask)[0];
        let expected = b.append(Operation::Phi, &[first, first], &word)[0];
        let left = b.append(Operation::Phi, &[no, no], &mask)[0];
        let add = Operation::Float(Float::Add, FloatType::F32, Rounding::Nearest);
        let addend = if twist == 2 { expected } else { number };
        let sum = b.pure(add, &[expected, addend], Kind::Word);
        let swap = Operation::Atomic(Atomic::CompareSwap, access, Returns::Old);
        let old = b.append(swap, &[active, address, sum, expected], &word)[0];
        let equal = b.compare(Compare::Equal, old, expected);
        let gone = b.or(equal, left);
        let stays = b.not(gone);
        let rest = b.and(active, stays);
        let any = b.append(Operation::AnyLane, &[rest], &[(Kind::Bit, Shape::Uniform)])[0];
        b.function.blocks[1].terminator = Terminator::Branch { condition: any, then: body, otherwise: end };
        b.block = end;
        if twist == 3 {
            b.append(Operation::Observe(Register::Vector(0)), &[old], &[]);
        }
        f.blocks[1].predecessors = vec![entry, body];
        f.blocks[2].predecessors = vec![body];
        for (phi, operand) in [(active, rest), (expected, old), (left, gone)] {
            let index = f.values[phi.0 as usize].instruction;
            f.instructions[index as usize].operands[1] = operand;
        }
        f
    }

    fn run(function: &Function) -> Vec<u8> {
        let mut memory = Bytes::default();
        memory.add(MEMORY, vec![0; 16]);
        let read = |register: Register, lane: usize| match register {
            Register::Vector(0) => (lane * 7 / 3) as u64,
            _ => u64::from((lane as f32).to_bits()) | (lane & 1) as u64,
        };
        let (mut local, mut private) = (Vec::new(), vec![Vec::new(); 64]);
        let fragment =
            Fragment { register: &read, local: &mut local, private: &mut private, memory: &mut memory };
        run_fragment(function, fragment, 1 << 16).expect("it ends");
        memory.range(MEMORY).unwrap_or_default().to_vec()
    }

    #[test]
    fn a_loop_of_compare_and_swap_that_adds_is_one_operation_with_the_same_result() {
        let before = looped(0);
        verify(&before).expect("the loop is well formed");
        let mut after = before.clone();
        assert!(recognise(&mut after));
        verify(&after).expect("the result is well formed");
        let is_swap = |index: &u32| {
            matches!(
                after.instructions[*index as usize].operation,
                Operation::Atomic(Atomic::CompareSwap, ..)
            )
        };
        assert!(!after.blocks.iter().flat_map(|block| &block.instructions).any(is_swap));
        assert_ne!(run(&before), vec![0; 16]);
        assert_eq!(run(&after), run(&before));
    }

    #[test]
    fn a_loop_that_does_something_else_stays() {
        for twist in 1..4 {
            let mut f = looped(twist);
            verify(&f).expect("the loop is well formed");
            assert!(!recognise(&mut f), "{twist}");
        }
    }
}
