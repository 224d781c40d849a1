//! The part `compiler` of a bundle: clang with the AMDGPU target, its linker, HIP's headers and the device libraries, in the layout
//! that `remora worker` searches, with the shared libraries that a machine may lack.

use crate::examples::checked;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs in LLVM's folder, and other names of each. The first is the name that `remora worker` searches.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("clang", &["clang++-19", "clang++"]),
    ("lld", &["ld.lld"]),
    ("llvm-link", &[]),
    ("clang-offload-bundler", &[]),
];

/// Libraries that every machine has, with its own C library.
const EVERYWHERE: &[&str] = &["libc.", "libm.", "libdl.", "libpthread.", "librt.", "libstdc++.", "libgcc_s."];

/// Libraries that LLVM is linked with and needs for no HIP program, 54 MB: ICU's data, and the solver of the static analyzer.
const UNUSED: &[&str] = &["libicudata.", "libz3."];

/// Collects the compiler in a folder.
pub fn collect(repo: &Repo, toolchain: &Toolchain, folder: &Path) -> Result<()> {
    step::heading("collecting the compiler");
    let (bin, lib) = (folder.join("bin"), folder.join("lib"));
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    fs::create_dir_all(&lib).with_context(|| format!("cannot create {}", lib.display()))?;
    let llvm = toolchain.clang.parent().context("the compiler has no folder")?;
    let mut libraries = BTreeSet::new();
    for (name, aliases) in PROGRAMS {
        let program = llvm.join(name).canonicalize().with_context(|| format!("there is no {name}"))?;
        libraries.extend(needed(&program)?);
        copy(&program, &bin.join(name))?;
        for alias in *aliases {
            symlink(name, bin.join(alias)).with_context(|| format!("cannot link {alias}"))?;
        }
    }
    for (name, path) in libraries {
        match UNUSED.iter().any(|start| name.starts_with(start)) {
            true => empty_library(toolchain, &name, &path, &lib.join(&name))?,
            false => copy(&path, &lib.join(&name))?,
        }
    }
    let resources = llvm.join("../lib/clang/19/include");
    tree(&resources, &lib.join("clang/19"))?;
    tree(&toolchain.hip, &folder.join("hip"))?;
    tree(&repo.toolchain().join("device-libs"), folder)?;
    for part in [&bin, &lib] {
        for file in
            fs::read_dir(part)?.flatten().filter(|entry| entry.file_type().is_ok_and(|it| it.is_file()))
        {
            inherit_search_path(&file.path())?;
        }
    }
    check(&bin.join("clang"), folder)?;
    check(&bin.join("lld"), folder)
}

/// The libraries that a program loads, without those of every machine: names and paths.
fn needed(program: &Path) -> Result<Vec<(String, PathBuf)>> {
    let text = step::output(Command::new("ldd").arg(program))?;
    let pairs = text.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        Some((name.to_owned(), PathBuf::from(rest.split(" (").next()?)))
    });
    Ok(pairs.filter(|(name, _)| !EVERYWHERE.iter().any(|start| name.starts_with(start))).collect())
}

/// Fails if a library would be taken from this system, which the other machine may lack.
fn check(program: &Path, folder: &Path) -> Result<()> {
    let folder = folder.canonicalize()?;
    for (name, path) in needed(program)? {
        if !path.canonicalize().is_ok_and(|path| path.starts_with(&folder)) {
            bail!("{} loads {name} from {}", program.display(), path.display());
        }
    }
    Ok(())
}

/// A library with the same symbols and nothing behind them.
fn empty_library(toolchain: &Toolchain, name: &str, original: &Path, to: &Path) -> Result<()> {
    let text = step::output(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(original))?;
    let symbols = text.lines().filter_map(|line| line.split_whitespace().nth(2));
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let names: BTreeSet<&str> = symbols.filter(is_name).collect();
    let source: String = names.iter().map(|name| format!("const char {name}[8] = {{0}};\n")).collect();
    if source.is_empty() {
        bail!("{} defines no symbols", original.display());
    }
    let file = to.with_extension("c");
    fs::write(&file, source).with_context(|| format!("cannot write {}", file.display()))?;
    let mut compiler = Command::new(&toolchain.clang);
    compiler.args(["-x", "c", "-shared", "-fPIC", "-nostdlib", &format!("-Wl,-soname,{name}")]);
    checked(compiler.arg(&file).arg("-o").arg(to))?;
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))
}

const PROGRAM_HEADERS: usize = 32;
const DYNAMIC: u32 = 2;
const RUNPATH: u64 = 0x1d;
const RPATH: u64 = 0xf;

/// Turns an ELF file's RUNPATH, `$ORIGIN/../lib` in LLVM's packages, into an RPATH: only that one also applies to the libraries of
/// its libraries. There is no variable for it, since a compiler in the sandbox has an empty environment.
fn inherit_search_path(path: &Path) -> Result<()> {
    let mut bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if replace_run_path(&mut bytes).with_context(|| format!("{} is no ELF file", path.display()))? {
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Whether there was a RUNPATH; `None` if the bytes are no 64-bit ELF file.
fn replace_run_path(bytes: &mut [u8]) -> Option<bool> {
    let number = |bytes: &[u8], at: usize, size: usize| -> Option<u64> {
        let field = bytes.get(at..at.checked_add(size)?)?;
        Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    if bytes.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let table = usize::try_from(number(bytes, PROGRAM_HEADERS, 8)?).ok()?;
    let size = usize::try_from(number(bytes, 54, 2)?).ok()?;
    let count = usize::try_from(number(bytes, 56, 2)?).ok()?;
    let mut found = false;
    for header in (0..count).map(|index| table + index * size) {
        if number(bytes, header, 4)? != u64::from(DYNAMIC) {
            continue;
        }
        let start = usize::try_from(number(bytes, header + 8, 8)?).ok()?;
        let length = usize::try_from(number(bytes, header + 32, 8)?).ok()?;
        for entry in (start..start.checked_add(length)?).step_by(16) {
            if number(bytes, entry, 8)? == RUNPATH {
                bytes.get_mut(entry..entry + 8)?.copy_from_slice(&RPATH.to_le_bytes());
                found = true;
            }
        }
    }
    Some(found)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Copies a folder into another one.
fn tree(from: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    checked(Command::new("cp").args(["--recursive", "-H"]).arg(from).arg(into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_path_of_an_elf_file_becomes_inherited() {
        let mut bytes = vec![0; 256];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        bytes[PROGRAM_HEADERS] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = DYNAMIC as u8;
        bytes[64 + 8] = 128;
        bytes[64 + 32] = 48;
        bytes[128] = 1;
        bytes[144] = RUNPATH as u8;
        assert_eq!(replace_run_path(&mut bytes), Some(true));
        assert_eq!((bytes[128], bytes[144]), (1, RPATH as u8));
        assert_eq!(replace_run_path(&mut bytes), Some(false));
        assert_eq!(replace_run_path(&mut bytes[..100]), None);
        assert_eq!(replace_run_path(&mut [0; 64]), None);
    }
}
