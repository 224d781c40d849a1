//! The sessions of a worker, saved to files and taken up again: their programs wait meanwhile, and notice nothing else.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::allocation::Allocation;
use crate::config::Config;
use crate::error::AgentError;
use crate::state::private;
use crate::worker::place;

/// How long a session's work may take to end before it is left alone.
const PATIENCE: Duration = Duration::from_secs(10);
const ENDING: &str = ".session";

/// Saves every session of a worker into a folder and suspends it; their numbers. The first that cannot be saved ends this: it and those
/// after it go on, those before it are saved.
pub(crate) fn save(config: &Config, allocation: &Allocation, folder: &Path) -> Result<Vec<u64>, AgentError> {
    let failed = |source| AgentError::Io { path: folder.to_owned(), source };
    let place = place(config, allocation).ok_or(AgentError::NotRunning)?;
    std::fs::create_dir_all(folder).map_err(failed)?;
    let status = place.inspect()?;
    let mut saved = Vec::new();
    for session in status.sessions {
        let beside = folder.join(format!("{:016x}.new", session.id));
        let refused = |error: worker::MoveError| {
            AgentError::Refused(format!("session {:016x} of {} goes on: {error}", session.id, session.client))
        };
        let mut out = BufWriter::with_capacity(1 << 20, private(&beside, true).map_err(failed)?);
        let taken = worker::snapshot(&place, session.id, PATIENCE, &mut out).map_err(refused)?;
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(failed)?;
        std::fs::rename(&beside, folder.join(format!("{:016x}{ENDING}", session.id))).map_err(failed)?;
        taken.suspend().map_err(refused)?;
        saved.push(session.id);
    }
    Ok(saved)
}

/// Takes every session of a folder up again; their numbers. What was taken up leaves the folder.
pub(crate) fn resume(
    config: &Config,
    allocation: &Allocation,
    folder: &Path,
) -> Result<Vec<u64>, AgentError> {
    let failed = |source| AgentError::Io { path: folder.to_owned(), source };
    let place = place(config, allocation).ok_or(AgentError::NotRunning)?;
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut resumed = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(ENDING)) {
        let file = File::open(entry.path()).map_err(failed)?;
        let session = worker::resume(&place, &mut BufReader::with_capacity(1 << 20, file));
        resumed
            .push(session.map_err(|error| AgentError::Refused(format!("a session stays saved: {error}")))?);
        std::fs::remove_file(entry.path()).map_err(failed)?;
    }
    Ok(resumed)
}
