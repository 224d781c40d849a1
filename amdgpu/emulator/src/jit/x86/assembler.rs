//! Assembler: collects instructions, labels and the constants they reference, and encodes them.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, IcedError, Instruction, InstructionBlock, MemoryOperand,
    Register,
};

use super::target::{Target, Vector};

/// Reason why a block could not be compiled. It is then executed as micro-ops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("an instruction cannot be encoded")]
    Encoding(#[from] IcedError),
    #[error("an operation needs more host registers than the target has")]
    Registers,
    #[error("a dropped register value is still needed")]
    Lost,
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(u64);

/// The last operand of a vector instruction: a register, or memory (broadcast if it is a single element).
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    Register(u8),
    Memory(MemoryOperand),
}

/// One 64-byte cache line of constants; the alignment keeps vectors from crossing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line([u32; 16]);

/// Instructions and constants of a run under construction.
#[derive(Debug)]
pub struct Assembler {
    pub target: Target,
    instructions: Vec<Instruction>,
    labels: u64,
    /// Label of the next instruction.
    pending: Option<Label>,
    /// Constants, addressed relative to [`POOL`].
    pool: Vec<u32>,
    error: Option<Error>,
}

/// The register that points to the constant pool.
pub const POOL: Register = Register::R10;

/// Base of the label addresses; instructions without a label have address zero.
const FIRST_LABEL: u64 = 1 << 32;

pub fn xmm(n: u8) -> Register {
    Register::XMM0 + u32::from(n)
}

pub fn k(n: u8) -> Register {
    Register::K0 + u32::from(n)
}

/// `[base + displacement]`.
pub fn at(base: Register, displacement: i64) -> MemoryOperand {
    MemoryOperand::new(base, Register::None, 1, displacement, 1, false, Register::None)
}

/// `[base + displacement]`, broadcast to all lanes. Only AVX-512 has such operands; for AVX2 they are loaded first.
pub fn broadcast(base: Register, displacement: i64) -> MemoryOperand {
    MemoryOperand::new(base, Register::None, 1, displacement, 1, true, Register::None)
}

impl Assembler {
    pub fn new(target: Target) -> Assembler {
        Assembler {
            target,
            instructions: Vec::new(),
            labels: 0,
            pending: None,
            pool: Vec::new(),
            error: None,
        }
    }

    /// Adds an instruction; an error is reported by [`Assembler::finish`].
    pub fn push(&mut self, instruction: Result<Instruction, IcedError>) {
        match instruction {
            Ok(mut instruction) => {
                if let Some(Label(place)) = self.pending.take() {
                    instruction.set_ip(place);
                }
                self.instructions.push(instruction);
            }
            Err(error) => self.fail(error.into()),
        }
    }

    /// Records an error, which [`Assembler::finish`] returns. The first error wins.
    pub fn fail(&mut self, error: Error) {
        self.error = self.error.take().or(Some(error));
    }

    /// Adds an instruction with a mask register; masked-off lanes keep the destination's value, or become zero if `zeroing`.
    pub fn push_masked(&mut self, mask: u8, zeroing: bool, instruction: Result<Instruction, IcedError>) {
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

    /// Places `label` at the next instruction. An instruction can have only one label, so a second label is preceded by a `nop`.
    pub fn place(&mut self, label: Label) {
        if self.pending.is_some() {
            self.push(Ok(Instruction::with(Code::Nopd)));
        }
        self.pending = Some(label);
    }

    pub fn jump(&mut self, code: Code, Label(target): Label) {
        self.push(Instruction::with_branch(code, target));
    }

    /// A 32-bit constant, the same for all lanes.
    pub fn constant(&mut self, value: u32) -> MemoryOperand {
        match self.target {
            Target::Avx2 => self.constants(&[value; 8]),
            Target::Avx512 => broadcast(POOL, self.pooled(&[value], 1)),
        }
    }

    /// A 64-bit constant, the same for all lanes.
    pub fn constant_64(&mut self, value: u64) -> MemoryOperand {
        let [low, high] = [value as u32, (value >> 32) as u32];
        match self.target {
            Target::Avx2 => self.constants(&[low, high, low, high, low, high, low, high]),
            Target::Avx512 => broadcast(POOL, self.pooled(&[low, high], 1)),
        }
    }

    /// Constants, one per lane.
    pub fn constants(&mut self, values: &[u32]) -> MemoryOperand {
        at(POOL, self.pooled(values, values.len()))
    }

    /// Byte offset of `values` in the pool, aligned to `step` dwords; adds them if missing.
    fn pooled(&mut self, values: &[u32], step: usize) -> i64 {
        let mut places = (0..self.pool.len()).step_by(step);
        let found = places.find(|place| self.pool[*place..].starts_with(values));
        let place = found.unwrap_or_else(|| {
            self.pool.resize(self.pool.len().next_multiple_of(step), 0);
            self.pool.extend(values);
            self.pool.len() - values.len()
        });
        4 * place as i64
    }

    /// `code dst, a, b`.
    pub fn op3(&mut self, vector: Vector, dst: u8, a: u8, b: Arg) {
        let (target, code) = (self.target, vector.on(self.target));
        let (dst, a) = (target.whole(dst), target.whole(a));
        self.push(match b {
            Arg::Register(b) => Instruction::with3(code, dst, a, target.whole(b)),
            Arg::Memory(b) => Instruction::with3(code, dst, a, b),
        });
    }

    /// `code dst, a, b, immediate`.
    pub fn op3_imm(&mut self, code: Code, dst: u8, a: u8, b: Arg, immediate: u32) {
        let target = self.target;
        let (dst, a) = (target.whole(dst), target.whole(a));
        self.push(match b {
            Arg::Register(b) => Instruction::with4(code, dst, a, target.whole(b), immediate),
            Arg::Memory(b) => Instruction::with4(code, dst, a, b, immediate),
        });
    }

    /// `code dst, a`.
    pub fn op2(&mut self, vector: Vector, dst: u8, a: Arg) {
        let (target, code) = (self.target, vector.on(self.target));
        self.push(match a {
            Arg::Register(a) => Instruction::with2(code, target.whole(dst), target.whole(a)),
            Arg::Memory(a) => Instruction::with2(code, target.whole(dst), a),
        });
    }

    /// `code dst, a, immediate`.
    pub fn op2_imm(&mut self, vector: Vector, dst: u8, a: Arg, immediate: u32) {
        let (target, code) = (self.target, vector.on(self.target));
        self.push(match a {
            Arg::Register(a) => Instruction::with3(code, target.whole(dst), target.whole(a), immediate),
            Arg::Memory(a) => Instruction::with3(code, target.whole(dst), a, immediate),
        });
    }

    /// Broadcasts one element to all lanes, from memory or the lowest element of a register.
    pub fn spread(&mut self, vector: Vector, dst: u8, from: Arg) {
        let code = vector.on(self.target);
        let dst = self.target.whole(dst);
        self.push(match from {
            Arg::Register(from) => Instruction::with2(code, dst, xmm(from)),
            Arg::Memory(mut from) => {
                from.is_broadcast = false;
                Instruction::with2(code, dst, from)
            }
        });
    }

    /// Encodes the machine code. Returns it with the constant pool, which must outlive the code.
    pub fn finish(self) -> Result<(Vec<u8>, Box<[Line]>), Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        #[cfg(test)]
        self.assert_instructions_are_of_the_target();
        let pool: Box<[Line]> = self
            .pool
            .chunks(16)
            .map(|chunk| Line(std::array::from_fn(|n| chunk.get(n).copied().unwrap_or(0))))
            .collect();
        let set = Instruction::with2(Code::Mov_r64_imm64, POOL, pool.as_ptr() as u64)?;
        let all: Vec<Instruction> = std::iter::once(set).chain(self.instructions).collect();
        let block = InstructionBlock::new(&all, 0x1_0000);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)?;
        Ok((encoded.code_buffer, pool))
    }

    /// Checks that AVX2 code contains no AVX-512 instructions, which a test machine with AVX-512 would execute unnoticed.
    #[cfg(test)]
    fn assert_instructions_are_of_the_target(&self) {
        for instruction in &self.instructions {
            let name = format!("{:?}", instruction.code());
            let new = name.starts_with("EVEX") || name.contains("_kr");
            assert!(self.target == Target::Avx512 || !new, "{name} is not an AVX2 instruction");
        }
    }
}
