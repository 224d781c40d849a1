//! Disassembler from [`Inst`] to text, in LLVM assembler syntax.

mod memory;
mod operand;
mod scalar;
mod vector;

use crate::{Arch, Format, Inst};

/// Assembler text of an instruction at address `pc`. LLVM's assembler assembles it to an equivalent instruction. Branches have
/// their target address as a comment.
pub fn disassemble(arch: Arch, inst: &Inst, pc: u64) -> String {
    match inst.format {
        Format::Sop1 | Format::Sop2 | Format::Sopc => scalar::sop(inst),
        Format::Sopk => scalar::sopk(arch, inst, pc),
        Format::Sopp => scalar::sopp(inst, pc),
        Format::Smem => scalar::smem(inst),
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 => vector::vop(inst),
        Format::Vop3p => vector::vop3p(arch, inst),
        Format::Ds => memory::ds(inst),
        Format::Flat | Format::Global | Format::Scratch => memory::flat(arch, inst),
        Format::Mubuf | Format::Mtbuf => memory::buffer(arch, inst),
        Format::Mimg => memory::image(inst),
        Format::Exp => inst.op.name().to_string(),
    }
}

/// A line under construction: mnemonic, comma-separated operands, then space-separated modifiers.
struct Line {
    text: String,
    operands: usize,
}

impl Line {
    fn new(mnemonic: &str) -> Line {
        Line { text: mnemonic.to_string(), operands: 0 }
    }

    fn operand(&mut self, operand: impl AsRef<str>) {
        self.text.push_str(if self.operands == 0 { " " } else { ", " });
        self.text.push_str(operand.as_ref());
        self.operands += 1;
    }

    fn modifier(&mut self, modifier: impl AsRef<str>) {
        self.text.push(' ');
        self.text.push_str(modifier.as_ref());
    }

    fn flag(&mut self, set: bool, name: &str) {
        if set {
            self.modifier(name);
        }
    }

    /// Appends `name:value` unless the value is zero.
    fn value(&mut self, name: &str, value: i32) {
        if value != 0 {
            self.modifier(format!("{name}:{value}"));
        }
    }

    /// Appends `name:[1,0,...]`, low bits first.
    fn bits(&mut self, name: &str, value: u8, count: usize) {
        let bits: Vec<String> = (0..count).map(|bit| (value >> bit & 1).to_string()).collect();
        self.modifier(format!("{name}:[{}]", bits.join(",")));
    }
}
