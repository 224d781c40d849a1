//! What the tests share: compiling kernels with the real toolchain, device memory, and launching.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use code_object::CodeObject;
use emulator::{Access, Dispatch, Fault, Gpu, GpuConfig, LaunchStats, Memory, Module};
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels")
}

/// Runs a compiler, with its output kept under a name that changes with its input.
fn build(source: &Path, key: &str, command: impl Fn(&Path) -> Command) -> Vec<u8> {
    let text = std::fs::read(source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let mut hasher = DefaultHasher::new();
    (text, key).hash(&mut hasher);
    let stem = source.file_stem().unwrap().to_string_lossy();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}-{:016x}.co", hasher.finish()));
    if !out.exists() {
        let partial = out.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
        let mut command = command(&partial);
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run `cargo xtask setup`"));
        assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&partial, &out).unwrap();
    }
    std::fs::read(out).unwrap()
}

/// A code object from a HIP file.
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

/// A code object from an assembler file.
pub fn assembly(file: &str, arch: Arch) -> Arc<[u8]> {
    let source = kernels().join(file);
    let image = build(&source, name(arch), |out| {
        let mut command = Command::new("clang-19");
        command
            .args(["-x", "assembler", "--target=amdgcn-amd-amdhsa"])
            .arg(format!("-mcpu={}", name(arch)))
            .arg("-o")
            .arg(out)
            .arg(&source);
        command
    });
    image.into()
}

/// Device memory: a host allocation that kernels may touch.
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

/// A device with one module loaded.
pub struct Rig {
    pub gpu: Gpu,
    pub memory: Arc<Memory>,
    pub module: Module,
    pub output: Arc<Mutex<Vec<u8>>>,
    /// Where the module lies.
    _image: Box<[u128]>,
}

impl Rig {
    pub fn new(arch: Arch, image: Arc<[u8]>) -> Rig {
        Rig::with_config(GpuConfig { threads: 2, ..GpuConfig::new(arch) }, image)
    }

    pub fn with_config(config: GpuConfig, image: Arc<[u8]>) -> Rig {
        let object = CodeObject::parse(image).unwrap();
        let memory = Arc::new(Memory::new());
        let place = vec![0u128; object.load_size() as usize / 16 + 512].into_boxed_slice();
        let base = (place.as_ptr() as u64).next_multiple_of(4096);
        // SAFETY: the block has a page more than the module needs and lives as long as the rig.
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

    /// A launch of `blocks` whole workgroups.
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
