//! Moves allocations to another agent while their programs run, one or all of them (drain).
//!
//! The other agent creates the allocation first, with the same id, tokens and limits. From then on programs that start are redirected to
//! its worker. Then the sessions move from worker to worker, and their clients are redirected too. The allocation is released here only
//! when every client has arrived. If a session cannot move, programs start here again, all sessions return, and the new allocation is
//! deleted.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use transport::Address;
use wire::SessionId;
use worker_client::WorkerAddress;

use crate::agent::Agent;
use crate::allocation::{Allocation, ArrivingAllocation};
use crate::error::AgentError;
use crate::redirect::Redirect;
use crate::remote::{RemoteAgent, RemoteError};
use crate::route::{Place, Route};
use crate::state::Folder;
use crate::{snapshot, worker};

/// Timeout for a session's pending work to finish, if the request has none. After it the session does not move.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for the other agent to start a worker.
const START: Duration = Duration::from_secs(90);
const CONNECT: Duration = Duration::from_secs(10);
/// File in the data folder that exists while the machine is being drained.
const DRAINING: &str = "draining";

/// Which allocations move, and whether the machine is being drained.
#[derive(Debug)]
pub(crate) struct Moves {
    draining: AtomicBool,
    marker: PathBuf,
    moving: Mutex<BTreeSet<String>>,
    /// Held by the drain that moves allocations.
    drain: Mutex<()>,
    /// Held while the redirect of an earlier move is ended.
    pub(crate) redirects: Mutex<()>,
}

/// An allocation that is moving. Ends when dropped.
#[derive(Debug)]
struct Moving<'a> {
    id: &'a str,
    moves: &'a Moves,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.moves.moving.lock().remove(self.id);
    }
}

/// An allocation that has moved.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) id: String,
    /// The allocation as the other agent shows it.
    pub(crate) allocation: Value,
    pub(crate) sessions: Vec<SessionId>,
}

/// Result of a drain.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    pub(crate) moved: Vec<Moved>,
    /// Allocations that stay, with the reason.
    pub(crate) stayed: Vec<(String, AgentError)>,
}

impl Moves {
    /// Reads whether the machine was being drained when the last agent ended.
    pub(crate) fn read(folder: &Folder) -> Moves {
        let marker = folder.path().join(DRAINING);
        let draining = AtomicBool::new(marker.exists());
        Moves {
            draining,
            marker,
            moving: Mutex::default(),
            drain: Mutex::default(),
            redirects: Mutex::default(),
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn is_moving(&self, id: &str) -> bool {
        self.moving.lock().contains(id)
    }

    /// Starts or ends the refusal of new allocations. It outlives the agent.
    pub(crate) fn set_draining(&self, draining: bool) -> Result<(), AgentError> {
        let changed = match draining {
            true => std::fs::write(&self.marker, ""),
            false => match std::fs::remove_file(&self.marker) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                done => done,
            },
        };
        changed.map_err(|source| AgentError::Io { path: self.marker.clone(), source })?;
        self.draining.store(draining, Ordering::Relaxed);
        Ok(())
    }

    fn begin<'a>(&'a self, id: &'a str) -> Result<Moving<'a>, AgentError> {
        match self.moving.lock().insert(id.to_owned()) {
            true => Ok(Moving { id, moves: self }),
            false => Err(AgentError::Refused(format!("allocation {id} is already being moved"))),
        }
    }
}

/// Where allocations move to.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) agent: RemoteAgent,
    /// Timeout for the pending work of each session.
    pub(crate) patience: Duration,
}

impl Destination {
    /// Checks the fields of a request.
    pub(crate) fn new(to: &str, token: &str, patience_s: Option<f64>) -> Result<Destination, AgentError> {
        let wrong = |text: &str| Err(AgentError::BadRequest(text.to_owned()));
        if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
            return wrong("token must be the administrator token of the other agent");
        }
        let patience = match patience_s {
            None => PATIENCE,
            Some(seconds) if (0.0..=3600.0).contains(&seconds) => Duration::from_secs_f64(seconds),
            Some(_) => return wrong("patience_s must be from 0 to 3600"),
        };
        let agent = RemoteAgent { url: to.parse()?, token: token.to_owned() };
        Ok(Destination { agent, patience })
    }
}

impl Agent {
    /// Refuses new allocations from now on, and moves all allocations to another agent, if one is given. Allocations that cannot move stay.
    pub(crate) fn drain(&self, to: Option<&Destination>) -> Result<Drained, AgentError> {
        self.moves.set_draining(true)?;
        let mut drained = Drained::default();
        let Some(to) = to else { return Ok(drained) };
        let Some(_one) = self.moves.drain.try_lock() else {
            return Err(AgentError::Refused("another drain of this machine is in progress".to_owned()));
        };
        let ids: Vec<String> = self.allocations.lock().keys().cloned().collect();
        for id in ids {
            if !self.moves.is_draining() || self.stopping.load(Ordering::Relaxed) {
                let why = AgentError::Refused("the drain was cancelled, or the agent is stopping".to_owned());
                drained.stayed.push((id, why));
                continue;
            }
            match self.migrate(&id, to) {
                Ok(moved) => drained.moved.push(moved),
                // Released meanwhile.
                Err(AgentError::NotFound(_)) => {}
                Err(error) => drained.stayed.push((id, error)),
            }
        }
        Ok(drained)
    }

    /// Moves an allocation with its sessions to another agent. On failure everything is as before.
    pub(crate) fn migrate(&self, id: &str, destination: &Destination) -> Result<Moved, AgentError> {
        let to = &destination.agent;
        let _moving = self.moves.begin(id)?;
        // The redirect of an earlier move may be about to end, and must not end that of this one. From now on none is ended.
        drop(self.moves.redirects.lock());
        // No session may be saved or resumed meanwhile.
        let _one = self.saving.lock();
        let allocation = self.allocation(id)?;
        if to.url.is_exposed() {
            tracing::warn!("allocation {id}: its tokens are sent unencrypted to {}", to.url);
        }
        let arriving = self.departure(&allocation)?;
        let from = worker::place(&self.config, &allocation).ok_or(AgentError::NotRunning)?;
        from.inspect()?;
        let body =
            serde_json::to_value(&arriving).map_err(|error| AgentError::BadRequest(error.to_string()))?;
        let created = to.request("POST", "/api/v1/allocations/import", Some(&body), Some(START))?;
        let mut moved = Vec::new();
        let result = self.route(&allocation, from, &created, destination.patience).and_then(|route| {
            route.move_all(&mut moved).map_err(|error| {
                tracing::warn!("allocation {id} stays: {error}; {} sessions return", moved.len());
                route.undo(error)
            })
        });
        if let Err(error) = result {
            let stuck = matches!(error, AgentError::Split(_));
            if !stuck && let Err(why) = delete(to, id) {
                return Err(AgentError::Refused(format!(
                    "{error}; the allocation also remains there: {why}"
                )));
            }
            return Err(error);
        }
        match self.release(id) {
            Ok(_) | Err(AgentError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        tracing::info!("allocation {id} has moved to {} with {} sessions", to.url, moved.len());
        Ok(Moved {
            id: id.to_owned(),
            allocation: created,
            sessions: moved.into_iter().map(SessionId).collect(),
        })
    }

    /// Returns the allocation as another agent gets it, or why it cannot leave this machine.
    fn departure(&self, allocation: &Allocation) -> Result<ArrivingAllocation, AgentError> {
        let refused = |why: String| Err(AgentError::Refused(format!("allocation {}: {why}", allocation.id)));
        if let Some(process) = allocation.lease.process {
            return refused(format!("it is leased to process {} of this machine", process.pid));
        }
        if allocation.admin_token.is_empty() {
            return refused("its worker was started by an older agent and cannot be administered".to_owned());
        }
        let saved = snapshot::count(&self.folder.of_worker(&allocation.id, "sessions"));
        if saved > 0 {
            return refused(format!("{saved} of its sessions are suspended; resume them first"));
        }
        let gpus = self.gpus.read();
        let gpu = gpus.iter().find(|gpu| allocation.devices.contains(&gpu.uuid));
        let Some(gpu) = gpu else { return refused("this machine no longer has its GPUs".to_owned()) };
        let mut request = allocation.request.clone();
        request.device = None;
        Ok(ArrivingAllocation {
            id: allocation.id.clone(),
            request,
            share: allocation.share,
            qos: allocation.qos,
            token: allocation.token.clone(),
            admin_token: allocation.admin_token.clone(),
            created_ms: allocation.created_ms,
            lease_until_ms: allocation.lease.until_ms,
            gpu_model: gpu.model.clone(),
            gpu_memory_bytes: gpu.memory_bytes,
        })
    }

    /// Finds both workers.
    fn route(
        &self,
        allocation: &Allocation,
        from: WorkerAddress,
        created: &Value,
        patience: Duration,
    ) -> Result<Route, AgentError> {
        let own = self.url(allocation).ok_or(AgentError::NotRunning)?;
        let parse = |url: &str| url.parse::<Address>().map(|it| Address { token: None, ..it });
        let seen_to = created["url"].as_str().map(parse);
        let (Ok(seen_from), Some(Ok(seen_to))) = (parse(&own), seen_to) else {
            let text = "the other agent created the allocation but sent no address of its worker";
            return Err(AgentError::Refused(text.to_owned()));
        };
        let to = WorkerAddress {
            endpoint: seen_to.endpoint.clone(),
            token: Some(allocation.admin_token.clone().into_bytes()),
            trust: seen_to.trust(),
            connect_timeout: CONNECT,
        };
        let redirect = Redirect::of(&self.folder, &allocation.id);
        let (from, to) = (Place { worker: from, seen: seen_from }, Place { worker: to, seen: seen_to });
        Ok(Route { from, to, patience, redirect })
    }
}

/// Deletes the allocation that was created for sessions that do not come.
fn delete(to: &RemoteAgent, id: &str) -> Result<(), RemoteError> {
    match to.request("DELETE", &format!("/api/v1/allocations/{id}"), None, Some(START)) {
        Ok(_) | Err(RemoteError::Refused { status: 404, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_outlives_the_agent_and_an_allocation_moves_once() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::take(place.path()).unwrap();
        let moves = Moves::read(&folder);
        assert!(!moves.is_draining());
        moves.set_draining(true).unwrap();
        assert!(moves.is_draining() && Moves::read(&folder).is_draining());
        moves.set_draining(false).unwrap();
        moves.set_draining(false).unwrap();
        assert!(!Moves::read(&folder).is_draining());
        let first = moves.begin("a").unwrap();
        assert!(matches!(moves.begin("a"), Err(AgentError::Refused(_))));
        assert!(moves.is_moving("a"));
        drop(first);
        assert!(!moves.is_moving("a") && moves.begin("a").is_ok());
    }

    #[test]
    fn a_destination_is_an_address_and_a_token() {
        let to = "http://127.0.0.1:8001";
        assert_eq!(Destination::new(to, "secret", None).unwrap().patience, PATIENCE);
        assert_eq!(Destination::new(to, "secret", Some(1.5)).unwrap().patience, Duration::from_millis(1500));
        for (to, token, patience) in [
            (to, "", None),
            (to, "a\r\nb: c", None),
            (to, "secret", Some(-1.0)),
            (to, "secret", Some(1e9)),
            ("127.0.0.1:8001", "secret", None),
        ] {
            let error = Destination::new(to, token, patience).unwrap_err();
            assert_eq!(error.status(), axum::http::StatusCode::BAD_REQUEST, "{error}");
        }
    }
}
