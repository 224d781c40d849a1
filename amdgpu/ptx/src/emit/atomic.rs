//! Atomic operations: native ones, and loops of compare-and-swap for the others.

use lift::form::*;

use super::memory::{Place, place};
use crate::Mode;
use crate::generator::{Generator, Guard, Reason};

/// Writes an atomic operation.
pub(crate) fn emit(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    atomic: Atomic,
    access: &Access,
) -> Result<(), Reason> {
    if !matches!(access.space, Space::Global | Space::Flat | Space::Lds) || !matches!(access.bytes, 4 | 8) {
        return Err("an atomic operation on this kind of memory".into());
    }
    // Every lane does its own, also if all of them have the same operands.
    for half in 0..g.halves(Shape::Lane) {
        let place = place(g, instruction, access, half)?;
        let results: Vec<String> = instruction.results.iter().map(|value| g.result(*value, half)).collect();
        if place.guard != Guard::Always {
            for result in &results {
                g.line(format!("mov.b32 {result}, 0"));
            }
        }
        if place.guard == Guard::Never {
            continue;
        }
        let words = usize::from(access.bytes / 4);
        let data: Vec<String> = instruction.operands[2..]
            .chunks(words)
            .map(|parts| {
                if words == 1 || g.function.kind(parts[0]) == Kind::Double {
                    return g.in_register(parts[0], half);
                }
                let (low, high) = (g.in_register(parts[0], half), g.in_register(parts[1], half));
                let double = g.double();
                g.line(format!("mov.b64 {double}, {{{low}, {high}}}"));
                double
            })
            .collect();
        let old = if words == 1 { g.word() } else { g.double() };
        let scope = match (place.space, access.scope) {
            (".shared", _) => ".relaxed.cta",
            (_, MemoryScope::System) => ".relaxed.sys",
            // AMD's hardware does atomic operations in the cache of the device, whatever the scope.
            _ => ".relaxed.gpu",
        };
        one(g, atomic, access, &place, scope, &data, &old)?;
        let prefix = place.guard.prefix();
        match results.as_slice() {
            [] => {}
            [result] if words == 1 => g.line(format!("{prefix}mov.b32 {result}, {old}")),
            [result] => g.line(format!("{prefix}mov.b64 {result}, {old}")),
            [low, high, ..] => g.line(format!("{prefix}mov.b64 {{{low}, {high}}}, {old}")),
        }
    }
    Ok(())
}

/// Writes the operation of one half; the old value is in `old`.
fn one(
    g: &mut Generator<'_>,
    atomic: Atomic,
    access: &Access,
    place: &Place,
    scope: &str,
    data: &[String],
    old: &str,
) -> Result<(), Reason> {
    let bits = 8 * u32::from(access.bytes);
    let at = format!("[{}+{}]", place.address, place.offset);
    let (prefix, space) = (place.guard.prefix(), place.space);
    let first = data.first().ok_or("an atomic operation without data")?.clone();
    let native = match (atomic, bits) {
        (Atomic::Swap, _) => Some(format!("exch.b{bits}")),
        (Atomic::Add | Atomic::Subtract, _) => Some(format!("add.u{bits}")),
        (Atomic::MinimumSigned, _) => Some(format!("min.s{bits}")),
        (Atomic::MinimumUnsigned, _) => Some(format!("min.u{bits}")),
        (Atomic::MaximumSigned, _) => Some(format!("max.s{bits}")),
        (Atomic::MaximumUnsigned, _) => Some(format!("max.u{bits}")),
        (Atomic::And, _) => Some(format!("and.b{bits}")),
        (Atomic::Or, _) => Some(format!("or.b{bits}")),
        (Atomic::Xor, _) => Some(format!("xor.b{bits}")),
        (Atomic::Increment, 32) => Some("inc.u32".into()),
        (Atomic::Decrement, 32) => Some("dec.u32".into()),
        (Atomic::FloatAdd, 32) => Some("add.f32".into()),
        (Atomic::FloatAdd, 64) => Some("add.f64".into()),
        (Atomic::HalfAdd, 32) => Some("add.noftz.f16x2".into()),
        (Atomic::Bf16Add, 32) if g.target.sm >= 90 => Some("add.noftz.bf16x2".into()),
        _ => None,
    };
    if let Some(name) = native {
        let operand = if atomic == Atomic::Subtract {
            let negative = if bits == 32 { g.word() } else { g.double() };
            g.line(format!("neg.s{bits} {negative}, {first}"));
            negative
        } else {
            first
        };
        g.line(format!("{prefix}atom{scope}{space}.{name} {old}, {at}, {operand}"));
        return Ok(());
    }
    if atomic == Atomic::CompareSwap {
        let expected = data.get(1).ok_or("a compare-and-swap without expected value")?;
        g.line(format!("{prefix}atom{scope}{space}.cas.b{bits} {old}, {at}, {expected}, {first}"));
        return Ok(());
    }
    // The threads of a warp leave the loop one by one: each round lets at least one succeed.
    let (again, done) = (g.label("CAS"), g.label("DONE"));
    if let Guard::When(mask) = &place.guard {
        g.line(format!("@!{mask} bra {done}"));
    }
    let fresh = |g: &mut Generator<'_>| if bits == 32 { g.word() } else { g.double() };
    let (expected, lost) = (fresh(g), g.predicate());
    g.line(format!("ld{scope}{space}.b{bits} {old}, {at}"));
    g.place(&again);
    g.line(format!("mov.b{bits} {expected}, {old}"));
    let new = new_value(g, atomic, bits, &expected, data)?;
    g.line(format!("atom{scope}{space}.cas.b{bits} {old}, {at}, {expected}, {new}"));
    g.line(format!("setp.ne.u{bits} {lost}, {old}, {expected}"));
    g.line(format!("@{lost} bra {again}"));
    g.place(&done);
    Ok(())
}

/// The new value of an operation that PTX does not have.
fn new_value(
    g: &mut Generator<'_>,
    atomic: Atomic,
    bits: u32,
    old: &str,
    data: &[String],
) -> Result<String, Reason> {
    let fresh = |g: &mut Generator<'_>| if bits == 32 { g.word() } else { g.double() };
    let new = fresh(g);
    let first = &data[0];
    let second = data.get(1);
    match atomic {
        Atomic::ReverseSubtract => g.line(format!("sub.u{bits} {new}, {first}, {old}")),
        Atomic::Increment => {
            let (next, wraps) = (fresh(g), g.predicate());
            g.line(format!("add.u{bits} {next}, {old}, 1"));
            g.line(format!("setp.ge.u{bits} {wraps}, {old}, {first}"));
            g.line(format!("selp.b{bits} {new}, 0, {next}, {wraps}"));
        }
        Atomic::Decrement => {
            let (next, zero, wraps) = (fresh(g), g.predicate(), g.predicate());
            g.line(format!("sub.u{bits} {next}, {old}, 1"));
            g.line(format!("setp.eq.u{bits} {zero}, {old}, 0"));
            g.line(format!("setp.gt.or.u{bits} {wraps}, {old}, {first}, {zero}"));
            g.line(format!("selp.b{bits} {new}, {first}, {next}, {wraps}"));
        }
        Atomic::MaskedOr => {
            let second = second.ok_or("a masked or without its second datum")?;
            let (clear, kept) = (fresh(g), fresh(g));
            g.line(format!("not.b{bits} {clear}, {first}"));
            g.line(format!("and.b{bits} {kept}, {old}, {clear}"));
            g.line(format!("or.b{bits} {new}, {kept}, {second}"));
        }
        Atomic::FloatMinimum => g.line(format!("min.f{bits} {new}, {old}, {first}")),
        Atomic::FloatMaximum => g.line(format!("max.f{bits} {new}, {old}, {first}")),
        Atomic::FloatCompareSwap => {
            let expected = second.ok_or("a compare-and-swap without expected value")?;
            let equal = g.predicate();
            g.line(format!("setp.eq.f{bits} {equal}, {old}, {expected}"));
            g.line(format!("selp.b{bits} {new}, {first}, {old}, {equal}"));
        }
        Atomic::Bf16Add if bits == 32 => {
            // Each half widens to f32 exactly; the sum of two bfloat16 numbers rounds once in f32 and once more.
            let mut parts = Vec::new();
            for shift in [0, 16] {
                let (a, b, sum, narrow) = (g.word(), g.word(), g.word(), g.half());
                for (to, from) in [(&a, old), (&b, first.as_str())] {
                    if shift == 0 {
                        g.line(format!("shl.b32 {to}, {from}, 16"));
                    } else {
                        g.line(format!("and.b32 {to}, {from}, 0xffff0000"));
                    }
                }
                g.line(format!("add.rn.f32 {sum}, {a}, {b}"));
                g.line(format!("cvt.rn.bf16.f32 {narrow}, {sum}"));
                parts.push(narrow);
            }
            g.line(format!("mov.b32 {new}, {{{}, {}}}", parts[0], parts[1]));
        }
        _ => return Err("an atomic operation of this size".into()),
    }
    Ok(new)
}

/// Adds the number of lanes of a mask to a word of LDS, once for the wave.
pub(crate) fn append_consume(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    consume: bool,
    offset: u32,
) -> Result<(), Reason> {
    if g.mode != Mode::Pair {
        return Err("append and consume in lane mode".into());
    }
    let mask = instruction.operands[0];
    let count = g.word();
    g.line(format!("mov.b32 {count}, 0"));
    for half in 0..2 {
        let (bits, number) = (g.word(), g.word());
        let predicate = g.operand(mask, half);
        g.line(format!("vote.sync.ballot.b32 {bits}, {predicate}, -1"));
        g.line(format!("popc.b32 {number}, {bits}"));
        g.line(format!("add.u32 {count}, {count}, {number}"));
    }
    if consume {
        g.line(format!("neg.s32 {count}, {count}"));
    }
    let access = Access {
        space: Space::Lds,
        bytes: 4,
        signed: false,
        offset: i32::try_from(offset).map_err(|_| "a large LDS offset")?,
        scope: MemoryScope::Workgroup,
        align: 2,
    };
    // The address is uniform; the first thread does it for all. The mask of the instruction only counts.
    let mut place = super::memory::place(g, instruction, &access, 0)?;
    let (thread, first) = (super::prologue::warp_thread(g), g.predicate());
    g.line(format!("setp.eq.u32 {first}, {thread}, 0"));
    let end = i64::from(offset) + 4;
    let limit = super::memory::lds_limit(g, end);
    let at = g.operand(instruction.operands[1], 0);
    let inside = g.predicate();
    g.line(format!("setp.lt.and.u32 {inside}, {at}, {limit}, {first}"));
    place.guard = Guard::When(inside);
    let old = g.word();
    g.line(format!("mov.b32 {old}, 0"));
    one(g, Atomic::Add, &access, &place, ".relaxed.cta", &[count], &old)?;
    if let Some(result) = instruction.results.first() {
        let result = g.result(*result, 0);
        g.line(format!("shfl.sync.idx.b32 {result}, {old}, 0, 31, -1"));
    }
    Ok(())
}
