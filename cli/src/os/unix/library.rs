//! The client's libraries: their names, and how a program is made to load them.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use object::elf::{FileHeader64, SHT_GNU_VERDEF};
use object::read::elf::{FileHeader, SectionHeader};

/// The libraries that HIP programs are linked against, by HIP's major version.
pub const NAMES: &[&str] = &["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"];
/// The names, for messages.
pub const PATTERN: &str = "libamdhip64.so.*";
/// What to do if they are missing.
pub const REMEDY: &str =
    "install Remora's client libraries (in the repository: `cargo xtask build`), or set HIP_REMOTE_LIB_DIR";

/// Audit library (`LD_AUDIT`), in the same folder, that makes the dynamic linker load our libraries instead of others with these names.
pub const AUDIT: &str = "libremora_audit.so";

/// What the environment of this process says about the loading of libraries.
#[derive(Clone, Debug, Default)]
pub struct Loader {
    path: Option<OsString>,
    audit: Option<OsString>,
}

impl Loader {
    /// Reads the environment: the values of variables that are set and not empty.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Loader {
        Loader { path: variable("LD_LIBRARY_PATH"), audit: variable("LD_AUDIT") }
    }

    /// Makes a program load our libraries.
    pub fn prepare(&self, command: &mut Command, libraries: &Path) {
        command.env("LD_LIBRARY_PATH", before(libraries, self.path.as_ref()));
    }

    /// Sets LD_AUDIT: the dynamic linker consults our audit library for every library it loads, in this program and its children.
    pub fn audit(&self, command: &mut Command, libraries: &Path) {
        command.env("LD_AUDIT", before(&libraries.join(AUDIT), self.audit.as_ref()));
    }
}

/// A list with one more item at its front.
fn before(first: &Path, rest: Option<&OsString>) -> OsString {
    let mut list = first.as_os_str().to_owned();
    if let Some(rest) = rest {
        list.push(":");
        list.push(rest);
    }
    list
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

/// Whether an ELF file defines symbol versions.
fn has_version_nodes(bytes: &[u8]) -> object::Result<bool> {
    let header = FileHeader64::<object::LittleEndian>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    Ok(sections.iter().any(|section| section.sh_type(endian) == SHT_GNU_VERDEF))
}
