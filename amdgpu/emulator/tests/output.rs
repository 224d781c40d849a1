//! `printf` output of kernels, through hostcalls and through the printf buffer.

mod rig;

use rig::{ARCHS, Args, Rig};

fn word(rig: &Rig) -> rig::Allocation<u8> {
    rig.alloc(b"word\0".to_vec())
}

const HELLO: &str = "item 0 of word:  0.00 a feedfacecafe 100%\n\
                     item 1 of word:  1.50 b feedfacecafe 100%\n\
                     item 2 of word:  3.00 c feedfacecafe 100%\n";

#[test]
fn printf_reaches_the_output_in_lane_order() {
    for arch in ARCHS {
        let rig = Rig::hip("output.hip", arch);
        let word = word(&rig);
        rig.run("hello", 1, 64, Args::new().u32(3).ptr(&word)).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(rig.printed(), HELLO, "{arch:?}");
        rig.run("long_text", 1, 64, Args::new()).unwrap();
        assert_eq!(
            rig.printed(),
            "a string that is longer than fifty-six bytes, so that it takes several packets||1 2 3 4 5 6 7 8 9\n"
        );
    }
}

#[test]
fn buffered_printf_is_printed_when_the_kernel_ends() {
    for arch in ARCHS {
        let rig = Rig::new(arch, rig::hip("output.hip", arch, &["-mprintf-kind=buffered"]));
        let word = word(&rig);
        rig.run("hello", 1, 64, Args::new().u32(3).ptr(&word)).unwrap();
        assert_eq!(rig.printed(), HELLO, "{arch:?}");
    }
}

#[test]
fn every_work_item_of_many_workgroups_prints_once() {
    for arch in ARCHS {
        let rig = Rig::hip("output.hip", arch);
        rig.run("many", 6, 192, Args::new()).unwrap();
        let printed = rig.printed();
        let mut numbers: Vec<u32> =
            printed.trim_end_matches(',').split(',').map(|n| n.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..6 * 192).collect::<Vec<u32>>(), "{arch:?}");
    }
}
