//! Encoding tables: one aligned line per encoding, and the lookup functions.
//!
//! Each table is a macro that passes its rows to the next one. The last one receives all rows and generates the [`Op`]
//! enumeration and [`ENCODINGS`] from them, so that every mnemonic is written only once.

#[macro_use]
mod ds;
#[macro_use]
mod flat;
#[macro_use]
mod global;
#[macro_use]
mod mimg;
#[macro_use]
mod mtbuf;
#[macro_use]
mod mubuf;
#[macro_use]
mod scratch;
#[macro_use]
mod smem;
#[macro_use]
mod sop1;
#[macro_use]
mod sop2;
#[macro_use]
mod sopc;
#[macro_use]
mod sopk;
#[macro_use]
mod sopp;
#[macro_use]
mod vop1;
#[macro_use]
mod vop2;
#[macro_use]
mod vop3;
#[macro_use]
mod vop3p;
#[macro_use]
mod vopc;

mod fact;
mod family;
mod flag;

pub use fact::{AccessKind, MemoryAccess};
pub use family::Family;
pub use flag::Flags;

use crate::{Arch, DataType, Format};

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    /// The operation.
    pub op: Op,
    /// The table that contains the row: the shortest form of the operation.
    pub format: Format,
    gfx90a: u16,
    gfx942: u16,
    /// Type of the destination; for scalar memory, of the data.
    pub dst: DataType,
    /// Types of the sources, in the order documented at [`crate::Inst`].
    pub src: [DataType; 4],
    /// Encoding and behaviour flags.
    pub flags: Flags,
}

impl Encoding {
    /// Opcode on `arch`, if the operation exists there.
    pub const fn opcode(&self, arch: Arch) -> Option<u16> {
        let opcode = match arch {
            Arch::Gfx90a => self.gfx90a,
            Arch::Gfx942 => self.gfx942,
        };
        if opcode == ABSENT { None } else { Some(opcode) }
    }

    /// Number of sources.
    pub const fn source_count(&self) -> usize {
        let mut count = 0;
        while count < self.src.len() && !matches!(self.src[count], DataType::None) {
            count += 1;
        }
        count
    }
}

/// Row of an operation.
pub fn encoding(op: Op) -> &'static Encoding {
    &ENCODINGS[op as usize]
}

/// Row with this opcode in the opcode space of `format`. That of [`Format::Vop3`] includes the 64-bit forms of VOP1, VOP2 and
/// VOPC.
pub fn lookup(arch: Arch, format: Format, opcode: u32) -> Option<&'static Encoding> {
    static GFX90A: Lookup = Lookup::new(Arch::Gfx90a);
    static GFX942: Lookup = Lookup::new(Arch::Gfx942);
    let lookup = match arch {
        Arch::Gfx90a => &GFX90A,
        Arch::Gfx942 => &GFX942,
    };
    let row = *lookup.0[format as usize].get(opcode as usize)?;
    ENCODINGS.get(row as usize)
}

const ABSENT: u16 = u16::MAX;

/// Offset of the 64-bit forms of a 32-bit format in the opcode space of VOP3.
const fn e64_base(format: Format) -> Option<u16> {
    match format {
        Format::Vopc => Some(0x000),
        Format::Vop2 => Some(0x100),
        Format::Vop1 => Some(0x140),
        _ => None,
    }
}

/// Row numbers by format and opcode.
struct Lookup([[u16; 1024]; Format::Exp as usize]);

impl Lookup {
    const fn new(arch: Arch) -> Lookup {
        let mut rows = [[ABSENT; 1024]; Format::Exp as usize];
        let mut row = 0;
        while row < ENCODINGS.len() {
            let encoding = &ENCODINGS[row];
            if let Some(opcode) = encoding.opcode(arch) {
                rows[encoding.format as usize][opcode as usize] = row as u16;
                if let Some(base) = e64_base(encoding.format)
                    && !encoding.flags.has(Flags::NO_E64)
                {
                    rows[Format::Vop3 as usize][(base + opcode) as usize] = row as u16;
                }
            }
            row += 1;
        }
        Lookup(rows)
    }
}

macro_rules! opcode {
    (-) => {
        ABSENT
    };
    ($opcode:literal) => {
        $opcode
    };
}

macro_rules! data_type {
    (_) => {
        DataType::None
    };
    ($name:ident) => {
        DataType::$name
    };
}

macro_rules! sources {
    ($a:tt $b:tt $c:tt $d:tt $($rest:tt)*) => {
        [data_type!($a), data_type!($b), data_type!($c), data_type!($d)]
    };
}

macro_rules! define_ops {
    ($([$format:ident {$(
        $gfx90a:tt $gfx942:tt $name:ident $dst:tt [$($src:tt)*] {$($flag:ident)*}
    )*}])*) => {
        /// A mnemonic without its encoding suffix (`_e32`, `_e64`, `_dpp`, `_sdwa`).
        #[expect(missing_docs, reason = "variants are the vendor's mnemonics")]
        #[expect(non_camel_case_types, reason = "variants are the vendor's mnemonics, letter for letter")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op { $($($name,)*)* }

        impl Op {
            /// Every operation of both architectures.
            pub const ALL: &[Op] = &[$($(Op::$name,)*)*];

            /// The mnemonic.
            pub const fn name(self) -> &'static str {
                const NAMES: &[&str] = &[$($(stringify!($name),)*)*];
                NAMES[self as usize]
            }
        }

        /// Every row, in the order of [`Op`].
        pub static ENCODINGS: &[Encoding] = &[$($(Encoding {
            op: Op::$name,
            format: Format::$format,
            gfx90a: opcode!($gfx90a),
            gfx942: opcode!($gfx942),
            dst: data_type!($dst),
            src: sources!($($src)* _ _ _ _),
            flags: Flags::EMPTY$(.union(Flags::$flag))*,
        },)*)*];
    };
}

sop1! {
    sop2 sopc sopk sopp smem
    vop1 vop2 vopc vop3 vop3p
    ds flat global scratch mubuf mtbuf mimg
    define_ops
}

impl Op {
    /// Returns the operation with this mnemonic.
    pub fn from_name(name: &str) -> Option<Op> {
        use std::{collections::HashMap, sync::LazyLock};
        static BY_NAME: LazyLock<HashMap<&'static str, Op>> =
            LazyLock::new(|| Op::ALL.iter().map(|&op| (op.name(), op)).collect());
        BY_NAME.get(name).copied()
    }

    /// Row in the encoding tables.
    pub fn encoding(self) -> &'static Encoding {
        encoding(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enumeration() {
        for (index, row) in ENCODINGS.iter().enumerate() {
            assert_eq!(row.op as usize, index);
            assert_eq!(Op::from_name(row.op.name()), Some(row.op));
        }
    }

    #[test]
    fn every_row_is_found_by_its_opcode() {
        for row in ENCODINGS {
            let mut found = 0;
            for arch in [Arch::Gfx90a, Arch::Gfx942] {
                let Some(opcode) = row.opcode(arch) else { continue };
                assert_eq!(lookup(arch, row.format, opcode.into()).map(|r| r.op), Some(row.op));
                found += 1;
            }
            assert!(found > 0, "{} exists nowhere", row.op.name());
        }
    }

    #[test]
    fn opcodes_are_unique_within_a_format() {
        for arch in [Arch::Gfx90a, Arch::Gfx942] {
            let mut seen = std::collections::HashSet::new();
            for row in ENCODINGS {
                if let Some(opcode) = row.opcode(arch) {
                    assert!(seen.insert((row.format, opcode)), "{} has a twin", row.op.name());
                }
            }
        }
    }
}
