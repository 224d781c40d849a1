//! Linking at run time: bitcode in, code object out, by the same clang.
//!
//! Inputs are files in a folder of their own under names of ours; a client chooses neither names nor options.

use std::process::Command;

use hip_api::types::{HIPRTC_ERROR_LINKING, HIPRTC_SUCCESS};

use crate::compile::{CompileError, Compiler, Response, finished, result_in, run};

/// What a program may link at once.
const MAX_INPUTS: usize = 256;
/// How LLVM bitcode begins, bare or wrapped.
const MAGICS: [[u8; 4]; 2] = [*b"BC\xc0\xde", [0xde, 0xc0, 0x17, 0x0b]];

impl Compiler {
    /// Links bitcode to a code object for a target.
    pub fn link(&self, isa: &str, inputs: &[(String, wire::Bytes)]) -> Response {
        self.try_link(isa, inputs).unwrap_or_else(|error| finished(HIPRTC_ERROR_LINKING, error.to_string()))
    }

    fn try_link(&self, isa: &str, inputs: &[(String, wire::Bytes)]) -> Result<Response, CompileError> {
        let refused = |text: String| Ok(finished(HIPRTC_ERROR_LINKING, text));
        let plain = |c: char| c.is_ascii_alphanumeric() || ":+-".contains(c);
        if inputs.is_empty() || inputs.len() > MAX_INPUTS || !isa.chars().all(plain) {
            return refused(format!("{} inputs for {isa:?}", inputs.len()));
        }
        let toolchain = self.toolchain()?;
        let io = |what| move |source| CompileError::Io { what, source };
        let folder = tempfile::tempdir().map_err(io("no folder for the linker"))?;
        let output = folder.path().join("program.out");
        let mut command = Command::new(&toolchain.clang);
        command
            .current_dir(folder.path())
            .args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-O3", "-Wno-unused-command-line-argument"])
            .arg(format!("-mcpu={isa}"))
            .arg("-o")
            .arg(&output);
        for (index, (name, bitcode)) in inputs.iter().enumerate() {
            if !MAGICS.iter().any(|magic| bitcode.0.starts_with(magic)) {
                return refused(format!("{name} is not LLVM bitcode"));
            }
            let file = format!("input{index}.bc");
            std::fs::write(folder.path().join(&file), &bitcode.0)
                .map_err(io("an input cannot be written"))?;
            command.arg(file);
        }
        let (succeeded, log) = run(command, folder.path())?;
        if !succeeded {
            return refused(log);
        }
        let code = result_in(&output)?;
        Ok(Response { code, ..finished(HIPRTC_SUCCESS, log) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_bitcode_is_refused_before_anything_runs() {
        let compiler = Compiler::new(Some("/nonexistent".into()), None);
        for inputs in [vec![], vec![("elf".to_owned(), wire::Bytes(b"\x7fELF".to_vec()))]] {
            let response = compiler.link("gfx90a", &inputs);
            assert_eq!(response.status, HIPRTC_ERROR_LINKING);
            assert!(response.code.is_empty());
        }
        let bitcode = [("a".to_owned(), wire::Bytes(b"BC\xc0\xde".to_vec()))];
        assert_eq!(compiler.link("gfx90a -o /tmp/x", &bitcode).status, HIPRTC_ERROR_LINKING);
    }
}
