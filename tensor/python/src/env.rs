//! Environment variables. No other code of the package reads the environment.

use std::path::PathBuf;

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The initial device: `PYFLAME_DEVICE=rocm:1`.
pub fn first_device() -> Option<String> {
    text("PYFLAME_DEVICE")
}

/// The maximum number of threads of the CPU device: `PYFLAME_THREADS`, by default the number of CPUs.
pub fn threads() -> Option<usize> {
    text("PYFLAME_THREADS")?.parse().ok()
}

/// The libamdhip64 to use: `PYFLAME_HIP_LIBRARY`, else the one in `ROCM_PATH` if it exists, else the one that the loader finds.
pub fn hip_library() -> Option<PathBuf> {
    if let Some(file) = text("PYFLAME_HIP_LIBRARY") {
        return Some(file.into());
    }
    let file = PathBuf::from(text("ROCM_PATH")?).join("lib/libamdhip64.so");
    file.exists().then_some(file)
}

/// Whether repeated launches may be replayed as graphs: unless `PYFLAME_GRAPHS=0`.
pub fn graphs() -> bool {
    text("PYFLAME_GRAPHS").is_none_or(|value| value != "0")
}

/// Whether steps are interpreted even if there is a kernel compiler: `PYFLAME_INTERPRET=1`.
pub fn interpret() -> bool {
    text("PYFLAME_INTERPRET").is_some_and(|value| value != "0")
}

/// The folder of the kernel cache: `PYFLAME_CACHE`, by default one in the user's cache folder. "0" disables the cache.
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
