//! Connection handshake, for both sides: version range, challenge, proof, then welcome or rejection.
//!
//! Sans I/O: this module only processes messages. The caller reads and writes them, and supplies nonces and secrets. The token
//! itself is never sent, only HMACs over fresh nonces.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::{
    Challenge, Hello, MAX_LINKS, MAX_VERSION, MIN_VERSION, Proof, Reject, SessionId, WireError, capability,
};

/// Reason for which a worker rejects a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RejectCode {
    /// No protocol version in common.
    Version = 1,
    /// The token was wrong or missing.
    Access = 2,
    /// The requested session does not exist (any longer), or its secret was not proved.
    UnknownSession = 3,
    /// The worker accepts no more sessions.
    Full = 4,
    /// The Hello or Proof was invalid.
    BadRequest = 5,
    /// The worker could not start the session.
    Failed = 6,
    /// The session has moved: the text is the new endpoint, and nothing else. Sent only to clients that proved its secret. For a new
    /// session: another worker opens it. Sent only to clients with the capability `REDIRECTS`.
    Moved = 7,
    /// The session is suspended: its client should retry later.
    Away = 8,
    /// The session's process was killed because memory ran out. Sent only to clients that proved its secret.
    OutOfMemory = 9,
    /// An address of a migrating session is in use in the process that was to restore it. Another process may have it free.
    AddressTaken = 10,
}

impl RejectCode {
    /// Finds a code by its number on the wire.
    pub const fn from_number(code: u32) -> Option<RejectCode> {
        Some(match code {
            1 => RejectCode::Version,
            2 => RejectCode::Access,
            3 => RejectCode::UnknownSession,
            4 => RejectCode::Full,
            5 => RejectCode::BadRequest,
            6 => RejectCode::Failed,
            7 => RejectCode::Moved,
            8 => RejectCode::Away,
            9 => RejectCode::OutOfMemory,
            10 => RejectCode::AddressTaken,
            _ => return None,
        })
    }

    /// Builds the rejection with this code.
    pub fn reject(self, text: impl Into<String>) -> Reject {
        Reject { code: self as u32, text: text.into() }
    }
}

impl std::fmt::Display for RejectCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RejectCode::Version => "no common version",
            RejectCode::Access => "access denied",
            RejectCode::UnknownSession => "unknown session",
            RejectCode::Full => "worker full",
            RejectCode::BadRequest => "bad request",
            RejectCode::Failed => "worker failed",
            RejectCode::Moved => "session moved",
            RejectCode::Away => "session suspended",
            RejectCode::OutOfMemory => "out of memory",
            RejectCode::AddressTaken => "address in use",
        })
    }
}

impl From<Reject> for WireError {
    fn from(reject: Reject) -> WireError {
        let code = RejectCode::from_number(reject.code).unwrap_or(RejectCode::BadRequest);
        WireError::Rejected { code, text: reject.text }
    }
}

/// Purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Purpose {
    /// A new session, or a new connection of an existing one.
    Session = 0,
    /// The state of the worker.
    Inspect = 1,
    /// An additional link of an existing session.
    Strand = 2,
    /// Moves sessions between workers, see `Snapshot` and `Resume`.
    Administer = 3,
}

/// Returns the newest version that both ranges contain.
pub fn negotiate(min: u16, max: u16) -> Option<u16> {
    let version = max.min(MAX_VERSION);
    (version >= min.max(MIN_VERSION)).then_some(version)
}

fn hmac(key: &[u8], label: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC accepts keys of any length, so this cannot fail; the fallback MAC could only deny access.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key)
        .unwrap_or_else(|_| <Hmac<Sha256> as Mac>::new(&Default::default()));
    mac.update(label);
    for part in parts {
        mac.update(part);
    }
    mac
}

fn access_mac(token: &[u8], hello: &Hello, challenge: &Challenge) -> Hmac<Sha256> {
    hmac(token, b"remora access", &[&challenge.nonce, &hello.nonce])
}

fn session_mac(secret: &[u8; 32], hello: &Hello, challenge: &Challenge) -> Hmac<Sha256> {
    let (id, received) = (hello.session_id.to_le_bytes(), hello.received.to_le_bytes());
    hmac(secret, b"remora session", &[&challenge.nonce, &hello.nonce, &[hello.purpose], &id, &received])
}

/// Computes the client's answer to a challenge. `secret` belongs to the session named in the Hello.
pub fn prove(
    hello: &Hello,
    challenge: &Challenge,
    token: Option<&[u8]>,
    secret: Option<&[u8; 32]>,
) -> Result<Proof, WireError> {
    if !(hello.min_version..=hello.max_version).contains(&challenge.version) {
        let (found, min, max) = (challenge.version, hello.min_version, hello.max_version);
        return Err(WireError::Version { found, min, max });
    }
    let mut proof = Proof::default();
    match token {
        Some(token) => proof.access = access_mac(token, hello, challenge).finalize().into_bytes().into(),
        None if challenge.requires_token => {
            let text = "the worker requires a token and none is configured (a worker started without a token serves only its own user)";
            return Err(RejectCode::Access.reject(text).into());
        }
        None => {}
    }
    if let Some(secret) = secret {
        proof.session = session_mac(secret, hello, challenge).finalize().into_bytes().into();
    }
    Ok(proof)
}

/// Handshake state of the worker after it has received a Hello.
#[derive(Debug, Clone)]
pub struct Greeting {
    hello: Hello,
    challenge: Challenge,
}

impl Greeting {
    /// Processes a Hello. `nonce` must be fresh and random. The caller sends the challenge, or the rejection.
    pub fn new(hello: Hello, nonce: [u8; 32], requires_token: bool) -> Result<Greeting, Reject> {
        let Some(version) = negotiate(hello.min_version, hello.max_version) else {
            return Err(RejectCode::Version.reject(format!(
                "the client speaks versions {}..={}, this worker {MIN_VERSION}..={MAX_VERSION}",
                hello.min_version, hello.max_version
            )));
        };
        if hello.purpose > Purpose::Administer as u8 {
            return Err(RejectCode::BadRequest.reject(format!("purpose {} is unknown", hello.purpose)));
        }
        if hello.purpose == Purpose::Strand as u8
            && (hello.session_id == 0 || !(1..u64::from(MAX_LINKS)).contains(&hello.received))
        {
            let text = format!(
                "strand {} of session {} does not exist",
                hello.received,
                SessionId(hello.session_id)
            );
            return Err(RejectCode::BadRequest.reject(text));
        }
        let wants_proof =
            requires_token || hello.session_id != 0 || hello.capabilities & capability::SHORT_GREETING == 0;
        Ok(Greeting { hello, challenge: Challenge { version, nonce, requires_token, wants_proof } })
    }

    /// The challenge to send to the client.
    pub fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    /// What the client sent.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The version that both sides speak.
    pub fn version(&self) -> u16 {
        self.challenge.version
    }

    /// Verifies the client's proof. `token` is the worker's; `secret` is that of the session in the Hello, if the worker knows
    /// it. On success the connection may be used for the purpose in its Hello.
    pub fn accept(
        self,
        proof: &Proof,
        token: Option<&[u8]>,
        secret: Option<&[u8; 32]>,
    ) -> Result<Hello, Reject> {
        self.check_token(proof, token)?;
        self.accept_session(proof, secret)
    }

    /// Returns the index of the first of the worker's tokens that the client's proof matches, or `None` if no token is required.
    /// The protocol sends no token name, so that clients do not need one: the worker tries each token, which costs about a
    /// microsecond.
    pub fn check_token<'t>(
        &self,
        proof: &Proof,
        tokens: impl IntoIterator<Item = &'t [u8]>,
    ) -> Result<Option<usize>, Reject> {
        if !self.challenge.requires_token {
            return Ok(None);
        }
        let proves =
            |token| access_mac(token, &self.hello, &self.challenge).verify_slice(&proof.access).is_ok();
        // A worker that requires a token but has none must reject everyone.
        match tokens.into_iter().position(proves) {
            Some(place) => Ok(Some(place)),
            None => Err(RejectCode::Access.reject("the token is missing or wrong")),
        }
    }

    /// Verifies the proof for the session in the Hello, if there is one. Access must have been checked before.
    pub fn accept_session(self, proof: &Proof, secret: Option<&[u8; 32]>) -> Result<Hello, Reject> {
        if self.hello.session_id != 0 {
            let proved = secret.is_some_and(|secret| {
                session_mac(secret, &self.hello, &self.challenge).verify_slice(&proof.session).is_ok()
            });
            if !proved {
                let id = self.hello.session_id;
                return Err(RejectCode::UnknownSession
                    .reject(format!("session {id:016x} does not exist on this worker (any longer)")));
            }
        }
        Ok(self.hello)
    }
}
