//! Former sessions: where their clients find them now, or that they have to wait.
//!
//! Reported only to clients that prove the session's secret. Bounded: the oldest is forgotten first, and its client is then told
//! that the session is gone. A worker with a folder of saved sessions notes them there, so that the next one knows them too.

use std::collections::HashMap;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use wire::RejectCode;

use super::custody::{Custody, Held, departed_key};
use super::oom;
use super::saved::{AwayNote, SavedSessions};

const MOST: usize = 4096;
/// How long [`DepartedSessions::redirect`] waits for a session that is just leaving.
const DEPARTURE_TIMEOUT: Duration = Duration::from_secs(3);
/// A client is considered waiting if it asked within this time; a waiting client asks more often.
const ASKING: Duration = Duration::from_secs(60);

/// The end of a session's process that was not requested.
#[derive(Clone, Debug)]
pub(crate) enum Death {
    /// The kernel killed it because memory ran out.
    OutOfMemory,
    /// It was killed by a signal or exited with an error.
    Status(ExitStatus),
    /// It was started by an earlier supervisor, so its status is not known.
    Unknown,
    /// It was saved and could not be restored, for this reason.
    Lost(String),
}

impl Death {
    /// Code and text for the session's client.
    pub(crate) fn reason(&self) -> (RejectCode, String) {
        match self {
            Death::OutOfMemory => (RejectCode::OutOfMemory, oom::TEXT.to_owned()),
            Death::Status(status) => {
                (RejectCode::UnknownSession, format!("the session's process died: {status}"))
            }
            Death::Unknown => (
                RejectCode::UnknownSession,
                "the session's process ended; an earlier supervisor started it, so the reason is not known"
                    .to_owned(),
            ),
            Death::Lost(text) => {
                (RejectCode::UnknownSession, format!("the saved session cannot be restored: {text}"))
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DepartedSession {
    /// Tenant that owns the session.
    pub(crate) tenant: String,
    pub(crate) secret: [u8; 32],
    /// Current endpoint; `None` if the session is suspended.
    pub(crate) endpoint: Option<String>,
    /// When its client last asked for it.
    pub(crate) asked: Instant,
    /// Whether its client has asked for it since it left.
    pub(crate) informed: bool,
    /// Why its process died, so that the session no longer exists.
    pub(crate) death: Option<Death>,
}

impl DepartedSession {
    pub(crate) fn new(tenant: String, secret: [u8; 32], endpoint: Option<String>) -> DepartedSession {
        DepartedSession { tenant, secret, endpoint, asked: Instant::now(), informed: false, death: None }
    }

    pub(crate) fn dead(tenant: String, secret: [u8; 32], death: Death) -> DepartedSession {
        DepartedSession { death: Some(death), ..DepartedSession::new(tenant, secret, None) }
    }
}

#[derive(Default)]
pub(crate) struct DepartedSessions {
    /// With a sequence number: the order in which they left.
    sessions: Mutex<HashMap<u64, (u64, DepartedSession)>>,
    changed: Condvar,
    /// Where they are noted.
    folder: OnceLock<Arc<SavedSessions>>,
    custody: Arc<Custody>,
}

impl DepartedSessions {
    /// Records are left to the next supervisor.
    pub(crate) fn new(custody: Arc<Custody>) -> DepartedSessions {
        DepartedSessions { custody, ..DepartedSessions::default() }
    }

    /// Notes sessions in a folder from now on, and remembers those that an earlier worker noted there.
    pub(crate) fn keep_in(&self, folder: &Arc<SavedSessions>) {
        let notes = folder.away().unwrap_or_else(|error| {
            tracing::error!("cannot read which sessions have left: {error}");
            Vec::new()
        });
        for AwayNote { session, tenant, secret, endpoint } in notes {
            self.remember(session, DepartedSession::new(tenant, secret, endpoint));
        }
        self.folder.get_or_init(|| Arc::clone(folder));
    }

    pub(crate) fn insert(&self, id: u64, departed: DepartedSession) {
        // First, so that a session that can be found is noted.
        self.note(id, &departed);
        if let (Some(oldest), Some(folder)) = (self.remember(id, departed), self.folder.get()) {
            folder.forget_away(oldest);
        }
    }

    /// Adds a session. Returns the one that is forgotten for it.
    fn remember(&self, id: u64, departed: DepartedSession) -> Option<u64> {
        let mut sessions = self.sessions.lock();
        self.leave(id, &departed);
        let next = sessions.values().map(|(at, _)| at + 1).max().unwrap_or(0);
        sessions.insert(id, (next, departed));
        self.changed.notify_all();
        if sessions.len() <= MOST {
            return None;
        }
        let oldest = sessions.iter().min_by_key(|(_, (at, _))| *at).map(|(id, _)| *id)?;
        sessions.remove(&oldest);
        self.custody.remove(departed_key(oldest));
        Some(oldest)
    }

    fn note(&self, id: u64, departed: &DepartedSession) {
        let Some(folder) = self.folder.get() else { return };
        match &departed.death {
            Some(_) => folder.forget_away(id),
            None => folder.note_away(&AwayNote {
                session: id,
                tenant: departed.tenant.clone(),
                secret: departed.secret,
                endpoint: departed.endpoint.clone(),
            }),
        }
    }

    pub(crate) fn find(&self, id: u64) -> Option<DepartedSession> {
        self.sessions.lock().get(&id).map(|(_, departed)| departed.clone())
    }

    /// Like [`DepartedSessions::find`], but records that the session's client asked.
    pub(crate) fn ask(&self, id: u64) -> Option<DepartedSession> {
        let mut sessions = self.sessions.lock();
        let (_, departed) = sessions.get_mut(&id)?;
        departed.asked = Instant::now();
        departed.informed = true;
        Some(departed.clone())
    }

    /// Forgets a session that has come back.
    pub(crate) fn remove(&self, id: u64) {
        let known = self.sessions.lock().remove(&id).is_some();
        self.custody.remove(departed_key(id));
        if let Some(folder) = self.folder.get().filter(|_| known) {
            folder.forget_away(id);
        }
    }

    /// Sets the new endpoint of a session that has left or is just leaving. Returns false if there is none.
    pub(crate) fn redirect(&self, id: u64, endpoint: String) -> bool {
        let deadline = Instant::now() + DEPARTURE_TIMEOUT;
        let mut sessions = self.sessions.lock();
        loop {
            if let Some((_, departed)) =
                sessions.get_mut(&id).filter(|(_, departed)| departed.death.is_none())
            {
                departed.endpoint = Some(endpoint);
                let departed = departed.clone();
                self.leave(id, &departed);
                drop(sessions);
                self.note(id, &departed);
                return true;
            }
            if self.changed.wait_until(&mut sessions, deadline).timed_out() {
                return false;
            }
        }
    }

    /// Leaves the record of a session that has moved or is suspended to the next supervisor.
    fn leave(&self, session: u64, departed: &DepartedSession) {
        let DepartedSession { tenant, secret, endpoint, death, .. } = departed.clone();
        match death {
            None => self.custody.put(&Held::Departed { session, tenant, secret, endpoint }, None),
            Some(_) => self.custody.remove(departed_key(session)),
        }
    }

    /// Whether the client of a session knows that it has left.
    pub(crate) fn is_informed(&self, id: u64) -> bool {
        self.sessions.lock().get(&id).is_some_and(|(_, departed)| departed.informed)
    }

    /// Whether a client waits for its session to come back.
    pub(crate) fn has_suspended(&self) -> bool {
        let waits =
            |it: &DepartedSession| it.death.is_none() && it.endpoint.is_none() && it.asked.elapsed() < ASKING;
        self.sessions.lock().values().any(|(_, departed)| waits(departed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_and_a_suspended_session_can_be_redirected() {
        let departed = DepartedSessions::default();
        let session = DepartedSession::new(String::new(), [1; 32], None);
        for id in 0..=MOST as u64 {
            departed.insert(id, session.clone());
        }
        assert!(departed.find(0).is_none() && departed.ask(1).is_some());
        assert!(departed.has_suspended());
        assert!(departed.redirect(7, "there:1".to_owned()));
        assert_eq!(departed.find(7).and_then(|it| it.endpoint).as_deref(), Some("there:1"));
        departed.remove(7);
        assert!(departed.find(7).is_none());
        let departed = DepartedSessions::default();
        departed.insert(1, DepartedSession::dead(String::new(), [1; 32], Death::OutOfMemory));
        assert!(!departed.has_suspended() && departed.ask(1).is_some_and(|it| it.death.is_some()));
    }

    #[test]
    fn the_next_worker_knows_which_sessions_wait_and_where_the_others_went() {
        let place = tempfile::tempdir().unwrap();
        let folder = Arc::new(SavedSessions::open(place.path()).unwrap());
        let departed = DepartedSessions::default();
        departed.keep_in(&folder);
        for id in 1..=4 {
            departed.insert(id, DepartedSession::new("one".to_owned(), [id as u8; 32], None));
        }
        assert!(departed.redirect(2, "there:1".to_owned()));
        departed.remove(3);
        departed.insert(4, DepartedSession::dead("one".to_owned(), [4; 32], Death::OutOfMemory));
        let next = DepartedSessions::default();
        next.keep_in(&folder);
        let waiting = next.find(1).unwrap();
        assert_eq!((waiting.tenant.as_str(), waiting.secret, waiting.endpoint), ("one", [1; 32], None));
        assert_eq!(next.find(2).and_then(|it| it.endpoint).as_deref(), Some("there:1"));
        assert!(next.find(3).is_none() && next.find(4).is_none());
    }
}
