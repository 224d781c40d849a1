//! The gfx90a and gfx942 instruction sets: encodings, decoder, disassembler.
//!
//! Defines the meaning of the bits, not the execution. The encodings are in tables (`table/`), one aligned line each.

#![warn(missing_docs)]

mod constant;
mod data_type;
mod decode;
mod inst;
mod mode;
mod table;
mod text;

pub use data_type::{DataType, Element};
pub use decode::{DecodeError, decode};
pub use inst::*;
pub use mode::Mode;
pub use table::{AccessKind, ENCODINGS, Encoding, Flags, MemoryAccess, Op};
pub use text::disassemble;

/// Decodes and disassembles a byte stream for both architectures: the body of the fuzz target.
pub fn exercise(bytes: &[u8]) {
    for arch in [Arch::Gfx90a, Arch::Gfx942] {
        let mut offset = 0;
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            let Ok(inst) = decode(arch, rest) else {
                offset += 4;
                continue;
            };
            let size = usize::from(inst.size);
            assert!(size <= rest.len() && matches!(size, 4 | 8 | 12));
            assert!(!disassemble(arch, &inst, offset as u64).is_empty());
            assert!(inst.dst_width() <= 32 && (0..4).all(|index| inst.src_width(index) <= 32));
            offset += size;
        }
    }
}
