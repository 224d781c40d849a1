//! Resources of a client are freed when it ends, however it ends, and other clients are not affected.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use e2e::{Marker, Program, Running, Worker, WorkerOptions, eventually};

const MIB: u64 = 1 << 20;

#[test]
fn killing_a_client_frees_its_memory_and_disturbs_no_other() {
    let worker = Worker::start();
    let steady = Running::start(&mut Program::test("steady").on(&worker));
    steady.wait_for_line("round 0");
    let others = worker.status().memory_used();

    let held = Running::start(Program::test("hold_memory").on(&worker).arg("256"));
    held.wait_for_line("holding");
    let status = worker.status();
    assert!(status.memory_used() >= others + 256 * MIB, "{status:?}");
    let session = status.session_of(held.pid()).expect("the client has a session");
    assert_eq!((session.client.as_str(), session.connected), ("hold_memory", true));
    assert!(session.memory_used >= 256 * MIB, "{session:?}");

    let killed = Instant::now();
    held.signal(libc::SIGKILL);
    eventually("the killed client's memory is free again", || worker.status().memory_used() == others);
    assert!(killed.elapsed() < Duration::from_secs(8), "it took {:?}", killed.elapsed());
    eventually("its session is gone", || worker.status().session_of(held.pid()).is_none());

    // The other client continues: it must complete new rounds now.
    let before = rounds(&steady);
    eventually("the other client continues", || rounds(&steady) > before + 2);
    assert_eq!(worker.status().sessions().len(), 1);
    steady.finish().expect_silent_success().expect_line("PASS steady");
}

#[test]
fn destructors_that_run_after_main_can_still_free() {
    let worker = Worker::start();
    Program::test("late_free").run(&worker, &[]).expect_silent_success().expect_line("freed=hipSuccess");
    eventually("its session is gone", || worker.status().sessions().is_empty());
}

#[test]
fn kernels_launched_by_exit_handlers_and_static_destructors_run() {
    let worker = Worker::start();
    let ended = Program::test("late_launch").run(&worker, &[]);
    ended.expect_silent_success();
    for place in ["main", "thread stream", "atexit", "youngest", "usual", "oldest"] {
        ended.expect_line(&format!("{place}=hipSuccess hipSuccess right"));
    }
    // A program whose first kernel launch comes after main.
    let ended = Program::test("late_launch").run(&worker, &["first"]);
    ended.expect_silent_success();
    for place in ["usual", "oldest"] {
        ended.expect_line(&format!("{place}=hipSuccess hipSuccess right"));
    }
    eventually("no session is left", || worker.status().sessions().is_empty());
}

#[test]
fn a_process_ends_with_the_last_thread_of_the_program_and_not_before() {
    let worker = Worker::start();
    let start = |how: &str| Running::start(Program::test("main_ends").on(&worker).arg(how));
    let running = [start("alone"), start("thread"), start("callback")];
    let last = ["main=right", "thread=right", "callback=right"];
    for (running, last) in running.into_iter().zip(last) {
        // Its exit handlers run, as for any process that exits normally.
        running.finish().expect_silent_success().expect_line(last).expect_line("exit handler=right");
    }
    // Signals are delivered to the program's threads, never to the library's.
    let signalled = start("signal");
    signalled.wait_for_line("waiting");
    signalled.signal(libc::SIGTERM);
    assert_eq!(signalled.finish().status.code(), Some(42));
    eventually("no session is left", || worker.status().sessions().is_empty());
}

#[test]
fn a_session_has_the_same_sixteen_digits_in_json_and_in_the_log() {
    let worker = Worker::start();
    let holding = Running::start(&mut Program::test("hold_memory").on(&worker));
    holding.wait_for_line("holding");
    let status = worker.status();
    let id = status.json["sessions"][0]["id"].as_str().expect("an id is a text").to_owned();
    assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    worker.expect_log(&id);
}

#[test]
fn killing_a_client_in_the_middle_of_its_work_ends_its_session() {
    let worker = Worker::start();
    // One client with replies in flight, one whose kernel never ends.
    let busy = Running::start(&mut Program::test("steady").on(&worker));
    busy.wait_for_line("round 0");
    let endless = Running::start(Program::test("faults").on(&worker).arg("endless"));
    endless.wait_for_line("launch=");
    assert_eq!(worker.status().sessions().len(), 2);
    busy.signal(libc::SIGKILL);
    endless.signal(libc::SIGKILL);
    let killed = Instant::now();
    eventually("both sessions are gone", || worker.status().sessions().is_empty());
    assert!(killed.elapsed() < Duration::from_secs(8), "it took {:?}", killed.elapsed());
    assert_eq!(worker.status().memory_used(), 0);
    assert_eq!(worker.processes().len(), 1, "{:?}", worker.processes());
}

#[test]
fn killing_a_client_ends_its_session_even_if_nothing_more_can_be_queued() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--grace-closed", "0.5"]));
    let running = Running::start(&mut Program::test("held_up").on(&worker));
    // A worker queues at most 512 MiB for its streams. Once it has received more, the session is blocked.
    let received = || {
        let session = &worker.status().json["sessions"][0];
        session["bytes_received"].as_u64().unwrap_or(0)
    };
    eventually("the worker has received more than it may queue", || received() > 512 * MIB);
    running.signal(libc::SIGKILL);
    eventually("the session is gone", || worker.status().sessions().is_empty());
}

#[test]
fn a_session_whose_process_dies_is_an_error_and_not_a_hang() {
    let worker = Worker::start();
    let steady = Running::start(&mut Program::test("steady").on(&worker));
    steady.wait_for_line("round 0");
    kill_executor(&worker);
    steady.wait_for_line("FAIL steady");
    let ended = steady.finish();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "one line gives the reason:\n{}", ended.stderr);
    assert!(ended.stderr.contains("the session's process died: signal: 9 (SIGKILL)"), "{}", ended.stderr);
    Program::example("vector_add").run(&worker, &[]).expect_silent_success();
}

/// Kills the process of a worker's only session.
fn kill_executor(worker: &Worker) {
    let processes = worker.processes();
    let executor = processes.iter().find(|(pid, _)| *pid != worker.pid()).expect("the session has a process");
    let pid = libc::pid_t::try_from(executor.0).unwrap();
    // SAFETY: kill takes no pointers; the process has the marker of this test's worker.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

#[test]
fn a_program_whose_session_is_lost_goes_on_after_a_reset_of_the_device() {
    let worker = Worker::start();
    let program = Running::start(Program::test("starts_over").on(&worker).arg("2"));
    for loss in 1..=2 {
        program.wait_for_line(&format!("computing {loss}"));
        kill_executor(&worker);
        program.wait_for_line(&format!("reset {loss}"));
    }
    let ended = program.finish();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    ended.expect_line("PASS starts_over");
    let said = |text: &str| ended.stderr.matches(text).count();
    assert_eq!((said("SIGKILL"), said("hipDeviceReset opened a new one")), (2, 2), "{}", ended.stderr);
    eventually("its sessions are gone", || worker.status().sessions().is_empty());
}

fn rounds(steady: &Running) -> usize {
    steady.stdout_so_far().lines().count()
}

#[test]
fn a_process_that_exits_without_reset_leaves_no_session_behind() {
    let worker = Worker::start();
    let holding = Running::start(&mut Program::test("hold_memory").on(&worker));
    holding.wait_for_line("holding");
    assert_eq!(worker.status().sessions().len(), 1);
    let pid = holding.pid();
    holding.finish().expect_silent_success().expect_line("leaving");
    eventually("the session is gone", || worker.status().sessions().is_empty());
    assert_eq!(worker.status().memory_used(), 0);
    // It has sent Goodbye, so there is no grace period.
    assert!(!worker.log().contains("did not reconnect in time"), "pid {pid}:\n{}", worker.log());
}

#[test]
fn a_worker_told_to_stop_ends_all_its_processes() {
    let worker = Worker::start();
    let holding = Running::start(&mut Program::test("hold_memory").on(&worker));
    holding.wait_for_line("holding");
    let processes = worker.processes();
    assert!(processes.len() >= 2, "a worker and a session: {processes:?}");
    worker.stop().expect_success();
    for (pid, command) in processes {
        eventually(&format!("process {pid} ({command}) is gone"), || is_gone(pid));
    }
    // Its client gets an error, and ends like any program whose device is lost.
    holding.finish();
}

#[test]
fn a_worker_that_is_killed_leaves_no_process_even_if_nobody_reads_its_log() {
    let marker = Marker::new();
    let mut command = WorkerOptions::default().command();
    command
        .env(Marker::NAME, marker.value())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut worker = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(worker.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(worker.stderr.take());
    let endpoint = line.trim().strip_prefix("listening on ").expect("the worker announces itself").to_owned();
    let mut endless = Program::test("faults").command();
    let endless = Running::start(endless.arg("endless").env("REMORA_WORKER", endpoint));
    endless.wait_for_line("launch=");
    let left = || marker.processes().len();
    assert_eq!(left(), 2, "a worker and a session: {:?}", marker.processes());
    worker.kill().unwrap();
    worker.wait().unwrap();
    eventually("the session's process is gone", || left() == 0);
    // Its synchronization can never complete, so it returns an error.
    endless.wait_for_line("synchronize=hipErrorUnknown");
}

fn is_gone(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')),
        Err(_) => true,
    }
}

#[test]
fn a_forked_child_starts_anew_and_its_parent_goes_on() {
    let worker = Worker::start();
    let ended = Program::test("fork").run(&worker, &["use"]);
    ended.expect_silent_success().expect_line("child 0 is right").expect_line("child 1 is right");
    ended.expect_line("PASS fork");
    eventually("no session is left of parent or children", || worker.status().sessions().is_empty());
}

#[test]
fn a_forked_child_that_only_exits_does_not_end_its_parents_session() {
    let worker = Worker::start();
    Program::test("fork").run(&worker, &["exit"]).expect_silent_success().expect_line("PASS fork");
}
