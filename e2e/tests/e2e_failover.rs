//! Programs continue, with the same results, after the process of their session or their whole worker was killed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::endures::{KINDS, digest};
use e2e::{Ended, Program, Running, Worker, WorkerOptions, eventually, remora};
use tempfile::TempDir;

const ROUNDS: &str = "160";
/// Longer than a client tries to reach a worker that refuses connections.
const LONG_AWAY: Duration = Duration::from_secs(4);

/// Options of a worker that takes checkpoints of its sessions, in a folder or at a peer.
fn checkpointing(place: &str, listen: &str) -> WorkerOptions {
    let arguments = ["--checkpoint", place, "--checkpoint-interval", "0.2", "--no-saved-sessions"];
    WorkerOptions { listen: listen.to_owned(), ..WorkerOptions::with(&arguments) }
}

/// Options of a worker that takes checkpoints and whose sessions outlive its supervisor.
fn supervised(saved: &TempDir, folder: &TempDir, listen: &str) -> WorkerOptions {
    let paths = [saved, folder].map(|it| it.path().to_str().unwrap().to_owned());
    let [saved, folder] = &paths;
    let arguments = ["--saved-sessions", saved, "--checkpoint", folder, "--checkpoint-interval", "0.2"];
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
fn undisturbed(kind: &str) -> String {
    let worker = Worker::start();
    digest(Program::test("endures").run(&worker, &[kind, ROUNDS]).expect_silent_success())
}

/// Number of sessions with a complete checkpoint in a part of a worker's folder.
fn stored(folder: &Path, part: &str) -> usize {
    let entries = std::fs::read_dir(folder.join(part)).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().join("note.json").exists()).count()
}

/// The highest number of a chain of checkpoints in a part of a worker's folder. Each process of a session starts a new chain.
fn chains(folder: &Path, part: &str) -> u64 {
    let sessions = std::fs::read_dir(folder.join(part)).into_iter().flatten().flatten();
    let files =
        sessions.flat_map(|session| std::fs::read_dir(session.path()).into_iter().flatten().flatten());
    let number = |name: &str| name.strip_suffix(".checkpoint")?.split('-').next()?.parse().ok();
    files.filter_map(|file| number(file.file_name().to_str()?)).max().unwrap_or(0)
}

/// Kills a process of a worker of this test.
fn kill_process(pid: u32) {
    // SAFETY: takes no pointers; the worker reported the process, or it has the marker of this test.
    unsafe { libc::kill(libc::pid_t::try_from(pid).unwrap(), libc::SIGKILL) };
}

/// Kills all processes that a worker has started.
fn kill_executors(worker: &Worker) {
    worker.processes().iter().filter(|(pid, _)| *pid != worker.pid()).for_each(|(pid, _)| kill_process(*pid));
}

/// Kills a worker with all its processes.
fn kill(worker: &Worker) {
    kill_process(worker.pid());
    kill_executors(worker);
}

fn expect(ended: &Ended, kind: &str, times: usize) {
    ended.expect_success().expect_line("PASS endures");
    assert_eq!(digest(ended), undisturbed(kind), "{kind}\n{}", ended.stderr);
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
    let worker = Worker::start_with(&checkpointing(folder.path().to_str().unwrap(), "127.0.0.1:0"));
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
    eventually("the checkpoints of ended sessions are removed", || stored(folder.path(), "sessions") == 0);
}

#[test]
fn a_program_continues_at_the_peer_of_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Worker::start_with(&checkpointing(folder.path().to_str().unwrap(), "127.0.0.1:0"));
    let worker = Worker::start_with(&checkpointing(&format!("remora://{}", peer.endpoint()), "127.0.0.1:0"));
    // A session that ends without a loss leaves nothing at the peer.
    let program = start("solver", &[&worker]);
    eventually("the peer has a checkpoint", || stored(folder.path(), "elsewhere") == 1);
    expect(&program.finish(), "solver", 0);
    eventually("nothing is left", || stored(folder.path(), "elsewhere") == 0);
    // The program does not know the peer: its worker names it. First its process dies, then the whole worker.
    for (kind, whole) in [("managed", false), ("streams", true)] {
        let program = start(kind, &[&worker]);
        eventually("the peer has a checkpoint", || stored(folder.path(), "elsewhere") == 1);
        program.wait_for_line("round 60");
        match whole {
            true => kill(&worker),
            false => kill_executors(&worker),
        }
        program.wait_for_line("round 100");
        assert_eq!(peer.status().sessions().len(), 1);
        // There the session has checkpoints again: a second chain.
        eventually("the session has another checkpoint", || chains(folder.path(), "sessions") >= 2);
        kill_executors(&peer);
        let ended = program.finish();
        expect(&ended, kind, 2);
        let place = format!("continuing from the checkpoint on {}", peer.endpoint());
        assert!(ended.stderr.contains(&place), "{}\n{}", ended.stderr, peer.log());
        eventually("nothing is left", || {
            ["sessions", "elsewhere"].map(|part| stored(folder.path(), part)) == [0, 0]
        });
    }
}

#[test]
fn a_session_that_has_moved_continues_from_the_checkpoint_of_its_former_worker() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = Worker::start_with(&checkpointing(folders[0].path().to_str().unwrap(), "127.0.0.1:0"));
    let late = ["--checkpoint", folders[1].path().to_str().unwrap(), "--checkpoint-interval", "3600"];
    let second = Worker::start_with(&WorkerOptions::with(&late));
    let program = start("training", &[&first]);
    eventually("there is a checkpoint", || stored(folders[0].path(), "sessions") == 1);
    program.wait_for_line("round 60");
    let session = format!("pid:{}", program.pid());
    let mut command = Command::new(remora());
    command.args(["migrate", &session, "--from", &first.endpoint().to_string()]);
    Running::start(command.args(["--to", &second.endpoint().to_string()])).finish().expect_success();
    program.wait_for_line("round 80");
    kill_executors(&second);
    let ended = program.finish();
    expect(&ended, "training", 1);
    let place = format!("continuing from the checkpoint on {}", first.endpoint());
    assert!(ended.stderr.contains(&place), "{}", ended.stderr);
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
    let worker = Worker::start_with(&checkpointing(folder.path().to_str().unwrap(), "127.0.0.1:0"));
    let listen = worker.endpoint().to_string();
    let program = start("managed", &[&worker]);
    program.wait_for_line("round 40");
    // From its first restore on the session can continue only from a checkpoint.
    kill_executors(&worker);
    program.wait_for_line("round 60");
    kill(&worker);
    std::thread::sleep(LONG_AWAY);
    let worker = Worker::start_with(&checkpointing(folder.path().to_str().unwrap(), &listen));
    let ended = program.finish();
    expect(&ended, "managed", 2);
    let restored = ended.stderr.matches("restored from a checkpoint").count();
    assert_eq!(restored, 2, "{}\n{}", ended.stderr, worker.log());
}

#[test]
fn a_session_whose_worker_cannot_be_reached_for_seconds_continues_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&checkpointing(folder.path().to_str().unwrap(), "127.0.0.1:0"));
    let proxy = |listen: &str| {
        let mut command = Command::new(remora());
        command.args(["impair", "--to", &worker.endpoint().to_string(), "--listen", listen]);
        let proxy = Running::start(&mut command);
        let address = proxy.wait_for_line("listening on ").split_whitespace().nth(2).unwrap().to_owned();
        (proxy, address)
    };
    let (first, address) = proxy("127.0.0.1:0");
    let mut command = Program::test("endures").on(&worker);
    command.args(["training", ROUNDS]).env("REMORA_WORKER", &address).env("REMORA_FAILOVER", "1");
    let program = Running::start(&mut command);
    eventually("there is a checkpoint", || stored(folder.path(), "sessions") == 1);
    // From its first restore on the session can continue only from a checkpoint, or where it runs.
    kill_executors(&worker);
    program.wait_for_line("round 60");
    drop(first);
    std::thread::sleep(LONG_AWAY);
    let _second = proxy(&address);
    let ended = program.finish();
    expect(&ended, "training", 2);
    assert!(ended.stderr.contains("the session is still running"), "{}\n{}", ended.stderr, worker.log());
}

#[test]
fn a_session_that_ends_under_another_supervisor_is_not_continued() {
    let (saved, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let worker = Worker::start_with(&supervised(&saved, &folder, "127.0.0.1:0"));
    let listen = worker.endpoint().to_string();
    let program = start("solver", &[&worker]);
    eventually("there is a checkpoint", || stored(folder.path(), "sessions") == 1);
    let _marker = worker.kill_supervisor();
    let worker = Worker::start_with(&supervised(&saved, &folder, &listen));
    expect(&program.finish(), "solver", 0);
    eventually("the checkpoints are removed", || stored(folder.path(), "sessions") == 0);
    assert!(worker.status().sessions().is_empty(), "{}", worker.log());
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
