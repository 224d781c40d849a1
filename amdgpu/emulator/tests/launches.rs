//! Kernel launches: several at once, cooperative launches, and every CPU level.

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use emulator::{FaultKind, GpuConfig, Level};
use isa::Arch;
use rig::{ARCHS, Args, Rig};

fn filled(seed: u32, n: u32) -> Vec<u32> {
    (0..n).map(|i| (0..50).fold(seed ^ i, |x, _| x.wrapping_mul(1664525).wrapping_add(1013904223))).collect()
}

#[test]
fn launches_from_several_threads_do_not_disturb_each_other() {
    let rig = Rig::hip("launches.hip", Arch::Gfx942);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..20 {
                    let n = 64 * 100 + round;
                    let out = rig.alloc(vec![0u32; n as usize]);
                    rig.run("fill", 101, 64, Args::new().ptr(&out).u32(seed).u32(n)).unwrap();
                    assert_eq!(out.read(), filled(seed, n));
                }
            });
        }
    });
}

#[test]
fn a_cooperative_grid_synchronises_all_its_workgroups() {
    for arch in ARCHS {
        let rig = Rig::hip("launches.hip", arch);
        let n = 24 * 128;
        let start: Vec<i32> = (0..n).map(|i| i * 3 % 1000).collect();
        let (a, b) = (rig.alloc(start.clone()), rig.alloc(vec![0i32; n as usize]));
        let args = Args::new().ptr(&a).ptr(&b).u32(n as u32);
        let mut dispatch = rig.dispatch("rounds", [24, 1, 1], [128, 1, 1], args);
        dispatch.cooperative = true;
        rig.gpu.launch(&dispatch).unwrap_or_else(|fault| panic!("{arch:?} {fault}"));
        let (mut a_expected, n) = (start, n as usize);
        for _ in 0..8 {
            let b: Vec<i32> = (0..n).map(|i| a_expected[(i + 97) % n] + 1).collect();
            a_expected = (0..n).map(|i| b[(i + 31) % n] + 1).collect();
        }
        assert_eq!(a.read(), a_expected, "{arch:?}");
    }
}

/// A thread takes many of these workgroups at a time, so that it has also taken the one that the late one waits for.
#[test]
fn a_workgroup_may_wait_for_one_that_its_thread_has_taken_but_not_started() {
    for threads in [1, 2, 5] {
        let image = rig::hip("launches.hip", Arch::Gfx942, &[]);
        let rig = Rig::with_config(GpuConfig { threads, ..GpuConfig::new(Arch::Gfx942) }, image);
        for late in [0, 1, 70, 500, 501, 999, 1998] {
            let (flag, ended) = (rig.alloc(vec![0u32]), rig.alloc(vec![0u32]));
            rig.run("waits_for_next", 2000, 64, Args::new().ptr(&flag).ptr(&ended).u32(late)).unwrap();
            assert_eq!(ended.read(), [2000], "{threads} threads, workgroup {late} waits");
        }
    }
}

#[test]
fn short_launches_wake_no_threads_and_longer_ones_than_expected_do() {
    let image = rig::hip("launches.hip", Arch::Gfx942, &[]);
    let rig = Rig::with_config(GpuConfig { threads: 3, ..GpuConfig::new(Arch::Gfx942) }, image);
    let (groups, out) = (4000, rig.alloc(vec![0u32; 4000 * 64]));
    // CPU time of the other threads in a launch of `groups` workgroups, in which `n` work-items have something to do.
    let helped = |groups: u32, n: u32| {
        let time = Arc::new(AtomicU64::new(0));
        let args = Args::new().ptr(&out).u32(1).u32(n);
        let mut dispatch = rig.dispatch("fill", [groups, 1, 1], [64, 1, 1], args);
        dispatch.helpers_time = Some(Arc::clone(&time));
        rig.gpu.launch(&dispatch).unwrap();
        time.load(Ordering::Relaxed)
    };
    helped(100, 0);
    assert_eq!(helped(100, 0), 0, "a short launch is expected to be as short as the last one");
    // Other threads may be late on a busy machine, but not every time.
    let helps = (0..50).any(|_| {
        helped(100, 0);
        helped(groups, groups * 64) > 0
    });
    assert!(helps, "a launch that is longer than the last one gets help");
    assert_eq!(out.read(), filled(1, groups * 64));
}

#[test]
fn a_grid_of_short_workgroups_ends_at_the_deadline() {
    let rig = Rig::hip("launches.hip", Arch::Gfx942);
    let out = rig.alloc(vec![0u32]);
    // Every workgroup ends at once, and all of them take far longer than the deadline.
    let args = Args::new().ptr(&out).u32(0).u32(0);
    let mut dispatch = rig.dispatch("fill", [1 << 25, 1, 1], [64, 1, 1], args);
    dispatch.deadline = Some(Instant::now() + Duration::from_millis(20));
    let fault = rig.gpu.launch(&dispatch).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Timeout), "{fault}");
}

#[test]
fn a_cooperative_grid_that_cannot_be_resident_is_refused() {
    let image = rig::hip("launches.hip", Arch::Gfx942, &[]);
    let config = GpuConfig { threads: 1, resident_bytes: 1 << 20, ..GpuConfig::new(Arch::Gfx942) };
    let rig = Rig::with_config(config, image);
    let mut dispatch = rig.dispatch("rounds", [1000, 1, 1], [128, 1, 1], Args::new().u64(0).u64(0).u32(0));
    dispatch.cooperative = true;
    assert!(matches!(rig.gpu.launch(&dispatch).unwrap_err().kind, FaultKind::Resources { .. }));
}

#[test]
fn all_cpu_levels_give_the_same_bits() {
    for level in [Level::Base, Level::V3, Level::V4] {
        let image = rig::hip("launches.hip", Arch::Gfx90a, &[]);
        let config = GpuConfig { threads: 1, level: Some(level), ..GpuConfig::new(Arch::Gfx90a) };
        let rig = Rig::with_config(config, image);
        assert!(rig.gpu.level() <= level);
        let out = rig.alloc(vec![0u32; 1000]);
        rig.run("fill", 4, 256, Args::new().ptr(&out).u32(9).u32(1000)).unwrap();
        assert_eq!(out.read(), filled(9, 1000), "{level:?}");
    }
}

/// Look-back scans keep a flag and a value in one element and read it while another workgroup writes it.
#[test]
fn elements_of_8_and_16_bytes_are_never_seen_half_written() {
    for level in [Level::Base, Level::V3, Level::V4] {
        let image = rig::hip("launches.hip", Arch::Gfx942, &[]);
        let config = GpuConfig { threads: 2, level: Some(level), ..GpuConfig::new(Arch::Gfx942) };
        let rig = Rig::with_config(config, image);
        for kernel in ["tear_pairs", "tear_fours"] {
            // All lanes at one element, at consecutive elements, and at distant ones; with full and partial waves.
            for (step, items) in [(0, 64), (1, 64), (3, 64), (0, 1), (1, 50), (3, 17)] {
                let memory = rig.alloc(vec![[0u64; 2]; 64 * 3]);
                let (done, torn) = (rig.alloc(vec![0u32]), rig.alloc(vec![0u32]));
                let args = Args::new().ptr(&memory).u32(step).ptr(&done).ptr(&torn).u32(50_000);
                rig.run(kernel, 16, items, args).unwrap();
                assert_eq!(torn.read(), [0], "{level:?} {kernel}, {items} items {step} elements apart");
            }
        }
    }
}
