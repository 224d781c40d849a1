//! Paths of the build artefacts under test, as `cargo xtask build` creates them.

use std::path::{Path, PathBuf};

use crate::env;

/// The `remora` program.
pub fn remora() -> PathBuf {
    built(env::remora())
}

/// The folder of the client libraries.
pub fn library_folder() -> PathBuf {
    let folder = env::library_folder();
    for library in ["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"] {
        built(folder.join(library));
    }
    folder
}

/// The unpacked HIP headers and device libraries.
pub fn toolchain_folder() -> PathBuf {
    toolchain("")
}

/// A file of the unpacked toolchain.
pub(crate) fn toolchain(file: &str) -> PathBuf {
    present(env::toolchain().join(file), "cargo xtask setup")
}

/// A program of the system that setup installs.
pub(crate) fn system(file: &str) -> PathBuf {
    present(Path::new(file).to_owned(), "cargo xtask setup")
}

fn built(path: PathBuf) -> PathBuf {
    present(path, "cargo xtask build")
}

fn present(path: PathBuf, remedy: &str) -> PathBuf {
    assert!(path.exists(), "{} is missing: run {remedy}", path.display());
    path
}
