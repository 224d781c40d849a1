//! Decoder from bytes to [`Inst`]. Strict: a set bit that belongs to no field of the encoding makes the instruction unknown.

mod memory;
mod operand;
mod scalar;
mod vector;

use crate::table::{Encoding, Family, lookup};
use crate::{Arch, Format, Inst, MemoryBits, Modifiers, Operand};

/// Error of decoding an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The code ends inside the instruction.
    #[error("instruction needs {needed} bytes, {available} are left")]
    Truncated {
        /// Size of the instruction in bytes.
        needed: usize,
        /// Bytes left.
        available: usize,
    },
    /// No instruction of the architecture has this encoding.
    #[error("unknown {format} instruction {:#010x} {:#010x}", words[0], words[1])]
    Unknown {
        /// The encoding family, as named in AMD's manuals.
        format: &'static str,
        /// The first two words; the second is zero at the end of the code.
        words: [u32; 2],
    },
}

/// Decodes the instruction at the start of `bytes`. Reads at most 12 bytes.
pub fn decode(arch: Arch, bytes: &[u8]) -> Result<Inst, DecodeError> {
    let mut code = Code { bytes, used: 0 };
    let word = code.word()?;
    let family = Family::of(word);
    let decoded = (|| {
        let opcode = family.opcode(word);
        let row = |format| lookup(arch, format, opcode).ok_or(Fault::Unknown);
        let format = family.format.ok_or(Fault::Unknown)?;
        match format {
            Format::Sop1 => scalar::sop1(row(format)?, word, &mut code),
            Format::Sop2 => scalar::sop2(row(format)?, word, &mut code),
            Format::Sopc => scalar::sopc(row(format)?, word, &mut code),
            Format::Sopk => scalar::sopk(row(format)?, word, &mut code),
            Format::Sopp => scalar::sopp(row(format)?, word),
            Format::Smem => scalar::smem(row(format)?, word, &mut code),
            Format::Vop1 => vector::vop1(row(format)?, word, &mut code),
            Format::Vop2 => vector::vop2(row(format)?, word, &mut code),
            Format::Vopc => vector::vopc(row(format)?, word, &mut code),
            Format::Vop3 => vector::vop3(row(format)?, word, &mut code),
            Format::Vop3p => vector::vop3p(row(format)?, word, &mut code),
            Format::Ds => memory::ds(row(format)?, word, &mut code),
            Format::Flat | Format::Global | Format::Scratch => {
                let format = memory::flat_segment(word).ok_or(Fault::Unknown)?;
                memory::flat(arch, row(format)?, word, &mut code)
            }
            Format::Mubuf => memory::mubuf(arch, row(format)?, word, &mut code),
            Format::Mtbuf => memory::mtbuf(row(format)?, word, &mut code),
            Format::Mimg => memory::mimg(row(format)?, word, &mut code),
            Format::Exp => Err(Fault::Unknown),
        }
    })();
    match decoded {
        Ok(inst) => Ok(Inst { size: code.used as u8, ..inst }),
        Err(Fault::Truncated(error)) => Err(error),
        Err(Fault::Unknown) => {
            let second = Code { bytes, used: 4 }.word().unwrap_or(0);
            Err(DecodeError::Unknown { format: family.name, words: [word, second] })
        }
    }
}

/// Why the decoder of a family failed.
enum Fault {
    Unknown,
    Truncated(DecodeError),
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Fault {
        Fault::Truncated(error)
    }
}

type Decoded<T = Inst> = Result<T, Fault>;

/// The bytes at the program counter, and the number used so far.
struct Code<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl Code<'_> {
    fn word(&mut self) -> Result<u32, DecodeError> {
        let needed = self.used + 4;
        let word = self.bytes.get(self.used..needed).and_then(|bytes| bytes.try_into().ok());
        let word = word.ok_or(DecodeError::Truncated { needed, available: self.bytes.len() })?;
        self.used = needed;
        Ok(u32::from_le_bytes(word))
    }
}

/// An instruction of this row with no fields set yet.
fn blank(row: &Encoding, format: Format) -> Inst {
    Inst {
        op: row.op,
        format,
        size: 0,
        dst: Operand::None,
        sdst: Operand::None,
        src: [Operand::None; 4],
        imm: 0,
        modifiers: Modifiers::default(),
        memory: MemoryBits::default(),
        dpp: None,
        sdwa: None,
    }
}

/// Extracts `width` bits of `word` from bit `low`.
fn field(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1 << width) - 1)
}

fn bit(word: u32, index: u32) -> bool {
    word >> index & 1 != 0
}

/// Fails with `Unknown` unless `condition` holds.
fn require(condition: bool) -> Decoded<()> {
    if condition { Ok(()) } else { Err(Fault::Unknown) }
}
