//! HIP graphs behave as specified with every HIP version, and a graph launch is one frame.

use std::time::Duration;

use e2e::{Program, Recipe, Running, Worker};
use transport::impair::{Impair, Impairment};

fn expect_pass(name: &str, series: u32, arguments: &[&str]) {
    let worker = Worker::start();
    let program = Recipe::test(name).with_series(series).build();
    program.run(&worker, arguments).expect_silent_success().expect_line(&format!("PASS {name}"));
}

#[test]
fn nodes_do_what_they_say_and_can_be_asked_and_changed() {
    expect_pass("graph_nodes", 6, &[]);
}

#[test]
fn nodes_are_the_same_with_hip_7() {
    expect_pass("graph_nodes", 7, &[]);
}

#[test]
fn captures_spread_over_streams_and_break_as_hip_says() {
    expect_pass("graph_capture", 6, &[]);
}

#[test]
fn captures_are_the_same_with_hip_7() {
    expect_pass("graph_capture", 7, &[]);
}

#[test]
fn invalid_graphs_are_refused_with_the_error_of_hip() {
    expect_pass("graph_errors", 6, &[]);
}

#[test]
fn random_graphs_and_captures_compute_what_their_steps_compute_one_by_one() {
    expect_pass("graph_random", 6, &["40"]);
}

/// Parses the statistics line of REMORA_STATS=1: round trips, and posted frames.
fn counters(stderr: &str) -> (u64, u64) {
    let line = stderr.lines().find(|line| line.contains(" round trips, "));
    let line = line.unwrap_or_else(|| panic!("no counters in\n{stderr}"));
    let before = |word: &str| {
        let (before, _) = line.split_once(word).unwrap_or_else(|| panic!("no \"{word}\" in {line}"));
        before.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    (before(" round trips"), before(" posted"))
}

#[test]
fn a_launch_is_one_posted_frame_however_many_nodes_there_are() {
    let worker = Worker::start();
    let program = Program::test("graph_replay");
    let run = |launches: u64| {
        let mut command = program.on(&worker);
        command.arg(launches.to_string()).env("REMORA_STATS", "1");
        let ended = Running::start(&mut command).finish();
        ended.expect_success().expect_line("PASS graph_replay");
        counters(&ended.stderr)
    };
    let (few, many) = (run(10), run(110));
    assert_eq!(few.0, many.0, "launches use no round trip");
    assert_eq!(many.1 - few.1, 100, "frames of a hundred launches");
    // Creating the 302 nodes, the graph, memory and module takes far fewer frames than there are nodes.
    assert!(few.1 < 60, "{} frames for ten launches", few.1);
}

#[test]
fn graphs_compute_the_same_over_a_connection_that_is_cut_again_and_again() {
    let worker = Worker::start();
    let program = Program::test("graph_random");
    let cuts = vec![30_001, 17_773, 45_011, 3_333, 60_003, 25_999];
    let proxy =
        Impair::start(worker.endpoint().clone(), Impairment { cuts: cuts.clone(), ..Impairment::default() })
            .unwrap();
    let mut command = program.command();
    command.env("REMORA_WORKER", proxy.endpoint().to_string()).arg("25");
    let ended = Running::start(&mut command).finish();
    ended.expect_silent_success().expect_line("PASS graph_random");
    assert_eq!(
        proxy.accepted() as usize,
        cuts.len() + 1,
        "the client reconnected after every cut\n{}",
        ended.stderr
    );
}

#[test]
fn a_slow_link_changes_nothing_about_a_graph() {
    let worker = Worker::start();
    let impairment = Impairment { delay: Duration::from_millis(3), ..Impairment::default() };
    let proxy = Impair::start(worker.endpoint().clone(), impairment).unwrap();
    let mut command = Program::test("graph_nodes").command();
    command.env("REMORA_WORKER", proxy.endpoint().to_string());
    Running::start(&mut command).finish().expect_silent_success().expect_line("PASS graph_nodes");
}
