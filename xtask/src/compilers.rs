//! Programs as built by other build systems: by Debian's hipcc against AMD's library, and by clang with compressed device code.
//! They are not linked with Remora; `remora run` starts a software GPU for each.

use crate::build::Built;
use crate::examples;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Examples that compile with HIP 5.2.
const HIPCC: &[&str] = &["vector_add", "saxpy", "matmul_lds", "reduce_shuffle", "softmax", "transpose"];

/// A few are enough: only the decompression differs.
const COMPRESSED: &[&str] = &["vector_add", "mfma_matmul"];

/// The loader's message when a library lacks the symbol versions that a program was linked with.
const LOADER_WARNING: &str = "no version information available";

pub fn run(repo: &Repo, toolchain: &Toolchain, built: &Built) -> Result<()> {
    let folder = repo.target.join("examples/compilers");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut wrong = Vec::new();
    for name in HIPCC {
        let program = folder.join(format!("{name}-hipcc"));
        let mut hipcc = Command::new("hipcc");
        hipcc.args(["--offload-arch=gfx90a", "-O2", "-std=c++17"]).arg(examples::source(repo, name));
        examples::checked(hipcc.arg("-o").arg(&program))?;
        wrong.extend(check(repo, built, name, &program, "hipcc")?);
    }
    for name in COMPRESSED {
        let program = folder.join(format!("{name}-compressed"));
        let object = folder.join(format!("{name}.o"));
        let mut clang = toolchain.compile_hip(&["gfx90a", "gfx942"]);
        clang.arg("--offload-compress").arg("-c").arg(examples::source(repo, name));
        examples::checked(clang.arg("-o").arg(&object))?;
        let mut link = Command::new(&toolchain.clang);
        link.arg(&object).arg("-o").arg(&program).arg("-L").arg(&built.lib).arg("-l:libamdhip64.so.6");
        examples::checked(&mut link)?;
        wrong.extend(check(repo, built, name, &program, "clang --offload-compress")?);
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

/// Runs one program; `Some` describes a failure.
fn check(repo: &Repo, built: &Built, name: &str, program: &Path, made_by: &str) -> Result<Option<String>> {
    let file = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let log = repo.logs().join(format!("compilers-{file}.log"));
    let outcome =
        examples::run_command(name, Command::new(&built.remora).arg("run").arg("--").arg(program), &log)?;
    step::progress(&format!("{made_by}: {} ({})", outcome.line, step::seconds(outcome.time)));
    let said = fs::read_to_string(&log).unwrap_or_default();
    Ok(if !outcome.right {
        Some(format!("{name} by {made_by}: {}; log: {}", outcome.line, log.display()))
    } else if said.contains(LOADER_WARNING) {
        Some(format!(
            "{name} by {made_by}: the loader reports missing symbol versions; log: {}",
            log.display()
        ))
    } else {
        None
    })
}
