//! The worker's side of the handshake: authenticates a client and checks what it may do.

use std::time::{Duration, Instant};

use transport::{Link, TransportError, greet};
use wire::{Greeting, Hello, MAX_HANDSHAKE_BYTES, Proof, Reject, RejectCode, WireError};

use crate::supervisor::handshakes::{HandshakeSlot, Stage};
use crate::supervisor::sessions::Sessions;
use crate::supervisor::tenants::{Tenants, Who};

/// First byte of every TLS connection: the handshake record type.
const TLS_HANDSHAKE: u8 = 0x16;

/// Reason why a connection was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the handshake took too long")]
    TooSlow,
    #[error(
        "the client speaks TLS but this address does not: connect to HOST:PORT without tls://, or start this worker with \
         --tls-self-signed or --tls-cert"
    )]
    SpeaksTls,
    #[error(
        "the client does not speak TLS but this address requires it: connect to tls://HOST:PORT and set REMORA_TLS_CA"
    )]
    SpeaksPlain,
    #[error(
        "{refusal} (the connection is from user {found}; this worker has no token and serves only its own user {own})"
    )]
    OtherUser { found: String, own: u32, refusal: Box<Refusal> },
    #[error("{}", .0.text)]
    Rejected(Reject),
    #[error(transparent)]
    Link(#[from] TransportError),
}

/// An authenticated client.
pub(crate) struct AuthenticatedClient {
    pub(crate) hello: Hello,
    pub(crate) version: u16,
    pub(crate) who: Who,
}

/// What a handshake is checked against.
pub(crate) struct HandshakeCheck<'a> {
    pub(crate) tenants: &'a Tenants,
    pub(crate) sessions: &'a Sessions,
    pub(crate) slot: &'a HandshakeSlot,
    pub(crate) timeout: Duration,
}

impl HandshakeCheck<'_> {
    /// Reads Hello, sends a challenge and checks the proof. If this returns a rejection, it has been sent.
    pub(crate) fn welcome(&self, link: &Link) -> Result<AuthenticatedClient, Refusal> {
        let deadline = Instant::now() + self.timeout;
        let owner = match self.tenants.have_tokens() {
            true => None,
            // SAFETY: takes no arguments and cannot fail.
            false => Some((link.peer_user(), unsafe { libc::geteuid() })),
        };
        let trusted = owner.is_some_and(|(found, own)| found.is_some_and(|user| user == own || user == 0));
        let answer = self.exchange(link, deadline, trusted);
        if let Err(refusal) = &answer {
            let reject = match refusal {
                Refusal::Rejected(reject) => Some(reject.clone()),
                Refusal::TooSlow => Some(RejectCode::BadRequest.reject("the handshake took too long")),
                Refusal::Link(TransportError::Wire(error)) => {
                    Some(RejectCode::BadRequest.reject(error.to_string()))
                }
                // The client recognises a frame in place of a TLS record, and can report the cause.
                Refusal::SpeaksTls => Some(RejectCode::BadRequest.reject(refusal.to_string())),
                _ => None,
            };
            if let Some(reject) = reject {
                let _ = link.set_write_timeout(Some(Duration::from_millis(100)));
                let _ = greet::send(link, &reject);
            }
            if matches!(refusal, Refusal::SpeaksTls) {
                drain(link);
            }
        }
        answer.map_err(|refusal| match owner {
            Some((found, own)) if !trusted => {
                let found = found.map_or("unknown".to_owned(), |user| user.to_string());
                Refusal::OtherUser { found, own, refusal: Box::new(refusal) }
            }
            _ => refusal,
        })
    }

    fn exchange(
        &self,
        link: &Link,
        deadline: Instant,
        trusted: bool,
    ) -> Result<AuthenticatedClient, Refusal> {
        link.set_write_timeout(Some(left(deadline)?)).map_err(TransportError::from)?;
        let hello: Hello = receive(link, deadline)?;
        if hello.session_id == 0 && hello.purpose == wire::Purpose::Session as u8 && !arena_is_sane(&hello) {
            return Err(Refusal::Rejected(RejectCode::BadRequest.reject("the offered arena is invalid")));
        }
        let returns = hello.session_id != 0 && self.sessions.knows(hello.session_id);
        self.slot.advance(if returns { Stage::Returning } else { Stage::Greeted });
        let greeting = Greeting::new(hello, greet::nonce()?, !trusted).map_err(Refusal::Rejected)?;
        greet::send(link, greeting.challenge())?;
        let proof = match greeting.challenge().wants_proof {
            true => receive(link, deadline)?,
            // No proof is required: the worker has no token, and the client names no existing session.
            false => Proof::default(),
        };
        let version = greeting.version();
        let tokens = self.tenants.tokens();
        let proved = greeting.check_token(&proof, tokens.iter().map(|(token, _)| token.as_slice()));
        let who = match proved.map_err(Refusal::Rejected)? {
            Some(index) => tokens.into_iter().nth(index).map(|(_, who)| who),
            None => self.tenants.owner(),
        };
        let denied = || Refusal::Rejected(RejectCode::Access.reject("the token is missing or wrong"));
        let who = who.ok_or_else(denied)?;
        let secret = match greeting.hello().session_id {
            0 => None,
            id => self.sessions.secret_of(id, &who),
        };
        let hello = greeting.accept_session(&proof, secret.as_ref()).map_err(Refusal::Rejected)?;
        if !self.slot.advance(Stage::Admitted) {
            let text = "too many connections are being served; try again";
            return Err(Refusal::Rejected(RejectCode::Full.reject(text)));
        }
        link.set_read_timeout(None).map_err(TransportError::from)?;
        link.set_write_timeout(None).map_err(TransportError::from)?;
        Ok(AuthenticatedClient { hello, version, who })
    }
}

/// Refuses a client that does not start with TLS, with a plain-text rejection that it understands.
pub(crate) fn expect_tls(link: &Link, timeout: Duration) -> Result<(), Refusal> {
    link.set_read_timeout(Some(timeout)).map_err(TransportError::from)?;
    let mut first = [0];
    match link.peek(&mut first) {
        Ok(1) if first[0] != TLS_HANDSHAKE => {
            let reject = RejectCode::BadRequest.reject(TransportError::SpeaksTls.to_string());
            let _ = link.set_write_timeout(Some(Duration::from_millis(100)));
            let _ = greet::send(link, &reject);
            drain(link);
            Err(Refusal::SpeaksPlain)
        }
        Ok(1..) => Ok(()),
        Ok(0) => Err(TransportError::Closed.into()),
        Err(error) if is_timeout(&error) => Err(Refusal::TooSlow),
        Err(error) => Err(TransportError::from(error).into()),
    }
}

/// Reads what the client has sent: closing with unread bytes resets the connection and would lose the reply.
fn drain(link: &Link) {
    let _ = link.set_read_timeout(Some(Duration::from_millis(100)));
    let _ = link.read(&mut [0; 4096]);
}

/// Reads one frame by the deadline, however slowly its bytes arrive.
fn receive<O: wire::Operation>(link: &Link, deadline: Instant) -> Result<O, Refusal> {
    let mut head = [0; wire::Header::BYTES];
    read_by(link, &mut head, deadline)?;
    if greet::is_tls(&head) {
        return Err(Refusal::SpeaksTls);
    }
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

/// Checks the arena. An empty one is valid: the worker chooses. Otherwise it must be a page-aligned range of user space.
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
