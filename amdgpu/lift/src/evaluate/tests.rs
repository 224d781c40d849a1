use super::{Bytes, Fault, Launch, run};
use crate::Builder;
use crate::form::*;

/// A function of one block that ends with `terminator`.
fn function(terminator: Terminator, build: impl FnOnce(&mut Builder)) -> Function {
    let mut function = Function::default();
    let block = function.add_block(0);
    build(&mut Builder { function: &mut function, block, address: 0 });
    function.blocks[0].terminator = terminator;
    function
}

fn launch() -> Launch {
    Launch { grid: [128, 1, 1], block: [128, 1, 1], lds_bytes: 512, steps: 10_000, ..Launch::default() }
}

fn local(bytes: u8) -> Access {
    Access { space: Space::Lds, bytes, signed: false, offset: 0, scope: MemoryScope::Workgroup, align: 0 }
}

#[test]
fn a_loop_without_end_stops_at_the_step_limit() {
    let mut endless = function(Terminator::Jump(Block(1)), |_| {});
    let second = endless.add_block(0);
    endless.blocks[1].terminator = Terminator::Jump(second);
    endless.blocks[1].predecessors = vec![Block(0), second];
    assert_eq!(run(&endless, &launch(), &mut Bytes::default()), Err(Fault::Steps(10_000)));
}

#[test]
fn a_requirement_that_does_not_hold_is_a_fault() {
    let broken = function(Terminator::End, |b| {
        let no = b.bit(false);
        b.append(Operation::Require, &[no], &[]);
    });
    assert_eq!(run(&broken, &launch(), &mut Bytes::default()), Err(Fault::Required { address: 0 }));
}

#[test]
fn memory_that_does_not_exist_is_a_fault() {
    let stray = function(Terminator::End, |b| {
        let (mask, address) = (b.bit(true), b.double(0x1000));
        let access = Access { space: Space::Global, ..local(4) };
        b.append(Operation::Load(access), &[mask, address], &[(Kind::Word, Shape::Uniform)]);
    });
    let mut memory = Bytes::default();
    memory.add(0x1002, vec![0; 8]);
    assert_eq!(run(&stray, &launch(), &mut memory), Err(Fault::Address { address: 0x1000, bytes: 4 }));
}

#[test]
fn waves_see_each_others_stores_after_a_barrier() {
    // Every work-item stores its number in LDS, and after a barrier writes that of the work-item opposite to memory.
    let exchange = function(Terminator::End, |b| {
        let (mask, item, two) = (b.bit(true), b.input(Input::WorkitemId(0)), b.word(2));
        let own = b.binary(Binary::ShiftLeft, item, two);
        b.append(Operation::Store(local(4)), &[mask, own, item], &[]);
        b.append(Operation::Barrier, &[], &[]);
        let last = b.word(127 * 4);
        let other = b.binary(Binary::Subtract, last, own);
        let read = b.append(Operation::Load(local(4)), &[mask, other], &[(Kind::Word, Shape::Lane)])[0];
        let (zero, base) = (b.word(0), b.double(0x1000));
        let offset = b.pack(own, zero);
        let address = b.binary(Binary::Add, base, offset);
        let access = Access { space: Space::Global, ..local(4) };
        b.append(Operation::Store(access), &[mask, address, read], &[]);
    });
    let mut memory = Bytes::default();
    memory.add(0x1000, vec![0; 512]);
    run(&exchange, &launch(), &mut memory).expect("no fault");
    let words: Vec<u32> = memory
        .range(0x1000)
        .expect("the range")
        .chunks(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    assert_eq!(words, (0..128).rev().collect::<Vec<u32>>());
}

#[test]
fn a_partial_wave_has_only_its_work_items() {
    let count = function(Terminator::End, |b| {
        let here = b.input(Input::HasWorkitem);
        let (base, one) = (b.double(0x1000), b.word(1));
        let access = Access { space: Space::Global, ..local(4) };
        b.append(Operation::Atomic(Atomic::Add, access, Returns::Nothing), &[here, base, one], &[]);
    });
    let mut memory = Bytes::default();
    memory.add(0x1000, vec![0; 4]);
    run(&count, &Launch { grid: [300, 1, 1], ..launch() }, &mut memory).expect("no fault");
    assert_eq!(memory.range(0x1000), Some(&300_u32.to_le_bytes()[..]));
}

#[test]
fn an_element_beyond_lds_reads_zero_and_is_not_written() {
    let over = function(Terminator::End, |b| {
        let (mask, at, ones) = (b.bit(true), b.word(508), b.word(!0));
        // The last dword exists, an element of eight bytes does not fit.
        b.append(Operation::Store(local(8)), &[mask, at, ones, ones], &[]);
        let word = b.append(Operation::Load(local(4)), &[mask, at], &[(Kind::Word, Shape::Lane)])[0];
        let base = b.double(0x1000);
        let access = Access { space: Space::Global, ..local(4) };
        b.append(Operation::Store(access), &[mask, base, word], &[]);
    });
    let mut memory = Bytes::default();
    memory.add(0x1000, vec![7; 4]);
    run(&over, &launch(), &mut memory).expect("no fault");
    assert_eq!(memory.range(0x1000), Some(&[0; 4][..]));
}
