//! The environment variables of the tasks; nothing else in this crate reads the environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// The cargo that started this program, so that the same toolchain is used throughout.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Cargo's target folder, if set.
pub fn cargo_target_dir() -> Option<PathBuf> {
    std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Cargo's home folder.
pub fn cargo_home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

/// The `ptxas` to use instead of the downloaded one.
pub fn ptxas() -> Option<PathBuf> {
    std::env::var_os("PTXAS").map(PathBuf::from)
}

/// The time of packages, in seconds since 1970, if set.
pub fn source_date_epoch() -> Option<String> {
    std::env::var("SOURCE_DATE_EPOCH").ok().filter(|time| !time.is_empty())
}

/// The folders in PATH.
pub fn path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// The names of all variables that configure Remora.
pub fn remora_variables() -> Vec<OsString> {
    let ours = |name: &OsString| {
        let name = name.to_string_lossy();
        ["REMORA_", "TF_", "XDG_", "HIP_"].iter().any(|start| name.starts_with(start))
    };
    std::env::vars_os().map(|(name, _)| name).filter(ours).collect()
}
