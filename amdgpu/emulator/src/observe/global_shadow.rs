//! Shadow of the global memory that a launch accesses: for every dword, the last workgroups that wrote and read it.
//!
//! Two accesses of different workgroups race if one is a plain write. Atomics and coherent accesses never race. A workgroup that
//! has made such an access since the other workgroup's access counts as ordered after it; this covers kernels whose last
//! workgroup sums up the results of the others. The shadow is bounded: beyond its size, new pages are not checked.

use std::collections::HashMap;

use isa::AccessKind;

use super::accesses::Access;
use super::conflict::{AccessSite, Conflict, Problem};
use crate::memory::Range;

const PAGE: u64 = 4096;
/// Corresponds to 32 MiB of accessed memory, for which the shadow takes about 400 MiB.
const MAX_PAGES: usize = 8192;

/// A recorded access.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Time by the shadow's clock; 0 means never.
    time: u32,
    /// The workgroup's number, and the index of the instruction in `instructions`.
    group: u32,
    instruction: u32,
    wave: u8,
    /// 64 for a scalar access.
    lane: u8,
    /// Mask of the bytes accessed in the dword.
    bytes: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Dword {
    write: Mark,
    /// The last reads by two different workgroups.
    reads: [Mark; 2],
}

#[derive(Debug, Default)]
pub(crate) struct GlobalShadow {
    pages: HashMap<u64, Box<[Dword]>>,
    time: u32,
    instructions: Vec<u64>,
    numbers: HashMap<u64, u32>,
    /// Number of accesses that were not checked.
    pub unchecked: u64,
}

impl GlobalShadow {
    /// Advances the clock. Returns a time later than that of all accesses so far.
    pub fn now(&mut self) -> u32 {
        self.time = self.time.saturating_add(1);
        self.time
    }

    /// Checks a plain access by `site`, whose workgroup may be ordered after everything up to `synced`.
    pub fn access(
        &mut self,
        access: &Access,
        site: &AccessSite,
        synced: u32,
        own: &[Range],
        conflicts: &mut Vec<Conflict>,
    ) {
        let time = self.now();
        let next = self.instructions.len() as u32;
        let instruction = *self.numbers.entry(site.instruction).or_insert(next);
        if instruction == next {
            self.instructions.push(site.instruction);
        }
        for (lane, address) in access.iter() {
            // Private buffers of the dispatch belong to the runtime and are not checked.
            if own.iter().any(|range| address >= range.start && address < range.end) {
                continue;
            }
            let site = AccessSite { lane: (!access.scalar).then_some(lane), ..*site };
            let lane = site.lane.map_or(64, |lane| lane as u8);
            let end = address.saturating_add(u64::from(access.bytes));
            let mut at = address;
            while at < end {
                let next = (at / 4 + 1).saturating_mul(4).min(end);
                let bytes = (((1u32 << (next - at)) - 1) << (at % 4)) as u8;
                let mark =
                    Mark { time, group: site.group as u32, instruction, wave: site.wave as u8, lane, bytes };
                let Some(dword) = self.dword(at) else {
                    self.unchecked += 1;
                    break;
                };
                if let Some((mark, kind)) = touch(dword, access.kind, mark, synced)
                    && conflicts.is_empty()
                {
                    let with = AccessSite {
                        instruction: self.instructions[mark.instruction as usize],
                        group: u64::from(mark.group),
                        wave: u32::from(mark.wave),
                        lane: (mark.lane < 64).then_some(u32::from(mark.lane)),
                        kind,
                    };
                    conflicts.push(Conflict {
                        problem: Problem::GlobalRace,
                        address: at,
                        by: site,
                        with: Some(with),
                    });
                }
                at = next;
            }
        }
    }

    fn dword(&mut self, address: u64) -> Option<&mut Dword> {
        let page = address / PAGE;
        if self.pages.len() >= MAX_PAGES && !self.pages.contains_key(&page) {
            return None;
        }
        let new = || vec![Dword::default(); PAGE as usize / 4].into();
        let page = self.pages.entry(page).or_insert_with(new);
        page.get_mut((address % PAGE / 4) as usize)
    }
}

/// Records an access to a dword. Returns the access that it races with.
fn touch(dword: &mut Dword, kind: AccessKind, mark: Mark, synced: u32) -> Option<(Mark, AccessKind)> {
    let races = |other: &Mark| {
        other.time > synced && other.time > 0 && other.group != mark.group && other.bytes & mark.bytes != 0
    };
    let mut race = races(&dword.write).then_some((dword.write, AccessKind::Store));
    if kind == AccessKind::Store {
        race = race.or(dword.reads.iter().find(|read| races(read)).map(|read| (*read, AccessKind::Load)));
        let same = dword.write.group == mark.group && dword.write.time > 0;
        dword.write = Mark { bytes: mark.bytes | if same { dword.write.bytes } else { 0 }, ..mark };
    } else {
        let own = dword.reads.iter_mut().find(|read| read.time == 0 || read.group == mark.group);
        if let Some(read) = own {
            let same = if read.time > 0 { read.bytes } else { 0 };
            *read = Mark { bytes: mark.bytes | same, ..mark };
        } else {
            // Replace the older read, so that the two most recent workgroups are kept.
            let oldest = if dword.reads[0].time <= dword.reads[1].time { 0 } else { 1 };
            dword.reads[oldest] = mark;
        }
    }
    race
}
