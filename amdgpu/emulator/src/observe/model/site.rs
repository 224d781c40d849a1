//! Sites: the instructions of a launch, numbered so that a wave's path is a list of small integers.

use std::sync::Arc;

use isa::Inst;
use parking_lot::Mutex;

use crate::program::Program;

/// An instruction of a program: a micro-op, or an instruction that the emulator drops because it has no effect on results, such as
/// `s_waitcnt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Site(u32);

const SLOT_SHIFT: u32 = 24;
const DROPPED: u32 = 1 << 23;
/// Programs of a launch that have sites; instructions of further ones are not modelled.
pub(crate) const MAX_PROGRAMS: usize = 256;

impl Site {
    pub fn uop(slot: usize, at: usize) -> Site {
        Site((slot as u32) << SLOT_SHIFT | at as u32 & (DROPPED - 1))
    }

    pub fn dropped(slot: usize, index: usize) -> Site {
        Site((slot as u32) << SLOT_SHIFT | DROPPED | index as u32 & (DROPPED - 1))
    }

    pub fn from_word(word: u32) -> Site {
        Site(word)
    }

    pub fn word(self) -> u32 {
        self.0
    }

    /// Number of the program.
    pub fn slot(self) -> usize {
        (self.0 >> SLOT_SHIFT) as usize
    }

    /// Index of the micro-op or of the dropped instruction.
    pub fn index(self) -> usize {
        (self.0 & (DROPPED - 1)) as usize
    }

    pub fn is_dropped(self) -> bool {
        self.0 & DROPPED != 0
    }
}

/// Dropped instructions of a program, by the instruction that follows them.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub base: u64,
    /// For each instruction, the first of the dropped ones directly before it, and their number.
    before: Box<[(u32, u32)]>,
}

impl Dropped {
    fn of(program: &Program) -> Dropped {
        let mut next = 0;
        let before = |inst: usize| {
            let offset = program.offset_of(inst);
            let first = next;
            while program.dropped.get(next).is_some_and(|(at, _)| *at < offset) {
                next += 1;
            }
            (first as u32, (next - first) as u32)
        };
        Dropped { base: program.base(), before: (0..program.insts.len()).map(before).collect() }
    }

    /// Dropped instructions that a wave passes which continues at `from` and executes instruction `inst` next.
    pub fn passed<'a>(
        &self,
        program: &'a Program,
        inst: usize,
        from: u64,
    ) -> impl Iterator<Item = (usize, &'a Inst)> + use<'a> {
        let (first, count) = self.before.get(inst).copied().unwrap_or_default();
        let from = from.wrapping_sub(program.base());
        (first as usize..(first + count) as usize).filter_map(move |index| {
            let (offset, inst) = program.dropped.get(index)?;
            (u64::from(*offset) >= from).then_some((index, inst))
        })
    }

    pub fn has_before(&self, inst: usize) -> bool {
        self.before.get(inst).is_some_and(|(_, count)| *count > 0)
    }
}

/// Programs of a launch, in the order in which waves entered them.
#[derive(Debug, Default)]
pub(crate) struct Programs(Mutex<Vec<Arc<Dropped>>>);

impl Programs {
    /// Slot of a program, or `None` if there are too many.
    pub fn slot(&self, program: &Program) -> Option<(usize, Arc<Dropped>)> {
        let mut programs = self.0.lock();
        let at = match programs.iter().position(|known| known.base == program.base()) {
            Some(at) => at,
            None if programs.len() >= MAX_PROGRAMS => return None,
            None => {
                programs.push(Arc::new(Dropped::of(program)));
                programs.len() - 1
            }
        };
        Some((at, Arc::clone(&programs[at])))
    }

    /// Base addresses of the programs by slot.
    pub fn bases(&self) -> Vec<u64> {
        self.0.lock().iter().map(|program| program.base).collect()
    }
}
