//! The worker's side of a handshake, up to the proof: who is there, and may they have what they ask for.

use std::time::{Duration, Instant};

use transport::{Link, TransportError, greet};
use wire::{Greeting, Hello, MAX_HANDSHAKE_BYTES, Proof, Reject, RejectCode, WireError};

/// Why a connection was turned away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the handshake took too long")]
    TooSlow,
    #[error("{}", .0.text)]
    Rejected(Reject),
    #[error(transparent)]
    Link(#[from] TransportError),
}

/// A client that has proved itself.
pub(crate) struct Guest {
    pub(crate) hello: Hello,
    pub(crate) version: u16,
}

/// Reads Hello, sends a challenge, checks the proof. A rejection has been sent when this returns it.
pub(crate) fn welcome(
    link: &Link,
    timeout: Duration,
    token: Option<&[u8]>,
    secret_of: impl FnOnce(u64) -> Option<[u8; 32]>,
) -> Result<Guest, Refusal> {
    let deadline = Instant::now() + timeout;
    let answer = exchange(link, deadline, token, secret_of);
    if let Err(refusal) = &answer {
        let reject = match refusal {
            Refusal::Rejected(reject) => reject.clone(),
            Refusal::TooSlow => RejectCode::BadRequest.reject("the handshake took too long"),
            Refusal::Link(TransportError::Wire(error)) => RejectCode::BadRequest.reject(error.to_string()),
            Refusal::Link(_) => return answer,
        };
        let _ = link.set_write_timeout(Some(Duration::from_millis(100)));
        let _ = greet::send(link, &reject);
    }
    answer
}

fn exchange(
    link: &Link,
    deadline: Instant,
    token: Option<&[u8]>,
    secret_of: impl FnOnce(u64) -> Option<[u8; 32]>,
) -> Result<Guest, Refusal> {
    link.set_write_timeout(Some(left(deadline)?)).map_err(TransportError::from)?;
    let hello: Hello = receive(link, deadline)?;
    if hello.session_id == 0 && hello.purpose == wire::Purpose::Session as u8 && !arena_is_sane(&hello) {
        return Err(Refusal::Rejected(RejectCode::BadRequest.reject("the arena offered makes no sense")));
    }
    let greeting = Greeting::new(hello, greet::nonce()?, token.is_some()).map_err(Refusal::Rejected)?;
    greet::send(link, greeting.challenge())?;
    let proof = match greeting.challenge().wants_proof {
        true => receive(link, deadline)?,
        // Nothing that a client could prove is asked for: no token, and no session of before.
        false => Proof::default(),
    };
    let version = greeting.version();
    let secret = match greeting.hello().session_id {
        0 => None,
        id => secret_of(id),
    };
    let hello = greeting.accept(&proof, token, secret.as_ref()).map_err(Refusal::Rejected)?;
    link.set_read_timeout(None).map_err(TransportError::from)?;
    link.set_write_timeout(None).map_err(TransportError::from)?;
    Ok(Guest { hello, version })
}

/// Reads one frame by the deadline, however slowly its bytes trickle in.
fn receive<O: wire::Operation>(link: &Link, deadline: Instant) -> Result<O, Refusal> {
    let mut head = [0; wire::Header::BYTES];
    read_by(link, &mut head, deadline)?;
    let header = wire::Header::decode(&head).map_err(TransportError::from)?;
    if !header.is(O::OPCODE) {
        let found = wire::name(header.opcode);
        let error = WireError::Unexpected { expected: O::OPCODE.name(), found };
        return Err(TransportError::from(error).into());
    }
    if header.payload_len > MAX_HANDSHAKE_BYTES {
        let (bytes, limit) = (header.payload_len, MAX_HANDSHAKE_BYTES);
        let error = WireError::TooLarge { what: "handshake frame", bytes, limit };
        return Err(TransportError::from(error).into());
    }
    let mut payload = vec![0; header.payload_len as usize];
    read_by(link, &mut payload, deadline)?;
    Ok(wire::decode_request::<O>(&payload).map_err(TransportError::from)?.0)
}

fn read_by(link: &Link, mut buffer: &mut [u8], deadline: Instant) -> Result<(), Refusal> {
    while !buffer.is_empty() {
        link.set_read_timeout(Some(left(deadline)?)).map_err(TransportError::from)?;
        match link.read(buffer) {
            Ok(0) => return Err(TransportError::Closed.into()),
            Ok(bytes) => buffer = &mut buffer[bytes..],
            Err(error) if is_timeout(&error) => return Err(Refusal::TooSlow),
            Err(error) => return Err(TransportError::from(error).into()),
        }
    }
    Ok(())
}

fn left(deadline: Instant) -> Result<Duration, Refusal> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(Refusal::TooSlow),
        left => Ok(left),
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// No arena at all is fine: the worker chooses. One that is offered must be a page-aligned range of user space.
fn arena_is_sane(hello: &Hello) -> bool {
    let (base, bytes) = (hello.arena_base, hello.arena_bytes);
    if base == 0 && bytes == 0 {
        return true;
    }
    (wire::MIN_ARENA_BYTES..=wire::MAX_ARENA_BYTES).contains(&bytes)
        && base % 4096 == 0
        && bytes % 4096 == 0
        && base.checked_add(bytes).is_some_and(|end| end <= 1 << 47)
}
