//! The wheel `remora`: program and libraries for Python environments, `python -m remora`.

use super::Parts;
use super::copyright;
use super::portable::GLIBC;
use super::stage::{FILE, Stage};
use super::tarball;
use super::tools;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the wheel.
pub fn build(parts: &Parts<'_>, into: &Path) -> Result<PathBuf> {
    let version = parts.release.version;
    let stage = Stage::new(parts.work.join("wheel"))?;
    for name in ["__init__.py", "__main__.py"] {
        let from = parts.repo.root.join("deploy/python/remora").join(name);
        stage.file(&from, &format!("remora/{name}"), FILE)?;
    }
    tarball::files(&parts.portable.built, &stage, "remora/bin", "remora/lib")?;
    let tag = tag();
    let info = format!("remora-{version}.dist-info");
    let text = |name: &str, text: &str| stage.bytes(&format!("{info}/{name}"), text.as_bytes(), FILE);
    text("METADATA", &metadata(version))?;
    text("WHEEL", &format!("Wheel-Version: 1.0\nGenerator: remora\nRoot-Is-Purelib: false\nTag: {tag}\n"))?;
    text("entry_points.txt", "[console_scripts]\nremora = remora.__main__:main\n")?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        stage.file(&parts.repo.root.join(licence), &format!("{info}/licenses/{licence}"), FILE)?;
    }
    text("licenses/THIRD-PARTY", &copyright::third_party(&parts.shipped)?)?;
    let python = tools::python(parts.repo)?;
    let mut pack = Command::new(python);
    pack.args(["-m", "wheel", "pack", "--dest-dir"]).arg(into).arg(&stage.root);
    step::output(pack.env("SOURCE_DATE_EPOCH", parts.release.zip_time().to_string()))?;
    let path = into.join(format!("remora-{version}-{tag}.whl"));
    if !path.exists() {
        bail!("`wheel pack` did not make {}", path.display());
    }
    Ok(path)
}

/// Any Python 3, on any Linux with this glibc.
fn tag() -> String {
    format!("py3-none-manylinux_{}_{}_x86_64", GLIBC.0, GLIBC.1)
}

fn metadata(version: &str) -> String {
    format!(
        "Metadata-Version: 2.4
Name: remora
Version: {version}
Summary: Runs HIP programs on a GPU of another machine, or on a software GPU
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
License-File: THIRD-PARTY
Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Rust
Description-Content-Type: text/markdown

# Remora

Runs unmodified HIP programs on an AMD GPU of another machine, or on a software MI210, MI250X, MI300A, MI300X or MI325X of this one.
No compiler, driver or ROCm is needed:

    python -m remora run -- ./my_hip_program

`remora.use()` in Python starts a software GPU for the process; `pip install pyflame[gpu]` does that for tensors.
"
    )
}

/// Adds pyflame's wheel, which maturin made.
pub fn add_pyflame(parts: &Parts<'_>, into: &Path) -> Result<PathBuf> {
    let wheel = &parts.portable.pyflame;
    let path = into.join(wheel.file_name().context("a wheel without a name")?);
    fs::copy(wheel, &path).with_context(|| format!("cannot copy {}", wheel.display()))?;
    Ok(path)
}
