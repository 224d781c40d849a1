//! Migration: a session moves between workers without its program noticing; one that cannot move reports why and continues.

use std::path::Path;
use std::process::Command;

use e2e::{Ended, Program, Running, Worker, WorkerOptions, eventually};

fn remora(arguments: &[&str]) -> Ended {
    Running::start(
        Command::new(e2e::remora())
            .args(arguments)
            .env_remove("REMORA_WORKER")
            .env_remove("REMORA_TOKEN")
            .env_remove("REMORA_TOKEN_FILE"),
    )
    .finish()
}

fn at(worker: &Worker) -> String {
    worker.endpoint().to_string()
}

fn migrate(program: &Running, from: &Worker, to: &Worker) -> Ended {
    let session = format!("pid:{}", program.pid());
    remora(&["migrate", &session, "--from", &at(from), "--to", &at(to)])
}

/// Tries to move the session, with a short timeout; returns the error message.
fn refused(program: &Running, from: &Worker, to: &Worker) -> String {
    let session = format!("pid:{}", program.pid());
    let ended = remora(&["migrate", &session, "--from", &at(from), "--to", &at(to), "--patience", "1"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    ended.stderr
}

fn lines(program: &Running) -> usize {
    program.stdout_so_far().lines().count()
}

#[test]
fn a_matmul_loop_moved_twice_computes_the_same_bits_and_only_it_moves() {
    let (first, second) = (Worker::start(), Worker::start());
    let steady = Running::start(&mut Program::test("steady").on(&first));
    steady.wait_for_line("round 0");
    let program = Program::test("matmul_loop");
    let running = Running::start(&mut program.on(&first));
    running.wait_for_line("round 0");
    for (from, to) in [(&first, &second), (&second, &first)] {
        migrate(&running, from, to).expect_success();
        eventually("it has left", || from.status().session_of(running.pid()).is_none());
        assert!(to.status().session_of(running.pid()).is_some(), "it has arrived");
        let before = lines(&running);
        eventually("the program continues", || lines(&running) > before + 3);
    }
    assert!(first.status().session_of(steady.pid()).is_some());
    steady.finish().expect_silent_success().expect_line("PASS steady");
    let moved = running.finish();
    moved.expect_silent_success();
    eventually("nothing is left of it", || first.status().sessions().is_empty());
    eventually("nothing is left there either", || second.status().sessions().is_empty());
    let undisturbed = program.run(&second, &[moved.value("rounds")]);
    undisturbed.expect_silent_success();
    assert_eq!(moved.stdout, undisturbed.stdout);
}

#[test]
fn everything_a_session_has_moves_with_it_and_what_runs_for_ever_stays() {
    let (first, second) = (Worker::start(), Worker::start());
    let mut running = Running::start(&mut Program::test("moved").on(&first));
    running.wait_for_line("ready");
    migrate(&running, &first, &second).expect_success();
    running.send_line("look");
    running.wait_for_line("turn 1");

    running.send_line("hold");
    running.wait_for_line("held");
    let text = refused(&running, &second, &first);
    assert!(text.contains("waits for the program"), "{text}");
    running.send_line("go");
    running.wait_for_line("let go");

    running.send_line("spin");
    running.wait_for_line("spinning");
    let text = refused(&running, &second, &first);
    assert!(text.contains("a kernel is still running"), "{text}");
    running.send_line("go");
    running.wait_for_line("ended=1");

    migrate(&running, &second, &first).expect_success();
    running.send_line("look");
    running.wait_for_line("turn 2");
    running.finish().expect_silent_success().expect_line("PASS moved");
}

#[test]
fn a_suspended_session_waits_in_its_file_for_a_worker_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session");
    let name = file.to_str().unwrap();
    let first = Worker::start();
    let running = Running::start(&mut Program::test("matmul_loop").on(&first));
    running.wait_for_line("round 0");
    let session = format!("pid:{}", running.pid());
    remora(&["snapshot", &session, "--worker", &at(&first), "--out", name]).expect_success();
    eventually("the session has left", || first.status().sessions().is_empty());
    assert_eq!(mode(&file) & 0o777, 0o600, "the file has the session's secret");

    let other = Worker::start_with(&WorkerOptions { device: "mi210".into(), ..WorkerOptions::default() });
    let refused = |ended: Ended, why: &str| {
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.contains(why), "{why}: {}", ended.stderr);
    };
    refused(remora(&["resume", name, "--worker", &at(&other)]), "gfx90a");
    let bytes = std::fs::read(&file).unwrap();
    let damaged = folder.path().join("damaged");
    let resume = |bytes: &[u8]| {
        std::fs::write(&damaged, bytes).unwrap();
        remora(&["resume", damaged.to_str().unwrap(), "--worker", &at(&first)])
    };
    refused(resume(&bytes[..bytes.len() - 40]), "cut off");
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    refused(resume(&changed), "damaged");
    refused(resume(b"#!/bin/sh\necho not a session at all\n"), "not a session");

    let second = Worker::start();
    let before = lines(&running);
    let resume = ["resume", name, "--worker", &at(&second), "--from", &at(&first)];
    remora(&resume).expect_success();
    eventually("the program continues", || lines(&running) > before + 3);
    // The session ID is in use, and the program has continued since the snapshot.
    refused(remora(&["resume", name, "--worker", &at(&second)]), "is already running here");
    let moved = running.finish();
    moved.expect_success();
    // On a slow machine the suspension lasts longer than the 5 s after which a waiting call is reported.
    let is_wait =
        |line: &str| line.contains(": the session is suspended)") || line.contains(" restored after ");
    assert!(moved.stderr.lines().all(is_wait), "{}", moved.stderr);
    let undisturbed = Program::test("matmul_loop").run(&second, &[moved.value("rounds")]);
    assert_eq!(moved.stdout, undisturbed.stdout);
}

#[test]
fn a_session_over_a_unix_socket_moves_to_tcp_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}", folder.path().join("worker").display());
    let near = Worker::start_with(&WorkerOptions { listen, ..WorkerOptions::default() });
    let far = Worker::start();
    let mut command = Program::test("large_copies").command();
    let running = Running::start(command.env("REMORA_WORKER", at(&near)));
    running.wait_for_line("round 4");
    for (from, to) in [(&near, &far), (&far, &near), (&near, &far)] {
        migrate(&running, from, to).expect_success();
        assert!(to.status().session_of(running.pid()).is_some(), "it has arrived");
        let before = lines(&running);
        eventually("the program continues", || lines(&running) > before + 2);
    }
    // A move that is refused leaves the session where it is, and its copies go on.
    let other = Worker::start_with(&WorkerOptions { device: "mi210".into(), ..WorkerOptions::default() });
    migrate(&running, &far, &near).expect_success();
    let text = refused(&running, &near, &other);
    assert!(text.contains("gfx90a"), "{text}");
    let before = lines(&running);
    eventually("the program continues", || lines(&running) > before + 2);
    running.finish().expect_success().expect_line("PASS large_copies");
}

/// A worker with TLS, a token for programs and one for administration.
fn guarded(folder: &Path, admin: &str) -> Worker {
    let file = |name: &str, token: &str| {
        let path = folder.join(name);
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (token, admin) = (file("token", TENANT), file(admin, admin));
    let arguments = ["--tls-self-signed", "--token-file", &token, "--admin-token-file", &admin];
    let options = WorkerOptions::with(&arguments);
    Worker::start_with(&WorkerOptions { listen: "tls://127.0.0.1:0".to_owned(), ..options })
}

const TENANT: &str = "the-token-of-the-programs";

/// The URL of a worker with TLS: with a token, and the pin that the worker logs.
fn url(worker: &Worker, token: &str) -> String {
    let log = worker.expect_log("REMORA_TLS_CA=sha256:");
    let pin = log.split("REMORA_TLS_CA=").nth(1).unwrap().split_whitespace().next().unwrap();
    format!("remora+tls://{token}@{}:{}?pin={pin}", worker.host(), worker.port())
}

#[test]
fn workers_are_named_by_urls_and_the_program_trusts_the_certificate_of_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = ("administrator-token-of-one", "administrator-token-of-two");
    let (first, second) = (guarded(folder.path(), one), guarded(folder.path(), two));
    let mut command = Program::test("matmul_loop").command();
    let running = Running::start(command.env("REMORA_URL", url(&first, TENANT)));
    running.wait_for_line("round 0");
    let session = format!("pid:{}", running.pid());
    let go = |from: &str, to: &str, admin: Option<&str>| {
        let mut command = Command::new(e2e::remora());
        command.args(["migrate", &session, "--from", from, "--to", to]);
        command.env_remove("REMORA_WORKER").env_remove("REMORA_TOKEN").env_remove("REMORA_TOKEN_FILE");
        if let Some(admin) = admin {
            command.env("REMORA_ADMIN_TOKEN", admin);
        }
        Running::start(&mut command).finish()
    };
    // The token of programs cannot move a session.
    let ended = go(&url(&first, TENANT), &url(&second, two), None);
    assert!(!ended.status.success() && ended.stderr.contains("cannot administer the worker"), "{ended:?}");
    go(&url(&first, one), &url(&second, two), None).expect_success();
    let before = lines(&running);
    eventually("the program continues", || lines(&running) > before + 3);
    // The token of the environment is used where it is accepted, that of the URL elsewhere.
    go(&url(&second, TENANT), &url(&first, one), Some(two)).expect_success();
    let before = lines(&running);
    eventually("the program continues", || lines(&running) > before + 3);
    running.finish().expect_silent_success().expect_line("PASS matmul_loop");
}

fn mode(file: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).unwrap().permissions().mode()
}
