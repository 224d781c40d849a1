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
    let mut headers = vec![hip_headers(toolchain, &folder.join("include"))?, wrappers(toolchain)?];
    headers.extend(compiler_headers()?);
    let mut programs = Vec::new();
    for source in sources {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let program = folder.join(format!("{name}.exe"));
        let mut compile = compile_command(toolchain, &headers, header);
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

fn compile_command(toolchain: &Toolchain, headers: &[PathBuf], header: &Path) -> Command {
    let names: Vec<&str> = ARCHITECTURES.iter().map(|(architecture, _)| *architecture).collect();
    let command = toolchain.compile_hip(&names);
    // Before HIP's own headers, which `compile_hip` names.
    let mut ours = Command::new(&toolchain.clang);
    for folder in headers {
        ours.arg("-isystem").arg(folder);
    }
    ours.args(command.get_args());
    // The programs of the end-to-end tests use the header of the examples.
    if let Some(folder) = header.parent() {
        ours.arg("-I").arg(folder);
    }
    // The target also decides the size of `long` in kernels. The device libraries were built for Linux, with wchar_t of 4 bytes.
    // Without F16C, clang calls conversion functions of libgcc that take half floats in other registers.
    ours.args([TARGET, "-nostdinc++", "-Xarch_device", "-fno-short-wchar", "-Xarch_host", "-mf16c"]);
    ours
}

/// Links with the static C++ runtime, so that the program needs no DLLs but ours and those of the system. HIP 6, as the headers.
fn link(object: &Path, dlls: &Path, program: &Path) -> Result<()> {
    let mut linker = Command::new(COMPILER);
    linker.arg("-static").arg(object).arg("-o").arg(program).arg("-L").arg(dlls);
    checked(linker.args(["-lamdhip64_6", "-lhiprtc0604", "-lws2_32"]))
}

/// Copies HIP's headers, with one change: they take a `long` of 4 bytes for a sign of Microsoft's compiler, which clang with
/// mingw-w64's headers is not.
fn hip_headers(toolchain: &Toolchain, into: &Path) -> Result<PathBuf> {
    let stamp = into.join(".complete");
    if !stamp.exists() {
        copy_folder(&toolchain.hip.join("include/hip"), &into.join("hip"))?;
        let header = into.join("hip/amd_detail/amd_warp_functions.h");
        let text =
            fs::read_to_string(&header).with_context(|| format!("cannot read {}", header.display()))?;
        let text = text.replace("#ifndef _MSC_VER", "#if __SIZEOF_LONG__ == 8");
        fs::write(&header, text).with_context(|| format!("cannot write {}", header.display()))?;
        fs::write(&stamp, "").with_context(|| format!("cannot write {}", stamp.display()))?;
    }
    Ok(into.to_owned())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("cannot write {}", target.display()))?;
        }
    }
    Ok(())
}

/// clang's headers around those of the C++ library, which declare `operator new` for kernels. clang adds their folder itself, but
/// after the folders that are named here.
fn wrappers(toolchain: &Toolchain) -> Result<PathBuf> {
    let printed = step::output(Command::new(&toolchain.clang).arg("-print-resource-dir"))?;
    Ok(Path::new(printed.trim()).join("include/cuda_wrappers"))
}

/// The folders of the C++ library's headers.
fn compiler_headers() -> Result<Vec<PathBuf>> {
    let printed = step::output(Command::new(COMPILER).arg("-print-libgcc-file-name"))?;
    let base =
        Path::new(printed.trim()).parent().context("the compiler printed no path")?.join("include/c++");
    Ok(vec![base.clone(), base.join("x86_64-w64-mingw32"), base.join("backward")])
}
