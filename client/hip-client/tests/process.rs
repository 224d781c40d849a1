//! The connection at process boundaries: exit, fork, missing worker, kernel output. Each case runs this program again as
//! the client and checks what the worker and the standard streams received.

#[path = "../../session/tests/simulated/mod.rs"]
mod simulated;

use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use hip_client::process::open::open;
use session::Connection;
use simulated::{PRINTING_FUNCTION, Simulated};
use wire::{Launch, SynchronizeStream};

const ROLE: &str = "REMORA_TEST_ROLE";
const LAUNCHES: u64 = 500;

fn main() -> ExitCode {
    match std::env::var(ROLE).as_deref() {
        Ok("exit") => exit(),
        Ok("fork") => return fork(),
        Ok("absent") => absent(),
        Ok("output") => output(),
        _ => {
            let cases: [(&str, fn()); 4] = [
                ("exit_sends_what_was_posted_and_says_goodbye", exit_says_goodbye),
                ("a_forked_child_starts_a_session_of_its_own", a_child_starts_afresh),
                ("an_absent_worker_is_named_once_on_stderr", absence_is_told_once),
                ("what_kernels_print_appears_on_stdout_in_order", output_is_in_order),
            ];
            for (name, case) in cases {
                case();
                println!("test {name} ... ok");
            }
        }
    }
    ExitCode::SUCCESS
}

fn run(role: &str, worker: &str) -> Output {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.env(ROLE, role).env("REMORA_WORKER", worker).env("REMORA_STATS", "1");
    command.output().expect("a child process")
}

fn launch(connection: &Connection, function: u64) {
    connection.post(&Launch { function, ..Launch::default() }, &[0; 16], 0).expect("a session");
}

fn exit() {
    let (connection, _) = open().expect("a session");
    for _ in 0..LAUNCHES {
        launch(&connection, 1);
    }
    std::mem::forget(connection);
}

fn exit_says_goodbye() {
    let worker = Simulated::start();
    let output = run("exit", &worker.endpoint.to_string());
    assert!(output.status.success(), "{output:?}");
    assert!(worker.look(|state| state.goodbye && state.launches == LAUNCHES));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&format!("remora: 1 round trips, {LAUNCHES} posted")), "{stderr}");
}

fn fork() -> ExitCode {
    let (connection, _) = open().expect("a session");
    launch(&connection, 1);
    // SAFETY: the child uses only what must work after a fork, which is what this tests.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = connection.post(&SynchronizeStream { stream: 0 }, &[], 0).is_err();
        let (own, _) = open().expect("a session of the child");
        for _ in 0..10 {
            launch(&own, 2);
        }
        std::mem::forget((connection, own));
        return if refused { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let mut status = 0;
    // SAFETY: waits for the child created above.
    unsafe { libc::waitpid(child, &mut status, 0) };
    launch(&connection, 1);
    connection.call(&SynchronizeStream { stream: 0 }, 0).expect("the parent's session is unharmed");
    std::mem::forget(connection);
    if status == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn a_child_starts_afresh() {
    let worker = Simulated::start();
    let output = run("fork", &worker.endpoint.to_string());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(worker.sessions(), 2);
    assert!(worker.look_at(1, |state| state.goodbye && state.launches == 2));
    assert!(worker.look_at(2, |state| state.goodbye && state.launches == 10));
}

fn absent() {
    for _ in 0..3 {
        assert!(open().is_err());
    }
}

fn absence_is_told_once() {
    let start = Instant::now();
    let output = run("absent", "127.0.0.1:1");
    assert!(output.status.success(), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("127.0.0.1:1") && stderr.contains("refused"), "{stderr}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

fn output() {
    let (connection, _) = open().expect("a session");
    // SAFETY: prints through C's stdio buffer.
    unsafe { libc::puts(c"before".as_ptr()) };
    launch(&connection, PRINTING_FUNCTION);
    connection.call(&SynchronizeStream { stream: 0 }, 0).expect("a reply");
    // SAFETY: as above.
    unsafe { libc::puts(c"after".as_ptr()) };
    std::mem::forget(connection);
}

fn output_is_in_order() {
    let worker = Simulated::start();
    let output = run("output", &worker.endpoint.to_string());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "before\nprinted by a kernel\nafter\n");
}
