//! Tests the library as agents use it: a C program loads it and calls every function of both generations with valid and invalid arguments,
//! from one thread and from eight, under AddressSanitizer with leak detection.

mod machine;

use std::path::{Path, PathBuf};
use std::process::Command;

use accelerator_amd::{Ledger, Limit};
use machine::{Card, Machine};

/// Returns the path of the cdylib that cargo built alongside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let found = [folder, folder.parent().unwrap()].map(|folder| folder.join("libaccelerator_amd.so"));
    found.into_iter().find(|path| path.exists()).expect("libaccelerator_amd.so is built with this test")
}

fn compile(into: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = into.join("check");
    let mut clang = Command::new("clang-19");
    clang.args([
        "-std=c11",
        "-D_GNU_SOURCE",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsanitize=address",
    ]);
    clang.arg("-I").arg(here.join("include"));
    clang.args(["main.c", "generation_a.c", "generation_e.c"].map(|file| here.join("tests/c").join(file)));
    let output = clang.args(["-pthread", "-o"]).arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn a_c_program_finds_every_function_as_promised_and_no_leak() {
    let machine = Machine::with([Card::mi300x(0), Card::mi300x(1).divided("DPX", 2)]);
    machine.process(4242, machine.gpu_ids[0][0], 5 << 30, 76);
    machine.put("opt/rocm-7.10.0/lib/libamdhip64.so.7", "");
    let program = compile(machine.root());
    for (form, calls) in [("header", "10000"), ("go", "500")] {
        let limits = tempfile::tempdir().unwrap();
        let mut command = Command::new(&program);
        command.arg(library()).arg(calls).env_clear();
        command.env("REMORA_PROVIDER_ROOT", machine.root()).env("REMORA_SOFTWARE_GPUS", "mi210, ,mi999");
        command.env("REMORA_LIMITS_DIR", limits.path()).env("REMORA_MOUNT_ROCM", "1");
        command.env("TF_ACCEL_TOPO_ABI", form).env("ASAN_OPTIONS", "detect_leaks=1:exitcode=77");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{form}: {}\n{said}", output.status);
        // The limits set by the last calls, as the agent reads them.
        let ledger = Ledger::new(Some(limits.path().to_owned())).read();
        let limit =
            |worker: Option<&str>| ledger[&(worker.map(str::to_owned), "amd-a1b2c3d400000000".to_owned())];
        let expected = Limit { memory_bytes: Some(4 << 30), compute_percent: Some(25) };
        assert_eq!(limit(Some("worker-a")), expected);
        assert_eq!(limit(None), Limit { memory_bytes: Some(8 << 30), compute_percent: Some(50) });
        assert!(limit(Some("worker-t")).compute_percent.is_some());
    }
}

#[test]
fn a_program_that_leaks_would_be_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("leak.c");
    std::fs::write(&source, "#include <stdlib.h>\nvoid *volatile kept;\nint main(void) { kept = malloc(7); kept = 0; return 0; }\n").unwrap();
    let program = folder.path().join("leak");
    let built =
        Command::new("clang-19").args(["-fsanitize=address", "-o"]).arg(&program).arg(&source).status();
    assert!(built.unwrap().success());
    let output = Command::new(&program).env("ASAN_OPTIONS", "detect_leaks=1:exitcode=77").output().unwrap();
    assert_eq!(output.status.code(), Some(77), "{}", String::from_utf8_lossy(&output.stderr));
}
