//! A client and a worker over a link that loses, delays and cuts the connection: every frame arrives exactly once, in order.

use std::collections::VecDeque;

use fastrand::Rng;
use wire::*;

/// One side of a session: what it sends and keeps, and what it has received.
struct Side {
    is_client: bool,
    window: SendWindow<Vec<u8>>,
    counter: ReceiveCounter,
    unsent: VecDeque<Vec<u8>>,
    /// Bytes in transit to this side, and bytes that have arrived.
    wire: VecDeque<u8>,
    arrived: Vec<u8>,
    values_sent: u64,
    values_seen: u64,
}

impl Side {
    fn new(is_client: bool) -> Side {
        Side {
            is_client,
            window: SendWindow::new(2000),
            counter: ReceiveCounter::new(),
            unsent: VecDeque::new(),
            wire: VecDeque::new(),
            arrived: Vec::new(),
            values_sent: 0,
            values_seen: 0,
        }
    }

    /// Creates a frame that carries the next value and a body of random length.
    fn produce(&mut self, random: &mut Rng) {
        let body = vec![self.values_sent as u8; random.usize(..90)];
        let number = self.window.sent() + 1;
        let mut bytes = Vec::new();
        if self.is_client {
            let write = Write { stream: 0, destination: self.values_sent };
            encode_request(&write, &body, Flags::POSTED, number as u32, 0, &mut bytes);
        } else {
            let deliver = Deliver { token: self.values_sent, offset: 0 };
            encode_request(&deliver, &body, Flags::NONE, 0, 0, &mut bytes);
        }
        if !self.window.has_room(bytes.len() as u64) {
            return;
        }
        self.values_sent += 1;
        assert_eq!(self.window.push(bytes.clone(), bytes.len() as u64), number);
        self.unsent.push_back(bytes);
    }

    /// Takes complete frames from the bytes that have arrived.
    fn consume(&mut self, random: &mut Rng) {
        while let Some((frame, taken)) = Frame::take(&self.arrived).expect("received a malformed frame") {
            self.arrived.drain(..taken);
            let header = frame.header;
            let arrival = match self.is_client {
                true => self.counter.arrive(&header),
                false => self.counter.arrive_request(&header).expect("numbers are in turn"),
            };
            match arrival {
                Arrival::Next(_) => {
                    let (value, body) = if self.is_client {
                        let (Deliver { token, .. }, body) = decode_request(&frame.payload).unwrap();
                        (token, body)
                    } else {
                        let (Write { destination, .. }, body) = decode_request(&frame.payload).unwrap();
                        (destination, body)
                    };
                    assert_eq!(value, self.values_seen, "out of order, lost or doubled");
                    assert!(body.iter().all(|&byte| byte == value as u8));
                    self.values_seen += 1;
                    self.counter.count(header.payload_len);
                }
                Arrival::Unsequenced => {
                    let (Ack { received }, _) = decode_request(&frame.payload).unwrap();
                    self.window.acknowledge(received).expect("only what was sent is acknowledged");
                }
                Arrival::Duplicate => panic!("resumption is exact"),
            }
        }
        if (self.counter.ack_due() || random.u64(..10) == 0)
            && let Some(ack) = self.counter.take_ack()
        {
            let mut bytes = Vec::new();
            encode_request(&ack, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
            self.unsent.push_back(bytes);
        }
    }

    /// Starts a new connection to a peer that has received this many frames.
    fn reattach(&mut self, received: u64) {
        self.wire.clear();
        self.arrived.clear();
        self.unsent = self.window.resume(received).expect("kept").map(|(_, frame)| frame.clone()).collect();
        self.counter.told_by_handshake();
    }
}

fn exchange(from: &mut Side, to: &mut Side, random: &mut Rng) {
    if random.u64(..2) == 0
        && let Some(bytes) = from.unsent.pop_front()
    {
        to.wire.extend(bytes);
    }
    let bytes = random.usize(..200).min(to.wire.len());
    to.arrived.extend(to.wire.drain(..bytes));
    to.consume(random);
}

fn run(seed: u64, cut_every: u64, values: u64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let (mut client, mut worker) = (Side::new(true), Side::new(false));
    let mut cuts = 0;
    for step in 0u64.. {
        assert!(step < 2_000_000, "no progress with seed {seed}");
        for side in [&mut client, &mut worker] {
            if side.values_sent < values {
                side.produce(&mut random);
            }
        }
        exchange(&mut client, &mut worker, &mut random);
        exchange(&mut worker, &mut client, &mut random);
        if cut_every > 0 && random.u64(..cut_every) == 0 {
            cuts += 1;
            let (of_client, of_worker) = (worker.counter.received(), client.counter.received());
            client.reattach(of_client);
            worker.reattach(of_worker);
        }
        if client.values_seen == values && worker.values_seen == values {
            return cuts;
        }
    }
    0
}

#[test]
fn every_frame_arrives_exactly_once_in_order_across_any_cuts() {
    let cuts: u64 = (1..=60).map(|seed| run(seed, 3 + seed % 40, 300)).sum();
    assert!(cuts > 1000, "{cuts}");
}

#[test]
fn a_link_that_never_breaks_needs_no_resending() {
    assert_eq!(run(7, 0, 1000), 0);
}

#[test]
fn the_handshake_lets_in_who_proves_and_nobody_else() {
    let token = b"a token";
    let hello = Hello { min_version: 1, max_version: 9, session_id: 0, nonce: [1; 32], ..Hello::default() };
    let greet = |hello: &Hello, nonce| Greeting::new(hello.clone(), nonce, true).unwrap();
    let greeting = greet(&hello, [2; 32]);
    assert_eq!(greeting.version(), MAX_VERSION);
    let proof = prove(&hello, greeting.challenge(), Some(token), None).unwrap();
    assert_eq!(greeting.clone().accept(&proof, Some(token), None), Ok(hello.clone()));

    let code = |result: Result<Hello, Reject>| result.unwrap_err().code;
    let wrong = prove(&hello, greeting.challenge(), Some(b"a guess"), None).unwrap();
    assert_eq!(code(greeting.clone().accept(&wrong, Some(token), None)), RejectCode::Access as u32);
    assert_eq!(
        code(greeting.clone().accept(&Proof::default(), Some(token), None)),
        RejectCode::Access as u32
    );
    // A worker that requires a token but has none rejects everyone, and a proof is valid for one nonce only.
    assert_eq!(code(greeting.accept(&proof, None, None)), RejectCode::Access as u32);
    assert_eq!(code(greet(&hello, [3; 32]).accept(&proof, Some(token), None)), RejectCode::Access as u32);

    // A session can be resumed only with its secret, and only with the received count that was proved.
    let secret = [9; 32];
    let again = Hello { session_id: 5, received: 17, ..hello };
    let greeting = greet(&again, [4; 32]);
    let proof = prove(&again, greeting.challenge(), Some(token), Some(&secret)).unwrap();
    assert!(greeting.clone().accept(&proof, Some(token), Some(&secret)).is_ok());
    for (known, hello) in [
        (None, again.clone()),
        (Some(&[8; 32]), again.clone()),
        (Some(&secret), Hello { received: 18, ..again.clone() }),
        (Some(&secret), Hello { session_id: 6, ..again.clone() }),
    ] {
        let result = greet(&hello, [4; 32]).accept(&proof, Some(token), known);
        assert_eq!(code(result), RejectCode::UnknownSession as u32);
    }
}

#[test]
fn only_who_has_nothing_to_prove_is_let_in_without_a_proof() {
    let short = Hello {
        min_version: 1,
        max_version: 1,
        capabilities: capability::SHORT_GREETING,
        ..Hello::default()
    };
    let wants =
        |hello: &Hello, token| Greeting::new(hello.clone(), [1; 32], token).unwrap().challenge().wants_proof;
    assert!(!wants(&short, false));
    assert!(wants(&short, true), "a token is proved");
    assert!(wants(&Hello { session_id: 5, ..short.clone() }, false), "a session is proved");
    assert!(wants(&Hello { capabilities: 0, ..short.clone() }, false), "a client that sends one is heard");
    let greeting = Greeting::new(short, [1; 32], true).unwrap();
    assert!(greeting.accept(&Proof::default(), Some(b"token"), None).is_err());
}

#[test]
fn versions_are_negotiated_or_refused_with_both_ranges_named() {
    assert_eq!(negotiate(1, 1), Some(1));
    assert_eq!(negotiate(0, 7), Some(MAX_VERSION));
    assert_eq!(negotiate(MAX_VERSION + 1, MAX_VERSION + 2), None);
    assert_eq!(negotiate(1, 0), None);
    let hello = Hello { min_version: 90, max_version: 91, ..Hello::default() };
    let reject = Greeting::new(hello, [0; 32], false).unwrap_err();
    assert_eq!(reject.code, RejectCode::Version as u32);
    assert!(reject.text.contains("90..=91"), "{}", reject.text);
    let newer = Challenge { version: 4, ..Challenge::default() };
    let hello = Hello { min_version: 1, max_version: 1, ..Hello::default() };
    assert!(prove(&hello, &newer, None, None).is_err());
}

#[test]
fn a_client_without_a_token_says_so_itself() {
    let hello = Hello { min_version: 1, max_version: 1, ..Hello::default() };
    let challenge = Challenge { version: 1, requires_token: true, ..Challenge::default() };
    let error = prove(&hello, &challenge, None, None).unwrap_err();
    assert!(matches!(error, WireError::Rejected { code: RejectCode::Access, .. }), "{error}");
}
