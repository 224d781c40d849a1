//! Programs built by all common compilers run unmodified under `remora run`, without warnings from the dynamic linker.

use std::process::Command;

use e2e::{Ended, Program, Recipe, Running, remora, version_needs};

/// Runs `remora run -- program` without a worker or library path in the environment.
fn remora_run(program: &Program) -> Ended {
    let mut command = Command::new(remora());
    command.arg("run").arg("--").arg(program.path());
    command.env_remove("LD_LIBRARY_PATH");
    Running::start(&mut command).finish()
}

fn expect_pass(name: &str, program: &Program) {
    remora_run(program).expect_silent_success().expect_line(&format!("PASS {name}"));
}

#[test]
fn programs_by_debians_hipcc_run_without_a_loader_warning() {
    for name in ["vector_add", "globals_symbols", "softmax", "device_printf"] {
        let program = Recipe::example(name).by_hipcc().for_architectures(&["gfx90a"]).build();
        assert_eq!(version_needs(program.path(), "libamdhip64.so.5"), ["hip_4.2"], "{name}");
        expect_pass(name, &program);
    }
}

#[test]
fn kernels_allocate_with_every_device_library_and_code_object() {
    let hipcc = Recipe::example("device_malloc").by_hipcc().with_flag("-D__HIP_ENABLE_DEVICE_MALLOC__=1");
    let clang = Recipe::example("device_malloc");
    // The examples already cover clang with code object version 5.
    for (recipe, version) in [(&hipcc, 4), (&hipcc, 5), (&clang, 4)] {
        let recipe = recipe.clone().for_architectures(&["gfx90a"]);
        let program = recipe.with_flag(&format!("-mcode-object-version={version}")).build();
        expect_pass("device_malloc", &program);
    }
}

#[test]
fn a_program_with_a_compressed_fat_binary_runs() {
    let program = Recipe::example("matmul_lds").with_flag("--offload-compress").build();
    let image = std::fs::read(program.path()).unwrap();
    assert!(image.windows(4).any(|word| word == b"CCOB"), "the compiler compressed nothing");
    expect_pass("matmul_lds", &program);
}

#[test]
fn a_compressed_fat_binary_of_two_architectures_runs_on_either() {
    let recipe = Recipe::example("reduce_shuffle").with_flag("--offload-compress");
    let program = recipe.for_architectures(&["gfx90a", "gfx942"]).build();
    for device in ["mi210", "mi300x"] {
        let mut command = Command::new(remora());
        command.args(["run", "--device", device, "--"]).arg(program.path());
        Running::start(&mut command).finish().expect_silent_success().expect_line("PASS reduce_shuffle");
    }
}

#[test]
fn a_program_with_hip_7_headers_and_library_runs() {
    for name in ["vector_add", "streams_events"] {
        let program = Recipe::example(name).with_series(7).build();
        assert!(version_needs(program.path(), "libamdhip64.so.7").contains(&"hip_4.2".to_owned()), "{name}");
        expect_pass(name, &program);
    }
}
