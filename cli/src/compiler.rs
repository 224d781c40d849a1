//! The kernel compiler of this machine: whether it is there, and how to install it.

use std::path::Path;

use backend_emulator::MODELS;
use worker::Toolchain;

/// What needs the compiler, for messages about its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Every submission to a board.
    Submissions,
    /// Programs that compile kernels at run time.
    RunTimeCompilation,
}

/// A warning if the compiler was not found, with the command that installs it.
pub fn warning(toolchain: Option<&Path>, need: Need) -> Option<String> {
    let problem = match Toolchain::find(toolchain) {
        Ok(found) => {
            let missing = unsupported(&found);
            let libraries = found.device_libs.display();
            return (!missing.is_empty()).then(|| {
                format!(
                    "the device libraries in {libraries} do not support {missing}: compiling for it will fail"
                )
            });
        }
        Err(problem) => problem,
    };
    let effect = match need {
        Need::Submissions => "every submission will fail",
        Need::RunTimeCompilation => {
            "programs that compile kernels at run time (hiprtc) will fail; precompiled programs run"
        }
    };
    Some(format!("no kernel compiler: {problem}; {effect}. Install it: {}", remedy()))
}

/// The processors of software GPUs for which a toolchain cannot compile, as a list for messages.
pub fn unsupported(toolchain: &Toolchain) -> String {
    let mut missing: Vec<&str> = MODELS.iter().map(|model| model.processor).collect();
    missing.retain(|processor| !toolchain.supports(processor));
    missing.dedup();
    missing.join(", ")
}

/// The command that installs the compiler on this system.
pub fn remedy() -> String {
    let in_repository = std::env::current_exe().is_ok_and(|program| {
        program.ancestors().skip(1).take(4).any(|folder| folder.join("xtask/Cargo.toml").is_file())
    });
    if in_repository {
        return "`cargo xtask setup`".to_owned();
    }
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    remedy_for(&release)
}

/// The same, for a system with this `/etc/os-release`.
fn remedy_for(release: &str) -> String {
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    let mut names = vec![value("ID")];
    names.extend(value("ID_LIKE").split_whitespace().map(str::to_owned));
    let commands = names.iter().find_map(|name| PACKAGES.iter().find(|(system, _)| system == name));
    match commands {
        Some((_, command)) => format!("`{command}`"),
        None => "install AMD's ROCm (https://rocm.docs.amd.com) to /opt/rocm, or set REMORA_TOOLCHAIN to a folder with `hip` and \
                 `device-libs`"
            .to_owned(),
    }
}

/// Systems with packages that [`Toolchain::find`] finds. Debian's own packages of HIP cannot compile for every software GPU, so
/// releases of Remora have one.
const PACKAGES: &[(&str, &str)] = &[
    ("debian", concat!("apt install ./remora-compiler_", env!("CARGO_PKG_VERSION"), "_all.deb")),
    ("arch", "pacman -S rocm-hip-sdk"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_a_command_of_the_system() {
        assert!(remedy_for("ID=\"manjaro\"\nID_LIKE=\"arch\"\n").starts_with("`pacman"));
        let ubuntu = "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n";
        for debian in ["ID=debian\n", ubuntu] {
            assert!(remedy_for(debian).starts_with("`apt install ./remora-compiler_"), "{debian}");
        }
        for other in ["", "ID=fedora\n"] {
            assert!(remedy_for(other).contains("REMORA_TOOLCHAIN"), "{other}");
        }
    }

    #[test]
    fn a_missing_compiler_is_reported_with_its_effect_and_its_remedy() {
        let empty = tempfile::tempdir().unwrap();
        let text = warning(Some(empty.path()), Need::Submissions).unwrap();
        assert!(text.contains("every submission will fail") && text.contains("Install it: "), "{text}");
    }
}
