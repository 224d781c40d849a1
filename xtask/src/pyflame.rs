//! pyflame: builds its wheel with maturin, and runs its tests.

use crate::build::Built;
use crate::echo::Skipped;
use crate::repo::Repo;
use crate::step;
use crate::venv;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = "tensor/python";

/// Returns a Python with the current pyflame and the packages of its tests.
pub fn install(repo: &Repo) -> Result<PathBuf> {
    let wheel = wheel(repo)?;
    let python = environment(repo)?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-deps",
        "--force-reinstall",
        "--quiet",
    ]);
    step::run_logged("pip install of the wheel", pip.arg(&wheel), &repo.logs().join("pyflame-pip.log"))?;
    Ok(python)
}

/// Returns a Python with the packages of its tests and benches, but without pyflame.
pub fn environment(repo: &Repo) -> Result<PathBuf> {
    venv::with(repo, "venv-pyflame", "tensor/python/requirements.txt")
}

/// Builds the wheel for this system, in `target/wheels`.
pub fn wheel(repo: &Repo) -> Result<PathBuf> {
    let folder = repo.target.join("wheels");
    let mut maturin = maturin(repo, &environment(repo)?, &folder);
    build_wheel(repo, maturin.arg("--release"), &folder)
}

/// A command that builds the wheel into a folder with the maturin of this Python; without profile and target.
pub fn maturin(repo: &Repo, python: &Path, folder: &Path) -> Command {
    let mut maturin = Command::new(python);
    maturin.args(["-m", "maturin", "build", "--locked", "--interpreter"]).arg(python);
    maturin.arg("--manifest-path").arg(repo.root.join(FOLDER).join("Cargo.toml")).arg("--out").arg(folder);
    maturin
}

/// Runs that command; returns the wheel.
pub fn build_wheel(repo: &Repo, maturin: &mut Command, folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    step::run_logged("maturin build", maturin, &repo.logs().join("maturin.log"))?;
    only_wheel(folder)
}

/// The wheel in a folder.
pub fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut wheels = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "whl"));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        _ => bail!("there is not one wheel in {}", folder.display()),
    }
}

/// A command of that Python with Remora's library and program in its environment.
pub fn command(python: &Path, built: &Built) -> Command {
    let mut command = Command::new(python);
    command.env("LD_LIBRARY_PATH", &built.lib).env("REMORA_BIN", &built.remora);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs its tests on the CPU and on a software MI300X, with the module of the cargo build: maturin would compile it again.
/// Returns the tests that were skipped.
pub fn check(repo: &Repo, built: &Built) -> Result<Vec<Skipped>> {
    let python = environment(repo)?;
    let package = package(repo)?;
    let mut pytest = command(&python, built);
    pytest.env("PYTHONPATH", &package);
    pytest.args(["-m", "pytest", "--quiet", "--no-header", "-p", "no:cacheprovider"]);
    step::run_tests("pytest", pytest.arg(repo.root.join(FOLDER).join("tests")))
}

/// Like [`package`], after building only the module.
pub fn built_package(repo: &Repo) -> Result<PathBuf> {
    step::run_forwarded(
        "cargo build of pyflame",
        repo.cargo().args(["build", "--release", "--package", "pyflame"]),
    )?;
    package(repo)
}

/// The package with the module of a build: that of an earlier command, which built all modules, or one that is built now.
pub fn package_of(repo: &Repo, built: &Built) -> Result<PathBuf> {
    if built.is_earlier { package(repo) } else { built_package(repo) }
}

/// Assembles the package as in the wheel, with the module of the cargo build, in a folder for PYTHONPATH.
pub fn package(repo: &Repo) -> Result<PathBuf> {
    let folder = repo.target.join("pyflame");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut copy = Command::new("cp");
    copy.arg("--recursive").arg(repo.root.join(FOLDER).join("python/pyflame")).arg(&folder);
    step::run_logged("copy of the package", &mut copy, &repo.logs().join("pyflame-copy.log"))?;
    let module = repo.target.join("release/lib_pyflame.so");
    fs::copy(&module, folder.join("pyflame/_pyflame.abi3.so"))
        .with_context(|| format!("cannot copy {}", module.display()))?;
    Ok(folder)
}
