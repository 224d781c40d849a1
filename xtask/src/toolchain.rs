//! The compilers and HIP files installed by [`crate::setup`], and how to call them.

use crate::repo::Repo;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with LLVM's unversioned program names.
const LLVM: &str = "/usr/lib/llvm-19/bin";

/// Paths into the toolchain, all checked to exist.
#[derive(Debug, Clone)]
pub struct Toolchain {
    pub clang: PathBuf,
    /// HIP 6 headers, which the examples are built with.
    pub hip: PathBuf,
    /// Device libraries that clang 19 can read.
    pub bitcode: PathBuf,
    /// AMD's own libraries, to compare ours with.
    pub vendor: PathBuf,
}

impl Toolchain {
    pub fn locate(repo: &Repo) -> Result<Toolchain> {
        let base = repo.toolchain();
        let toolchain = Toolchain {
            clang: Path::new(LLVM).join("clang++"),
            hip: base.join("hip/usr"),
            bitcode: base.join("device-libs/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode"),
            vendor: vendor_folder(repo),
        };
        let wanted = [
            toolchain.clang.clone(),
            toolchain.hip.join("include/hip/hip_runtime.h"),
            base.join("hip7/usr/include/hip/hip_runtime.h"),
            toolchain.bitcode.join("ockl.bc"),
            toolchain.vendor.join("libamdhip64.so.5"),
            toolchain.vendor.join("libamdhip64.so.6"),
            toolchain.vendor.join("libamdhip64.so.7"),
            toolchain.vendor.join("libhiprtc.so.7"),
        ];
        for path in wanted {
            if !path.exists() {
                bail!("{} is missing; run `cargo xtask setup`", path.display());
            }
        }
        Ok(toolchain)
    }

    /// Returns a clang command that compiles HIP for the given architectures.
    pub fn compile_hip(&self, architectures: &[&str]) -> Command {
        let mut command = Command::new(&self.clang);
        command.args(["-x", "hip", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"]);
        command.args(architectures.iter().map(|architecture| format!("--offload-arch={architecture}")));
        command.arg(format!("--rocm-path={}", self.hip.display()));
        command.arg(format!("--rocm-device-lib-path={}", self.bitcode.display()));
        // Debian's hipcc installs older HIP headers to /usr/include; ours must come first.
        command.arg("-isystem").arg(self.hip.join("include"));
        command
    }
}

/// The folder of AMD's unpacked libraries.
pub fn vendor_folder(repo: &Repo) -> PathBuf {
    repo.toolchain().join("vendor/usr/lib/x86_64-linux-gnu")
}
