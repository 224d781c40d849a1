//! Failover: a session whose worker died continues on another worker, or in another process of the same one.
//!
//! The client keeps a journal of the requests since the session began or since its last checkpoint, and a history of what the
//! program has seen of the results. Replay sends the requests again, in an order that the program could have produced, and compares
//! the results with the history. docs/failover.md has the design.

pub mod history;
pub mod journal;
mod observe;
mod packed;
mod replay;
mod space;
mod spill;

use std::path::PathBuf;

use parking_lot::{Mutex, MutexGuard};
use wire::{DeviceSnapshot, Header, Opcode, Welcome};

use history::History;
use journal::Journal;

use crate::config::Candidate;
use crate::receive::pending::Destination;
use crate::send::ring::Ring;

/// Limits of failover.
#[derive(Clone, Debug)]
pub struct FailoverConfig {
    /// Folder of the part of the journal that does not fit into memory.
    pub folder: PathBuf,
    /// Most bytes of the journal, in memory and on disk. A session that needs more loses its failover. The history, which is always in
    /// memory, may have an eighth of that, and at least [`LEAST_HISTORY`].
    pub limit: u64,
}

/// The history may always have this many bytes: close to a million results.
pub const LEAST_HISTORY: u64 = 64 << 20;

/// The failover state of a session.
#[derive(Debug)]
pub struct Failover {
    /// What the program knows of the devices: another worker must have the same.
    devices: Vec<DeviceSnapshot>,
    /// Base and size of the device address range.
    arena: (u64, u64),
    /// Most bytes of the history, which stays in memory.
    most_history: u64,
    state: Mutex<State>,
}

/// What was sent, and what was seen.
#[derive(Debug)]
pub struct State {
    /// Requests in order.
    pub journal: Journal,
    /// Results that the program may know.
    pub history: History,
    /// Why the session cannot fail over any more.
    disabled: Option<String>,
    /// Whether results that the program does not know yet are kept back: it must not see them before the mirrored memory that was
    /// written with them.
    defers: bool,
    deferred: Vec<Deferred>,
    /// Whether journal and history begin with the session, so that it can be replayed from its start.
    is_whole: bool,
    /// The worker that has the last checkpoint.
    place: Option<Candidate>,
    /// Whether the user was told that checkpoints are not used.
    warned: bool,
    /// Whether the session was restored and the worker has not reported yet what the checkpoint covers.
    restoring: bool,
    /// Whether no work was under way when the worker died, so that mirrored memory must be what the program knows.
    is_idle: bool,
}

/// A result that is kept back.
#[derive(Debug)]
enum Deferred {
    Reply {
        frame: u64,
        number: u64,
        opcode: Opcode,
        header: Header,
        payload: Vec<u8>,
        destination: Option<Destination>,
    },
    Push {
        frame: u64,
        opcode: Opcode,
        payload: Vec<u8>,
    },
}

impl Failover {
    /// The state of a new session.
    pub fn new(config: &FailoverConfig, welcome: &Welcome) -> Failover {
        Failover {
            devices: welcome.devices.clone(),
            arena: (welcome.arena_base, welcome.arena_bytes),
            most_history: (config.limit / 8).max(LEAST_HISTORY),
            state: Mutex::new(State {
                journal: Journal::new(config.folder.clone(), config.limit),
                history: History::default(),
                disabled: None,
                defers: false,
                deferred: Vec::new(),
                is_idle: false,
                is_whole: true,
                place: None,
                warned: false,
                restoring: false,
            }),
        }
    }

    /// Base and size of the device address range.
    pub fn arena(&self) -> (u64, u64) {
        self.arena
    }

    /// Locks journal and history. `None` if the session cannot fail over any more.
    pub fn lock(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.state.lock();
        state.disabled.is_none().then_some(state)
    }

    /// Why the session cannot fail over any more.
    pub fn disabled(&self) -> Option<String> {
        self.state.lock().disabled.clone()
    }

    /// Keeps the requests up to this one, which the worker has received and which are still in the ring. Returns the reason if
    /// failover ends with one of them.
    pub fn keep(&self, ring: &Ring, received: u64) -> Option<String> {
        let mut state = self.lock()?;
        let most = self.most_history;
        let mut reason = (state.history.bytes() > most).then(|| {
            format!(
                "what the program knows of results exceeds {most} bytes (an eighth of REMORA_FAILOVER_LIMIT, at least 64 MiB)"
            )
        });
        ring.each_until(received, |number, inline, lent| {
            if reason.is_none() {
                reason = state.keep(number, inline, lent);
            }
        });
        if let Some(reason) = &reason {
            state.disable(reason);
        }
        reason
    }

    /// The difference that keeps a worker with these devices from continuing the session.
    fn difference(&self, welcome: &Welcome) -> Option<String> {
        if welcome.devices.len() != self.devices.len() {
            let (known, found) = (self.devices.len(), welcome.devices.len());
            return Some(format!("it has {found} devices, the session {known}"));
        }
        self.devices.iter().zip(&welcome.devices).find_map(|(known, found)| {
            let ordinal = known.ordinal;
            if known.isa != found.isa {
                Some(format!("its device {ordinal} is {}, that of the session {}", found.isa, known.isa))
            } else if known.total_memory != found.total_memory || known.attributes != found.attributes {
                Some(format!("its device {ordinal} has other attributes than that of the session"))
            } else {
                None
            }
        })
    }
}

impl State {
    /// Keeps a request. Returns the reason if failover ends with it.
    fn keep(&mut self, number: u64, inline: &[u8], lent: &[u8]) -> Option<String> {
        match inline.first_chunk().map(|header| Header::decode(header).map(|header| header.known())) {
            Some(Ok(Ok(Opcode::ShareMemory | Opcode::ShareAllocation | Opcode::OpenMemory))) => {
                Some("the program shares memory with other sessions".to_owned())
            }
            _ => self.journal.push(number, inline, lent).err().map(|error| error.to_string()),
        }
    }

    /// Drops what a checkpoint covers: the first `received` requests, and the results in the first `frames` frames.
    fn checkpointed(&mut self, received: u64, frames: u64, place: Candidate) {
        self.place = Some(place);
        if self.history.is_replaying() {
            return;
        }
        self.journal.forget(received);
        // While the journal is complete, the session can be replayed from its start, which needs the complete history.
        self.is_whole &= self.journal.first() == 1 && !self.restoring;
        if !self.is_whole {
            self.history.forget(frames);
        }
        self.restoring = false;
    }

    /// Ends failover and frees what was kept for it.
    fn disable(&mut self, reason: &str) {
        self.disabled = Some(reason.to_owned());
        self.journal.clear();
        self.history = History::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{Content, Seen};

    fn place() -> Candidate {
        Candidate { endpoint: "gpu1:1".parse().unwrap(), token: None, trust: None }
    }

    /// A session with three requests and the replies to all of them.
    fn state() -> State {
        let folder = std::env::temp_dir();
        let failover = Failover::new(&FailoverConfig { folder, limit: 1 << 20 }, &Welcome::default());
        let mut state = failover.state.into_inner();
        for number in 1..=3 {
            state.journal.push(number, &[0; 100], &[]).unwrap();
            state.history.record(Seen::Reply(number), number, number, Content::default());
        }
        state
    }

    #[test]
    fn the_history_is_complete_as_long_as_the_journal_is() {
        let mut state = state();
        let all = state.history.bytes();
        // The journal drops whole segments, so it still has the requests that this checkpoint covers.
        state.checkpointed(2, 2, place());
        assert!(state.is_whole && state.journal.first() == 1 && state.history.bytes() == all);
        state.checkpointed(3, 3, place());
        assert!(!state.is_whole && state.journal.first() == 4 && state.history.bytes() == 0);
    }

    #[test]
    fn a_history_that_grows_too_large_ends_failover() {
        let config = FailoverConfig { folder: std::env::temp_dir(), limit: 8 << 10 };
        let failover = Failover { most_history: 1024, ..Failover::new(&config, &Welcome::default()) };
        let ring = Ring::new(4096, 4).unwrap();
        for number in 1.. {
            let size = failover.lock().unwrap().history.bytes();
            let reason = failover.keep(&ring, 0);
            assert_eq!(reason.is_some(), size > 1 << 10, "{reason:?}");
            if reason.is_some() {
                break;
            }
            failover.lock().unwrap().history.record(Seen::Reply(number), number, number, Content::default());
        }
        assert!(failover.lock().is_none() && failover.disabled().unwrap().contains("1024 bytes"));
    }

    #[test]
    fn a_small_limit_of_the_journal_leaves_room_for_the_history() {
        let limits = [1 << 20, 512 << 20, 4 << 30].map(|limit| {
            let config = FailoverConfig { folder: std::env::temp_dir(), limit };
            Failover::new(&config, &Welcome::default()).most_history
        });
        assert_eq!(limits, [64 << 20, 64 << 20, 512 << 20]);
    }

    #[test]
    fn a_restored_session_drops_what_its_checkpoint_covers() {
        let mut state = state();
        let all = state.history.bytes();
        state.restoring = true;
        state.checkpointed(2, 2, place());
        assert!(!state.is_whole && !state.restoring && state.history.bytes() == all / 3);
    }
}
