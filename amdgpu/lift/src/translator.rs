//! Translation of one instruction after the other: operands, destinations, and the choice of the translation.

use isa::{Arch, DataType, Element, Format, Inst, Mode, Op, Operand};

use crate::builder::Builder;
use crate::form::{Block, Function, Input, Kind, Value};
use crate::graph::Constants;
use crate::register::{EXEC, FLAT_SCRATCH, M0, Registers, VCC};
use crate::{lane, memory, scalar};

/// State of the translation at one instruction. Errors are reasons to refuse the kernel.
#[derive(Debug)]
pub struct Translator {
    /// The instruction set.
    pub arch: Arch,
    /// The function that grows.
    pub function: Function,
    /// The registers.
    pub registers: Registers,
    /// MODE at this point.
    pub mode: Mode,
    /// The block that grows.
    pub block: Block,
    /// Address of the instruction, relative to the base.
    pub address: u64,
    /// Load address of the code object.
    pub base: u64,
    /// What is probably known of scalar registers at this point. What relies on it must check it.
    pub known: Constants,
    /// Registers that the code writes, for fragments.
    pub written: std::collections::BTreeSet<crate::form::Register>,
}

/// A result, or why the instruction is not supported.
pub type Translated<T> = Result<T, String>;

/// The usual reason.
pub fn unsupported<T>(inst: &Inst) -> Translated<T> {
    Err(format!("{} is not supported", inst.op.name()))
}

/// Number of a vector register operand.
pub fn vector_number(operand: &Operand) -> Option<u16> {
    match *operand {
        Operand::Vgpr(register) => Some(register.into()),
        Operand::Agpr(register) => Some(256 + u16::from(register)),
        _ => None,
    }
}

impl Translator {
    /// A builder at the end of the block, and the registers.
    pub fn parts(&mut self) -> (Builder<'_>, &mut Registers) {
        let b = Builder { function: &mut self.function, block: self.block, address: self.address };
        (b, &mut self.registers)
    }

    /// A builder at the end of the block.
    pub fn b(&mut self) -> Builder<'_> {
        self.parts().0
    }

    /// Translates an instruction that is not a jump.
    pub fn step(&mut self, inst: &Inst) -> Translated<()> {
        match inst.format {
            Format::Sop1 => scalar::one_source(self, inst),
            Format::Sop2 => scalar::two_sources(self, inst),
            Format::Sopc => scalar::compare(self, inst),
            Format::Sopk => scalar::immediate(self, inst),
            Format::Sopp => scalar::control(self, inst),
            Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p => {
                lane::vector(self, inst)
            }
            Format::Ds
                if matches!(inst.op, Op::ds_swizzle_b32 | Op::ds_permute_b32 | Op::ds_bpermute_b32) =>
            {
                lane::permute(self, inst)
            }
            Format::Smem
            | Format::Ds
            | Format::Flat
            | Format::Global
            | Format::Scratch
            | Format::Mubuf
            | Format::Mtbuf
            | Format::Mimg => self.memory(inst),
            Format::Exp => unsupported(inst),
        }
    }

    /// EXEC as a mask.
    pub fn exec(&mut self) -> Value {
        self.mask_register(EXEC)
    }

    /// VCC as a mask.
    pub fn vcc(&mut self) -> Value {
        self.mask_register(VCC)
    }

    fn mask_register(&mut self, register: u8) -> Value {
        let (mut b, registers) = self.parts();
        registers.mask(&mut b, register)
    }

    /// A scalar register.
    pub fn scalar_register(&mut self, register: u8) -> Value {
        let (mut b, registers) = self.parts();
        registers.scalar(&mut b, register)
    }

    /// A vector register.
    pub fn vector_register(&mut self, register: u16) -> Value {
        let (mut b, registers) = self.parts();
        registers.vector(&mut b, register)
    }

    /// Word `part` of a source of a type.
    pub fn source_word(&mut self, operand: &Operand, data_type: DataType, part: u32) -> Translated<Value> {
        let wide = data_type.element_bits() == 64;
        if let Some(register) = vector_number(operand) {
            return match u16::try_from(part).ok().and_then(|part| register.checked_add(part)) {
                Some(number) if number & 256 == register & 256 && number < 512 => {
                    Ok(self.vector_register(number))
                }
                _ => Err("vector register out of range".to_owned()),
            };
        }
        if let Some(register) = scalar::register(operand) {
            let number = u32::from(register) + part;
            return if number < 128 {
                Ok(self.scalar_register(number as u8))
            } else {
                Err("scalar register out of range".to_owned())
            };
        }
        if let Some(bits) = operand.constant_bits(data_type) {
            let word = if wide && part % 2 == 1 { bits >> 32 } else { bits };
            return Ok(self.b().word(word as u32));
        }
        let high = wide && part % 2 == 1;
        match operand {
            Operand::SharedBase | Operand::PrivateBase | Operand::SharedLimit | Operand::PrivateLimit => {
                let limit = matches!(operand, Operand::SharedLimit | Operand::PrivateLimit);
                if !high {
                    return Ok(self.b().word(if limit { u32::MAX } else { 0 }));
                }
                let shared = matches!(operand, Operand::SharedBase | Operand::SharedLimit);
                let mut b = self.b();
                let base = b.input(if shared { Input::SharedBase } else { Input::PrivateBase });
                Ok(b.high(base))
            }
            Operand::Vccz | Operand::Execz | Operand::Scc if part == 0 => {
                let bit = match operand {
                    Operand::Vccz => {
                        let vcc = self.vcc();
                        let any = self.b().any_lane(vcc);
                        self.b().not(any)
                    }
                    Operand::Execz => {
                        let exec = self.exec();
                        let any = self.b().any_lane(exec);
                        self.b().not(any)
                    }
                    _ => self.scc(),
                };
                Ok(self.b().word_of(bit))
            }
            _ => Err("the source operand is not supported".to_owned()),
        }
    }

    /// A source as a word or a double, by its type.
    pub fn source(&mut self, operand: &Operand, data_type: DataType) -> Translated<Value> {
        let low = self.source_word(operand, data_type, 0)?;
        if data_type.dwords() == 1 {
            return Ok(low);
        }
        let high = self.source_word(operand, data_type, 1)?;
        Ok(self.b().pack(low, high))
    }

    /// All words of a source.
    pub fn source_words(&mut self, operand: &Operand, data_type: DataType) -> Translated<Vec<Value>> {
        (0..data_type.dwords()).map(|part| self.source_word(operand, data_type, part)).collect()
    }

    /// A source of 64 bits as a lane mask.
    pub fn source_mask(&mut self, operand: &Operand, data_type: DataType) -> Translated<Value> {
        if let Some(register) = scalar::register(operand) {
            if register == 127 {
                return Err("scalar register out of range".to_owned());
            }
            return Ok(self.mask_register(register));
        }
        let signed = if data_type.element() == Element::Signed { DataType::I64 } else { DataType::B64 };
        let number = self.source(operand, signed)?;
        Ok(self.b().mask_of(number))
    }

    /// The scalar condition code.
    pub fn scc(&mut self) -> Value {
        let (mut b, registers) = self.parts();
        registers.scc(&mut b)
    }

    /// Writes the scalar condition code.
    pub fn set_scc(&mut self, bit: Value) {
        self.written.insert(crate::form::Register::Scc);
        let (mut b, registers) = self.parts();
        registers.set_scc(&mut b, bit);
    }

    /// Writes words to scalar registers.
    pub fn set_scalars(&mut self, operand: &Operand, words: &[Value]) -> Translated<()> {
        let first = scalar::register(operand).ok_or("the destination is not a scalar register")?;
        if usize::from(first) + words.len() > 128 {
            return Err("scalar register out of range".to_owned());
        }
        for (&word, register) in words.iter().zip(first..) {
            self.written.insert(crate::form::Register::Scalar(register));
            let (mut b, registers) = self.parts();
            registers.set_scalar(&mut b, register, word);
        }
        Ok(())
    }

    /// Writes a word or double to scalar registers.
    pub fn set_number(&mut self, operand: &Operand, value: Value) -> Translated<()> {
        if self.function.kind(value) == Kind::Word {
            return self.set_scalars(operand, &[value]);
        }
        let (low, high) = (self.b().low(value), self.b().high(value));
        self.set_scalars(operand, &[low, high])
    }

    /// Writes a lane mask to a pair of scalar registers.
    pub fn set_mask(&mut self, operand: &Operand, mask: Value) -> Translated<()> {
        let register = scalar::register(operand).ok_or("the destination is not a scalar register")?;
        if register == 127 {
            return Err("scalar register out of range".to_owned());
        }
        self.set_mask_register(register, mask);
        Ok(())
    }

    /// Writes a lane mask to a pair of scalar registers, by number.
    pub fn set_mask_register(&mut self, register: u8, mask: Value) {
        self.written.insert(crate::form::Register::Scalar(register));
        self.written.insert(crate::form::Register::Scalar(register + 1));
        let (mut b, registers) = self.parts();
        registers.set_mask(&mut b, register, mask);
    }

    /// Writes a word to a vector register in the lanes of a mask.
    pub fn set_vector(&mut self, register: u16, value: Value, mask: Value) {
        self.written.insert(crate::form::Register::Vector(register));
        let (mut b, registers) = self.parts();
        let value = match b.function.constant(mask) {
            Some(1) => value,
            _ => {
                let old = registers.vector(&mut b, register);
                b.select(mask, value, old)
            }
        };
        registers.set_vector(&mut b, register, value);
    }

    /// Writes words to consecutive vector registers in the lanes of a mask.
    pub fn set_vectors(&mut self, operand: &Operand, words: &[Value], mask: Value) -> Translated<()> {
        let first = vector_number(operand).ok_or("the destination is not a vector register")?;
        if usize::from(first & 255) + words.len() > 256 {
            return Err("vector register out of range".to_owned());
        }
        for (&word, register) in words.iter().zip(first..) {
            self.set_vector(register, word, mask);
        }
        Ok(())
    }

    /// Memory instructions: the operands are read here, and the results written.
    fn memory(&mut self, inst: &Inst) -> Translated<()> {
        let mut sources: [Vec<Value>; 4] = Default::default();
        for (n, words) in sources.iter_mut().enumerate() {
            let (operand, data_type) = (&inst.src[n], inst.src_type(n));
            if *operand != Operand::None {
                *words = self.source_words(operand, data_type)?;
            }
        }
        let mut old = Vec::new();
        if inst.format == Format::Smem {
            let flags = inst.encoding().flags;
            if flags.has(isa::Flags::STORE | isa::Flags::ATOMIC) {
                sources[2] = self.source_words(&inst.dst, inst.dst_type())?;
            }
        } else if vector_number(&inst.dst).is_some() {
            old = self.source_words(&inst.dst, inst.dst_type())?;
        }
        let operands = memory::Operands {
            exec: self.exec(),
            sources,
            old,
            m0: self.scalar_register(M0),
            resource: self.known.words(&inst.src[2]),
            flat_scratch: [self.scalar_register(FLAT_SCRATCH), self.scalar_register(FLAT_SCRATCH + 1)],
        };
        let arch = self.arch;
        let outcome = memory::lift(&mut self.b(), arch, inst, &operands)?;
        if !outcome.lanes.is_empty() {
            self.set_vectors(&inst.dst, &outcome.lanes, operands.exec)?;
        }
        if !outcome.scalars.is_empty() {
            self.set_scalars(&inst.dst, &outcome.scalars)?;
        }
        Ok(())
    }
}
