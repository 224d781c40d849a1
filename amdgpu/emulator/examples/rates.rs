//! Prints the emulation speed of this machine at each CPU level that it supports.

use emulator::{Level, rate};

fn main() {
    for level in [Level::Base, Level::V3, Level::V4] {
        if level > Level::detect() {
            continue;
        }
        let rounds = if level == Level::Base { 50_000 } else { 2_000_000 };
        let best = (0..3)
            .map(|_| rate::fma_loop(level, rounds))
            .min_by_key(|rate| rate.elapsed)
            .expect("three runs");
        println!(
            "{level:?}: {:.1} M wave-instructions/s, {:.1} GFLOP/s",
            best.wave_instructions_per_second() / 1e6,
            best.flops_per_second() / 1e9
        );
    }
}
