//! Locates the kernel compiler toolchain: clang with the AMDGPU target, HIP headers and device libraries.
//!
//! Runs none of them. Also lists the files they read, so that they can run in a sandbox.

#![warn(missing_docs)]

use std::path::{Path, PathBuf};

/// Paths of clang in LLVM's packages, in order of preference; these versions can read the device libraries.
const CLANGS: &[&str] = &[
    "/usr/lib/llvm-19/bin/clang++",
    "/usr/bin/clang++-19",
    "/usr/lib/llvm-20/bin/clang++",
    "/usr/lib/llvm-21/bin/clang++",
    "/usr/lib/llvm-18/bin/clang++",
];
const ROCM: &str = "/opt/rocm";
/// Folders of a toolchain below those that contain the program: in the repository, and as the package `remora-compiler` installs it.
const PLACES: [&str; 2] = ["toolchain", "lib/remora/toolchain"];

/// Paths of a complete toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The compiler, `clang++`.
    pub clang: PathBuf,
    /// The directory that contains `include/hip/hip_runtime.h`.
    pub hip: PathBuf,
    /// The directory that contains `ocml.bc` and the other bitcode libraries.
    pub device_libs: PathBuf,
}

/// Missing part of the toolchain, and the paths that were searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolchainProblem {
    /// There is no clang++.
    #[error("clang++ with the AMDGPU target not found (searched {0})")]
    Clang(String),
    /// There is no `hip_runtime.h`.
    #[error("HIP headers not found (searched {0})")]
    Headers(String),
    /// There is no `ocml.bc`.
    #[error("device libraries (ocml.bc) not found (searched {0})")]
    DeviceLibs(String),
}

impl Toolchain {
    /// Searches `root` if given, else the folders `toolchain` and `lib/remora/toolchain` next to and above the program, then
    /// `/opt/rocm`.
    pub fn find(root: Option<&Path>) -> Result<Toolchain, ToolchainProblem> {
        let mut roots: Vec<PathBuf> = Vec::new();
        match root {
            // Resolves `..`, which the sandbox rejects in paths.
            Some(root) => roots.push(root.canonicalize().unwrap_or_else(|_| root.to_owned())),
            None => {
                if let Ok(program) = std::env::current_exe() {
                    let near = program.ancestors().skip(1).take(3);
                    roots.extend(near.flat_map(|dir| PLACES.map(|place| dir.join(place))));
                }
                roots.push(ROCM.into());
            }
        }
        let hip = roots.iter().flat_map(|root| [root.join("hip/usr"), root.clone()]);
        let hip = first(hip, |dir| dir.join("include/hip/hip_runtime.h").is_file());
        let libs = roots.iter().flat_map(|root| {
            llvm_bitcode(&root.join("device-libs/usr/lib")).into_iter().chain([root.join("amdgcn/bitcode")])
        });
        let libs = first(libs, |dir| dir.join("ocml.bc").is_file());
        let own = roots.iter().flat_map(|root| {
            ["bin/clang++-19", "llvm/bin/clang++", "lib/llvm/bin/clang++"].map(|path| root.join(path))
        });
        let clang = first(own.chain(CLANGS.iter().map(PathBuf::from)), |path| path.is_file());
        Ok(Toolchain {
            clang: clang.map_err(ToolchainProblem::Clang)?,
            hip: hip.map_err(ToolchainProblem::Headers)?,
            device_libs: libs.map_err(ToolchainProblem::DeviceLibs)?,
        })
    }
}

impl Toolchain {
    /// Whether the device libraries support a processor, such as `gfx942`; old ones do not have every processor.
    pub fn supports(&self, processor: &str) -> bool {
        let version = processor.strip_prefix("gfx").unwrap_or(processor);
        self.device_libs.join(format!("oclc_isa_version_{version}.bc")).is_file()
    }

    /// All files and folders that the toolchain's compiler and linker read: their own files, the system's libraries and headers,
    /// the HIP headers and the device libraries. Paths that do not exist are left out.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.clang.clone(), self.device_libs.clone()];
        // Not the folder itself: it is `/usr` if HIP is installed as a system package.
        files.extend(["include", "share/hip", "bin/.hipVersion"].map(|path| self.hip.join(path)));
        files.extend(own_files(&self.clang));
        files.extend(["/lib64", "/usr/lib64", "/usr/lib/gcc", "/usr/include"].map(PathBuf::from));
        let libraries: Vec<PathBuf> = ["/usr/lib", "/lib"].iter().flat_map(|lib| multiarch(lib)).collect();
        if libraries.is_empty() && !Path::new("/usr/lib64").is_dir() {
            files.push("/usr/lib".into());
        }
        files.extend(libraries);
        files.retain(|path| path.exists());
        files.sort();
        files.dedup();
        files
    }

    /// The folder of the compiler's own shared libraries, for `LD_LIBRARY_PATH`; `None` if the system's loader finds them.
    ///
    /// The compiler's `RUNPATH` is relative to `$ORIGIN`, which the loader reads from `/proc/self/exe`. A sandbox has no `/proc`.
    pub fn library_path(&self) -> Option<PathBuf> {
        let clang = self.clang.canonicalize().ok()?;
        let root = clang.parent()?.parent()?;
        let folder = root.join("lib");
        (!is_system_root(root) && folder.is_dir()).then_some(folder)
    }
}

/// The installation folder of a compiler, or only the compiler's files if that folder is a system root such as `/usr`.
fn own_files(clang: &Path) -> Vec<PathBuf> {
    let Ok(clang) = clang.canonicalize() else { return Vec::new() };
    let Some(root) = clang.parent().and_then(Path::parent) else { return Vec::new() };
    if !is_system_root(root) {
        return vec![root.to_owned()];
    }
    let tools = ["clang", "clang++", "lld", "ld.lld", "clang-offload-bundler", "llvm-link"];
    let mut files: Vec<PathBuf> = tools.iter().map(|tool| root.join("bin").join(tool)).collect();
    files.push(root.join("lib/clang"));
    files.push(clang);
    files
}

/// Whether a folder belongs to the system rather than to one installation.
fn is_system_root(folder: &Path) -> bool {
    ["/", "/usr", "/usr/local"].map(Path::new).contains(&folder)
}

/// Debian's multiarch library folders, one per architecture.
fn multiarch(lib: &str) -> Vec<PathBuf> {
    let mut folders = list(Path::new(lib));
    folders.retain(|path| path.to_string_lossy().ends_with("-linux-gnu"));
    folders
}

/// `llvm-*/lib/clang/*/amdgcn/bitcode` below a directory, newest first.
fn llvm_bitcode(lib: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for llvm in list(lib) {
        for version in list(&llvm.join("lib/clang")) {
            found.push(version.join("amdgcn/bitcode"));
        }
    }
    found.sort();
    found.reverse();
    found
}

fn list(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

/// Returns the first path that satisfies `good`; the error lists all paths tried.
fn first(paths: impl Iterator<Item = PathBuf>, good: impl Fn(&Path) -> bool) -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    for path in paths {
        if good(&path) {
            return Ok(path);
        }
        tried.push(path.display().to_string());
    }
    Err(tried.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_part_is_named_with_the_places_looked_at() {
        let empty = tempfile::tempdir().unwrap();
        let problem = Toolchain::find(Some(empty.path())).unwrap_err();
        let looked = empty.path().display().to_string();
        assert!(problem.to_string().contains(&looked) || matches!(problem, ToolchainProblem::Clang(_)));
    }

    #[test]
    fn a_compiler_of_the_system_needs_no_library_path() {
        let parts = ["/usr/bin/env", "/usr", "/usr"].map(PathBuf::from);
        let [clang, hip, device_libs] = parts;
        assert_eq!(Toolchain { clang, hip, device_libs }.library_path(), None);
    }

    #[test]
    fn an_unpacked_toolchain_is_found_by_its_root() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        put("hip/usr/include/hip/hip_runtime.h");
        put("device-libs/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode/ocml.bc");
        put("bin/clang++-19");
        put("lib/libclang-cpp.so.19");
        let found = Toolchain::find(Some(root.path())).unwrap();
        assert_eq!(found.clang, root.path().join("bin/clang++-19"));
        assert_eq!(found.hip, root.path().join("hip/usr"));
        assert!(found.device_libs.ends_with("17/amdgcn/bitcode"));
        assert_eq!(found.library_path(), Some(root.path().canonicalize().unwrap().join("lib")));
        put("device-libs/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode/oclc_isa_version_90a.bc");
        assert!(found.supports("gfx90a") && !found.supports("gfx942"));
        let files = found.files();
        for needed in [&found.clang, &found.hip.join("include"), &found.device_libs] {
            assert!(files.iter().any(|file| needed.starts_with(file)), "{needed:?} is not in {files:?}");
        }
        for whole in ["/", "/usr", "/usr/bin", "/etc", "/home", "/tmp"] {
            assert!(!files.iter().any(|file| file == Path::new(whole)), "{whole} is in {files:?}");
        }
    }
}
