//! Environment variables. No other code of the package reads the environment.

use std::path::PathBuf;

use tensor_rocm::{BlasChoice, ConvChoice};

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The initial device: `PYFLAME_DEVICE=rocm:1`.
pub fn first_device() -> Option<String> {
    text("PYFLAME_DEVICE")
}

/// The most threads that `PYFLAME_THREADS` may ask for.
const MOST_THREADS: usize = 1024;

/// The maximum number of threads of the CPU device: `PYFLAME_THREADS`, by default the number of CPUs.
pub fn threads() -> Result<Option<usize>, String> {
    let Some(text) = text("PYFLAME_THREADS") else { return Ok(None) };
    match text.parse() {
        Ok(count @ 1..=MOST_THREADS) => Ok(Some(count)),
        _ => Err(format!(
            "PYFLAME_THREADS must be a whole number from 1 to {MOST_THREADS}, not {text:?}; unset it for one thread per processor"
        )),
    }
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

/// What computes matrix products that may be added in any order: `PYFLAME_BLAS`.
pub fn blas() -> Result<BlasChoice, String> {
    let Some(text) = text("PYFLAME_BLAS") else { return Ok(BlasChoice::Auto) };
    text.parse().map_err(|why: String| format!("PYFLAME_BLAS: {why}"))
}

/// What computes convolutions that may be added in any order: `PYFLAME_CONV`.
pub fn conv() -> Result<ConvChoice, String> {
    let Some(text) = text("PYFLAME_CONV") else { return Ok(ConvChoice::Auto) };
    text.parse().map_err(|why: String| format!("PYFLAME_CONV: {why}"))
}

/// What moves elements between the GPUs of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collectives {
    /// RCCL if it can be used, else copies and additions.
    Auto,
    /// Copies and additions.
    Own,
    /// RCCL.
    Rccl,
}

/// What moves elements between the GPUs of a process: `PYFLAME_COLLECTIVES`.
pub fn collectives() -> Result<Collectives, String> {
    match text("PYFLAME_COLLECTIVES").as_deref() {
        None | Some("auto") => Ok(Collectives::Auto),
        Some("own") => Ok(Collectives::Own),
        Some("rccl") => Ok(Collectives::Rccl),
        Some(other) => Err(format!("PYFLAME_COLLECTIVES must be one of auto, own, rccl, not {other:?}")),
    }
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
