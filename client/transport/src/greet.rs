//! The handshake over a link, blocking: sends and receives whole small frames, and implements the client's side. The `wire` crate
//! has the rules; this moves the bytes.

use std::time::{Duration, Instant};

use wire::{
    Challenge, Flags, Frame, Header, Hello, Opcode, Operation, Reject, Welcome, WireError, decode_request,
};

use crate::{Link, SharedMemory, TransportError};

/// Sends one unsequenced frame.
pub fn send<O: Operation>(link: &Link, fields: &O) -> Result<(), TransportError> {
    let mut bytes = Vec::with_capacity(Header::BYTES + fields.size());
    wire::encode_request(fields, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
    Ok(link.write_all(&bytes)?)
}

/// Reads one whole frame. `limit` bounds its payload below what the header may claim.
pub fn receive(link: &Link, limit: u64) -> Result<Frame, TransportError> {
    receive_attached(link, limit, &mut None)
}

/// Like [`receive`], and takes shared memory that is attached to the frame.
fn receive_attached(
    link: &Link,
    limit: u64,
    memory: &mut Option<SharedMemory>,
) -> Result<Frame, TransportError> {
    let mut head = [0; Header::BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match link.read_attached(&mut head[filled..], memory)? {
            // A TLS server answers a plain frame with a seven-byte alert and closes.
            0 if is_tls(&head[..filled]) => return Err(TransportError::SpeaksTls),
            0 => return Err(TransportError::Closed),
            bytes => filled += bytes,
        }
    }
    if is_tls(&head) {
        return Err(TransportError::SpeaksTls);
    }
    let header = Header::decode(&head)?;
    if header.payload_len > limit {
        return Err(WireError::TooLarge { what: "handshake frame", bytes: header.payload_len, limit }.into());
    }
    let mut payload = vec![0; header.payload_len as usize];
    link.read_exact(&mut payload)?;
    Ok(Frame { header, payload })
}

/// Whether bytes in place of a frame are a TLS record: an alert or a handshake, version 3.
pub fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 3, ..])
}

/// Reads one frame that must be this operation. A rejection in its place is returned as an error with its reason.
pub fn expect<O: Operation>(link: &Link, limit: u64) -> Result<O, TransportError> {
    expect_attached(link, limit, &mut None)
}

fn expect_attached<O: Operation>(
    link: &Link,
    limit: u64,
    memory: &mut Option<SharedMemory>,
) -> Result<O, TransportError> {
    let frame = receive_attached(link, limit, memory)?;
    if frame.header.is(O::OPCODE) {
        return Ok(decode_request::<O>(&frame.payload)?.0);
    }
    if frame.header.is(Opcode::Reject) {
        let (reject, _) = decode_request::<Reject>(&frame.payload)?;
        return Err(WireError::from(reject).into());
    }
    let found = wire::name(frame.header.opcode);
    Err(WireError::Unexpected { expected: O::OPCODE.name(), found }.into())
}

/// Credentials of a client in a handshake.
#[derive(Clone, Debug, Default)]
pub struct Credentials<'a> {
    /// Token of the worker, if it has one.
    pub token: Option<&'a [u8]>,
    /// The secret of the session that the Hello names.
    pub secret: Option<&'a [u8; 32]>,
}

/// Performs the handshake and waits for the worker's reply: `Welcome` for a session, `Status` for an inspection.
///
/// The challenge must arrive within `timeout`. The reply may take `patience`: by then the worker is known to be alive, and may be
/// starting a device.
pub fn greet<Answer: Operation>(
    link: &Link,
    hello: &Hello,
    credentials: &Credentials<'_>,
    timeout: Duration,
    patience: Duration,
) -> Result<Answer, TransportError> {
    Ok(greet_measured(link, hello, credentials, timeout, patience)?.0)
}

/// Like [`greet`], but also returns how long the challenge took, which is about one network round trip.
pub fn greet_measured<Answer: Operation>(
    link: &Link,
    hello: &Hello,
    credentials: &Credentials<'_>,
    timeout: Duration,
    patience: Duration,
) -> Result<(Answer, Duration), TransportError> {
    let greeted = greet_attached(link, hello, credentials, timeout, patience)?;
    Ok((greeted.answer, greeted.distance))
}

/// Result of a handshake.
#[derive(Debug)]
pub struct Greeted<Answer> {
    /// The worker's reply.
    pub answer: Answer,
    /// How long the challenge took, which is about one network round trip.
    pub distance: Duration,
    /// Memory to continue in, if the worker has attached some.
    pub memory: Option<SharedMemory>,
}

/// Like [`greet`], with everything that the handshake brought.
pub fn greet_attached<Answer: Operation>(
    link: &Link,
    hello: &Hello,
    credentials: &Credentials<'_>,
    timeout: Duration,
    patience: Duration,
) -> Result<Greeted<Answer>, TransportError> {
    let start = Instant::now();
    let distance = prove(link, hello, credentials, timeout)?;
    link.set_read_timeout(Some(patience.max(timeout.saturating_sub(start.elapsed()))))?;
    let mut memory = None;
    let answer = expect_attached(link, wire::MAX_WELCOME_BYTES, &mut memory)?;
    link.set_read_timeout(None)?;
    link.set_write_timeout(None)?;
    Ok(Greeted { answer, distance, memory })
}

/// Performs the handshake up to the proof, if one is required. The worker's next frame answers what is sent next. Returns how
/// long the challenge took. Leaves the handshake's timeouts set on the link.
pub fn prove(
    link: &Link,
    hello: &Hello,
    credentials: &Credentials<'_>,
    timeout: Duration,
) -> Result<Duration, TransportError> {
    let start = Instant::now();
    link.set_write_timeout(Some(timeout))?;
    link.set_read_timeout(Some(timeout))?;
    send(link, hello)?;
    let challenge: Challenge = expect(link, wire::MAX_HANDSHAKE_BYTES)?;
    let distance = start.elapsed();
    let proof = wire::prove(hello, &challenge, credentials.token, credentials.secret)?;
    if challenge.wants_proof {
        send(link, &proof)?;
    }
    Ok(distance)
}

/// Opens a session or reattaches to one. Also returns the round trip time to the worker.
pub fn open_session(
    link: &Link,
    hello: &Hello,
    credentials: &Credentials<'_>,
    timeout: Duration,
    patience: Duration,
) -> Result<(Welcome, Duration), TransportError> {
    greet_measured(link, hello, credentials, timeout, patience)
}

/// Returns 32 random bytes, for a nonce or a secret.
pub fn nonce() -> Result<[u8; 32], TransportError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}
