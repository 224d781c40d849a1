//! The shared-memory link between a program and a worker on the same machine: chosen by itself, with the same results and guarantees
//! as a socket.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use e2e::{Ended, MemoryRelay, Program, Running, Worker, WorkerOptions, eventually};
use transport::greet::{self, Credentials};
use transport::{Endpoint, Link};
use wire::{Hello, Welcome, capability};

const TIMEOUT: Duration = Duration::from_secs(20);

fn worker(folder: &Path, arguments: &[&str]) -> Worker {
    let listen = format!("unix:{}", folder.join("worker").display());
    Worker::start_with(&WorkerOptions { listen, ..WorkerOptions::with(arguments) })
}

fn start(endpoint: &Endpoint, program: &Program, arguments: &[&str]) -> Running {
    let mut command = program.command();
    command.env("REMORA_WORKER", endpoint.to_string()).env("REMORA_STATS", "1").args(arguments);
    Running::start(&mut command)
}

/// The transport of the only session.
fn transport(worker: &Worker) -> String {
    let status = worker.status();
    assert_eq!(status.sessions().len(), 1, "{}", status.json);
    status.json["sessions"][0]["transport"].as_str().unwrap_or_default().to_owned()
}

fn reconnects(ended: &Ended) -> u32 {
    let count = ended.stderr.lines().find_map(|line| {
        let (before, _) = line.split_once(" reconnects")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    count.unwrap_or_else(|| panic!("no counters in\n{}", ended.stderr))
}

#[test]
fn a_program_on_the_workers_machine_uses_shared_memory_unless_it_is_turned_off() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::test("hold_memory");
    let on_unix = worker(folder.path(), &[]);
    let on_tcp = Worker::start();
    for (worker, variable, expected) in [
        (&on_unix, None, "shared memory"),
        (&on_unix, Some(("REMORA_SHARED_MEMORY", "off")), "unix socket"),
        (&on_unix, Some(("REMORA_LINKS", "2")), "unix socket"),
        (&on_tcp, None, "tcp"),
    ] {
        let mut command = program.command();
        command.env("REMORA_WORKER", worker.endpoint().to_string()).arg("1").envs(variable);
        let running = Running::start(&mut command);
        running.wait_for_line("holding ");
        assert_eq!(transport(worker), expected, "{variable:?}");
        running.finish().expect_silent_success();
        eventually("the session has ended", || worker.status().sessions().is_empty());
    }
    let mut command = Program::test("device_count").command();
    command.env("REMORA_WORKER", on_unix.endpoint().to_string()).env("REMORA_SHARED_MEMORY", "maybe");
    let ended = Running::start(&mut command).finish();
    assert!(ended.stderr.contains("REMORA_SHARED_MEMORY is \"maybe\"; use on or off"), "{}", ended.stderr);
}

/// Runs a program while the connection is closed every few milliseconds, and compares what it prints.
fn survives_cuts(program: &Program, arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), &[]);
    let uncut = start(worker.endpoint(), program, arguments).finish();
    uncut.expect_success();
    assert_eq!(reconnects(&uncut), 0);
    let relay = MemoryRelay::start(folder.path().join("relay"), worker.endpoint());
    let running = start(&relay.endpoint(), program, arguments);
    let mut cuts = 0;
    // The first connection must complete its handshake: without a session there is nothing to resume.
    eventually("the session is open", || relay.descriptors() == 1 || running.has_ended());
    for pause in [3, 17, 5, 40, 1, 9, 25, 2] {
        std::thread::sleep(Duration::from_millis(pause));
        if running.has_ended() {
            break;
        }
        relay.cut();
        cuts += 1;
    }
    let ended = running.finish();
    ended.expect_success();
    assert_eq!(ended.stdout, uncut.stdout, "{cuts} cuts\n{}", ended.stderr);
    assert!(reconnects(&ended) > 0, "nothing was cut");
    assert!(relay.descriptors() > 1, "the new connection uses shared memory as well");
    assert!(!worker.log().contains("panicked"), "{}", worker.log());
}

#[test]
fn launches_are_executed_exactly_once_whatever_is_cut() {
    survives_cuts(&Program::example("launch_storm"), &["200000"]);
}

#[test]
fn bulk_data_in_both_directions_arrives_whole_whatever_is_cut() {
    survives_cuts(&Program::test("bulk"), &[]);
}

#[test]
fn a_proxy_that_loses_descriptors_gets_a_connection_over_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), &[]);
    let relay = MemoryRelay::start_without_descriptors(folder.path().join("relay"), worker.endpoint());
    let ended = start(&relay.endpoint(), &Program::test("bulk"), &[]).finish();
    ended.expect_success().expect_line("PASS bulk");
    assert_eq!((relay.accepted(), relay.descriptors(), reconnects(&ended)), (2, 1, 0));
}

#[test]
fn a_program_whose_executor_is_killed_gets_an_error_instead_of_waiting_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), &[]);
    let running = start(worker.endpoint(), &Program::test("steady"), &[]);
    running.wait_for_line("round 0");
    let executor = worker.status().json["sessions"][0]["process"].as_i64().unwrap();
    // SAFETY: sends a signal to a process that this test's worker has started.
    assert_eq!(unsafe { libc::kill(executor as libc::pid_t, libc::SIGKILL) }, 0);
    eventually("the program ends", || running.has_ended());
    let ended = running.finish();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("remora: the session with unix:"), "{}", ended.stderr);
}

#[test]
fn the_session_of_a_killed_program_ends() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), &["--grace-closed", "1"]);
    let running = start(worker.endpoint(), &Program::test("steady"), &[]);
    running.wait_for_line("round 0");
    running.signal(libc::SIGKILL);
    eventually("the session ends", || worker.status().sessions().is_empty());
}

/// Opens a session without the client library; returns the words of the shared memory's first page.
fn intrude(worker: &Worker) -> (Link, &'static [AtomicU64]) {
    let link = worker.endpoint().connect(TIMEOUT).unwrap();
    let hello = Hello {
        min_version: wire::MIN_VERSION,
        max_version: wire::MAX_VERSION,
        capabilities: capability::MEMORY_LINK,
        client: "intruder".to_owned(),
        pid: std::process::id(),
        ..Hello::default()
    };
    let greeted =
        greet::greet_attached::<Welcome>(&link, &hello, &Credentials::default(), TIMEOUT, TIMEOUT).unwrap();
    assert_ne!(greeted.answer.capabilities & capability::MEMORY_LINK, 0);
    let memory = greeted.memory.expect("the worker attaches its memory");
    // SAFETY: maps one page of a file that cannot shrink, at an address that the kernel chooses; it is never unmapped.
    let words = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = memory.as_fd().as_raw_fd();
        let page = libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_SHARED, fd, 0);
        assert_ne!(page, libc::MAP_FAILED);
        std::slice::from_raw_parts(page.cast::<AtomicU64>(), 4096 / 8)
    };
    (link, words)
}

#[test]
fn a_client_that_writes_nonsense_to_the_shared_memory_loses_its_own_connection_only() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), &["--grace-closed", "1"]);
    let bystander = start(worker.endpoint(), &Program::test("steady"), &[]);
    bystander.wait_for_line("round 0");
    for value in [u64::MAX, 1 << 63, (1 << 20) + 1, 0x5555_5555_5555_5555] {
        let (link, words) = intrude(&worker);
        // The counters; the words after them can also end a connection.
        for word in &words[..64] {
            word.store(value, Ordering::SeqCst);
        }
        // Nothing rings the bell: the executor looks again by itself.
        eventually("the connection is closed", || link.has_ended());
    }
    for seed in 0..4 {
        let (link, words) = intrude(&worker);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            words[random.usize(..words.len())].store(random.u64(..), Ordering::Relaxed);
        }
        drop(link);
    }
    eventually("the sessions of the intruder end", || worker.status().sessions().len() == 1);
    bystander.finish().expect_success().expect_line("PASS steady");
    let log = worker.log();
    assert!(!log.contains("panicked") && !log.contains("died"), "{log}");
}
