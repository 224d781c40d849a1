//! Programs and libraries of packages: what they need of the system, and their debug information.

use crate::step;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What programs and libraries need of the system.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// SONAMEs.
    pub libraries: BTreeSet<String>,
    /// The oldest glibc that has every symbol; (0, 0) without glibc.
    pub glibc: (u32, u32),
}

impl Needs {
    /// The needs of all files together.
    pub fn of(files: &[PathBuf]) -> Result<Needs> {
        let mut needs = Needs::default();
        for file in files {
            let text = step::output(Command::new("objdump").arg("-p").arg(file).env("LC_ALL", "C"))?;
            needs.add(&text).with_context(|| format!("cannot find what {} needs", file.display()))?;
        }
        Ok(needs)
    }

    /// Adds the needs of a file, as `objdump -p` prints them.
    fn add(&mut self, text: &str) -> Result<()> {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["NEEDED", library] => {
                    self.libraries.insert(library.to_owned());
                }
                [_, _, _, symbol] if symbol.starts_with("GLIBC_") => {
                    self.glibc = self.glibc.max(glibc(symbol)?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Symbols that a file imports without a version: its libraries had none of that name when it was linked.
    pub fn unknown_symbols(file: &Path) -> Result<Vec<String>> {
        let mut nm = Command::new("nm");
        let text = step::output(nm.args(["--dynamic", "--undefined-only"]).arg(file).env("LC_ALL", "C"))?;
        Ok(unknown(&text))
    }

    /// The Debian packages that have these libraries, as in a `Depends` field.
    pub fn debian(&self) -> Result<String> {
        let mut packages = BTreeSet::new();
        for library in &self.libraries {
            packages.insert(match library.as_str() {
                "libc.so.6"
                | "libm.so.6"
                | "libdl.so.2"
                | "libpthread.so.0"
                | "librt.so.1"
                | "libutil.so.1"
                | "ld-linux-x86-64.so.2" => format!("libc6 (>= {}.{})", self.glibc.0, self.glibc.1),
                "libgcc_s.so.1" => "libgcc-s1 (>= 4.2)".to_owned(),
                other => bail!("{other} is in no Debian package that is known here; add it to dist/elf.rs"),
            });
        }
        Ok(Vec::from_iter(packages).join(", "))
    }
}

/// The symbols without a version that `nm --dynamic --undefined-only` prints. Weak ones may be missing.
fn unknown(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("U "));
    names.filter(|name| !name.contains('@')).map(str::to_owned).collect()
}

/// A version of glibc from the name of a symbol version.
fn glibc(symbol: &str) -> Result<(u32, u32)> {
    match symbol {
        // A mark that linkers set; the first loader that knows it.
        "GLIBC_ABI_DT_RELR" => return Ok((2, 36)),
        "GLIBC_PRIVATE" => bail!("it uses private symbols of glibc"),
        _ => {}
    }
    let mut numbers = symbol.trim_start_matches("GLIBC_").split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => bail!("{symbol} is not a version of glibc"),
    }
}

/// Replaces a staged copy of a program or library by one without debug information. With `debug`, the folder for debug information
/// by build ID, keeps that there, where debuggers look for it.
pub fn strip(from: &Path, to: &Path, debug: Option<&Path>) -> Result<()> {
    let mut strip = Command::new("objcopy");
    // The symbol table goes too. The exports are in the dynamic one.
    strip.arg("--strip-all").args(["--remove-section=.comment", "--remove-section=.note"]);
    if let Some(folder) = debug {
        let id = build_id(from)?;
        let place = folder.join(&id[..2]).join(format!("{}.debug", &id[2..]));
        let parent = place.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let mut keep = Command::new("objcopy");
        keep.args(["--only-keep-debug", "--compress-debug-sections=zlib"]).arg(from).arg(&place);
        step::output(&mut keep)?;
        strip.arg(format!("--add-gnu-debuglink={}", place.display()));
    }
    let permissions = |path: &Path| format!("cannot set the permissions of {}", path.display());
    let staged = fs::metadata(to).with_context(|| permissions(to))?.permissions();
    step::output(strip.arg(from).arg(to))?;
    // objcopy gives it the permissions of its input.
    fs::set_permissions(to, staged).with_context(|| permissions(to))
}

/// The build ID of a program or library, in hexadecimal.
fn build_id(file: &Path) -> Result<String> {
    let text = step::output(Command::new("readelf").arg("-n").arg(file).env("LC_ALL", "C"))?;
    let id = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    id.filter(|id| id.len() > 2 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .map(str::to_owned)
        .with_context(|| format!("{} has no build ID; link it with --build-id", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Dynamic Section:
  NEEDED               libgcc_s.so.1
  NEEDED               libc.so.6
  SONAME               libamdhip64.so.6

Version References:
  required from libc.so.6:
    0x09691a75 0x00 09 GLIBC_2.2.5
    0x069691b4 0x00 06 GLIBC_2.34
  required from libgcc_s.so.1:
    0x0b792650 0x00 02 GCC_3.0
";

    #[test]
    fn the_newest_symbol_decides_which_glibc_is_needed() {
        let mut needs = Needs::default();
        needs.add(TEXT).unwrap();
        assert_eq!(needs.glibc, (2, 34));
        assert_eq!(needs.debian().unwrap(), "libc6 (>= 2.34), libgcc-s1 (>= 4.2)");
    }

    #[test]
    fn a_library_without_a_known_package_is_refused() {
        let mut needs = Needs::default();
        needs.add("  NEEDED  libssl.so.3\n").unwrap();
        assert!(needs.debian().unwrap_err().to_string().contains("libssl.so.3"));
    }

    #[test]
    fn a_symbol_without_a_version_is_unknown_unless_it_is_weak() {
        let text = "                 U gettid\n                 U malloc@GLIBC_2.2.5\n                 w __cxa_thread\n";
        assert_eq!(unknown(text), ["gettid"]);
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(glibc("GLIBC_2.2.5").unwrap(), (2, 2));
        assert!(glibc("GLIBC_2.9").unwrap() < glibc("GLIBC_2.28").unwrap());
        assert!(glibc("GLIBC_PRIVATE").is_err() && glibc("GLIBC_X").is_err());
    }
}
