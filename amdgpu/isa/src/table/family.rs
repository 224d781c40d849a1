//! Encoding families, by the leading bits of the first word.

use crate::Format;

/// An encoding family. A word belongs to it if `word >> shift == prefix`.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    shift: u32,
    prefix: u32,
    /// Name for error messages about words that cannot be decoded.
    pub name: &'static str,
    /// `None` for families that neither architecture supports.
    pub format: Option<Format>,
    /// Lowest bit and width of the opcode field.
    opcode: (u32, u32),
}

impl Family {
    /// Returns the family of an instruction that starts with `word`.
    pub fn of(word: u32) -> &'static Family {
        FAMILIES.iter().find(|family| word >> family.shift == family.prefix).unwrap_or(&RESERVED)
    }

    pub const fn opcode(&self, word: u32) -> u32 {
        let (low, width) = self.opcode;
        word >> low & ((1 << width) - 1)
    }
}

const fn family(
    shift: u32,
    prefix: u32,
    name: &'static str,
    format: Option<Format>,
    low: u32,
    width: u32,
) -> Family {
    Family { shift, prefix, name, format, opcode: (low, width) }
}

/// Longer prefixes come first.
#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    //     shift prefix       name     format                 opcode
    family(25, 0b0111110,   "VOPC",  Some(Format::Vopc),  17,  8),
    family(25, 0b0111111,   "VOP1",  Some(Format::Vop1),   9,  8),
    family(31, 0b0,         "VOP2",  Some(Format::Vop2),  25,  6),
    family(23, 0b101111101, "SOP1",  Some(Format::Sop1),   8,  8),
    family(23, 0b101111110, "SOPC",  Some(Format::Sopc),  16,  7),
    family(23, 0b101111111, "SOPP",  Some(Format::Sopp),  16,  7),
    family(28, 0b1011,      "SOPK",  Some(Format::Sopk),  23,  5),
    family(30, 0b10,        "SOP2",  Some(Format::Sop2),  23,  7),
    family(26, 0b110000,    "SMEM",  Some(Format::Smem),  18,  8),
    family(23, 0b110100111, "VOP3P", Some(Format::Vop3p), 16,  7),
    family(26, 0b110100,    "VOP3",  Some(Format::Vop3),  16, 10),
    family(26, 0b110110,    "DS",    Some(Format::Ds),    17,  8),
    family(26, 0b110111,    "FLAT",  Some(Format::Flat),  18,  7),
    family(26, 0b111000,    "MUBUF", Some(Format::Mubuf), 18,  7),
    family(26, 0b111010,    "MTBUF", Some(Format::Mtbuf), 15,  4),
    family(26, 0b111100,    "MIMG",  Some(Format::Mimg),  18,  7),
    family(26, 0b110001,    "EXP",   None,                 0,  0),
    family(26, 0b110101,    "VINTRP", None,               16,  2),
];

const RESERVED: Family = family(0, 0, "reserved", None, 0, 0);
