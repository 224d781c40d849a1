//! Sessions outlive their supervisor: one that is killed, and one that is replaced by another program in place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use e2e::endures::{KINDS, digest};
use e2e::{Program, Running, Status, Worker, WorkerOptions, eventually, remora};

const ROUNDS: &str = "300";

/// Options of a worker whose sessions outlive its supervisor.
fn surviving(folder: &Path, listen: &str, more: &[&str]) -> WorkerOptions {
    let mut arguments = vec!["--saved-sessions".to_owned(), folder.to_str().unwrap().to_owned()];
    arguments.extend(more.iter().map(|&argument| argument.to_owned()));
    WorkerOptions { listen: listen.to_owned(), arguments, ..WorkerOptions::default() }
}

fn start_all(worker: &Worker) -> Vec<Running> {
    let program = Program::test("endures");
    KINDS.iter().map(|&kind| Running::start(program.on(worker).args([kind, ROUNDS]))).collect()
}

fn digests(programs: Vec<Running>) -> Vec<String> {
    let ended = programs.into_iter().map(Running::finish);
    ended.map(|ended| digest(ended.expect_silent_success())).collect()
}

/// Process ids of a worker's executors.
fn executors(status: &Status) -> Vec<u64> {
    let sessions = status.json["sessions"].as_array().expect("a list of sessions");
    let mut processes: Vec<u64> = sessions.iter().filter_map(|it| it["process"].as_u64()).collect();
    processes.sort_unstable();
    processes
}

fn rounds(program: &Running) -> usize {
    program.stdout_so_far().lines().count()
}

fn goes_on(program: &Running) {
    let before = rounds(program);
    eventually("the program goes on", || rounds(program) > before + 1);
}

#[test]
fn a_killed_supervisor_is_replaced_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&surviving(folder.path(), "127.0.0.1:0", &[]));
    let wanted = digests(start_all(&worker));

    let programs = start_all(&worker);
    let steady = Running::start(&mut Program::test("steady").on(&worker));
    programs.iter().for_each(|program| drop(program.wait_for_line("round 20")));
    goes_on(&steady);
    let (listen, before) = (worker.endpoint().to_string(), executors(&worker.status()));
    assert_eq!(before.len(), KINDS.len() + 1);
    let orphans = worker.kill_supervisor();
    // The supervisor is not on the data path: programs do not even pause.
    goes_on(&steady);
    let worker = Worker::start_with(&surviving(folder.path(), &listen, &[]));
    let after = executors(&worker.status());
    assert!(after.iter().all(|process| before.contains(process)) && after.len() > 1, "{before:?} {after:?}");
    assert_eq!(digests(programs), wanted);

    // The adopted session can be reattached to, ends with its program, and its end is noticed.
    goes_on(&steady);
    steady.finish().expect_silent_success().expect_line("PASS steady");
    eventually("no session is left", || worker.status().sessions().is_empty());
    Program::example("vector_add").run(&worker, &[]).expect_silent_success();
    worker.stop().expect_success();
    eventually("no process is left", || orphans.processes().is_empty());
}

/// The kernel sends SIGHUP to a process group with stopped processes when it becomes orphaned.
#[test]
fn processes_that_are_stopped_outlive_a_killed_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&surviving(folder.path(), "127.0.0.1:0", &[]));
    let steady = Running::start(&mut Program::test("steady").on(&worker));
    goes_on(&steady);
    let (listen, before) = (worker.endpoint().to_string(), executors(&worker.status()));
    let signal = |processes: &[(u32, String)], signal| {
        for (pid, _) in processes {
            // SAFETY: takes no pointers; the processes belong to the worker of this test.
            unsafe { libc::kill(*pid as libc::pid_t, signal) };
        }
    };
    signal(&worker.processes(), libc::SIGSTOP);
    let orphans = worker.kill_supervisor();
    signal(&orphans.processes(), libc::SIGCONT);
    let worker = Worker::start_with(&surviving(folder.path(), &listen, &[]));
    assert_eq!(executors(&worker.status()), before);
    goes_on(&steady);
    steady.finish().expect_silent_success().expect_line("PASS steady");
}

#[test]
fn an_upgrade_in_place_loses_no_session_and_refuses_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&surviving(folder.path(), "127.0.0.1:0", &[]));
    let wanted = digests(start_all(&worker));

    let programs = start_all(&worker);
    programs.iter().for_each(|program| drop(program.wait_for_line("round 20")));
    let before = executors(&worker.status());
    let upgrades = |count| worker.log().matches("sessions of an earlier supervisor adopted").count() == count;
    for count in 1..=3 {
        worker.signal(libc::SIGUSR2);
        // Every connection is answered, by one program or by the other.
        eventually("the program is replaced", || {
            let after = executors(&worker.status());
            assert!(after.iter().all(|process| before.contains(process)), "{before:?} {after:?}");
            upgrades(count)
        });
    }
    assert_eq!(digests(programs), wanted);
    eventually("no session is left", || worker.status().sessions().is_empty());
    assert!(!worker.log().contains("refused"), "{}", worker.log());
    worker.stop().expect_success();
}

#[test]
fn a_program_that_cannot_continue_the_worker_does_not_replace_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("remora");
    fs::copy(remora(), &program).unwrap();
    let options = surviving(&folder.path().join("sessions"), "127.0.0.1:0", &[]);
    let worker = Worker::start_with(&WorkerOptions { program: Some(program.clone()), ..options });
    let steady = Running::start(&mut Program::test("steady").on(&worker));
    goes_on(&steady);
    let replace = |text: &str| {
        fs::remove_file(&program).unwrap();
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    for (text, why) in [
        ("#!/bin/sh\necho 4711\n", "has handover version 4711"),
        ("#!/bin/sh\nexit 1\n", "does not report a handover version"),
        ("garbage", "cannot be started"),
    ] {
        replace(text);
        worker.signal(libc::SIGUSR2);
        worker.expect_log(why);
        goes_on(&steady);
    }
    fs::remove_file(&program).unwrap();
    fs::copy(remora(), &program).unwrap();
    worker.signal(libc::SIGUSR2);
    worker.expect_log("1 sessions of an earlier supervisor adopted");
    goes_on(&steady);
    steady.finish().expect_silent_success().expect_line("PASS steady");
}

#[test]
fn a_worker_that_keeps_no_sessions_is_not_replaced_in_place() {
    let worker = Worker::start();
    worker.signal(libc::SIGUSR2);
    worker.expect_log("it needs a folder of saved sessions");
    Program::example("vector_add").run(&worker, &[]).expect_silent_success();
}

#[test]
fn orphans_end_after_their_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&surviving(folder.path(), "127.0.0.1:0", &["--orphan-timeout", "0.5"]));
    let steady = Running::start(&mut Program::test("steady").on(&worker));
    goes_on(&steady);
    assert!(worker.processes().iter().any(|(_, command)| command.ends_with("keeper")));
    let orphans = worker.kill_supervisor();
    eventually("no process is left", || orphans.processes().is_empty());
    // Before its input is closed: between two calls it would end well.
    eventually("the program ends", || steady.has_ended());
    assert_eq!(steady.finish().status.code(), Some(1));
}

#[test]
fn sessions_end_with_a_killed_supervisor_if_they_are_not_to_outlive_it() {
    let folder = tempfile::tempdir().unwrap();
    for worker in [
        Worker::start_with(&surviving(folder.path(), "127.0.0.1:0", &["--orphan-timeout", "0"])),
        Worker::start(),
    ] {
        let steady = Running::start(&mut Program::test("steady").on(&worker));
        goes_on(&steady);
        assert!(!worker.processes().iter().any(|(_, command)| command.ends_with("keeper")));
        let orphans = worker.kill_supervisor();
        eventually("no process is left", || orphans.processes().is_empty());
        eventually("the program ends", || steady.has_ended());
        assert_eq!(steady.finish().status.code(), Some(1));
    }
}

#[test]
fn an_interrupted_worker_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&surviving(folder.path(), "127.0.0.1:0", &[]));
    let listen = worker.endpoint().to_string();
    let steady = Running::start(&mut Program::test("steady").on(&worker));
    goes_on(&steady);
    let orphans = worker.kill_supervisor();
    let worker = Worker::start_with(&surviving(folder.path(), &listen, &[]));
    worker.expect_log("1 sessions of an earlier supervisor adopted");
    worker.signal(libc::SIGINT);
    eventually("no process is left", || orphans.processes().is_empty() && worker.processes().is_empty());
    assert_eq!(steady.finish().status.code(), Some(1));
}

#[test]
fn limits_and_tokens_hold_for_adopted_sessions() {
    const ALICE: &str = "alice-0123456789-abcdef";
    const BOB: &str = "bob-0123456789-abcdef";
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.toml");
    let tenant = |name: &str, token: &str, limit: &str| {
        format!("[[token]]\nname = \"{name}\"\ntoken = \"{token}\"\nmemory-limit = \"{limit}\"\n")
    };
    let text = tenant("alice", ALICE, "64M") + &tenant("bob", BOB, "128M");
    transport::token::write_new(&tokens, &text).unwrap();
    let saved = folder.path().join("sessions");
    let more = ["--tokens", tokens.to_str().unwrap()];
    let mut worker = Worker::start_with(&surviving(&saved, "127.0.0.1:0", &more));
    let listen = worker.endpoint().to_string();
    let hold = |worker: &Worker, token: &str, mebibytes: &str| {
        let mut command = Program::test("hold_memory").on(worker);
        Running::start(command.env("REMORA_TOKEN", token).arg(mebibytes))
    };
    let held: Vec<Running> =
        [(ALICE, "40"), (BOB, "100")].map(|(token, size)| hold(&worker, token, size)).into();
    held.iter().for_each(|program| drop(program.wait_for_line("holding")));
    let mut orphans = Vec::new();
    for _ in 0..2 {
        orphans.push(worker.kill_supervisor());
        worker = Worker::start_with(&surviving(&saved, &listen, &more));
        worker.expect_log("sessions of an earlier supervisor adopted");
        for (token, fits, too_much) in [(ALICE, "20", "30"), (BOB, "20", "30")] {
            let refused = hold(&worker, token, too_much).finish();
            assert!(!refused.status.success() && refused.stdout.contains("out of memory"), "{refused:?}");
            hold(&worker, token, fits).finish().expect_success();
        }
        let other = hold(&worker, "carol-0123456789-abcdef", "1").finish();
        assert!(!other.status.success(), "{other:?}");
    }
    for program in held {
        program.finish().expect_silent_success();
    }
    // What the adopted sessions held is free again.
    eventually("their memory is free", || hold(&worker, ALICE, "60").finish().status.success());
}

#[test]
fn an_encrypted_client_reconnects_to_the_next_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    // The grace period of a closed connection is shorter than the time without a supervisor.
    let more = ["--tls-self-signed", "--grace-closed", "0.2"];
    let worker = Worker::start_with(&surviving(folder.path(), "tls://127.0.0.1:0", &more));
    let listen = worker.endpoint().to_string();
    let log = worker.expect_log("REMORA_TLS_CA=sha256:");
    let pin = log.split("REMORA_TLS_CA=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let mut command = Program::test("steady").command();
    let steady = Running::start(command.env("REMORA_WORKER", &listen).env("REMORA_TLS_CA", pin));
    goes_on(&steady);
    let orphans = worker.kill_supervisor();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let worker = Worker::start_with(&surviving(folder.path(), &listen, &more));
    goes_on(&steady);
    worker.signal(libc::SIGUSR2);
    worker.expect_log("upgrade in place");
    goes_on(&steady);
    steady.finish().expect_success().expect_line("PASS steady");
    drop(orphans);
}

#[test]
fn a_run_time_compilation_is_not_disturbed_by_the_death_of_the_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&surviving(folder.path(), "127.0.0.1:0", &[]));
    let listen = worker.endpoint().to_string();
    let program = Running::start(&mut Program::example("hiprtc_saxpy").on(&worker));
    eventually("its compiler service runs", || {
        worker.processes().iter().any(|(_, command)| command.ends_with("compiler"))
    });
    let orphans = worker.kill_supervisor();
    let _worker = Worker::start_with(&surviving(folder.path(), &listen, &[]));
    program.finish().expect_silent_success();
    drop(orphans);
}

#[test]
fn other_users_reach_neither_the_keeper_nor_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("sessions");
    let _worker = Worker::start_with(&surviving(&saved, "127.0.0.1:0", &[]));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&saved), mode(&saved.join("keeper"))), (0o700, 0o600));
    // A stream socket cannot connect to it at all; an attempt does not disturb the keeper.
    assert!(UnixStream::connect(saved.join("keeper")).is_err());

    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let worker = Worker::start_with(&surviving(&open, "127.0.0.1:0", &[]));
    worker.expect_log("sessions end if this process is killed");
    assert!(!open.join("keeper").exists());
}
