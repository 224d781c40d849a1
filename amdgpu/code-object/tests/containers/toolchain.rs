//! Runs the compilers that `cargo xtask setup` installs, to build fixtures at test time.

use std::path::{Path, PathBuf};
use std::process::Command;

const LLVM: &str = "/usr/lib/llvm-19/bin";

/// Command for a tool of LLVM 19.
pub fn llvm(program: &str) -> Command {
    let path = Path::new(LLVM).join(program);
    assert!(path.exists(), "{} is missing; run `cargo xtask setup`", path.display());
    Command::new(path)
}

/// Compiles `tests/fixtures/<source>` as HIP with clang and the given arguments. Returns the output.
pub fn compile_hip(source: &str, arguments: &[&str]) -> Vec<u8> {
    let base = match std::env::var_os("REMORA_TOOLCHAIN") {
        Some(base) => PathBuf::from(base),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/toolchain"),
    };
    let hip = base.join("hip/usr");
    let bitcode = base.join("device-libs/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode");
    for path in [hip.join("include/hip/hip_runtime.h"), bitcode.join("ockl.bc")] {
        assert!(path.exists(), "{} is missing; run `cargo xtask setup`", path.display());
    }
    let mut clang = llvm("clang++");
    clang.args(["-x", "hip", "-O2", "-std=c++17", "-Wno-unused-command-line-argument"]);
    clang.arg(format!("--rocm-path={}", hip.display()));
    clang.arg(format!("--rocm-device-lib-path={}", bitcode.display()));
    clang.arg("-isystem").arg(hip.join("include"));
    clang.args(arguments).arg(fixture(source));
    output_of(clang)
}

/// Compiles `tests/fixtures/<source>` to a raw code object.
pub fn compile_device(source: &str, target: &str, arguments: &[&str]) -> Vec<u8> {
    let arch = format!("--offload-arch={target}");
    let mut all = vec![arch.as_str(), "--offload-device-only", "--no-gpu-bundle-output"];
    all.extend(arguments);
    compile_hip(source, &all)
}

/// Links a raw code object from assembly texts, one object each.
pub fn assemble(processor: &str, texts: &[String]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut clang = llvm("clang");
    clang.args(["-x", "assembler", "-target", "amdgcn-amd-amdhsa"]).arg(format!("-mcpu={processor}"));
    for (index, text) in texts.iter().enumerate() {
        let path = folder.path().join(format!("{index}.s"));
        std::fs::write(&path, text).unwrap();
        clang.arg(path);
    }
    output_of(clang)
}

/// Text of `tests/fixtures/<name>`.
pub fn fixture_text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap()
}

/// Links a host object into a program, with the runtime's symbols left undefined.
pub fn link_host(object: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.o");
    std::fs::write(&path, object).unwrap();
    let mut clang = llvm("clang++");
    clang.args(["-pie", "-Wl,--unresolved-symbols=ignore-all"]).arg(&path);
    output_of(clang)
}

/// Runs a command with `-o` and returns what it writes.
pub fn output_of(mut command: Command) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output");
    let run = command.arg("-o").arg(&path).output().expect("the compiler starts");
    assert!(run.status.success(), "{command:?}: {}", String::from_utf8_lossy(&run.stderr));
    std::fs::read(&path).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}
