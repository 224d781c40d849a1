//! Compiles kernels ahead of time for the most common GPUs: those of `kernels/ahead.hip`, and those that run any step where there is
//! no run-time compiler. Without a compiler the crate still builds, and the run-time compiler (hiprtc) compiles all kernels when they
//! are first needed.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs, io};

const TARGETS: [&str; 4] = ["gfx90a", "gfx942", "gfx1030", "gfx1100"];
/// The files that all kernels build on, in the order in which `src/source.rs` concatenates them.
const BASE: [&str; 8] =
    ["prelude", "functions", "reduce", "contract", "matrix", "attention", "lines", "random"];
/// The code objects and the files of their kernels. They are separate because few programs need the second.
const OBJECTS: [(&str, &[&str]); 2] = [("ahead", &["ahead"]), ("interpret", &["interpret", "cores"])];
const CLANGS: [&str; 6] = [
    "/usr/lib/llvm-19/bin/clang++",
    "/usr/bin/clang++-19",
    "/opt/rocm/llvm/bin/clang++",
    "/usr/lib/llvm-20/bin/clang++",
    "/usr/lib/llvm-21/bin/clang++",
    "/usr/lib/llvm-18/bin/clang++",
];
/// The options of `src/kernels.rs`, and those that exclude the host's headers.
const OPTIONS: [&str; 10] = [
    "-O3",
    "-std=c++17",
    "-ffp-contract=off",
    "-fwrapv",
    "-ffreestanding",
    "-nogpuinc",
    "-nostdinc",
    "-w",
    "--offload-device-only",
    "--no-gpu-bundle-output",
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let compiler = find(&root);
    if compiler.is_none() {
        println!(
            "cargo::warning=no clang with the AMDGPU target and device libraries was found: kernels will be compiled at run time (`cargo xtask setup` installs both)"
        );
    }
    let base = BASE.map(read).into_iter().collect::<io::Result<String>>()?;
    let mut running: Vec<(&str, &str, PathBuf, Child)> = Vec::new();
    for (object, files) in OBJECTS {
        let own = files.iter().map(|file| read(file)).collect::<io::Result<String>>()?;
        let source = out.join(format!("{object}.hip"));
        fs::write(&source, format!("{base}{own}"))?;
        let Some((clang, libraries)) = &compiler else { continue };
        for target in TARGETS {
            let code = out.join(format!("{object}-{target}.co"));
            let child = Command::new(clang)
                .args(["-x", "hip"])
                .args(OPTIONS)
                .arg(format!("--offload-arch={target}"))
                .arg(format!("--rocm-device-lib-path={}", libraries.display()))
                .arg("-o")
                .args([&code, &source])
                .stdin(Stdio::null())
                .spawn()?;
            running.push((object, target, code, child));
        }
    }
    let mut tables: Vec<(&str, String)> =
        OBJECTS.iter().map(|(object, _)| (*object, String::new())).collect();
    for (object, target, code, mut child) in running {
        if !child.wait()?.success() {
            println!(
                "cargo::warning=the kernels for {target} ({object}) could not be built ahead of time; they will be compiled at run time"
            );
        } else if let Some((_, table)) = tables.iter_mut().find(|(name, _)| *name == object) {
            let _ = writeln!(table, "({target:?}, &Aligned(*include_bytes!({code:?}))),");
        }
    }
    let mut text = String::new();
    for (object, table) in tables {
        let name = object.to_uppercase();
        let _ = writeln!(text, "pub(crate) const {name}: &[(&str, &Aligned<[u8]>)] = &[\n{table}];");
    }
    let mut names: Vec<String> = read("ahead")?
        .split("void pf_")
        .skip(1)
        .filter_map(|rest| rest.split('(').next())
        .map(|name| format!("pf_{name}"))
        .collect();
    names.sort();
    let _ = writeln!(text, "pub(crate) const NAMES: &[&str] = &{names:?};");
    fs::write(out.join("ahead.rs"), text)
}

fn read(file: &str) -> io::Result<String> {
    fs::read_to_string(format!("kernels/{file}.hip"))
}

/// Returns a compiler and the folder of `ocml.bc`.
fn find(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let clang = CLANGS.iter().map(PathBuf::from).find(|path| path.is_file())?;
    let unpacked = root.join("target/toolchain/device-libs/usr/lib");
    let mut libraries = Vec::new();
    for llvm in list(&unpacked) {
        for version in list(&llvm.join("lib/clang")) {
            libraries.push(version.join("amdgcn/bitcode"));
        }
    }
    libraries.push("/opt/rocm/amdgcn/bitcode".into());
    let libraries = libraries.into_iter().find(|folder| folder.join("ocml.bc").is_file())?;
    Some((clang, libraries))
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}
