//! Locates the client's drop-in libraries and checks that they are complete.

use std::path::{Path, PathBuf};

use object::elf::{FileHeader64, SHT_GNU_VERDEF};
use object::read::elf::{FileHeader, SectionHeader};

use crate::env::Environment;

/// The sonames that HIP programs are linked against.
pub const SONAMES: &[&str] = &["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"];

/// Audit library (`LD_AUDIT`), in the same folder, that makes the dynamic linker load our libraries instead of others with these names.
pub const AUDIT: &str = "libremora_audit.so";

/// Folders to search for the libraries, in order of preference.
pub fn search_folders(environment: &Environment) -> Vec<PathBuf> {
    if let Some(dir) = &environment.library_dir {
        return vec![dir.clone()];
    }
    let program = std::env::current_exe().and_then(|path| path.canonicalize());
    let Some(dir) = program.ok().and_then(|path| path.parent().map(Path::to_owned)) else {
        return Vec::new();
    };
    let mut folders = vec![dir.join("lib")];
    folders.extend(dir.parent().into_iter().flat_map(|up| [up.join("lib/remora"), up.join("lib")]));
    folders.push(dir);
    folders
}

/// The first folder that contains a client library.
pub fn find(environment: &Environment) -> Option<PathBuf> {
    let has_one = |dir: &PathBuf| SONAMES.iter().any(|name| dir.join(name).is_file());
    let found = search_folders(environment).into_iter().find(has_one)?;
    Some(found.canonicalize().unwrap_or(found))
}

/// What is wrong with a library; `None` if it is complete.
pub fn problem(path: &Path) -> Option<String> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Some(error.to_string()),
    };
    match has_version_nodes(&bytes) {
        Ok(true) => None,
        Ok(false) => Some("it defines no symbol versions".to_owned()),
        Err(error) => Some(format!("not an ELF library: {error}")),
    }
}

/// The client library for programs that are compiled with the headers in this HIP folder.
pub fn soname_for(hip: &Path) -> &'static str {
    let version = std::fs::read_to_string(hip.join("include/hip/hip_version.h")).unwrap_or_default();
    let major =
        version.lines().find_map(|line| line.strip_prefix("#define HIP_VERSION_MAJOR ")).map(str::trim);
    let named = |soname: &&&str| major.is_some_and(|major| soname.ends_with(&format!(".so.{major}")));
    SONAMES.iter().find(named).or(SONAMES.last()).copied().unwrap_or_default()
}

/// Whether an ELF file defines symbol versions.
fn has_version_nodes(bytes: &[u8]) -> object::Result<bool> {
    let header = FileHeader64::<object::LittleEndian>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    Ok(sections.iter().any(|section| section.sh_type(endian) == SHT_GNU_VERDEF))
}
