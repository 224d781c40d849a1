//! `remora sample`: the HIP program that `remora try` runs.
//!
//! It is an ordinary client: it loads libamdhip64 by its name, as the dynamic linker does for a HIP program, and uses only HIP functions.
//! Its kernel is precompiled (`sample/saxpy.hipfb`), because the purpose of `remora try` is a first result on a machine without a
//! compiler. The file is a build product of 17 KB in the repository: a build of `remora` needs no GPU compiler either. `cargo xtask codegen`
//! writes it from `sample/saxpy.hip`, and `cargo xtask test` compares it with a fresh compilation.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

use anyhow::{Context, Result, bail, ensure};
use hip_api::hip_functions;
use hip_api::types::{hipError_t, hipMemcpyDeviceToHost, hipMemcpyHostToDevice, hipSuccess};
use libloading::Library;

use crate::os::library::NAMES;
use crate::output::outln;

/// The kernel for every architecture that software GPUs have, as clang's bundle.
const CODE: &[u8] = include_bytes!("sample/saxpy.hipfb");

/// The GPU targets of [`CODE`].
pub const TARGETS: &[&str] = &["gfx90a", "gfx942"];

/// Number of elements: 4 MiB per vector.
const ELEMENTS: u32 = 1 << 20;
const BLOCK: u32 = 256;
const FACTOR: f32 = 2.0;

hip_functions! {
    /// The functions that the sample calls.
    struct Hip {
        required:
        hipDeviceGetName,
        hipDeviceSynchronize,
        hipEventCreate,
        hipEventElapsedTime,
        hipEventRecord,
        hipFree,
        hipGetErrorName,
        hipMalloc,
        hipMemcpy,
        hipModuleGetFunction,
        hipModuleLaunchKernel,
        hipModuleLoadData,
    }
}

/// Runs the kernel, checks its results and prints three lines: client, kernel, result.
pub fn run() -> Result<()> {
    let (_library, hip) = open()?;
    let device = hip.device_name()?;
    let path =
        library_path(&hip).map_or_else(|| "the client library".to_owned(), |path| path.display().to_string());
    outln!("client   {path} reached the worker; its device 0 is {device}");

    let x: Vec<f32> = (0..ELEMENTS).map(|index| (index % 1000) as f32).collect();
    let mut y: Vec<f32> = (0..ELEMENTS).map(|index| (index % 7) as f32).collect();
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| FACTOR * x + y).collect();
    let milliseconds = hip.saxpy(&x, &mut y)?;
    outln!(
        "kernel   saxpy, precompiled for {}: {ELEMENTS} work-items in {milliseconds:.1} ms, without a compiler",
        TARGETS.join(" and ")
    );

    if let Some(at) = (0..y.len()).find(|&at| y[at] != expected[at]) {
        bail!("wrong result: y[{at}] is {}, expected {}", y[at], expected[at]);
    }
    outln!("result   y = {FACTOR} * x + y is right in all {ELEMENTS} elements");
    Ok(())
}

/// Loads the newest client library by its name; `remora try` has set the library path.
fn open() -> Result<(Library, Hip)> {
    let name = NAMES.last().copied().unwrap_or_default();
    // SAFETY: Remora's own library; loading it starts no thread and has no effect on this process.
    let library = unsafe { Library::new(name) }.with_context(|| format!("cannot load {name}"))?;
    let address = |name: &'static CStr| {
        // SAFETY: the address is only copied, and a symbol of any type has one.
        let symbol = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
        symbol.map_or(null_mut(), |symbol| *symbol)
    };
    // SAFETY: the addresses are those of a HIP library, which the caller keeps open with the functions.
    let hip = unsafe { Hip::resolve(address) }.with_context(|| format!("{name} is incomplete"))?;
    Ok((library, hip))
}

/// The file that the functions were loaded from.
fn library_path(hip: &Hip) -> Option<PathBuf> {
    // SAFETY: all fields of the struct may be zero or null.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is only compared with those of the loaded libraries, and the struct is valid.
    let found = unsafe { libc::dladdr(hip.hipMalloc as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a terminated string of the dynamic linker, which exists as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = PathBuf::from(name.to_string_lossy().into_owned());
    Some(path.canonicalize().unwrap_or(path))
}

impl Hip {
    fn device_name(&self) -> Result<String> {
        let mut name = [0_u8; 256];
        // SAFETY: the buffer is one byte longer than the passed size, so it stays zero-terminated.
        let status = unsafe { (self.hipDeviceGetName)(name.as_mut_ptr().cast(), 255, 0) };
        self.check("hipDeviceGetName", status)?;
        let name = CStr::from_bytes_until_nul(&name).context("the name of the device is not terminated")?;
        Ok(name.to_string_lossy().into_owned())
    }

    /// Computes `y = FACTOR * x + y` on the device; returns the time of the kernel in milliseconds.
    fn saxpy(&self, x: &[f32], y: &mut [f32]) -> Result<f32> {
        ensure!(x.len() == y.len() && x.len() == ELEMENTS as usize, "the vectors differ in length");
        let bytes = size_of_val(x);
        let (mut module, mut kernel) = (null_mut(), null_mut());
        let (mut from, mut to) = (null_mut(), null_mut());
        let (mut device_x, mut device_y) = (null_mut::<c_void>(), null_mut::<c_void>());
        let (mut factor, mut count, mut milliseconds) = (FACTOR, ELEMENTS, 0.0_f32);
        let stream = null_mut();
        // SAFETY: the bundle is complete, as a test checks; out pointers are valid local variables; copies stay inside the slices, whose
        // lengths were compared, and inside the allocations, which have their size; the kernel's four arguments have the types of its
        // source, and the addresses stay valid until the launch has copied them. Handles come from this library.
        unsafe {
            self.check("hipModuleLoadData", (self.hipModuleLoadData)(&mut module, CODE.as_ptr().cast()))?;
            let status = (self.hipModuleGetFunction)(&mut kernel, module, c"saxpy".as_ptr());
            self.check("hipModuleGetFunction", status)?;
            self.check("hipMalloc", (self.hipMalloc)(&mut device_x, bytes))?;
            self.check("hipMalloc", (self.hipMalloc)(&mut device_y, bytes))?;
            let copy = |to: *mut c_void, from: *const c_void, kind| {
                self.check("hipMemcpy", (self.hipMemcpy)(to, from, bytes, kind))
            };
            copy(device_x, x.as_ptr().cast(), hipMemcpyHostToDevice)?;
            copy(device_y, y.as_ptr().cast(), hipMemcpyHostToDevice)?;
            self.check("hipEventCreate", (self.hipEventCreate)(&mut from))?;
            self.check("hipEventCreate", (self.hipEventCreate)(&mut to))?;
            self.check("hipEventRecord", (self.hipEventRecord)(from, stream))?;
            let mut arguments: [*mut c_void; 4] = [
                (&raw mut factor).cast(),
                (&raw mut device_x).cast(),
                (&raw mut device_y).cast(),
                (&raw mut count).cast(),
            ];
            let groups = ELEMENTS.div_ceil(BLOCK);
            let arguments = arguments.as_mut_ptr();
            let launch = self.hipModuleLaunchKernel;
            let status = launch(kernel, groups, 1, 1, BLOCK, 1, 1, 0, stream, arguments, null_mut());
            self.check("hipModuleLaunchKernel", status)?;
            self.check("hipEventRecord", (self.hipEventRecord)(to, stream))?;
            self.check("hipDeviceSynchronize", (self.hipDeviceSynchronize)())?;
            copy(y.as_mut_ptr().cast(), device_y, hipMemcpyDeviceToHost)?;
            let status = (self.hipEventElapsedTime)(&mut milliseconds, from, to);
            self.check("hipEventElapsedTime", status)?;
            self.check("hipFree", (self.hipFree)(device_x))?;
            self.check("hipFree", (self.hipFree)(device_y))?;
        }
        Ok(milliseconds)
    }

    fn check(&self, call: &str, status: hipError_t) -> Result<()> {
        if status == hipSuccess {
            return Ok(());
        }
        // SAFETY: returns null or a static, terminated string for any code.
        let name = unsafe { (self.hipGetErrorName)(status) };
        ensure!(!name.is_null(), "{call} failed with status {}", status.0);
        // SAFETY: not null, terminated and static, as above.
        bail!("{call} failed: {}", unsafe { CStr::from_ptr(name) }.to_string_lossy())
    }
}
