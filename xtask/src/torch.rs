//! PyTorch for comparisons: Debian's CPU-only build, because PyPI's depends on gigabytes of GPU libraries.

use crate::build::Built;
use crate::conformance::userland::Userland;
use crate::repo::Repo;
use crate::system;
use anyhow::Result;
use std::env::join_paths;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub struct Torch {
    userland: Userland,
    /// OpenBLAS, in place of the reference BLAS that the package depends on.
    blas: Option<Userland>,
}

impl Torch {
    /// Unpacks it with the dependencies that this system lacks, unless already done.
    pub fn unpack(repo: &Repo) -> Result<Torch> {
        let userland = Userland::unpack_missing(repo, "torch", system::CODENAME, "python3-torch")?;
        Ok(Torch { userland, blas: None })
    }

    /// Like [`Torch::unpack`], with OpenBLAS: for measurements of products, where the reference BLAS would be no reference.
    pub fn with_fast_products(repo: &Repo) -> Result<Torch> {
        let blas = Userland::unpack_missing(repo, "openblas", system::CODENAME, "libopenblas0-pthread")?;
        Ok(Torch { blas: Some(blas), ..Torch::unpack(repo)? })
    }

    /// The folder of its Python modules.
    pub fn modules(&self) -> PathBuf {
        self.userland.path("usr/lib/python3/dist-packages")
    }

    /// The folders of its libraries; two are where Debian's alternatives would have created links.
    pub fn libraries(&self) -> Vec<PathBuf> {
        let own = self.userland.libraries();
        let more = ["usr/lib", "lib/x86_64-linux-gnu"].map(|below| self.userland.path(below));
        let fast = self.blas.iter().flat_map(|blas| {
            let libraries = blas.libraries();
            [libraries.join("openblas-pthread"), libraries]
        });
        fast.chain([own.join("blas"), own.join("lapack"), own]).chain(more).collect()
    }

    /// A command of the system's Python with PyTorch, pyflame's package and Remora's library.
    pub fn command(&self, package: &Path, built: &Built) -> Result<Command> {
        let mut libraries = vec![built.lib.clone()];
        libraries.extend(self.libraries());
        let mut command = Command::new("/usr/bin/python3");
        command.env("PYTHONPATH", join_paths([package.to_path_buf(), self.modules()])?);
        command.env("LD_LIBRARY_PATH", join_paths(libraries)?).env("REMORA_BIN", &built.remora);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(command)
    }
}
