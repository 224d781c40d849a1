//! Programs survive the end of their worker: it is restarted, it hands over to another one, or it is one of several.

use std::process::Command;

use e2e::{Program, Running, Worker, WorkerOptions, eventually};

/// Options of a worker that saves its sessions in a folder.
fn saving(folder: &std::path::Path, listen: &str) -> WorkerOptions {
    let arguments = ["--saved-sessions", folder.to_str().unwrap()].map(str::to_owned).to_vec();
    WorkerOptions { listen: listen.to_owned(), arguments, ..WorkerOptions::default() }
}

/// Number of rounds that a running `steady` has completed.
fn rounds(steady: &Running) -> usize {
    steady.stdout_so_far().lines().count()
}

fn goes_on(steady: &Running) {
    let before = rounds(steady);
    eventually("the program goes on", || rounds(steady) > before + 2);
}

#[test]
fn sessions_survive_the_restart_of_their_worker() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&saving(folder.path(), "127.0.0.1:0"));
    let listen = worker.endpoint().to_string();
    let programs: Vec<Running> =
        (0..2).map(|_| Running::start(&mut Program::test("steady").on(&worker))).collect();
    programs.iter().for_each(goes_on);
    worker.stop().expect_success();
    let saved = std::fs::read_dir(folder.path()).unwrap().flatten();
    assert_eq!(saved.filter(|entry| entry.path().extension().is_some_and(|it| it == "session")).count(), 2);
    // Longer than a client tolerates from a worker that did not say that it comes back.
    std::thread::sleep(std::time::Duration::from_secs(6));
    let worker = Worker::start_with(&saving(folder.path(), &listen));
    for program in programs {
        goes_on(&program);
        program.finish().expect_success().expect_line("PASS steady");
    }
    eventually("nothing is left in the folder", || {
        std::fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .all(|entry| ["lock", "keeper"].iter().any(|name| entry.file_name() == *name))
    });
    assert!(worker.log().contains("resumed"), "{}", worker.log());
}

#[test]
fn sessions_move_to_the_successor_of_a_terminated_worker() {
    let successor = Worker::start();
    let to = successor.endpoint().to_string();
    let worker = Worker::start_with(&WorkerOptions::with(&["--successor", &to]));
    let program = Running::start(&mut Program::test("steady").on(&worker));
    goes_on(&program);
    worker.stop().expect_success();
    goes_on(&program);
    assert_eq!(successor.status().sessions().len(), 1);
    program.finish().expect_silent_success().expect_line("PASS steady");
}

#[test]
fn a_session_that_cannot_be_saved_ends_with_its_worker_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start_with(&saving(folder.path(), "127.0.0.1:0"));
    let program = Running::start(&mut Program::test("steady").on(&worker));
    goes_on(&program);
    // Nothing can be created in the folder any more: it is a file now.
    std::fs::remove_dir_all(folder.path()).unwrap();
    std::fs::write(folder.path(), "").unwrap();
    let log = {
        let ended = worker.stop();
        ended.expect_success();
        ended.stderr
    };
    assert!(log.contains("ends with this worker: cannot read or write the session's snapshot"), "{log}");
    // Before its input is closed: between two calls it would end well.
    eventually("the program ends", || program.has_ended());
    let ended = program.finish();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    std::fs::remove_file(folder.path()).unwrap();
}

#[test]
fn a_program_uses_the_first_worker_of_its_list_that_is_up() {
    let (down, up) = (Worker::start(), Worker::start());
    let list = format!("{},{}", down.endpoint(), up.endpoint());
    down.stop().expect_success();
    let mut command: Command = Program::example("vector_add").on(&up);
    let running = Running::start(command.env("REMORA_WORKER", &list));
    running.finish().expect_silent_success().expect_line("PASS vector_add");
    let mut run = Command::new(e2e::remora());
    run.args(["run", "--least-loaded", "--worker", &list, "--"]).arg(Program::example("vector_add").path());
    let running = Running::start(&mut run);
    running.finish().expect_silent_success().expect_line("PASS vector_add");
}
