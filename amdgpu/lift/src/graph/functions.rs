//! Functions that may be called through pointers.

use isa::{Arch, Inst, Op};

use super::constants::{Constants, scalar};
use super::explorer::is_exit;
use crate::Code;

/// Instructions after `s_getpc_b64` that are looked at.
const MOST_INSTRUCTIONS: usize = 64;
/// Calls keep this scalar register and some of those after it.
const FIRST_KEPT: u8 = 30;

/// Addresses of all functions whose address is a value, relative to the base, sorted: those in data, and those that the code
/// computes for something else than a jump.
pub fn pointers(arch: Arch, code: &Code<'_>, base: u64) -> Vec<u64> {
    let mut all: Vec<u64> = code.pointers.to_vec();
    for (at, word) in code.bytes.chunks_exact(4).enumerate() {
        // The format, before the decoder looks at the rest.
        let is_one_source = word[3] == 0xbe && word[2] & 0x80 != 0;
        if is_one_source {
            all.extend(computed(arch, code, base, code.address + 4 * at as u64));
        }
    }
    let end = code.address + code.bytes.len() as u64;
    all.retain(|address| (code.address..end).contains(address) && address % 4 == 0);
    all.sort_unstable();
    all.dedup();
    all
}

/// The address that the code at `start` computes with `s_getpc_b64`, unless it only jumps there.
fn computed(arch: Arch, code: &Code<'_>, base: u64, start: u64) -> Option<u64> {
    let first = isa::decode(arch, code.at(start)).ok()?;
    if first.op != Op::s_getpc_b64 {
        return None;
    }
    let pair = scalar(&first.dst)?;
    let mut known = Constants::default();
    known.step(&first, base + start);
    let mut address = start + u64::from(first.size);
    let mut found = None;
    for _ in 0..MOST_INSTRUCTIONS {
        let Ok(inst) = isa::decode(arch, code.at(address)) else { break };
        if is_exit(&inst) {
            let jumps = match inst.op {
                Op::s_setpc_b64 => true,
                // After the call nothing can use the registers.
                Op::s_swappc_b64 => pair + 1 < FIRST_KEPT,
                _ => false,
            };
            let only = jumps && scalar(&inst.src[0]) == Some(pair);
            return if only { None } else { found };
        }
        if found.is_some() && reads(&inst, pair) {
            break;
        }
        known.step(&inst, base + address);
        if inst.op == Op::s_addc_u32 && found.is_none() {
            found = known.pair(&first.dst).and_then(|absolute| absolute.checked_sub(base));
        }
        address += u64::from(inst.size);
    }
    found
}

/// Whether an instruction reads one of a pair of registers.
fn reads(inst: &Inst, pair: u8) -> bool {
    let pair = u32::from(pair);
    (0..inst.src.len()).any(|n| {
        scalar(&inst.src[n]).is_some_and(|first| {
            let first = u32::from(first);
            first <= pair + 1 && pair < first + inst.src_width(n).max(1)
        })
    })
}
