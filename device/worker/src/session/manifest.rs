//! Manifest of a session's snapshot: everything except bulk data, as JSON. The first section.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use backend::{Arena, Device, Inventory};
use serde::{Deserialize, Serialize};

use crate::outgoing::mirrors::MirrorRecord;
use crate::session::snapshot::SnapshotError;

/// A session at rest. Holds the session's secret, so it must be kept private.
#[derive(Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) session_id: u64,
    pub(crate) secret: [u8; 32],
    /// Name of the program, for display.
    pub(crate) client: String,
    pub(crate) pid: u32,
    /// Worker that the snapshot was taken from, for display.
    pub(crate) worker: String,
    /// Time of the snapshot, in nanoseconds since the Unix epoch.
    pub(crate) taken_at: u64,
    /// Base and size.
    pub(crate) arena: (u64, u64),
    pub(crate) devices: Vec<DeviceRecord>,
    /// Number of requests that have arrived.
    pub(crate) received: u64,
    /// Number of frames that the client has acknowledged, and number of unacknowledged ones that follow as sections.
    pub(crate) acknowledged: u64,
    pub(crate) frames: u64,
    pub(crate) images: u64,
    pub(crate) graphs: u64,
    /// Tokens of graphs' host functions that were cancelled and that the client will still answer.
    pub(crate) called_off: Vec<u64>,
    /// Number of the last mirror change from the client that was applied.
    pub(crate) changes_taken: u64,
    pub(crate) mirrors: Vec<MirrorRecord>,
    /// Whether spans are recorded, and the value of their clock.
    pub(crate) spans: bool,
    pub(crate) span_clock: u64,
    pub(crate) inventory: Inventory,
    /// Set in checkpoints.
    #[serde(default)]
    pub(crate) checkpoint: Option<CheckpointRecord>,
}

/// Description of a checkpoint, which holds only what has changed since the one before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CheckpointRecord {
    /// Counts from 1; the first one is complete.
    pub(crate) number: u64,
    /// Hashes of all code objects, in order. This or an earlier checkpoint contains them.
    pub(crate) images: Vec<[u8; 32]>,
}

/// Description of a GPU as reported to the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceRecord {
    name: String,
    isa: String,
    memory: u64,
    attributes: Vec<(i32, i32)>,
}

impl Manifest {
    pub(crate) fn arena(&self) -> Arena {
        Arena { base: self.arena.0, bytes: self.arena.1 }
    }

    pub(crate) fn to_json(&self) -> Result<Vec<u8>, SnapshotError> {
        serde_json::to_vec(self).map_err(|error| SnapshotError::from(io::Error::from(error)))
    }

    /// Age in nanoseconds; zero if the clock was set back.
    pub(crate) fn age_ns(&self) -> u64 {
        now().saturating_sub(self.taken_at)
    }
}

/// Describes the GPUs of a session as reported to the client.
pub(crate) fn describe(device: &dyn Device) -> Vec<DeviceRecord> {
    let record = |info: &backend::DeviceInfo| DeviceRecord {
        name: info.name.clone(),
        isa: info.isa.clone(),
        memory: info.total_memory,
        attributes: info.attributes.clone(),
    };
    device.info().iter().map(record).collect()
}

/// Returns how the devices found differ from those the session knows, if they do.
pub(crate) fn difference(known: &[DeviceRecord], found: &[DeviceRecord]) -> Option<String> {
    if known.len() != found.len() {
        return Some(format!("the session has {} devices, this worker {}", known.len(), found.len()));
    }
    let (at, (known, found)) =
        known.iter().zip(found).enumerate().find(|(_, (known, found))| known != found)?;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    Some(if known.isa != found.isa {
        format!("device {at} of the session is {}, that of this worker is {}", known.isa, found.isa)
    } else if known.name != found.name {
        format!("device {at} of the session is {}, that of this worker is {}", known.name, found.name)
    } else if known.memory != found.memory {
        let (known, found) = (gib(known.memory), gib(found.memory));
        format!("device {at} of the session has {known:.1} GiB, that of this worker {found:.1} GiB")
    } else {
        format!("device {at} of this worker has different attributes from that of the session")
    })
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_differ_are_told_apart_by_what_matters_most() {
        let device = |name: &str, isa: &str, memory| DeviceRecord {
            name: name.to_owned(),
            isa: isa.to_owned(),
            memory,
            attributes: vec![(1, 2)],
        };
        let known = [device("MI300X", "gfx942", 1 << 30)];
        let difference = |found: &[DeviceRecord]| super::difference(&known, found).unwrap();
        assert_eq!(super::difference(&known, &known), None);
        assert!(difference(&[]).contains("1 devices"));
        assert!(difference(&[device("MI210", "gfx90a", 1 << 30)]).contains("gfx90a"));
        assert!(difference(&[device("MI325X", "gfx942", 1 << 30)]).contains("MI325X"));
        assert!(difference(&[device("MI300X", "gfx942", 2 << 30)]).contains("2.0 GiB"));
        let other = DeviceRecord { attributes: Vec::new(), ..known[0].clone() };
        assert!(difference(&[other]).contains("attributes"));
    }
}
