//! Disassembly listing of a kernel, with offsets and source lines.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use code_object::{SourceLine, SourceLines};
use parking_lot::Mutex;

use super::{Code, kernel_name};
use crate::module::LoadedKernel;
use crate::program::Program;

/// A kernel with its disassembly and source line information.
#[derive(Debug)]
pub(crate) struct Listing {
    pub kernel: Arc<LoadedKernel>,
    lines: OnceLock<SourceLines>,
    codes: Mutex<HashMap<usize, Arc<Code>>>,
}

impl Listing {
    pub fn new(kernel: Arc<LoadedKernel>) -> Listing {
        Listing { kernel, lines: OnceLock::new(), codes: Mutex::default() }
    }

    /// Demangled name of the kernel, with parameters.
    pub fn name(&self) -> String {
        kernel_name::plain(self.kernel.name())
    }

    /// Demangled name without parameters.
    pub fn short_name(&self) -> String {
        kernel_name::short(self.kernel.name())
    }

    pub fn code(&self, program: &Program) -> Arc<Code> {
        let mut codes = self.codes.lock();
        let key = std::ptr::from_ref(program) as usize;
        Arc::clone(codes.entry(key).or_insert_with(|| Arc::new(Code::of(program))))
    }

    /// Assembler text of a micro-op's instruction. Branch targets are offsets.
    pub fn text(&self, program: &Program, at: usize) -> String {
        let address = program.address_of(at);
        let Some(inst) = program.inst_of(at) else { return String::new() };
        let text = isa::disassemble(self.kernel.arch(), inst, address);
        match program.target_of(at) {
            Some(target) => {
                let name = text.split_whitespace().next().unwrap_or_default();
                format!("{name} {}", offset(target.wrapping_sub(program.base())))
            }
            None => text,
        }
    }

    /// Assembler text of the instruction at `address`, also of one that the emulator drops.
    pub fn text_at(&self, program: &Program, address: u64) -> String {
        let offset = address.wrapping_sub(program.base());
        let dropped = program.dropped.iter().find(|(at, _)| u64::from(*at) == offset);
        match (dropped, program.index_of(address)) {
            (Some((_, inst)), _) => isa::disassemble(self.kernel.arch(), inst, address),
            (None, Some(first)) => {
                // The main micro-op of an instruction comes after its preparations.
                let main = (first..program.uops.len()).find(|at| program.is_whole(*at)).unwrap_or(first);
                self.text(program, main)
            }
            (None, None) => String::new(),
        }
    }

    /// The source line of the instruction at `address`.
    pub fn line(&self, address: u64) -> Option<SourceLine> {
        let lines = self.lines.get_or_init(|| SourceLines::parse(self.kernel.image()));
        lines.find(address.wrapping_sub(self.kernel.base()))
    }

    /// The source line of the instruction at `address`, as `FILE:LINE`.
    pub fn source(&self, address: u64) -> Option<String> {
        self.line(address).map(|line| format!("{}:{}", line.file, line.line))
    }

    /// Name of the function that a program was compiled from: the kernel itself, or a function that it calls.
    pub fn function(&self, program: &Program) -> String {
        if program.contains(self.kernel.entry()) {
            return self.short_name();
        }
        let symbol = self.kernel.function_name(program.base());
        symbol.map_or_else(|| format!("code at {:#x}", program.base()), kernel_name::short)
    }
}

/// Formats an offset in a function.
pub(crate) fn offset(offset: u64) -> String {
    format!("+{offset:04x}")
}
