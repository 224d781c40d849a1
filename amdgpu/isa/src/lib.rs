//! The gfx90a and gfx942 instruction sets: encodings, decoding, disassembly.
//!
//! Owns what the bits mean; refuses to know what executing them does. Encodings live in tables (`table/`), one aligned line each.

mod data_type;
mod decode;
mod inst;
mod table;
mod text;

pub use decode::{DecodeError, decode};
pub use data_type::{DataType, Element};
pub use inst::*;
pub use table::{ENCODINGS, Encoding, Flags, Op};
pub use text::disassemble;
