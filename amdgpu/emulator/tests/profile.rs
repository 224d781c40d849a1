//! The profile counts executed instructions exactly, and memory traffic by its documented model.

mod rig;

use std::sync::Arc;

use emulator::LaunchStats;
use emulator::observe::{KernelProfile, ObserveOptions, Observer, profile_text};
use isa::Arch;
use rig::{ARCHS, Args, Rig, hip};

struct Profiled {
    stats: LaunchStats,
    profile: KernelProfile,
}

fn profiled(rig: &Rig, kernel: &str, blocks: u32, threads: u32, lds: u32, args: Args) -> Profiled {
    let options = ObserveOptions { profile: true, ..ObserveOptions::default() };
    let observer = Arc::new(Observer::new(options, None));
    let mut dispatch = rig.dispatch(kernel, [blocks, 1, 1], [threads, 1, 1], args);
    dispatch.dynamic_lds = lds;
    dispatch.observer = Some(Arc::clone(&observer));
    let stats = rig.gpu.launch(&dispatch).unwrap();
    let mut profiles = observer.profile().unwrap();
    assert_eq!(profiles.len(), 1);
    Profiled { stats, profile: profiles.remove(0) }
}

#[test]
fn instruction_counts_equal_those_of_the_launch() {
    for arch in ARCHS {
        let rig = Rig::hip("observed.hip", arch);
        let (input, out) = (rig.alloc(vec![3i32; 4096]), rig.alloc(vec![0i32; 4096]));
        let counter = rig.alloc(vec![0u32; 1]);
        for (kernel, args) in [
            ("fixed_sum", Args::new().ptr(&input).ptr(&out)),
            ("racy_sum", Args::new().ptr(&input).ptr(&out)),
            ("split", Args::new().ptr(&input).ptr(&out)),
            ("all_add", Args::new().ptr(&out)),
            ("last_adds_up", Args::new().ptr(&input).ptr(&counter).ptr(&out)),
            ("one_cell", Args::new().ptr(&out)),
        ] {
            let Profiled { stats, profile } = profiled(&rig, kernel, 7, 256, 0, args);
            assert_eq!(profile.instructions, stats.instructions, "{arch:?} {kernel}");
            assert_eq!((profile.workgroups, profile.waves), (7, 28), "{arch:?} {kernel}");
            let classes: u64 = profile.classes.iter().map(|class| class.instructions).sum();
            assert_eq!(classes, stats.instructions, "{arch:?} {kernel}");
            let own = profile.classes.iter().find(|class| class.name == "emulator's own");
            let opcodes: u64 = profile.opcodes.iter().map(|opcode| opcode.instructions).sum();
            assert_eq!(
                opcodes + own.map_or(0, |own| own.instructions),
                stats.instructions,
                "{arch:?} {kernel}"
            );
            let lines: u64 = profile.lines.iter().map(|line| line.instructions).sum();
            assert_eq!(lines, opcodes, "{arch:?} {kernel}: every instruction belongs to one line");
            let ends = profile.opcodes.iter().find(|opcode| opcode.name == "s_endpgm").unwrap();
            assert_eq!(ends.instructions, stats.waves, "{arch:?} {kernel}");
        }
    }
}

#[test]
fn launches_of_a_kernel_are_added_up() {
    let rig = Rig::hip("observed.hip", Arch::Gfx942);
    let out = rig.alloc(vec![0i32; 64]);
    let observer = Arc::new(Observer::new(ObserveOptions { profile: true, ..Default::default() }, None));
    let mut instructions = 0;
    for blocks in 1..=3 {
        let mut dispatch = rig.dispatch("all_add", [blocks, 1, 1], [64, 1, 1], Args::new().ptr(&out));
        dispatch.observer = Some(Arc::clone(&observer));
        instructions += rig.gpu.launch(&dispatch).unwrap().instructions;
    }
    let profiles = observer.profile().unwrap();
    assert_eq!((profiles.len(), profiles[0].launches, profiles[0].workgroups), (1, 3, 6));
    assert_eq!(profiles[0].instructions, instructions);
    assert_eq!(profiles[0].global_atomics.instructions, 6);
    assert_eq!(profiles[0].global_atomics.bytes, 6 * 64 * 4);
}

#[test]
fn a_column_of_rows_of_32_words_meets_in_one_bank_and_padding_mends_it() {
    for arch in ARCHS {
        let rig = Rig::hip("observed.hip", arch);
        let out = rig.alloc(vec![0f32; 64]);
        let args = || Args::new().ptr(&out);
        let bad = profiled(&rig, "column_of_32", 3, 64, 64 * 32 * 4, args()).profile;
        // All 32 lanes of a group hit one bank: 32 cycles instead of one, for each half of each of 3 waves.
        for local in [&bad.local_stores, &bad.local_loads] {
            assert_eq!((local.instructions, local.bytes), (3, 3 * 256), "{arch:?}");
            assert_eq!((local.cycles, local.conflicts), (3 * 64, 3 * 62), "{arch:?}");
        }
        assert_eq!(bad.worst_conflicts.len(), 2, "{arch:?}");
        assert!(bad.worst_conflicts.iter().all(|place| place.cost == 186 && place.text.starts_with("ds_")));
        let good = profiled(&rig, "column_of_33", 3, 64, 64 * 33 * 4, args()).profile;
        assert_eq!((good.local_stores.cycles, good.local_loads.cycles), (6, 6), "{arch:?}");
        assert_eq!((good.local_stores.conflicts, good.local_loads.conflicts), (0, 0), "{arch:?}");
        assert!(good.worst_conflicts.is_empty());
        assert_eq!(out.read()[..4], [0.0, 1.0, 2.0, 3.0]);
    }
}

#[test]
fn bytes_lines_and_barriers_are_counted() {
    let rig = Rig::hip("observed.hip", Arch::Gfx942);
    let (input, out) = (rig.alloc(vec![1f32; 64]), rig.alloc(vec![0f32; 64]));
    let args = Args::new().ptr(&input).ptr(&out);
    let profile = profiled(&rig, "_Z7half_ofIfEvPKT_PS0_", 1, 64, 0, args).profile;
    assert_eq!(profile.kernel, "void half_of<float>(float const*, float*)");
    for (traffic, address) in
        [(profile.global_loads, input.address()), (profile.global_stores, out.address())]
    {
        assert_eq!((traffic.instructions, traffic.bytes, traffic.distinct_bytes), (1, 256, 256));
        assert_eq!(traffic.lines_64, (address + 255) / 64 - address / 64 + 1);
        assert_eq!(traffic.lines_128, (address + 255) / 128 - address / 128 + 1);
    }
    let (input, out) = (rig.alloc(vec![1i32; 512]), rig.alloc(vec![0i32; 2]));
    let profile = profiled(&rig, "fixed_sum", 2, 256, 0, Args::new().ptr(&input).ptr(&out)).profile;
    assert_eq!(profile.barriers, 9 * 8, "nine of each of eight waves");
    assert_eq!(profile.global_loads.bytes, 2048);
    assert_eq!(profile.global_stores.bytes, 8);
}

#[test]
fn lanes_that_part_are_divergence_and_lanes_that_agree_are_none() {
    for arch in ARCHS {
        let rig = Rig::hip("observed.hip", arch);
        let (input, out) = (rig.alloc(vec![1i32; 256]), rig.alloc(vec![0i32; 256]));
        let split = profiled(&rig, "split", 4, 64, 0, Args::new().ptr(&input).ptr(&out)).profile;
        assert!(split.masks_split >= 4, "each of four waves parts: {split:?}");
        assert!(
            split.mean_active_lanes < 60.0 && split.mean_active_lanes > 32.0,
            "{}",
            split.mean_active_lanes
        );
        let even = profiled(&rig, "all_write", 4, 64, 0, Args::new().ptr(&out)).profile;
        assert_eq!((even.masks_split, even.mean_active_lanes), (0, 64.0), "{arch:?}");
    }
}

#[test]
fn hot_blocks_name_their_source_lines() {
    let arch = Arch::Gfx942;
    let rig = Rig::new(arch, hip("observed.hip", arch, &["-g"]));
    let (input, out) = (rig.alloc(vec![1i32; 512]), rig.alloc(vec![0i32; 2]));
    let Profiled { profile, stats } =
        profiled(&rig, "fixed_sum", 2, 256, 0, Args::new().ptr(&input).ptr(&out));
    let block = &profile.blocks[0];
    assert!(block.instructions > 0 && block.instructions <= stats.instructions);
    assert_eq!(block.function, "fixed_sum");
    let lines = profile.blocks.iter().flat_map(|block| &block.code);
    let sources: Vec<&String> = lines.filter_map(|line| line.source.as_ref()).collect();
    assert!(sources.iter().any(|source| source.contains("observed.hip:")), "{sources:?}");
    let text = profile_text(&[profile]);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("hot block 1:") && text.contains("observed.hip:"), "{text}");
}
