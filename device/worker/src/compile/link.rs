//! Run-time linking: links bitcode to a code object with the same clang.
//!
//! Runs in the same sandbox as the compiler: bitcode, too, can name files, in its inline assembly. A client chooses neither file
//! names nor options.

use hip_api::types::{HIPRTC_ERROR_LINKING, HIPRTC_SUCCESS};

use crate::compile::compiler::{Compiler, OUTPUT, confined};
use crate::compile::task::{CompileError, Response, finished};
use crate::error::one_line;

/// Limit on the inputs of one link.
const MAX_INPUTS: usize = 256;
/// Magic numbers of LLVM bitcode, bare and wrapped.
const MAGICS: [[u8; 4]; 2] = [*b"BC\xc0\xde", [0xde, 0xc0, 0x17, 0x0b]];

impl Compiler {
    /// Links bitcode to a code object for a target.
    pub fn link(&self, isa: &str, inputs: &[(String, wire::Bytes)]) -> Response {
        self.try_link(isa, inputs).unwrap_or_else(|error| finished(HIPRTC_ERROR_LINKING, one_line(&error)))
    }

    fn try_link(&self, isa: &str, inputs: &[(String, wire::Bytes)]) -> Result<Response, CompileError> {
        let refused = |text: String| Ok(finished(HIPRTC_ERROR_LINKING, text));
        let plain = |c: char| c.is_ascii_alphanumeric() || ":+-".contains(c);
        if inputs.is_empty() || inputs.len() > MAX_INPUTS || !isa.chars().all(plain) {
            return refused(format!("cannot link {} inputs for the target {isa:?}", inputs.len()));
        }
        let mut command = confined(self.toolchain()?)
            .arguments([
                "--target=amdgcn-amd-amdhsa",
                "-nogpulib",
                "-O3",
                "-Wno-unused-command-line-argument",
            ])
            .arguments([format!("-mcpu={isa}"), format!("-o{OUTPUT}")]);
        for (index, (name, bitcode)) in inputs.iter().enumerate() {
            if !MAGICS.iter().any(|magic| bitcode.0.starts_with(magic)) {
                return refused(format!("{name} is not LLVM bitcode"));
            }
            let file = format!("input{index}.bc");
            command = command.arguments([&file]).file(&file, bitcode.0.clone());
        }
        let ran = self.run(command)?;
        match ran.code {
            None => refused(ran.log),
            Some(code) => Ok(Response { code, ..finished(HIPRTC_SUCCESS, ran.log) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::task::CompilerConfig;

    #[test]
    fn what_is_not_bitcode_is_refused_before_anything_runs() {
        let compiler = Compiler::new(&CompilerConfig {
            toolchain: Some("/nonexistent".into()),
            ..CompilerConfig::default()
        });
        for inputs in [vec![], vec![("elf".to_owned(), wire::Bytes(b"\x7fELF".to_vec()))]] {
            let response = compiler.link("gfx90a", &inputs);
            assert_eq!(response.status, HIPRTC_ERROR_LINKING);
            assert!(response.code.is_empty());
        }
        let bitcode = [("a".to_owned(), wire::Bytes(b"BC\xc0\xde".to_vec()))];
        assert_eq!(compiler.link("gfx90a -o /tmp/x", &bitcode).status, HIPRTC_ERROR_LINKING);
    }
}
