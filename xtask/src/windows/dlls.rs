//! Links the DLLs from the static library that cargo built: the same code, with another name and another set of exports.

use crate::examples::checked;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use crate::windows::COMPILER;
use anyhow::{Context, Result};
use hip_api::dll::{DLLS, module_definition};
use std::fs;
use std::path::Path;
use std::process::Command;

/// System libraries that Rust's standard library and the client need.
const SYSTEM_LIBRARIES: &[&str] =
    &["-lws2_32", "-lbcrypt", "-lntdll", "-luserenv", "-lsynchronization", "-ladvapi32"];

/// Links every DLL into the folder, unless they are up to date with this archive.
pub fn link(archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut inputs = Inputs::new().file(archive)?.text(&SYSTEM_LIBRARIES.join(" "));
    for (dll, _) in DLLS {
        inputs = inputs.text(dll).text(&definition(dll)?);
    }
    let stamp = Stamp::new(folder.join(".stamp"), inputs);
    if stamp.is_fresh() && DLLS.iter().all(|(dll, _)| folder.join(dll).exists()) {
        return Ok(());
    }
    for (dll, _) in DLLS {
        link_one(archive, folder, dll)?;
    }
    stamp.write()?;
    step::progress(&format!("linked {}", DLLS.map(|(dll, _)| dll).join(", ")));
    Ok(())
}

fn definition(dll: &str) -> Result<String> {
    module_definition(dll).with_context(|| format!("{dll} has no exports in the table"))
}

fn link_one(archive: &Path, folder: &Path, dll: &str) -> Result<()> {
    let script = folder.join(format!(".{dll}.def"));
    fs::write(&script, definition(dll)?).with_context(|| format!("cannot write {}", script.display()))?;
    let mut linker = Command::new(COMPILER);
    linker.args(["-shared", "-static", "-static-libgcc", "-o"]).arg(folder.join(dll));
    // The exports pull in what they need; the entry point that Windows calls is referenced by the C runtime.
    linker.arg(&script).arg(archive);
    let library = folder.join(format!("lib{}.a", dll.trim_end_matches(".dll")));
    linker.arg(format!("-Wl,--out-implib,{}", library.display()));
    linker.args(["-Wl,--gc-sections", "-s", "-Wl,--no-insert-timestamp"]);
    checked(linker.args(SYSTEM_LIBRARIES)).with_context(|| format!("linking {dll} failed"))
}
