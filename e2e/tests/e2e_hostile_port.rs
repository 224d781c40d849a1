//! Hostile input on the worker's port: every connection gets a reply or is closed, the worker keeps serving, and none of its processes
//! dies.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

use e2e::{Program, Worker, WorkerOptions, eventually};
use fastrand::Rng;
use transport::greet::{self, Credentials};
use transport::{Link, TransportError, tls};
use wire::{Flags, Header, Hello, Opcode, Operation, RejectCode, WireError};

const TIMEOUT: Duration = Duration::from_secs(20);

fn connect(worker: &Worker) -> TcpStream {
    let stream = TcpStream::connect((worker.host(), worker.port())).expect("the worker accepts");
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Asserts that the worker still serves a real program and none of its processes crashed.
fn expect_service(worker: &Worker) {
    Program::example("vector_add").run(worker, &[]).expect_silent_success().expect_line("PASS vector_add");
    let log = worker.log();
    assert!(!log.contains("panicked") && !log.contains("died"), "{log}");
}

/// Reads everything that the worker sends until it closes the connection.
fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // The worker closed the connection with unread bytes of ours.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the worker neither replied nor closed the connection: {error}"),
    }
    bytes
}

/// The rejection in the worker's reply, if there is one.
fn rejection(bytes: &[u8]) -> Option<wire::Reject> {
    let (frame, _) = wire::Frame::take(bytes).expect("the worker's frames are complete")?;
    assert!(frame.header.is(Opcode::Reject), "{}", wire::name(frame.header.opcode));
    Some(wire::decode_request::<wire::Reject>(&frame.payload).unwrap().0)
}

fn hello() -> Hello {
    Hello {
        min_version: wire::MIN_VERSION,
        max_version: wire::MAX_VERSION,
        client: "intruder".to_owned(),
        pid: std::process::id(),
        ..Hello::default()
    }
}

fn frame<O: Operation>(fields: &O) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode_request(fields, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
    bytes
}

/// Opens a session without the client library, for sending invalid requests.
fn session(worker: &Worker) -> Link {
    let link = Link::from_tcp(connect(worker)).unwrap();
    let (welcome, _) =
        greet::open_session(&link, &hello(), &Credentials::default(), TIMEOUT, TIMEOUT).unwrap();
    assert_ne!(welcome.session_id, 0);
    link.set_read_timeout(Some(TIMEOUT)).unwrap();
    link
}

fn request(opcode: u16, number: u32, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let mut header = Header::new(Opcode::Goodbye, flags, number, payload.len() as u64);
    header.opcode = opcode;
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

fn random_bytes(random: &mut Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.u8(..)).collect()
}

#[test]
fn garbage_instead_of_a_greeting_is_closed() {
    let worker = Worker::start();
    let mut random = Rng::with_seed(1);
    for length in [24, 100, 4096, 100_000] {
        let mut stream = connect(&worker);
        let _ = stream.write_all(&random_bytes(&mut random, length));
        if let Some(reject) = rejection(&read_to_end(&mut stream)) {
            assert_eq!(RejectCode::from_number(reject.code), Some(RejectCode::BadRequest), "{}", reject.text);
        }
    }
    let mut stream = connect(&worker);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    read_to_end(&mut stream);
    expect_service(&worker);
    worker.expect_log("refused");
}

#[test]
fn truncated_greetings_are_closed() {
    let worker = Worker::start();
    let whole = frame(&hello());
    for length in [0, 1, 23, 24, 25, whole.len() - 1] {
        let mut stream = connect(&worker);
        stream.write_all(&whole[..length]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        read_to_end(&mut stream);
    }
    // A Hello whose payload ends inside a field, although its header is valid.
    let mut stream = connect(&worker);
    let payload = &whole[Header::BYTES..whole.len() - 7];
    stream.write_all(&request(Opcode::Hello.number(), 0, Flags::UNSEQUENCED, payload)).unwrap();
    let reject = rejection(&read_to_end(&mut stream)).expect("a complete frame gets a reply");
    assert_eq!(RejectCode::from_number(reject.code), Some(RejectCode::BadRequest), "{}", reject.text);
    expect_service(&worker);
}

#[test]
fn absurd_lengths_are_refused_before_anything_is_read() {
    let worker = Worker::start();
    for length in [1 << 20, 1 << 40, u64::MAX] {
        let mut stream = connect(&worker);
        let header = Header::new(Opcode::Hello, Flags::UNSEQUENCED, 0, length);
        stream.write_all(&header.encode()).unwrap();
        let reject = rejection(&read_to_end(&mut stream)).expect("the worker replies");
        assert_eq!(RejectCode::from_number(reject.code), Some(RejectCode::BadRequest), "{}", reject.text);
    }
    for opcode in [Opcode::Write, Opcode::LoadModule, Opcode::Allocate] {
        let link = session(&worker);
        link.write_all(&Header::new(opcode, Flags::NONE, 1, u64::MAX / 2).encode()).unwrap();
        let mut buffer = [0; 256];
        while !matches!(link.read(&mut buffer), Ok(0) | Err(_)) {}
    }
    expect_service(&worker);
}

#[test]
fn versions_that_do_not_meet_are_refused_with_both_ranges() {
    let worker = Worker::start();
    for (min_version, max_version) in [(100, 200), (0, 0), (7, 3)] {
        let mut stream = connect(&worker);
        stream.write_all(&frame(&Hello { min_version, max_version, ..hello() })).unwrap();
        let reject = rejection(&read_to_end(&mut stream)).expect("the worker replies");
        assert_eq!(RejectCode::from_number(reject.code), Some(RejectCode::Version), "{}", reject.text);
        assert!(reject.text.contains(&format!("{min_version}..={max_version}")), "{}", reject.text);
    }
    expect_service(&worker);
}

#[test]
fn frames_out_of_turn_and_forged_sessions_are_refused() {
    let worker = Worker::start();
    let mut stream = connect(&worker);
    stream.write_all(&request(Opcode::SynchronizeDevice.number(), 1, Flags::NONE, &[0; 4])).unwrap();
    let reject = rejection(&read_to_end(&mut stream)).expect("the worker replies");
    assert_eq!(RejectCode::from_number(reject.code), Some(RejectCode::BadRequest), "{}", reject.text);

    let link = Link::from_tcp(connect(&worker)).unwrap();
    let forged = Hello { session_id: 4711, ..hello() };
    let secret = [7; 32];
    let credentials = Credentials { token: None, secret: Some(&secret) };
    let error = greet::open_session(&link, &forged, &credentials, TIMEOUT, TIMEOUT).unwrap_err();
    let TransportError::Wire(WireError::Rejected { code, text }) = error else { panic!("{error}") };
    assert_eq!(code, RejectCode::UnknownSession, "{text}");
    expect_service(&worker);
}

#[test]
fn unknown_operations_and_flags_are_answered_with_an_error_and_the_session_goes_on() {
    let worker = Worker::start();
    let link = session(&worker);
    for (number, opcode, flags) in [
        (1, 0x0999, Flags::NONE),
        (2, 0xffff, Flags::NONE),
        (3, Opcode::SynchronizeDevice.number(), Flags(0x4000)),
        // A push, which only workers may send, and a handshake frame inside a session.
        (4, Opcode::Output.number(), Flags::NONE),
    ] {
        link.write_all(&request(opcode, number, flags, &[0; 4])).unwrap();
        let reply = next_reply(&link);
        assert!(reply.header.is_reply() && reply.header.is_error(), "{opcode:#x}: {:?}", reply.header);
        assert_eq!(reply.header.request_id, number, "{opcode:#x}");
    }
    link.write_all(&request(Opcode::MemoryInfo.number(), 5, Flags::NONE, &[0; 4])).unwrap();
    let reply = next_reply(&link);
    assert!(!reply.header.is_error(), "the session still answers");
    let info = wire::decode_reply::<wire::MemoryInfo>(&reply.header, &reply.payload).unwrap().unwrap().0;
    assert!(info.total > 0);
    expect_service(&worker);
}

fn next_reply(link: &Link) -> wire::Frame {
    loop {
        let frame = greet::receive(link, 1 << 20).expect("the worker answers");
        if frame.header.is_reply() {
            return frame;
        }
    }
}

#[test]
fn a_frame_cut_short_inside_a_session_ends_only_that_session() {
    let worker = Worker::start();
    let link = session(&worker);
    link.write_all(&Header::new(Opcode::Write, Flags::POSTED, 1, 1 << 20).encode()).unwrap();
    link.write_all(&[1; 1000]).unwrap();
    link.shutdown();
    drop(link);
    expect_service(&worker);
    eventually("the session whose connection was cut has ended", || worker.status().sessions().is_empty());
}

#[test]
fn random_requests_in_a_session_hurt_nobody() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--grace-closed", "0.1", "--watchdog", "1"]));
    // Leave out requests that end or block a session, because the requests after them would not be read.
    let ends = [Opcode::Goodbye, Opcode::HostFunction];
    let known: Vec<Opcode> = Opcode::ALL.iter().copied().filter(|opcode| !ends.contains(opcode)).collect();
    let mut answered = 0;
    for seed in 1..=SEEDS {
        let mut random = Rng::with_seed(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let link = session(&worker);
        link.set_write_timeout(Some(TIMEOUT)).unwrap();
        for number in 1..=REQUESTS {
            let opcode = known[random.usize(..known.len())];
            let payload = plausible(&mut random, opcode);
            let flags = [Flags::NONE, Flags::POSTED][random.usize(..2)];
            let (opcode, payload) = match is_huge(opcode, &payload) {
                true => (Opcode::MemoryInfo, vec![0; 4]),
                false => (opcode, payload),
            };
            if link.write_all(&request(opcode.number(), number, flags, &payload)).is_err() {
                break;
            }
        }
        answered += u64::from(has_reply(&link, REQUESTS + 1));
        link.shutdown();
    }
    // A protocol error may close the connection, but a complete frame with invalid contents gets a reply.
    assert!(answered > SEEDS / 2, "only {answered} of {SEEDS} sessions still replied");
    eventually("all sessions are over", || worker.status().sessions().is_empty());
    expect_service(&worker);
}

#[test]
fn rectangles_of_endless_empty_rows_take_no_time() {
    let worker = Worker::start();
    let link = session(&worker);
    let (stream, address, height) = (0, 0x2000_0000_0000, u64::MAX);
    let mut bytes = Vec::new();
    let copy = wire::CopyRect { stream, destination: address, source: address, height, ..Default::default() };
    wire::encode_request(&copy, &[], Flags::POSTED, 1, 0, &mut bytes);
    let fill = wire::FillRect { stream, destination: address, height, ..Default::default() };
    wire::encode_request(&fill, &[], Flags::POSTED, 2, 0, &mut bytes);
    let read = wire::ReadRect { stream, source: address, height, ..Default::default() };
    wire::encode_request(&read, &[], Flags::NONE, 3, 0, &mut bytes);
    link.write_all(&bytes).unwrap();
    assert!(has_reply(&link, 4));
}

const SEEDS: u64 = 12;
const REQUESTS: u32 = 500;

/// A payload that usually has the right size, and whose numbers are mostly small or inside the arena.
fn plausible(random: &mut Rng, opcode: Opcode) -> Vec<u8> {
    let length = match opcode.head_bytes() {
        Some(bytes) if random.usize(..4) != 0 => bytes + [0, 0, 16, 64][random.usize(..4)],
        _ => random.usize(..120),
    };
    let mut payload = random_bytes(random, length);
    for word in payload.chunks_mut(8) {
        let value = match random.u64(..5) {
            0 => random.u64(..4),
            1 => random.u64(..1024),
            2 => 0x2000_0000_0000 + random.u64(..16) * 4096,
            3 => 0,
            _ => continue,
        };
        let bytes = value.to_le_bytes();
        let length = word.len();
        word.copy_from_slice(&bytes[..length]);
    }
    payload
}

/// Whether a request creates gigabytes of memory shared by host and device. Such memory is compared whenever work ends, so everything
/// after it takes seconds. That is intended, and affects only this session.
fn is_huge(opcode: Opcode, payload: &[u8]) -> bool {
    const HUGE: u64 = 16 << 20;
    let bytes = match opcode {
        Opcode::Adopt => wire::decode_request::<wire::Adopt>(payload).map(|(adopt, _)| adopt.bytes),
        Opcode::Allocate => {
            wire::decode_request::<wire::Allocate>(payload).map(|(allocate, _)| allocate.bytes)
        }
        _ => return false,
    };
    bytes.is_ok_and(|bytes| bytes > HUGE)
}

/// Whether the session still replies to a valid request; otherwise its connection must be closed.
fn has_reply(link: &Link, number: u32) -> bool {
    if link.write_all(&request(Opcode::MemoryInfo.number(), number, Flags::NONE, &[0; 4])).is_err() {
        return false;
    }
    loop {
        match greet::receive(link, 1 << 30) {
            Ok(frame) if frame.header.is_reply() && frame.header.request_id == number => return true,
            Ok(_) => {}
            Err(TransportError::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the session neither replies nor is closed")
            }
            Err(_) => return false,
        }
    }
}

/// Number of half-open connections in the tests below.
const HALF_OPEN: usize = 1000;

/// Connects from a given address of the loopback network.
fn connect_from(source: [u8; 4], worker: &Worker) -> TcpStream {
    let address = |ip: [u8; 4], port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ip) },
        sin_zero: [0; 8],
    };
    let (from, to) = (address(source, 0), address([127, 0, 0, 1], worker.port()));
    let bytes = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: the new descriptor gets an owner at once, and both addresses are readable for the length passed.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let stream = TcpStream::from(std::os::fd::OwnedFd::from_raw_fd(fd));
        assert_eq!(libc::bind(fd, (&raw const from).cast(), bytes), 0, "{}", std::io::Error::last_os_error());
        assert_eq!(
            libc::connect(fd, (&raw const to).cast(), bytes),
            0,
            "{}",
            std::io::Error::last_os_error()
        );
        stream
    }
}

/// Queries the worker's status over a new connection from 127.0.0.1, and returns how long that took.
fn login(worker: &Worker) -> Duration {
    let start = Instant::now();
    let link = Link::from_tcp(connect(worker)).unwrap();
    let hello = Hello { purpose: wire::Purpose::Inspect as u8, ..hello() };
    let status = greet::greet::<wire::Status>(&link, &hello, &Credentials::default(), TIMEOUT, TIMEOUT);
    status.expect("the login succeeds");
    start.elapsed()
}

#[test]
fn a_login_takes_less_than_a_second_among_a_thousand_half_open_connections() {
    e2e::raise_descriptor_limit(2 * HALF_OPEN);
    let worker = Worker::start();
    let mut crowd: Vec<TcpStream> = (0..HALF_OPEN).map(|_| connect(&worker)).collect();
    let from_one_address = login(&worker);
    assert!(from_one_address < Duration::from_secs(1), "{from_one_address:?}");
    // Partial Hello frames from many addresses, a few connections each.
    let whole = frame(&hello());
    crowd.clear();
    for at in 0..HALF_OPEN {
        let mut stream = connect_from([127, 0, 1, (at % 250) as u8 + 1], &worker);
        let _ = stream.write_all(&whole[..whole.len() - 1]);
        crowd.push(stream);
    }
    let from_many = login(&worker);
    assert!(from_many < Duration::from_secs(1), "{from_many:?}");
    expect_service(&worker);
    let lines = worker.log().lines().count();
    assert!(lines < 100, "{lines} lines are logged");
    drop(crowd);
}

#[test]
fn a_session_is_reattached_among_connections_that_all_sent_a_hello() {
    e2e::raise_descriptor_limit(2 * HALF_OPEN);
    let worker = Worker::start_with(&WorkerOptions::with(&["--grace-closed", "60"]));
    let link = Link::from_tcp(connect(&worker)).unwrap();
    let credentials = Credentials::default();
    let (welcome, _) = greet::open_session(&link, &hello(), &credentials, TIMEOUT, TIMEOUT).unwrap();
    link.shutdown();
    // Without the capability in the Hello, the worker demands an authentication proof on each connection, which never comes.
    let whole = frame(&hello());
    let flood: Vec<TcpStream> = (0..HALF_OPEN)
        .map(|_| {
            let mut stream = connect(&worker);
            let _ = stream.write_all(&whole);
            stream
        })
        .collect();
    let start = Instant::now();
    let again = Link::from_tcp(connect(&worker)).unwrap();
    let hello = Hello { session_id: welcome.session_id, ..hello() };
    let credentials = Credentials { token: None, secret: Some(&welcome.session_secret) };
    let (found, _) = greet::open_session(&again, &hello, &credentials, TIMEOUT, TIMEOUT).unwrap();
    assert_eq!(found.session_id, welcome.session_id);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    drop(flood);
}

#[test]
fn a_tls_handshake_gets_through_among_a_thousand_half_open_ones() {
    e2e::raise_descriptor_limit(2 * HALF_OPEN);
    let worker = Worker::start_with(&WorkerOptions::with(&["--tls-self-signed"]));
    let log = worker.expect_log("REMORA_TLS_CA=");
    let pin = log.split("REMORA_TLS_CA=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    // The first bytes of a TLS handshake, and nothing after them.
    let crowd: Vec<TcpStream> = (0..HALF_OPEN)
        .map(|_| {
            let mut stream = connect(&worker);
            let _ = stream.write_all(&[0x16, 3, 1]);
            stream
        })
        .collect();
    let start = Instant::now();
    let config = tls::client_config(&tls::Trust::parse(pin).unwrap()).unwrap();
    let link = tls::connect(Link::from_tcp(connect(&worker)).unwrap(), "127.0.0.1", config, TIMEOUT).unwrap();
    let hello = Hello { purpose: wire::Purpose::Inspect as u8, ..hello() };
    greet::greet::<wire::Status>(&link, &hello, &Credentials::default(), TIMEOUT, TIMEOUT).unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    drop(crowd);
}

#[test]
fn silent_connections_keep_nobody_out() {
    let worker = Worker::start();
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(&worker)).collect();
    expect_service(&worker);
    drop(silent);
}
