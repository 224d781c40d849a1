//! The check finds races, out-of-bounds accesses and uninitialised memory, names the accessor, and reports nothing for correct
//! kernels.

mod rig;

use std::path::Path;
use std::sync::Arc;

use emulator::Fault;
use emulator::observe::{CheckReport, Finding, ObserveOptions, Observer, Problem, check_text};
use isa::Arch;
use rig::{ARCHS, Args, Rig, hip};

fn rig(arch: Arch) -> Rig {
    Rig::new(arch, hip("observed.hip", arch, &["-g"]))
}

fn checked(
    rig: &Rig,
    kernel: &str,
    blocks: u32,
    threads: u32,
    args: Args,
) -> (Result<(), Fault>, CheckReport) {
    let options = ObserveOptions { check: true, ..ObserveOptions::default() };
    let observer = Arc::new(Observer::new(options, None));
    let mut dispatch = rig.dispatch(kernel, [blocks, 1, 1], [threads, 1, 1], args);
    dispatch.observer = Some(Arc::clone(&observer));
    let ended = rig.gpu.launch(&dispatch).map(|_| ());
    let report = observer.check().unwrap();
    let text = check_text(&report);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    (ended, report)
}

fn clean(rig: &Rig, kernel: &str, blocks: u32, threads: u32, args: Args) {
    let (ended, report) = checked(rig, kernel, blocks, threads, args);
    ended.unwrap();
    assert!(report.findings.is_empty(), "{kernel}:\n{}", check_text(&report));
    assert_eq!((report.problems(), report.unchecked), (0, 0), "{kernel}");
    assert_eq!(check_text(&report), "== check: nothing found\n");
}

/// Returns the only finding of a launch.
fn only(rig: &Rig, kernel: &str, blocks: u32, threads: u32, args: Args) -> Finding {
    let (ended, mut report) = checked(rig, kernel, blocks, threads, args);
    ended.unwrap();
    assert_eq!(report.findings.len(), 1, "{kernel}:\n{}", check_text(&report));
    report.findings.remove(0)
}

/// Returns `observed.hip:LINE` of the line that contains `text`.
fn line_of(text: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/observed.hip");
    let source = std::fs::read_to_string(path).unwrap();
    let line = source.lines().position(|line| line.contains(text)).unwrap();
    format!("observed.hip:{}", line + 1)
}

#[test]
fn a_reduction_without_barriers_races_and_its_fixed_twin_does_not() {
    for arch in ARCHS {
        let rig = rig(arch);
        let (input, out) = (rig.alloc(vec![1i32; 768]), rig.alloc(vec![0i32; 3]));
        let args = || Args::new().ptr(&input).ptr(&out);
        let (ended, report) = checked(&rig, "racy_sum", 3, 256, args());
        ended.unwrap();
        assert!(report.problems() > 0, "{arch:?}");
        let place = line_of("part[i] += part[i + step];");
        for finding in &report.findings {
            assert_eq!((finding.problem, finding.memory), (Problem::LocalRace, "local"), "{arch:?}");
            assert_eq!(finding.kernel, "racy_sum");
            let pair = [finding.access.as_ref().unwrap(), finding.other.as_ref().unwrap()];
            assert_ne!(pair[0].wave, pair[1].wave, "{finding:?}");
            assert_eq!(pair[0].workgroup, pair[1].workgroup, "{finding:?}");
            let mut verbs = pair.map(|access| access.verb);
            verbs.sort_unstable();
            assert_eq!(verbs, ["reads", "writes"], "{finding:?}");
            for access in pair {
                let expected = if access.verb == "reads" { "ds_read" } else { "ds_write" };
                assert!(access.instruction.starts_with(expected), "{finding:?}");
                assert!(access.source.as_ref().unwrap().ends_with(&place), "{finding:?}");
                assert_eq!(access.wave, access.work_item.unwrap()[0] / 64, "{finding:?}");
            }
        }
        clean(&rig, "fixed_sum", 3, 256, args());
        assert_eq!(out.read(), [256; 3]);
    }
}

#[test]
fn waves_that_take_a_lock_do_not_race() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 1]);
        clean(&rig, "locked", 1, 256, Args::new().ptr(&out));
        assert_eq!(out.read(), [64 + 128 + 192]);
    }
}

#[test]
fn a_store_out_of_bounds_names_work_item_address_and_distance() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 192]);
        for (past, work_item, group, address, distance) in [
            (1, 63, 2, 768, "right behind the 768 bytes at"),
            (100, 28, 1, 768, "right behind the 768 bytes at"),
            (225, 0, 0, 900, "132 bytes past the end of the 768 bytes at"),
            (-3, 0, 0, -12, "12 bytes before the start of the 768 bytes at"),
        ] {
            let args = Args::new().ptr(&out).u32(past as u32);
            let (ended, report) = checked(&rig, "overrun", 3, 64, args);
            let fault = ended.unwrap_err();
            assert_eq!(report.findings.len(), 1, "{}", check_text(&report));
            let finding = &report.findings[0];
            assert_eq!((finding.problem, finding.kernel.as_str()), (Problem::Fault, "overrun"));
            assert_eq!(finding.address, out.address().wrapping_add_signed(address), "{past}");
            let detail = finding.detail.as_ref().unwrap();
            assert!(detail.ends_with(&format!("{distance} {:#x}", out.address())), "{past}: {detail}");
            let access = finding.access.as_ref().unwrap();
            assert_eq!(access.verb, "writes");
            assert!(access.instruction.starts_with("global_store_dword"), "{}", access.instruction);
            assert_eq!(*access.instruction, *fault.instruction);
            assert!(access.source.as_ref().unwrap().ends_with(&line_of("void overrun")), "{access:?}");
            assert_eq!(
                (access.workgroup, access.work_item),
                ([group, 0, 0], Some([work_item, 0, 0])),
                "{past}"
            );
        }
    }
}

#[test]
fn workgroups_that_share_memory_race_unless_atomics_order_them() {
    for arch in ARCHS {
        let rig = rig(arch);
        let data = rig.alloc(vec![0i32; 64 * 5]);
        let race = only(&rig, "all_write", 4, 64, Args::new().ptr(&data));
        assert_eq!(
            (race.problem, race.memory, race.address),
            (Problem::GlobalRace, "global", data.address())
        );
        let (access, other) = (race.access.unwrap(), race.other.unwrap());
        assert_eq!((access.verb, other.verb), ("writes", "writes"));
        assert_eq!((access.offset, access.work_item), (other.offset, other.work_item));
        assert_ne!(access.workgroup, other.workgroup);
        assert_eq!(race.times, 3, "each workgroup but the first");

        let race = only(&rig, "neighbours", 4, 64, Args::new().ptr(&data));
        assert_eq!(race.problem, Problem::GlobalRace);
        let mut verbs = [race.access.unwrap().verb, race.other.unwrap().verb];
        verbs.sort_unstable();
        assert_eq!(verbs, ["reads", "writes"]);

        clean(&rig, "all_add", 4, 64, Args::new().ptr(&data));
        clean(&rig, "bytes", 4, 64, Args::new().ptr(&data));
        let (arrived, out) = (rig.alloc(vec![0u32; 1]), rig.alloc(vec![0i32; 1]));
        clean(&rig, "last_adds_up", 9, 1, Args::new().ptr(&data).ptr(&arrived).ptr(&out));
        assert_eq!(out.read(), [45]);
    }
}

#[test]
fn launches_one_after_another_do_not_race() {
    let rig = rig(Arch::Gfx942);
    let data = rig.alloc(vec![0i32; 128]);
    let options = ObserveOptions { check: true, ..ObserveOptions::default() };
    let observer = Arc::new(Observer::new(options, None));
    for _ in 0..3 {
        let mut dispatch = rig.dispatch("neighbours", [1, 1, 1], [64, 1, 1], Args::new().ptr(&data));
        dispatch.observer = Some(Arc::clone(&observer));
        rig.gpu.launch(&dispatch).unwrap();
    }
    assert_eq!(check_text(&observer.check().unwrap()), "== check: nothing found\n");
}

#[test]
fn local_memory_out_of_bounds_is_told_though_the_hardware_is_silent() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![7i32; 128]);
        clean(&rig, "local_overrun", 1, 64, Args::new().ptr(&out).u32(0));
        let (ended, report) = checked(&rig, "local_overrun", 2, 64, Args::new().ptr(&out).u32(16));
        ended.unwrap();
        assert_eq!(report.findings.len(), 2, "the store and the load:\n{}", check_text(&report));
        for finding in &report.findings {
            assert_eq!((finding.problem, finding.address), (Problem::LocalOutOfBounds, 256), "{arch:?}");
            let access = finding.access.as_ref().unwrap();
            assert_eq!((access.work_item, access.wave), (Some([48, 0, 0]), 0));
            assert!(access.instruction.contains("_dword"), "{access:?}");
            assert_eq!(finding.detail.as_deref(), Some("the workgroup has 256 bytes of local memory"));
            assert_eq!(finding.times, 2);
        }
    }
}

#[test]
fn a_read_of_local_memory_that_nobody_wrote_is_told() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 128]);
        let finding = only(&rig, "local_unset", 2, 64, Args::new().ptr(&out));
        assert_eq!(
            (finding.problem, finding.address, finding.times),
            (Problem::LocalUnset, 240, 2),
            "{arch:?}"
        );
        let access = finding.access.unwrap();
        assert_eq!((access.verb, access.work_item), ("reads", Some([60, 0, 0])));
    }
}

#[test]
fn lanes_that_write_one_cell_are_a_note_and_no_problem() {
    let rig = rig(Arch::Gfx942);
    let out = rig.alloc(vec![0i32; 64]);
    let (ended, report) = checked(&rig, "one_cell", 1, 64, Args::new().ptr(&out));
    ended.unwrap();
    assert_eq!((report.findings.len(), report.problems()), (1, 0), "{}", check_text(&report));
    let finding = &report.findings[0];
    assert_eq!((finding.problem, finding.address), (Problem::SameInstruction, 0));
    assert!(check_text(&report).starts_with("== check: no problem, 1 note\n"));
}
