//! The Debian packages: the program, the client libraries, the services, pyflame, and debug information.

use super::Parts;
use super::contents;
use super::deb::Deb;
use super::elf::Needs;
use super::scripts::{self, Script};
use super::stage::Stage;
use crate::step;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package: its fields, and where its files are from.
struct Package {
    name: &'static str,
    /// `amd64`, or `all` for packages without programs.
    architecture: &'static str,
    section: &'static str,
    summary: &'static str,
    description: &'static [&'static str],
    /// Packages of ours that must be installed in the same version.
    same: &'static [&'static str],
    /// Other packages that it needs, beside those of the libraries that its programs are linked with.
    depends: &'static [&'static str],
    /// Further fields.
    fields: &'static [(&'static str, &'static str)],
    /// Files that the user may change.
    configuration: &'static [&'static str],
    /// Adds its files to the first tree and their debug information to the second; returns programs and libraries.
    files: fn(&Parts<'_>, &Stage, &Stage) -> Result<Vec<PathBuf>>,
    scripts: fn() -> Vec<Script>,
}

/// The compiler of hiprtc and of the board; programs that are compiled already need none.
pub const COMPILER: &str = "remora-compiler";

/// All packages; the one of debug information is last, after the others have filled it.
const PACKAGES: &[Package] = &[
    Package {
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
        same: &["libamdhip64-remora"],
        depends: &[],
        fields: &[("Suggests", COMPILER)],
        configuration: &[],
        files: contents::program,
        scripts: || scripts::services(&["remora-worker@*.service"], &["/etc/remora"]),
    },
    Package {
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
        same: &[],
        depends: &[],
        fields: &[],
        configuration: &[],
        files: contents::libraries,
        scripts: scripts::alternatives,
    },
    Package {
        name: COMPILER,
        architecture: "all",
        section: "devel",
        summary: "HIP headers and device libraries for Remora's kernel compiler",
        description: &[
            "Remora's workers and board compile HIP kernels with Debian's clang, the",
            "headers of HIP and AMD's device libraries. This package has the latter",
            "two, in versions that fit together and support all software GPUs.",
            "",
            "Programs that are compiled already do not need it.",
        ],
        same: &[],
        depends: &["clang-19", "lld-19"],
        fields: &[("Enhances", "remora")],
        configuration: &[],
        files: contents::compiler,
        scripts: Vec::new,
    },
    Package {
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
        same: &["remora"],
        depends: &[],
        fields: &[],
        configuration: &["/etc/remora/agent.toml"],
        files: contents::agent,
        scripts: || {
            scripts::services(
                &["remora-agent.service"],
                &["/var/lib/remora", "/var/lib/private/remora", "/etc/remora"],
            )
        },
    },
    Package {
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
        same: &["remora"],
        depends: &["systemd | systemd-standalone-sysusers | systemd-sysusers"],
        fields: &[("Recommends", COMPILER)],
        configuration: &[],
        files: contents::board,
        scripts: scripts::board,
    },
    Package {
        name: "pyflame",
        architecture: "amd64",
        section: "python",
        summary: "tensors and neural networks in Python, on the CPU and on AMD GPUs",
        description: &[
            "A tensor library for Python with gradients, fusion, linear algebra and",
            "transforms. It computes on the CPU, and on AMD GPUs that are local, on",
            "another machine or made of software, through Remora.",
        ],
        same: &[],
        depends: &["python3 (>= 3.8)"],
        fields: &[("Recommends", "python3-numpy, remora")],
        configuration: &[],
        files: contents::pyflame,
        scripts: scripts::python,
    },
    Package {
        name: "remora-dbgsym",
        architecture: "amd64",
        section: "debug",
        summary: "debug information of Remora's program and libraries",
        description: &["Debuggers find it by the build IDs of the installed files."],
        same: &[],
        depends: &[],
        fields: &[("Auto-Built-Package", "debug-symbols")],
        configuration: &[],
        files: |_, _, _| Ok(Vec::new()),
        scripts: Vec::new,
    },
];

/// Builds all of them into a folder.
pub fn build(parts: &Parts<'_>, into: &Path) -> Result<()> {
    let stage = |package: &Package| Stage::new(parts.work.join(package.name));
    let stages = PACKAGES.iter().map(stage).collect::<Result<Vec<_>>>()?;
    let debug = stages.last().context("there are no packages")?;
    for (package, stage) in PACKAGES.iter().zip(&stages) {
        let programs = (package.files)(parts, stage, debug)?;
        let path = package.deb(parts, &programs)?.build(parts, stage, into)?;
        step::progress(&format!("made {}", path.file_name().unwrap_or_default().to_string_lossy()));
    }
    Ok(())
}

impl Package {
    /// Its fields, with what its programs and libraries need.
    fn deb(&self, parts: &Parts<'_>, programs: &[PathBuf]) -> Result<Deb> {
        let same = self.same.iter().map(|name| format!("{name} (= {})", parts.release.version));
        let others = self.depends.iter().map(|name| name.to_string());
        let linked = Some(Needs::of(programs)?.debian()?).filter(|packages| !packages.is_empty());
        let depends = same.chain(others).chain(linked).collect::<Vec<_>>().join(", ");
        let mut fields = vec![("Depends", depends)];
        fields.extend(self.fields.iter().map(|(name, value)| (*name, value.to_string())));
        Ok(Deb {
            name: self.name,
            architecture: self.architecture,
            section: self.section,
            summary: self.summary,
            description: self.description,
            fields,
            configuration: self.configuration,
            scripts: (self.scripts)(),
        })
    }
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
    fn packages_need_only_packages_that_are_built() {
        for package in PACKAGES {
            for name in package.same {
                assert!(PACKAGES.iter().any(|other| other.name == *name), "{} needs {name}", package.name);
            }
        }
        assert_eq!(PACKAGES.last().map(|package| package.section), Some("debug"));
    }
}
