//! Moves between lanes whose sources are known at translation.

use crate::generator::Generator;

use super::prologue::{gather_bits, warp_bit, warp_thread};

/// Source lane of every lane, or none for a zero.
pub(crate) type Table = [Option<u8>; 64];

/// Moves a word between lanes: `from` are the two halves of the operand. Returns the two halves of the result.
pub(crate) fn permute(g: &mut Generator<'_>, from: [&str; 2], table: &Table) -> [String; 2] {
    [0u32, 1].map(|half| one(g, from, table, half))
}

/// The threads of a half that read from a half, and where.
#[derive(Clone, Debug, Default)]
struct Part {
    threads: u32,
    sources: [u8; 32],
}

fn one(g: &mut Generator<'_>, from: [&str; 2], table: &Table, half: u32) -> String {
    let mut parts = [Part::default(), Part::default()];
    for thread in 0..32 {
        if let Some(source) = table[g.map.lane(thread, half) as usize] {
            let (at, of) = g.map.place(u32::from(source));
            parts[of as usize].threads |= 1 << thread;
            parts[of as usize].sources[thread as usize] = at as u8;
        }
    }
    let covered = parts[0].threads | parts[1].threads;
    let mut value: Option<String> = None;
    for (part, word) in parts.iter().zip(from) {
        if part.threads == 0 {
            continue;
        }
        let moved = fetch(g, word, part);
        value = Some(match value {
            None => moved,
            Some(other) => {
                let (mine, chosen) = (threads(g, part.threads), g.word());
                g.line(format!("selp.b32 {chosen}, {moved}, {other}, {mine}"));
                chosen
            }
        });
    }
    match value {
        None => "0".to_owned(),
        Some(value) if covered == u32::MAX => value,
        Some(value) => {
            let (inside, result) = (threads(g, covered), g.word());
            g.line(format!("selp.b32 {result}, {value}, 0, {inside}"));
            result
        }
    }
}

/// A predicate that holds in the threads of a set.
pub(crate) fn threads(g: &mut Generator<'_>, set: u32) -> String {
    if set == u32::MAX {
        return "%true".to_owned();
    }
    let bit = warp_bit(g);
    let (common, inside) = (g.word(), g.predicate());
    g.line(format!("and.b32 {common}, {bit}, {set:#x}"));
    g.line(format!("setp.ne.u32 {inside}, {common}, 0"));
    inside
}

/// The word of each thread's source thread. Threads outside of the part get anything.
fn fetch(g: &mut Generator<'_>, word: &str, part: &Part) -> String {
    let members: Vec<u32> = (0..32).filter(|thread| part.threads >> thread & 1 == 1).collect();
    let source = |thread: &u32| u32::from(part.sources[*thread as usize]);
    if members.iter().all(|thread| source(thread) == *thread) {
        return word.to_owned();
    }
    let result = g.word();
    let shuffle = |g: &mut Generator<'_>, kind: &str, by: &str| {
        g.line(format!("shfl.sync.{kind}.b32 {result}, {word}, {by}, 31, -1"));
    };
    let first = members[0];
    let flip = source(&first) ^ first;
    if members.iter().all(|thread| source(thread) ^ thread == flip) {
        shuffle(g, "bfly", &flip.to_string());
        return result;
    }
    if members.iter().all(|thread| source(thread) == source(&first)) {
        shuffle(g, "idx", &source(&first).to_string());
        return result;
    }
    let thread = warp_thread(g);
    let delta = source(&first).wrapping_sub(first);
    if members.iter().all(|thread| source(thread).wrapping_sub(*thread) == delta) {
        let index = g.word();
        g.line(format!("add.u32 {index}, {thread}, {}", delta as i32));
        shuffle(g, "idx", &index);
        return result;
    }
    // Every bit of the source is a bit of the thread's number, inverted or not, or constant.
    let mut start = 0;
    let mut bits = [None; 5];
    let linear = (0..5u8).all(|to| {
        let of = |thread: &u32| source(thread) >> to & 1;
        if members.iter().all(|thread| of(thread) == of(&first)) {
            start |= of(&first) << to;
            return true;
        }
        for bit in 0..5u8 {
            for inverted in [false, true] {
                if members.iter().all(|thread| of(thread) == (thread >> bit & 1) ^ u32::from(inverted)) {
                    bits[usize::from(to)] = Some((bit, inverted));
                    return true;
                }
            }
        }
        false
    });
    if linear {
        let index = gather_bits(g, &thread, &bits, start);
        shuffle(g, "idx", &index);
        return result;
    }
    // Two words of nibbles for each bit group would be more; a table of bits is simple: bit `to` of thread's source is bit
    // `thread` of a word.
    let index = g.word();
    g.line(format!("mov.b32 {index}, 0"));
    for to in 0..5 {
        let table: u32 = members.iter().map(|thread| (source(thread) >> to & 1) << thread).sum();
        let bit = g.word();
        g.line(format!("shr.u32 {bit}, {table:#x}, {thread}"));
        g.line(format!("and.b32 {bit}, {bit}, 1"));
        g.line(format!("mad.lo.u32 {index}, {bit}, {}, {index}", 1 << to));
    }
    shuffle(g, "idx", &index);
    result
}
