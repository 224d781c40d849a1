//! The connection against a simulated worker: order, threads, disconnects, closing.

mod simulated;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use session::{Candidate, Config, Connection, Host, Retention, Window};
use simulated::{BAD_ADDRESS, Simulated, TRANSLATED_FUNCTION};
use transport::greet;
use transport::impair::{Impair, Impairment};
use transport::tls::{Identity, Trust};
use wire::{Launch, MemoryInfo, Release, SynchronizeStream, Welcome};

fn open(endpoint: &transport::Endpoint) -> (Connection, Welcome) {
    open_as(Config { endpoint: endpoint.clone(), ..Config::default() })
}

fn open_as(config: Config) -> (Connection, Welcome) {
    Connection::open(config).unwrap()
}

fn launch(connection: &Connection, function: u64, argument: u64) {
    let launch = Launch { function, grid: [64, 1, 1], block: [64, 1, 1], ..Launch::default() };
    connection.post(&launch, &argument.to_le_bytes(), 7).unwrap();
}

/// The simulated worker's digest after these launches.
fn digest(launches: impl Iterator<Item = (u64, u64)>) -> u64 {
    launches.fold(0, |digest: u64, (function, argument)| {
        (digest ^ argument ^ function).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    })
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(0x1234_5678_9abc_def0);
    (0..bytes).map(|_| random.u8(..)).collect()
}

#[test]
fn posted_requests_arrive_in_order_and_cost_no_round_trip() {
    let worker = Simulated::start();
    let (connection, _) = open(&worker.endpoint);
    for i in 0..10_000 {
        launch(&connection, i % 13, i);
    }
    assert_eq!(connection.statistics().round_trips, 0);
    let info = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((info.free, info.total), (digest((0..10_000).map(|i| (i % 13, i))), 10_000));
    let statistics = connection.statistics();
    assert_eq!((statistics.round_trips, statistics.posted), (1, 10_000));
}

#[test]
fn a_window_smaller_than_the_work_makes_the_poster_wait_not_fail() {
    let worker = Simulated::start();
    let (connection, _) = open_as(Config {
        endpoint: worker.endpoint.clone(),
        retention: Retention { window: Window { bytes: 64 << 10, frames: 256 }, ..Retention::default() },
        ..Config::default()
    });
    for i in 0..20_000 {
        launch(&connection, 1, i);
    }
    let info = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((info.free, info.total), (digest((0..20_000).map(|i| (1, i))), 20_000));
}

#[test]
fn bulk_goes_both_ways_unharmed() {
    let worker = Simulated::start();
    let (connection, welcome) = open(&worker.endpoint);
    for bytes in [0, 1, 100, 300 << 10, (4 << 20) - 1, 4 << 20, 33 << 20] {
        let sent = noise(bytes);
        connection.write(0, welcome.arena_base + 5, &sent, 0).unwrap();
        let mut back = vec![0; bytes];
        connection.read(0, welcome.arena_base + 5, &mut back, 0).unwrap();
        assert!(sent == back, "{bytes} bytes");
    }
}

#[test]
fn bytes_read_later_are_there_after_the_next_synchronisation() {
    let worker = Simulated::start();
    let (connection, welcome) = open(&worker.endpoint);
    let sent = noise(3 << 20);
    connection.write(0, welcome.arena_base, &sent, 0).unwrap();
    let mut back = vec![0; sent.len()];
    let before = connection.statistics().round_trips;
    // SAFETY: the vector lives until after the synchronization.
    unsafe {
        let destination = NonNull::from(back.as_mut_slice()).cast();
        connection.read_later(0, welcome.arena_base, destination, sent.len() as u64, 0).unwrap();
    }
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
    assert!(sent == back);
    assert_eq!(connection.statistics().round_trips, before + 1);
}

#[test]
fn a_failed_call_returns_its_error_and_a_failed_post_a_late_one() {
    let worker = Simulated::start();
    let (connection, _) = open(&worker.endpoint);
    let failure = connection.call(&Release { address: BAD_ADDRESS }, 3).unwrap_err();
    assert_eq!(failure.status, 1);
    assert!(connection.take_late_error().is_none());
    connection.post(&Release { address: BAD_ADDRESS }, &[], 3).unwrap();
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
    let late = connection.take_late_error().unwrap();
    assert_eq!((late.code, late.function), (1, 3));
    assert!(connection.take_late_error().is_none());
}

#[test]
fn a_translation_on_the_worker_is_reported_with_its_end() {
    #[derive(Debug)]
    struct Listener(Mutex<Vec<Option<String>>>);
    impl Host for Listener {
        fn translating(&self, kernel: Option<&str>) {
            self.0.lock().unwrap().push(kernel.map(str::to_owned));
        }
    }
    let host: &'static Listener = Box::leak(Box::new(Listener(Mutex::default())));
    let worker = Simulated::start();
    let (connection, _) = open_as(Config { endpoint: worker.endpoint.clone(), host, ..Config::default() });
    launch(&connection, TRANSLATED_FUNCTION, 0);
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
    assert_eq!(*host.0.lock().unwrap(), [Some("saxpy".to_owned()), None]);
}

/// An address where nothing listens.
fn nowhere() -> transport::Endpoint {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    transport::Endpoint::tcp("127.0.0.1", listener.local_addr().unwrap().port())
}

#[test]
fn the_first_worker_of_a_list_that_answers_serves_the_session() {
    let worker = Simulated::start();
    let candidate = |endpoint| Candidate { endpoint, token: None, trust: None };
    let others = vec![candidate(nowhere()), candidate(worker.endpoint.clone())];
    let (connection, _) = open_as(Config { endpoint: nowhere(), others, ..Config::default() });
    launch(&connection, 1, 2);
    assert_eq!(connection.call(&MemoryInfo { device: 0 }, 0).unwrap().total, 1);
}

#[test]
fn an_error_gives_the_reason_of_every_worker_in_the_list() {
    let others = vec![Candidate { endpoint: nowhere(), token: None, trust: None }];
    let second = others[0].endpoint.to_string();
    let connect_timeout = Duration::from_millis(200);
    let config = Config { endpoint: nowhere(), others, connect_timeout, ..Config::default() };
    let first = config.endpoint.to_string();
    let text = Connection::open(config).unwrap_err().to_string();
    assert!(text.contains(&first) && text.contains(&format!("; at {second}: ")), "{text}");
}

#[test]
fn strict_mode_waits_for_everything_and_fails_at_once() {
    let worker = Simulated::start();
    let config = Config { endpoint: worker.endpoint.clone(), strict: true, ..Config::default() };
    let (connection, _) = open_as(config);
    assert!(connection.post(&Release { address: BAD_ADDRESS }, &[], 0).is_err());
    launch(&connection, 1, 1);
    assert_eq!(connection.statistics().posted, 0);
    assert_eq!(connection.statistics().round_trips, 2);
}

#[test]
fn many_threads_share_a_connection_and_each_gets_its_own_answers() {
    let worker = Simulated::start();
    let (connection, welcome) = open(&worker.endpoint);
    let launches = AtomicU64::new(0);
    thread::scope(|scope| {
        for index in 0..6u64 {
            let (connection, launches) = (&connection, &launches);
            scope.spawn(move || {
                let address = welcome.arena_base + index * (1 << 20);
                for round in 0..200u64 {
                    let sent = vec![(index * 31 + round) as u8; 1 + (round as usize * 997) % (400 << 10)];
                    connection.write(0, address, &sent, 0).unwrap();
                    launch(connection, index, round);
                    launches.fetch_add(1, Ordering::Relaxed);
                    let mut back = vec![0; sent.len()];
                    connection.read(0, address, &mut back, 0).unwrap();
                    assert!(sent == back);
                }
            });
        }
    });
    assert_eq!(worker.look(|state| state.launches), launches.into_inner());
}

#[test]
fn both_sides_sending_bulk_at_once_do_not_block_each_other() {
    let worker = Simulated::start();
    let (connection, welcome) = open(&worker.endpoint);
    let sent = noise(8 << 20);
    connection.write(0, welcome.arena_base, &sent, 0).unwrap();
    let mut back: Vec<Vec<u8>> = (0..6).map(|_| vec![0; sent.len()]).collect();
    // The worker pushes far more than the sockets buffer, while the client only sends and waits for no reply.
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
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
    assert!(back.iter().all(|back| *back == sent));
}

#[test]
fn host_functions_run_without_anyone_waiting() {
    let worker = Simulated::start();
    let (connection, _) = open(&worker.endpoint);
    let count = Arc::new(AtomicU64::new(0));
    for _ in 0..20 {
        let count = count.clone();
        connection
            .host_function(0, 0, move |status| {
                assert_eq!(status, 0);
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
    }
    let start = Instant::now();
    while worker.look(|state| state.host_functions_done.len()) < 20 {
        assert!(start.elapsed() < Duration::from_secs(30), "{count:?} ran");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(count.load(Ordering::SeqCst), 20);
    // Calls of other threads still get their replies while a function is outstanding.
    connection.host_function(0, 0, |_| thread::sleep(Duration::from_millis(100))).unwrap();
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
}

#[test]
fn cuts_in_the_middle_of_ten_thousand_launches_change_nothing() {
    let worker = Simulated::start();
    let cuts: Vec<u64> = (1..=12).map(|i| 2_000 + i * 40_000 + i * i * 997).collect();
    let impair =
        Impair::start(worker.endpoint.clone(), Impairment { cuts, ..Impairment::default() }).unwrap();
    let (connection, _) = open(&impair.endpoint());
    for i in 0..10_000 {
        launch(&connection, 3, i);
        if i % 500 == 0 {
            let info = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
            assert_eq!(info.total, i + 1);
        }
    }
    let info = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((info.free, info.total), (digest((0..10_000).map(|i| (3, i))), 10_000));
    assert!(connection.statistics().reconnects >= 3, "{}", connection.statistics());
}

#[test]
fn cuts_in_the_middle_of_bulk_and_of_many_threads_change_nothing() {
    let worker = Simulated::start();
    let cuts: Vec<u64> = (1..=20).map(|i| 10_000 + i * 377_777).collect();
    let impair =
        Impair::start(worker.endpoint.clone(), Impairment { cuts, ..Impairment::default() }).unwrap();
    let (connection, welcome) = open(&impair.endpoint());
    thread::scope(|scope| {
        for index in 0..4u64 {
            let connection = &connection;
            scope.spawn(move || {
                let address = welcome.arena_base + index * (16 << 20);
                for round in 0..6 {
                    let mut sent = noise(5 << 20);
                    sent[0] = round + index as u8;
                    connection.write(0, address, &sent, 0).unwrap();
                    let mut later = vec![0; 1 << 20];
                    // SAFETY: the vector lives until after the synchronization.
                    unsafe {
                        let start = NonNull::from(later.as_mut_slice()).cast();
                        connection.read_later(0, address, start, later.len() as u64, 0).unwrap();
                    }
                    let mut back = vec![0; sent.len()];
                    connection.read(0, address, &mut back, 0).unwrap();
                    assert!(sent == back);
                    assert!(sent[..later.len()] == later);
                }
            });
        }
    });
    assert!(connection.statistics().reconnects >= 10, "{}", connection.statistics());
}

#[test]
fn a_call_in_flight_survives_a_cut() {
    let worker = Simulated::start();
    let impair = Impair::start(worker.endpoint.clone(), Impairment::default()).unwrap();
    let (connection, _) = open(&impair.endpoint());
    worker.dawdle(Duration::from_millis(200));
    thread::scope(|scope| {
        let caller = scope.spawn(|| connection.call(&MemoryInfo { device: 0 }, 0));
        thread::sleep(Duration::from_millis(50));
        impair.cut();
        assert!(caller.join().unwrap().is_ok());
    });
    assert_eq!(connection.statistics().reconnects, 1);
}

#[test]
fn a_connection_lost_while_idle_is_replaced_by_the_next_post() {
    let worker = Simulated::start();
    let impair = Impair::start(worker.endpoint.clone(), Impairment::default()).unwrap();
    let (connection, _) = open(&impair.endpoint());
    launch(&connection, 1, 1);
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
    impair.cut();
    thread::sleep(Duration::from_millis(20));
    // No thread waits for these: the sender thread must detect the loss and reconnect by itself.
    for i in 0..100 {
        launch(&connection, 1, i);
        thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    while worker.look(|state| state.launches) < 101 {
        assert!(start.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_session_the_worker_has_forgotten_is_a_lasting_error_for_everyone() {
    let worker = Simulated::start();
    let (connection, _) = open(&worker.endpoint);
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
    worker.dawdle(Duration::from_secs(2));
    thread::scope(|scope| {
        let callers: Vec<_> =
            (0..3).map(|_| scope.spawn(|| connection.call(&MemoryInfo { device: 0 }, 0))).collect();
        thread::sleep(Duration::from_millis(50));
        worker.forget();
        for caller in callers {
            assert_eq!(caller.join().unwrap().unwrap_err().status, 999);
        }
    });
    assert_eq!(connection.post(&Release { address: 1 }, &[], 0).unwrap_err().status, 999);
    let text = connection.ending().unwrap().text;
    assert!(text.contains("lost") && text.contains(&worker.endpoint.to_string()), "{text}");
}

#[test]
fn a_worker_that_stays_away_longer_than_the_grace_period_loses_the_session() {
    let worker = Simulated::start_with(None, None, Duration::from_millis(300));
    let impair = Impair::start(worker.endpoint.clone(), Impairment::default()).unwrap();
    let (connection, _) = open(&impair.endpoint());
    impair.refuse(true);
    impair.cut();
    let start = Instant::now();
    assert!(connection.call(&MemoryInfo { device: 0 }, 0).is_err());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn closing_sends_what_was_posted_and_ends_the_session() {
    let worker = Simulated::start();
    let (connection, _) = open(&worker.endpoint);
    for i in 0..1000 {
        launch(&connection, 1, i);
    }
    connection.close(Duration::from_secs(2));
    assert!(worker.look(|state| state.goodbye && state.launches == 1000));
    assert_eq!(connection.post(&Release { address: 1 }, &[], 0).unwrap_err().status, 4);
}

#[test]
fn closing_gives_up_at_the_deadline() {
    let worker = Simulated::start();
    let (connection, _) = open(&worker.endpoint);
    worker.dawdle(Duration::from_secs(60));
    let start = Instant::now();
    connection.close(Duration::from_millis(200));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_token_is_demanded_and_proved() {
    let worker = Simulated::start_with(Some("secret"), None, Duration::from_secs(1));
    let config = Config { endpoint: worker.endpoint.clone(), ..Config::default() };
    let error = Connection::open(config.clone()).unwrap_err().to_string();
    assert!(error.contains("token"), "{error}");
    let wrong = Config { token: Some(b"guess".to_vec()), ..config.clone() };
    assert!(Connection::open(wrong).is_err());
    let (connection, _) = open_as(Config { token: Some(b"secret".to_vec()), ..config });
    connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
}

#[test]
fn everything_works_over_tls_with_cuts() {
    let identity = Arc::new(Identity::self_signed(&["localhost".to_owned()]).unwrap());
    let trust = Some(Trust::Fingerprint(identity.fingerprint()));
    let worker = Simulated::start_with(None, Some(identity), Duration::from_secs(10));
    let impair = Impair::start(
        worker.endpoint.clone(),
        Impairment { cuts: vec![200_000, 3_000_000], ..Impairment::default() },
    )
    .unwrap();
    let endpoint = transport::Endpoint::Tls { host: "127.0.0.1".into(), port: impair.address().port() };
    let (connection, welcome) = open_as(Config { endpoint, trust, ..Config::default() });
    for i in 0..3000 {
        launch(&connection, 2, i);
    }
    let sent = noise(9 << 20);
    connection.write(0, welcome.arena_base, &sent, 0).unwrap();
    let mut back = vec![0; sent.len()];
    connection.read(0, welcome.arena_base, &mut back, 0).unwrap();
    assert!(sent == back);
    let info = connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((info.free, info.total), (digest((0..3000).map(|i| (2, i))), 3000));
    assert_eq!(connection.statistics().reconnects, 2);
}

#[test]
fn no_worker_is_an_error_within_the_time_out() {
    let start = Instant::now();
    let config = Config {
        // Nothing listens on this port.
        endpoint: transport::Endpoint::tcp("127.0.0.1", 1),
        connect_timeout: Duration::from_millis(500),
        ..Config::default()
    };
    let error = Connection::open(config).unwrap_err().to_string();
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(error.contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_listener_that_says_nothing_is_an_error_within_the_time_out() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    let config = Config {
        endpoint: transport::Endpoint::tcp("127.0.0.1", listener.local_addr().unwrap().port()),
        connect_timeout: Duration::from_millis(300),
        ..Config::default()
    };
    assert!(Connection::open(config).is_err());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn invalid_frames_of_the_worker_end_the_session_at_once() {
    let listener = transport::Listener::bind(&transport::Endpoint::tcp("127.0.0.1", 0)).unwrap();
    let endpoint = listener.endpoint().unwrap();
    let worker = thread::spawn(move || {
        let (link, _) = listener.accept().unwrap();
        let hello: wire::Hello = greet::expect(&link, wire::MAX_HANDSHAKE_BYTES).unwrap();
        let greeting = wire::Greeting::new(hello.clone(), [0; 32], false).unwrap();
        greet::send(&link, greeting.challenge()).unwrap();
        assert!(!greeting.challenge().wants_proof, "no token, so no proof is requested");
        let (arena_base, arena_bytes) = (hello.arena_base, hello.arena_bytes);
        greet::send(&link, &Welcome { session_id: 1, arena_base, arena_bytes, ..Welcome::default() })
            .unwrap();
        link.write_all(&[0x55; 64]).unwrap();
        link.read(&mut [0; 1000]).unwrap();
    });
    let (connection, _) = open(&endpoint);
    let failure = connection.call(&MemoryInfo { device: 0 }, 0).unwrap_err();
    assert!(failure.status == 999 && failure.text.contains("breaks the protocol"), "{failure}");
    worker.join().unwrap();
}
