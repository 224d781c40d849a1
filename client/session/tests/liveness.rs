//! A link that is open but dead is replaced, whatever was in flight; one that is merely idle is kept.

mod simulated;

use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use session::{Config, Connection};
use simulated::Simulated;
use transport::Endpoint;
use transport::impair::{Impair, Impairment, Stall};
use transport::tls::{Identity, Trust};
use wire::{MemoryInfo, SynchronizeStream};

/// Short to keep the tests fast, but long enough for a busy machine to reply.
const TIMEOUT: Duration = Duration::from_millis(400);

fn config(endpoint: Endpoint) -> Config {
    Config { endpoint, silence_timeout: Some(TIMEOUT), ..Config::default() }
}

#[track_caller]
fn eventually(claim: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{claim}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_call_gets_its_answer_over_a_new_connection_whichever_direction_falls_silent() {
    let worker = Simulated::start();
    for what in [Stall::Answers, Stall::Both] {
        let impair = Impair::start(worker.endpoint.clone(), Impairment::default()).unwrap();
        let (connection, _) = Connection::open(config(impair.endpoint())).unwrap();
        connection.call(&SynchronizeStream { stream: 0 }, 0).unwrap();
        impair.stall(what);
        connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
        assert_eq!(connection.statistics().reconnects, 1, "{what:?}");
    }
}

#[test]
fn silence_in_the_middle_of_bulk_changes_no_byte() {
    let identity = Arc::new(Identity::self_signed(&["localhost".to_owned()]).unwrap());
    for tls in [None, Some(identity)] {
        let trust = tls.as_ref().map(|identity| Trust::Fingerprint(identity.fingerprint()));
        let worker = Simulated::start_with(None, tls.clone(), Duration::from_secs(20));
        // Inside a body to the worker, inside one from it, and between them.
        let stalls = vec![1_500_007, 7_000_003, 11_111_111];
        let impair =
            Impair::start(worker.endpoint.clone(), Impairment { stalls, ..Impairment::default() }).unwrap();
        let endpoint = match tls {
            None => impair.endpoint(),
            Some(_) => Endpoint::Tls { host: "127.0.0.1".into(), port: impair.address().port() },
        };
        let (connection, welcome) = Connection::open(Config { trust, ..config(endpoint) }).unwrap();
        thread::scope(|scope| {
            for index in 0..2u64 {
                let connection = &connection;
                scope.spawn(move || {
                    let address = welcome.arena_base + index * (16 << 20);
                    for round in 0..2u8 {
                        let sent: Vec<u8> = (0..5 << 20).map(|i| ((i * 31) >> 7) as u8 ^ round).collect();
                        connection.write(0, address, &sent, 0).unwrap();
                        let mut later = vec![0; 1 << 20];
                        // SAFETY: the vector lives until after the synchronization.
                        unsafe {
                            let start = NonNull::from(later.as_mut_slice()).cast();
                            connection.read_later(0, address, start, later.len() as u64, 0).unwrap();
                        }
                        let mut back = vec![0; sent.len()];
                        connection.read(0, address, &mut back, 0).unwrap();
                        assert!(sent == back && sent[..later.len()] == later);
                    }
                });
            }
        });
        assert!(connection.statistics().reconnects >= 3, "{}", connection.statistics());
    }
}

#[test]
fn an_idle_connection_that_falls_silent_is_replaced_and_one_that_answers_is_kept() {
    let worker = Simulated::start();
    let impair = Impair::start(worker.endpoint.clone(), Impairment::default()).unwrap();
    let (connection, _) = Connection::open(config(impair.endpoint())).unwrap();
    let quiet = impair.carried();
    // Three Pings and their Pongs take longer than the timeout.
    eventually("heartbeats are sent", || impair.carried() >= quiet + 6 * wire::Header::BYTES as u64);
    assert_eq!(connection.statistics().reconnects, 0);
    impair.stall(Stall::Both);
    eventually("the connection is replaced", || connection.statistics().reconnects == 1);
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
}

#[test]
fn without_a_timeout_nothing_is_sent_and_nothing_is_replaced() {
    let worker = Simulated::start();
    let impair = Impair::start(worker.endpoint.clone(), Impairment::default()).unwrap();
    let config = Config { silence_timeout: None, ..config(impair.endpoint()) };
    let (connection, _) = Connection::open(config).unwrap();
    let quiet = impair.carried();
    impair.stall(Stall::Both);
    connection.close(2 * TIMEOUT);
    assert_eq!((impair.carried(), impair.accepted()), (quiet, 1));
}

#[test]
fn a_worker_that_starts_later_is_connected_to_and_a_wrong_token_is_not_tried_again() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Endpoint::tcp("127.0.0.1", listener.local_addr().unwrap().port());
    drop(listener);
    let config = Config { connect_timeout: Duration::from_secs(20), ..config(target.clone()) };
    let opening = thread::spawn(move || Connection::open(config).map(drop));
    thread::sleep(Duration::from_millis(100));
    let worker = Simulated::start_at(&target, Some("secret"));
    let error = opening.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("token"), "the worker was reached, and its rejection is final: {error}");
    assert_eq!(worker.sessions(), 0);
}
