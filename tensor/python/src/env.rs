//! The only reader of the environment.

use std::path::PathBuf;

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The device that programs begin with, if they do not choose: `PYFLAME_DEVICE=rocm:1`.
pub fn first_device() -> Option<String> {
    text("PYFLAME_DEVICE")
}

/// How many threads the CPU device has at most: `PYFLAME_THREADS`, else as many as there are processors.
pub fn threads() -> Option<usize> {
    text("PYFLAME_THREADS")?.parse().ok()
}

/// The libamdhip64 to use: `PYFLAME_HIP_LIBRARY`, else the one in `ROCM_PATH` if it is there, else whatever the loader finds.
pub fn hip_library() -> Option<PathBuf> {
    if let Some(file) = text("PYFLAME_HIP_LIBRARY") {
        return Some(file.into());
    }
    let file = PathBuf::from(text("ROCM_PATH")?).join("lib/libamdhip64.so");
    file.exists().then_some(file)
}

/// Whether launches that come again may be begun as graphs: unless `PYFLAME_GRAPHS=0`.
pub fn graphs() -> bool {
    text("PYFLAME_GRAPHS").is_none_or(|value| value != "0")
}

/// The folder for compiled kernels: `PYFLAME_CACHE`, else one in the user's cache. "0" keeps none.
pub fn kernel_cache() -> Option<PathBuf> {
    match text("PYFLAME_CACHE") {
        Some(folder) if folder == "0" => None,
        Some(folder) => Some(folder.into()),
        None => {
            let caches = text("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(PathBuf::from(text("HOME")?).join(".cache")))?;
            Some(caches.join("pyflame"))
        }
    }
}
