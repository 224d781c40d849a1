//! Errors in a kernel end in a fault that names the cause and the location, and the device keeps working.

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emulator::guard::Watch;
use emulator::{Access, Fault, FaultKind, GpuConfig};
use isa::Arch;
use rig::{ARCHS, Args, Rig};

fn rig(arch: Arch) -> Rig {
    Rig::hip("faults.hip", arch)
}

/// Asserts that the device still works.
fn still_works(rig: &Rig) {
    let out = rig.alloc(vec![0i32; 64]);
    rig.run("write_at", 1, 64, Args::new().ptr(&out).u64(0)).unwrap();
    assert_eq!(out.read(), vec![1; 64]);
}

#[test]
fn writes_past_an_allocation_fault_at_the_first_byte_past_it() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 64]);
        let fault = rig.run("write_at", 1, 64, Args::new().ptr(&out).u64(8)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::IllegalAddress { address: out.address() + 256, write: true });
        assert_eq!((&*fault.kernel, fault.work_item), ("write_at", Some([56, 0, 0])));
        assert!(fault.instruction.contains("store_dword"), "{fault}");
        assert!(fault.to_string().contains("write of address"), "{fault}");
        still_works(&rig);
    }
}

#[test]
fn null_and_wild_reads_fault() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 64]);
        for (address, offset) in [(0, 0), (0x10, 0), (out.address(), 1 << 40), (u64::MAX - 3, 0)] {
            let fault =
                rig.run("read_at", 1, 64, Args::new().u64(address).u64(offset).ptr(&out)).unwrap_err();
            assert!(matches!(fault.kind, FaultKind::IllegalAddress { write: false, .. }), "{fault}");
        }
        let fault = rig.run("read_at", 1, 64, Args::new().u64(0).u64(0).ptr(&out)).unwrap_err();
        assert!(fault.to_string().contains("null pointer"), "{fault}");
        still_works(&rig);
    }
}

#[test]
fn a_fault_names_the_lane_and_the_workgroup() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 64]);
        let fault = rig.run("one_bad_lane", 4, 64, Args::new().ptr(&out).u64(0x1234_5678)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::IllegalAddress { address: 0x1234_5678, write: true });
        assert_eq!((fault.workgroup, fault.work_item), ([2, 0, 0], Some([37, 0, 0])));
    }
}

#[test]
fn freed_memory_is_no_longer_reachable() {
    for arch in ARCHS {
        let rig = rig(arch);
        let address = rig.alloc(vec![0i32; 64]).address();
        let fault = rig.run("write_at", 1, 64, Args::new().u64(address).u64(0)).unwrap_err();
        assert!(fault.kind.is_memory(), "{fault}");
    }
}

#[test]
fn endless_loops_end_at_the_deadline() {
    for arch in ARCHS {
        let rig = rig(arch);
        for kernel in ["forever", "forever_asleep"] {
            let flag = rig.alloc(vec![0i32]);
            let mut dispatch = rig.dispatch(kernel, [40, 1, 1], [256, 1, 1], Args::new().ptr(&flag));
            dispatch.deadline = Some(Instant::now() + Duration::from_millis(200));
            let start = Instant::now();
            let fault = rig.gpu.launch(&dispatch).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Timeout, "{kernel}");
            assert!(start.elapsed() < Duration::from_secs(10), "{kernel} took {:?}", start.elapsed());
        }
        still_works(&rig);
    }
}

#[test]
fn a_dispatch_can_be_cancelled_from_another_thread() {
    let rig = rig(Arch::Gfx942);
    let flag = rig.alloc(vec![0i32]);
    let cancel = Arc::new(AtomicBool::new(false));
    let mut dispatch = rig.dispatch("forever", [1, 1, 1], [64, 1, 1], Args::new().ptr(&flag));
    dispatch.cancel = Some(cancel.clone());
    let fault = std::thread::scope(|scope| {
        let running = scope.spawn(|| rig.gpu.launch(&dispatch));
        std::thread::sleep(Duration::from_millis(50));
        cancel.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap_err()
    });
    assert_eq!(fault.kind, FaultKind::Cancelled);
}

#[test]
fn traps_are_reported() {
    for arch in ARCHS {
        let rig = rig(arch);
        let fault = rig.run("gives_up", 1, 64, Args::new().u32(5)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Trap { id: 2 });
        rig.run("gives_up", 1, 64, Args::new().u32(64)).unwrap();
    }
}

#[test]
fn endless_recursion_overflows_the_stack_of_a_work_item() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 64]);
        let fault = rig.run("overflow", 1, 64, Args::new().ptr(&out)).unwrap_err();
        assert!(fault.kind.is_memory(), "{fault}");
        still_works(&rig);
    }
}

#[test]
fn calls_through_a_wild_pointer_fault() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 64]);
        let fault: Fault = rig.run("calls", 1, 64, Args::new().ptr(&out).u64(0x1000)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::IllegalTarget { address: 0x1000 }, "{fault}");
    }
}

#[test]
fn unknown_instructions_fault_only_when_reached_and_by_name() {
    let rig = Rig::new(Arch::Gfx90a, rig::assembly("unknown.s", Arch::Gfx90a));
    rig.run("unknown", 1, 64, Args::new().u64(0)).unwrap();
    let fault = rig.run("unknown", 1, 64, Args::new().u64(1)).unwrap_err();
    let text = fault.to_string();
    assert!(text.contains("ds_gws_sema_v") && text.contains("kernel unknown"), "{text}");
    let fault = rig.run("unknown", 1, 64, Args::new().u64(2)).unwrap_err();
    assert!(fault.to_string().contains("0xdeadbeef"), "{fault}");
    let fault = rig.run("offtheend", 1, 64, Args::new()).unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::IllegalTarget { .. } | FaultKind::IllegalInstruction { .. }),
        "{fault}"
    );
}

#[test]
fn workgroups_that_wait_for_earlier_and_later_ones_both_finish() {
    for arch in ARCHS {
        for threads in [1, 2] {
            let image = rig::hip("faults.hip", arch, &[]);
            let rig = Rig::with_config(GpuConfig { threads, ..GpuConfig::new(arch) }, image);
            for reversed in [0, 1] {
                let (flags, out) = (rig.alloc(vec![0i32; 100]), rig.alloc(vec![0i32; 100]));
                rig.run("relay", 100, 64, Args::new().ptr(&flags).ptr(&out).u32(reversed))
                    .unwrap_or_else(|fault| panic!("{arch:?} {threads} {reversed} {fault}"));
                assert_eq!(out.read(), (1..=100).collect::<Vec<i32>>());
            }
        }
    }
}

#[test]
fn waves_of_a_workgroup_wait_for_each_other_without_a_barrier() {
    for arch in ARCHS {
        let rig = rig(arch);
        let out = rig.alloc(vec![0i32; 16]);
        rig.run("wave_relay", 1, 1024, Args::new().ptr(&out)).unwrap();
        assert_eq!(out.read(), (0..16).map(|wave| wave * 10).collect::<Vec<i32>>());
    }
}

#[test]
fn a_spin_lock_serialises_all_work_items() {
    for arch in ARCHS {
        let rig = rig(arch);
        let (lock, counter) = (rig.alloc(vec![0i32]), rig.alloc(vec![0i32]));
        rig.run("spin_lock", 8, 128, Args::new().ptr(&lock).ptr(&counter)).unwrap();
        assert_eq!(counter.read(), [8 * 128]);
    }
}

#[test]
fn impossible_launches_are_refused_with_a_reason() {
    let rig = rig(Arch::Gfx942);
    let out = rig.alloc(vec![0i32; 64]);
    let args = || Args::new().ptr(&out).u64(0);
    let refused = |dispatch: emulator::Dispatch| {
        let fault = rig.gpu.launch(&dispatch).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::Resources { .. }), "{fault}");
    };
    refused(rig.dispatch("write_at", [1, 1, 1], [1025, 1, 1], args()));
    refused(rig.dispatch("write_at", [1, 0, 1], [64, 1, 1], args()));
    let mut greedy = rig.dispatch("write_at", [1, 1, 1], [64, 1, 1], args());
    greedy.dynamic_lds = 70_000;
    refused(greedy);
    let mut long = rig.dispatch("write_at", [1, 1, 1], [64, 1, 1], args());
    long.kernarg = vec![0; 5000];
    refused(long);
}

/// Pages of this process whose access can be revoked.
struct Pages {
    address: u64,
    bytes: usize,
}

impl Pages {
    fn new(bytes: usize) -> Pages {
        let mode = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping.
        let got = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, mode, -1, 0) };
        assert_ne!(got, libc::MAP_FAILED);
        Pages { address: got as u64, bytes }
    }

    fn take_away(&self) {
        // SAFETY: the pages belong to the test, and only kernels use them.
        assert_eq!(unsafe { libc::mprotect(self.address as *mut _, self.bytes, libc::PROT_NONE) }, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::munmap(self.address as *mut _, self.bytes) };
    }
}

#[test]
fn a_page_that_the_host_took_away_ends_the_kernel_and_not_the_process() {
    for arch in ARCHS {
        let rig = rig(arch);
        let pages = Pages::new(1 << 20);
        let out = rig.alloc(vec![0i32; 64]);
        // SAFETY: only kernels use memory in the range, and the watch ends before the pages are unmapped.
        let watch = unsafe { Watch::new(pages.address, pages.bytes as u64) }.unwrap();
        rig.memory.insert(pages.address, pages.bytes as u64, Access::ReadWrite).unwrap();
        let write = || rig.run("write_at", 4, 64, Args::new().u64(pages.address).u64(1000));
        let read = || rig.run("read_at", 4, 64, Args::new().u64(pages.address).u64(9000).ptr(&out));
        write().unwrap();
        read().unwrap();
        pages.take_away();
        for (fault, offset) in [(write().unwrap_err(), 4000), (read().unwrap_err(), 36_000)] {
            let FaultKind::MissingPage { address } = fault.kind else { panic!("{fault}") };
            assert!((pages.address + offset..pages.address + offset + 256).contains(&address), "{fault}");
            assert!(fault.kind.is_memory() && fault.to_string().contains("no page"), "{fault}");
        }
        still_works(&rig);
        rig.memory.remove(pages.address);
        drop(watch);
    }
}
