//! What lanes write before they read it is not observed before.

use super::narrow;
use crate::analysis::{dead, decided, rebuild};
use crate::form::*;
use crate::{Builder, Function, verify};

const OLD: Input = Input::Register(Register::Vector(2));

fn store(b: &mut Builder<'_>, mask: Value, word: Value) {
    let access = Access {
        space: Space::Global,
        bytes: 4,
        signed: false,
        offset: 0,
        scope: MemoryScope::Wave,
        align: 2,
    };
    let address = b.double(0x1000);
    b.append(Operation::Store(access), &[mask, address, word], &[]);
}

fn select(b: &mut Builder<'_>, mask: Value, new: Value, old: Value) -> Value {
    b.pure(Operation::Select, &[mask, new, old], Kind::Word)
}

/// A mask that depends on nothing that is known.
fn mask(b: &mut Builder<'_>, register: u16) -> Value {
    let (word, zero) = (b.input(Input::Register(Register::Vector(register))), b.word(0));
    b.compare(Compare::NotEqual, word, zero)
}

/// Whether the old value is used after the passes.
fn is_observed(mut function: Function) -> bool {
    verify(&function).expect("the function is well formed");
    for _ in 0..3 {
        decided::substitute(&mut function);
        rebuild::simplify(&mut function);
        dead::remove(&mut function);
        narrow(&mut function);
        dead::remove(&mut function);
        verify(&function).expect("the result is well formed");
    }
    let mut all = function.blocks.iter().flat_map(|block| &block.instructions);
    all.any(|index| function.instructions[*index as usize].operation == Operation::Input(OLD))
}

/// Both sides of an `if` write a variable, or only one.
fn two_sides(both: bool) -> Function {
    let mut f = Function { name: "k".into(), ..Function::default() };
    let block = f.add_block(0);
    let mut b = Builder { function: &mut f, block, address: 0 };
    let old = b.input(OLD);
    let (exec, condition) = (mask(&mut b, 0), mask(&mut b, 1));
    let then = b.and(exec, condition);
    let rest = b.binary(Binary::Xor, exec, then);
    let (one, two) = (b.word(1), b.word(2));
    let value = select(&mut b, then, one, old);
    let value = if both { select(&mut b, rest, two, value) } else { value };
    store(&mut b, exec, value);
    f
}

/// A loop whose lanes leave one by one and write a variable: in every round, or when they leave.
fn rounds(at_exit: bool, all: bool) -> Function {
    let mut f = Function { name: "k".into(), ..Function::default() };
    let (entry, body, end) = (f.add_block(0), f.add_block(4), f.add_block(8));
    let mut b = Builder { function: &mut f, block: entry, address: 0 };
    let old = b.input(OLD);
    let exec = mask(&mut b, 0);
    let (no, one) = (b.bit(false), b.word(1));
    b.function.blocks[0].terminator = Terminator::Jump(body);
    b.block = body;
    let (word, bit) = ([(Kind::Word, Shape::Lane)], [(Kind::Bit, Shape::Lane)]);
    let active = b.append(Operation::Phi, &[exec, exec], &bit)[0];
    let left = b.append(Operation::Phi, &[no, no], &bit)[0];
    let value = b.append(Operation::Phi, &[old, old], &word)[0];
    let next = b.binary(Binary::Add, value, one);
    let done = mask(&mut b, 1);
    let leaves = b.and(active, done);
    let gone = b.or(leaves, left);
    let stays = b.not(gone);
    let rest = b.and(active, stays);
    let number = b.input(Input::LaneNumber);
    let new = if all { number } else { next };
    let written = select(&mut b, if at_exit { leaves } else { active }, new, value);
    let any = b.append(Operation::AnyLane, &[rest], &[(Kind::Bit, Shape::Uniform)])[0];
    b.function.blocks[1].terminator = Terminator::Branch { condition: any, then: body, otherwise: end };
    b.block = end;
    let after = b.binary(Binary::Or, rest, gone);
    store(&mut b, after, written);
    f.blocks[1].predecessors = vec![entry, body];
    f.blocks[2].predecessors = vec![body];
    for (phi, operand) in [(active, rest), (left, gone), (value, written)] {
        let index = f.values[phi.0 as usize].instruction;
        f.instructions[index as usize].operands[1] = operand;
    }
    f
}

#[test]
fn what_both_sides_of_an_if_write_is_not_observed_before_it() {
    assert!(!is_observed(two_sides(true)));
    assert!(is_observed(two_sides(false)));
}

#[test]
fn what_every_lane_of_a_loop_writes_is_not_observed_before_the_loop() {
    for at_exit in [false, true] {
        assert!(!is_observed(rounds(at_exit, true)), "written at the exit: {at_exit}");
        // The first round reads it.
        assert!(is_observed(rounds(at_exit, false)), "written at the exit: {at_exit}");
    }
}
