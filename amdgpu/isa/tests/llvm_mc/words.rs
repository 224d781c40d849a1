//! Seeded instruction words: every opcode of every family, with random operands.

use isa::Arch;

/// A family of encodings: leading bits, the opcode field, and how many words carry fields.
struct Family {
    prefix: u32,
    prefix_bits: u32,
    opcode_low: u32,
    opcode_bits: u32,
    long: bool,
}

const fn family(prefix: u32, prefix_bits: u32, opcode_low: u32, opcode_bits: u32, long: bool) -> Family {
    Family { prefix, prefix_bits, opcode_low, opcode_bits, long }
}

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    //     prefix      bits  opcode  long
    family(0b10,          2, 23,  7, false), // SOP2
    family(0b1011,        4, 23,  5, false), // SOPK
    family(0b101111101,   9,  8,  8, false), // SOP1
    family(0b101111110,   9, 16,  7, false), // SOPC
    family(0b101111111,   9, 16,  7, false), // SOPP
    family(0b110000,      6, 18,  8, true),  // SMEM
    family(0b0,           1, 25,  6, false), // VOP2
    family(0b0111111,     7,  9,  8, false), // VOP1
    family(0b0111110,     7, 17,  8, false), // VOPC
    family(0b110100,      6, 16, 10, true),  // VOP3
    family(0b110100111,   9, 16,  7, true),  // VOP3P
    family(0b110110,      6, 17,  8, true),  // DS
    family(0b110111,      6, 18,  7, true),  // FLAT
    family(0b11011100,    8, 14,  2, true),  // FLAT, by segment
    family(0b111000,      6, 18,  7, true),  // MUBUF
    family(0b111010,      6, 15,  4, true),  // MTBUF
    family(0b111100,      6, 18,  7, true),  // MIMG
    family(0b110001,      6,  0,  6, true),  // EXP
    family(0b110101,      6, 16,  2, false), // VINTRP
];

/// A small generator with a fixed seed: the same words on every run.
pub struct Random(u64);

impl Random {
    pub fn seeded(arch: Arch) -> Random {
        Random(0x9e37_79b9_7f4a_7c15 ^ arch as u64)
    }

    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.next() % limit
    }

    /// Random bits, some nibbles of which are zero: many fields must be zero, or make sense only when small.
    fn sparse(&mut self) -> u32 {
        let mut word = self.next();
        for nibble in 0..8 {
            if self.below(2) == 0 {
                word &= !(0xf << (4 * nibble));
            }
        }
        word
    }
}

/// `rounds` words of every opcode of every family, and as many wholly random ones.
pub fn every_opcode(random: &mut Random, rounds: usize) -> Vec<[u32; 3]> {
    let mut words = Vec::new();
    for family in FAMILIES {
        let own = (1u64 << (32 - family.prefix_bits)) as u32;
        let own = own.wrapping_sub(1);
        let opcode_mask = ((1u32 << family.opcode_bits) - 1) << family.opcode_low;
        for opcode in 0..1 << family.opcode_bits {
            for round in 0..rounds {
                let fill = if round % 2 == 0 { random.sparse() } else { random.next() };
                let mut first = fill & own & !opcode_mask;
                first |= opcode << family.opcode_low;
                first |= family.prefix << (32 - family.prefix_bits);
                let mut second = if round % 4 < 3 { random.sparse() } else { random.next() };
                if family.long && round % 8 == 5 {
                    // Vector registers in all three sources, no modifiers.
                    second = second & 0x03ff_ffff | 0x0402_0100;
                }
                if family.long && round % 8 == 7 {
                    first &= !0xff00 | opcode_mask;
                }
                words.push([first, second, random.next()]);
            }
        }
    }
    let guided = words.len();
    for _ in 0..guided / 10 {
        words.push([random.next(), random.next(), random.next()]);
    }
    words
}

/// The SDWA and DPP forms of every short vector operation, which random sources rarely hit.
pub fn every_selection(random: &mut Random, rounds: usize) -> Vec<[u32; 3]> {
    let mut words = Vec::new();
    for family in FAMILIES.iter().filter(|family| family.prefix >> (family.prefix_bits - 1) == 0) {
        for opcode in 0..1u32 << family.opcode_bits {
            for round in 0..rounds {
                let marker = if round % 2 == 0 { 249 } else { 250 };
                let own = ((1u64 << (32 - family.prefix_bits)) - 1) as u32;
                let opcode_mask = ((1u32 << family.opcode_bits) - 1) << family.opcode_low;
                let first = random.next() & own & !opcode_mask & !0x1ff | marker;
                let first = first | opcode << family.opcode_low | family.prefix << (32 - family.prefix_bits);
                let sparse = [random.next(), random.sparse()][round / 2 % 2];
                // Half of the DPP controls are the one that 64-bit operations take.
                let second = match round % 8 {
                    3 | 7 => sparse & !0x0001_ff00 | 0x0001_5000 | random.below(16) << 8,
                    0 | 4 => sparse & 0x00ff_ffff,
                    _ => sparse,
                };
                words.push([first, second, random.next()]);
            }
        }
    }
    words
}
