//! The zip archive for Windows: unpack it anywhere and run `remora.exe`.

use super::Parts;
use super::copyright;
use super::crates::Shipped;
use super::stage::{FILE, Stage};
use crate::step;
use crate::windows::{self, PROGRAM, RUST_TARGET};
use anyhow::{Context, Result, bail};
use hip_api::dll::DLLS;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages of this repository that are in the archive.
const ROOTS: &[&str] = &[PROGRAM, "hip-client"];
/// Debian's statements about the C runtime that is linked into the DLLs: mingw-w64's, and GCC's.
const RUNTIMES: &[&str] =
    &["/usr/share/doc/mingw-w64-common/copyright", "/usr/share/doc/gcc-mingw-w64-base/copyright"];
/// Times in zip archives start in 1980.
const EARLIEST: u64 = 315_532_800;

/// Packs the files of a folder: sorted, with one time, and with the same permissions.
const PACK: &str = r#"
import pathlib, sys, time, zipfile
root, into, when = pathlib.Path(sys.argv[1]), sys.argv[2], time.gmtime(int(sys.argv[3]))[:6]
with zipfile.ZipFile(into, "w") as archive:
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        info = zipfile.ZipInfo(path.relative_to(root).as_posix(), when)
        info.create_system, info.external_attr = 3, 0o100644 << 16
        archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
"#;

/// Builds `remora-VERSION-x86_64-windows.zip`; with `built` from the files that are in target/windows.
pub fn build(parts: &Parts<'_>, into: &Path, built: bool) -> Result<PathBuf> {
    let from = if built { windows::folder(parts.repo) } else { windows::build(parts.repo)? };
    let name = format!("remora-{}-x86_64-windows", parts.release.version);
    let stage = Stage::new(parts.work.join("windows"))?;
    let program = format!("{PROGRAM}.exe");
    for file in DLLS.iter().map(|(dll, _)| *dll).chain([program.as_str()]) {
        if !from.join(file).exists() {
            bail!("{} not found: run `cargo xtask windows`, or leave out --built", from.join(file).display());
        }
        stage.file(&from.join(file), &format!("{name}/{file}"), FILE)?;
    }
    for (file, to) in [
        ("LICENSE-MIT", "LICENSE-MIT.txt"),
        ("LICENSE-APACHE", "LICENSE-APACHE.txt"),
        ("deploy/packages/windows/README.txt", "README.txt"),
    ] {
        let path = parts.repo.root.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        stage.bytes(&format!("{name}/{to}"), lines(&text).as_bytes(), FILE)?;
    }
    stage.bytes(&format!("{name}/THIRD-PARTY.txt"), lines(&notices(parts)?).as_bytes(), FILE)?;
    let path = into.join(format!("{name}.zip"));
    let mut pack = Command::new("python3");
    pack.args(["-c", PACK]).arg(&stage.root).arg(&path).arg(parts.release.time.max(EARLIEST).to_string());
    step::output(&mut pack)?;
    Ok(path)
}

/// The licences of everything that is linked in.
fn notices(parts: &Parts<'_>) -> Result<String> {
    let mut text = copyright::third_party(&Shipped::of(parts.repo, ROOTS, RUST_TARGET)?)?;
    text.push_str("\nRust's standard library: MIT OR Apache-2.0\n");
    for path in RUNTIMES {
        let runtime = fs::read(path).with_context(|| format!("cannot read {path}"))?;
        let line = "-".repeat(80);
        text.push_str(&format!("\n{line}\n{path}\n{line}\n\n{}", String::from_utf8_lossy(&runtime)));
    }
    Ok(text)
}

/// A text with the line ends of Windows.
fn lines(text: &str) -> String {
    text.lines().flat_map(|line| [line, "\r\n"]).collect()
}
