//! The performance model tells apart what real GPUs tell apart, names the cause, and gives the same answer every time.

mod rig;

use std::sync::Arc;

use emulator::GpuConfig;
use emulator::observe::model::{GpuTiming, KernelEstimate, Resource, Wait, model_text};
use emulator::observe::{ObserveOptions, Observer};
use isa::Arch;
use rig::{ARCHS, Args, Rig, hip};

fn observer() -> Arc<Observer> {
    Arc::new(Observer::new(ObserveOptions { model: true, ..ObserveOptions::default() }, None))
}

fn modelled(rig: &Rig, kernel: &str, blocks: u32, threads: u32, args: Args) -> KernelEstimate {
    let observer = observer();
    let mut dispatch = rig.dispatch(kernel, [blocks, 1, 1], [threads, 1, 1], args);
    dispatch.observer = Some(Arc::clone(&observer));
    rig.gpu.launch(&dispatch).unwrap();
    let mut estimates = observer.model().unwrap();
    assert_eq!(estimates.len(), 1);
    estimates.remove(0)
}

fn time_of(estimate: &KernelEstimate, resource: Resource) -> f64 {
    estimate.resources.iter().find(|row| row.resource == resource).unwrap().time_ns
}

/// Memory that starts at a page, like a device's allocations.
struct Pages {
    _whole: rig::Allocation<u32>,
    address: u64,
}

fn pages(rig: &Rig, words: usize) -> Pages {
    let whole = rig.alloc(vec![0u32; words + 1024]);
    Pages { address: whole.address().next_multiple_of(4096), _whole: whole }
}

#[test]
fn a_strided_copy_is_estimated_slower_than_a_coalesced_one() {
    for arch in ARCHS {
        let rig = Rig::hip("model.hip", arch);
        let words = 1 << 22;
        let (from, to) = (pages(&rig, words), pages(&rig, words));
        let copy = |stride: u32| {
            let args = Args::new().u64(from.address).u64(to.address).u32(stride).u32(words as u32 - 1);
            modelled(&rig, "copy", 4096, 256, args)
        };
        let (even, strided) = (copy(1), copy(33));
        assert!(strided.time_ns > 3.0 * even.time_ns, "{arch:?} {} {}", strided.time_ns, even.time_ns);
        // Every lane of the strided copy fetches a line of its own.
        assert!(time_of(&strided, Resource::L1) > 8.0 * time_of(&even, Resource::L1), "{arch:?}");
        assert!(strided.hbm_bytes > 3 * even.hbm_bytes, "{arch:?} {} {}", strided.hbm_bytes, even.hbm_bytes);
    }
}

#[test]
fn a_streaming_copy_moves_each_byte_once_and_is_limited_by_memory() {
    let rig = Rig::hip("model.hip", Arch::Gfx90a);
    let words = 1 << 22;
    let (from, to) = (pages(&rig, words), pages(&rig, words));
    let args = Args::new().u64(from.address).u64(to.address).u32(1).u32(words as u32 - 1);
    let estimate = modelled(&rig, "copy", words as u32 / 256, 256, args);
    assert_eq!(estimate.limit, Resource::Hbm, "{}", model_text(std::slice::from_ref(&estimate)));
    let moved = 2 * 4 * words as u64;
    assert!(estimate.hbm_bytes >= moved && estimate.hbm_bytes < moved + moved / 50, "{}", estimate.hbm_bytes);
    assert!(estimate.roofs[0].share > 0.5 && estimate.roofs[0].share < 1.0, "{:?}", estimate.roofs);
}

#[test]
fn bank_conflicts_are_the_limit_of_a_column_and_padding_mends_it() {
    for arch in ARCHS {
        let rig = Rig::hip("model.hip", arch);
        let out = rig.alloc(vec![0f32; 2048 * 256]);
        let run = |kernel| modelled(&rig, kernel, 2048, 256, Args::new().ptr(&out).u32(8));
        let (bad, good) = (run("column_of_32"), run("column_of_33"));
        assert_eq!(bad.limit, Resource::BankConflicts, "{arch:?} {}", model_text(std::slice::from_ref(&bad)));
        assert_ne!(good.limit, Resource::BankConflicts, "{arch:?}");
        assert!(bad.time_ns > 3.0 * good.time_ns, "{arch:?} {} {}", bad.time_ns, good.time_ns);
        assert_eq!(time_of(&good, Resource::BankConflicts), 0.0, "{arch:?}");
    }
}

#[test]
fn arithmetic_without_memory_is_limited_by_the_vector_alus() {
    for arch in ARCHS {
        let rig = Rig::hip("model.hip", arch);
        let out = rig.alloc(vec![0f32; 2432 * 256]);
        let args = Args::new().ptr(&out).f32(0.5).u32(256);
        let estimate = modelled(&rig, "multiply_add", 2432, 256, args);
        assert_eq!(
            estimate.limit,
            Resource::Valu,
            "{arch:?} {}",
            model_text(std::slice::from_ref(&estimate))
        );
        assert!(estimate.flops >= 2432 * 256 * 256 * 8 * 2, "{arch:?} {}", estimate.flops);
    }
}

#[test]
fn a_chain_of_loads_in_one_wave_is_limited_by_latency() {
    let rig = Rig::hip("model.hip", Arch::Gfx942);
    let steps = 256u32;
    // Every step goes to another page.
    let next: Vec<u32> = (0..steps * 1024 + 64).map(|at| at / 1024 * 1024 + 1024).collect();
    let (next, out) = (rig.alloc(next), rig.alloc(vec![0u32; 64]));
    let estimate = modelled(&rig, "chase", 1, 1, Args::new().ptr(&next).ptr(&out).u32(steps));
    assert_eq!(estimate.limit, Resource::Latency, "{}", model_text(std::slice::from_ref(&estimate)));
    let gpu = GpuTiming::find("mi300x").unwrap();
    let each = time_of(&estimate, Resource::Latency) / f64::from(steps);
    assert!(each > gpu.latency.hbm_ns && each < 1.3 * gpu.latency.hbm_ns, "{each}");
    assert_eq!(estimate.stalls[0].wait, Wait::VectorMemory);
    assert!(estimate.stalls[0].text.starts_with("s_waitcnt vmcnt"), "{}", estimate.stalls[0].text);
    assert!(estimate.stalls[0].share > 0.8, "{}", estimate.stalls[0].share);
}

#[test]
fn waves_that_wait_for_a_slower_one_wait_at_the_barrier() {
    let rig = Rig::hip("model.hip", Arch::Gfx942);
    let out = rig.alloc(vec![0f32; 256]);
    let estimate = modelled(&rig, "uneven", 1, 256, Args::new().ptr(&out).u32(1000));
    let stall = &estimate.stalls[0];
    assert_eq!(
        (stall.wait, stall.text.as_str()),
        (Wait::Barrier, "s_barrier"),
        "{}",
        model_text(std::slice::from_ref(&estimate))
    );
}

#[test]
fn the_estimate_does_not_depend_on_threads_or_on_the_run() {
    let image = hip("model.hip", Arch::Gfx942, &[]);
    let run = |threads: usize| {
        let config = GpuConfig { threads, ..GpuConfig::new(Arch::Gfx942) };
        let rig = Rig::with_config(config, image.clone());
        let words = 1 << 20;
        let (from, to) = (pages(&rig, words), pages(&rig, words));
        let observer = observer();
        for stride in [1, 33, 7] {
            let args = Args::new().u64(from.address).u64(to.address).u32(stride).u32(words as u32 - 1);
            let mut dispatch = rig.dispatch("copy", [2048, 1, 1], [256, 1, 1], args);
            dispatch.observer = Some(Arc::clone(&observer));
            rig.gpu.launch(&dispatch).unwrap();
        }
        // The kernel's arguments are in memory whose place in its page differs between runs.
        let estimate = observer.model().unwrap().remove(0);
        (estimate.time_ns, estimate.l1, estimate.l2, estimate.infinity_cache, estimate.hbm_bytes)
    };
    let first = run(1);
    for threads in [1, 2, 4, 4] {
        assert_eq!(run(threads), first, "{threads} threads");
    }
}

#[test]
fn a_faster_memory_makes_a_streaming_kernel_faster() {
    let image = hip("model.hip", Arch::Gfx942, &[]);
    let run = |key: &str| {
        let timing = GpuTiming::find(key).unwrap();
        let rig = Rig::with_config(GpuConfig { timing, ..GpuConfig::new(Arch::Gfx942) }, image.clone());
        let words = 1 << 24;
        let (from, to) = (pages(&rig, words), pages(&rig, words));
        let args = Args::new().u64(from.address).u64(to.address).u32(1).u32(words as u32 - 1);
        let estimate = modelled(&rig, "copy", words as u32 / 256, 256, args);
        assert_eq!(estimate.gpu, timing.name);
        estimate.time_ns
    };
    assert!(run("mi325x") < run("mi300x"));
}

#[test]
fn stalls_name_their_source_lines() {
    let arch = Arch::Gfx942;
    let rig = Rig::new(arch, hip("model.hip", arch, &["-g"]));
    let out = rig.alloc(vec![0f32; 256 * 64]);
    let estimate = modelled(&rig, "column_of_32", 64, 256, Args::new().ptr(&out).u32(2));
    assert!(estimate.lines.iter().any(|line| line.source.contains("model.hip:")), "{:?}", estimate.lines);
    let text = model_text(std::slice::from_ref(&estimate));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for word in ["estimated time", "limited by", "occupancy", "source lines that wait", "model.hip:"] {
        assert!(text.contains(word), "{word}\n{text}");
    }
}
