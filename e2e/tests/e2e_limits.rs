//! What a worker is limited to: memory that is refused at once, whoever has it, and time that has to be paid for.

use e2e::{Program, Running, Worker, WorkerOptions, eventually};

const MIB: u64 = 1 << 20;

#[test]
fn two_clients_share_one_limit_of_memory_and_the_dead_give_theirs_back() {
    let worker = Worker::start_with(&WorkerOptions::with(&[
        "--memory-limit",
        "512M",
        "--compute-limit",
        "100",
        "--grace-closed",
        "0.5",
    ]));
    let device = &worker.status().devices()[0];
    assert_eq!(device["memory_total"], 512 * MIB);
    assert_eq!(device["limits"]["memory"], 512 * MIB);

    let first = Running::start(Program::own("hold_memory").on(&worker).arg("300"));
    first.wait_for_line("holding");
    let refused = Program::own("hold_memory").run(&worker, &["300"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(
        refused.stdout.contains("out of memory") || refused.stderr.contains("out of memory"),
        "{refused:?}"
    );
    assert!(worker.status().devices()[0]["limits"]["refused"].as_u64() >= Some(1));
    // What is left can be had.
    let second = Running::start(Program::own("hold_memory").on(&worker).arg("180"));
    second.wait_for_line("holding");

    first.signal(libc::SIGKILL);
    eventually("the killed client's memory is free", || worker.status().memory_used() < 200 * MIB);
    let third = Running::start(Program::own("hold_memory").on(&worker).arg("300"));
    third.wait_for_line("holding");

    // A session's process that dies itself, without a word, gives back as much.
    let executors: Vec<u32> =
        worker.processes().into_iter().map(|(pid, _)| pid).filter(|pid| *pid != worker.pid()).collect();
    assert_eq!(executors.len(), 2, "{executors:?}");
    for pid in executors {
        // SAFETY: kill reads no memory of ours; the process carries the mark of this test's worker.
        assert_eq!(unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) }, 0);
    }
    eventually("no session is left", || worker.status().sessions().is_empty());
    let last = Running::start(Program::own("hold_memory").on(&worker).arg("500"));
    last.wait_for_line("holding");
    last.finish().expect_silent_success();
}

#[test]
fn memory_of_every_kind_runs_out_at_the_limit_and_comes_back() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--memory-limit", "256M"]));
    Program::own("memory_limits").run(&worker, &[]).expect_silent_success();
    eventually("nothing is left", || worker.status().memory_used() == 0);
}

#[test]
fn work_takes_as_long_as_its_share_of_the_device_allows() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--compute-limit", "2"]));
    let ended = Program::own("busy").run(&worker, &["launches", "24"]);
    let line = ended.expect_silent_success().stdout.clone();
    let seconds: f64 = line
        .split("seconds=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap()
        .parse()
        .unwrap();
    let limits = &worker.status().devices()[0]["limits"];
    let number = |name: &str| limits[name].as_u64().unwrap();
    assert_eq!(number("launches"), 24);
    // The last kernel began when all before it were paid for, but for what may be made up. It took no more than a tenth of the time.
    let spent = number("spent_ns") as f64 / 1e9;
    assert!(seconds >= spent * 0.9 / 0.02 - 0.25, "{spent} s of the device in {seconds} s: {limits}");
}
