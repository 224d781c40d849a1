//! Operations that cross lanes: votes and shuffles within a warp.

use lift::form::*;

use super::permutation::{Table, permute};
use super::prologue::{gather_bits, lane_number, warp_bit};
use crate::Mode;
use crate::generator::{Generator, Reason};
use crate::lane_map::LaneMap;

/// Writes an operation.
pub(crate) fn emit(g: &mut Generator<'_>, instruction: &Instruction) -> Result<(), Reason> {
    if g.mode == Mode::Lane {
        return in_lane_mode(g, instruction);
    }
    let first = instruction.operands[0];
    match &instruction.operation {
        Operation::Ballot => {
            let result = g.result(instruction.results[0], 0);
            let halves = [0, 1].map(|half| ballot(g, first, half));
            g.line(format!("mov.b64 {result}, {{{}, {}}}", halves[0], halves[1]));
            for (a, b) in g.map.exchanges() {
                exchange_index_bits(g, &result, a, b);
            }
        }
        Operation::MaskOf => mask_of(g, instruction),
        Operation::AnyLane => {
            let result = g.result(instruction.results[0], 0);
            let (a, b, either) = (g.operand(first, 0), g.operand(first, 1), g.predicate());
            g.line(format!("or.pred {either}, {a}, {b}"));
            g.line(format!("vote.sync.any.pred {result}, {either}, -1"));
        }
        // What is equal in all lanes need not be fetched.
        Operation::ReadLane | Operation::ReadFirstLane | Operation::Shuffle
            if g.function.shape(first) == Shape::Uniform =>
        {
            let (word, result) = (g.in_register(first, 0), instruction.results[0]);
            for half in 0..g.halves_of(result) {
                let to = g.result(result, half);
                g.line(format!("mov.b32 {to}, {word}"));
            }
        }
        Operation::ReadLane => {
            let result = g.result(instruction.results[0], 0);
            let words = [0, 1].map(|half| g.in_register(first, half));
            let index = instruction.operands[1];
            match g.function.constant(index) {
                Some(lane) => {
                    let (thread, half) = g.map.place(lane as u32 & 63);
                    g.line(format!("shfl.sync.idx.b32 {result}, {}, {thread}, 31, -1", words[half as usize]));
                }
                None => {
                    let index = g.operand(index, 0);
                    read_lane(g, &words, &index, &result);
                }
            }
        }
        Operation::ReadFirstLane => read_first_lane(g, instruction),
        Operation::Shuffle => {
            let words = [0, 1].map(|half| g.in_register(first, half));
            let result = instruction.results[0];
            for half in 0..g.halves_of(result) {
                let index = g.operand(instruction.operands[1], half);
                let to = g.result(result, half);
                read_lane(g, &words, &index, &to);
            }
        }
        Operation::Push => push(g, instruction),
        Operation::Move(pattern) => {
            let table = table(*pattern)?;
            let words = [0, 1].map(|half| g.in_register(first, half));
            let result = instruction.results[0];
            let moved = permute(g, [&words[0], &words[1]], &table);
            for (half, from) in moved.iter().enumerate().take(g.halves_of(result)) {
                let to = g.result(result, half);
                g.line(format!("mov.b32 {to}, {from}"));
            }
        }
        _ => return Err("not an operation that crosses lanes".into()),
    }
    Ok(())
}

/// What lane mode has: a mask is the thread's own bit.
fn in_lane_mode(g: &mut Generator<'_>, instruction: &Instruction) -> Result<(), Reason> {
    match instruction.operation {
        Operation::MaskOf => mask_of(g, instruction),
        _ => return Err("lane mode cannot cross lanes".into()),
    }
    Ok(())
}

/// The bits of a mask in one half of the threads.
fn ballot(g: &mut Generator<'_>, mask: Value, half: usize) -> String {
    let (bits, predicate) = (g.word(), g.operand(mask, half));
    g.line(format!("vote.sync.ballot.b32 {bits}, {predicate}, -1"));
    bits
}

/// Exchanges two bits of the index of every bit of a double.
fn exchange_index_bits(g: &mut Generator<'_>, double: &str, low: u8, high: u8) {
    // Bits whose index has the low bit set and the high bit clear change places with those `distance` further up.
    let mask: u64 = (0..64).filter(|at| at >> low & 1 == 1 && at >> high & 1 == 0).map(|at| 1u64 << at).sum();
    let distance = (1u32 << high) - (1 << low);
    let (shifted, differ, back) = (g.double(), g.double(), g.double());
    g.line(format!("shr.u64 {shifted}, {double}, {distance}"));
    g.line(format!("xor.b64 {differ}, {shifted}, {double}"));
    g.line(format!("and.b64 {differ}, {differ}, {mask:#x}"));
    g.line(format!("shl.b64 {back}, {differ}, {distance}"));
    g.line(format!("xor.b64 {double}, {double}, {differ}"));
    g.line(format!("xor.b64 {double}, {double}, {back}"));
}

fn mask_of(g: &mut Generator<'_>, instruction: &Instruction) {
    let result = instruction.results[0];
    let number = g.in_register(instruction.operands[0], 0);
    if g.mode == Mode::Pair && g.map == LaneMap::PLAIN {
        let (words, bit) = ([g.word(), g.word()], warp_bit(g));
        g.line(format!("mov.b64 {{{}, {}}}, {number}", words[0], words[1]));
        for (half, word) in words.iter().enumerate() {
            let (common, to) = (g.word(), g.result(result, half));
            g.line(format!("and.b32 {common}, {word}, {bit}"));
            g.line(format!("setp.ne.u32 {to}, {common}, 0"));
        }
        return;
    }
    for half in 0..g.halves(Shape::Lane) {
        let (lane, shifted, bit, to) = (lane_number(g, half), g.double(), g.double(), g.result(result, half));
        g.line(format!("shr.u64 {shifted}, {number}, {lane}"));
        g.line(format!("and.b64 {bit}, {shifted}, 1"));
        g.line(format!("setp.ne.u64 {to}, {bit}, 0"));
    }
}

/// The word of the lane that a register names.
fn read_lane(g: &mut Generator<'_>, words: &[String; 2], index: &str, result: &str) {
    let (thread, in_second) = locate(g, index);
    if words[0] == words[1] {
        // Both lanes of a thread share it.
        g.line(format!("shfl.sync.idx.b32 {result}, {}, {thread}, 31, -1", words[0]));
        return;
    }
    let parts = [g.word(), g.word()];
    for (part, word) in parts.iter().zip(words) {
        g.line(format!("shfl.sync.idx.b32 {part}, {word}, {thread}, 31, -1"));
    }
    g.line(format!("selp.b32 {result}, {}, {}, {in_second}", parts[1], parts[0]));
}

/// The thread of a lane, and whether it is in the second half.
fn locate(g: &mut Generator<'_>, lane: &str) -> (String, String) {
    let (bit, in_second) = (g.word(), g.predicate());
    g.line(format!("and.b32 {bit}, {lane}, {}", 1u32 << g.map.half_bit()));
    g.line(format!("setp.ne.u32 {in_second}, {bit}, 0"));
    if g.map == LaneMap::PLAIN {
        // The shuffle takes the low five bits.
        return (lane.to_owned(), in_second);
    }
    let mut bits = [None; 5];
    for (to, from) in g.map.thread_bits().iter().enumerate() {
        if let Some(thread_bit) = from {
            bits[usize::from(*thread_bit)] = Some((to as u8, false));
        }
    }
    (gather_bits(g, lane, &bits, 0), in_second)
}

fn read_first_lane(g: &mut Generator<'_>, instruction: &Instruction) {
    let [word, mask] = [instruction.operands[0], instruction.operands[1]];
    let result = g.result(instruction.results[0], 0);
    let words = [0, 1].map(|half| g.in_register(word, half));
    if g.function.constant(mask).is_some() {
        // All lanes, or none, for which lane 0 stands.
        g.line(format!("shfl.sync.idx.b32 {result}, {}, 0, 31, -1", words[0]));
        return;
    }
    // The smallest number of a lane of the mask.
    let mut least = "64".to_owned();
    for half in [1, 0] {
        let (lane, predicate, next) = (lane_number(g, half), g.operand(mask, half), g.word());
        if g.map == LaneMap::PLAIN || half == 1 {
            g.line(format!("selp.b32 {next}, {lane}, {least}, {predicate}"));
        } else {
            let mine = g.word();
            g.line(format!("selp.b32 {mine}, {lane}, 64, {predicate}"));
            g.line(format!("min.u32 {next}, {mine}, {least}"));
        }
        least = next;
    }
    let first = g.word();
    g.line(format!("redux.sync.min.u32 {first}, {least}, -1"));
    // 64 stands for no lane: lane 0, which is what its low bits say.
    read_lane(g, &words, &first, &result);
}

/// A loop over all lanes: each lane remembers the last one that names it.
fn push(g: &mut Generator<'_>, instruction: &Instruction) {
    let [word, index, mask] = [instruction.operands[0], instruction.operands[1], instruction.operands[2]];
    let words = [0, 1].map(|half| g.in_register(word, half));
    let targets = [0, 1].map(|half| {
        let (target, wanted) = (g.operand(index, half), g.operand(mask, half));
        let (low, masked) = (g.word(), g.word());
        g.line(format!("and.b32 {low}, {target}, 63"));
        g.line(format!("selp.b32 {masked}, {low}, 64, {wanted}"));
        masked
    });
    let lanes = [0, 1].map(|half| lane_number(g, half));
    let sources = [g.word(), g.word()];
    let (counter, target) = (g.word(), g.word());
    for source in &sources {
        g.line(format!("mov.b32 {source}, -1"));
    }
    g.line(format!("mov.b32 {counter}, 0"));
    let again = g.label("PUSH");
    g.place(&again);
    read_lane(g, &targets, &counter, &target);
    for (source, lane) in sources.iter().zip(&lanes) {
        let mine = g.predicate();
        g.line(format!("setp.eq.u32 {mine}, {target}, {lane}"));
        g.line(format!("selp.b32 {source}, {counter}, {source}, {mine}"));
    }
    let more = g.predicate();
    g.line(format!("add.u32 {counter}, {counter}, 1"));
    g.line(format!("setp.lt.u32 {more}, {counter}, 64"));
    g.line(format!("@{more} bra.uni {again}"));
    for (half, source) in sources.iter().enumerate() {
        let (found, some, to) = (g.word(), g.predicate(), g.result(instruction.results[0], half));
        read_lane(g, &words, source, &found);
        g.line(format!("setp.ge.s32 {some}, {source}, 0"));
        g.line(format!("selp.b32 {to}, {found}, 0, {some}"));
    }
}

/// Source lanes of a pattern.
fn table(pattern: Pattern) -> Result<Table, Reason> {
    let mut table = [None; 64];
    for lane in 0..64u8 {
        table[usize::from(lane)] = match pattern {
            Pattern::Dpp(control) => dpp(control, lane)?,
            Pattern::Swizzle(pattern) => Some(swizzle(pattern.into(), lane.into())?),
        };
    }
    Ok(table)
}

fn dpp(control: u16, lane: u8) -> Result<Option<u8>, Reason> {
    let (row, column, count) = (lane & !15, lane & 15, (control & 15) as u8);
    Ok(match control {
        // quad_perm
        0x000..=0x0ff => Some(lane & !3 | (control >> (2 * (lane & 3)) & 3) as u8),
        // row_shl, row_shr, row_ror
        0x101..=0x10f => (column + count < 16).then_some(lane.wrapping_add(count)),
        0x111..=0x11f => (column >= count).then(|| lane - count),
        0x121..=0x12f => Some(row | (column + 16 - count) & 15),
        // wave_shl:1, wave_rol:1, wave_shr:1, wave_ror:1
        0x130 => (lane < 63).then_some(lane + 1),
        0x134 => Some((lane + 1) & 63),
        0x138 => lane.checked_sub(1),
        0x13c => Some(lane.wrapping_sub(1) & 63),
        // row_mirror, row_half_mirror
        0x140 => Some(row | (15 - column)),
        0x141 => Some(lane & !7 | (7 - (lane & 7))),
        // row_bcast:15, row_bcast:31
        0x142 => row.checked_sub(1),
        0x143 => (lane >= 32).then_some(31),
        // row_newbcast
        0x150..=0x15f => Some(row | count),
        _ => return Err(format!("DPP control {control:#x}")),
    })
}

fn swizzle(pattern: u32, lane: u32) -> Result<u8, Reason> {
    let within = lane & 31;
    let source = match pattern {
        0xe000.. => return Err("the FFT patterns of ds_swizzle_b32".into()),
        0xc000..=0xdfff => {
            let (mask, count) = (pattern & 31, pattern >> 5 & 31);
            let turned =
                if pattern >> 10 & 1 == 0 { within.wrapping_add(count) } else { within.wrapping_sub(count) };
            within & mask | turned & !mask & 31
        }
        0x8000..=0xbfff => within & !3 | pattern >> (2 * (within & 3)) & 3,
        _ => (within & pattern & 31 | pattern >> 5 & 31) ^ pattern >> 10 & 31,
    };
    Ok((lane & 32 | source) as u8)
}
