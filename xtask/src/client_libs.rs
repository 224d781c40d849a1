//! Links the client libraries from the static library that cargo built.
//!
//! rustc links shared libraries with its own version script, which would drop AMD's symbol versions; so the last link step is
//! ours. Every library is the same code, with another name and another set of exports.

use crate::lock::Lock;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use anyhow::{Context, Result, bail};
use hip_api::meta::version_script;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries, by their SONAMEs.
pub const SONAMES: &[&str] =
    &["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7", "libhiprtc.so.6", "libhiprtc.so.7"];

/// Names without a version, for linkers.
const DEVELOPMENT: &[(&str, &str)] =
    &[("libamdhip64.so", "libamdhip64.so.6"), ("libhiprtc.so", "libhiprtc.so.6")];

/// System libraries that Rust's standard library needs.
const SYSTEM_LIBRARIES: &[&str] = &["-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// The C compiler that links them.
#[derive(Debug, Clone)]
pub struct Linker {
    pub program: PathBuf,
    /// Arguments before those of the link.
    pub arguments: Vec<String>,
    /// How it binds a library's calls of its own functions to these, and the library that unwinds stacks.
    pub options: &'static [&'static str],
}

/// Links every library into a folder with this system's C compiler, unless they are up to date with this archive.
pub fn link(folder: &Path, archive: &Path, keep_debug_information: bool) -> Result<()> {
    let linker = Linker {
        program: "cc".into(),
        arguments: Vec::new(),
        options: &["-Wl,-Bsymbolic-functions", "-lgcc_s"],
    };
    link_with(&linker, folder, archive, keep_debug_information)
}

/// Like [`link`], with another C compiler.
pub fn link_with(linker: &Linker, folder: &Path, archive: &Path, keep_debug_information: bool) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _lock = Lock::take(&folder.join(".lock"))?;
    let mut inputs = Inputs::new()
        .text("objects, then archive")
        .file(archive)?
        .text(if keep_debug_information { "debug" } else { "release" })
        .text(&linker.arguments.join(" "))
        .text(&linker.options.join(" "));
    for soname in SONAMES {
        inputs = inputs.text(soname).text(&version_script(soname));
    }
    let stamp = Stamp::new(folder.join(".stamp"), inputs);
    if stamp.is_fresh() && SONAMES.iter().all(|soname| folder.join(soname).exists()) {
        return Ok(());
    }
    let objects = own_objects(archive, &folder.join(".objects"))?;
    for soname in SONAMES {
        link_one(linker, folder, &objects, archive, soname, keep_debug_information)?;
    }
    for (name, points_to) in DEVELOPMENT {
        let link = folder.join(name);
        let _ = fs::remove_file(&link);
        symlink(points_to, &link).with_context(|| format!("cannot create {}", link.display()))?;
    }
    stamp.write()?;
    step::progress(&format!("linked {}", SONAMES.join(", ")));
    Ok(())
}

/// Extracts the objects of the client crate itself from the archive.
///
/// They are linked completely, and everything else only as needed. Linking the whole archive would not work: the compiler's
/// runtime support in it has hidden functions with the names of two that AMD exports (`__gnu_f2h_ieee` and its reverse), and a
/// hidden definition would hide ours.
fn own_objects(archive: &Path, into: &Path) -> Result<Vec<PathBuf>> {
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| format!("cannot remove {}", into.display()))?;
    }
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let members = step::output(Command::new("ar").arg("t").arg(archive))?;
    let own: Vec<&str> = members.lines().filter(|member| member.starts_with("hip_client-")).collect();
    if own.is_empty() {
        bail!("{} contains no objects of the client crate", archive.display());
    }
    step::output(Command::new("ar").current_dir(into).arg("x").arg(archive).args(&own))?;
    Ok(own.iter().map(|member| into.join(member)).collect())
}

fn link_one(
    linker: &Linker,
    folder: &Path,
    objects: &[PathBuf],
    archive: &Path,
    soname: &str,
    keep_debug_information: bool,
) -> Result<()> {
    let script = folder.join(format!(".{soname}.map"));
    fs::write(&script, version_script(soname))
        .with_context(|| format!("cannot write {}", script.display()))?;
    // Linked to a temporary file and renamed, so that a process that has the old file mapped keeps it intact.
    let fresh = folder.join(format!(".{soname}.new"));
    let mut cc = Command::new(&linker.program);
    cc.args(&linker.arguments).arg("-shared").arg("-o").arg(&fresh);
    cc.args(objects).arg(archive);
    cc.arg(format!("-Wl,--version-script={}", script.display()));
    cc.arg(format!("-Wl,-soname,{soname}"));
    // `--no-undefined-version`: a name in the script without a definition is a missing function. `nodelete`: the threads of the
    // library outlive a dlclose, so it must never be unloaded.
    cc.args(["-Wl,--gc-sections", "-Wl,--no-undefined", "-Wl,--no-undefined-version", "-Wl,-z,nodelete"]);
    cc.args(["-Wl,-z,relro", "-Wl,-z,now"]);
    if !keep_debug_information {
        cc.arg("-Wl,--strip-debug");
    }
    cc.args(linker.options).args(SYSTEM_LIBRARIES);
    let output = cc.output().with_context(|| {
        format!("cannot start the C compiler {}, which links the client libraries", linker.program.display())
    })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("linking {soname} failed ({})\n  command: {}\n{text}", output.status, step::command_line(&cc));
    }
    fs::rename(&fresh, folder.join(soname)).with_context(|| format!("cannot replace {soname}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hip_api::meta::Soname;

    #[test]
    fn every_runtime_library_of_the_table_is_linked() {
        for soname in Soname::ALL {
            assert!(SONAMES.contains(&soname.library()), "{}", soname.library());
        }
    }

    #[test]
    fn the_compiler_libraries_export_the_compiler_without_versions() {
        let script = version_script("libhiprtc.so.7");
        assert!(script.starts_with('{'), "{script}");
        assert!(script.contains("hiprtcCompileProgram;") && !script.contains("hipMalloc;"), "{script}");
    }
}
