//! Workers that redirect new sessions, as during the move of their sessions to another worker.

mod simulated;

use std::time::Duration;

use session::{Config, Connection, FailoverConfig, Retention};
use simulated::Simulated;
use transport::Endpoint;
use wire::MemoryInfo;

const ALWAYS: u64 = u64::MAX;

fn config(worker: &Simulated) -> Config {
    Config { endpoint: worker.endpoint.clone(), ..Config::default() }
}

#[test]
fn a_redirected_program_has_its_session_at_the_other_worker() {
    let (named, other) = (Simulated::start(), Simulated::start());
    named.redirect_sessions(&other.endpoint, ALWAYS);
    let (connection, _) = Connection::open(config(&named)).unwrap();
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((named.sessions(), other.sessions()), (0, 1));
}

#[test]
fn a_program_returns_to_the_worker_that_the_user_named_if_the_other_one_refuses_it() {
    let (named, other) = (Simulated::start(), Simulated::start());
    named.redirect_sessions(&other.endpoint, 2);
    other.refuse_sessions();
    let (connection, _) = Connection::open(config(&named)).unwrap();
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((named.sessions(), other.sessions()), (1, 0));
}

#[test]
fn the_error_of_a_redirected_program_names_both_workers() {
    let (named, other) = (Simulated::start(), Simulated::start());
    named.redirect_sessions(&other.endpoint, ALWAYS);
    other.refuse_sessions();
    let connect_timeout = Duration::from_millis(200);
    let error = Connection::open(Config { connect_timeout, ..config(&named) }).unwrap_err().to_string();
    let chain = format!("no more sessions (redirected: {} -> {})", named.endpoint, other.endpoint);
    assert!(error.contains(&chain), "{error}");
}

#[test]
fn workers_that_redirect_to_each_other_are_an_error_that_names_them() {
    let (one, two) = (Simulated::start(), Simulated::start());
    one.redirect_sessions(&two.endpoint, ALWAYS);
    two.redirect_sessions(&one.endpoint, ALWAYS);
    let error = Connection::open(config(&one)).unwrap_err().to_string();
    let chain = format!("{0} -> {1} -> {0} -> {1} -> ", one.endpoint, two.endpoint);
    assert!(error.contains(&chain), "{error}");
}

/// The session goes on at the worker that the user named, which is in the list although another one opened the session.
#[test]
fn a_session_that_was_redirected_fails_over_to_the_worker_that_the_user_named() {
    let (named, other) = (Simulated::start(), Simulated::start());
    named.redirect_sessions(&other.endpoint, 1);
    let failover = Some(FailoverConfig { folder: std::env::temp_dir(), limit: 1 << 30 });
    let retention = Retention { failover, ..Retention::default() };
    let (connection, _) = Connection::open(Config { retention, ..config(&named) }).unwrap();
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!((named.sessions(), other.sessions()), (0, 1));
    other.refuse_sessions();
    other.forget();
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!(named.sessions(), 1);
}

/// A worker that has moved, and whose address another program may use, must not keep the user's worker from being asked.
#[test]
fn a_worker_that_does_not_answer_leaves_time_for_the_one_that_the_user_named() {
    let named = Simulated::start();
    // Connections are queued and never accepted.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::tcp("127.0.0.1", silent.local_addr().unwrap().port());
    named.redirect_sessions(&endpoint, 1);
    let connect_timeout = Duration::from_secs(1);
    let (connection, _) = Connection::open(Config { connect_timeout, ..config(&named) }).unwrap();
    connection.call(&MemoryInfo { device: 0 }, 0).unwrap();
    assert_eq!(named.sessions(), 1);
}
