//! Wave initialisation: fills the scalar registers and v0 before a wave's first instruction.
//!
//! Launches of many short waves spend much of their time here, and a plain copy of this size calls the C library. It is therefore
//! a handler compiled for each CPU level.

use std::marker::PhantomData;

use crate::exec::lane::body::per_level;
use crate::exec::lane::row_vector::RowVector;
use crate::wave::sreg;
use crate::{Body, Flow, Level, Src, Uop, Wave};

/// Number of dwords per copy step.
const ROW: usize = 16;

/// The micro-op that fills a wave's scalar registers and v0 from its dispatch, according to the wave's index in the workgroup.
pub fn uop(level: Level) -> Uop {
    let run = per_level!(level, WaveInit);
    Uop { run, dst: 0, sdst: 0, src: [Src::default(); 4], imm: 0, flags: 0, inst: 0 }
}

struct WaveInit<C>(PhantomData<C>);
impl<C: RowVector> Body for WaveInit<C> {
    #[inline(always)]
    fn run(wave: &mut Wave, _: &Uop) -> Flow {
        // SAFETY: every kernel has v0, and a scalar file has more than one row; its last row overlaps the one before it. The
        // handler runs at a level this CPU has.
        unsafe {
            let Some(context) = wave.context() else { return Flow::Next };
            let (scalars, v0) = context.initial(wave.index);
            let (from, to) = (scalars.as_ptr(), wave.sgprs.as_mut_ptr());
            for row in 0..sreg::COUNT / ROW {
                C::store(C::load(from.add(ROW * row)), to.add(ROW * row));
            }
            const LAST: usize = sreg::COUNT - ROW;
            C::store(C::load(from.add(LAST)), to.add(LAST));
            let items = v0.0.as_ptr();
            let to = wave.vgprs.as_mut_ptr().cast::<u32>();
            for row in 0..64 / ROW {
                C::store(C::load(items.add(ROW * row)), to.add(ROW * row));
            }
        }
        Flow::Next
    }
}
