//! Bindings to the HIP functions that a runner needs, from a library loaded by path.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use board_contract::Counters;
use libloading::Library;

use crate::message::HANDLE_BYTES;

/// A HIP error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name} ({code})")]
pub(crate) struct HipError {
    pub code: i32,
    pub name: String,
    pub call: &'static str,
}

pub(crate) type HipResult<T> = Result<T, HipError>;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// Function pointers of a HIP library. The library stays loaded as long as they exist.
        pub(crate) struct Hip {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
            begin: Option<unsafe extern "C" fn() -> c_int>,
            end: Option<unsafe extern "C" fn(*mut u64, usize) -> c_int>,
            session: Option<unsafe extern "C" fn(*mut u64) -> c_int>,
            _library: Library,
        }

        impl Hip {
            /// Loads a library.
            pub fn open(path: &Path) -> Result<Hip, libloading::Error> {
                // SAFETY: Remora's own client library, whose constructors have no harmful side effects.
                let library = unsafe { Library::new(path)? };
                // SAFETY: the types are those of HIP's documentation and of Remora's extensions.
                unsafe {
                    Ok(Hip {
                        $($field: *library.get(concat!($name, "\0").as_bytes())?,)*
                        begin: library.get(b"remoraCountersBegin\0").ok().map(|symbol| *symbol),
                        end: library.get(b"remoraCountersEnd\0").ok().map(|symbol| *symbol),
                        session: library.get(b"remoraSession\0").ok().map(|symbol| *symbol),
                        _library: library,
                    })
                }
            }
        }
    };
}

functions! {
    error_name = "hipGetErrorName": fn(c_int) -> *const c_char;
    device_name = "hipDeviceGetName": fn(*mut c_char, c_int, c_int) -> c_int;
    device_count = "hipGetDeviceCount": fn(*mut c_int) -> c_int;
    set_device = "hipSetDevice": fn(c_int) -> c_int;
    module_load = "hipModuleLoadData": fn(*mut *mut c_void, *const c_void) -> c_int;
    module_unload = "hipModuleUnload": fn(*mut c_void) -> c_int;
    module_function = "hipModuleGetFunction": fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_int;
    launch = "hipModuleLaunchKernel": fn(*mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void, *mut *mut c_void, *mut *mut c_void) -> c_int;
    malloc = "hipMalloc": fn(*mut *mut c_void, usize) -> c_int;
    free = "hipFree": fn(*mut c_void) -> c_int;
    to_device = "hipMemcpyHtoD": fn(*mut c_void, *const c_void, usize) -> c_int;
    to_host = "hipMemcpyDtoH": fn(*mut c_void, *const c_void, usize) -> c_int;
    fill = "hipMemsetD32Async": fn(*mut c_void, c_int, usize, *mut c_void) -> c_int;
    event_create = "hipEventCreate": fn(*mut *mut c_void) -> c_int;
    event_record = "hipEventRecord": fn(*mut c_void, *mut c_void) -> c_int;
    event_elapsed = "hipEventElapsedTime": fn(*mut f32, *mut c_void, *mut c_void) -> c_int;
    synchronize = "hipDeviceSynchronize": fn() -> c_int;
    reserve = "hipMemAddressReserve": fn(*mut *mut c_void, usize, usize, *mut c_void, u64) -> c_int;
    give_back = "hipMemAddressFree": fn(*mut c_void, usize) -> c_int;
    create = "hipMemCreate": fn(*mut *mut c_void, usize, *const MemoryProperties, u64) -> c_int;
    release = "hipMemRelease": fn(*mut c_void) -> c_int;
    map = "hipMemMap": fn(*mut c_void, usize, usize, *mut c_void, u64) -> c_int;
    unmap = "hipMemUnmap": fn(*mut c_void, usize) -> c_int;
    set_access = "hipMemSetAccess": fn(*mut c_void, usize, *const MemoryAccess, usize) -> c_int;
    ipc_handle = "hipIpcGetMemHandle": fn(*mut [u8; HANDLE_BYTES], *mut c_void) -> c_int;
}

impl std::fmt::Debug for Hip {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Hip")
    }
}

/// An address on the device.
pub(crate) type Address = u64;

/// Granularity of physical memory: that of all GPUs.
const GRANULARITY: u64 = 2 << 20;
/// Values of HIP's enumerations.
const PINNED: c_int = 1;
const FILE_DESCRIPTOR: c_int = 1;
const DEVICE: c_int = 1;
const READ_WRITE: c_int = 3;

/// `hipMemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    kind: c_int,
    id: c_int,
}

/// `hipMemAllocationProp`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MemoryProperties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    /// Only for Windows.
    window: usize,
    flags: u32,
}

/// `hipMemAccessDesc`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MemoryAccess {
    location: Location,
    flags: c_int,
}

/// Memory that another process can map.
#[derive(Debug)]
pub(crate) struct Shareable {
    pub address: Address,
    bytes: usize,
    physical: Handle,
}

/// A HIP handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle(*mut c_void);

impl Hip {
    fn check(&self, call: &'static str, code: c_int) -> HipResult<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function accepts any code and returns null or a static string of the library.
        let name = unsafe {
            let name = (self.error_name)(code);
            if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        };
        Err(HipError { code, name, call })
    }

    pub fn device_name(&self) -> HipResult<String> {
        let mut name = [0_u8; 256];
        // SAFETY: the buffer is one byte longer than the passed size, so it stays zero-terminated.
        self.check("hipDeviceGetName", unsafe { (self.device_name)(name.as_mut_ptr().cast(), 255, 0) })?;
        Ok(CStr::from_bytes_until_nul(&name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default())
    }

    /// Returns the id of this process's session on the worker; `None` if the library does not report it.
    pub fn session(&self) -> Option<u64> {
        let mut session = 0;
        // SAFETY: Remora's own extension, which writes a number to a valid pointer.
        let code = unsafe { (self.session?)(&mut session) };
        (code == 0).then_some(session)
    }

    pub fn device_count(&self) -> HipResult<u32> {
        let mut count = 0;
        // SAFETY: writes a number to a valid pointer.
        self.check("hipGetDeviceCount", unsafe { (self.device_count)(&mut count) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Makes a device the current one of this thread.
    pub fn set_device(&self, device: u32) -> HipResult<()> {
        // SAFETY: the library checks the ordinal.
        self.check("hipSetDevice", unsafe { (self.set_device)(device as c_int) })
    }

    /// Unloads a module. Its kernels must not be used afterwards.
    pub fn unload(&self, module: Handle) -> HipResult<()> {
        // SAFETY: a module of this library that the caller gives up.
        self.check("hipModuleUnload", unsafe { (self.module_unload)(module.0) })
    }

    /// Loads a code object. Returns its module and one of its kernels.
    pub fn load(&self, code: &[u8], kernel: &CStr) -> HipResult<(Handle, Handle)> {
        let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a complete code object. The library reads its size from its headers, which the judge has parsed before.
        self.check("hipModuleLoadData", unsafe { (self.module_load)(&mut module, code.as_ptr().cast()) })?;
        // SAFETY: a module that was just loaded, and a zero-terminated name.
        self.check("hipModuleGetFunction", unsafe {
            (self.module_function)(&mut function, module, kernel.as_ptr())
        })?;
        Ok((Handle(module), Handle(function)))
    }

    pub fn allocate(&self, bytes: u64) -> HipResult<Address> {
        let mut address = std::ptr::null_mut();
        // SAFETY: writes a device address to a valid pointer.
        self.check("hipMalloc", unsafe { (self.malloc)(&mut address, bytes as usize) })?;
        Ok(address as Address)
    }

    pub fn free(&self, address: Address) -> HipResult<()> {
        // SAFETY: the address was allocated by `malloc` and is not used afterwards.
        self.check("hipFree", unsafe { (self.free)(address as *mut c_void) })
    }

    /// Allocates memory that another process can map. Memory of `hipMalloc` cannot be shared on every GPU.
    pub fn allocate_shareable(&self, device: u32, bytes: u64) -> HipResult<Shareable> {
        let bytes = bytes.next_multiple_of(GRANULARITY) as usize;
        let location = Location { kind: DEVICE, id: device as c_int };
        let properties =
            MemoryProperties { kind: PINNED, handle_types: FILE_DESCRIPTOR, location, window: 0, flags: 0 };
        let access = MemoryAccess { location, flags: READ_WRITE };
        let (mut physical, mut address) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: writes a handle to a valid pointer; the structure is HIP's.
        self.check("hipMemCreate", unsafe { (self.create)(&mut physical, bytes, &properties, 0) })?;
        // SAFETY: reserves new addresses, maps the new memory there, and permits access by this device only.
        unsafe {
            self.check(
                "hipMemAddressReserve",
                (self.reserve)(&mut address, bytes, 0, std::ptr::null_mut(), 0),
            )?;
            self.check("hipMemMap", (self.map)(address, bytes, 0, physical, 0))?;
            self.check("hipMemSetAccess", (self.set_access)(address, bytes, &access, 1))?;
        }
        Ok(Shareable { address: address as Address, bytes, physical: Handle(physical) })
    }

    /// Frees memory that [`Hip::allocate_shareable`] has allocated.
    pub fn free_shareable(&self, memory: Shareable) -> HipResult<()> {
        let address = memory.address as *mut c_void;
        // SAFETY: what was allocated together, and is not used afterwards.
        unsafe {
            self.check("hipMemUnmap", (self.unmap)(address, memory.bytes))?;
            self.check("hipMemRelease", (self.release)(memory.physical.0))?;
            self.check("hipMemAddressFree", (self.give_back)(address, memory.bytes))
        }
    }

    /// Returns the handle with which another process maps an allocation.
    pub fn share(&self, address: Address) -> HipResult<[u8; HANDLE_BYTES]> {
        let mut handle = [0; HANDLE_BYTES];
        // SAFETY: writes a handle, which has this size, to a valid pointer. The library checks the address.
        self.check("hipIpcGetMemHandle", unsafe { (self.ipc_handle)(&mut handle, address as *mut c_void) })?;
        Ok(handle)
    }

    pub fn write(&self, address: Address, bytes: &[u8]) -> HipResult<()> {
        // SAFETY: the library checks device addresses, and the slice is readable.
        self.check("hipMemcpyHtoD", unsafe {
            (self.to_device)(address as *mut c_void, bytes.as_ptr().cast(), bytes.len())
        })
    }

    pub fn read(&self, address: Address, bytes: &mut [u8]) -> HipResult<()> {
        // SAFETY: the library checks device addresses, and the slice is writable.
        self.check("hipMemcpyDtoH", unsafe {
            (self.to_host)(bytes.as_mut_ptr().cast(), address as *const c_void, bytes.len())
        })
    }

    /// Fills memory with a 32-bit pattern, on the null stream.
    pub fn fill(&self, address: Address, words: u64, pattern: u32) -> HipResult<()> {
        // SAFETY: the library checks device addresses.
        self.check("hipMemsetD32Async", unsafe {
            (self.fill)(address as *mut c_void, pattern as c_int, words as usize, std::ptr::null_mut())
        })
    }

    pub fn event(&self) -> HipResult<Handle> {
        let mut event = std::ptr::null_mut();
        // SAFETY: writes a handle to a valid pointer.
        self.check("hipEventCreate", unsafe { (self.event_create)(&mut event) })?;
        Ok(Handle(event))
    }

    pub fn record(&self, event: Handle) -> HipResult<()> {
        // SAFETY: an event created by this library, on the null stream.
        self.check("hipEventRecord", unsafe { (self.event_record)(event.0, std::ptr::null_mut()) })
    }

    /// Returns the milliseconds between two completed events.
    pub fn elapsed(&self, from: Handle, to: Handle) -> HipResult<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: events created by this library.
        self.check("hipEventElapsedTime", unsafe { (self.event_elapsed)(&mut milliseconds, from.0, to.0) })?;
        Ok(f64::from(milliseconds))
    }

    /// Launches a kernel on the null stream. The arguments are copied before this returns.
    pub fn launch(
        &self,
        kernel: Handle,
        grid: [u32; 3],
        block: [u32; 3],
        local: u32,
        arguments: &mut [[u8; 8]],
    ) -> HipResult<()> {
        let mut pointers: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| argument.as_mut_ptr().cast()).collect();
        let null = std::ptr::null_mut();
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        // SAFETY: one pointer per kernel argument, each to eight bytes, and no scalar of the board is larger. The judge has checked the
        // number of arguments against the kernel's metadata.
        self.check("hipModuleLaunchKernel", unsafe {
            (self.launch)(kernel.0, gx, gy, gz, bx, by, bz, local, null, pointers.as_mut_ptr(), null.cast())
        })
    }

    pub fn synchronize(&self) -> HipResult<()> {
        // SAFETY: the function takes no arguments.
        self.check("hipDeviceSynchronize", unsafe { (self.synchronize)() })
    }

    /// Starts the instruction counters of this device; `false` if it has none.
    pub fn begin_counting(&self) -> bool {
        // SAFETY: Remora's own extension, without arguments.
        self.begin.is_some_and(|begin| unsafe { begin() } == 0)
    }

    pub fn end_counting(&self) -> Option<[u64; Counters::COUNT]> {
        let mut counts = [0; Counters::COUNT];
        // SAFETY: Remora's own extension, which writes at most the passed number of values.
        let code = unsafe { (self.end?)(counts.as_mut_ptr(), Counters::COUNT) };
        (code == 0).then_some(counts)
    }
}
