//! `malloc`, `free`, `new` and `delete` in kernels, with the device library's own heap.

mod rig;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::sync::Arc;

use emulator::heap::{BLOCK_BYTES, PAGE, Pages, SLAB};
use emulator::{Access, FaultKind, Heap, Memory};
use isa::Arch;
use parking_lot::Mutex;
use rig::{ARCHS, Allocation, Args, Rig};

/// Provides pages from this process's allocator, up to a limit.
struct Host {
    memory: Arc<Memory>,
    limit: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: HashMap<u64, Layout>,
    bytes: u64,
}

impl Host {
    /// Asserts that only slabs are left: allocations larger than a block were freed, slabs stay with the heap. The number of
    /// slabs depends on timing.
    fn expect_slabs(&self, what: &str) {
        let state = self.state.lock();
        assert!(!state.taken.is_empty(), "{what}");
        assert!(state.taken.values().all(|layout| layout.size() as u64 == SLAB), "{what}: {:?}", state.taken);
    }
}

impl Pages for Host {
    fn allocate(&self, bytes: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let bytes = bytes.next_multiple_of(PAGE);
        if state.bytes + bytes > self.limit {
            return None;
        }
        let align = if bytes >= SLAB { SLAB } else { PAGE };
        let layout = Layout::from_size_align(bytes as usize, align as usize).unwrap();
        // SAFETY: the size is not zero.
        let address = unsafe { alloc_zeroed(layout) } as u64;
        assert_ne!(address, 0);
        self.memory.insert(address, bytes, Access::ReadWrite).unwrap();
        state.bytes += bytes;
        state.taken.insert(address, layout);
        Some(address)
    }

    fn free(&self, address: u64) -> bool {
        let mut state = self.state.lock();
        let Some(layout) = state.taken.remove(&address) else { return false };
        state.bytes -= layout.size() as u64;
        self.memory.remove(address);
        // SAFETY: allocated above with the same layout.
        unsafe { dealloc(address as *mut u8, layout) };
        true
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for (address, layout) in self.state.get_mut().taken.drain() {
            // SAFETY: allocated above with the same layout; no kernel is running any longer.
            unsafe { dealloc(address as *mut u8, layout) };
        }
    }
}

/// A device with a heap of at most `limit` bytes.
struct Device {
    rig: Rig,
    host: Arc<Host>,
    heap: Heap,
    _block: Allocation<u64>,
}

impl Device {
    fn new(arch: Arch, version: u32, limit: u64) -> Device {
        let flags = flags(arch, version);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let rig = Rig::new(arch, rig::hip("heap.hip", arch, &flags));
        let block = rig.alloc(vec![0u64; BLOCK_BYTES as usize / 8]);
        let host = Arc::new(Host { memory: rig.memory.clone(), limit, state: Mutex::default() });
        let heap = Heap { block: block.address(), pages: host.clone() };
        Device { rig, host, heap, _block: block }
    }

    fn run(&self, kernel: &str, blocks: u32, threads: u32, args: Args) -> Result<(), emulator::Fault> {
        let mut dispatch = self.rig.dispatch(kernel, [blocks, 1, 1], [threads, 1, 1], args);
        dispatch.heap = Some(self.heap.clone());
        self.rig.gpu.launch(&dispatch).map(|_| ())
    }
}

/// Compiler flags for a code object version. Version 6 is newer than the device library, so the library's files have to be named
/// explicitly to be linked.
fn flags(arch: Arch, version: u32) -> Vec<String> {
    let mut flags = vec![format!("-mcode-object-version={version}")];
    if version == 6 {
        flags.extend(["-nogpulib".to_owned(), "-Wno-everything".to_owned()]);
        let folder =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/toolchain/device-libs/usr/lib/llvm-17");
        let isa = format!("oclc_isa_version_{}", rig::name(arch).trim_start_matches("gfx"));
        let fixed = ["ocml", "ockl", "oclc_daz_opt_off", "oclc_unsafe_math_off", "oclc_finite_only_off"];
        let chosen =
            ["oclc_correctly_rounded_sqrt_on", "oclc_wavefrontsize64_on", "oclc_abi_version_500", &isa];
        for part in fixed.iter().chain(&chosen) {
            let file = format!("{folder}/lib/clang/17/amdgcn/bitcode/{part}.bc");
            flags.extend(["-Xclang", "-mlink-builtin-bitcode", "-Xclang", &file].map(str::to_owned));
        }
    }
    flags
}

/// Runs `test` on both architectures, with the heap's metadata in the module (version 4) and in the device's block (5 and 6).
fn everywhere(limit: u64, test: impl Fn(&Device, &str)) {
    for arch in ARCHS {
        for version in [4, 5, 6] {
            test(&Device::new(arch, version, limit), &format!("{arch:?} code object v{version}"));
        }
    }
}

#[test]
fn allocations_of_many_waves_are_never_shared_and_can_be_freed() {
    everywhere(1 << 30, |device, what| {
        let (wrong, missing) = (device.rig.alloc(vec![0u32]), device.rig.alloc(vec![0u32]));
        device
            .run("churn", 6, 192, Args::new().ptr(&wrong).ptr(&missing).u32(5))
            .unwrap_or_else(|fault| panic!("{what}: {fault}"));
        assert_eq!((wrong.read()[0], missing.read()[0]), (0, 0), "{what}");
        device.host.expect_slabs(what);
    });
}

#[test]
fn memory_outlives_its_kernel_and_another_kernel_may_free_it() {
    everywhere(1 << 30, |device, what| {
        for bytes in [40, 100_000] {
            let out = device.rig.alloc(vec![0u64; 2 * 128]);
            device.run("take", 2, 128, Args::new().ptr(&out).u64(bytes)).unwrap();
            let mut addresses = out.read();
            addresses.sort_unstable();
            addresses.windows(2).for_each(|pair| assert!(pair[1] - pair[0] >= bytes, "{what} {pair:x?}"));
            device.run("write", 2, 128, Args::new().ptr(&out)).unwrap();
            device.run("give", 2, 128, Args::new().ptr(&out)).unwrap();
        }
        device.host.expect_slabs(what);
    });
}

#[test]
fn freed_pages_are_an_illegal_address() {
    everywhere(1 << 30, |device, what| {
        let out = device.rig.alloc(vec![0u64; 1]);
        device.run("take", 1, 1, Args::new().ptr(&out).u64(1 << 20)).unwrap();
        device.run("give", 1, 1, Args::new().ptr(&out)).unwrap();
        let fault = device.run("write", 1, 1, Args::new().ptr(&out)).unwrap_err();
        let address = out.read()[0];
        assert_eq!(fault.kind, FaultKind::IllegalAddress { address, write: true }, "{what}");
    });
}

#[test]
fn malloc_gives_null_when_there_is_no_more() {
    everywhere(3 * SLAB, |device, what| {
        let out = device.rig.alloc(vec![1u64; 4 * 64]);
        device.run("take", 4, 64, Args::new().ptr(&out).u64(SLAB / 8)).unwrap();
        let got = out.read().iter().filter(|address| **address != 0).count();
        assert_eq!(got, 24, "{what}");
        let small = device.rig.alloc(vec![1u64; 64]);
        device.run("take", 1, 64, Args::new().ptr(&small).u64(64)).unwrap();
        assert!(small.read().iter().all(|address| *address == 0), "{what}: no room for a slab");
        device.run("give", 4, 64, Args::new().ptr(&out)).unwrap();
        device.run("take", 1, 64, Args::new().ptr(&small).u64(64)).unwrap();
        assert!(small.read().iter().all(|address| *address != 0), "{what}: room again");
    });
}

#[test]
fn new_and_delete_make_and_destroy_objects_with_virtual_functions() {
    everywhere(1 << 30, |device, what| {
        let (out, destroyed) = (device.rig.alloc(vec![0i32; 256]), device.rig.alloc(vec![0u32]));
        device.run("objects", 1, 256, Args::new().ptr(&out).ptr(&destroyed)).unwrap();
        for (item, sum) in (0i32..).zip(out.read()) {
            let area = if item % 3 == 0 { item * item } else { item * 2 };
            assert_eq!(sum, (0..=item).map(|k| area + k).sum::<i32>(), "{what} item {item}");
        }
        assert_eq!(destroyed.read()[0], 256, "{what}");
    });
}

#[test]
fn a_dispatch_without_a_heap_faults() {
    for arch in ARCHS {
        let device = Device::new(arch, 4, 0);
        let out = device.rig.alloc(vec![0u64; 64]);
        let fault = device.rig.run("take", 1, 64, Args::new().ptr(&out).u64(64)).unwrap_err();
        assert!(matches!(&fault.kind, FaultKind::Hostcall { text } if text.contains("malloc")), "{fault}");
    }
}
