//! What a running wave needs of its workgroup and dispatch. Handlers reach the run time only through this interface.

use std::fmt::Debug;

use crate::fault::FaultKind;
use crate::memory::Range;
use crate::wave::{Lanes, Scalars, Wave};

/// Execution context of a wave.
pub(crate) trait WaveContext: Debug {
    /// The memory range that contains `address`, if kernels of this dispatch may access it.
    fn find(&self, address: u64) -> Option<Range>;

    /// Number of the workgroup in its grid.
    fn linear_workgroup(&self) -> u64;

    /// Scalar registers and v0 with which wave `index` of a full workgroup starts.
    fn initial(&self, index: u32) -> (&Scalars, &Lanes);

    /// Arrives at the grid-wide barrier as one of `members`, or polls it again. Returns true when the caller may continue.
    fn arrive(&self, waiting: &mut Option<u64>, members: u32) -> bool;

    /// Serves the pending hostcalls of the dispatch.
    fn serve_hostcalls(&self) -> Result<(), FaultKind>;

    /// Points `wave` at the code at `address`, in any program of the kernel. Returns false if there is no instruction.
    fn enter(&self, wave: &mut Wave, address: u64) -> bool;
}
