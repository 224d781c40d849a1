//! Python packages from PyPI that call HIP themselves, each in our own program that compares with NumPy.
//!
//! Triton is a separate suite. tinygrad compiles its kernels with AMD's comgr library; Debian 12's is too old for it, so it runs
//! in the userland of the HIP 7 libraries and uses their comgr. CuPy needs a dozen of AMD's libraries, which are unpacked
//! alongside those.

use super::cases;
use super::libraries;
use super::userland::{Package, Userland};
use crate::build::Built;
use crate::examples::{ARCHITECTURES, checked};
use crate::foreign;
use crate::pyflame;
use crate::repo::Repo;
use crate::venv;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only programs whose title (`tinygrad_hip on mi210`) contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

struct Program {
    name: &'static str,
    /// The name of its source in `conformance/python`.
    source: &'static str,
    /// What it needs of a newer Debian.
    needs: Needs,
    environment: &'static [(&'static str, &'static str)],
    /// The software GPUs that its libraries have no kernels for.
    not_on: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Comgr,
    MathematicalLibraries,
}

/// The libraries that CuPy is linked with in addition to those of the libraries suite, and whose headers its kernels include.
const MATHEMATICAL_LIBRARIES: &[Package] = &[
    Package::whole("libfmt11"),
    Package::whole("libhipblas3"),
    Package::whole("libhipfft0"),
    Package::whole("libhiprand1"),
    Package::whole("libhipsparse4"),
    Package::whole("librocfft0"),
    Package::whole("librocprim-dev"),
    Package::whole("librocrand1"),
    Package::whole("librocsolver0"),
    Package::whole("librocsparse1"),
    Package::whole("librocthrust-dev"),
];
const RELEASES: &[&str] = &["experimental", "sid"];

const PROGRAMS: &[Program] = &[
    Program {
        name: "hip_python",
        source: "hip_python",
        needs: Needs::Nothing,
        environment: &[],
        not_on: &[],
    },
    Program {
        name: "tinygrad_hip",
        source: "tinygrad_hip",
        needs: Needs::Comgr,
        // PARALLEL=0: its helper processes would be started by another loader. TC=0: it selects matrix instructions by the bare
        // architecture name, which HIP does not report, and would select those of another product line.
        environment: &[("DEV", "HIP"), ("PARALLEL", "0"), ("TC", "0"), ("CACHELEVEL", "0")],
        not_on: &[],
    },
    Program {
        name: "pyflame with rocBLAS",
        source: "pyflame_libraries",
        needs: Needs::Comgr,
        environment: &[("PYFLAME_BLAS", "rocblas"), ("PYFLAME_CACHE", "0")],
        not_on: &[],
    },
    Program {
        name: "pyflame with hipBLASLt",
        source: "pyflame_libraries",
        needs: Needs::Comgr,
        environment: &[("PYFLAME_BLAS", "hipblaslt"), ("PYFLAME_CACHE", "0")],
        not_on: &["mi300x"],
    },
    Program {
        name: "pyflame with tuned products",
        source: "pyflame_libraries",
        needs: Needs::Comgr,
        environment: &[("PYFLAME_BLAS", "auto"), ("PYFLAME_CACHE", "0")],
        not_on: &[],
    },
    Program {
        name: "pyflame with MIOpen",
        source: "pyflame_convolutions",
        needs: Needs::Comgr,
        environment: &[("PYFLAME_CONV", "miopen"), ("PYFLAME_CACHE", "0"), ("MIOPEN_LOG_LEVEL", "3")],
        not_on: &[],
    },
    Program {
        name: "pyflame with tuned convolutions",
        source: "pyflame_convolutions",
        needs: Needs::Comgr,
        environment: &[("PYFLAME_CONV", "auto"), ("PYFLAME_CACHE", "0"), ("MIOPEN_LOG_LEVEL", "3")],
        not_on: &[],
    },
    Program {
        name: "cupy_rocm",
        source: "cupy_rocm",
        needs: Needs::MathematicalLibraries,
        environment: &[("CUPY_CACHE_IN_MEMORY", "1")],
        not_on: &[],
    },
];

pub fn run(repo: &Repo, built: &Built, arguments: &Arguments) -> Result<()> {
    let python = venv::with(repo, "venv-python", "conformance/python/requirements.txt")?;
    let package = pyflame::package_of(repo, built)?;
    let mut userland = libraries::newest(repo)?;
    let rocm = rocm_folder(repo, built, &userland)?;
    let mut headers = None;
    let mut outcomes = Vec::new();
    for program in PROGRAMS {
        let title = |model: &str| format!("{} on {model}", program.name);
        let models = ARCHITECTURES.iter().map(|(_, model)| *model);
        let wanted =
            |model: &&str| arguments.filter.as_deref().is_none_or(|text| title(model).contains(text));
        let models: Vec<&str> =
            models.filter(|model| wanted(model) && !program.not_on.contains(model)).collect();
        if !models.is_empty() && program.needs == Needs::MathematicalLibraries {
            let more = Userland::unpack_from(repo, "cupy", RELEASES, MATHEMATICAL_LIBRARIES)?;
            userland.also(more.libraries());
            userland.also(tracing_library(repo)?);
            headers = Some(more.path("usr/include"));
        }
        for model in models {
            let mut command = command(built, &userland, program, model, &python);
            command.arg(repo.root.join(format!("conformance/python/{}.py", program.source)));
            command.env("PYTHONPATH", &package);
            command.envs(program.environment.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
            match &headers {
                None => command.env("ROCM_PATH", &rocm),
                // CuPy queries Debian's hipcc for include paths. With ROCM_PATH it would look for its compiler there.
                Some(headers) => command.env("CPLUS_INCLUDE_PATH", headers),
            };
            let log = repo.logs().join(format!("python/{}.log", title(model).replace(' ', "-")));
            outcomes.push(cases::run(&title(model), &mut command, &log)?);
        }
    }
    cases::finish(&outcomes)
}

fn command(built: &Built, userland: &Userland, program: &Program, model: &str, python: &Path) -> Command {
    if program.needs != Needs::Nothing {
        return userland.command(built, model, &python.to_string_lossy());
    }
    let mut command = Command::new(&built.remora);
    command.args(["run", "--device", model, "--watchdog", "0", "--"]).arg(python);
    command
}

/// Builds the stand-in for AMD's tracing library, which Debian does not have.
fn tracing_library(repo: &Repo) -> Result<PathBuf> {
    let folder = repo.target.join("conformance/python/tracing");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let sources = repo.root.join("conformance/python");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libroctracer64.so.4"]);
    cc.arg(format!("-Wl,--version-script={}", sources.join("roctracer.map").display()));
    cc.arg("-o").arg(folder.join("libroctracer64.so.4")).arg(sources.join("roctracer.c"));
    checked(&mut cc)?;
    Ok(folder)
}

/// Makes a folder that looks like a ROCm 7 installation, for packages that load libraries by names without a version.
fn rocm_folder(repo: &Repo, built: &Built, userland: &Userland) -> Result<PathBuf> {
    let rocm = repo.target.join("conformance/python/rocm");
    foreign::remove(&rocm)?;
    let lib = rocm.join("lib");
    fs::create_dir_all(&lib).with_context(|| format!("cannot create {}", lib.display()))?;
    let links = [
        ("libamdhip64.so", built.lib.join("libamdhip64.so.7")),
        ("libhiprtc.so", built.lib.join("libhiprtc.so.7")),
        ("libamd_comgr.so", userland.libraries().join("libamd_comgr.so.3")),
    ];
    for (name, points_to) in links {
        symlink(&points_to, lib.join(name)).with_context(|| format!("cannot link {name}"))?;
    }
    Ok(rocm)
}
