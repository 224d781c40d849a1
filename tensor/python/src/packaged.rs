//! The libamdhip64 of the Python package `remora`, which the extra `pyflame[gpu]` installs.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The device of AMD's kernel driver: with it, the system's own library is used.
const DRIVER: &str = "/dev/kfd";

static LIBRARY: PyOnceLock<Option<PathBuf>> = PyOnceLock::new();

/// The library of the package, if that is installed and neither the environment nor a GPU of this machine takes precedence. The
/// package starts a software GPU first, unless the environment names a worker.
pub fn library(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    if crate::env::hip_library().is_some() || Path::new(DRIVER).exists() {
        return Ok(None);
    }
    LIBRARY.get_or_try_init(py, || installed(py)).cloned()
}

fn installed(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    let package = match py.import("remora") {
        Ok(package) => package,
        Err(error) if error.is_instance_of::<PyModuleNotFoundError>(py) => return Ok(None),
        Err(error) => return Err(error),
    };
    // Another package of that name has no such function.
    match package.getattr_opt("use")? {
        Some(function) => function.call0()?.extract().map(Some),
        None => Ok(None),
    }
}
