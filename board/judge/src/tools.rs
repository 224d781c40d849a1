//! What a judge works with: a compiler, the client library, a folder to keep things in, and the program that talks to the device.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toolchain::Toolchain;

/// Found once, by whoever starts judges.
#[derive(Clone, Debug)]
pub struct Tools {
    pub toolchain: Toolchain,
    /// The folder of our `libamdhip64.so.7`.
    pub libraries: PathBuf,
    /// Precompiled headers, code and programs are kept here.
    pub cache: PathBuf,
    /// A program and its first arguments that run [`crate::runner::serve`].
    pub runner: Vec<OsString>,
    /// How far apart untrusted commands have to be.
    pub apartness: sandbox::Apartness,
}

/// The name of the client library, of the HIP series that programs of today are made for.
pub(crate) const LIBRARY: &str = "libamdhip64.so.7";

impl Tools {
    pub fn library(&self) -> PathBuf {
        self.libraries.join(LIBRARY)
    }

    /// Texts that users are not shown, and what they are shown instead.
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
        // Longer ones first, so that none hides another.
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        paths.retain(|(path, _)| path.len() > 1);
        paths
    }

    /// Text for users: without paths of this machine, and not too long.
    pub(crate) fn shown(&self, text: &[u8], most: usize) -> String {
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
