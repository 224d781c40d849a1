//! TLS links: which certificates are trusted, and that both directions work at the same time.

use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use transport::tls::{self, Identity, Trust};
use transport::{Endpoint, Link, Listener};

const TIMEOUT: Duration = Duration::from_secs(5);

fn listen(identity: &Identity) -> (Endpoint, thread::JoinHandle<Option<Link>>) {
    let listener = Listener::bind(&Endpoint::tcp("127.0.0.1", 0)).unwrap();
    let endpoint = listener.endpoint().unwrap();
    let config = identity.server_config().unwrap();
    let server = thread::spawn(move || {
        let (link, _) = listener.accept().unwrap();
        tls::accept(link, config, TIMEOUT).ok()
    });
    (endpoint, server)
}

fn connect(endpoint: &Endpoint, trust: &Trust) -> Result<Link, transport::TransportError> {
    tls::connect(endpoint.connect(TIMEOUT)?, "localhost", tls::client_config(trust)?, TIMEOUT)
}

fn identity() -> Identity {
    Identity::self_signed(&["localhost".to_owned()]).unwrap()
}

#[test]
fn a_pinned_certificate_is_believed_and_another_is_not() {
    let identity = identity();
    let (endpoint, server) = listen(&identity);
    let trust = Trust::parse(&identity.fingerprint_text()).unwrap();
    let link = connect(&endpoint, &trust).unwrap();
    let far = server.join().unwrap().unwrap();
    assert!(link.is_encrypted());
    link.write_all(b"hello").unwrap();
    let mut text = [0; 5];
    far.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello");

    let (endpoint, server) = listen(&identity);
    assert!(connect(&endpoint, &Trust::Fingerprint([0; 32])).is_err());
    assert!(server.join().unwrap().is_none());
}

#[test]
fn a_certificate_file_is_an_authority_for_itself() {
    let folder = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, certified.cert.pem()).unwrap();
    std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let identity = Identity::from_files(&certificate, &key).unwrap();
    let (endpoint, server) = listen(&identity);
    connect(&endpoint, &Trust::Authority(certificate)).unwrap();
    assert!(server.join().unwrap().is_some());

    // Another certificate is not trusted.
    let (endpoint, server) = listen(&self::identity());
    assert!(connect(&endpoint, &Trust::Authority(folder.path().join("cert.pem"))).is_err());
    assert!(server.join().unwrap().is_none());
}

#[test]
fn files_that_hold_no_certificate_are_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.pem");
    std::fs::File::create(&path).unwrap().write_all(b"nothing").unwrap();
    let error = tls::client_config(&Trust::Authority(path)).unwrap_err().line();
    assert!(error.contains("empty.pem"), "{error}");
    assert!(Trust::parse("sha256:12").is_none());
}

#[test]
fn both_directions_flow_at_once_through_one_connection() {
    let identity = identity();
    let (endpoint, server) = listen(&identity);
    let near = connect(&endpoint, &Trust::Fingerprint(identity.fingerprint())).unwrap();
    let far = server.join().unwrap().unwrap();
    let bytes: Arc<Vec<u8>> = Arc::new((0..8u32 << 20).map(|i| (i * 7 + (i >> 11)) as u8).collect());
    let mut threads = Vec::new();
    for link in [near, far] {
        let (writer, sent) = (link.clone(), bytes.clone());
        threads.push(thread::spawn(move || writer.write_all(&sent).unwrap()));
        let expected = bytes.clone();
        threads.push(thread::spawn(move || {
            let mut received = vec![0; expected.len()];
            link.read_exact(&mut received).unwrap();
            assert!(received == *expected);
        }));
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_link_that_cannot_write_says_so_and_loses_nothing() {
    let identity = identity();
    let (endpoint, server) = listen(&identity);
    let near = connect(&endpoint, &Trust::Fingerprint(identity.fingerprint())).unwrap();
    let far = server.join().unwrap().unwrap();
    let block: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    let mut sent = 0;
    while let Ok(bytes) = near.try_write_vectored(&[std::io::IoSlice::new(&block)]) {
        sent += bytes;
        assert!(sent < 1 << 30, "the socket takes everything");
        if bytes < block.len() {
            break;
        }
    }
    let reader = thread::spawn(move || {
        let mut all = vec![0; sent];
        far.read_exact(&mut all).unwrap();
        all
    });
    while !near.try_flush().unwrap() {
        near.wait(false, true, Some(Duration::from_millis(50))).unwrap();
    }
    let all = reader.join().unwrap();
    assert!(all.iter().enumerate().all(|(i, &byte)| byte == (i % block.len()) as u8));
}
