//! The judge's tools: compiler, client library, cache folder, and the runner program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toolchain::Toolchain;

/// Tools of a judge, located once by the program that starts it.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Compiler, headers and device libraries.
    pub toolchain: Toolchain,
    /// Folder of Remora's `libamdhip64.so.7`.
    pub libraries: PathBuf,
    /// Cache folder for precompiled headers, code and programs.
    pub cache: PathBuf,
    /// Command line that runs [`crate::runner::serve`].
    pub runner: Vec<OsString>,
    /// Command line that runs a worker. The judge starts one of its own where kernels are observed.
    pub worker: Vec<OsString>,
    /// Isolation that untrusted commands require.
    pub isolation: sandbox::IsolationRange,
    /// Shows where the time of the judge goes: lines of a table, one for each case.
    pub show_times: Option<fn(&str)>,
}

/// File name of the client library, for the current HIP major version.
pub(crate) const LIBRARY: &str = "libamdhip64.so.7";

/// Most bytes of a program's output that users are shown.
const MOST_SHOWN: usize = 64 << 10;

impl Tools {
    /// Returns the path of the client library.
    pub fn library(&self) -> PathBuf {
        self.libraries.join(LIBRARY)
    }

    /// Returns private paths, and what users are shown instead.
    pub(crate) fn private_paths(&self) -> Vec<(String, &'static str)> {
        let named = |path: &Path, shown| {
            let mut both = vec![(path.display().to_string(), shown)];
            both.extend(path.canonicalize().ok().map(|path| (path.display().to_string(), shown)));
            both
        };
        let mut paths = Vec::new();
        paths.extend(named(&self.toolchain.device_libs, "<device-libs>"));
        paths.extend(named(&self.toolchain.hip.join("include"), "<hip>"));
        paths.extend(named(&self.toolchain.hip, "<hip>"));
        paths.extend(named(&self.cache, "<cache>"));
        paths.extend(named(&self.libraries, "<lib>"));
        if let Some(folder) = self.toolchain.clang.parent().and_then(Path::parent) {
            paths.extend(named(folder, "<clang>"));
        }
        paths.push((format!("{}/", sandbox::WORK), ""));
        // Longer paths first, because a shorter one may be a prefix of them.
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        paths.retain(|(path, _)| path.len() > 1);
        paths
    }

    /// Prepares the output of a program for users.
    pub(crate) fn shown(&self, text: &[u8]) -> String {
        self.shown_at_most(text, MOST_SHOWN)
    }

    /// Prepares a text for users: replaces private paths and truncates it.
    pub(crate) fn shown_at_most(&self, text: &[u8], most: usize) -> String {
        let mut text = String::from_utf8_lossy(text).into_owned();
        for (path, shown) in self.private_paths() {
            text = text.replace(&path, shown);
        }
        if text.len() > most {
            let mut end = most;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("\n... (cut)\n");
        }
        text
    }
}
