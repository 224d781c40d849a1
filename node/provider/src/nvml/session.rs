//! Queries NVML and converts its results to this crate's types.
//!
//! Nothing that the library writes is trusted: counts are bounded, texts end at the end of their buffer, and implausible values are
//! unknown.

use std::ffi::c_char;

use super::library::{
    self, Handle, Library, Memory, MemoryV2, NvmlError, PciInfo, ProcessInfo, ProcessSample, Status,
    Utilization, words,
};
use crate::address::PciAddress;
use crate::device::PcieLink;
use crate::env::SmiChoice;
use crate::metrics::Metrics;

const INSUFFICIENT_SIZE: Status = 7;
const CLOCK_MULTIPROCESSOR: u32 = 1;
const CLOCK_MEMORY: u32 = 2;
const TEMPERATURE_CHIP: u32 = 0;
/// Kinds of errors, and those since the driver was loaded.
const ECC_CORRECTED: u32 = 0;
const ECC_UNCORRECTED: u32 = 1;
const ECC_VOLATILE: u32 = 0;
/// The property of a pair of GPUs that they are linked by NVLink, and its state.
const PEER_NVLINK: u32 = 2;
const PEER_OK: u32 = 0;
/// Most GPUs and processes that are read.
const GPU_LIMIT: u32 = 64;
const PROCESS_LIMIT: u32 = 4096;
/// The length of NVML's longest texts, and the size of the buffers for them: a library that writes more does no harm.
const TEXT: usize = 96;
const TEXT_ROOM: usize = 1024;
/// Plausibility limit of memory, above any real GPU.
const MEMORY_LIMIT: u64 = 1 << 48;

/// A loaded and initialised NVML. Used by one thread at a time.
#[derive(Debug)]
pub struct Nvml {
    library: Library,
    driver: String,
}

/// Data of a GPU, as reported by the library.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub handle: usize,
    /// The driver's own name of the GPU: `GPU-` and a UUID.
    pub uuid: String,
    pub name: Option<String>,
    pub address: Option<PciAddress>,
    /// Memory that programs can use.
    pub memory: u64,
    pub cores: Option<u32>,
    /// Compute capability, major and minor.
    pub capability: Option<(u32, u32)>,
    pub clock_mhz: Option<u64>,
    pub minor: Option<u32>,
    pub driver: String,
    pub firmware: Option<String>,
    pub pcie: Option<PcieLink>,
}

/// A process with a context on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvmlProcess {
    pub pid: u32,
    pub memory: u64,
    /// Percent of the time in which multiprocessors ran its kernels.
    pub busy_percent: u32,
}

impl Nvml {
    /// Loads and initialises the library.
    pub fn open(choice: &SmiChoice) -> Result<Nvml, NvmlError> {
        let library = library::load(choice)?;
        // SAFETY: a function of the loaded library without arguments.
        let status = unsafe { (library.nvmlInit_v2)() };
        if status != 0 {
            return Err(NvmlError::Start { status });
        }
        // SAFETY: `text` passes a buffer that is larger than the length that it states.
        let read = |to, room| unsafe { library.nvmlSystemGetDriverVersion.map(|read| read(to, room)) };
        let driver = text(read).unwrap_or_default();
        Ok(Nvml { library, driver })
    }

    pub fn describe(&self) -> String {
        match self.driver.as_str() {
            "" => "libnvidia-ml of an unknown driver version".to_owned(),
            driver => format!("libnvidia-ml of driver {driver}"),
        }
    }

    /// Returns all GPUs, and messages about those that are left out.
    pub fn devices(&self) -> (Vec<Facts>, Vec<String>) {
        let mut count = 0u32;
        // SAFETY: a pointer to a `u32`.
        let status = unsafe { (self.library.nvmlDeviceGetCount_v2)(&mut count) };
        if status != 0 {
            return (Vec::new(), vec![format!("NVIDIA's GPUs cannot be counted: {}", words(status))]);
        }
        let (mut found, mut notes): (Vec<Facts>, Vec<String>) = (Vec::new(), Vec::new());
        if count > GPU_LIMIT {
            notes.push(format!("NVML reports {count} GPUs; only the first {GPU_LIMIT} are used"));
        }
        for index in 0..count.min(GPU_LIMIT) {
            match self.facts(index) {
                Ok(facts) if found.iter().any(|other| other.uuid == facts.uuid) => {
                    notes.push(format!("NVIDIA's GPU {index} has the UUID of another one and is left out"));
                }
                Ok(facts) => found.push(facts),
                Err(why) => notes.push(format!("NVIDIA's GPU {index} is left out: {why}")),
            }
        }
        (found, notes)
    }

    /// Reads the sensors of a GPU.
    pub fn metrics(&self, handle: usize) -> Metrics {
        let handle = handle as Handle;
        let library = &self.library;
        let mut metrics = Metrics::default();
        let mut use_of = Utilization::default();
        // SAFETY: a handle from the library, and a pointer to the structure of this function.
        let status = unsafe { library.nvmlDeviceGetUtilizationRates.map(|read| read(handle, &mut use_of)) };
        if status == Some(0) {
            metrics.utilization = Some(use_of.gpu).filter(|percent| *percent <= 100);
            if use_of.memory <= 100 {
                metrics.extra("memory_busy_percent", f64::from(use_of.memory));
            }
        }
        // SAFETY: a handle from the library, and pointers to a `u32`.
        unsafe {
            let number = |read: Option<unsafe extern "C" fn(Handle, *mut u32) -> Status>| {
                scalar(|to| read.map(|read| read(handle, to)))
            };
            metrics.power_watts = number(library.nvmlDeviceGetPowerUsage).and_then(watts);
            let limit = number(library.nvmlDeviceGetEnforcedPowerLimit).and_then(watts);
            let degrees =
                scalar(|to| library.nvmlDeviceGetTemperature.map(|read| read(handle, TEMPERATURE_CHIP, to)));
            metrics.temperature = degrees.filter(|degrees| *degrees < 1000).map(f64::from);
            if let Some(limit) = limit {
                metrics.extra("power_limit_watts", limit);
            }
        }
        metrics.memory_used = self.memory(handle).ok().and_then(|(_, used)| used);
        for (clock, key) in [(CLOCK_MULTIPROCESSOR, "graphics_clock_mhz"), (CLOCK_MEMORY, "memory_clock_mhz")]
        {
            if let Some(megahertz) = clock_of(library.nvmlDeviceGetClockInfo, handle, clock) {
                metrics.extra(key, f64::from(megahertz));
            }
        }
        for (kind, key) in [(ECC_CORRECTED, "ecc_correctable"), (ECC_UNCORRECTED, "ecc_uncorrectable")] {
            let mut errors = 0u64;
            let read = library.nvmlDeviceGetTotalEccErrors;
            // SAFETY: a handle from the library, and a pointer to a `u64`.
            let status = read.map(|read| unsafe { read(handle, kind, ECC_VOLATILE, &mut errors) });
            if status == Some(0) && errors != u64::MAX {
                metrics.extra(key, errors as f64);
            }
        }
        metrics
    }

    /// Returns the processes with a context on a GPU; none if the library does not report them.
    pub fn processes(&self, handle: usize) -> Vec<NvmlProcess> {
        let handle = handle as Handle;
        let newest = self.library.nvmlDeviceGetComputeRunningProcesses_v3;
        let Some(read) = newest.or(self.library.nvmlDeviceGetComputeRunningProcesses_v2) else {
            return Vec::new();
        };
        // SAFETY: a handle from the library, and a buffer for as many processes as the count says.
        let listed = list(|count, to: *mut ProcessInfo| unsafe { read(handle, count, to) });
        let busy = self.process_samples(handle);
        let busy_percent = |pid: u32| {
            let latest = busy.iter().filter(|sample| sample.pid == pid).max_by_key(|sample| sample.time);
            latest.map_or(0, |sample| sample.multiprocessors.min(100))
        };
        listed
            .into_iter()
            .filter(|process| process.pid != 0)
            .map(|process| NvmlProcess {
                pid: process.pid,
                // All bits are set where the driver may not tell, such as in containers.
                memory: Some(process.memory).filter(|bytes| *bytes < MEMORY_LIMIT).unwrap_or(0),
                busy_percent: busy_percent(process.pid),
            })
            .collect()
    }

    /// Returns whether two GPUs are linked by NVLink; `None` if the library does not report it.
    pub fn is_nvlink(&self, from: usize, to: usize) -> Option<bool> {
        let read = self.library.nvmlDeviceGetP2PStatus?;
        let mut state = 0u32;
        // SAFETY: two handles from the library, and a pointer to a `u32`.
        let status = unsafe { read(from as Handle, to as Handle, PEER_NVLINK, &mut state) };
        (status == 0).then_some(state == PEER_OK)
    }

    fn facts(&self, index: u32) -> Result<Facts, String> {
        let library = &self.library;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: a pointer to a handle.
        let status = unsafe { (library.nvmlDeviceGetHandleByIndex_v2)(index, &mut handle) };
        if status != 0 {
            return Err(words(status));
        }
        if handle.is_null() {
            return Err("its handle is null".to_owned());
        }
        // SAFETY: a handle from the library, and a buffer that is larger than the length that is stated.
        let uuid = text(|to, room| Some(unsafe { (library.nvmlDeviceGetUUID)(handle, to, room) }));
        let uuid = uuid.filter(|uuid| is_uuid(uuid)).ok_or("it has no valid UUID")?;
        let (mut mig, mut pending) = (0u32, 0u32);
        let read = library.nvmlDeviceGetMigMode;
        // SAFETY: a handle from the library, and pointers to two `u32`.
        let status = read.map(|read| unsafe { read(handle, &mut mig, &mut pending) });
        if status == Some(0) && mig == 1 {
            return Err(format!("{uuid} is divided into instances (MIG), which are not supported"));
        }
        let (memory, _) = self.memory(handle).map_err(|status| format!("its memory: {}", words(status)))?;
        if memory == 0 || memory >= MEMORY_LIMIT {
            return Err(format!("{uuid} reports {memory} bytes of memory"));
        }
        // SAFETY: as above.
        let name = text(|to, room| Some(unsafe { (library.nvmlDeviceGetName)(handle, to, room) }));
        // SAFETY: as above.
        let firmware =
            text(|to, room| library.nvmlDeviceGetVbiosVersion.map(|read| unsafe { read(handle, to, room) }));
        let (mut major, mut minor) = (0i32, 0i32);
        let read = library.nvmlDeviceGetCudaComputeCapability;
        // SAFETY: a handle from the library, and pointers to two `i32`.
        let status = read.map(|read| unsafe { read(handle, &mut major, &mut minor) });
        let plausible = status == Some(0) && (1..100).contains(&major) && (0..100).contains(&minor);
        let number = |read: Option<unsafe extern "C" fn(Handle, *mut u32) -> Status>| {
            // SAFETY: a handle from the library, and a pointer to a `u32`.
            scalar(|to| read.map(|read| unsafe { read(handle, to) }))
        };
        let generation = number(library.nvmlDeviceGetMaxPcieLinkGeneration);
        let width = number(library.nvmlDeviceGetMaxPcieLinkWidth);
        let pcie = generation
            .zip(width)
            .filter(|(generation, width)| (1..10).contains(generation) && (1..=32).contains(width));
        Ok(Facts {
            handle: handle as usize,
            uuid,
            name,
            address: self.address(handle),
            memory,
            cores: number(library.nvmlDeviceGetNumGpuCores).filter(|cores| *cores < 1 << 24),
            capability: plausible.then_some((major as u32, minor as u32)),
            clock_mhz: clock_of(library.nvmlDeviceGetMaxClockInfo, handle, CLOCK_MULTIPROCESSOR)
                .map(u64::from),
            minor: number(library.nvmlDeviceGetMinorNumber).filter(|minor| *minor < 1 << 20),
            driver: self.driver.clone(),
            firmware,
            pcie: pcie.map(|(generation, width)| PcieLink { generation, width }),
        })
    }

    fn address(&self, handle: Handle) -> Option<PciAddress> {
        let mut info = PciInfo::default();
        // SAFETY: a handle from the library, and a pointer to the structure of this function.
        let status = unsafe { self.library.nvmlDeviceGetPciInfo_v3?(handle, &mut info) };
        let PciInfo { domain, bus, device, .. } = info;
        (status == 0 && bus < 256 && device < 32).then_some(PciAddress {
            domain,
            bus: bus as u8,
            device: device as u8,
            function: 0,
        })
    }

    /// Returns the memory that programs can use, and how much of it is used, if that is plausible.
    fn memory(&self, handle: Handle) -> Result<(u64, Option<u64>), Status> {
        let sane = |total: u64, used: u64| (total, Some(used).filter(|used| *used <= total));
        if let Some(read) = self.library.nvmlDeviceGetMemoryInfo_v2 {
            let mut memory = MemoryV2::default();
            // SAFETY: a handle from the library, and a pointer to the structure, which states its version.
            let status = unsafe { read(handle, &mut memory) };
            if status == 0 {
                return Ok(sane(memory.total.saturating_sub(memory.reserved), memory.used));
            }
        }
        let mut memory = Memory::default();
        // SAFETY: a handle from the library, and a pointer to the structure of this function.
        match unsafe { (self.library.nvmlDeviceGetMemoryInfo)(handle, &mut memory) } {
            0 => Ok(sane(memory.total, memory.used)),
            status => Err(status),
        }
    }

    fn process_samples(&self, handle: Handle) -> Vec<ProcessSample> {
        let Some(read) = self.library.nvmlDeviceGetProcessUtilization else { return Vec::new() };
        // SAFETY: a handle from the library, and a buffer for as many samples as the count says.
        list(|count, to: *mut ProcessSample| unsafe { read(handle, to, count, 0) })
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: `open` initialised the library, and no handle is used after this.
        unsafe { (self.library.nvmlShutdown)() };
    }
}

// SAFETY: the library may be called from any thread, and this crate treats handles as numbers.
unsafe impl Send for Nvml {}

/// Whether a text can name a GPU for the driver. Other characters could name more than one GPU.
fn is_uuid(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    text.starts_with("GPU-") && (5..64).contains(&text.len()) && text.bytes().all(plain)
}

/// Milliwatts in watts; `None` for more than any GPU takes.
fn watts(milliwatts: u32) -> Option<f64> {
    (milliwatts < 100_000_000).then(|| f64::from(milliwatts) / 1000.0)
}

/// Queries a number; `None` if the library lacks the function or returns an error.
fn scalar(read: impl FnOnce(*mut u32) -> Option<Status>) -> Option<u32> {
    let mut value = 0u32;
    (read(&mut value)? == 0).then_some(value)
}

fn clock_of(
    read: Option<unsafe extern "C" fn(Handle, u32, *mut u32) -> Status>,
    handle: Handle,
    clock: u32,
) -> Option<u32> {
    // SAFETY: a handle from the library, and a pointer to a `u32`.
    scalar(|to| read.map(|read| unsafe { read(handle, clock, to) })).filter(|it| (1..100_000).contains(it))
}

/// Queries a text. The buffer is larger than the length that is stated, and need not have a terminator.
fn text(read: impl FnOnce(*mut c_char, u32) -> Option<Status>) -> Option<String> {
    let mut bytes = [0u8; TEXT_ROOM];
    if read(bytes.as_mut_ptr().cast(), TEXT as u32)? != 0 {
        return None;
    }
    let length = bytes[..TEXT].iter().position(|byte| *byte == 0).unwrap_or(TEXT);
    let text = String::from_utf8_lossy(&bytes[..length]).replace(char::is_control, " ").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Queries an array in two calls: first the count, then the elements. None if the library does not report them.
fn list<T: Copy + Default>(read: impl Fn(*mut u32, *mut T) -> Status) -> Vec<T> {
    let mut count = 0u32;
    let status = read(&mut count, std::ptr::null_mut());
    if (status != 0 && status != INSUFFICIENT_SIZE) || count == 0 {
        return Vec::new();
    }
    // The list may grow between two calls. The second call then returns the new count.
    for _ in 0..3 {
        let room = count.min(PROCESS_LIMIT).saturating_add(8);
        let mut found = vec![T::default(); room as usize];
        count = room;
        match read(&mut count, found.as_mut_ptr()) {
            0 => {
                found.truncate(count.min(room) as usize);
                return found;
            }
            INSUFFICIENT_SIZE if count > room => {}
            _ => return Vec::new(),
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_uuid_names_a_gpu() {
        assert!(is_uuid("GPU-5c4e3f2a-0000-1111-2222-333344445555"));
        let long = format!("GPU-{}", "a".repeat(60));
        for wrong in ["", "GPU-", "0", "GPU-1,GPU-2", "gpu-1", "GPU-1\n", "GPU-\u{e4}", long.as_str()] {
            assert!(!is_uuid(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_list_that_keeps_growing_ends() {
        let calls = std::cell::Cell::new(0);
        let read = |count: *mut u32, _: *mut u32| {
            calls.set(calls.get() + 1);
            // SAFETY: `list` passes a pointer to its count.
            unsafe { *count = u32::MAX };
            INSUFFICIENT_SIZE
        };
        assert!(list::<u32>(read).is_empty());
        assert!(calls.get() <= 4, "{}", calls.get());
    }

    #[test]
    fn a_text_without_a_terminator_ends_with_its_length() {
        let fill = |to: *mut c_char, _: u32| {
            // SAFETY: within the buffer.
            unsafe { to.write_bytes(b'x', TEXT_ROOM) };
            Some(0)
        };
        assert_eq!(text(fill).unwrap(), "x".repeat(TEXT));
        assert_eq!(text(|_, _| Some(3)), None);
        assert_eq!(text(|_, _| None), None);
    }
}
