//! A session through shared memory: the same guarantees as over a socket, also when connections are closed at any moment.

#![cfg(unix)]

mod simulated;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use session::{Config, Connection, CopyPolicy};
use simulated::Simulated;
use transport::Endpoint;
use wire::{Launch, MemoryInfo, SynchronizeStream, Welcome, capability};

fn worker(folder: &tempfile::TempDir) -> Simulated {
    Simulated::start_at(&Endpoint::Unix { path: folder.path().join("worker") }, None)
}

fn open(worker: &Simulated, copies: CopyPolicy) -> (Connection, Welcome) {
    Connection::open(Config { endpoint: worker.endpoint.clone(), copies, ..Config::default() }).unwrap()
}

fn in_memory(worker: &Simulated) -> (Connection, Welcome) {
    let (connection, welcome) = open(worker, CopyPolicy::default());
    assert_ne!(connection.capabilities() & capability::MEMORY_LINK, 0, "the session uses shared memory");
    (connection, welcome)
}

fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

fn synchronize(connection: &Connection) {
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
}

/// Runs `work` while every connection is closed again and again.
fn under_cuts(worker: &Simulated, connection: &Connection, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pause = 1;
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(pause));
                worker.cut();
                pause = pause * 7 % 23;
            }
        });
        work();
        // At least one cut must have hit the work.
        let start = Instant::now();
        while connection.statistics().reconnects == 0 {
            synchronize(connection);
            assert!(start.elapsed() < Duration::from_secs(20), "no connection was replaced");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn shared_memory_is_used_unless_it_is_turned_off_or_several_links_are_configured() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(&folder);
    in_memory(&worker);
    for copies in [
        CopyPolicy { sockets_only: true, ..CopyPolicy::default() },
        CopyPolicy { links: Some(2), ..CopyPolicy::default() },
    ] {
        let (connection, _) = open(&worker, copies);
        assert_eq!(connection.capabilities() & capability::MEMORY_LINK, 0);
        synchronize(&connection);
    }
}

#[test]
fn bulk_goes_both_ways_unharmed_whatever_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(&folder);
    let (connection, welcome) = in_memory(&worker);
    let sent = noise((20 << 20) + 333);
    let check = || {
        connection.write(0, welcome.arena_base, &sent, 0).unwrap();
        let mut back = vec![0; sent.len()];
        connection.read(0, welcome.arena_base, &mut back, 0).unwrap();
        assert!(back == sent);
    };
    check();
    under_cuts(&worker, &connection, || (0..3).for_each(|_| check()));
}

#[test]
fn launches_arrive_exactly_once_and_in_order_whatever_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(&folder);
    let (connection, _) = in_memory(&worker);
    let mut digest = 0u64;
    under_cuts(&worker, &connection, || {
        for argument in 0..20_000u64 {
            let launch = Launch { function: 3, grid: [64, 1, 1], block: [64, 1, 1], ..Launch::default() };
            connection.post(&launch, &argument.to_le_bytes(), 7).unwrap();
            // As the simulated worker computes it, depending on the order.
            digest = (digest ^ argument ^ 3).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            if argument % 500 == 0 {
                synchronize(&connection);
            }
        }
    });
    let info = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((info.free, info.total), (digest, 20_000));
}

#[test]
fn both_sides_sending_bulk_at_once_do_not_block_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(&folder);
    let (connection, welcome) = in_memory(&worker);
    let sent = noise(8 << 20);
    connection.write(0, welcome.arena_base, &sent, 0).unwrap();
    let mut back: Vec<Vec<u8>> = (0..4).map(|_| vec![0; sent.len()]).collect();
    // The worker pushes far more than a FIFO holds, while the client only sends and waits for no reply.
    for destination in &mut back {
        // SAFETY: the vectors live until after the synchronization.
        unsafe {
            let start = NonNull::from(destination.as_mut_slice()).cast();
            connection.read_later(0, welcome.arena_base, start, sent.len() as u64, 0).unwrap();
        }
        for offset in 0..64 {
            connection.write(0, welcome.arena_base + (32 << 20) + offset, &sent[..200 << 10], 0).unwrap();
        }
    }
    synchronize(&connection);
    assert!(back.iter().all(|back| *back == sent));
}

#[test]
fn many_threads_share_a_connection_whatever_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(&folder);
    let (connection, welcome) = in_memory(&worker);
    let base = welcome.arena_base;
    under_cuts(&worker, &connection, || {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let connection = &connection;
                scope.spawn(move || {
                    let address = base + (thread << 20);
                    for round in 0..40u8 {
                        let sent = vec![round ^ thread as u8; 300_000];
                        connection.write(0, address, &sent, 0).unwrap();
                        let mut back = vec![0; sent.len()];
                        connection.read(0, address, &mut back, 0).unwrap();
                        assert!(back == sent);
                    }
                });
            }
        });
    });
}
