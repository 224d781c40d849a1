//! Limits of the server: slow, silent and too many clients are cut off, and well-behaved clients are served.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use http_serve::{Bounds, serve_within};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

fn bounds() -> Bounds {
    Bounds { header: LONG, body: LONG, write: LONG, connections: 64 }
}

async fn tick() -> Body {
    let ticks = futures_util::stream::unfold(0, |count| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        (count < 10).then_some((Ok::<_, std::io::Error>(Bytes::from("tick\n")), count + 1))
    });
    Body::from_stream(ticks)
}

async fn start(bounds: Bounds, tls: Option<Arc<rustls::ServerConfig>>) -> SocketAddr {
    let router = Router::new()
        .route("/healthz", get(|| async { "fine" }))
        .route("/ticks", get(tick))
        .route("/echo", post(|body: Bytes| async { body }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_within(bounds, listener, router, tls, std::future::pending()));
    address
}

async fn send(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Reads everything the server sends until it closes the connection.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text)).await;
    let _ = read.expect("the server answers or closes");
    text
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn requests_that_are_not_finished_give_way_to_new_ones() {
    let address = start(bounds(), None).await;
    let mut crowd = Vec::new();
    for _ in 0..200 {
        crowd.push(send(address, "GET /healthz HT").await);
    }
    let start = Instant::now();
    assert!(answer(&mut send(address, HEALTH).await).await.ends_with("fine"));
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(answer(&mut crowd[0]).await, "", "the oldest was closed");
}

#[tokio::test]
async fn headers_that_do_not_end_are_closed() {
    let address = start(Bounds { header: SHORT, ..bounds() }, None).await;
    for text in ["", "GET /healthz HTTP/1.1\r\nhost: "] {
        answer(&mut send(address, text).await).await;
    }
    // A keep-alive connection that sends no further request.
    let mut kept = send(address, "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await;
    assert!(answer(&mut kept).await.ends_with("fine"));
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up_and_a_whole_one_is_answered() {
    let address = start(Bounds { body: SHORT, ..bounds() }, None).await;
    let mut slow = send(address, "POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nabc").await;
    let text = answer(&mut slow).await;
    assert!(text.starts_with("HTTP/1.1 4"), "{text}");
    let whole = "POST /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc";
    assert!(answer(&mut send(address, whole).await).await.ends_with("abc"));
}

#[tokio::test]
async fn a_stream_outlives_every_time_limit_and_a_crowd() {
    let address = start(Bounds { header: SHORT, body: SHORT, write: SHORT, connections: 8 }, None).await;
    let mut ticks = send(address, "GET /ticks HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await;
    let mut first = [0; 16];
    ticks.read_exact(&mut first).await.unwrap();
    let mut crowd = Vec::new();
    for _ in 0..50 {
        crowd.push(send(address, "GET /healthz HT").await);
    }
    let text = answer(&mut ticks).await;
    assert_eq!(text.matches("tick").count(), 10, "{text}");
}

#[tokio::test]
async fn https_is_served_and_silent_handshakes_are_closed() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let address = start(Bounds { header: SHORT, ..bounds() }, Some(Arc::new(server))).await;
    answer(&mut send(address, "").await).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    assert!(text.ends_with("fine"), "{text}");
}

/// Raises the soft limit of file descriptors to the hard limit.
fn raise_descriptor_limit(count: usize) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for both calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    assert!(limit.rlim_cur > count as u64, "this test needs {count} file descriptors");
}

/// A connection that finds the queue full is tried again after a second only.
#[tokio::test]
async fn a_crowd_connects_at_once_while_the_server_is_too_busy_to_accept() {
    const CROWD: usize = 1500;
    raise_descriptor_limit(2 * CROWD);
    let listener = http_serve::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut crowd = Vec::new();
    for number in 0..CROWD {
        let connected = tokio::time::timeout(PATIENCE / 2, TcpStream::connect(address));
        let start = Instant::now();
        crowd.push(connected.await.expect("the queue has room").unwrap());
        // The kernel's first retry comes after one second.
        assert!(start.elapsed() < Duration::from_millis(900), "connection {number} had to be tried again");
    }
}
