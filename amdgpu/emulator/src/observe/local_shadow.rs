//! Shadow of a workgroup's LDS: for every byte, the last waves that wrote and read it.
//!
//! Two accesses of different waves race if one is a plain write and no barrier separates them. Atomics never race, since an
//! atomic load or store cannot be distinguished from a plain one here. A wave that has used an atomic since the other wave's
//! access counts as ordered after it.

use isa::AccessKind;

use super::accesses::Access;
use super::conflict::{AccessSite, Conflict, Problem};

/// Maximum number of waves in a workgroup.
const WAVES: usize = 16;

/// A recorded access.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Time by the shadow's clock; 0 means never.
    time: u64,
    instruction: u64,
    wave: u8,
    /// 64 for a scalar access.
    lane: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    write: Mark,
    /// Reads by two different waves.
    reads: [Mark; 2],
    /// Time of the last write by any access, including atomics.
    set: u64,
}

/// Shadow of one workgroup's LDS. Reused for the next workgroup: entries older than `started` belong to earlier ones.
#[derive(Debug)]
pub(crate) struct LocalShadow {
    bytes: Vec<Byte>,
    time: u64,
    started: u64,
    /// Time of the last barrier, and of each wave's last atomic.
    ordered: u64,
    synced: [u64; WAVES],
}

impl LocalShadow {
    pub fn new() -> LocalShadow {
        LocalShadow { bytes: Vec::new(), time: 1, started: 1, ordered: 1, synced: [0; WAVES] }
    }

    /// Starts a new workgroup.
    pub fn start(&mut self) {
        self.time += 1;
        (self.started, self.ordered) = (self.time, self.time);
        self.synced = [0; WAVES];
    }

    /// Records that all waves have passed a barrier.
    pub fn barrier(&mut self) {
        self.time += 1;
        self.ordered = self.time;
    }

    /// Records an operation that may order a wave with others.
    pub fn synchronise(&mut self, wave: u32) {
        self.time += 1;
        self.synced[wave as usize % WAVES] = self.time;
    }

    /// Checks an access by `site` to LDS of `size` bytes.
    pub fn access(&mut self, access: &Access, site: &AccessSite, size: u32, conflicts: &mut Vec<Conflict>) {
        self.time += 1;
        if access.kind == AccessKind::Atomic {
            self.synced[site.wave as usize % WAVES] = self.time;
        }
        if self.bytes.len() < size as usize {
            self.bytes.resize(size as usize, Byte::default());
        }
        // Each kind of problem is reported once per access, for its first lane.
        let mut reported = [false; 3];
        for (lane, address) in access.iter() {
            let site = AccessSite { lane: (!access.scalar).then_some(lane), ..*site };
            if address.saturating_add(u64::from(access.bytes)) > u64::from(size) {
                if !std::mem::replace(&mut reported[0], true) {
                    conflicts.push(Conflict {
                        problem: Problem::LocalOutOfBounds,
                        address,
                        by: site,
                        with: None,
                    });
                }
                continue;
            }
            for at in address..address + u64::from(access.bytes) {
                let (unset, race) = self.touch(at as usize, access.kind, &site);
                if unset && !std::mem::replace(&mut reported[1], true) {
                    conflicts.push(Conflict {
                        problem: Problem::LocalUnset,
                        address: at,
                        by: site,
                        with: None,
                    });
                }
                if let Some(other) = race
                    && !std::mem::replace(&mut reported[2], true)
                {
                    conflicts.push(Conflict {
                        problem: Problem::LocalRace,
                        address: at,
                        by: site,
                        with: Some(other),
                    });
                }
            }
        }
    }

    /// Records an access to one byte. Returns whether it read an uninitialised byte, and the access that it races with.
    fn touch(&mut self, at: usize, kind: AccessKind, site: &AccessSite) -> (bool, Option<AccessSite>) {
        let since = self.ordered.max(self.synced[site.wave as usize % WAVES]);
        let byte = &mut self.bytes[at];
        let wave = site.wave as u8;
        let lane = site.lane.map_or(64, |lane| lane as u8);
        let mark = Mark { time: self.time, instruction: site.instruction, wave, lane };
        let races = |mark: &Mark| mark.time > since && mark.wave != wave;
        let other = |mark: &Mark, kind: AccessKind| AccessSite {
            instruction: mark.instruction,
            group: site.group,
            wave: u32::from(mark.wave),
            lane: (mark.lane < 64).then_some(u32::from(mark.lane)),
            kind,
        };
        let unset = kind != AccessKind::Store && byte.set < self.started;
        let mut race = races(&byte.write).then(|| other(&byte.write, AccessKind::Store));
        match kind {
            AccessKind::Atomic => {
                byte.set = self.time;
                race = None;
            }
            AccessKind::Load => {
                // Two readers of different waves are enough: a writer differs from at least one of them.
                let stale = |mark: &Mark| mark.time <= self.ordered || mark.wave == wave;
                if let Some(slot) = byte.reads.iter_mut().find(|mark| stale(mark)) {
                    *slot = mark;
                }
            }
            AccessKind::Store => {
                let reader = byte.reads.iter().find(|mark| races(mark));
                race = race.or(reader.map(|mark| other(mark, AccessKind::Load)));
                byte.write = mark;
                byte.set = self.time;
            }
        }
        (unset, race)
    }
}
