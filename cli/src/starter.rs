//! `remora new`: writes a HIP program to start from, and says how to build and run it.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use worker::Toolchain;

use crate::env::Environment;
use crate::output::outln;
use crate::{compiler, library};

const PROGRAM: &str = include_str!("starter/program.hip");

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  remora new kernel.hip
  remora new src/main.hip")]
pub struct Arguments {
    /// File to write; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub fn write(arguments: &Arguments, environment: &Environment) -> Result<()> {
    let file = &arguments.file;
    let shown = file.display();
    let program = file.with_extension("");
    ensure!(
        file.file_name().is_some() && program != *file,
        "{shown}: the name needs an extension, such as kernel.hip"
    );
    let mut out = match File::create_new(file) {
        Ok(out) => out,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown} exists and is not overwritten; choose another name")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot create {shown}")),
    };
    out.write_all(PROGRAM.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
    outln!("wrote {shown}: a program that adds two vectors on the GPU and checks the result\n");
    outln!("build it:");
    match Toolchain::find(environment.toolchain.as_deref()) {
        Ok(toolchain) => outln!("  {}", build_command(&toolchain, file, &program, environment)),
        Err(problem) => {
            outln!("  no HIP compiler was found ({problem})");
            outln!("  install one: {}", compiler::remedy());
            outln!(
                "  then `hipcc --offload-arch=gfx90a --offload-arch=gfx942 {shown} -o {}`",
                program.display()
            );
        }
    }
    outln!("run it without a GPU:\n  remora run -- {}", runnable(&program).display());
    Ok(())
}

/// A command that builds the program for every software GPU with the toolchain that was found.
fn build_command(toolchain: &Toolchain, file: &Path, program: &Path, environment: &Environment) -> String {
    let hip = toolchain.hip.display();
    let mut targets = vec!["gfx90a", "gfx942"];
    targets.retain(|target| toolchain.supports(target));
    let targets: String = targets.iter().map(|target| format!(" --offload-arch={target}")).collect();
    let mut words = vec![
        toolchain.clang.display().to_string(),
        format!("-x hip -std=c++17 -O2{targets}"),
        format!("--rocm-path={hip} --rocm-device-lib-path={}", toolchain.device_libs.display()),
        format!("-isystem {hip}/include {} -o {}", file.display(), program.display()),
    ];
    if let Some(folder) = library::find(environment) {
        // The library with the major version of the headers; the linker must not look for AMD's.
        let soname = library::soname_for(&toolchain.hip);
        words.push(format!("-no-hip-rt -L{} -l:{soname}", folder.display()));
    }
    words.join(" \\\n    ")
}

/// The path of a program as a shell runs it: a name without a folder would be looked up in PATH.
fn runnable(program: &Path) -> PathBuf {
    match program.components().count() {
        1 => Path::new(".").join(program),
        _ => program.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_the_current_folder_is_run_from_there() {
        assert_eq!(runnable(Path::new("kernel")), Path::new("./kernel"));
        assert_eq!(runnable(Path::new("src/kernel")), Path::new("src/kernel"));
        assert_eq!(runnable(Path::new("/tmp/kernel")), Path::new("/tmp/kernel"));
    }
}
