//! What a session in a file says of itself, but for bulk: the first section, as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use backend::{Arena, Device, Inventory};
use serde::{Deserialize, Serialize};

use crate::mirror::MirrorRecord;

/// A session at rest. Holds the session's secret, so it is not for everybody's eyes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) session_id: u64,
    pub(crate) secret: [u8; 32],
    /// The program, for people.
    pub(crate) client: String,
    pub(crate) pid: u32,
    /// The worker it was taken from, for people.
    pub(crate) worker: String,
    /// When it was taken, in nanoseconds of the world's clock.
    pub(crate) taken_at: u64,
    /// Base and size.
    pub(crate) arena: (u64, u64),
    pub(crate) devices: Vec<DeviceRecord>,
    /// Requests that have arrived.
    pub(crate) received: u64,
    /// Frames that the client has acknowledged, and how many more follow as sections.
    pub(crate) acknowledged: u64,
    pub(crate) frames: u64,
    pub(crate) images: u64,
    pub(crate) graphs: u64,
    /// Turns of graphs that were called off and are still to be answered.
    pub(crate) called_off: Vec<u64>,
    /// The last of the client's changes of mirrors that was put in.
    pub(crate) changes_taken: u64,
    pub(crate) mirrors: Vec<MirrorRecord>,
    /// The times of streams are told, by this clock.
    pub(crate) spans: bool,
    pub(crate) span_clock: u64,
    pub(crate) inventory: Inventory,
}

/// A GPU as its session was told of it.
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

    /// How long ago it was taken; nothing by a clock that went back.
    pub(crate) fn age_ns(&self) -> u64 {
        now().saturating_sub(self.taken_at)
    }
}

/// The GPUs of a session, as its client knows them.
pub(crate) fn describe(device: &dyn Device) -> Vec<DeviceRecord> {
    let record = |info: &backend::DeviceInfo| DeviceRecord {
        name: info.name.clone(),
        isa: info.isa.clone(),
        memory: info.total_memory,
        attributes: info.attributes.clone(),
    };
    device.info().iter().map(record).collect()
}

/// What is wrong with devices that a session shall go on on, in place of those it knows.
pub(crate) fn difference(known: &[DeviceRecord], found: &[DeviceRecord]) -> Option<String> {
    if known.len() != found.len() {
        return Some(format!("the session has {} devices, this worker {}", known.len(), found.len()));
    }
    let (at, (known, found)) =
        known.iter().zip(found).enumerate().find(|(_, (known, found))| known != found)?;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    Some(if known.isa != found.isa {
        format!("device {at} of the session is {}, of this worker {}", known.isa, found.isa)
    } else if known.name != found.name {
        format!("device {at} of the session is an {}, of this worker an {}", known.name, found.name)
    } else if known.memory != found.memory {
        let (known, found) = (gib(known.memory), gib(found.memory));
        format!("device {at} of the session has {known:.1} GiB, of this worker {found:.1} GiB")
    } else {
        format!("device {at} of this worker has other attributes than that of the session")
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
