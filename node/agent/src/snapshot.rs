//! Session snapshots: saves sessions to files and resumes them. In between, their client programs wait and notice nothing else.
//!
//! A session exists in its worker or in its snapshot file. It is in both only from the moment the file is complete until the worker has
//! released the session. A file is therefore removed only after the worker has resumed the session, or after the worker reports that it
//! still has the session with its client connected. The worker's current answer decides, not an older list of sessions.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wire::SessionId;
use worker_client::{StoppedSession, WorkerAddress};
use worker_status::SessionStatus;

use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::device::BackendKind;
use crate::error::AgentError;
use crate::state::private;
use crate::{client, worker as process};

/// Timeout for a session's pending work to finish. After it the session is not saved.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for disconnected clients. A client reconnects within a second, and only a connected client can be identified.
const RETURN: Duration = Duration::from_secs(2);
/// How long to wait for the process of a saved session to end.
const LEAVE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);
const ENDING: &str = ".session";

/// Selects the sessions to save or resume.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// All sessions of one worker.
    Worker(String),
    /// Sessions of these processes: PIDs of clients, workers or the workers' session processes. An empty set selects all. With a device,
    /// only sessions of workers that have it.
    Processes { processes: BTreeSet<u32>, device: Option<String> },
}

/// Result of saving or resuming.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Sessions that this call saved or resumed.
    pub(crate) sessions: Vec<SessionId>,
    /// Requested processes without a session.
    pub(crate) unknown: Vec<u32>,
}

/// A session saved in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Saved {
    session: u64,
    /// PID of its client, if that is on this machine.
    process: Option<u32>,
    path: PathBuf,
}

/// A worker with its selected sessions.
struct Chosen {
    place: WorkerAddress,
    folder: PathBuf,
    /// The selected running sessions, with the PIDs of their clients if those are on this machine.
    running: Vec<(SessionStatus, Option<u32>)>,
    saved: Vec<Saved>,
    /// Whether a client of this worker is disconnected and may reconnect.
    is_awaited: bool,
    can_save: bool,
}

impl Agent {
    /// Saves sessions and suspends them. If one cannot be saved, those already saved are resumed, so that none is saved.
    pub(crate) fn save(&self, choice: &Choice) -> Result<Outcome, AgentError> {
        // Concurrent saves of one session would write the same file.
        let _one = self.saving.lock();
        let (chosen, unknown) = self.find(choice)?;
        if chosen.iter().any(|it| !it.can_save && !it.running.is_empty()) {
            let text = "sessions on real GPUs cannot be saved: the HIP runtime cannot allocate memory at the same addresses again";
            return Err(AgentError::Unsupported(text));
        }
        let mut done: Vec<(&WorkerAddress, Saved)> = Vec::new();
        for it in &chosen {
            for (session, process) in &it.running {
                match save(&it.place, session, *process, &it.folder) {
                    Ok(saved) => done.push((&it.place, saved)),
                    Err(error) => return Err(undo(&done, error)),
                }
            }
        }
        for it in chosen.iter().filter(|it| !it.running.is_empty()) {
            wait_for_leave(&it.place, &it.running);
        }
        Ok(Outcome { sessions: done.iter().map(|(_, saved)| SessionId(saved.session)).collect(), unknown })
    }

    /// Resumes saved sessions. A session that cannot be resumed stays saved and does not block the others.
    pub(crate) fn resume(&self, choice: &Choice) -> Result<Outcome, AgentError> {
        let _one = self.saving.lock();
        let (chosen, unknown) = self.find(choice)?;
        let mut outcome = Outcome { unknown, ..Outcome::default() };
        let mut failed = None;
        for it in &chosen {
            for saved in &it.saved {
                match resume(&it.place, saved) {
                    Ok(()) => outcome.sessions.push(SessionId(saved.session)),
                    // An earlier agent wrote this file but ended before the worker released the session.
                    Err(_) if goes_on(&it.place, saved.session) => drop(std::fs::remove_file(&saved.path)),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        failed.map_or(Ok(outcome), Err)
    }

    /// Returns the selected sessions by worker, and the requested processes without a session.
    fn find(&self, choice: &Choice) -> Result<(Vec<Chosen>, Vec<u32>), AgentError> {
        let began = Instant::now();
        loop {
            let mut known = BTreeSet::new();
            let mut found = Vec::new();
            let mut silent = None;
            for allocation in self.candidates(choice)? {
                match self.look_into(&allocation, choice, &mut known) {
                    Ok(chosen) => found.push(chosen),
                    Err(error) if matches!(choice, Choice::Worker(_)) => return Err(error),
                    Err(error) => silent = Some(error),
                }
            }
            let Choice::Processes { processes, .. } = choice else { return Ok((found, Vec::new())) };
            let unknown: Vec<u32> = processes.difference(&known).copied().collect();
            let is_awaited = found.iter().any(|it| it.is_awaited);
            if !unknown.is_empty() && is_awaited && began.elapsed() < RETURN {
                std::thread::sleep(LOOK);
                continue;
            }
            return match silent {
                // The requested sessions may belong to the worker that does not answer.
                Some(error) if known.is_empty() => Err(error),
                _ if processes.is_empty() || !known.is_empty() => Ok((found, unknown)),
                _ => {
                    let listed: Vec<String> = processes.iter().map(u32::to_string).collect();
                    let text = format!("none of these processes has a session here: {}", listed.join(", "));
                    Err(AgentError::NotFound(text))
                }
            };
        }
    }

    /// Returns the allocations whose sessions a choice may select.
    fn candidates(&self, choice: &Choice) -> Result<Vec<Allocation>, AgentError> {
        let device = match choice {
            Choice::Worker(id) => return Ok(vec![self.allocation(id)?]),
            Choice::Processes { device, .. } => device.as_ref(),
        };
        if let Some(device) = device
            && !self.gpus.read().iter().any(|gpu| gpu.uuid.eq_ignore_ascii_case(device))
        {
            return Err(AgentError::NotFound(format!("there is no GPU {device}")));
        }
        let has = |it: &Allocation| {
            device.is_none_or(|device| it.devices.iter().any(|own| own.eq_ignore_ascii_case(device)))
        };
        Ok(self.allocations.lock().values().filter(|it| has(it)).cloned().collect())
    }

    fn look_into(
        &self,
        allocation: &Allocation,
        choice: &Choice,
        known: &mut BTreeSet<u32>,
    ) -> Result<Chosen, AgentError> {
        let place = process::place(&self.config, allocation).ok_or(AgentError::NotRunning)?;
        let port = allocation.worker.port.ok_or(AgentError::NotRunning)?;
        let folder = self.folder.of_worker(&allocation.id, "sessions");
        let status = place.inspect()?;
        let is_awaited = status.sessions.iter().any(|session| !session.connected);
        let saved = saved(&folder);
        let worker = allocation.worker.process.map(|process| process.pid);
        let mut is_chosen = |numbers: [Option<u32>; 3]| match choice {
            Choice::Processes { processes, .. } if !processes.is_empty() => {
                let named: Vec<u32> =
                    numbers.into_iter().flatten().filter(|it| processes.contains(it)).collect();
                known.extend(&named);
                !named.is_empty()
            }
            _ => true,
        };
        // Marks the worker's PID as known even if the worker has no session.
        is_chosen([worker, None, None]);
        let mut running = Vec::new();
        for session in status.sessions {
            // A session that was just saved may still be listed until its process has ended.
            if !session.connected && saved.iter().any(|it| it.session == session.id) {
                continue;
            }
            let client = client::of(&session, port);
            if is_chosen([worker, Some(session.process), client]) {
                running.push((session, client));
            }
        }
        let saved = saved.into_iter().filter(|it| is_chosen([worker, it.process, None])).collect();
        let gpus = self.gpus.read();
        let is_real = |uuid: &String| {
            gpus.iter().any(|gpu| gpu.uuid == *uuid && gpu.backing.kind() != BackendKind::Software)
        };
        let can_save = !allocation.devices.iter().any(is_real);
        Ok(Chosen { place, folder, running, saved, is_awaited, can_save })
    }
}

/// Resumes the sessions that were saved before one failed.
fn undo(done: &[(&WorkerAddress, Saved)], error: AgentError) -> AgentError {
    let stuck = done.iter().filter_map(|(place, saved)| resume(place, saved).err()).count();
    match stuck {
        0 => error,
        _ => {
            AgentError::Refused(format!("{error}; {stuck} sessions that were already saved could not resume"))
        }
    }
}

/// Waits until the processes of saved sessions have ended. They end shortly after the file is complete, and only then is their memory free.
fn wait_for_leave(place: &WorkerAddress, sessions: &[(SessionStatus, Option<u32>)]) {
    let began = Instant::now();
    let is_there = |id: u64| sessions.iter().any(|(session, _)| session.id == id);
    while began.elapsed() < LEAVE {
        match place.inspect() {
            Ok(status) if status.sessions.iter().any(|session| is_there(session.id)) => {
                std::thread::sleep(LOOK)
            }
            _ => return,
        }
    }
}

/// Returns how many sessions are saved in a folder.
pub(crate) fn count(folder: &Path) -> usize {
    saved(folder).len()
}

/// Returns the saved sessions in a folder.
fn saved(folder: &Path) -> Vec<Saved> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let parse = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(ENDING)?;
        let (session, process) = name.split_once('-')?;
        let process = process.parse().ok().filter(|process| *process != 0);
        let SessionId(session) = session.parse::<SessionId>().ok()?;
        Some(Saved { session, process, path })
    };
    entries.flatten().filter_map(|entry| parse(entry.path())).collect()
}

fn save(
    place: &WorkerAddress,
    session: &SessionStatus,
    process: Option<u32>,
    folder: &Path,
) -> Result<Saved, AgentError> {
    let failed = |source| AgentError::Io { path: folder.to_owned(), source };
    let refused = |error: worker_client::MoveError| {
        AgentError::Refused(format!(
            "session {} of {} cannot be saved and keeps running: {error}",
            SessionId(session.id),
            session.client
        ))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let beside = folder.join(format!("{}.new", SessionId(session.id)));
    let path = folder.join(format!("{}-{}{ENDING}", SessionId(session.id), process.unwrap_or(0)));
    let write = || -> Result<StoppedSession, AgentError> {
        let mut out = BufWriter::with_capacity(1 << 20, private(&beside, true).map_err(failed)?);
        let taken = worker_client::snapshot(place, session.id, PATIENCE, &mut out).map_err(refused)?;
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(failed)?;
        std::fs::rename(&beside, &path).map_err(failed)?;
        Ok(taken)
    };
    let taken = write().inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
    // From here on the file is kept: if the worker's response is lost, the file may be the only copy of the session.
    taken.suspend().map_err(refused)?;
    for older in saved(folder).into_iter().filter(|it| it.session == session.id && it.path != path) {
        let _ = std::fs::remove_file(older.path);
    }
    Ok(Saved { session: session.id, process, path })
}

/// Returns whether a worker has a session with its client connected.
fn goes_on(place: &WorkerAddress, session: u64) -> bool {
    place.inspect().is_ok_and(|status| status.sessions.iter().any(|it| it.id == session && it.connected))
}

fn resume(place: &WorkerAddress, saved: &Saved) -> Result<(), AgentError> {
    let failed = |source| AgentError::Io { path: saved.path.clone(), source };
    let file = File::open(&saved.path).map_err(failed)?;
    worker_client::resume(place, &mut BufReader::with_capacity(1 << 20, file)).map_err(|error| {
        AgentError::Refused(format!(
            "session {} cannot be resumed and stays saved: {error}",
            SessionId(saved.session)
        ))
    })?;
    std::fs::remove_file(&saved.path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_whose_session_it_has_and_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "00000000000000ff-4711.session",
            "0000000000000001-0.session",
            "2.session",
            "x-1.session",
            "3-1.new",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let mut found: Vec<(u64, Option<u32>)> =
            saved(folder.path()).into_iter().map(|it| (it.session, it.process)).collect();
        found.sort_unstable();
        assert_eq!(found, [(1, None), (0xff, Some(4711))]);
        assert!(saved(&folder.path().join("nothing")).is_empty());
    }
}
