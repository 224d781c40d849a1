//! A kernel that misbehaves is a HIP error of its own program, with a text that names it, and nothing to anyone else.

use std::sync::LazyLock;

use e2e::{Ended, Program, Worker, WorkerOptions};

/// A kernel may run for two seconds here.
fn worker() -> Worker {
    Worker::start_with(&WorkerOptions::with(&["--watchdog", "2"]))
}

static FAULTS: LazyLock<Program> = LazyLock::new(|| Program::own("faults"));

fn fault(worker: &Worker, which: &str) -> Ended {
    let ended = FAULTS.run(worker, &[which]);
    ended.expect_success();
    assert_eq!(ended.value("launch"), "hipSuccess", "a launch is only posted");
    assert_eq!(ended.stderr.lines().count(), 1, "one line tells it:\n{}", ended.stderr);
    ended
}

fn expect_sticky(ended: &Ended, error: &str) {
    for step in ["synchronize", "copy", "again"] {
        assert_eq!(ended.value(step), error, "{step}\nstderr:\n{}", ended.stderr);
    }
}

fn expect_service(worker: &Worker) {
    Program::example("vector_add").run(worker, &[]).expect_silent_success().expect_line("PASS vector_add");
    assert!(!worker.log().contains("panicked"), "{}", worker.log());
}

fn expect_illegal_address(which: &str, kernel: &str) {
    let worker = worker();
    let ended = fault(&worker, which);
    expect_sticky(&ended, "hipErrorIllegalAddress");
    let address = ended.value("address");
    assert!(ended.stderr.contains(kernel), "the text names the kernel:\n{}", ended.stderr);
    let shown = ended.stderr.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| same(word, address));
    assert!(shown, "the text names the address {address}:\n{}", ended.stderr);
    expect_service(&worker);
}

/// Whether two hexadecimal numbers are the same, however many zeros lead.
fn same(word: &str, address: &str) -> bool {
    let value = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    value(word).is_some() && value(word) == value(address)
}

#[test]
fn a_write_out_of_bounds_is_an_illegal_address() {
    expect_illegal_address("write", "write_out_of_bounds");
}

#[test]
fn a_write_right_behind_an_allocation_is_an_illegal_address() {
    expect_illegal_address("overrun", "write_out_of_bounds");
}

#[test]
fn a_read_through_null_is_an_illegal_address() {
    expect_illegal_address("null", "read_through_null");
}

#[test]
fn memory_that_was_freed_is_an_illegal_address() {
    expect_illegal_address("freed", "well_behaved");
}

#[test]
fn an_endless_kernel_is_a_launch_timeout() {
    let worker = worker();
    let ended = fault(&worker, "endless");
    expect_sticky(&ended, "hipErrorLaunchTimeOut");
    assert!(ended.stderr.contains("loop_for_ever"), "the text names the kernel:\n{}", ended.stderr);
    expect_service(&worker);
}

#[test]
fn a_fault_of_one_client_is_not_another_ones() {
    let worker = worker();
    let steady = e2e::Running::start(&mut Program::own("steady").on(&worker));
    steady.wait_for_line("round 0");
    for which in ["write", "null"] {
        expect_sticky(&fault(&worker, which), "hipErrorIllegalAddress");
    }
    let before = steady.stdout_so_far().lines().count();
    e2e::eventually("the other client goes on", || steady.stdout_so_far().lines().count() > before + 2);
    steady.finish().expect_silent_success().expect_line("PASS steady");
}

#[test]
fn what_is_no_code_object_is_refused_and_does_no_harm() {
    let worker = worker();
    let ended = Program::own("junk_module").run(&worker, &[]);
    ended.expect_success().expect_line("PASS junk_module");
    assert_eq!(ended.value("empty_bundle"), "hipErrorNoBinaryForGpu", "{}", ended.stderr);
    for image in ["noise", "zeros", "elf", "bundle", "compressed"] {
        assert_eq!(ended.value(image), "hipErrorInvalidImage", "{image}\n{}", ended.stderr);
    }
    expect_service(&worker);
}
