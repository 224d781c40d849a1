//! The provider library with AMD's real management libraries: Debian's builds of ROCm 6.1 and of the newest, each under the
//! loader of its own release, and their headers against our table of struct layouts.

use super::userland::{Package, Userland};
use crate::provider_lib;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use accelerator_amd::smi::Layout;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A release of the library.
struct Release {
    name: &'static str,
    releases: &'static [&'static str],
    packages: &'static [Package],
    file: &'static str,
    version: (u32, u32),
}

const RELEASES: &[Release] = &[
    Release {
        name: "amd-smi-6",
        releases: &["trixie"],
        packages: &[
            Package::whole("libamd-smi0"),
            Package::whole("libamd-smi-dev"),
            Package::whole("libdrm-amdgpu1"),
            Package::whole("libdrm2"),
            Package::whole("libc6"),
            Package::whole("libgcc-s1"),
            Package::whole("libstdc++6"),
        ],
        file: "libamd_smi.so.0",
        version: (24, 5),
    },
    Release {
        name: "amd-smi-10",
        releases: &["sid", "forky"],
        packages: &[
            Package::whole("libamd-smi27"),
            Package::whole("libamd-smi-dev"),
            Package::whole("libdrm-amdgpu1"),
            Package::whole("libdrm2"),
            Package::whole("libe-smi64-1"),
            Package::whole("libmnl0"),
            Package::whole("libnl-3-200"),
            Package::whole("libnl-genl-3-200"),
            Package::whole("libc6"),
            Package::whole("libgcc-s1"),
            Package::whole("libstdc++6"),
        ],
        file: "libamd_smi.so.27",
        version: (27, 1),
    },
];

pub fn run(repo: &Repo, toolchain: &Toolchain) -> Result<()> {
    let library = provider_lib::build(repo)?;
    let folder = repo.target.join("provider");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let sources = repo.root.join("conformance/provider");
    let program = folder.join("load");
    let mut clang = Command::new(&toolchain.clang);
    clang.args(["-x", "c", "-Wall", "-Wextra", "-Werror"]).arg(sources.join("load.c"));
    step::output(clang.arg("-o").arg(&program).arg("-ldl"))?;
    for release in RELEASES {
        let userland = Userland::unpack_from(repo, release.name, release.releases, release.packages)?;
        layout(toolchain, &sources, release, &userland)?;
        load(&library, &program, release, &userland)?;
    }
    Ok(())
}

/// Checks the table against the header.
fn layout(toolchain: &Toolchain, sources: &Path, release: &Release, userland: &Userland) -> Result<()> {
    let (first, second) = release.version;
    let layout = Layout::of_version(first, second).context("the table has no layout for this release")?;
    let mut clang = Command::new(&toolchain.clang);
    clang
        .args(["-x", "c", "-std=gnu11", "-fsyntax-only", "-Werror"])
        .arg("-I")
        .arg(userland.path("usr/include"));
    clang.args(layout.numbers().into_iter().map(|(name, value)| format!("-D{name}={value}")));
    step::output(clang.arg(sources.join("layout.c")))?;
    step::progress(&format!("{}: the layout of ROCm {} matches its header", release.name, layout.name));
    Ok(())
}

/// Checks that the library can be loaded, queried and unloaded.
fn load(library: &Path, program: &Path, release: &Release, userland: &Userland) -> Result<()> {
    let smi = userland.libraries().join(release.file);
    let mut command = userland.alone(program);
    command.arg(library).arg(&smi).env("REMORA_AMD_SMI", &smi);
    let said = step::output(&mut command)?;
    let (first, second) = release.version;
    let started = said.contains(&format!("libamd_smi {first}.{second}, with the layout"));
    // Without a driver the library fails to start, and prints only that.
    let refused = said.contains("failed to initialise: status 34 (the driver is not loaded)");
    let driver = Path::new("/sys/module/amdgpu").exists();
    if !(started && driver || refused && !driver && said.contains("devices 0\n")) {
        bail!("{} with {} printed:\n{said}", library.display(), smi.display());
    }
    for line in said.lines().filter(|line| line.starts_with("version ")) {
        if line != format!("version {first}.{second}") {
            bail!("{} has version {line}, expected {first}.{second}", smi.display());
        }
    }
    let devices = said.lines().last().unwrap_or_default();
    step::progress(&format!(
        "{}: {} loads and is queried three times; {devices}",
        release.name, release.file
    ));
    Ok(())
}
