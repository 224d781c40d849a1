//! Types and constants of the CUDA driver API that this crate uses, as its header defines them.

use std::ffi::c_void;

/// Status of a driver call; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct CuResult(pub u32);

pub(crate) type CuDevice = i32;
pub(crate) type CuContext = *mut c_void;
pub(crate) type CuStream = *mut c_void;
pub(crate) type CuEvent = *mut c_void;
pub(crate) type CuModule = *mut c_void;
pub(crate) type CuFunction = *mut c_void;
pub(crate) type CuLinkState = *mut c_void;
/// Physical memory.
pub(crate) type CuMemory = u64;
pub(crate) type CuAddress = u64;
pub(crate) type CuHostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

pub(crate) const SUCCESS: CuResult = CuResult(0);
pub(crate) const NOT_READY: CuResult = CuResult(600);

/// The default stream that synchronises with the blocking streams of its context.
pub(crate) const LEGACY_STREAM: usize = 1;
pub(crate) const STREAM_NON_BLOCKING: u32 = 1;
/// Flags of events that mean the same in HIP and CUDA: blocking wait, no timing.
pub(crate) const EVENT_FLAGS: u32 = 3;
pub(crate) const HOST_PORTABLE_MAPPED: u32 = 3;

pub(crate) const ALLOCATION_PINNED: i32 = 1;
pub(crate) const LOCATION_DEVICE: i32 = 1;
pub(crate) const HANDLE_FILE_DESCRIPTOR: i32 = 1;
pub(crate) const ACCESS_NONE: i32 = 0;
pub(crate) const ACCESS_READ: i32 = 1;
pub(crate) const ACCESS_READ_WRITE: i32 = 3;

pub(crate) const MEMORY_HOST: u32 = 1;
pub(crate) const MEMORY_DEVICE: u32 = 2;

pub(crate) const JIT_ERROR_LOG: u32 = 5;
pub(crate) const JIT_ERROR_LOG_BYTES: u32 = 6;
pub(crate) const JIT_INPUT_PTX: u32 = 1;

/// Function attributes.
pub(crate) mod function {
    pub(crate) const LOCAL_BYTES: i32 = 3;
    pub(crate) const REGISTERS: i32 = 4;
    pub(crate) const DYNAMIC_SHARED: i32 = 8;
}

/// Device attributes.
pub(crate) mod attribute {
    pub(crate) const CLOCK_KHZ: i32 = 13;
    pub(crate) const MULTIPROCESSORS: i32 = 16;
    pub(crate) const INTEGRATED: i32 = 18;
    pub(crate) const ECC: i32 = 32;
    pub(crate) const PCI_BUS: i32 = 33;
    pub(crate) const PCI_DEVICE: i32 = 34;
    pub(crate) const MEMORY_CLOCK_KHZ: i32 = 36;
    pub(crate) const MEMORY_BUS_BITS: i32 = 37;
    pub(crate) const L2_BYTES: i32 = 38;
    pub(crate) const COPY_ENGINES: i32 = 40;
    pub(crate) const PCI_DOMAIN: i32 = 50;
    pub(crate) const CAPABILITY_MAJOR: i32 = 75;
    pub(crate) const CAPABILITY_MINOR: i32 = 76;
    pub(crate) const COOPERATIVE_LAUNCH: i32 = 95;
    pub(crate) const VIRTUAL_MEMORY: i32 = 102;
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct MemLocation {
    pub(crate) kind: i32,
    pub(crate) id: i32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MemAllocationProp {
    pub(crate) kind: i32,
    pub(crate) handle_types: i32,
    pub(crate) location: MemLocation,
    pub(crate) win32: *mut c_void,
    pub(crate) flags: [u8; 8],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct MemAccessDesc {
    pub(crate) location: MemLocation,
    pub(crate) flags: i32,
}

/// One side of a pitched copy.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CopySide {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) kind: u32,
    pub(crate) host: *mut c_void,
    pub(crate) device: CuAddress,
    pub(crate) array: *mut c_void,
    pub(crate) reserved: *mut c_void,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Copy3d {
    pub(crate) from: CopySide,
    pub(crate) to: CopySide,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

const _: () = assert!(size_of::<MemAllocationProp>() == 32);
const _: () = assert!(size_of::<MemAccessDesc>() == 12);
const _: () = assert!(size_of::<Copy3d>() == 200);
