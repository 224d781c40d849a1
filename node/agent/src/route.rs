//! Moves all sessions of a worker to another one, and back if one cannot move.

use std::time::{Duration, Instant};

use transport::Address;
use wire::SessionId;
use worker_client::{MoveError, WorkerAddress};
use worker_status::SessionStatus;

use crate::error::AgentError;
use crate::redirect::Redirect;

/// Timeout for the pending work of a session that returns.
const RETURN: Duration = Duration::from_secs(10);
/// How long to wait for clients to reach the other worker: as long as that keeps a session without a connection.
const ARRIVE: Duration = Duration::from_secs(60);
/// How long to wait for sessions that are being restored.
const RESTORE: Duration = Duration::from_secs(90);
/// How often sessions are listed and moved. Sessions may be resumed while others move, and an older worker does not redirect programs that
/// start.
const ROUNDS: usize = 20;
const LOOK: Duration = Duration::from_millis(20);

/// A worker of an allocation that moves.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) worker: WorkerAddress,
    /// Its address for clients.
    pub(crate) seen: Address,
}

/// The two workers of an allocation that moves.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) from: Place,
    pub(crate) to: Place,
    /// Timeout for the pending work of a session.
    pub(crate) patience: Duration,
    /// The redirect at the worker that the sessions leave.
    pub(crate) redirect: Redirect,
}

impl Route {
    /// Redirects programs that start, and moves sessions until the worker has none; `moved` lists those that have moved. The worker must
    /// end at once afterwards.
    pub(crate) fn move_all(&self, moved: &mut Vec<u64>) -> Result<(), AgentError> {
        for _ in 0..ROUNDS {
            // In each round, because a worker that was restarted meanwhile no longer redirects.
            self.redirect.begin(&self.from.worker, &self.to.seen)?;
            let sessions = self.from.sessions_without(moved)?;
            if sessions.is_empty() {
                return Ok(());
            }
            let before = moved.len();
            for session in sessions {
                if self.from.move_to(&self.to, &session, self.patience)? {
                    moved.push(session.id);
                }
            }
            self.to.wait_for_clients(&moved[before..]);
        }
        Err(AgentError::Refused(format!(
            "sessions were started or resumed at {} as fast as they moved; {ROUNDS} attempts to move all were made",
            self.from.seen.endpoint
        )))
    }

    /// Moves all sessions back, also those that programs have opened at the other worker meanwhile. Returns the reason, and which sessions
    /// could not return.
    pub(crate) fn undo(&self, reason: AgentError) -> AgentError {
        self.start_programs_here();
        let split = |sessions: &str| {
            AgentError::Split(format!(
                "{reason}; {sessions} at {} cannot return, so the allocation exists on both machines",
                self.to.seen.endpoint
            ))
        };
        let (mut returned, mut stuck) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut sessions = match self.to.sessions_without(&returned) {
                Ok(sessions) => sessions,
                Err(error) => {
                    return split(&format!("the worker does not list its sessions ({error}), so those"));
                }
            };
            sessions.retain(|it| !stuck.contains(&it.id));
            if sessions.is_empty() {
                let stuck: Vec<String> = stuck.into_iter().map(|id| SessionId(id).to_string()).collect();
                return match stuck.is_empty() {
                    true => reason,
                    false => split(&format!("sessions {}", stuck.join(", "))),
                };
            }
            for session in sessions {
                match self.to.move_to(&self.from, &session, RETURN) {
                    Ok(true) => returned.push(session.id),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!("{error}");
                        stuck.push(session.id);
                    }
                }
            }
            // The other worker is about to end, and redirects its clients until then.
            self.from.wait_for_clients(&returned);
        }
        split("sessions that programs kept opening")
    }

    /// Ends the redirect of programs that start, and redirects those that were sent to the other worker. In this order, so that the two
    /// workers never redirect to each other.
    fn start_programs_here(&self) {
        if let Err(error) = self.redirect.end(&self.from.worker) {
            tracing::warn!("the redirect of programs that start is ended later: {error}");
            return;
        }
        match worker_client::open_elsewhere(&self.to.worker, Some(&self.from.seen)) {
            Ok(()) | Err(MoveError::TooOld { .. }) => {}
            Err(error) => tracing::warn!("programs may start at the worker that is about to end: {error}"),
        }
    }
}

impl Place {
    /// Lists the sessions of the worker once those that are being restored are there, without those that have moved.
    fn sessions_without(&self, moved: &[u64]) -> Result<Vec<SessionStatus>, AgentError> {
        let began = Instant::now();
        loop {
            let status = self.worker.inspect()?;
            if !status.restores {
                // The process of a session that has moved may still be exiting.
                return Ok(status.sessions.into_iter().filter(|it| !moved.contains(&it.id)).collect());
            }
            if began.elapsed() > RESTORE {
                return Err(AgentError::Refused(format!(
                    "sessions at {} are still being restored after {} s; move the allocation when they run",
                    self.seen.endpoint,
                    RESTORE.as_secs()
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Moves a session to another worker. Returns false if it is no longer here: its program has ended, or its process has died and it is
    /// being restored.
    fn move_to(&self, to: &Place, session: &SessionStatus, patience: Duration) -> Result<bool, AgentError> {
        let moved =
            worker_client::migrate(&self.worker, &to.worker, session.id, None, patience, Some(&to.seen));
        match moved {
            Ok(()) => Ok(true),
            Err(_) if !self.has(session.id) => Ok(false),
            Err(error) => Err(AgentError::Refused(format!(
                "session {} of {} cannot be moved and keeps running at {}: {error}",
                SessionId(session.id),
                session.client,
                self.seen.endpoint
            ))),
        }
    }

    /// Whether the worker has a session. If the worker does not answer, it may.
    fn has(&self, session: u64) -> bool {
        self.worker.inspect().map_or(true, |status| status.sessions.iter().any(|it| it.id == session))
    }

    /// Waits until the clients of all these sessions are connected to this worker, or their sessions have ended here.
    fn wait_for_clients(&self, sessions: &[u64]) {
        let began = Instant::now();
        let is_missing = |it: &SessionStatus| sessions.contains(&it.id) && !it.connected;
        while began.elapsed() < ARRIVE {
            match self.worker.inspect() {
                Ok(status) if !status.sessions.iter().any(is_missing) => return,
                _ => std::thread::sleep(LOOK),
            }
        }
    }
}
