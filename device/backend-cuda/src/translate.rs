//! From a kernel's machine code to PTX: the interface to the translator.

use std::fmt;

use code_object::Kernel;
use isa::Arch;
use lift::{Assumptions, Code};

/// What is to be translated.
#[derive(Debug)]
pub struct Request<'a> {
    /// Instruction set of the code.
    pub arch: Arch,
    /// The loaded code that contains the kernel.
    pub code: Code<'a>,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// What every launch of the result has in common.
    pub assumptions: Assumptions,
    /// The GPU and driver that the text is for.
    pub target: ptx::Target,
}

/// PTX of a kernel, and what a launch needs to know of it. [`ptx::launch`] has the launch contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The module.
    pub text: String,
    /// What the launch needs to know.
    pub facts: Facts,
}

/// What a launch needs to know of a translated kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Name of the entry.
    pub entry: String,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of statically sized LDS.
    pub lds_bytes: u32,
    /// Bytes of the first parameter.
    pub kernarg_bytes: u32,
    /// The grid synchronises, so the launch must be cooperative.
    pub cooperative: bool,
}

/// Translates kernels to PTX.
pub trait Translator: Send + Sync + fmt::Debug {
    /// Translates a kernel, or says why that is impossible.
    fn translate(&self, request: &Request<'_>) -> Result<Program, String>;
    /// Changes whenever the same request may give another result. Part of the keys of cached programs.
    fn version(&self) -> &str;
}

/// The translator of `lift` and `ptx`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifter;

impl Translator for Lifter {
    fn translate(&self, request: &Request<'_>) -> Result<Program, String> {
        let Request { arch, code, kernel, assumptions, target } = request;
        let mut function =
            lift::lift(*arch, code, kernel, assumptions).map_err(|refusal| refusal.to_string())?;
        lift::optimize(&mut function, assumptions);
        // A defect of the lifter is refused here by name; the driver would report it as unreadable PTX, or compute wrong values.
        lift::verify(&function).map_err(|reason| format!("the lifted form is inconsistent: {reason}"))?;
        let options = ptx::Options { block: assumptions.block, ..ptx::Options::default() };
        let it = ptx::translate(&function, target, &options).map_err(|refusal| refusal.to_string())?;
        let items = assumptions.block.map_or(1024, |block| block.iter().product());
        let facts = Facts {
            threads: ptx::launch::threads(it.mode, items),
            lds_bytes: it.lds_bytes,
            kernarg_bytes: it.kernarg_bytes,
            cooperative: it.cooperative,
            entry: it.entry,
        };
        Ok(Program { text: it.text, facts })
    }

    fn version(&self) -> &str {
        VERSION
    }
}

/// Hash of the translator's sources, which the build script computes.
const VERSION: &str = env!("TRANSLATOR_VERSION");
