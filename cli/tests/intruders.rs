//! Hostile input on an open port: garbage, slow clients, unauthorised clients. The worker replies or closes the connection, logs it, and
//! keeps serving others.

mod raw;

use std::process::Command;
use std::time::{Duration, Instant};

use fastrand::Rng;
use raw::{Client, MIB, REMORA, TIMEOUT, Worker, hello};
use transport::{Endpoint, Link, TransportError, greet, tls};
use wire::{Flags, Header, Hello, Opcode, RejectCode, WireError};

/// Reads everything that the worker sends until it closes the connection.
fn read_to_end(link: &Link) -> Vec<u8> {
    link.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match link.read(&mut buffer) {
            Ok(0) => return all,
            Ok(bytes) => all.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("the worker did not close: {error}"),
        }
    }
}

fn reject_code(error: &TransportError) -> Option<RejectCode> {
    match error {
        TransportError::Wire(WireError::Rejected { code, .. }) => Some(*code),
        _ => None,
    }
}

#[test]
fn garbage_is_closed_and_logged_and_the_worker_serves_on() {
    let worker = Worker::start(&[]);
    let mut random = Rng::with_seed(0x1234_5678_9abc_def1);
    for round in 0..20 {
        let link = worker.connect();
        let bytes: Vec<u8> = (0..random.u64(..3000) + 24).map(|_| random.u8(..)).collect();
        let _ = link.write_all(&bytes);
        let answer = read_to_end(&link);
        assert!(answer.len() < 1000, "round {round}");
    }
    let link = worker.connect();
    link.write_all(b"GET / HTTP/1.1\r\nHost: gpu\r\n\r\n").unwrap();
    read_to_end(&link);
    worker.client().synchronize().unwrap();
    worker.wait_for_log("not a HIPR frame");
}

#[test]
fn truncated_and_absurd_frames_before_the_proof_are_closed() {
    let worker = Worker::start(&[]);
    // Half a header, or half a Hello, then nothing.
    for bytes in [&b"HIPR\x01\x00"[..], &Header::new(Opcode::Hello, Flags::UNSEQUENCED, 0, 400).encode()] {
        let link = worker.connect();
        link.write_all(bytes).unwrap();
        drop(link);
    }
    for length in [wire::MAX_HANDSHAKE_BYTES + 1, 1 << 40, u64::MAX] {
        let link = worker.connect();
        link.write_all(&Header::new(Opcode::Hello, Flags::UNSEQUENCED, 0, length).encode()).unwrap();
        read_to_end(&link);
    }
    // A session request where a Hello is expected.
    let link = worker.connect();
    link.write_all(&Header::new(Opcode::Goodbye, Flags::NONE, 1, 0).encode()).unwrap();
    read_to_end(&link);
    // A Hello whose fields extend past its end.
    let link = worker.connect();
    let mut frame = Header::new(Opcode::Hello, Flags::UNSEQUENCED, 0, 60).encode().to_vec();
    frame.extend([0xff; 60]);
    link.write_all(&frame).unwrap();
    read_to_end(&link);
    worker.client().synchronize().unwrap();
}

#[test]
fn absurd_frames_inside_a_session_end_its_connection_only() {
    let worker = Worker::start(&["--grace-closed", "0.2"]);
    for (opcode, length) in [(Opcode::Write, u64::MAX), (Opcode::Launch, 1 << 50), (Opcode::Fill, 1 << 30)] {
        let client = worker.client();
        client.link.write_all(&Header::new(opcode, Flags::POSTED, 1, length).encode()).unwrap();
        read_to_end(&client.link);
    }
    let mut client = worker.client();
    client.link.write_all(&Header::new(Opcode::Goodbye, Flags::NONE, 17, 0).encode()).unwrap();
    read_to_end(&client.link);
    client.link = worker.connect();
    worker.client().synchronize().unwrap();
    worker.wait_until("without the broken sessions", |status| status.sessions.len() <= 1);
}

#[test]
fn random_frames_inside_a_session_never_kill_its_process() {
    let worker = Worker::start(&["--toolchain", "/nonexistent"]);
    let mut random = Rng::with_seed(0xfeed_beef_cafe_0001);
    let mut client = worker.client();
    let base = client.arena();
    client.load_kernels();
    client.allocate(base + 16 * MIB, MIB);
    let opcodes: Vec<Opcode> = Opcode::ALL
        .iter()
        .copied()
        .filter(|opcode| !matches!(opcode, Opcode::Goodbye | Opcode::ResetDevice | Opcode::Compile))
        .filter(|opcode| !opcode.is_unsequenced())
        .collect();
    for _ in 0..3000 {
        let opcode = opcodes[random.usize(..opcodes.len())];
        let length = opcode.head_bytes().unwrap_or(12) as u64 + random.u64(..3) * random.u64(..40);
        let mut payload: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        // Half of the numbers are plausible: small ones, or valid addresses.
        for chunk in payload.chunks_exact_mut(8) {
            let value = match random.u64(..6) {
                0 => random.u64(..8),
                1 => base + 16 * MIB + random.u64(..4096),
                2 => 0x100 + random.u64(..4),
                3 => 0,
                _ => continue,
            };
            chunk.copy_from_slice(&value.to_le_bytes());
        }
        client.send_raw(opcode.number(), Flags::POSTED, &payload);
    }
    // The frames may include kernels that never end and host functions that never return; the session must still reply.
    client.call(&wire::ResetDevice { device: 0 }, &[]).expect("the session process still runs");
    client.synchronize().expect("the session works after a reset");
    assert!(!worker.log().contains("died"), "{}", worker.log());
}

#[test]
fn another_version_is_told_which_ones_there_are() {
    let worker = Worker::start(&[]);
    let link = worker.connect();
    let old = Hello { min_version: 90, max_version: 99, ..hello() };
    greet::send(&link, &old).unwrap();
    let error = greet::expect::<wire::Challenge>(&link, wire::MAX_HANDSHAKE_BYTES).unwrap_err();
    assert_eq!(reject_code(&error), Some(RejectCode::Version));
    assert!(error.to_string().contains("90..=99"), "{error}");
    worker.wait_for_log("refused: the client speaks versions 90..=99");
}

#[test]
fn a_token_is_proved_or_the_connection_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    const TOKEN: &str = "correct horse battery staple";
    transport::token::write_new(&file, TOKEN).unwrap();
    let worker = Worker::start(&["--token-file", file.to_str().unwrap()]);
    let error = Client::open(worker.connect(), Some(b"wrong")).err().unwrap();
    assert_eq!(reject_code(&error), Some(RejectCode::Access));
    let error = Client::open(worker.connect(), None).err().unwrap();
    assert_eq!(reject_code(&error), Some(RejectCode::Access));
    let mut client = Client::open(worker.connect(), Some(TOKEN.as_bytes())).unwrap();
    client.synchronize().unwrap();
    assert_eq!(worker.status_with(Some(TOKEN.as_bytes())).sessions.len(), 1);
}

#[test]
fn other_machines_are_not_listened_to_without_a_token() {
    let output = Command::new(REMORA)
        .args(["worker", "--listen", "0.0.0.0:0", "--ready"])
        .env_remove("REMORA_TOKEN")
        .env_remove("REMORA_TOKEN_FILE")
        .output()
        .unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("token"));
}

#[test]
fn a_connection_that_dawdles_is_closed_in_time() {
    let worker = Worker::start(&["--handshake-timeout", "0.4"]);
    let link = worker.connect();
    let begin = Instant::now();
    let mut bytes = Vec::new();
    wire::encode_request(&hello(), &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
    for byte in &bytes {
        if link.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        if begin.elapsed() > Duration::from_secs(3) {
            break;
        }
    }
    read_to_end(&link);
    assert!(begin.elapsed() < Duration::from_secs(10));
    worker.client().synchronize().unwrap();
}

#[test]
fn more_sessions_than_allowed_are_told_so() {
    let worker = Worker::start(&["--max-sessions", "1"]);
    let first = worker.client();
    let error = Client::open(worker.connect(), None).err().unwrap();
    assert_eq!(reject_code(&error), Some(RejectCode::Full));
    drop(first);
}

#[test]
fn a_session_runs_over_tls_with_a_pinned_certificate() {
    let worker = Worker::start(&["--tls-self-signed"]);
    let Endpoint::Tls { host, port } = worker.endpoint.clone() else { panic!("{}", worker.endpoint) };
    let log = worker.log();
    let pin = log.split("REMORA_TLS_CA=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let config = tls::client_config(&tls::Trust::parse(pin).unwrap()).unwrap();
    let connect = || {
        let link = Endpoint::tcp(&host, port).connect(TIMEOUT).unwrap();
        tls::connect(link, &host, config.clone(), TIMEOUT).unwrap()
    };
    let mut client = Client::open(connect(), None).unwrap();
    let a = client.arena() + 16 * MIB;
    client.allocate(a, 8 * MIB);
    let data: Vec<u8> = (0..8 * MIB).map(|at| (at % 241) as u8).collect();
    client.post(&wire::Write { stream: 0, destination: a }, &data);
    assert_eq!(client.read(a, 8 * MIB).unwrap(), data);
    client.link.shutdown();
    client.reattach(connect()).unwrap();
    assert_eq!(client.read(a, 16).unwrap(), data[..16]);
    // Plain-text bytes on the TLS port are rejected.
    let plain = Endpoint::tcp(&host, port).connect(TIMEOUT).unwrap();
    greet::send(&plain, &hello()).unwrap();
    read_to_end(&plain);
}

#[test]
fn a_stop_signal_ends_the_worker_and_its_sessions() {
    let mut worker = Worker::start(&[]);
    let mut client = worker.client();
    client.synchronize().unwrap();
    // SAFETY: the process is our child and has not been reaped.
    unsafe { libc::kill(worker.child.id() as libc::pid_t, libc::SIGTERM) };
    let status = worker.child.wait().unwrap();
    assert!(status.success(), "{status}");
    read_to_end(&client.link);
    assert!(worker.endpoint.connect(Duration::from_secs(1)).is_err());
}

#[test]
fn a_unix_socket_serves_like_a_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("unix:{}", folder.path().join("worker").display());
    let worker = Worker::start(&["--listen", &path]);
    let mut client = worker.client();
    let a = client.arena() + 16 * MIB;
    client.allocate(a, 4096);
    client.post(&wire::Fill { stream: 0, destination: a, value: 9, width: 4, count: 1 }, &[]);
    assert_eq!(client.word(a), 9);
}
