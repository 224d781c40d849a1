//! Debian's rocBLAS, hipBLASLt and MIOpen, called by our own programs that compare every result with a plain reference.
//!
//! There are two sets: sid's packages are built against HIP 6, experimental's against HIP 7. The programs are compiled here
//! against the headers of the packages, and run like the packages' own programs, by the loader of their release.

use super::cases::{self, Outcome};
use super::rocblas;
use super::userland::{Package, Userland};
use crate::build::Built;
use crate::examples::checked;
use crate::foreign;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only programs whose title (`HIP 7 miopen on mi210`) contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
}

/// Kernels for architectures that are not emulated.
const OTHER_KERNELS: &[&str] =
    &["*gfx8*", "*gfx900*", "*gfx906*", "*gfx908*", "*gfx95*", "*gfx1*", "*xnack+*"];

const fn emulated_kernels(name: &'static str) -> Package {
    Package { name, leave_out: OTHER_KERNELS }
}

struct Program {
    /// The name of its source in `conformance/libraries`.
    name: &'static str,
    links: &'static [&'static str],
    /// The software GPUs that the library has kernels for, or compiles them for.
    models: &'static [&'static str],
    /// A text that the names of cases must contain: empty for all, else those that work with the installed packages.
    only: &'static str,
}

struct Set {
    series: u32,
    releases: &'static [&'static str],
    packages: &'static [Package],
    programs: &'static [Program],
}

const SETS: &[Set] = &[
    Set {
        series: 6,
        releases: &["sid", "forky"],
        packages: &[
            Package::whole("libc6"),
            Package::whole("libgcc-s1"),
            Package::whole("libstdc++6"),
            Package::whole("libroctx64-4"),
            Package::whole("librocblas-dev"),
            Package::whole("libhipblas-common-dev"),
            Package::whole("libhipblaslt-dev"),
            emulated_kernels("libhipblaslt1"),
            Package::whole("libmiopen-dev"),
            Package::whole("libmiopen1"),
            Package::whole("libboost-atomic1.90.0"),
            Package::whole("libboost-filesystem1.90.0"),
            Package::whole("libbz2-1.0"),
            Package::whole("libsqlite3-0"),
            Package::whole("libzstd1"),
        ],
        programs: &[
            Program { name: "rocblas", links: &["librocblas.so.4"], models: &["mi210"], only: "" },
            Program { name: "hipblaslt", links: &["libhipblaslt.so.1"], models: &["mi210"], only: "" },
            // MIOpen compiles with a clang at a fixed path, which is missing here; a rocBLAS product is the one kernel that needs
            // none.
            Program { name: "miopen", links: &["libMIOpen.so.1"], models: &["mi210"], only: "1x1 f32, gemm" },
        ],
    },
    Set {
        series: 7,
        releases: &["experimental", "sid"],
        packages: &[
            Package::whole("libc6"),
            Package::whole("libgcc-s1"),
            Package::whole("libstdc++6"),
            Package::whole("libroctx64-4"),
            Package::whole("librocblas-dev"),
            emulated_kernels("librocblas5"),
            Package::whole("libhipblas-common-dev"),
            Package::whole("libhipblaslt-dev"),
            emulated_kernels("libhipblaslt1"),
            Package::whole("libmiopen-dev"),
            Package::whole("libmiopen1"),
            Package::whole("libamd-comgr3"),
            Package::whole("libllvm22"),
            Package::whole("libxml2-16"),
            Package::whole("libedit2"),
            Package::whole("libffi8"),
            Package::whole("zlib1g"),
            Package::whole("libz3-4"),
            Package::whole("libtinfo6"),
            Package::whole("libbsd0"),
            Package::whole("libmd0"),
            Package::whole("libboost-atomic1.90.0"),
            Package::whole("libboost-filesystem1.90.0"),
            Package::whole("libbz2-1.0"),
            Package::whole("libsqlite3-0"),
            Package::whole("libzstd1"),
        ],
        programs: &[
            Program { name: "rocblas", links: &["librocblas.so.5"], models: &["mi210", "mi300x"], only: "" },
            Program { name: "hipblaslt", links: &["libhipblaslt.so.1"], models: &["mi210"], only: "" },
            Program { name: "miopen", links: &["libMIOpen.so.1"], models: &["mi210", "mi300x"], only: "" },
        ],
    },
];

pub fn run(repo: &Repo, toolchain: &Toolchain, built: &Built, arguments: &Arguments) -> Result<()> {
    let mut outcomes = Vec::new();
    for set in SETS {
        let wanted = |program: &Program, model: &str| {
            let title = title(set, program, model);
            arguments.filter.as_deref().is_none_or(|text| title.contains(text)).then_some(title)
        };
        let any = set.programs.iter().any(|it| it.models.iter().any(|model| wanted(it, model).is_some()));
        if !any {
            continue;
        }
        let userland = unpack(repo, set)?;
        step::heading(&format!("libraries built against HIP {}", set.series));
        for program in set.programs {
            let titles: Vec<(&str, String)> =
                program.models.iter().filter_map(|model| Some((*model, wanted(program, model)?))).collect();
            if titles.is_empty() {
                continue;
            }
            let compiled = compile(repo, toolchain, built, set, &userland, program)?;
            let case = arguments.case.as_deref().unwrap_or(program.only);
            for (model, title) in titles {
                outcomes.push(run_one(repo, built, &userland, &compiled, model, &title, case)?);
            }
        }
    }
    cases::finish(&outcomes)
}

/// Returns the libraries that are built against the newest HIP.
pub fn newest(repo: &Repo) -> Result<Userland> {
    let set = SETS.iter().max_by_key(|set| set.series).context("there are no libraries")?;
    unpack(repo, set)
}

fn title(set: &Set, program: &Program, model: &str) -> String {
    format!("HIP {} {} on {model}", set.series, program.name)
}

fn unpack(repo: &Repo, set: &Set) -> Result<Userland> {
    let name = format!("libraries-{}", set.series);
    let mut userland = Userland::unpack_from(repo, &name, set.releases, set.packages)?;
    if set.series == 6 {
        // Three gigabytes that the rocblas suite unpacks anyway.
        userland.also(rocblas::unpack(repo)?.libraries());
    }
    Ok(userland)
}

fn compile(
    repo: &Repo,
    toolchain: &Toolchain,
    built: &Built,
    set: &Set,
    userland: &Userland,
    program: &Program,
) -> Result<PathBuf> {
    let folder = repo.target.join("conformance/libraries");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let compiled = folder.join(format!("{}-{}", program.name, set.series));
    let hip = repo.toolchain().join(if set.series == 7 { "hip7" } else { "hip" }).join("usr/include");
    let mut clang = Command::new(&toolchain.clang);
    clang.args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-D__HIP_PLATFORM_AMD__"]);
    clang.arg("-isystem").arg(userland.path("usr/include")).arg("-isystem").arg(hip);
    clang.arg(repo.root.join(format!("conformance/libraries/{}.cpp", program.name)));
    clang.arg("-o").arg(&compiled);
    for folder in userland.search_path(built) {
        clang.arg("-L").arg(folder);
    }
    clang.args(program.links.iter().map(|library| format!("-l:{library}")));
    clang.arg(format!("-l:libamdhip64.so.{}", set.series));
    // The libraries need a newer C library than this linker has; their own loader has it.
    clang.arg("-Wl,--allow-shlib-undefined");
    checked(&mut clang)?;
    Ok(compiled)
}

fn run_one(
    repo: &Repo,
    built: &Built,
    userland: &Userland,
    compiled: &Path,
    model: &str,
    title: &str,
    case: &str,
) -> Result<Outcome> {
    let folder = repo.target.join("conformance/libraries");
    let mut command = userland.command(built, model, &compiled.to_string_lossy());
    command.arg(case);
    // MIOpen caches compiled kernels and tuning results; with an old cache the suite would compile nothing.
    let memory = folder.join("miopen-memory");
    foreign::remove(&memory)?;
    fs::create_dir_all(&memory).with_context(|| format!("cannot create {}", memory.display()))?;
    command.env("MIOPEN_USER_DB_PATH", &memory).env("MIOPEN_CUSTOM_CACHE_DIR", &memory);
    // One of its two softmax kernels includes headers of rocRAND, which a worker's compiler does not have.
    command.env("MIOPEN_DEBUG_ATTN_SOFTMAX", "0");
    cases::run(title, &mut command, &repo.logs().join(format!("libraries/{}.log", title.replace(' ', "-"))))
}
