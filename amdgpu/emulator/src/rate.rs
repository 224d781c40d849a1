//! Benchmark of wave execution speed: a loop of fused multiply-adds on one thread, without memory accesses.

use std::time::Duration;

use isa::Arch;

use crate::program::{Options, Program};
use crate::run_loop::run_wave;
use crate::wave::Wave;
use crate::{Flow, Level};

/// Sixteen `v_fma_f32`/`v_fmac_f32` on eight accumulators, then `s_sub_u32 s0, s0, 1`, `s_cmp_lg_u32 s0, 0`,
/// `s_cbranch_scc1` back to the start, `s_endpgm`: assembled by LLVM.
const LOOP: [u32; 28] = [
    0xd1cb_0004,
    0x0412_0300,
    0xd1cb_0005,
    0x0416_0300,
    0xd1cb_0006,
    0x041a_0300,
    0xd1cb_0007,
    0x041e_0300, //
    0xd1cb_0008,
    0x0422_0702,
    0xd1cb_0009,
    0x0426_0702,
    0xd1cb_000a,
    0x042a_0702,
    0xd1cb_000b,
    0x042e_0702, //
    0x7608_0702,
    0x760a_0702,
    0x760c_0702,
    0x760e_0702,
    0x7610_0300,
    0x7612_0300,
    0x7614_0300,
    0x7616_0300, //
    0x8080_8100,
    0xbf07_8000,
    0xbf85_ffe5,
    0xbf81_0000,
];
const FMAS_PER_ROUND: u64 = 16;
const INSTRUCTIONS_PER_ROUND: u64 = 19;

/// Result of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// CPU level that was measured.
    pub level: Level,
    /// Instructions, counted once per wave of 64 lanes.
    pub wave_instructions: u64,
    /// Float operations; a fused multiply-add counts as two.
    pub flops: u64,
    /// CPU time of the thread, so that other load on the machine does not count.
    pub elapsed: Duration,
}

impl Rate {
    /// Instructions per second, each executed by one wave.
    pub fn wave_instructions_per_second(&self) -> f64 {
        self.wave_instructions as f64 / self.elapsed.as_secs_f64()
    }

    /// Float operations per second.
    pub fn flops_per_second(&self) -> f64 {
        self.flops as f64 / self.elapsed.as_secs_f64()
    }
}

/// Runs the loop for `rounds` iterations on the calling thread, at `level` or the machine's best level if that is lower.
pub fn fma_loop(level: Level, rounds: u32) -> Rate {
    let level = level.min(Level::detect());
    let options = Options { arch: Arch::Gfx942, level, accum_offset: 16, vgpr_count: 16 };
    let code: Vec<u8> = LOOP.iter().flat_map(|word| word.to_le_bytes()).collect();
    let program = Program::compile(options, 0x1000, &code);
    let mut wave = Wave::new(16);
    for (register, lanes) in wave.vgprs.iter_mut().enumerate() {
        for (lane, value) in lanes.0.iter_mut().enumerate() {
            *value = (1.0 + (register * 64 + lane) as f32 * 1e-6).to_bits();
        }
    }
    // Small factors keep the sums finite.
    wave.vgprs[0].0.fill(1e-3f32.to_bits());
    wave.vgprs[2].0.fill(1e-3f32.to_bits());
    wave.sgprs[0] = rounds.max(1);
    program.enter(&mut wave, 0);
    let start = thread_time();
    loop {
        wave.budget = u32::MAX;
        if run_wave(&mut wave) == Flow::End {
            break;
        }
    }
    let elapsed = thread_time() - start;
    let rounds = u64::from(rounds.max(1));
    Rate {
        level,
        wave_instructions: rounds * INSTRUCTIONS_PER_ROUND,
        flops: rounds * FMAS_PER_ROUND * 2 * 64,
        elapsed,
    }
}

/// CPU time that the calling thread has used.
pub fn thread_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every supported system, and `now` is a valid `timespec` to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_runs_every_instruction_it_counts() {
        let rate = fma_loop(Level::V4, 1000);
        assert_eq!(rate.wave_instructions, 19_000);
        assert!(rate.wave_instructions_per_second() > 0.0);
    }
}
