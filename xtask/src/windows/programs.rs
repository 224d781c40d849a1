//! Compiles HIP programs for Windows: host and device code by clang, with the headers and the linker of mingw-w64.

use crate::examples::{ARCHITECTURES, Example, checked};
use crate::stamp::{Inputs, Stamp};
use crate::step;
use crate::toolchain::Toolchain;
use crate::windows::COMPILER;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// clang's name of the target.
const TARGET: &str = "--target=x86_64-w64-mingw32";

/// Compiles the programs that are out of date into a folder.
pub fn compile(
    toolchain: &Toolchain,
    sources: &[PathBuf],
    header: &Path,
    dlls: &Path,
    folder: &Path,
) -> Result<Vec<Example>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let headers = compiler_headers()?;
    let mut programs = Vec::new();
    for source in sources {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let program = folder.join(format!("{name}.exe"));
        let mut compile = compile_command(toolchain, &headers);
        let inputs = Inputs::new().file(source)?.file(header)?.text(&step::command_line(&compile));
        let stamp = Stamp::new(program.with_extension("stamp"), inputs);
        if !stamp.is_fresh() || !program.exists() {
            let object = program.with_extension("o");
            checked(compile.arg("-c").arg(source).arg("-o").arg(&object))?;
            link(&object, dlls, &program)?;
            stamp.write()?;
            step::progress(&format!("{name}.exe compiled"));
        }
        programs.push(Example { name, program });
    }
    Ok(programs)
}

fn compile_command(toolchain: &Toolchain, headers: &[PathBuf]) -> Command {
    let names: Vec<&str> = ARCHITECTURES.iter().map(|(architecture, _)| *architecture).collect();
    let mut command = toolchain.compile_hip(&names);
    // The target also decides the size of `long` in kernels.
    command.arg(TARGET).arg("-nostdinc++");
    for folder in headers {
        command.arg("-isystem").arg(folder);
    }
    command
}

/// Links with the static C++ runtime, so that the program needs no DLLs but ours and those of the system. HIP 6, as the headers.
fn link(object: &Path, dlls: &Path, program: &Path) -> Result<()> {
    let mut linker = Command::new(COMPILER);
    linker.arg("-static").arg(object).arg("-o").arg(program).arg("-L").arg(dlls);
    checked(linker.args(["-lamdhip64_6", "-lhiprtc0604"]))
}

/// The folders of the C++ library's headers.
fn compiler_headers() -> Result<Vec<PathBuf>> {
    let printed = step::output(Command::new(COMPILER).arg("-print-libgcc-file-name"))?;
    let base = Path::new(printed.trim()).parent().context("the compiler printed no path")?.join("include/c++");
    Ok(vec![base.join("x86_64-w64-mingw32"), base.join("backward"), base])
}
