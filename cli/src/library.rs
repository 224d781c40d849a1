//! Locates the client's drop-in libraries.

use std::path::{Path, PathBuf};

use crate::env::Environment;
use crate::os::folders::real_path;
use crate::os::library::NAMES;

/// Folders to search for the libraries, in order of preference.
pub fn search_folders(environment: &Environment) -> Vec<PathBuf> {
    if let Some(dir) = &environment.library_dir {
        return vec![dir.clone()];
    }
    let program = std::env::current_exe().and_then(|path| real_path(&path));
    let Some(dir) = program.ok().and_then(|path| path.parent().map(Path::to_owned)) else {
        return Vec::new();
    };
    let mut folders = vec![dir.join("lib")];
    folders.extend(dir.parent().into_iter().flat_map(|up| [up.join("lib").join("remora"), up.join("lib")]));
    folders.push(dir);
    folders
}

/// The first folder that contains a client library.
pub fn find(environment: &Environment) -> Option<PathBuf> {
    let has_one = |dir: &PathBuf| NAMES.iter().any(|name| dir.join(name).is_file());
    let found = search_folders(environment).into_iter().find(has_one)?;
    Some(real_path(&found).unwrap_or(found))
}

/// The client library for programs that are compiled with the headers in this HIP folder.
#[cfg(unix)]
pub fn soname_for(hip: &Path) -> &'static str {
    let version = std::fs::read_to_string(hip.join("include/hip/hip_version.h")).unwrap_or_default();
    let major =
        version.lines().find_map(|line| line.strip_prefix("#define HIP_VERSION_MAJOR ")).map(str::trim);
    let named = |soname: &&&str| major.is_some_and(|major| soname.ends_with(&format!(".so.{major}")));
    NAMES.iter().find(named).or(NAMES.last()).copied().unwrap_or_default()
}
