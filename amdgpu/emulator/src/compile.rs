//! Compiler from decoded instructions to micro-ops: resolves operands to register and constant indices.
//!
//! Implements the operand rules of the hardware (inline constants by operand type, literals in 64-bit operands, AccVGPR offset)
//! and the bounds checks that allow handlers to index registers unchecked. Each format chooses its handlers itself (`exec/*.rs`).

use isa::{Arch, Inst, Operand};

use crate::condition;
use crate::wave::sreg;
use crate::{Lanes, Level, Src, SrcKind, Uop};

/// High dwords of the apertures: a FLAT address with one of these as its high dword refers to LDS or private memory.
pub const SHARED_APERTURE: u32 = 0x0001_0000;
/// High dword of generic addresses that mean private memory.
pub const PRIVATE_APERTURE: u32 = 0x0002_0000;

/// Operand type, which determines how a constant is widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// 16-bit integer in the low half, sign-extended to 32 bits. Also used for packed integer operands. Inline floats are f32
    /// bits, and the operation reads their halves.
    I16,
    /// Inline floats are f16 bits in the low half, zero above.
    F16,
    /// Inline floats are bf16 bits in the low half, zero above.
    Bf16,
    /// Any 32-bit integer or untyped operand; inline floats are f32 bits.
    B32,
    /// 32-bit float; inline floats are f32 bits.
    F32,
    /// 64-bit unsigned or untyped: literals are zero-extended, inline integers sign-extended.
    B64,
    /// 64-bit signed: literals are sign-extended.
    I64,
    /// Inline floats are f64 bits; literals are the high dword; inline integers are sign-extended 64-bit patterns.
    F64,
}

/// State of the compiler of one program, passed to each format's `compile` function.
#[derive(Debug)]
pub struct Compiler {
    /// Instruction set of the program.
    pub arch: Arch,
    /// CPU level that handlers are chosen for.
    pub level: Level,
    /// Index of the first AccVGPR in the wave's register file.
    pub accum_offset: u16,
    /// Number of registers of a wave. A higher register index is a compile error, which becomes a trap micro-op.
    pub vgpr_count: u16,
    /// Broadcast constants, shared by all micro-ops of the program.
    pub constants: Vec<Lanes>,
    /// Decoded instructions, indexed by `Uop::inst`.
    pub insts: Vec<Inst>,
    /// Address of the program's first byte, and offset of the instruction being compiled.
    pub base: u64,
    /// Offset of the instruction being compiled, in bytes from `base`.
    pub offset: u32,
    /// Micro-ops to run before the one being compiled, with the same `inst`.
    pub before: Vec<Uop>,
}

/// Reason why an instruction became a trap micro-op.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unsupported {
    /// No handler exists for the mnemonic.
    #[error("instruction {0} is not supported by this emulator")]
    Instruction(&'static str),
    /// A handler exists, but not for this form of the instruction.
    #[error("{mnemonic}: {what}")]
    Form {
        /// Mnemonic of the instruction.
        mnemonic: &'static str,
        /// What is not supported.
        what: &'static str,
    },
}

impl Compiler {
    /// Creates a compiler without constants and instructions.
    pub fn new(arch: Arch, level: Level, accum_offset: u16, vgpr_count: u16, base: u64) -> Compiler {
        Compiler {
            arch,
            level,
            accum_offset,
            vgpr_count,
            constants: Vec::new(),
            insts: Vec::new(),
            base,
            offset: 0,
            before: Vec::new(),
        }
    }

    /// Creates a micro-op whose operands are still empty.
    pub fn uop(&self, run: crate::Handler, inst_index: u32) -> Uop {
        Uop { run, dst: 0, sdst: 0, src: [Src::default(); 4], imm: 0, flags: 0, inst: inst_index }
    }

    /// Resolves a source of `width` dwords. A constant of a 64-bit type becomes `width / 2` copies of its two dwords, any other
    /// constant `width` copies of its dword. So `index + k` is correct for every kind of source.
    pub fn source(
        &mut self,
        inst: &Inst,
        operand: &Operand,
        width: u16,
        ty: Type,
    ) -> Result<Src, Unsupported> {
        match *operand {
            Operand::Vgpr(_) | Operand::Agpr(_) => {
                Ok(Src { kind: SrcKind::Vector, index: self.vector(inst, operand, width)? })
            }
            Operand::Vccz | Operand::Execz | Operand::Scc => {
                let what = match *operand {
                    Operand::Vccz => sreg::VCCZ,
                    Operand::Execz => sreg::EXECZ,
                    _ => sreg::SCC,
                };
                let mut uop = self.uop(condition::handler(), self.insts.len().saturating_sub(1) as u32);
                uop.dst = what as u16;
                self.before.push(uop);
                Ok(Src { kind: SrcKind::Scalar, index: what as u16 })
            }
            _ => {
                if let Some(index) = scalar_index(operand) {
                    check_scalar(inst, index, width)?;
                    return Ok(Src { kind: SrcKind::Scalar, index });
                }
                let wide = matches!(ty, Type::B64 | Type::I64 | Type::F64);
                let value = constant_bits(operand, ty).ok_or(Unsupported::Form {
                    mnemonic: inst.op.name(),
                    what: "source operand is not supported",
                })?;
                let index = if wide && width >= 2 {
                    self.constant_run(&[value as u32, (value >> 32) as u32], width)
                } else {
                    self.constant_run(&[value as u32], width)
                };
                let index = index
                    .ok_or(Unsupported::Form { mnemonic: inst.op.name(), what: "too many constants" })?;
                Ok(Src { kind: SrcKind::Constant, index })
            }
        }
    }

    /// Index of a vector register operand (source or destination) of `width` registers; AccVGPRs follow at `accum_offset`.
    pub fn vector(&self, inst: &Inst, operand: &Operand, width: u16) -> Result<u16, Unsupported> {
        let index = match *operand {
            Operand::Vgpr(n) => u16::from(n),
            Operand::Agpr(n) => self.accum_offset + u16::from(n),
            _ => {
                return Err(Unsupported::Form {
                    mnemonic: inst.op.name(),
                    what: "operand is not a vector register",
                });
            }
        };
        if index + width > self.vgpr_count {
            return Err(Unsupported::Form {
                mnemonic: inst.op.name(),
                what: "vector register index beyond the kernel's allocation",
            });
        }
        Ok(index)
    }

    /// Index of a scalar register operand (source or destination) of `width` registers.
    pub fn scalar(&self, inst: &Inst, operand: &Operand, width: u16) -> Result<u16, Unsupported> {
        let index = scalar_index(operand).ok_or(Unsupported::Form {
            mnemonic: inst.op.name(),
            what: "operand is not a scalar register",
        })?;
        check_scalar(inst, index, width)?;
        Ok(index)
    }

    /// Index of the first of `width` consecutive constants that repeat `pattern`, or `None` if the table is full.
    fn constant_run(&mut self, pattern: &[u32], width: u16) -> Option<u16> {
        let width = usize::from(width.max(pattern.len() as u16));
        let at = |k: usize| pattern[k % pattern.len()];
        let found = self
            .constants
            .windows(width)
            .position(|run| run.iter().enumerate().all(|(k, lanes)| lanes.0[0] == at(k)));
        let index = match found {
            Some(index) => index,
            None => {
                let index = self.constants.len();
                self.constants.extend((0..width).map(|k| Lanes::splat(at(k))));
                index
            }
        };
        u16::try_from(index + width).is_ok().then_some(index as u16)
    }

    /// Adds a broadcast 64-bit constant.
    pub fn constant_pair(&mut self, inst: &Inst, value: u64) -> Result<Src, Unsupported> {
        let index = self
            .constant_run(&[value as u32, (value >> 32) as u32], 2)
            .ok_or(Unsupported::Form { mnemonic: inst.op.name(), what: "too many constants" })?;
        Ok(Src { kind: SrcKind::Constant, index })
    }

    /// Adds a broadcast 32-bit constant.
    pub fn constant(&mut self, inst: &Inst, value: u32) -> Result<Src, Unsupported> {
        let index = self
            .constant_run(&[value], 1)
            .ok_or(Unsupported::Form { mnemonic: inst.op.name(), what: "too many constants" })?;
        Ok(Src { kind: SrcKind::Constant, index })
    }
}

/// Index of a scalar register operand in the wave's scalar file, which equals the hardware's operand number.
pub fn scalar_index(operand: &Operand) -> Option<u16> {
    let index = match *operand {
        Operand::Sgpr(n) => usize::from(n),
        Operand::FlatScratchLo => sreg::FLAT_SCRATCH,
        Operand::FlatScratchHi => sreg::FLAT_SCRATCH + 1,
        Operand::XnackMaskLo => sreg::XNACK_MASK,
        Operand::XnackMaskHi => sreg::XNACK_MASK + 1,
        Operand::VccLo => sreg::VCC,
        Operand::VccHi => sreg::VCC + 1,
        Operand::Ttmp(n) => sreg::TTMP + usize::from(n),
        Operand::M0 => sreg::M0,
        Operand::ExecLo => sreg::EXEC,
        Operand::ExecHi => sreg::EXEC + 1,
        _ => return None,
    };
    Some(index as u16)
}

fn check_scalar(inst: &Inst, index: u16, width: u16) -> Result<(), Unsupported> {
    if usize::from(index + width) > sreg::COUNT {
        return Err(Unsupported::Form { mnemonic: inst.op.name(), what: "scalar register out of range" });
    }
    Ok(())
}

/// Bits of a constant operand of the given type; 32-bit types use the low dword.
pub fn constant_bits(operand: &Operand, ty: Type) -> Option<u64> {
    Some(match *operand {
        Operand::Int(value) => i64::from(value) as u64,
        Operand::Float(bits) => {
            let value = f32::from_bits(bits);
            match ty {
                Type::F16 => u64::from(half::f16::from_f32(value).to_bits()),
                Type::Bf16 => u64::from(half::bf16::from_f32(value).to_bits()),
                Type::I16 | Type::B32 | Type::F32 => u64::from(bits),
                // 1/(2*pi) is the only inline constant whose f64 value is not the widened f32.
                Type::B64 | Type::I64 | Type::F64 if bits == 0x3e22_f983 => 0x3fc4_5f30_6dc9_c882,
                Type::B64 | Type::I64 | Type::F64 => f64::from(value).to_bits(),
            }
        }
        Operand::Literal(value) => match ty {
            Type::F64 => u64::from(value) << 32,
            Type::I64 => i64::from(value as i32) as u64,
            _ => u64::from(value),
        },
        Operand::SharedBase => aperture(SHARED_APERTURE, 0, ty),
        Operand::SharedLimit => aperture(SHARED_APERTURE, u32::MAX, ty),
        Operand::PrivateBase => aperture(PRIVATE_APERTURE, 0, ty),
        Operand::PrivateLimit => aperture(PRIVATE_APERTURE, u32::MAX, ty),
        _ => return None,
    })
}

fn aperture(high: u32, low: u32, ty: Type) -> u64 {
    match ty {
        Type::B64 | Type::I64 | Type::F64 => u64::from(high) << 32 | u64::from(low),
        _ => u64::from(low),
    }
}
