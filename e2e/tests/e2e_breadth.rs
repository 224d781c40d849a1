//! Breadth of the HIP API: one program per feature, compiled with the headers of every HIP version that has it.

use e2e::{Program, Recipe, Worker, WorkerOptions};

/// The program compiled by Debian's hipcc (HIP 5) and by clang with the headers of HIP 6 and 7, for the only architecture that
/// all of these compilers support.
fn generations(name: &str) -> Vec<Program> {
    let recipe = Recipe::test(name).for_architectures(&["gfx90a"]);
    let clang = [6, 7].map(|series| recipe.clone().with_series(series).build());
    std::iter::once(recipe.by_hipcc().build()).chain(clang).collect()
}

fn mi210() -> Worker {
    Worker::start_with(&WorkerOptions { device: "mi210".into(), ..WorkerOptions::default() })
}

fn expect_pass_of_every_generation(name: &str) {
    let worker = mi210();
    for program in generations(name) {
        program.run(&worker, &[]).expect_silent_success().expect_line(&format!("PASS {name}"));
    }
}

#[test]
fn boxes_are_copied_and_filled_in_every_direction() {
    expect_pass_of_every_generation("boxes");
}

#[test]
fn memory_is_mapped_moved_and_aliased_at_reserved_addresses() {
    expect_pass_of_every_generation("virtual_memory");
}

#[test]
fn an_access_that_a_mapping_does_not_allow_is_a_fault() {
    let worker = mi210();
    let program = Recipe::test("virtual_memory").for_architectures(&["gfx90a"]).build();
    for access in ["write", "read", "unmapped"] {
        program.run(&worker, &[access]).expect_success().expect_line("PASS virtual_memory");
    }
}

#[test]
fn textures_of_linear_memory_are_fetched_from() {
    expect_pass_of_every_generation("textures");
}

#[test]
fn two_processes_share_memory_and_either_may_go_first() {
    expect_pass_of_every_generation("ipc");
}

#[test]
fn streams_wait_for_values_and_libraries_know_their_kernels() {
    let worker = mi210();
    let library = Recipe::test("module_kernels").for_architectures(&["gfx90a"]).as_code_object().build();
    let library = library.path().to_str().unwrap();
    for program in generations("stream_values") {
        program.run(&worker, &[library]).expect_silent_success().expect_line("PASS stream_values");
    }
}

#[test]
fn sources_compiled_apart_are_linked_and_run() {
    let worker = mi210();
    let program = Recipe::test("link").for_architectures(&["gfx90a"]).build();
    program.run(&worker, &[]).expect_success().expect_line("PASS link");
}

#[test]
fn modules_have_managed_variables_and_end_after_what_was_launched() {
    let worker = mi210();
    let program = Recipe::test("module_managed").for_architectures(&["gfx90a"]).build();
    program.run(&worker, &[]).expect_silent_success().expect_line("PASS module_managed");
}

#[test]
fn what_is_compiled_at_run_time_sees_headers_of_hip_and_of_the_programs_machine() {
    let worker = mi210();
    let program = Recipe::test("rtc_headers").for_architectures(&["gfx90a"]).build();
    program.run(&worker, &[]).expect_success().expect_line("PASS rtc_headers");
}
