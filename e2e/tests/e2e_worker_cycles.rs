//! Leak tests of the worker: clients that end in any way leave no resources behind, and many clients are served at once.

use std::io::Write;
use std::net::TcpStream;

use e2e::{Program, Running, Usage, Worker, WorkerOptions, eventually};

const MOST_GROWTH: u64 = 4 << 20;

/// Number of client behaviours in [`run_client`].
const BEHAVIOURS: usize = 5;

#[test]
fn clients_that_come_and_go_leave_nothing_in_the_worker() {
    let worker =
        Worker::start_with(&WorkerOptions::with(&["--grace-closed", "0.1", "--handshake-timeout", "1"]));
    let programs = [Program::test("hold_memory"), Program::test("steady")];
    for behaviour in 0..2 * BEHAVIOURS {
        run_client(&worker, &programs, behaviour);
    }
    wait_until_no_session(&worker);
    let before = Usage::of(worker.pid());
    for cycle in 0..e2e::cycles() {
        run_client(&worker, &programs, cycle);
    }
    wait_until_no_session(&worker);
    eventually(&format!("descriptors and threads are as before: {before:?}"), || {
        let now = Usage::of(worker.pid());
        now.descriptors <= before.descriptors && now.threads <= before.threads
    });
    let after = Usage::of(worker.pid());
    println!("{} cycles: {before:?}, then {after:?}", e2e::cycles());
    let grown = after.resident_bytes.saturating_sub(before.resident_bytes);
    assert!(grown <= MOST_GROWTH, "{grown} bytes more");
}

/// Runs one client with one of several behaviours.
fn run_client(worker: &Worker, programs: &[Program; 2], cycle: usize) {
    let [hold_memory, steady] = programs;
    match cycle % BEHAVIOURS {
        // Exits normally.
        0 => {
            hold_memory.run(worker, &["16"]).expect_silent_success();
        }
        // Is killed while it holds memory.
        1 => {
            let held = Running::start(hold_memory.on(worker).arg("16"));
            held.wait_for_line("holding");
            held.signal(libc::SIGKILL);
        }
        // Is killed in the middle of its work.
        2 => {
            let busy = Running::start(&mut steady.on(worker));
            busy.wait_for_line("round 0");
            busy.signal(libc::SIGKILL);
        }
        // Connects, sends nothing and disconnects.
        3 => drop(TcpStream::connect((worker.host(), worker.port())).unwrap()),
        // Sends garbage.
        _ => {
            let mut stream = TcpStream::connect((worker.host(), worker.port())).unwrap();
            // Fails if the worker has already closed the connection, which is fine too.
            let _ = stream.write_all(&[0xa5; 300]);
        }
    }
}

fn wait_until_no_session(worker: &Worker) {
    eventually("no session is left", || worker.status().sessions().is_empty());
    eventually("no process of a session is left", || worker.processes().len() == 1);
    assert_eq!(worker.status().memory_used(), 0);
}

#[test]
fn connections_that_say_nothing_are_let_go_in_time_and_keep_no_client_out() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--handshake-timeout", "1"]));
    let before = Usage::of(worker.pid());
    let silent: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect((worker.host(), worker.port())).unwrap()).collect();
    Program::example("vector_add").run(&worker, &[]).expect_silent_success();
    eventually("the worker has closed the connections", || {
        let now = Usage::of(worker.pid());
        now.descriptors <= before.descriptors && now.threads <= before.threads
    });
    drop(silent);
}

#[test]
fn twenty_sessions_work_at_the_same_time() {
    const SESSIONS: usize = 20;
    let worker = Worker::start();
    let program = Program::test("hold_memory");
    let mut held: Vec<Running> =
        (0..SESSIONS).map(|_| Running::start(program.on(&worker).arg("1"))).collect();
    held.iter().for_each(|client| drop(client.wait_for_line("holding")));
    assert_eq!(worker.status().sessions().len(), SESSIONS);
    assert_eq!(worker.processes().len(), SESSIONS + 1);
    for client in held.drain(..) {
        client.finish().expect_silent_success();
    }
    eventually("all sessions are gone", || worker.status().sessions().is_empty());
}
