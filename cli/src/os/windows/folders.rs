//! The folders of the user and of the system.

use std::path::{Path, PathBuf};

/// A variable of the environment as a path.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

/// The system's configuration file.
pub fn system_file(path: Lookup<'_>) -> PathBuf {
    let folder = path("ProgramData").unwrap_or_else(|| PathBuf::from(r"C:\ProgramData"));
    folder.join("remora").join("config.toml")
}

/// The user's configuration file.
pub fn user_file(path: Lookup<'_>) -> Option<PathBuf> {
    Some(path("LOCALAPPDATA")?.join("remora").join("config.toml"))
}

/// The home folder.
pub fn home(path: Lookup<'_>) -> Option<PathBuf> {
    path("USERPROFILE")
}

/// Folders with tokens of workers for programs of the same user.
pub fn local_tokens(path: Lookup<'_>) -> Vec<PathBuf> {
    transport::token::local_folders(None, path("LOCALAPPDATA"), None)
}

/// The absolute path of a file. Not the canonical one, which starts with `\\?\`: the loader does not search such folders.
pub fn real_path(path: &Path) -> std::io::Result<PathBuf> {
    std::path::absolute(path)
}
