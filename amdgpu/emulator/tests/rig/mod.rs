//! Shared test harness: compiles kernels with the real toolchain, provides device memory, and launches kernels.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use code_object::CodeObject;
use emulator::{Access, Compilation, Dispatch, Fault, Gpu, GpuConfig, LaunchStats, Level, Memory, Module};
use isa::Arch;
use parking_lot::Mutex;

pub const ARCHS: [Arch; 2] = [Arch::Gfx90a, Arch::Gfx942];

pub fn name(arch: Arch) -> &'static str {
    match arch {
        Arch::Gfx90a => "gfx90a",
        Arch::Gfx942 => "gfx942",
    }
}

fn kernels() -> PathBuf {
    // Other crates of this folder use the kernels too.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../emulator/tests/kernels")
}

/// Runs a compiler and caches its output under a name derived from its input.
fn build(source: &Path, key: &str, command: impl Fn(&Path) -> Command) -> Vec<u8> {
    let text = std::fs::read(source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let mut hasher = DefaultHasher::new();
    (text, key).hash(&mut hasher);
    let stem = source.file_stem().unwrap().to_string_lossy();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}-{:016x}.co", hasher.finish()));
    if !out.exists() {
        let partial = out.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
        let mut command = command(&partial);
        let output =
            command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run `cargo xtask setup`"));
        assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&partial, &out).unwrap();
    }
    std::fs::read(out).unwrap()
}

/// Compiles a HIP file to a code object.
pub fn hip(file: &str, arch: Arch, flags: &[&str]) -> Arc<[u8]> {
    let source = kernels().join(file);
    let toolchain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/toolchain").canonicalize();
    let toolchain = toolchain.expect("the HIP headers are in target/toolchain; run `cargo xtask setup`");
    let image = build(&source, &format!("{}{flags:?}", name(arch)), |out| {
        let mut command = Command::new("clang++-19");
        command
            .args(["-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-O3", "-std=c++17"])
            .arg(format!("--offload-arch={}", name(arch)))
            .arg(format!("--rocm-path={}", toolchain.join("hip/usr").display()))
            .arg(format!(
                "--rocm-device-lib-path={}",
                toolchain.join("device-libs/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode").display()
            ))
            .arg("-isystem")
            .arg(toolchain.join("hip/usr/include"))
            .args(flags)
            .arg("-o")
            .arg(out)
            .arg(&source);
        command
    });
    image.into()
}

/// Assembles a file to a code object.
pub fn assembly(file: &str, arch: Arch) -> Arc<[u8]> {
    assemble(&kernels().join(file), arch)
}

fn assemble(source: &Path, arch: Arch) -> Arc<[u8]> {
    let image = build(source, name(arch), |out| {
        let mut command = Command::new("clang-19");
        command
            .args(["-x", "assembler", "--target=amdgcn-amd-amdhsa"])
            .arg(format!("-mcpu={}", name(arch)))
            .arg("-o")
            .arg(out)
            .arg(source);
        command
    });
    image.into()
}

/// Bytes that a snippet's kernel writes: 32 scalars, then 16 vector registers.
pub const SNIPPET_BYTES: usize = 128 + 16 * 256;

/// Wraps assembler text in a kernel `snippet`. Its argument is a pointer, in s[0:1] (to `SNIPPET_BYTES` of results) and s[2:3]
/// (to the test's data after them). v0 is the lane number. At the end s16..s47 and v16..v31 are stored.
pub fn snippet(arch: Arch, body: &str) -> Arc<[u8]> {
    let mut text = String::from(
        ".amdhsa_code_object_version 5\n.text\n.globl snippet\n.p2align 8\n.type snippet,@function\nsnippet:\n\
         s_load_dwordx2 s[0:1], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n",
    );
    text += &format!("s_add_u32 s2, s0, {SNIPPET_BYTES}\n s_addc_u32 s3, s1, 0\n");
    text += body;
    text += "\n s_mov_b64 exec, -1\n s_waitcnt vmcnt(0) lgkmcnt(0)\n v_mov_b32 v60, 0\n";
    for k in 0..32 {
        text +=
            &format!("v_mov_b32 v61, s{}\n global_store_dword v60, v61, s[0:1] offset:{}\n", 16 + k, 4 * k);
    }
    text += "v_mbcnt_lo_u32_b32 v60, -1, 0\n v_mbcnt_hi_u32_b32 v60, -1, v60\n v_lshlrev_b32 v60, 2, v60\n v_add_u32 v60, 0x80, v60\n";
    for k in 0..16 {
        text += &format!("global_store_dword v60, v{}, s[0:1]\n v_add_u32 v60, 0x100, v60\n", 16 + k);
    }
    text += "s_endpgm\n.size snippet, .-snippet\n.rodata\n.p2align 6\n.amdhsa_kernel snippet\n\
             .amdhsa_user_sgpr_kernarg_segment_ptr 1\n.amdhsa_group_segment_fixed_size 4096\n.amdhsa_private_segment_fixed_size 64\n.amdhsa_kernarg_size 8\n\
             .amdhsa_next_free_vgpr 64\n.amdhsa_next_free_sgpr 100\n.amdhsa_accum_offset 64\n.end_amdhsa_kernel\n";
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("snippet-{:016x}.s", hasher.finish()));
    std::fs::write(&source, &text).unwrap();
    assemble(&source, arch)
}

/// Runs a snippet on one wave, with `extra` after the results. Returns scalars, vectors, and `extra` as left by the snippet.
pub fn run_snippet(arch: Arch, body: &str, extra: &[u8]) -> (Vec<u32>, Vec<[u32; 64]>, Vec<u8>) {
    let rig = Rig::new(arch, snippet(arch, body));
    let mut data = vec![0u8; SNIPPET_BYTES];
    data.extend_from_slice(extra);
    data.resize(data.len().next_multiple_of(8), 0);
    let words: Vec<u64> = data.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let out = rig.alloc(words);
    rig.run("snippet", 1, 64, Args::new().ptr(&out))
        .unwrap_or_else(|fault| panic!("{arch:?} {fault}\n{body}"));
    let bytes: Vec<u8> = out.read().iter().flat_map(|word| word.to_le_bytes()).collect();
    let dwords: Vec<u32> = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let vectors = (0..16).map(|k| dwords[32 + 64 * k..96 + 64 * k].try_into().unwrap()).collect();
    (dwords[..32].to_vec(), vectors, bytes[SNIPPET_BYTES..][..extra.len()].to_vec())
}

/// Device memory: a host allocation that kernels may access.
pub struct Allocation<T: Copy> {
    data: *mut T,
    len: usize,
    memory: Arc<Memory>,
}

impl<T: Copy> Allocation<T> {
    pub fn address(&self) -> u64 {
        self.data as u64
    }

    pub fn read(&self) -> Vec<T> {
        // SAFETY: the allocation has `len` initialised elements; no kernel runs while tests read.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }.to_vec()
    }
}

impl<T: Copy> Drop for Allocation<T> {
    fn drop(&mut self) {
        self.memory.remove(self.address());
        // SAFETY: the slice came from a box of the same length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.data, self.len)) });
    }
}

/// Kernel arguments, laid out as a C struct.
#[derive(Clone, Default)]
pub struct Args(pub Vec<u8>);

impl Args {
    pub fn new() -> Args {
        Args::default()
    }

    pub fn put<const N: usize>(mut self, bytes: [u8; N]) -> Args {
        self.0.resize(self.0.len().next_multiple_of(N), 0);
        self.0.extend(bytes);
        self
    }

    pub fn ptr<T: Copy>(self, allocation: &Allocation<T>) -> Args {
        self.put(allocation.address().to_le_bytes())
    }

    pub fn u64(self, value: u64) -> Args {
        self.put(value.to_le_bytes())
    }

    pub fn u32(self, value: u32) -> Args {
        self.put(value.to_le_bytes())
    }

    pub fn f32(self, value: f32) -> Args {
        self.put(value.to_le_bytes())
    }
}

/// A device with one loaded module.
pub struct Rig {
    pub gpu: Gpu,
    pub memory: Arc<Memory>,
    pub module: Module,
    pub output: Arc<Mutex<Vec<u8>>>,
    /// Memory in which the module is loaded.
    _image: Box<[u128]>,
}

impl Rig {
    /// Creates a device. Runs become native code immediately, at the best CPU level, unless the test's name says otherwise.
    pub fn new(arch: Arch, image: Arc<[u8]>) -> Rig {
        let test = env!("CARGO_CRATE_NAME");
        let compilation = match test.ends_with("_by_micro_ops") {
            true => Compilation::Never,
            false => Compilation::After(0),
        };
        let level = test.ends_with("_at_v3").then_some(Level::V3);
        if compilation != Compilation::Never && Level::detect() < Level::V3 {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            // Written directly: the test harness hides what passing tests print.
            let _ = writeln!(
                std::io::stderr().lock(),
                "skipped: {test}::{name}: this CPU has no level with native code; only micro-ops are tested"
            );
        }
        Rig::with_config(GpuConfig { threads: 2, compilation, level, ..GpuConfig::new(arch) }, image)
    }

    pub fn with_config(config: GpuConfig, image: Arc<[u8]>) -> Rig {
        let object = CodeObject::parse(image).unwrap();
        let memory = Arc::new(Memory::new());
        let place = vec![0u128; object.load_size() as usize / 16 + 512].into_boxed_slice();
        let base = (place.as_ptr() as u64).next_multiple_of(4096);
        // SAFETY: the block is a page larger than the module needs, and lives as long as the rig.
        let module = unsafe { Module::load(object, config.arch, base, &memory) }.unwrap();
        Rig { gpu: Gpu::new(config), memory, module, output: Arc::default(), _image: place }
    }

    pub fn hip(file: &str, arch: Arch) -> Rig {
        Rig::new(arch, hip(file, arch, &[]))
    }

    pub fn alloc<T: Copy>(&self, data: Vec<T>) -> Allocation<T> {
        let data = data.into_boxed_slice();
        let len = data.len();
        let data = Box::into_raw(data).cast::<T>();
        self.memory.insert(data as u64, (len * size_of::<T>()) as u64, Access::ReadWrite).unwrap();
        Allocation { data, len, memory: self.memory.clone() }
    }

    /// Creates a launch of `blocks` full workgroups.
    pub fn dispatch(&self, kernel: &str, blocks: [u32; 3], threads: [u32; 3], args: Args) -> Dispatch {
        let kernel = self.module.kernel(kernel).unwrap_or_else(|| panic!("no kernel {kernel}")).clone();
        let grid = [blocks[0] * threads[0], blocks[1] * threads[1], blocks[2] * threads[2]];
        let mut dispatch = Dispatch::new(kernel, self.memory.clone(), grid, threads);
        dispatch.kernarg = args.0;
        dispatch.deadline = Some(Instant::now() + Duration::from_secs(60));
        let output = self.output.clone();
        dispatch.output = Some(Arc::new(move |text: &[u8]| output.lock().extend_from_slice(text)));
        dispatch
    }

    pub fn run(&self, kernel: &str, blocks: u32, threads: u32, args: Args) -> Result<LaunchStats, Fault> {
        self.gpu.launch(&self.dispatch(kernel, [blocks, 1, 1], [threads, 1, 1], args))
    }

    pub fn printed(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.output.lock())).unwrap()
    }
}
