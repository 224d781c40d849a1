//! Ordering: output, callbacks and copies reach the program in the order HIP guarantees, and threads do not block each other.

use e2e::{Program, Recipe, Running, Worker};

#[test]
fn kernel_printf_keeps_its_place_between_synchronisations() {
    let worker = Worker::start();
    let ended = Program::test("printf_order").run(&worker, &[]);
    ended.expect_silent_success();
    let mut wanted: Vec<String> =
        (0..20).flat_map(|turn| [format!("host {turn}"), format!("kernel {turn}")]).collect();
    wanted.push("PASS printf_order".to_owned());
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn host_functions_and_callbacks_run_here_in_stream_order() {
    let worker = Worker::start();
    Program::test("host_functions")
        .run(&worker, &[])
        .expect_silent_success()
        .expect_line("PASS host_functions");
}

#[test]
fn a_copy_that_has_returned_is_seen_by_streams_that_wait_for_no_other() {
    let worker = Worker::start();
    Program::test("copies_complete")
        .run(&worker, &[])
        .expect_silent_success()
        .expect_line("PASS copies_complete");
}

#[test]
fn a_captured_stream_does_its_work_when_the_graph_is_launched() {
    let worker = Worker::start();
    Program::test("graph").run(&worker, &[]).expect_silent_success().expect_line("PASS graph");
}

#[test]
fn a_thread_in_a_long_synchronisation_holds_no_other_up() {
    let worker = Worker::start();
    Program::test("threads").run(&worker, &[]).expect_silent_success().expect_line("PASS threads");
}

#[test]
fn sixty_four_threads_do_everything_at_once_and_each_gets_its_own() {
    let worker = Worker::start();
    let ended = Program::test("hammer").run(&worker, &["64", "2"]);
    ended.expect_silent_success().expect_line("PASS hammer");
}

#[test]
fn a_thread_that_posts_more_than_its_stream_can_hold_waits_alone() {
    let worker = Worker::start();
    Program::test("flood").run(&worker, &[]).expect_silent_success().expect_line("PASS flood");
}

#[test]
fn many_allocations_streams_and_launches_of_one_session_leave_nothing_behind() {
    let worker = Worker::start();
    Program::test("many").run(&worker, &[]).expect_silent_success().expect_line("PASS many");
}

#[test]
fn making_and_unmaking_things_uses_no_round_trip() {
    let worker = Worker::start();
    let kernels = Recipe::test("module_kernels").as_code_object().build();
    let creation = Program::test("creation");
    let run = |program: &Program, variables: &[(&str, &str)]| {
        let mut command = program.on(&worker);
        command.arg(kernels.path()).env("REMORA_STATS", "1").envs(variables.iter().copied());
        let ended = Running::start(&mut command).finish();
        ended.expect_success();
        round_trips(&ended.stderr)
    };
    // The minimum for any program with a session: opening and closing it.
    let least = run(&Program::test("device_count"), &[]);
    assert!(least <= 1, "a session alone takes {least} round trips");
    assert_eq!(run(&creation, &[]), least);
    // Control: shows that the counter does count round trips.
    let strict = run(&creation, &[("REMORA_STRICT", "1")]);
    assert!(strict > 100, "in strict mode, where every call waits, there are only {strict} round trips");
}

#[test]
fn asking_again_whether_work_is_done_uses_no_round_trip_and_agrees_with_every_other_word() {
    let worker = Worker::start();
    let program = Program::test("polling");
    let run = |polls: &str| {
        let ended = Running::start(program.on(&worker).arg(polls).env("REMORA_STATS", "1")).finish();
        ended.expect_success().expect_line("PASS polling");
        round_trips(&ended.stderr)
    };
    assert_eq!(run("2000"), run("2"));
}

/// The number of round trips, from the statistics line of REMORA_STATS=1.
fn round_trips(stderr: &str) -> u64 {
    let count = stderr.lines().find_map(|line| {
        let (before, _) = line.strip_prefix("remora: ")?.split_once(" round trips")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    count.unwrap_or_else(|| panic!("no counters in\n{stderr}"))
}
