//! Function pointers of a libamdhip64, resolved by name: one field per row of the HIP API table.

use std::path::{Path, PathBuf};

use hip_api::types::*;

/// Library names tried when no path is given, newest first.
const LIBRARIES: &[&str] = &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
const FOLDERS: &[&str] = &["/opt/rocm/lib"];

/// Why the HIP runtime could not be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No library could be loaded.
    #[error("cannot load AMD's HIP runtime (tried {tried})")]
    Library {
        /// The paths that were tried.
        tried: String,
        /// Error of the first of them.
        source: libloading::Error,
    },
    /// The library does not export a function.
    #[error("{library} lacks {function}")]
    Missing {
        /// Path of the library.
        library: String,
        /// Name of the function.
        function: &'static str,
    },
}

macro_rules! functions {
    ($($family:ident { $(
        [$number:literal $node:literal ($($soname:literal)*) $class:ident]
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* })*) => {
        /// Functions that the library exports; a field is `None` if the library lacks it.
        #[allow(non_snake_case, reason = "named as in HIP")]
        pub struct Functions {
            $($(pub(crate) $name: Option<unsafe extern "C" fn($($ty),*) -> $ret>,)*)*
            path: PathBuf,
            /// Keeps the library loaded as long as the function pointers above exist.
            _library: libloading::Library,
        }

        impl Functions {
            fn resolve(library: libloading::Library, path: PathBuf) -> Functions {
                Functions {
                    $($(
                        // SAFETY: the row states the function's C signature, checked against the vendor's header; the
                        // pointer is valid as long as the library, which the same struct holds.
                        $name: unsafe {
                            library.get(concat!(stringify!($name), "\0").as_bytes()).ok().map(|symbol| *symbol)
                        },
                    )*)*
                    path,
                    _library: library,
                }
            }

            /// Number of functions of the table that the library exports.
            pub fn count(&self) -> usize {
                let mut count = 0;
                $($(count += usize::from(self.$name.is_some());)*)*
                count
            }
        }
    };
}

hip_api::for_each_hip_fn! { functions }

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} functions)", self.path.display(), self.count())
    }
}

impl Functions {
    /// Opens `path`, or searches for AMD's runtime in the loader's search path and in ROCm's folder.
    pub fn load(path: Option<&Path>) -> Result<Functions, LoadError> {
        let candidates: Vec<PathBuf> = match path {
            Some(path) => vec![path.to_owned()],
            None => {
                let bare = LIBRARIES.iter().map(PathBuf::from);
                let full = FOLDERS
                    .iter()
                    .flat_map(|dir| LIBRARIES.iter().map(move |name| Path::new(dir).join(name)));
                bare.chain(full).collect()
            }
        };
        let mut failure = None;
        for path in &candidates {
            // SAFETY: runs the library's constructors, as any program linked to AMD's runtime does.
            match unsafe { libloading::Library::new(path) } {
                Ok(library) => return Ok(Functions::resolve(library, path.clone())),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let tried: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        let source = failure.unwrap_or(libloading::Error::DlOpenUnknown);
        Err(LoadError::Library { tried: tried.join(", "), source })
    }

    /// Path from which the library was loaded.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The error for a function that the library lacks.
    pub(crate) fn missing(&self, function: &'static str) -> LoadError {
        LoadError::Missing { library: self.path.display().to_string(), function }
    }
}
