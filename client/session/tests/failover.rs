//! Failover against simulated workers: sessions that are replayed, results that differ, and limits.

mod simulated;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use session::progress::{Completion, WatchTarget};
use session::{Candidate, Config, Connection, FailoverConfig, Host, Retention};
use simulated::{PRINTING_FUNCTION, RANDOM_FUNCTION, Simulated};
use wire::{ElapsedTime, Launch, MemoryInfo, QueryEventWatched, Release, SynchronizeStream};

/// Records what the session reports.
#[derive(Debug, Default)]
struct Recorder {
    lines: Mutex<Vec<String>>,
    output: Mutex<Vec<u8>>,
}

impl Host for Recorder {
    fn line(&self, text: std::fmt::Arguments<'_>) {
        self.lines.lock().unwrap().push(text.to_string());
    }

    fn output(&self, _descriptor: u32, text: &[u8]) {
        self.output.lock().unwrap().extend_from_slice(text);
    }
}

impl Recorder {
    fn leak() -> &'static Recorder {
        Box::leak(Box::default())
    }

    fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }
}

fn config(workers: &[&Simulated], host: &'static Recorder, limit: u64) -> Config {
    let candidate =
        |worker: &Simulated| Candidate { endpoint: worker.endpoint.clone(), token: None, trust: None };
    Config {
        endpoint: workers[0].endpoint.clone(),
        others: workers[1..].iter().map(|worker| candidate(worker)).collect(),
        host,
        retention: Retention {
            failover: Some(FailoverConfig { folder: std::env::temp_dir(), limit }),
            ..Retention::default()
        },
        ..Config::default()
    }
}

fn launch(connection: &Connection, function: u64, argument: u64) {
    let launch = Launch { function, grid: [64, 1, 1], block: [64, 1, 1], ..Launch::default() };
    connection.post(&launch, &argument.to_le_bytes(), 7).unwrap();
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(bytes as u64);
    (0..bytes).map(|_| random.u8(..)).collect()
}

#[test]
fn a_lost_session_is_replayed_and_everything_happens_once() {
    let worker = Simulated::start();
    let host = Recorder::leak();
    let (connection, welcome) = Connection::open(config(&[&worker], host, 1 << 30)).unwrap();
    let at = welcome.arena_base;
    let calls = Arc::new(AtomicU64::new(0));
    let weights = noise(20 << 20);
    let mut before = vec![0; 3000];
    for round in 0..3u64 {
        connection.write(0, at + 4096, &weights, 0).unwrap();
        for step in 0..1000 {
            launch(&connection, 3, round * 1000 + step);
        }
        launch(&connection, PRINTING_FUNCTION, round);
        let counted = Arc::clone(&calls);
        let count = move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        };
        connection.host_function(0, 0, count).unwrap();
        connection.read(0, at + 5000, &mut before, 0).unwrap();
        let mut later = vec![0; 70_000];
        // SAFETY: the vector lives until the call below has synchronized.
        unsafe { connection.read_later(0, at + 9000, NonNull::from(&mut later[..]).cast(), 70_000, 0) }
            .unwrap();
        connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
        assert!(before == weights[5000 - 4096..][..3000] && later == weights[9000 - 4096..][..70_000]);
        assert!(connection.post(&Release { address: simulated::BAD_ADDRESS }, &[], 0).is_ok());
        connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
        while calls.load(Ordering::SeqCst) <= round {
            std::thread::sleep(Duration::from_millis(1));
        }
        worker.forget();
    }
    let info = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!(info.total, 3 * 1001, "every launch once");
    assert_eq!(calls.load(Ordering::SeqCst), 3, "no host function runs twice");
    let printed = String::from_utf8(host.output.lock().unwrap().clone()).unwrap();
    assert_eq!(printed.lines().count(), 3, "{printed}");
    let mut errors = 0;
    while connection.take_late_error().is_some() {
        errors += 1;
    }
    assert_eq!(errors, 3);
    // Printed by the thread that replayed, which may be later than the reply.
    while host.text().matches("the session continues on").count() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_session_continues_on_the_next_worker_of_the_list() {
    let (first, second) = (Simulated::start(), Simulated::start());
    let host = Recorder::leak();
    let (connection, welcome) = Connection::open(config(&[&first, &second], host, 1 << 30)).unwrap();
    let data = noise(1 << 20);
    connection.write(0, welcome.arena_base, &data, 0).unwrap();
    launch(&connection, 1, 2);
    let before = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    first.refuse_sessions();
    first.forget();
    let after = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((before.free, before.total), (after.free, after.total));
    let mut back = vec![0; data.len()];
    connection.read(0, welcome.arena_base, &mut back, 0).unwrap();
    assert!(back == data && second.sessions() == 1);
    assert!(host.text().contains(&format!("continues on {}", second.endpoint)), "{}", host.text());
}

#[test]
fn a_result_that_differs_ends_the_session_and_says_where() {
    let worker = Simulated::start();
    let host = Recorder::leak();
    let (connection, welcome) = Connection::open(config(&[&worker], host, 1 << 30)).unwrap();
    launch(&connection, RANDOM_FUNCTION, 0);
    let mut seen = [0; 8];
    connection.read(0, welcome.arena_base, &mut seen, 0).unwrap();
    worker.forget();
    let failure = connection.call(&MemoryInfo { device: 0 }, 0).unwrap_err();
    assert!(failure.text.contains("replay diverged at request 2 (Read)"), "{}", failure.text);
}

#[test]
fn a_random_result_that_the_program_has_not_seen_is_no_divergence() {
    let worker = Simulated::start();
    let (connection, _) = Connection::open(config(&[&worker], Recorder::leak(), 1 << 30)).unwrap();
    launch(&connection, RANDOM_FUNCTION, 0);
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
    worker.forget();
    assert_eq!(connection.call(&MemoryInfo { device: 0 }, 0).unwrap().total, 1);
}

#[test]
fn what_was_not_reached_before_a_loss_may_be_reached_in_the_replay() {
    let worker = Simulated::start();
    worker.set_busy(true);
    let (connection, _) = Connection::open(config(&[&worker], Recorder::leak(), 1 << 30)).unwrap();
    let mark = connection.progress().mark(WatchTarget::Event(7));
    let stamp = mark.advance();
    mark.watch(stamp);
    assert!(!connection.call(&QueryEventWatched { event: 7, stamp }, 0).unwrap().done);
    let time = ElapsedTime { start: 6, stop: 7 };
    assert_eq!(connection.call(&time, 0).unwrap_err().status, simulated::NOT_READY);
    worker.set_busy(false);
    worker.forget();
    // Times are not compared, and the event is reported, since no notification will come.
    assert_eq!(connection.call(&time, 0).unwrap().milliseconds, 1.0);
    assert_eq!(mark.completion(), Completion::Reached(0));
    // The next replay expects it.
    worker.forget();
    assert_eq!(connection.call(&time, 0).unwrap().milliseconds, 1.0);
}

#[test]
fn a_time_that_was_known_before_a_loss_need_not_be_known_at_that_point_of_the_replay() {
    let worker = Simulated::start();
    let (connection, _) = Connection::open(config(&[&worker], Recorder::leak(), 1 << 30)).unwrap();
    let time = ElapsedTime { start: 6, stop: 7 };
    connection.call(&time, 0).unwrap();
    worker.set_busy(true);
    worker.forget();
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
}

#[test]
fn a_journal_beyond_its_limit_turns_failover_off_and_the_session_goes_on() {
    let worker = Simulated::start();
    let host = Recorder::leak();
    let (connection, welcome) = Connection::open(config(&[&worker], host, 1 << 20)).unwrap();
    let data = noise(3 << 20);
    connection.write(0, welcome.arena_base, &data, 0).unwrap();
    let mut back = vec![0; data.len()];
    connection.read(0, welcome.arena_base, &mut back, 0).unwrap();
    assert!(back == data);
    assert!(host.text().contains("failover is off: the journal exceeds 1048576 bytes"), "{}", host.text());
    worker.forget();
    let failure = connection.call(&MemoryInfo { device: 0 }, 0).unwrap_err();
    assert!(failure.text.contains("failover is off"), "{}", failure.text);
}

#[test]
fn a_journal_that_cannot_be_written_turns_failover_off_and_the_session_goes_on() {
    let worker = Simulated::start();
    let host = Recorder::leak();
    let mut config = config(&[&worker], host, 1 << 30);
    let failover = config.retention.failover.as_mut().unwrap();
    failover.folder = "/nonexistent".into();
    let (connection, welcome) = Connection::open(config).unwrap();
    let data = noise(20 << 20);
    // More than the journal keeps in memory.
    for _ in 0..10 {
        connection.write(0, welcome.arena_base, &data, 0).unwrap();
    }
    let mut back = vec![0; data.len()];
    connection.read(0, welcome.arena_base, &mut back, 0).unwrap();
    assert!(back == data);
    let text = host.text();
    assert!(text.contains("failover is off: the journal cannot be written to /nonexistent: "), "{text}");
    assert_eq!(text.matches("failover is off").count(), 1, "{text}");
}

#[test]
fn threads_that_wait_for_each_other_are_replayed_without_deadlock() {
    let worker = Simulated::start();
    let (connection, welcome) = Connection::open(config(&[&worker], Recorder::leak(), 1 << 30)).unwrap();
    let connection = Arc::new(connection);
    let base = welcome.arena_base;
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let connection = Arc::clone(&connection);
            std::thread::spawn(move || {
                for round in 0..150u64 {
                    let value = [thread as u8 ^ round as u8; 64];
                    connection.write(0, base + thread * 64, &value, 0).unwrap();
                    launch(&connection, thread, round);
                    let mut back = [0; 64];
                    connection.read(0, base + thread * 64, &mut back, 0).unwrap();
                    assert_eq!(back, value);
                }
            })
        })
        .collect();
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(10));
        worker.forget();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(connection.call(&MemoryInfo { device: 0 }, 0).unwrap().total, 600);
}
