//! Environment variables of the tests. No other file of this crate reads the environment.

use std::path::{Path, PathBuf};

/// The `remora` program under test.
pub(crate) fn remora() -> PathBuf {
    path("REMORA_BIN").unwrap_or_else(|| target().join("release/remora"))
}

/// The folder of the client libraries under test.
pub(crate) fn library_folder() -> PathBuf {
    path("REMORA_LIB_DIR").unwrap_or_else(|| target().join("lib"))
}

/// Folder of the unpacked HIP headers, device libraries and AMD's libraries.
pub(crate) fn toolchain() -> PathBuf {
    path("REMORA_TOOLCHAIN").unwrap_or_else(|| workspace().join("target/toolchain"))
}

/// Number of repetitions in leak tests.
pub(crate) fn cycles() -> Option<usize> {
    std::env::var("E2E_CYCLES").ok()?.parse().ok()
}

/// Cache folder of compiled test programs.
pub(crate) fn program_cache() -> PathBuf {
    target().join("e2e")
}

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

fn target() -> PathBuf {
    path("CARGO_TARGET_DIR").unwrap_or_else(|| workspace().join("target"))
}

fn path(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    // Tests run in the folder of their crate, but relative paths refer to the workspace.
    Some(if Path::new(&value).is_relative() { workspace().join(value) } else { value.into() })
}
