//! Machine code as it is put together: instructions in order, labels, and the constants they refer to.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Instruction, InstructionBlock, MemoryOperand, Register,
};

/// Why a block could not be assembled. It then stays with micro-ops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("an instruction cannot be encoded")]
    Encoding(#[from] iced_x86::IcedError),
}

/// A place that is jumped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(u64);

/// The last operand of a vector instruction: a register, or memory (broadcast if it is one element).
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    Zmm(u8),
    Memory(MemoryOperand),
}

/// Instructions in the making.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    labels: u64,
    /// The label the next instruction is at.
    pending: Option<Label>,
    /// Constants, addressed from [`POOL`].
    pool: Vec<u32>,
    error: Option<Error>,
}

/// The register that points to the constants.
pub const POOL: Register = Register::R10;

/// Where labels are numbered from; instructions without one are at zero.
const FIRST_LABEL: u64 = 1 << 32;

pub fn zmm(n: u8) -> Register {
    Register::ZMM0 + u32::from(n)
}

pub fn xmm(n: u8) -> Register {
    Register::XMM0 + u32::from(n)
}

pub fn ymm(n: u8) -> Register {
    Register::YMM0 + u32::from(n)
}

pub fn k(n: u8) -> Register {
    Register::K0 + u32::from(n)
}

/// `[base + displacement]`.
pub fn at(base: Register, displacement: i64) -> MemoryOperand {
    MemoryOperand::new(base, Register::None, 1, displacement, 1, false, Register::None)
}

/// `[base + displacement]`, one element for all lanes.
pub fn broadcast(base: Register, displacement: i64) -> MemoryOperand {
    MemoryOperand::new(base, Register::None, 1, displacement, 1, true, Register::None)
}

impl Assembler {
    /// Adds an instruction; a failure is kept for [`Assembler::finish`].
    pub fn push(&mut self, instruction: Result<Instruction, iced_x86::IcedError>) {
        match instruction {
            Ok(mut instruction) => {
                if let Some(Label(place)) = self.pending.take() {
                    instruction.set_ip(place);
                }
                self.instructions.push(instruction);
            }
            Err(error) => self.error = self.error.take().or(Some(error.into())),
        }
    }

    /// Adds an instruction under a mask; lanes without a bit keep the destination, or become zero.
    pub fn push_masked(
        &mut self,
        mask: u8,
        zeroing: bool,
        instruction: Result<Instruction, iced_x86::IcedError>,
    ) {
        self.push(instruction.map(|mut instruction| {
            instruction.set_op_mask(k(mask));
            instruction.set_zeroing_masking(zeroing);
            instruction
        }));
    }

    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(FIRST_LABEL + self.labels)
    }

    /// The next instruction is at `label`. Two labels at one place are not needed, so not provided for.
    pub fn place(&mut self, label: Label) {
        if self.pending.is_some() {
            self.push(Ok(Instruction::with(Code::Nopd)));
        }
        self.pending = Some(label);
    }

    pub fn jump(&mut self, code: Code, Label(target): Label) {
        self.push(Instruction::with_branch(code, target));
    }

    /// A constant for all lanes.
    pub fn constant(&mut self, value: u32) -> MemoryOperand {
        let place = self.pool.iter().position(|other| *other == value).unwrap_or_else(|| {
            self.pool.push(value);
            self.pool.len() - 1
        });
        broadcast(POOL, 4 * place as i64)
    }

    /// A 64-bit constant for all lanes.
    pub fn constant_64(&mut self, value: u64) -> MemoryOperand {
        let parts = [value as u32, (value >> 32) as u32];
        let found = self.pool.windows(2).position(|pair| pair == parts);
        let place = found.unwrap_or_else(|| {
            self.pool.extend(parts);
            self.pool.len() - 2
        });
        broadcast(POOL, 4 * place as i64)
    }

    /// Sixteen constants, one per lane.
    pub fn constants(&mut self, values: [u32; 16]) -> MemoryOperand {
        let found = self.pool.windows(16).position(|run| run == values);
        let place = found.unwrap_or_else(|| {
            self.pool.extend(values);
            self.pool.len() - 16
        });
        at(POOL, 4 * place as i64)
    }

    /// `code dst, a, b`.
    pub fn op3(&mut self, code: Code, dst: u8, a: u8, b: Arg) {
        let instruction = match b {
            Arg::Zmm(b) => Instruction::with3(code, zmm(dst), zmm(a), zmm(b)),
            Arg::Memory(b) => Instruction::with3(code, zmm(dst), zmm(a), b),
        };
        self.push(instruction);
    }

    /// `code dst, a, b, immediate`.
    pub fn op3_imm(&mut self, code: Code, dst: u8, a: u8, b: Arg, immediate: u32) {
        let instruction = match b {
            Arg::Zmm(b) => Instruction::with4(code, zmm(dst), zmm(a), zmm(b), immediate),
            Arg::Memory(b) => Instruction::with4(code, zmm(dst), zmm(a), b, immediate),
        };
        self.push(instruction);
    }

    /// `code dst, a`.
    pub fn op2(&mut self, code: Code, dst: u8, a: Arg) {
        let instruction = match a {
            Arg::Zmm(a) => Instruction::with2(code, zmm(dst), zmm(a)),
            Arg::Memory(a) => Instruction::with2(code, zmm(dst), a),
        };
        self.push(instruction);
    }

    /// `code dst, a, immediate`.
    pub fn op2_imm(&mut self, code: Code, dst: u8, a: Arg, immediate: u32) {
        let instruction = match a {
            Arg::Zmm(a) => Instruction::with3(code, zmm(dst), zmm(a), immediate),
            Arg::Memory(a) => Instruction::with3(code, zmm(dst), a, immediate),
        };
        self.push(instruction);
    }

    /// `code mask {under}, a, b, predicate`.
    pub fn compare(&mut self, code: Code, mask: u8, under: u8, a: u8, b: Arg, predicate: u32) {
        let instruction = match b {
            Arg::Zmm(b) => Instruction::with4(code, k(mask), zmm(a), zmm(b), predicate),
            Arg::Memory(b) => Instruction::with4(code, k(mask), zmm(a), b, predicate),
        };
        self.push_masked(under, false, instruction);
    }

    /// The bytes, and the constants that [`POOL`] must point to when they run.
    pub fn finish(self, pool_address: impl FnOnce(&[u32]) -> u64) -> Result<(Vec<u8>, Box<[u32]>), Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let pool: Box<[u32]> = self.pool.into();
        let set = Instruction::with2(Code::Mov_r64_imm64, POOL, pool_address(&pool))?;
        let all: Vec<Instruction> = std::iter::once(set).chain(self.instructions).collect();
        let block = InstructionBlock::new(&all, 0x1_0000);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)?;
        Ok((encoded.code_buffer, pool))
    }
}
