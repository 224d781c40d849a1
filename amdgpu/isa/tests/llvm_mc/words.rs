//! Generates seeded instruction words: every opcode of every family, with random operands.

use fastrand::Rng;
use isa::Arch;

/// An encoding family: leading bits, the opcode field, and the layout of the second word.
struct Family {
    prefix: u32,
    prefix_bits: u32,
    opcode_low: u32,
    opcode_bits: u32,
    second: Second,
}

/// Layout of a second word.
#[derive(PartialEq)]
enum Second {
    None,
    /// Three 9-bit sources and modifiers.
    Sources,
    /// Four 8-bit register numbers.
    Registers,
}

use Second::{None, Registers, Sources};

const fn family(prefix: u32, prefix_bits: u32, opcode_low: u32, opcode_bits: u32, second: Second) -> Family {
    Family { prefix, prefix_bits, opcode_low, opcode_bits, second }
}

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    //     prefix      bits  opcode  second word
    family(0b10,          2, 23,  7, None), // SOP2
    family(0b1011,        4, 23,  5, None), // SOPK
    family(0b101111101,   9,  8,  8, None), // SOP1
    family(0b101111110,   9, 16,  7, None), // SOPC
    family(0b101111111,   9, 16,  7, None), // SOPP
    family(0b110000,      6, 18,  8, Registers), // SMEM
    family(0b0,           1, 25,  6, None), // VOP2
    family(0b0111111,     7,  9,  8, None), // VOP1
    family(0b0111110,     7, 17,  8, None), // VOPC
    family(0b110100,      6, 16, 10, Sources), // VOP3
    family(0b110100111,   9, 16,  7, Sources), // VOP3P
    family(0b110110,      6, 17,  8, Registers), // DS
    family(0b110111,      6, 18,  7, Registers), // FLAT
    family(0b111000,      6, 18,  7, Registers), // MUBUF
    family(0b111010,      6, 15,  4, Registers), // MTBUF
    family(0b111100,      6, 18,  7, Registers), // MIMG
    family(0b110001,      6,  0,  6, Registers), // EXP
    family(0b110101,      6, 16,  2, None), // VINTRP
];

/// Random words with a fixed seed: the same on every run.
pub struct Random(Rng);

impl Random {
    pub fn seeded(arch: Arch) -> Random {
        Random(Rng::with_seed(arch as u64))
    }

    pub fn next(&mut self) -> u32 {
        self.0.u32(..)
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.0.u32(..limit)
    }

    /// Random bits with some fields zero: many fields must be zero, or are valid only when small. Fields of `width` bits start at
    /// bit 0.
    fn sparse(&mut self, width: u32) -> u32 {
        let mut word = self.next();
        for low in (0..32).step_by(width as usize) {
            if self.below(2) == 0 {
                word &= !(((1u64 << width) - 1) as u32) << low | !(u32::MAX << low);
            }
        }
        word
    }

    /// A word of operands: sometimes fully random, sometimes sparse in nibbles, bytes or the 9-bit sources of VOP3.
    fn operands(&mut self) -> u32 {
        match self.below(8) {
            0 => self.next(),
            1 => 0,
            2 => self.below(256),
            3 => self.below(0x2_0000),
            4 => self.sparse(8),
            5 => self.sparse(9) & 0x07ff_ffff,
            _ => self.sparse(4),
        }
    }
}

/// First word of an opcode: the family's prefix, the opcode, and `fill` in all other bits.
fn first_word(family: &Family, opcode: u32, fill: u32) -> u32 {
    let own = u32::MAX >> family.prefix_bits;
    let opcode_mask = ((1 << family.opcode_bits) - 1) << family.opcode_low;
    fill & own & !opcode_mask | opcode << family.opcode_low | family.prefix << (32 - family.prefix_bits)
}

/// `rounds` words of every opcode of every family, and a tenth as many fully random words.
pub fn every_opcode(random: &mut Random, rounds: usize) -> Vec<[u32; 3]> {
    let mut words = Vec::new();
    for family in FAMILIES {
        // Two-word encodings have more fields to vary.
        let rounds = if family.second == None { rounds } else { 2 * rounds };
        for opcode in 0..1 << family.opcode_bits {
            words.push([first_word(family, opcode, 0), 0, 0]);
            for _ in 0..rounds {
                let fill = random.operands();
                words.push([first_word(family, opcode, fill), random.operands(), random.next()]);
            }
        }
    }
    for _ in 0..words.len() / 10 {
        words.push([random.next(), random.next(), random.next()]);
    }
    words
}

/// `rounds` words of every opcode with operands that assemblers accept: even registers, few modifiers. An opcode is skipped if
/// `is_known` accepts none of its first words.
pub fn every_opcode_well_formed(
    random: &mut Random,
    rounds: usize,
    is_known: impl Fn(&[u32; 3]) -> bool,
) -> Vec<[u32; 3]> {
    const TRIAL: usize = 24;
    let mut words = Vec::new();
    for family in FAMILIES.iter().filter(|family| family.second != None) {
        for opcode in 0..1 << family.opcode_bits {
            for round in 0..rounds {
                if round == TRIAL && !words[words.len() - TRIAL..].iter().any(&is_known) {
                    break;
                }
                let (fill, second) = match family.second {
                    Sources => three_sources(random, round),
                    _ => four_registers(random, round),
                };
                words.push([first_word(family, opcode, fill), second, random.next()]);
            }
        }
    }
    words
}

fn even_register(random: &mut Random) -> u32 {
    2 * random.below(48)
}

/// Fields of VOP3 and VOP3P. The first rounds use operands that some operations require.
fn three_sources(random: &mut Random, round: usize) -> (u32, u32) {
    match round {
        // One source, and the bits that compilers set anyway.
        0 => return (even_register(random) | 0x4000, 0x1800_0100 | even_register(random)),
        // Three vector registers, the last of which is the destination.
        1 => return (8, 0x108 << 18 | 0x104 << 9 | 0x102),
        // Two scalars.
        2 => return (even_register(random), 4 << 9 | 2),
        _ => {}
    }
    // Bits 14, 27 and 28 select the high halves of packed operations, bit 15 selects accumulators.
    let flags = [0, 0, 0x4000, 0x8000][random.below(4) as usize];
    let mut second = [0, 0x1800_0000][random.below(2) as usize];
    for at in 0..3 {
        let source = match random.below(6) {
            0 | 1 if at > 0 => 0,
            2 => even_register(random),
            3 => 128 + random.below(64),
            _ => 256 + even_register(random),
        };
        second |= source << (9 * at);
    }
    (even_register(random) | flags, second)
}

/// Fields of memory operations; the first rounds try each flag alone.
fn four_registers(random: &mut Random, round: usize) -> (u32, u32) {
    const FLAGS: [u32; 9] = [0, 0x8000, 0x4000, 0x1_0000, 0x2_0000, 0x0100, 0x0300, 0x0f00, 0x6000];
    if let Some(&flags) = FLAGS.get(round) {
        return (flags, 0);
    }
    let mut second = [0, 0x007f_0000][random.below(2) as usize];
    for at in 0..4 {
        if random.below(2) == 0 {
            second |= even_register(random) << (8 * at);
        }
    }
    let offset = [0, random.below(256)][random.below(2) as usize];
    (offset | FLAGS[random.below(9) as usize], second)
}

/// SDWA and DPP forms of every 32-bit vector operation, which random sources rarely produce.
pub fn every_selection(random: &mut Random, rounds: usize) -> Vec<[u32; 3]> {
    let mut words = Vec::new();
    let is_short_vector = |family: &&Family| family.prefix >> (family.prefix_bits - 1) == 0;
    for family in FAMILIES.iter().filter(is_short_vector) {
        for opcode in 0..1 << family.opcode_bits {
            for round in 0..rounds {
                let marker = if round % 2 == 0 { 249 } else { 250 };
                let first = first_word(family, opcode, random.next() & !0x1ff | marker);
                let second = [random.next(), random.sparse(4)][round / 2 % 2];
                let second = match round % 8 {
                    // The only DPP control that 64-bit operations support.
                    3 | 7 => second & !0x0001_ff00 | 0x0001_5000 | random.below(16) << 8,
                    // No second source, as VOP1 requires.
                    0 | 4 => second & 0x00ff_ffff,
                    _ => second,
                };
                words.push([first, second, random.next()]);
            }
        }
    }
    words
}

/// Operand numbers of a 9-bit source, one or more of each kind: scalar registers of every file, constants, hardware values, a
/// literal, a vector register.
const SOURCE_KINDS: &[u32] = &[
    2, 101, 102, 103, 104, 105, 106, 107, 108, 123, 124, 126, 127, 128, 129, 192, 193, 208, 235, 236, 237,
    238, 239, 240, 241, 242, 243, 244, 245, 246, 247, 248, 251, 252, 253, 254, 255, 256, 260,
];

/// Every kind of operand in every source of every operation that `is_known`, and every modifier bit of the 64-bit vector
/// encodings, one at a time with nothing else set.
pub fn every_operand(random: &mut Random, is_known: impl Fn(&[u32; 3]) -> bool) -> Vec<[u32; 3]> {
    let mut words = Vec::new();
    for family in FAMILIES.iter().filter(|family| family.second != Registers) {
        let wide = family.second == Sources;
        let scalar = family.prefix >> (family.prefix_bits - 1) == 1 && !wide;
        for opcode in 0..1 << family.opcode_bits {
            let literal = random.next();
            // Even register numbers, with the destination not among the sources; then operands that packed operations and lane
            // operations require.
            let bases: &[(u32, u32)] = match (wide, scalar) {
                (true, _) => &[
                    (8, 0x108 << 18 | 0x104 << 9 | 0x102),
                    (0x4008, 0x1800_0000 | 0x108 << 18 | 0x104 << 9 | 0x102),
                    (8, 4 << 9 | 0x102),
                    (8, 4 << 9 | 2),
                ],
                (_, true) => &[(0x0008_0402, 0)],
                _ => &[(8 << 17 | 2 << 9 | 0x104, 0)],
            };
            let words_of =
                |&(first, second): &(u32, u32)| [first_word(family, opcode, first), second, literal];
            let Some(base) = bases.iter().map(words_of).find(&is_known) else { continue };
            for &kind in SOURCE_KINDS {
                if wide {
                    for at in 0..3 {
                        words.push([base[0], base[1] & !(0x1ff << (9 * at)) | kind << (9 * at), base[2]]);
                    }
                } else if scalar {
                    let kind = kind & 0xff;
                    words.push([first_word(family, opcode, base[0] & !0xff | kind), base[1], base[2]]);
                    words.push([first_word(family, opcode, base[0] & !0xff00 | kind << 8), base[1], base[2]]);
                } else {
                    words.push([first_word(family, opcode, base[0] & !0x1ff | kind), base[1], base[2]]);
                }
            }
            if wide {
                for bit in 8..16 {
                    words.push([base[0] ^ 1 << bit, base[1], base[2]]);
                }
                for bit in 27..32 {
                    words.push([base[0], base[1] ^ 1 << bit, base[2]]);
                }
            }
        }
    }
    words
}
