//! The Debian packages: the program, the client libraries, the services, pyflame, and debug information.

use super::Parts;
use super::copyright;
use super::deb::Deb;
use super::elf::{self, Needs};
use super::pages;
use super::stage::{FILE, PROGRAM, Stage};
use super::sums;
use crate::audit_lib;
use crate::client_libs;
use crate::provider_lib;
use crate::pyflame;
use crate::step;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the libraries: not one of the loader's, so that ROCm's libraries of the same names can be installed too.
const LIBRARIES: &str = "usr/lib/remora";
const UNITS: &str = "usr/lib/systemd/system";
/// Where debuggers look for debug information by build ID.
const DEBUG: &str = "usr/lib/debug/.build-id";

/// Builds all of them into a folder.
pub fn build(parts: &Parts<'_>, into: &Path) -> Result<()> {
    let debug = Stage::new(parts.work.join("remora-dbgsym"))?;
    for make in [program, libraries, agent, board] {
        note(&make(parts, &debug, into)?);
    }
    note(&python(parts, into)?);
    note(&debug_information(parts, &debug, into)?);
    Ok(())
}

fn note(path: &Path) {
    step::progress(&format!("made {}", path.file_name().unwrap_or_default().to_string_lossy()));
}

/// The package that must be installed in the same version.
fn same(parts: &Parts<'_>, name: &str) -> String {
    format!("{name} (= {})", parts.release.version)
}

fn program(parts: &Parts<'_>, debug: &Stage, into: &Path) -> Result<PathBuf> {
    let stage = Stage::new(parts.work.join("remora"))?;
    let remora = stage.file(&parts.built.remora, "usr/bin/remora", PROGRAM)?;
    elf::strip(&parts.built.remora, &remora, Some(&debug.folder(DEBUG)?))?;
    pages::add(&parts.built.remora, &stage, "usr", &parts.work)?;
    unit(parts, &stage, "remora-worker@.service")?;
    stage.folder("etc/remora")?;
    let notices = copyright::third_party(&parts.shipped)?;
    stage.compressed("usr/share/doc/remora/THIRD-PARTY.gz", notices.as_bytes())?;
    let deb = Deb {
        name: "remora",
        architecture: "amd64",
        section: "science",
        summary: "run HIP programs on a GPU of another machine, or on a software GPU",
        description: &[
            "Remora runs unmodified HIP programs on an AMD GPU of another machine, or",
            "on a software MI210, MI250X, MI300A, MI300X or MI325X of this one.",
            "",
            "This package has the program: \"remora run -- ./program\" runs a program,",
            "\"remora worker\" offers the GPUs of a machine to others.",
        ],
        fields: vec![
            (
                "Depends",
                format!("{}, {}", same(parts, "libamdhip64-remora"), Needs::of(&[remora])?.debian()?),
            ),
            // The compiler of hiprtc and of the board; programs that are compiled already need none.
            ("Suggests", "clang-19 | clang-17, rocm-device-libs-17 | rocm-device-libs".to_owned()),
        ],
        scripts: services(&["remora-worker@*.service"], &["/etc/remora"]),
        ..Deb::default()
    };
    deb.build(parts, &stage, into)
}

fn libraries(parts: &Parts<'_>, debug: &Stage, into: &Path) -> Result<PathBuf> {
    let stage = Stage::new(parts.work.join("libamdhip64-remora"))?;
    let linked = parts.work.join("lib");
    client_libs::link(&linked, &parts.repo.target.join("release/libhip_client.a"), true)?;
    let mut files = Vec::new();
    for soname in client_libs::SONAMES {
        let from = linked.join(soname);
        let to = stage.file(&from, &format!("{LIBRARIES}/{soname}"), FILE)?;
        elf::strip(&from, &to, Some(&debug.folder(DEBUG)?))?;
        files.push(to);
    }
    let audit = parts.built.lib.join(audit_lib::NAME);
    files.push(stage.file(&audit, &format!("{LIBRARIES}/{}", audit_lib::NAME), FILE)?);
    // Two configurations of the loader, between which update-alternatives chooses.
    stage.bytes("usr/share/remora/ld-system.conf", b"# libamdhip64 of the system\n", FILE)?;
    let ours = format!("# libamdhip64 of Remora\n/{LIBRARIES}\n");
    stage.bytes("usr/share/remora/ld-remora.conf", ours.as_bytes(), FILE)?;
    let deb = Deb {
        name: "libamdhip64-remora",
        architecture: "amd64",
        section: "libs",
        summary: "drop-in libamdhip64 that forwards HIP calls to a GPU elsewhere",
        description: &[
            "Programs that load libamdhip64 (HIP 5, 6 or 7) or libhiprtc from this",
            "package use the GPU of a Remora worker.",
            "",
            "The libraries are in a folder of their own, beside those of ROCm. \"remora",
            "run\" sets the path to them. update-alternatives (libamdhip64.conf) makes",
            "them those of every program.",
        ],
        fields: vec![("Depends", Needs::of(&files)?.debian()?)],
        scripts: vec![
            ("postinst", ALTERNATIVES_ON.replace("LINK", ALTERNATIVE)),
            ("prerm", ALTERNATIVES_OFF.to_owned()),
        ],
        ..Deb::default()
    };
    deb.build(parts, &stage, into)
}

const ALTERNATIVE: &str = "/etc/ld.so.conf.d/00-libamdhip64.conf libamdhip64.conf /usr/share/remora";
const ALTERNATIVES_ON: &str = r#"
if [ "$1" = configure ]; then
    update-alternatives --quiet --install LINK/ld-system.conf 100
    update-alternatives --quiet --install LINK/ld-remora.conf 10
fi
"#;
const ALTERNATIVES_OFF: &str = r#"
if [ "$1" = remove ]; then
    chosen=$(readlink /etc/alternatives/libamdhip64.conf || true)
    update-alternatives --quiet --remove libamdhip64.conf /usr/share/remora/ld-remora.conf
    update-alternatives --quiet --remove libamdhip64.conf /usr/share/remora/ld-system.conf
    # Only then does the loader's cache name these libraries.
    if [ "$chosen" = /usr/share/remora/ld-remora.conf ]; then
        ldconfig
    fi
fi
"#;

fn agent(parts: &Parts<'_>, debug: &Stage, into: &Path) -> Result<PathBuf> {
    let stage = Stage::new(parts.work.join("remora-agent"))?;
    let from = parts.built.lib.join(provider_lib::NAME);
    let provider = stage.file(&from, &format!("{LIBRARIES}/{}", provider_lib::NAME), FILE)?;
    elf::strip(&from, &provider, Some(&debug.folder(DEBUG)?))?;
    unit(parts, &stage, "remora-agent.service")?;
    stage.bytes("etc/remora/agent.toml", AGENT.as_bytes(), FILE)?;
    let deb = Deb {
        name: "remora-agent",
        architecture: "amd64",
        section: "admin",
        summary: "share the GPUs of a machine among Remora's clients",
        description: &[
            "The agent of a machine with GPUs: it hands out shares of them over HTTP,",
            "runs a limited worker for each, and reports their use.",
            "",
            "The service is not started by itself: systemctl enable --now remora-agent.",
        ],
        fields: vec![(
            "Depends",
            format!("{}, {}", same(parts, "remora"), Needs::of(&[provider])?.debian()?),
        )],
        configuration: &["/etc/remora/agent.toml"],
        scripts: services(
            &["remora-agent.service"],
            &["/var/lib/remora", "/var/lib/private/remora", "/etc/remora"],
        ),
    };
    deb.build(parts, &stage, into)
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

fn board(parts: &Parts<'_>, _: &Stage, into: &Path) -> Result<PathBuf> {
    let stage = Stage::new(parts.work.join("remora-board"))?;
    unit(parts, &stage, "remora-board.service")?;
    let user = "u remora - \"Remora board\" /var/lib/remora-board /usr/sbin/nologin\n";
    stage.bytes("usr/lib/sysusers.d/remora-board.conf", user.as_bytes(), FILE)?;
    let mut scripts = services(&["remora-board.service"], &["/var/lib/remora-board"]);
    if let Some((_, text)) = scripts.iter_mut().find(|(name, _)| *name == "postinst") {
        text.insert_str(0, "\nif [ \"$1\" = configure ]; then\n    systemd-sysusers remora-board.conf\nfi\n");
    }
    let deb = Deb {
        name: "remora-board",
        architecture: "all",
        section: "web",
        summary: "service that checks and measures submitted HIP kernels",
        description: &[
            "The board accepts HIP kernels over HTTP and in a browser, checks them and",
            "measures them on software or real GPUs.",
            "",
            "The service is not started by itself: systemctl enable --now remora-board.",
        ],
        fields: vec![
            (
                "Depends",
                format!(
                    "{}, systemd | systemd-standalone-sysusers | systemd-sysusers",
                    same(parts, "remora")
                ),
            ),
            ("Recommends", "clang-19 | clang-17, rocm-device-libs-17 | rocm-device-libs".to_owned()),
        ],
        scripts,
        ..Deb::default()
    };
    deb.build(parts, &stage, into)
}

fn python(parts: &Parts<'_>, into: &Path) -> Result<PathBuf> {
    const PLACE: &str = "usr/lib/python3/dist-packages/pyflame";
    let package = pyflame::package(parts.repo)?;
    let stage = Stage::new(parts.work.join("pyflame"))?;
    let mut module = None;
    for file in sums::files(&package.join("pyflame"))? {
        let name = file.strip_prefix(package.join("pyflame")).unwrap_or(&file).display().to_string();
        if name.contains("__pycache__") {
            continue;
        }
        let to = stage.file(&file, &format!("{PLACE}/{name}"), FILE)?;
        if name.ends_with(".so") {
            elf::strip(&file, &to, None)?;
            module = Some(to);
        }
    }
    let module = module.with_context(|| format!("{} has no module", package.display()))?;
    let deb = Deb {
        name: "pyflame",
        architecture: "amd64",
        section: "python",
        summary: "tensors and neural networks in Python, on the CPU and on AMD GPUs",
        description: &[
            "A tensor library for Python with gradients, fusion, linear algebra and",
            "transforms. It computes on the CPU, and on AMD GPUs that are local, on",
            "another machine or made of software, through Remora.",
        ],
        fields: vec![
            ("Depends", format!("python3 (>= 3.8), {}", Needs::of(&[module])?.debian()?)),
            ("Recommends", "python3-numpy, remora".to_owned()),
        ],
        scripts: vec![("postinst", COMPILE.to_owned()), ("prerm", CLEAN.to_owned())],
        ..Deb::default()
    };
    deb.build(parts, &stage, into)
}

/// As Debian's packages of Python modules do.
const COMPILE: &str = r#"
if [ "$1" = configure ] && command -v py3compile >/dev/null; then
    py3compile -p pyflame
fi
"#;
const CLEAN: &str = r#"
if command -v py3clean >/dev/null; then
    py3clean -p pyflame
fi
"#;

fn debug_information(parts: &Parts<'_>, stage: &Stage, into: &Path) -> Result<PathBuf> {
    let deb = Deb {
        name: "remora-dbgsym",
        architecture: "amd64",
        section: "debug",
        summary: "debug information of Remora's program and libraries",
        description: &["Debuggers find it by the build IDs of the installed files."],
        fields: vec![("Auto-Built-Package", "debug-symbols".to_owned())],
        ..Deb::default()
    };
    deb.build(parts, stage, into)
}

fn unit(parts: &Parts<'_>, stage: &Stage, name: &str) -> Result<()> {
    let from = parts.repo.root.join("deploy/systemd").join(name);
    stage.file(&from, &format!("{UNITS}/{name}"), FILE).map(drop)
}

/// Scripts of a package with services: systemd learns of them, they end before they are removed, and a purge removes their data.
fn services(units: &[&str], data: &[&str]) -> Vec<(&'static str, String)> {
    let units = units.iter().map(|unit| format!("'{unit}'")).collect::<Vec<_>>().join(" ");
    let reload = "if [ -d /run/systemd/system ]; then\n    systemctl daemon-reload || true\nfi\n";
    // Templates cannot be disabled by a pattern; their links are removed with the data.
    let disable = if units.contains('@') {
        "    rm -f /etc/systemd/system/*.wants/remora-worker@*.service\n".to_owned()
    } else {
        format!(
            "    if command -v systemctl >/dev/null; then\n        systemctl --quiet --no-reload disable {units} || true\n    fi\n"
        )
    };
    let stop = format!(
        "if [ \"$1\" = remove ]; then\n    if [ -d /run/systemd/system ]; then\n        systemctl stop {units} || true\n    fi\n{disable}fi\n"
    );
    // Folders that several packages use go when they are empty; state goes with its contents.
    let removals: String = data
        .iter()
        .map(|path| match path.starts_with("/etc") {
            true => format!("    rmdir --ignore-fail-on-non-empty {path} 2>/dev/null || true\n"),
            false => format!("    rm -rf {path}\n"),
        })
        .collect();
    let purge = format!("if [ \"$1\" = purge ]; then\n{removals}fi\n{reload}");
    vec![("postinst", reload.to_owned()), ("prerm", stop), ("postrm", purge)]
}

/// The packages of a folder, without debug information.
pub fn installable(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".deb") && !name.contains("-dbgsym_") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The name of a package from its file.
pub fn name_of(path: &Path) -> Result<String> {
    let mut dpkg = Command::new("dpkg-deb");
    Ok(step::output(dpkg.arg("--field").arg(path).arg("Package"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_removes_state_and_only_empty_folders_of_settings() {
        let scripts = services(&["remora-agent.service"], &["/var/lib/remora", "/etc/remora"]);
        let (_, purge) = scripts.iter().find(|(name, _)| *name == "postrm").unwrap();
        assert!(purge.contains("rm -rf /var/lib/remora\n"), "{purge}");
        assert!(purge.contains("rmdir --ignore-fail-on-non-empty /etc/remora"), "{purge}");
        assert!(!purge.contains("rm -rf /etc"), "{purge}");
    }
}
