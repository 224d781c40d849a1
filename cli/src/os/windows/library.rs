//! The client's DLLs: their names, and how a program is made to load them.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// The DLLs that HIP programs are linked against, by HIP's major version.
pub const NAMES: &[&str] = &["amdhip64.dll", "amdhip64_6.dll", "amdhip64_7.dll"];
/// The names, for messages.
pub const PATTERN: &str = "amdhip64*.dll";
/// What to do if they are missing.
pub const REMEDY: &str =
    "keep remora.exe in the folder with Remora's DLLs, or set HIP_REMOTE_LIB_DIR to that folder";

/// The first bytes of every DLL.
const MAGIC: &[u8] = b"MZ";
/// The function that every client library exports.
const EXPORT: &[u8] = b"hipGetDeviceCount\0";

/// What the environment of this process says about the loading of DLLs.
#[derive(Clone, Debug, Default)]
pub struct Loader {
    path: Option<OsString>,
}

impl Loader {
    /// Reads the environment: the values of variables that are set and not empty.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Loader {
        Loader { path: variable("PATH") }
    }

    /// Makes a program load our DLLs from PATH, also in its own children. The folder that precedes the system's is set when the
    /// program starts.
    pub fn prepare(&self, command: &mut Command, libraries: &Path) {
        let mut list = libraries.as_os_str().to_owned();
        if let Some(rest) = &self.path {
            list.push(";");
            list.push(rest);
        }
        command.env("PATH", list);
    }
}

/// What is wrong with a DLL; `None` if it is complete.
pub fn problem(path: &Path) -> Option<String> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Some(error.to_string()),
    };
    if !bytes.starts_with(MAGIC) {
        return Some("not a DLL".to_owned());
    }
    let exports = bytes.windows(EXPORT.len()).any(|window| window == EXPORT);
    (!exports).then(|| "it does not export HIP's functions".to_owned())
}
