//! Kernel faults: the program gets a HIP error and a message that names the kernel; other programs are not affected.

use std::sync::LazyLock;

use e2e::{Ended, Program, Recipe, Worker, WorkerOptions};

/// A worker with a watchdog of two seconds.
fn worker() -> Worker {
    Worker::start_with(&WorkerOptions::with(&["--watchdog", "2"]))
}

static FAULTS: LazyLock<Program> = LazyLock::new(|| both(Recipe::test("faults")));
static VECTOR_ADD: LazyLock<Program> = LazyLock::new(|| both(Recipe::example("vector_add")));

fn both(recipe: Recipe) -> Program {
    recipe.for_architectures(&["gfx90a", "gfx942"]).build()
}

/// A kernel fault, the error that every later call returns, and the words in the message on standard error.
struct Fault {
    which: &'static str,
    error: &'static str,
    names: &'static [&'static str],
}

const FAULTS_OF_KERNELS: &[Fault] = &[
    Fault { which: "write", error: "hipErrorIllegalAddress", names: &["write_out_of_bounds"] },
    Fault { which: "overrun", error: "hipErrorIllegalAddress", names: &["write_out_of_bounds"] },
    Fault { which: "null", error: "hipErrorIllegalAddress", names: &["read_through_null"] },
    Fault { which: "freed", error: "hipErrorIllegalAddress", names: &["well_behaved"] },
    Fault { which: "recursion", error: "hipErrorIllegalAddress", names: &["recurses_for_ever"] },
    Fault { which: "endless", error: "hipErrorLaunchTimeOut", names: &["loop_for_ever"] },
    Fault { which: "asleep", error: "hipErrorLaunchTimeOut", names: &["waits_for_ever"] },
    Fault { which: "abort", error: "hipErrorLaunchFailure", names: &["aborts", "trap"] },
    Fault {
        which: "assert",
        error: "hipErrorLaunchFailure",
        names: &["asserts", "faults.hip:", "data[threadIdx.x] == wanted", "what was expected"],
    },
    Fault {
        which: "instruction",
        error: "hipErrorLaunchFailure",
        names: &["unknown_instruction", "illegal instruction"],
    },
];

/// Launches that are rejected at once, with their error; they do not reach the device.
const REFUSED: &[(&str, &str)] = &[
    ("local memory", "hipErrorInvalidValue"),
    ("large block", "hipErrorInvalidConfiguration"),
    ("flat block", "hipErrorInvalidConfiguration"),
    ("empty block", "hipErrorInvalidConfiguration"),
    ("empty grid", "hipErrorInvalidConfiguration"),
    ("large grid", "hipErrorInvalidConfiguration"),
    ("launch bounds", "hipErrorLaunchFailure"),
    ("cooperative", "hipErrorCooperativeLaunchTooLarge"),
];

const LATER: [&str; 3] = ["synchronize", "copy", "again"];

fn fault(worker: &Worker, which: &str) -> Ended {
    let ended = FAULTS.run(worker, &[which]);
    ended.expect_success();
    assert_eq!(ended.value("launch"), "hipSuccess", "{which}: a launch is only posted");
    ended
}

fn expect_sticky(ended: &Ended, error: &str) {
    for step in LATER {
        assert_eq!(ended.value(step), error, "{step}\nstderr:\n{}", ended.stderr);
    }
}

fn expect_service(worker: &Worker) {
    VECTOR_ADD.run(worker, &[]).expect_silent_success().expect_line("PASS vector_add");
    assert!(!worker.log().contains("panicked"), "{}", worker.log());
}

/// Whether two hexadecimal numbers are equal, ignoring leading zeros.
fn same(word: &str, address: &str) -> bool {
    let value = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    value(word).is_some() && value(word) == value(address)
}

fn expect_every_fault(device: &str) {
    let options = WorkerOptions { device: device.to_owned(), ..WorkerOptions::with(&["--watchdog", "2"]) };
    let worker = Worker::start_with(&options);
    for Fault { which, error, names } in FAULTS_OF_KERNELS {
        let ended = fault(&worker, which);
        expect_sticky(&ended, error);
        for name in *names {
            assert!(ended.stderr.contains(name), "{which}: the text names {name}:\n{}", ended.stderr);
        }
        // An assertion prints its location before the fault is reported.
        if *which != "assert" {
            assert_eq!(ended.stderr.lines().count(), 1, "{which}: one line reports it:\n{}", ended.stderr);
        }
        if let Some(address) = ended.stdout.lines().find_map(|line| line.strip_prefix("address=")) {
            let words = ended.stderr.split(|c: char| !c.is_ascii_alphanumeric());
            let shown = words.into_iter().any(|word| same(word, address));
            assert!(shown, "{which}: the text names the address {address}:\n{}", ended.stderr);
        }
        expect_service(&worker);
    }
    for (which, error) in REFUSED {
        let ended = FAULTS.run(&worker, &[which]);
        ended.expect_success();
        assert_eq!(ended.value("launch"), *error, "{which}\nstderr:\n{}", ended.stderr);
        expect_sticky(&ended, "hipSuccess");
    }
    let ended = fault(&worker, "assert holds");
    expect_sticky(&ended, "hipSuccess");
    expect_service(&worker);
}

#[test]
fn whatever_goes_wrong_on_an_mi300x_is_its_hip_error_and_nothing_to_the_next_session() {
    expect_every_fault("mi300x");
}

#[test]
fn whatever_goes_wrong_on_an_mi210_is_its_hip_error_and_nothing_to_the_next_session() {
    expect_every_fault("mi210");
}

#[test]
fn a_fault_of_one_client_is_not_another_ones() {
    let worker = worker();
    let steady = e2e::Running::start(&mut Program::test("steady").on(&worker));
    steady.wait_for_line("round 0");
    for which in ["write", "null"] {
        expect_sticky(&fault(&worker, which), "hipErrorIllegalAddress");
    }
    let before = steady.stdout_so_far().lines().count();
    e2e::eventually("the other client continues", || steady.stdout_so_far().lines().count() > before + 2);
    steady.finish().expect_silent_success().expect_line("PASS steady");
}

#[test]
fn what_is_no_code_object_is_refused_and_does_no_harm() {
    let worker = worker();
    let ended = Program::test("junk_module").run(&worker, &[]);
    ended.expect_success().expect_line("PASS junk_module");
    assert_eq!(ended.value("empty_bundle"), "hipErrorNoBinaryForGpu", "{}", ended.stderr);
    for image in ["noise", "zeros", "elf", "bundle", "compressed"] {
        assert_eq!(ended.value(image), "hipErrorInvalidImage", "{image}\n{}", ended.stderr);
    }
    expect_service(&worker);
}
