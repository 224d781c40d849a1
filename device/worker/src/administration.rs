//! Taking a session from a worker and giving it to another, as seen from outside both: what `remora migrate` does, and whoever
//! manages workers.
//!
//! A worker lets go of a session only when it is told to, after the other side has said that it has it: whatever breaks in
//! between, the session is in one place, and its client finds it there.

use std::io::{self, Read, Write};
use std::time::Duration;

use transport::{Endpoint, Link, TransportError, greet};
use wire::{Decide, MAX_HANDSHAKE_BYTES, Operation, Purpose, RejectCode, WireError, decision};

use crate::pieces::{PieceReader, PieceWriter};
use crate::place::Place;

/// How long a worker may take for each step beyond what it was allowed for the session's work.
const PATIENCE: Duration = Duration::from_secs(90);
const BUFFER_BYTES: usize = 1 << 20;

/// Why a session was not taken or given.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("the worker at {endpoint}: {text}")]
    Worker { endpoint: String, text: String },
    #[error("the session cannot be read or written")]
    File(#[source] io::Error),
}

/// A session that was taken from its worker, which holds it until it is said what becomes of it. Dropped without a word, the
/// session goes on where it is.
#[derive(Debug)]
#[must_use = "the session stands still until it is said what becomes of it"]
pub struct Taken {
    place: Place,
    link: Link,
}

impl Taken {
    /// It goes on where it is.
    pub fn stay(self) -> Result<(), MoveError> {
        self.decide(decision::STAY, String::new())
    }

    /// It ends there; its client waits until it is resumed and, unless that is at the same worker, [`redirect`]ed.
    pub fn suspend(self) -> Result<(), MoveError> {
        self.decide(decision::SUSPEND, String::new())
    }

    /// It ends there, and its client is sent to `endpoint`, where it must have been resumed.
    pub fn move_to(self, endpoint: &Endpoint) -> Result<(), MoveError> {
        self.decide(decision::MOVE, endpoint.to_string())
    }

    fn decide(self, decision: u32, endpoint: String) -> Result<(), MoveError> {
        let Taken { place, link } = self;
        let decided = greet::send(&link, &Decide { decision, endpoint });
        decided
            .and_then(|()| greet::expect::<wire::Done>(&link, MAX_HANDSHAKE_BYTES))
            .map_err(place.said())?;
        Ok(())
    }
}

/// Takes a session from a worker and writes it to `out`. Its work may take `patience` to end; if it does not, or if the session
/// has something that cannot be carried, it goes on and this is an error that says why.
pub fn snapshot(
    from: &Place,
    session: u64,
    patience: Duration,
    out: &mut dyn Write,
) -> Result<Taken, MoveError> {
    let link = begin(from, session, patience)?;
    let mut pieces = PieceReader::new(&link);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let bytes = pieces.read(&mut buffer).map_err(from.failed())?;
        if bytes == 0 {
            break;
        }
        out.write_all(&buffer[..bytes]).map_err(MoveError::File)?;
    }
    Ok(Taken { place: from.clone(), link })
}

fn ask_to_resume(to: &Place, tenant: Option<&str>) -> Result<Link, MoveError> {
    match tenant {
        Some(tenant) => to.ask(&wire::ResumeFor { tenant: tenant.to_owned() }),
        // Older workers know this one.
        None => to.ask(&wire::Resume {}),
    }
}

fn begin(from: &Place, session: u64, patience: Duration) -> Result<Link, MoveError> {
    let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    let link = from.ask(&wire::Snapshot { session, patience_ms })?;
    link.set_read_timeout(Some(patience.saturating_add(PATIENCE))).map_err(from.failed())?;
    Ok(link)
}

/// Gives a session that was taken to a worker with one tenant, which goes on with it. Returns its number.
pub fn resume(to: &Place, file: &mut dyn Read) -> Result<u64, MoveError> {
    resume_for(to, None, file)
}

/// The same for a tenant of a worker that has several.
pub fn resume_for(to: &Place, tenant: Option<&str>, file: &mut dyn Read) -> Result<u64, MoveError> {
    let link = ask_to_resume(to, tenant)?;
    link.set_write_timeout(Some(PATIENCE)).map_err(to.failed())?;
    let mut pieces = PieceWriter::new(&link);
    let mut buffer = vec![0; BUFFER_BYTES];
    let sent = loop {
        let bytes = file.read(&mut buffer).map_err(MoveError::File)?;
        if bytes == 0 {
            break pieces.finish();
        }
        if let Err(error) = pieces.write_all(&buffer[..bytes]) {
            break Err(error);
        }
    };
    finish_resuming(to, &link, sent)
}

/// Says to the worker that a session was taken from where it is now.
pub fn redirect(from: &Place, session: u64, endpoint: &Endpoint) -> Result<(), MoveError> {
    let link = from.ask(&wire::Redirect { session, endpoint: endpoint.to_string() })?;
    link.set_read_timeout(Some(PATIENCE)).map_err(from.failed())?;
    greet::expect::<wire::Done>(&link, MAX_HANDSHAKE_BYTES).map_err(from.said())?;
    Ok(())
}

/// Moves a session from a worker to another while its program runs. `tenant` is whose it is there, if that worker has several;
/// `seen_at` is where the program finds the new worker, if that is not where it is found from here.
pub fn migrate(
    from: &Place,
    to: &Place,
    session: u64,
    tenant: Option<&str>,
    patience: Duration,
    seen_at: Option<&Endpoint>,
) -> Result<(), MoveError> {
    let link = begin(from, session, patience)?;
    let mut taken = PieceReader::new(&link);
    let mut buffer = vec![0; BUFFER_BYTES];
    // The other worker is asked when there is something to give.
    let mut bytes = taken.read(&mut buffer).map_err(from.failed())?;
    let there = ask_to_resume(to, tenant)?;
    there.set_write_timeout(Some(PATIENCE)).map_err(to.failed())?;
    let mut given = PieceWriter::new(&there);
    let sent = loop {
        if bytes == 0 {
            break given.finish();
        }
        if let Err(error) = given.write_all(&buffer[..bytes]) {
            break Err(error);
        }
        bytes = taken.read(&mut buffer).map_err(from.failed())?;
    };
    finish_resuming(to, &there, sent)?;
    Taken { place: from.clone(), link }.move_to(seen_at.unwrap_or(&to.endpoint))
}

/// Hears what became of a session that was sent; a worker that stopped reading has said why.
fn finish_resuming(to: &Place, link: &Link, sent: io::Result<()>) -> Result<u64, MoveError> {
    link.set_read_timeout(Some(PATIENCE)).map_err(to.failed())?;
    match (greet::expect::<wire::Done>(link, MAX_HANDSHAKE_BYTES), sent) {
        (Ok(done), Ok(())) => Ok(done.session),
        (Err(TransportError::Wire(error)), _) => Err(to.said()(error.into())),
        (_, Err(error)) => Err(to.failed()(error)),
        (Err(error), Ok(())) => Err(to.said()(error)),
    }
}

impl Place {
    /// Connects, proves itself and asks.
    fn ask(&self, question: &impl Operation) -> Result<Link, MoveError> {
        self.try_ask(question).map_err(self.said())
    }

    fn try_ask(&self, question: &impl Operation) -> Result<Link, TransportError> {
        let link = self.connect()?;
        greet::prove(&link, &self.hello(Purpose::Administer)?, &self.credentials(), self.connect_timeout)?;
        greet::send(&link, question)?;
        Ok(link)
    }

    fn said(&self) -> impl Fn(TransportError) -> MoveError {
        let endpoint = self.endpoint.to_string();
        move |error| {
            let text = match &error {
                // What the worker says in its own words needs no other.
                TransportError::Wire(WireError::Rejected { code: RejectCode::Failed, text }) => text.clone(),
                other => other.line(),
            };
            MoveError::Worker { endpoint: endpoint.clone(), text }
        }
    }

    fn failed(&self) -> impl Fn(io::Error) -> MoveError {
        let said = self.said();
        move |error| {
            let told = error.get_ref().and_then(|error| error.downcast_ref::<WireError>()).cloned();
            said(told.map_or_else(|| error.into(), TransportError::from))
        }
    }
}
