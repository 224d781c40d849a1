//! Leak test of the client: a process that opens and closes sessions keeps no resources of them.
//!
//! The only test of its binary, because it measures the resources of its own process.

use std::time::Duration;

use e2e::{Usage, Worker, eventually};
use session::{Config, Connection};
use wire::{Allocate, CreateStream, Fill, MemoryInfo, SynchronizeStream};

/// Number of warm-up sessions, after which all permanent resources are allocated.
const FIRST: usize = 10;
const MOST_GROWTH: u64 = 4 << 20;

#[test]
fn sessions_that_come_and_go_leave_nothing_in_their_client() {
    let worker = Worker::start();
    for _ in 0..FIRST {
        use_a_session(&worker);
    }
    eventually("the first sessions have ended", || worker.status().sessions().is_empty());
    let before = Usage::of_this_process();
    for _ in 0..e2e::cycles() {
        use_a_session(&worker);
    }
    // Threads, and the mappings of their stacks, may take a moment to disappear.
    eventually(&format!("descriptors, threads and mappings are as before: {before:?}"), || {
        let now = Usage::of_this_process();
        now.descriptors <= before.descriptors
            && now.threads <= before.threads
            && now.mappings <= before.mappings + 4
    });
    let after = Usage::of_this_process();
    println!("{} cycles: {before:?}, then {after:?}", e2e::cycles());
    let grown = after.resident_bytes.saturating_sub(before.resident_bytes);
    assert!(grown <= MOST_GROWTH, "{grown} bytes more");
}

fn use_a_session(worker: &Worker) {
    let config = Config { endpoint: worker.endpoint().clone(), ..Config::default() };
    let (connection, welcome) = Connection::open(config).unwrap();
    let address = welcome.arena_base;
    connection.post(&Allocate { device: 0, kind: 0, address, bytes: 1 << 20 }, &[], 0).unwrap();
    connection.post(&CreateStream { device: 0, stream: 0x1234, flags: 0, priority: 0 }, &[], 0).unwrap();
    let fill = Fill { stream: 0x1234, destination: address, value: 7, width: 1, count: 1 << 20 };
    connection.post(&fill, &[], 0).unwrap();
    connection.write(0x1234, address, &[9; 4096], 0).unwrap();
    let mut bytes = vec![0; 8192];
    connection.read(0x1234, address, &mut bytes, 0).unwrap();
    assert!(bytes[..4096].iter().all(|byte| *byte == 9) && bytes[4096..].iter().all(|byte| *byte == 7));
    connection.call(&SynchronizeStream { stream: 0x1234 }, 0).unwrap();
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert!(connection.take_late_error().is_none());
    connection.close(Duration::from_secs(20));
}
