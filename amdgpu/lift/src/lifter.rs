//! From machine code to a function of the form.

use isa::{Arch, Mode};

use crate::{Assumptions, Code, Function, Refusal};

/// Lifts a kernel. `code` is the loaded text that contains it and the functions that it calls.
pub fn lift(
    arch: Arch,
    code: &Code<'_>,
    kernel: &code_object::Kernel,
    assumptions: &Assumptions,
) -> Result<Function, Refusal> {
    let _ = (arch, code, assumptions);
    Err(Refusal {
        kernel: kernel.name.clone(),
        address: kernel.entry_address,
        instruction: String::new(),
        reason: "not supported".to_owned(),
    })
}

/// Lifts a fragment of code that is not a kernel, for tests: registers start as [`crate::form::Input::Register`], and those that
/// the fragment writes end in [`crate::Operation::Observe`], before every end. The fragment starts at the first byte; reaching
/// the end of the bytes ends it, like `s_endpgm`.
pub fn lift_fragment(arch: Arch, code: &Code<'_>, mode: Mode, base: u64) -> Result<Function, Refusal> {
    let _ = (arch, mode, base);
    Err(Refusal {
        kernel: "fragment".to_owned(),
        address: code.address,
        instruction: String::new(),
        reason: "not supported".to_owned(),
    })
}
