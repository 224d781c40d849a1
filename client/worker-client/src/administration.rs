//! Administration client: takes a session from a worker and gives it to another, as `remora migrate` and worker managers do.
//!
//! A worker gives up a session only on request, after the receiving worker has confirmed that it has it. So whatever fails in
//! between, the session is in exactly one place, and its client finds it there.

use std::io::{self, BufWriter, ErrorKind, IntoInnerError, Read, Seek, Write};
use std::time::Duration;

use transport::tls::Trust;
use transport::{Address, Endpoint, Link, TransportError, greet};
use wire::{FinishMove, MAX_HANDSHAKE_BYTES, Operation, Purpose, RejectCode, WireError, decision};

use crate::address::WorkerAddress;
use crate::chunks::{ChunkReader, ChunkWriter};

/// Timeout for each step of a worker, beyond the time allowed for the session's work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Timeout for a worker to redirect programs that start, which waits for sessions that are being opened.
const REDIRECT_PATIENCE: Duration = Duration::from_secs(10);
const BUFFER_BYTES: usize = 1 << 20;
/// How often the restoration of a session is tried.
const ATTEMPTS: usize = 3;
/// Most sessions in one renewal of checkpoints.
const MOST_RENEWALS: usize = 256;

/// Error while taking or giving a session.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum MoveError {
    #[error("the worker at {endpoint}: {text}")]
    Worker { endpoint: String, text: String },
    /// The session's addresses are in use in the process that was to restore it; see [`in_new_processes`].
    #[error("the worker at {endpoint}: {text}")]
    AddressTaken { endpoint: String, text: String },
    /// It is older and does not know the request.
    #[error("the worker at {endpoint} is older and cannot redirect programs that start")]
    TooOld { endpoint: String },
    #[error("cannot read or write the session's snapshot")]
    File(#[source] io::Error),
}

/// A session that was taken from its worker, which keeps it stopped until a decision arrives. If this is dropped without one, the
/// session continues where it is.
#[derive(Debug)]
#[must_use = "the session is stopped until it gets a decision"]
pub struct StoppedSession {
    /// The worker, for error messages.
    worker: String,
    link: Link,
}

impl StoppedSession {
    /// Lets the session continue where it is.
    pub fn stay(self) -> Result<(), MoveError> {
        self.decide(decision::STAY, String::new())
    }

    /// Ends the session there. Its client waits until it is resumed and, unless that is at the same worker, [`redirect`]ed.
    pub fn suspend(self) -> Result<(), MoveError> {
        self.decide(decision::SUSPEND, String::new())
    }

    /// Ends the session there and redirects its client to `address`, where it must have been resumed.
    pub fn move_to(self, address: &Address) -> Result<(), MoveError> {
        self.decide(decision::MOVE, redirection(address))
    }

    fn decide(self, decision: u32, endpoint: String) -> Result<(), MoveError> {
        let StoppedSession { worker, link } = self;
        let decided = greet::send(&link, &FinishMove { decision, endpoint });
        decided
            .and_then(|()| greet::expect::<wire::Done>(&link, MAX_HANDSHAKE_BYTES))
            .map_err(said(&worker))?;
        Ok(())
    }
}

/// A link on which a worker hands a session over. [`snapshot`] and [`migrate`] request one from a worker; a worker that drains
/// makes one itself.
#[derive(Debug)]
pub struct Departing {
    worker: String,
    link: Link,
}

impl Departing {
    /// The link of a session that was ordered to leave. Its work may take `patience` to finish.
    pub fn new(worker: &str, link: Link, patience: Duration) -> Result<Departing, MoveError> {
        link.set_read_timeout(Some(patience.saturating_add(PATIENCE))).map_err(failed(worker))?;
        Ok(Departing { worker: worker.to_owned(), link })
    }

    /// Writes the session to `out`.
    pub fn write_to(self, out: &mut dyn Write) -> Result<StoppedSession, MoveError> {
        let mut chunks = ChunkReader::new(&self.link);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let bytes = chunks.read(&mut buffer).map_err(failed(&self.worker))?;
            if bytes == 0 {
                break;
            }
            out.write_all(&buffer[..bytes]).map_err(MoveError::File)?;
        }
        Ok(StoppedSession { worker: self.worker, link: self.link })
    }

    /// Gives the session to another worker, see [`migrate`]. If that worker refuses it, the session continues where it is.
    pub fn move_to(
        self,
        to: &WorkerAddress,
        tenant: Option<&str>,
        seen_at: Option<&Address>,
    ) -> Result<(), MoveError> {
        let mut taken = ChunkReader::new(&self.link);
        let given = pass_on(&mut taken, failed(&self.worker), to, || ask_to_resume(to, tenant));
        if let Err(MoveError::AddressTaken { .. }) = &given {
            // The next attempt must find the session running, so the source has to confirm that it stays.
            io::copy(&mut taken, &mut io::sink()).map_err(failed(&self.worker))?;
        }
        let stopped = StoppedSession { worker: self.worker, link: self.link };
        match given {
            Ok(_) => stopped.move_to(seen_at.unwrap_or(&to.public())),
            Err(error @ MoveError::AddressTaken { .. }) => stopped.stay().and(Err(error)),
            Err(error) => Err(error),
        }
    }
}

/// Copies a session to another worker, up to that worker's confirmation. Returns its size.
fn pass_on(
    from: &mut ChunkReader<'_>,
    unreadable: impl Fn(io::Error) -> MoveError,
    to: &WorkerAddress,
    ask: impl FnOnce() -> Result<Link, MoveError>,
) -> Result<u64, MoveError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    // Contacts the other worker only once there is data to send.
    let mut bytes = from.read(&mut buffer).map_err(&unreadable)?;
    let there = ask()?;
    let other = to.endpoint.to_string();
    there.set_write_timeout(Some(PATIENCE)).map_err(failed(&other))?;
    let mut given = ChunkWriter::new(&there);
    let mut size = 0;
    let sent = loop {
        if bytes == 0 {
            break given.finish();
        }
        if let Err(error) = given.write_all(&buffer[..bytes]) {
            break Err(error);
        }
        size += bytes as u64;
        bytes = from.read(&mut buffer).map_err(&unreadable)?;
    };
    finish_resuming(&other, &there, sent).map(|_| size)
}

/// Passes the checkpoint of a session on to a worker that stores it. Returns its size.
pub fn store_checkpoint(
    to: &WorkerAddress,
    session: &wire::StoreCheckpoint,
    from: &mut ChunkReader<'_>,
) -> Result<u64, MoveError> {
    pass_on(from, MoveError::File, to, || to.ask(session))
}

/// Removes the checkpoint of a session from a worker that stores it.
pub fn discard_checkpoint(at: &WorkerAddress, session: u64) -> Result<(), MoveError> {
    at.confirm(&wire::DiscardCheckpoint { session })
}

/// Has a worker hold the checkpoints of sessions that still run, as if they were new.
pub fn renew_checkpoints(at: &WorkerAddress, mut sessions: Vec<u64>) -> Result<(), MoveError> {
    while !sessions.is_empty() {
        // A request has a limited size.
        let rest = sessions.split_off(sessions.len().min(MOST_RENEWALS));
        at.confirm(&wire::RenewCheckpoints { sessions })?;
        sessions = rest;
    }
    Ok(())
}

/// Takes a session from a worker and writes it to `out`. Its work may take `patience` to finish. If it takes longer, or the
/// session has state that cannot be migrated, the session continues and the error says why.
pub fn snapshot(
    from: &WorkerAddress,
    session: u64,
    patience: Duration,
    out: &mut dyn Write,
) -> Result<StoppedSession, MoveError> {
    begin(from, session, patience)?.write_to(out)
}

fn ask_to_resume(to: &WorkerAddress, tenant: Option<&str>) -> Result<Link, MoveError> {
    match tenant {
        Some(tenant) => to.ask(&wire::ResumeFor { tenant: tenant.to_owned() }),
        // Older workers support only this request.
        None => to.ask(&wire::Resume {}),
    }
}

fn begin(from: &WorkerAddress, session: u64, patience: Duration) -> Result<Departing, MoveError> {
    let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    let link = from.ask(&wire::Snapshot { session, patience_ms })?;
    Departing::new(&from.endpoint.to_string(), link, patience)
}

/// Repeats the restoration of a session while its addresses are in use in the new process, up to three times in all: every process
/// has other random addresses.
pub fn in_new_processes<T>(mut restore: impl FnMut() -> Result<T, MoveError>) -> Result<T, MoveError> {
    for _ in 1..ATTEMPTS {
        match restore() {
            Err(MoveError::AddressTaken { .. }) => {}
            done => return done,
        }
    }
    restore()
}

/// Gives a snapshot to a worker with one tenant, which continues the session. Returns the session's id.
pub fn resume(to: &WorkerAddress, file: &mut (impl Read + Seek)) -> Result<u64, MoveError> {
    resume_for(to, None, file)
}

/// Like [`resume`], but for a named tenant of a worker that has several.
pub fn resume_for(
    to: &WorkerAddress,
    tenant: Option<&str>,
    file: &mut (impl Read + Seek),
) -> Result<u64, MoveError> {
    in_new_processes(|| {
        file.rewind().map_err(MoveError::File)?;
        let link = ask_to_resume(to, tenant)?;
        give(&to.endpoint.to_string(), &link, file)
    })
}

/// Gives a snapshot to a worker over a link on which it expects one. Returns the session's id.
pub fn give(worker: &str, link: &Link, file: &mut dyn Read) -> Result<u64, MoveError> {
    let mut unreadable = None;
    let given = give_written(worker, link, |to| {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => to.write_all(&buffer[..bytes])?,
                Err(error) => {
                    unreadable = Some(error);
                    return Err(ErrorKind::InvalidInput.into());
                }
            }
        }
    });
    unreadable.map_or(given, |error| Err(MoveError::File(error)))
}

/// Like [`give`], for a snapshot that `write` produces.
pub fn give_written(
    worker: &str,
    link: &Link,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<u64, MoveError> {
    link.set_write_timeout(Some(PATIENCE)).map_err(failed(worker))?;
    let mut chunks = BufWriter::with_capacity(BUFFER_BYTES, ChunkWriter::new(link));
    let sent = write(&mut chunks)
        .and_then(|()| chunks.into_inner().map_err(IntoInnerError::into_error))
        .and_then(ChunkWriter::finish);
    finish_resuming(worker, link, sent)
}

/// Redirects programs that start at a worker to `address` from now on, or lets them open sessions there again. No session is being
/// opened there when this returns. An older worker refuses with [`MoveError::TooOld`], and opens sessions as before.
pub fn open_elsewhere(at: &WorkerAddress, address: Option<&Address>) -> Result<(), MoveError> {
    let question = wire::OpenElsewhere { endpoint: address.map(redirection).unwrap_or_default() };
    at.try_confirm(&question, REDIRECT_PATIENCE).map_err(|error| match error {
        TransportError::Wire(WireError::Rejected { code: RejectCode::BadRequest, .. }) => {
            MoveError::TooOld { endpoint: at.endpoint.to_string() }
        }
        error => said(&at.endpoint.to_string())(error),
    })
}

/// Reports the new address of a session to the worker that it was taken from.
pub fn redirect(from: &WorkerAddress, session: u64, address: &Address) -> Result<(), MoveError> {
    from.confirm(&wire::Redirect { session, endpoint: redirection(address) })
}

/// Moves a session from one worker to another while its program runs. `tenant` names its tenant there, if that worker has
/// several; `seen_at` is the new worker's address as seen by the program, if that differs from the address used here.
pub fn migrate(
    from: &WorkerAddress,
    to: &WorkerAddress,
    session: u64,
    tenant: Option<&str>,
    patience: Duration,
    seen_at: Option<&Address>,
) -> Result<(), MoveError> {
    in_new_processes(|| begin(from, session, patience)?.move_to(to, tenant, seen_at))
}

/// Formats the address for a client: an endpoint, or a URL if the client has to check the certificate's pin. Never contains a token.
fn redirection(address: &Address) -> String {
    match address.pin {
        Some(_) => Address { token: None, ..address.clone() }.to_string(),
        None => address.endpoint.to_string(),
    }
}

/// Reads the receiving worker's verdict. A worker that stopped reading has sent the reason.
fn finish_resuming(worker: &str, link: &Link, sent: io::Result<()>) -> Result<u64, MoveError> {
    link.set_read_timeout(Some(PATIENCE)).map_err(failed(worker))?;
    match (greet::expect::<wire::Done>(link, MAX_HANDSHAKE_BYTES), sent) {
        (Ok(done), Ok(())) => Ok(done.session),
        (Err(TransportError::Wire(error)), _) => Err(said(worker)(error.into())),
        (_, Err(error)) => Err(failed(worker)(error)),
        (Err(error), Ok(())) => Err(said(worker)(error)),
    }
}

impl WorkerAddress {
    /// The address for clients, without the token.
    fn public(&self) -> Address {
        let pin = match &self.trust {
            Some(Trust::Fingerprint(pin)) if matches!(self.endpoint, Endpoint::Tls { .. }) => Some(*pin),
            _ => None,
        };
        Address { endpoint: self.endpoint.clone(), token: None, pin }
    }

    /// The address as a worker reports it to clients that it redirects: without the token.
    pub fn as_redirect(&self) -> String {
        redirection(&self.public())
    }

    /// Sends a request and waits until it is carried out.
    fn confirm(&self, question: &impl Operation) -> Result<(), MoveError> {
        self.try_confirm(question, PATIENCE).map_err(said(&self.endpoint.to_string()))
    }

    fn try_confirm(&self, question: &impl Operation, patience: Duration) -> Result<(), TransportError> {
        let link = self.try_ask(question)?;
        link.set_read_timeout(Some(patience))?;
        greet::expect::<wire::Done>(&link, MAX_HANDSHAKE_BYTES)?;
        Ok(())
    }

    /// Connects, authenticates and sends a request.
    pub(crate) fn ask(&self, question: &impl Operation) -> Result<Link, MoveError> {
        self.try_ask(question).map_err(said(&self.endpoint.to_string()))
    }

    fn try_ask(&self, question: &impl Operation) -> Result<Link, TransportError> {
        let link = self.connect()?;
        greet::prove(&link, &self.hello(Purpose::Administer)?, &self.credentials(), self.connect_timeout)?;
        greet::send(&link, question)?;
        Ok(link)
    }
}

/// Turns what a worker answered into an error.
pub(crate) fn said(worker: &str) -> impl Fn(TransportError) -> MoveError {
    let endpoint = worker.to_owned();
    move |error| {
        let endpoint = endpoint.clone();
        match error {
            TransportError::Wire(WireError::Rejected { code: RejectCode::AddressTaken, text }) => {
                MoveError::AddressTaken { endpoint, text }
            }
            // The worker's own message needs no additional text.
            TransportError::Wire(WireError::Rejected { code: RejectCode::Failed, text }) => {
                MoveError::Worker { endpoint, text }
            }
            other => MoveError::Worker { endpoint, text: other.line() },
        }
    }
}

/// Turns a failure of the link into an error; the worker's own reason, if it sent one.
pub(crate) fn failed(worker: &str) -> impl Fn(io::Error) -> MoveError {
    let said = said(worker);
    move |error| {
        let cause = error.get_ref().and_then(|error| error.downcast_ref::<WireError>()).cloned();
        said(cause.map_or_else(|| error.into(), TransportError::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_conflict_gets_three_attempts_and_another_refusal_one() {
        let attempts = |error: fn() -> MoveError| {
            let mut count = 0;
            let result: Result<(), MoveError> = in_new_processes(|| {
                count += 1;
                Err(error())
            });
            assert!(result.is_err());
            count
        };
        assert_eq!(attempts(|| said("there")(rejected(RejectCode::AddressTaken))), 3);
        assert_eq!(attempts(|| said("there")(rejected(RejectCode::Failed))), 1);
        assert!(matches!(
            said("there")(rejected(RejectCode::Full)),
            MoveError::Worker { endpoint, text } if endpoint == "there" && text.contains("no")
        ));
    }

    fn rejected(code: RejectCode) -> TransportError {
        TransportError::Wire(WireError::from(code.reject("no")))
    }

    #[test]
    fn a_redirection_has_the_pin_and_never_the_token() {
        let pinned: Address =
            format!("remora+tls://0af3@gpu7:4000?pin=sha256:{}", "5a".repeat(32)).parse().unwrap();
        let text = redirection(&pinned);
        assert!(text.starts_with("remora+tls://gpu7:4000?pin=") && !text.contains("0af3"), "{text}");
        assert_eq!(redirection(&"remora://0af3@gpu7:4000".parse().unwrap()), "gpu7:4000");
    }
}
