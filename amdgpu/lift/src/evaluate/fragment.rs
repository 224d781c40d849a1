//! Evaluation of a fragment of code whose registers are given and observed.

use super::launch::Launch;
use super::memory::Memory;
use super::wave::{Program, Stop, Surroundings, Wave};
use super::{Fault, Stats};
use crate::Function;
use crate::form::Register;

/// State that a fragment starts from and changes.
pub struct Fragment<'a> {
    /// Value of a register in a lane before the fragment.
    pub register: &'a dyn Fn(Register, usize) -> u64,
    /// LDS.
    pub local: &'a mut Vec<u8>,
    /// Scratch of each lane.
    pub private: &'a mut Vec<Vec<u8>>,
    /// Device memory.
    pub memory: &'a mut dyn Memory,
}

impl std::fmt::Debug for Fragment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fragment").field("local", &self.local.len()).finish_non_exhaustive()
    }
}

/// Values of the observed registers: one for a uniform register, else one for each lane.
pub type Observed = Vec<(Register, Vec<u64>)>;

/// Runs a fragment as one wave. Fragments with barriers are not supported.
pub fn run_fragment(
    function: &Function,
    fragment: Fragment<'_>,
    steps: u64,
) -> Result<(Observed, Stats), Fault> {
    let launch = Launch { lds_bytes: fragment.local.len() as u32, steps, ..Launch::default() };
    let program = Program::new(function)?;
    let mut wave = Wave::new(&program, [0; 3], 0);
    wave.registers = Some(fragment.register);
    wave.private.clone_from(fragment.private);
    let mut stats = Stats::default();
    let mut around =
        Surroundings { launch: &launch, local: fragment.local, memory: fragment.memory, stats: &mut stats };
    let stop = wave.run(&mut around, u64::MAX)?;
    if stop != Stop::End {
        return Err(Fault::Barrier);
    }
    *fragment.private = wave.private;
    Ok((wave.observed, stats))
}
