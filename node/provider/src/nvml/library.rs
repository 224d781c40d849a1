//! Symbols of NVML, looked up by name. Functions that not every driver has are optional.

use std::ffi::{OsString, c_char, c_void};

use crate::env::SmiChoice;
use crate::symbols::library_functions;

/// Opaque handle of a GPU.
pub type Handle = *mut c_void;
/// Status code; zero is success.
pub type Status = u32;

/// File names for the dynamic loader; the last one is that of Windows' Linux subsystem.
const NAMES: &[&str] = &["libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"];

/// Meanings of the status codes that users see.
const MEANINGS: &[(Status, &str)] = &[
    (1, "not initialised"),
    (2, "invalid argument"),
    (3, "not supported"),
    (4, "no permission"),
    (6, "not found"),
    (9, "the driver is not loaded"),
    (10, "timeout"),
    (12, "the driver's library was not found"),
    (13, "the driver lacks a function"),
    (15, "the GPU is lost"),
    (16, "the GPU needs a reset"),
    (18, "library and driver have different versions"),
    (20, "out of memory"),
    (999, "unknown error"),
];

/// Why NVML is not used.
#[derive(Debug, thiserror::Error)]
pub enum NvmlError {
    #[error("NVIDIA's management library is disabled")]
    Off,
    #[error("NVIDIA's management library cannot be loaded (tried {tried}): {source}")]
    Load { tried: String, source: libloading::Error },
    #[error("{library} lacks {function}, so it is not NVIDIA's management library, or too old")]
    Missing { library: String, function: &'static str },
    #[error("NVIDIA's management library failed to initialise: {}", meaning(.status))]
    Start { status: Status },
}

/// Returns a status code and its meaning.
pub fn words(status: Status) -> String {
    match MEANINGS.iter().find(|(code, _)| *code == status) {
        Some((_, meaning)) => format!("status {status} ({meaning})"),
        None => format!("status {status}"),
    }
}

fn meaning(status: &Status) -> String {
    words(*status)
}

library_functions! {
    required {
        nvmlInit_v2();
        nvmlShutdown();
        nvmlDeviceGetCount_v2(*mut u32);
        nvmlDeviceGetHandleByIndex_v2(u32, *mut Handle);
        nvmlDeviceGetUUID(Handle, *mut c_char, u32);
        nvmlDeviceGetName(Handle, *mut c_char, u32);
        nvmlDeviceGetMemoryInfo(Handle, *mut Memory);
    }
    optional {
        nvmlSystemGetDriverVersion(*mut c_char, u32);
        nvmlDeviceGetMemoryInfo_v2(Handle, *mut MemoryV2);
        nvmlDeviceGetPciInfo_v3(Handle, *mut PciInfo);
        nvmlDeviceGetMinorNumber(Handle, *mut u32);
        nvmlDeviceGetCudaComputeCapability(Handle, *mut i32, *mut i32);
        nvmlDeviceGetNumGpuCores(Handle, *mut u32);
        nvmlDeviceGetMigMode(Handle, *mut u32, *mut u32);
        nvmlDeviceGetVbiosVersion(Handle, *mut c_char, u32);
        nvmlDeviceGetMaxPcieLinkGeneration(Handle, *mut u32);
        nvmlDeviceGetMaxPcieLinkWidth(Handle, *mut u32);
        nvmlDeviceGetMaxClockInfo(Handle, u32, *mut u32);
        nvmlDeviceGetClockInfo(Handle, u32, *mut u32);
        nvmlDeviceGetUtilizationRates(Handle, *mut Utilization);
        nvmlDeviceGetTemperature(Handle, u32, *mut u32);
        nvmlDeviceGetPowerUsage(Handle, *mut u32);
        nvmlDeviceGetEnforcedPowerLimit(Handle, *mut u32);
        nvmlDeviceGetTotalEccErrors(Handle, u32, u32, *mut u64);
        nvmlDeviceGetComputeRunningProcesses_v3(Handle, *mut u32, *mut ProcessInfo);
        nvmlDeviceGetComputeRunningProcesses_v2(Handle, *mut u32, *mut ProcessInfo);
        nvmlDeviceGetProcessUtilization(Handle, *mut ProcessSample, *mut u32, u64);
        nvmlDeviceGetP2PStatus(Handle, Handle, u32, *mut u32);
    }
}

/// `nvmlMemory_t`. What is used includes what the driver reserves.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Memory {
    pub total: u64,
    pub free: u64,
    pub used: u64,
}

/// `nvmlMemory_v2_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MemoryV2 {
    version: u32,
    pub total: u64,
    pub reserved: u64,
    pub free: u64,
    pub used: u64,
}

impl Default for MemoryV2 {
    fn default() -> MemoryV2 {
        // NVML's versions of structures: their size and a number.
        let version = size_of::<MemoryV2>() as u32 | 2 << 24;
        MemoryV2 { version, total: 0, reserved: 0, free: 0, used: 0 }
    }
}

/// `nvmlPciInfo_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct PciInfo {
    old_text: [u8; 16],
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
    pub chip: u32,
    pub subsystem: u32,
    text: [u8; 32],
}

/// `nvmlUtilization_t`, in percent.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Utilization {
    pub gpu: u32,
    pub memory: u32,
}

/// `nvmlProcessInfo_t` of both versions of the function.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ProcessInfo {
    pub pid: u32,
    pub memory: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// `nvmlProcessUtilizationSample_t`, in percent of the time.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ProcessSample {
    pub pid: u32,
    pub time: u64,
    pub multiprocessors: u32,
    memory: u32,
    encoder: u32,
    decoder: u32,
}

const _: () = assert!(size_of::<Memory>() == 24 && size_of::<MemoryV2>() == 40);
const _: () = assert!(size_of::<PciInfo>() == 68 && size_of::<Utilization>() == 8);
const _: () = assert!(size_of::<ProcessInfo>() == 24 && size_of::<ProcessSample>() == 32);

/// Loads the chosen library.
pub fn load(choice: &SmiChoice) -> Result<Library, NvmlError> {
    let candidates: Vec<OsString> = match choice {
        SmiChoice::Off => return Err(NvmlError::Off),
        SmiChoice::File(file) => vec![file.clone().into()],
        SmiChoice::Search(folders) => {
            let stated = folders.iter().map(|folder| folder.join(NAMES[0])).filter(|file| file.exists());
            stated.map(OsString::from).chain(NAMES.iter().map(OsString::from)).collect()
        }
    };
    let mut failure = None;
    for candidate in &candidates {
        // SAFETY: loading runs the library's constructors. It is NVIDIA's library or the one the operator configured.
        match unsafe { libloading::Library::new(candidate) } {
            Ok(library) => {
                // SAFETY: the types are those of NVML's header. A version suffix is part of a name, so a name never changes its type.
                let found = unsafe { Library::look_up(&library) };
                // Never unloaded: it has threads and destructors, and staying loaded costs nothing.
                std::mem::forget(library);
                let missing = |function| NvmlError::Missing {
                    library: candidate.to_string_lossy().into_owned(),
                    function,
                };
                return found.map_err(missing);
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let tried: Vec<_> = candidates.iter().map(|path| path.to_string_lossy()).collect();
    let source = failure.unwrap_or(libloading::Error::DlOpenUnknown);
    Err(NvmlError::Load { tried: tried.join(", "), source })
}
