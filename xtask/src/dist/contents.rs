//! The files of the Debian packages.

use super::Parts;
use super::copyright;
use super::elf;
use super::pages;
use super::stage::{FILE, PROGRAM, Stage};
use super::sums;
use crate::audit_lib;
use crate::client_libs;
use crate::foreign;
use crate::provider_lib;
use crate::setup;
use crate::step;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the libraries: not one of the loader's, so that ROCm's libraries of the same names can be installed too.
const LIBRARIES: &str = "usr/lib/remora";
const UNITS: &str = "usr/lib/systemd/system";
/// Where debuggers look for debug information by build ID.
const DEBUG: &str = "usr/lib/debug/.build-id";
const MODULES: &str = "usr/lib/python3/dist-packages";

/// The program, its man pages and completions, and the unit of workers.
pub fn program(parts: &Parts<'_>, stage: &Stage, debug: &Stage) -> Result<Vec<PathBuf>> {
    let built = &parts.portable.built;
    let remora = stage.file(&built.remora, "usr/bin/remora", PROGRAM)?;
    elf::strip(&built.remora, &remora, Some(&debug.folder(DEBUG)?))?;
    pages::add(&built.remora, stage, "usr", &parts.work)?;
    unit(parts, stage, "remora-worker@.service")?;
    stage.folder("etc/remora")?;
    let notices = copyright::third_party(&parts.shipped)?;
    stage.compressed("usr/share/doc/remora/THIRD-PARTY.gz", notices.as_bytes())?;
    Ok(vec![remora])
}

/// The client libraries, and the two configurations of the loader between which update-alternatives chooses.
pub fn libraries(parts: &Parts<'_>, stage: &Stage, debug: &Stage) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for soname in client_libs::SONAMES {
        files.push(library(parts, soname, stage, Some(debug))?);
    }
    files.push(library(parts, audit_lib::NAME, stage, None)?);
    stage.bytes("usr/share/remora/ld-system.conf", b"# libamdhip64 of the system\n", FILE)?;
    let ours = format!("# libamdhip64 of Remora\n/{LIBRARIES}\n");
    stage.bytes("usr/share/remora/ld-remora.conf", ours.as_bytes(), FILE)?;
    Ok(files)
}

/// HIP's headers and the device libraries, where `remora` looks for them, with Debian's files on their licences. No Debian release
/// has both in versions that fit together and support every software GPU; `setup` unpacks them from several.
pub fn compiler(parts: &Parts<'_>, stage: &Stage, _: &Stage) -> Result<Vec<PathBuf>> {
    const CONTENTS: [&str; 3] = ["hip/usr/include", "hip/usr/share/hip", "device-libs/usr/lib/llvm-17"];
    const LICENCES: [(&str, &str); 2] = [("hip", "libamdhip64-dev"), ("device-libs", "rocm-device-libs-17")];
    setup::run(parts.repo)?;
    let toolchain = parts.repo.toolchain();
    for folder in CONTENTS {
        for file in sums::files(&toolchain.join(folder))? {
            let name = file.strip_prefix(&toolchain).unwrap_or(&file).display();
            stage.file(&file, &format!("{LIBRARIES}/toolchain/{name}"), FILE)?;
        }
    }
    for (folder, package) in LICENCES {
        let path = toolchain.join(folder).join("usr/share/doc").join(package).join("copyright");
        stage.file(&path, &format!("usr/share/doc/remora-compiler/copyright.{package}"), FILE)?;
    }
    Ok(Vec::new())
}

/// The provider library, the agent's unit and its settings.
pub fn agent(parts: &Parts<'_>, stage: &Stage, debug: &Stage) -> Result<Vec<PathBuf>> {
    let provider = library(parts, provider_lib::NAME, stage, Some(debug))?;
    unit(parts, stage, "remora-agent.service")?;
    stage.bytes("etc/remora/agent.toml", AGENT.as_bytes(), FILE)?;
    Ok(vec![provider])
}

const AGENT: &str = r#"# Settings of the agent (remora agent). The flags of `remora agent --help` have the same names.
provider = "/usr/lib/remora/libaccelerator_amd.so"
# The API is for this machine only. For others: "0.0.0.0:8001" and HTTPS.
listen = "127.0.0.1:8001"
# tls_self_signed = true
# Workers are for this machine only. For others: "0.0.0.0"; workers then use TLS.
worker_host = "127.0.0.1"
# Software GPUs, in addition to the real ones.
# [[software]]
# model = "mi300x"
# memory = 17179869184
"#;

/// The board's unit and user.
pub fn board(parts: &Parts<'_>, stage: &Stage, _: &Stage) -> Result<Vec<PathBuf>> {
    unit(parts, stage, "remora-board.service")?;
    let user = "u remora - \"Remora board\" /var/lib/remora-board /usr/sbin/nologin\n";
    stage.bytes("usr/lib/sysusers.d/remora-board.conf", user.as_bytes(), FILE)?;
    Ok(Vec::new())
}

/// The module as it is in the wheel.
pub fn pyflame(parts: &Parts<'_>, stage: &Stage, _: &Stage) -> Result<Vec<PathBuf>> {
    let (wheel, folder) = (&parts.portable.pyflame, parts.work.join("pyflame-wheel"));
    foreign::remove(&folder)?;
    let mut unzip = Command::new("/usr/bin/python3");
    step::output(unzip.args(["-m", "zipfile", "--extract"]).arg(wheel).arg(&folder))?;
    let mut modules = Vec::new();
    for file in sums::files(&folder.join("pyflame"))? {
        let name = file.strip_prefix(&folder).unwrap_or(&file).display().to_string();
        let to = stage.file(&file, &format!("{MODULES}/{name}"), FILE)?;
        if name.ends_with(".so") {
            modules.push(to);
        }
    }
    if modules.is_empty() {
        bail!("{} has no compiled module", wheel.display());
    }
    Ok(modules)
}

/// Adds a library without its debug information, which goes to the other tree.
fn library(parts: &Parts<'_>, name: &str, stage: &Stage, debug: Option<&Stage>) -> Result<PathBuf> {
    let from = parts.portable.built.lib.join(name);
    let to = stage.file(&from, &format!("{LIBRARIES}/{name}"), FILE)?;
    if let Some(debug) = debug {
        elf::strip(&from, &to, Some(&debug.folder(DEBUG)?))?;
    }
    Ok(to)
}

fn unit(parts: &Parts<'_>, stage: &Stage, name: &str) -> Result<()> {
    let from: &Path = &parts.repo.root.join("deploy/systemd").join(name);
    stage.file(from, &format!("{UNITS}/{name}"), FILE).map(drop)
}
