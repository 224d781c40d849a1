//! Programs continue, with the same results, after the process of their session or their whole worker was killed.

use std::path::Path;

use e2e::{Ended, Program, Running, Worker, WorkerOptions, eventually};

const KINDS: [&str; 5] = ["solver", "training", "graphs", "managed", "streams"];
const ROUNDS: &str = "160";

/// Options of a worker that takes checkpoints of its sessions.
fn checkpointing(folder: &Path, listen: &str) -> WorkerOptions {
    let folder = folder.to_str().unwrap();
    let arguments = ["--checkpoint", folder, "--checkpoint-interval", "0.2", "--no-saved-sessions"];
    WorkerOptions { listen: listen.to_owned(), ..WorkerOptions::with(&arguments) }
}

/// Starts a program of this kind that can fail over along a list of workers.
fn start(kind: &str, workers: &[&Worker]) -> Running {
    let list: Vec<String> = workers.iter().map(|worker| worker.endpoint().to_string()).collect();
    let mut command = Program::test("endures").on(workers[0]);
    command.args([kind, ROUNDS]).env("REMORA_WORKER", list.join(",")).env("REMORA_FAILOVER", "1");
    Running::start(&mut command)
}

/// The digest of an undisturbed run.
fn digest(kind: &str) -> String {
    let worker = Worker::start();
    let ended = Program::test("endures").run(&worker, &[kind, ROUNDS]);
    ended.expect_silent_success();
    digest_of(&ended)
}

fn digest_of(ended: &Ended) -> String {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix("digest "));
    line.unwrap_or_else(|| panic!("no digest: {ended:?}")).to_owned()
}

/// Kills all processes of sessions of a worker.
fn kill_executors(worker: &Worker) {
    for (pid, _) in worker.processes().iter().filter(|(pid, _)| *pid != worker.pid()) {
        // SAFETY: takes no pointers; the process has the marker of this test's worker.
        unsafe { libc::kill(libc::pid_t::try_from(*pid).unwrap(), libc::SIGKILL) };
    }
}

/// Kills a worker with all its processes.
fn kill(worker: &Worker) {
    // SAFETY: takes no pointers; the worker was started by this test.
    unsafe { libc::kill(libc::pid_t::try_from(worker.pid()).unwrap(), libc::SIGKILL) };
    kill_executors(worker);
}

fn expect(ended: &Ended, kind: &str, times: usize) {
    ended.expect_success().expect_line("PASS endures");
    assert_eq!(digest_of(ended), digest(kind), "{kind}\n{}", ended.stderr);
    let continued = ended.stderr.matches("failover: the session continues on").count();
    assert_eq!(continued, times, "{kind}: {}", ended.stderr);
}

#[test]
fn programs_of_every_kind_survive_the_death_of_their_process() {
    let worker = Worker::start();
    for kind in KINDS {
        let program = start(kind, &[&worker]);
        for round in ["round 40", "round 100"] {
            program.wait_for_line(round);
            kill_executors(&worker);
        }
        expect(&program.finish(), kind, 2);
    }
}

#[test]
fn a_program_continues_from_a_checkpoint_and_not_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&checkpointing(folder.path(), "127.0.0.1:0"));
    for kind in KINDS {
        let program = start(kind, &[&worker]);
        for round in ["round 60", "round 120"] {
            program.wait_for_line(round);
            kill_executors(&worker);
        }
        let ended = program.finish();
        expect(&ended, kind, 2);
        let from_checkpoint = ended.stderr.matches("the session was restored from a checkpoint").count();
        assert_eq!(from_checkpoint, 2, "{kind}: {}", ended.stderr);
    }
    eventually("the checkpoints of ended sessions are removed", || {
        std::fs::read_dir(folder.path()).unwrap().next().is_none()
    });
}

#[test]
fn a_program_continues_on_another_worker_if_its_own_is_killed() {
    let (first, second) = (Worker::start(), Worker::start());
    let program = start("streams", &[&first, &second]);
    program.wait_for_line("round 40");
    kill(&first);
    expect(&program.finish(), "streams", 1);
}

#[test]
fn a_program_continues_when_its_killed_worker_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&checkpointing(folder.path(), "127.0.0.1:0"));
    let listen = worker.endpoint().to_string();
    let program = start("managed", &[&worker]);
    program.wait_for_line("round 60");
    kill(&worker);
    let worker = Worker::start_with(&checkpointing(folder.path(), &listen));
    let ended = program.finish();
    expect(&ended, "managed", 1);
    assert!(ended.stderr.contains("restored from a checkpoint"), "{}\n{}", ended.stderr, worker.log());
}

#[test]
fn a_kernel_that_is_not_deterministic_ends_the_session_with_a_reason() {
    let worker = Worker::start();
    let mut command = Program::test("undetermined").on(&worker);
    let mut program = Running::start(command.env("REMORA_FAILOVER", "1"));
    program.wait_for_line("read a clock");
    kill_executors(&worker);
    program.send_line("go on");
    let ended = program.finish();
    ended.expect_line("lost as expected");
    assert!(ended.stderr.contains("replay diverged at request"), "{}", ended.stderr);
}
