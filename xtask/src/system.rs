//! The packages of this Debian release that are installed permanently.

use crate::env;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// The Debian release this list is for.
pub const CODENAME: &str = "bookworm";

const PACKAGES: &[&str] = &[
    // the compiler of the examples, and of hiprtc on the worker
    "clang-19",
    "clang-tools-19",
    "libclang-rt-19-dev",
    "lld-19",
    "llvm-19",
    "libstdc++-12-dev",
    // Debian's own hipcc and AMD's own library, which the tests use as users have them
    "hipcc",
    "libamdhip64-5",
    "libamdhip64-dev",
    "rocm-device-libs",
    // the board's other database, and its connection to rented GPUs
    "postgresql",
    "openssh-client",
    // Triton, for conformance
    "python3",
    "python3-venv",
    // the board's pages are tested in a real browser
    "chromium",
    "fonts-dejavu-core",
];

/// Packages that are only needed if their program is not installed by other means: Debian's npm conflicts with a newer nodejs
/// that includes its own.
const BY_PROGRAM: &[(&str, &[&str])] = &[("npm", &["nodejs", "npm"])];

/// Returns the packages that are not installed yet.
pub fn missing() -> Result<Vec<&'static str>> {
    let mut wanted = PACKAGES.to_vec();
    wanted.extend(
        BY_PROGRAM.iter().filter(|(program, _)| !has_program(program)).flat_map(|(_, packages)| *packages),
    );
    not_installed(wanted)
}

/// Installs those of the packages that are not installed yet.
pub fn ensure(repo: &Repo, packages: &[&'static str]) -> Result<()> {
    let missing = not_installed(packages.to_vec())?;
    if missing.is_empty() { Ok(()) } else { install(repo, &missing) }
}

fn not_installed(wanted: Vec<&'static str>) -> Result<Vec<&'static str>> {
    let Ok(output) =
        Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Abbrev} ${Package}\n"]).output()
    else {
        return Ok(wanted);
    };
    let text = String::from_utf8(output.stdout).context("dpkg-query printed something that is not text")?;
    Ok(not_in(&text, &wanted))
}

/// Whether a program is on the PATH.
pub fn has_program(name: &str) -> bool {
    env::path().iter().any(|folder| folder.join(name).is_file())
}

/// Installs packages, as root or with sudo.
pub fn install(repo: &Repo, packages: &[&str]) -> Result<()> {
    step::progress(&format!("packages to install: {}", packages.join(" ")));
    let become_root = match () {
        // SAFETY: geteuid has no preconditions and cannot fail.
        () if unsafe { libc::geteuid() } == 0 => false,
        () if has_program("sudo") => true,
        () => bail!(
            "some packages are missing, and installing them needs root or sudo. As root, run\n  apt-get update && \
             apt-get install --no-install-recommends {}\nand then this command again.",
            packages.join(" ")
        ),
    };
    let apt = |arguments: &[&str]| {
        let mut words =
            vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-o", "Dpkg::Use-Pty=0"];
        if become_root {
            words.insert(0, "sudo");
        }
        words.extend(arguments);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    };
    step::run_logged("apt-get update", &mut apt(&["update"]), &repo.logs().join("apt-update.log"))?;
    let mut install = apt(&["install", "--no-install-recommends"]);
    install.args(packages);
    step::run_logged("apt-get install", &mut install, &repo.logs().join("apt-install.log"))
}

fn not_in(listing: &str, wanted: &[&'static str]) -> Vec<&'static str> {
    let installed: Vec<&str> = listing.lines().filter_map(|line| line.strip_prefix("ii  ")).collect();
    wanted.iter().copied().filter(|package| !installed.contains(package)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fully_installed_packages_count() {
        let listing = "ii  clang-19\nrc  hipcc\nun  python3\n";
        assert_eq!(
            not_in(listing, &["clang-19", "hipcc", "python3", "lld-19"]),
            ["hipcc", "python3", "lld-19"]
        );
    }
}
