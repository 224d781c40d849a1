//! The folders of the user and of the system.

use std::path::{Path, PathBuf};

/// A variable of the environment as a path.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

/// The system's configuration file.
pub fn system_file(_path: Lookup<'_>) -> PathBuf {
    PathBuf::from("/etc/remora/config.toml")
}

/// The user's configuration file.
pub fn user_file(path: Lookup<'_>) -> Option<PathBuf> {
    let folder = path("XDG_CONFIG_HOME").or_else(|| home(path).map(|home| home.join(".config")));
    folder.map(|folder| folder.join("remora/config.toml"))
}

/// The home folder.
pub fn home(path: Lookup<'_>) -> Option<PathBuf> {
    path("HOME")
}

/// Folders in which a worker without a configured token stores a generated one for programs of the same user.
pub fn local_tokens(path: Lookup<'_>) -> Vec<PathBuf> {
    transport::token::local_folders(path("XDG_RUNTIME_DIR"), path("XDG_STATE_HOME"), home(path))
}

/// The path of a file without links.
pub fn real_path(path: &Path) -> std::io::Result<PathBuf> {
    path.canonicalize()
}
