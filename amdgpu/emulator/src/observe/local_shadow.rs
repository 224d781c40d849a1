//! A shadow of a workgroup's local memory: for every byte, who wrote and read it last.
//!
//! Two accesses of different waves race if one is a plain write and no barrier is between them. An atomic races with nothing,
//! since an atomic load or store cannot be told from a plain one here; and a wave that has used an atomic since the other
//! access is taken to be ordered with it.

use super::accesses::{Access, Kind};
use super::check::{Clash, Problem, Who};

/// Waves of a workgroup, at most.
const WAVES: usize = 16;

/// An access that was made.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// When, by the shadow's clock; 0 for never.
    time: u64,
    instruction: u64,
    wave: u8,
    /// 64 for a scalar access.
    lane: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    write: Mark,
    /// Of two different waves.
    reads: [Mark; 2],
    /// When it was last written, by anything.
    set: u64,
}

/// The shadow. It is kept for the next workgroup: what is older than `started` is of earlier ones.
#[derive(Debug)]
pub(crate) struct LocalShadow {
    bytes: Vec<Byte>,
    time: u64,
    started: u64,
    /// When the last barrier was passed, and when each wave last used an atomic.
    ordered: u64,
    synced: [u64; WAVES],
}

impl LocalShadow {
    pub fn new() -> LocalShadow {
        LocalShadow { bytes: Vec::new(), time: 1, started: 1, ordered: 1, synced: [0; WAVES] }
    }

    /// A new workgroup begins.
    pub fn start(&mut self) {
        self.time += 1;
        (self.started, self.ordered) = (self.time, self.time);
        self.synced = [0; WAVES];
    }

    /// All waves have passed a barrier.
    pub fn barrier(&mut self) {
        self.time += 1;
        self.ordered = self.time;
    }

    /// A wave did something that may order it with others.
    pub fn synchronise(&mut self, wave: u32) {
        self.time += 1;
        self.synced[wave as usize % WAVES] = self.time;
    }

    /// Looks at an access by `who` to local memory of `size` bytes.
    pub fn access(&mut self, access: &Access, who: &Who, size: u32, clashes: &mut Vec<Clash>) {
        self.time += 1;
        if access.kind == Kind::Atomic {
            self.synced[who.wave as usize % WAVES] = self.time;
        }
        if self.bytes.len() < size as usize {
            self.bytes.resize(size as usize, Byte::default());
        }
        // Of every problem the first lane is told.
        let mut told = [false; 3];
        for (lane, address) in access.iter() {
            let who = Who { lane: (!access.scalar).then_some(lane), ..*who };
            if address.saturating_add(u64::from(access.bytes)) > u64::from(size) {
                if !std::mem::replace(&mut told[0], true) {
                    clashes.push(Clash { problem: Problem::LocalOutOfBounds, address, by: who, with: None });
                }
                continue;
            }
            for at in address..address + u64::from(access.bytes) {
                let (unset, race) = self.touch(at as usize, access.kind, &who);
                if unset && !std::mem::replace(&mut told[1], true) {
                    clashes.push(Clash { problem: Problem::LocalUnset, address: at, by: who, with: None });
                }
                if let Some(other) = race
                    && !std::mem::replace(&mut told[2], true)
                {
                    clashes.push(Clash {
                        problem: Problem::LocalRace,
                        address: at,
                        by: who,
                        with: Some(other),
                    });
                }
            }
        }
    }

    /// Notes an access to one byte; says whether it read what nobody wrote, and with whom it races.
    fn touch(&mut self, at: usize, kind: Kind, who: &Who) -> (bool, Option<Who>) {
        let since = self.ordered.max(self.synced[who.wave as usize % WAVES]);
        let byte = &mut self.bytes[at];
        let wave = who.wave as u8;
        let lane = who.lane.map_or(64, |lane| lane as u8);
        let mark = Mark { time: self.time, instruction: who.instruction, wave, lane };
        let races = |mark: &Mark| mark.time > since && mark.wave != wave;
        let other = |mark: &Mark, kind: Kind| Who {
            instruction: mark.instruction,
            group: who.group,
            wave: u32::from(mark.wave),
            lane: (mark.lane < 64).then_some(u32::from(mark.lane)),
            kind,
        };
        let unset = kind != Kind::Store && byte.set < self.started;
        let mut race = races(&byte.write).then(|| other(&byte.write, Kind::Store));
        match kind {
            Kind::Atomic => {
                byte.set = self.time;
                race = None;
            }
            Kind::Load => {
                // Two readers of different waves are enough: a writer differs from at least one of them.
                let stale = |mark: &Mark| mark.time <= self.ordered || mark.wave == wave;
                if let Some(slot) = byte.reads.iter_mut().find(|mark| stale(mark)) {
                    *slot = mark;
                }
            }
            Kind::Store => {
                let reader = byte.reads.iter().find(|mark| races(mark));
                race = race.or(reader.map(|mark| other(mark, Kind::Load)));
                byte.write = mark;
                byte.set = self.time;
            }
        }
        (unset, race)
    }
}
