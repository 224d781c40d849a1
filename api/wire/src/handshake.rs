//! How a connection begins, for both sides: version range, challenge, proof, welcome or a reason why not.
//!
//! Sans I/O: the machines here take and give messages; who reads and writes them, and where nonces and secrets
//! come from, is the caller's business. The token itself never travels, only HMACs over fresh nonces.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::{Challenge, Hello, MAX_LINKS, MAX_VERSION, MIN_VERSION, Proof, Reject, WireError, capability};

/// Why a worker refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RejectCode {
    /// No protocol version in common.
    Version = 1,
    /// The token was wrong or missing.
    Access = 2,
    /// The session asked for does not exist (any more), or its secret was not proved.
    UnknownSession = 3,
    /// The worker takes no more sessions.
    Full = 4,
    /// The Hello or Proof made no sense.
    BadRequest = 5,
    /// The worker could not start the session.
    Failed = 6,
    /// The session is elsewhere now: the text is the endpoint, and nothing else. Told only to who proved its secret.
    Moved = 7,
    /// The session is suspended: its client should ask again later.
    Away = 8,
}

impl RejectCode {
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
            _ => return None,
        })
    }

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
        })
    }
}

impl From<Reject> for WireError {
    fn from(reject: Reject) -> WireError {
        let code = RejectCode::from_number(reject.code).unwrap_or(RejectCode::BadRequest);
        WireError::Rejected { code, text: reject.text }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Purpose {
    Session = 0,
    Inspect = 1,
    /// Another link for a session that is there.
    Strand = 2,
    /// Sessions are taken away and brought, see `Snapshot` and `Resume`.
    Administer = 3,
}

/// The newest version both ranges contain.
pub fn negotiate(min: u16, max: u16) -> Option<u16> {
    let version = max.min(MAX_VERSION);
    (version >= min.max(MIN_VERSION)).then_some(version)
}

fn hmac(key: &[u8], label: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC takes keys of any length, so this cannot fail; an empty MAC would only ever deny.
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

/// The client's answer to a challenge. `secret` belongs to the session named in the Hello.
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
            let text = "the worker wants a token and none is configured (a worker that was given none serves only its own user)";
            return Err(RejectCode::Access.reject(text).into());
        }
        None => {}
    }
    if let Some(secret) = secret {
        proof.session = session_mac(secret, hello, challenge).finalize().into_bytes().into();
    }
    Ok(proof)
}

/// The worker's side of a connection that has sent its Hello.
#[derive(Debug, Clone)]
pub struct Greeting {
    hello: Hello,
    challenge: Challenge,
}

impl Greeting {
    /// Takes a Hello. `nonce` must be fresh and random. The challenge is to be sent; so is a rejection.
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
            let text = format!("there is no strand {} of session {}", hello.received, hello.session_id);
            return Err(RejectCode::BadRequest.reject(text));
        }
        let wants_proof =
            requires_token || hello.session_id != 0 || hello.capabilities & capability::SHORT_GREETING == 0;
        Ok(Greeting { hello, challenge: Challenge { version, nonce, requires_token, wants_proof } })
    }

    pub fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    pub fn version(&self) -> u16 {
        self.challenge.version
    }

    /// Checks the client's proof. `token` is the worker's, `secret` that of the session the Hello names, if it
    /// is known. On success the connection may have what its Hello asks for.
    pub fn accept(
        self,
        proof: &Proof,
        token: Option<&[u8]>,
        secret: Option<&[u8; 32]>,
    ) -> Result<Hello, Reject> {
        self.check_token(proof, token)?;
        self.accept_session(proof, secret)
    }

    /// The first of the worker's tokens that the client has proved to know. The protocol carries no name of a token, so that clients
    /// need none: the worker tries each, which costs about a microsecond. `None` if no token is required.
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
        // A worker that demands a token but has none must let nobody in.
        match tokens.into_iter().position(proves) {
            Some(place) => Ok(Some(place)),
            None => Err(RejectCode::Access.reject("the token is missing or wrong")),
        }
    }

    /// Checks the proof of the session that the Hello names, if it names one. Access must have been checked.
    pub fn accept_session(self, proof: &Proof, secret: Option<&[u8; 32]>) -> Result<Hello, Reject> {
        if self.hello.session_id != 0 {
            let proved = secret.is_some_and(|secret| {
                session_mac(secret, &self.hello, &self.challenge).verify_slice(&proof.session).is_ok()
            });
            if !proved {
                let id = self.hello.session_id;
                return Err(RejectCode::UnknownSession
                    .reject(format!("session {id:016x} is not known here (any more)")));
            }
        }
        Ok(self.hello)
    }
}
