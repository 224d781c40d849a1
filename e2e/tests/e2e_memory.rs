//! Coherence of memory shared by host and device: both sides see the same bytes whenever HIP guarantees it.

use std::process::Command;

use e2e::{Program, Recipe, Running, Worker, WorkerOptions};
use transport::impair::{Impair, Impairment};

fn passes(worker: &Worker, name: &str) {
    Program::test(name).run(worker, &[]).expect_silent_success().expect_line(&format!("PASS {name}"));
}

#[test]
fn mapped_memory_is_the_same_on_both_sides_at_every_synchronisation() {
    passes(&Worker::start(), "mapped");
}

#[test]
fn pointers_in_managed_memory_and_managed_variables_lead_to_the_same_on_both_sides() {
    passes(&Worker::start(), "managed");
}

#[test]
fn registered_memory_is_seen_by_kernels_and_its_neighbours_are_not() {
    passes(&Worker::start(), "registered");
}

#[test]
fn copies_fills_and_host_functions_on_shared_memory_come_in_their_place() {
    passes(&Worker::start(), "mapped_copies");
}

#[test]
fn system_calls_signal_handlers_threads_and_forks_notice_nothing() {
    passes(&Worker::start(), "mapped_process");
}

#[test]
fn memory_that_runs_out_is_an_error_at_once_and_can_be_had_again() {
    passes(&Worker::start_with(&WorkerOptions::with(&["--memory", "1G"])), "memory_limits");
}

#[test]
fn pinned_memory_that_only_copies_use_is_sent_by_them_alone() {
    let worker = Worker::start();
    let program = Program::test("staging");
    let sent = |arguments: &[&str]| {
        let mut command = program.on(&worker);
        // Compression would make the byte counts smaller than the copies.
        let command = command.args(arguments).env("REMORA_STATS", "1").env("REMORA_COMPRESSION", "never");
        let ended = Running::start(command).finish();
        ended.expect_success().expect_line("PASS staging");
        let count =
            ended.stderr.split(" bytes sent").next().and_then(|text| text.rsplit(' ').next()?.parse().ok());
        count.unwrap_or_else(|| panic!("no counters in\n{}", ended.stderr))
    };
    const BUFFER: u64 = 8 << 20;
    let copied: u64 = sent(&[]);
    assert!((4 * BUFFER..4 * BUFFER + (1 << 20)).contains(&copied), "{copied} bytes for four copies");
    // Half of the buffer changes from round to round, and only that half is sent, with a bit mask.
    let changed: u64 = sent(&["shared"]);
    assert!(changed < 3 * BUFFER, "{changed} bytes for four halves");
}

#[test]
fn memory_shown_at_once_is_right_too() {
    let worker = Worker::start();
    for (name, variable, value) in [
        ("mapped", "REMORA_MAPPED", "eager"),
        ("mapped_copies", "REMORA_MAPPED", "eager"),
        ("mapped", "REMORA_STRICT", "1"),
    ] {
        let ended = Running::start(Program::test(name).on(&worker).env(variable, value)).finish();
        ended.expect_silent_success().expect_line(&format!("PASS {name}"));
    }
}

#[test]
fn registered_memory_whose_address_is_taken_has_another_and_no_wrong_data() {
    let worker = Worker::start();
    let ended = Program::test("registered_elsewhere").run(&worker, &[&worker.pid().to_string()]);
    ended.expect_success().expect_line("PASS registered_elsewhere");
}

#[test]
fn a_user_who_wants_no_shared_memory_gets_errors_and_no_wrong_data() {
    let worker = Worker::start();
    let ended = Running::start(Program::test("unmapped").on(&worker).env("REMORA_MAPPED", "refuse")).finish();
    ended.expect_success().expect_line("PASS unmapped");
    assert!(ended.stderr.contains("REMORA_MAPPED=refuse"), "{}", ended.stderr);
}

#[test]
fn programs_of_every_series_have_managed_variables() {
    let worker = Worker::start();
    let program = Recipe::test("mapped_process").with_series(7).build();
    program.run(&worker, &[]).expect_silent_success().expect_line("PASS mapped_process");
}

#[test]
fn shared_memory_is_right_whatever_is_cut() {
    let worker = Worker::start();
    let program = Program::test("mapped_copies");
    let through = |proxy: &Impair| -> Command {
        let mut command = program.command();
        command.env("REMORA_WORKER", proxy.endpoint().to_string());
        command
    };
    for seed in 1..4u64 {
        // Byte offsets that are unrelated to frame boundaries.
        let cuts: Vec<u64> = (1..6).map(|nth| 30_011 + seed * 7_919 + nth * nth * 1_000_003).collect();
        let impairment = Impairment { cuts: cuts.clone(), ..Impairment::default() };
        let proxy = Impair::start(worker.endpoint().clone(), impairment).unwrap();
        let ended = Running::start(&mut through(&proxy)).finish();
        ended.expect_silent_success().expect_line("PASS mapped_copies");
        assert!(proxy.accepted() > 1, "seed {seed}: nothing was cut");
    }
    assert!(!worker.log().contains("panicked"), "{}", worker.log());
}
