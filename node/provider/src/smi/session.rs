//! Queries AMD SMI and converts its results to this crate's types.
//!
//! The library writes each structure into a buffer that is larger than any release needs. The buffer is read with the layout of the
//! library's version. A value that is reported as unsupported, or with all bits set, is unknown.

use std::ffi::c_void;

use super::layout::Layout;
use super::library::{self, Handle, Library, Status};
use crate::address::PciAddress;
use crate::device::PcieLink;
use crate::env::SmiChoice;
use crate::gfx;
use crate::metrics::Metrics;
use crate::pci;

const INIT_AMD_GPUS: u64 = 2;
const PROCESSOR_AMD_GPU: u32 = 1;
const MEMORY_VRAM: u32 = 0;
const CLOCK_GRAPHICS: u32 = 0;
const CLOCK_MEMORY: u32 = 4;
/// Temperature sensors in order of preference: junction (hottest spot), edge, memory.
const TEMPERATURES: [u32; 3] = [1, 0, 2];
const TEMPERATURE_NOW: u32 = 0;
/// Link types of `amdsmi_topo_get_link_type`, the same in every release. Up to 6.4 the function uses a dedicated enumeration, later the one
/// for all links, in which these numbers previously had other meanings.
const LINK_PCIE: u32 = 1;
const LINK_XGMI: u32 = 2;
const DRIVER_NOT_LOADED: Status = 34;
const OUT_OF_RESOURCES: Status = 15;
/// Most sockets, processors or processes that are read.
const COUNT_LIMIT: u32 = 4096;
/// Buffer size for one structure of any release, in 64-bit words.
const ROOM: usize = 2048;

/// A loaded and initialised AMD SMI with a known layout. Used by one thread at a time.
#[derive(Debug)]
pub struct Session {
    library: Library,
    layout: &'static Layout,
    version: (u32, u32),
}

/// Data of a device, as reported by the library.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub handle: usize,
    pub address: Option<PciAddress>,
    pub partition: u32,
    pub name: Option<String>,
    pub device_id: u32,
    pub unique_id: u64,
    pub compute_units: Option<u64>,
    pub target: Option<u32>,
    pub clock_mhz: Option<u64>,
    pub gpu_id: Option<u64>,
    pub node: Option<u32>,
    pub render_minor: Option<u32>,
    pub memory: Option<u64>,
    pub driver: Option<String>,
    pub firmware: Option<String>,
    pub numa: Option<i32>,
    pub pcie: Option<PcieLink>,
}

/// A process, as listed by the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmiProcess {
    pub pid: u32,
    pub vram: u64,
    pub occupied_units: Option<u64>,
}

impl Session {
    /// Loads and initialises the library. The error is a message that says why it is not used.
    pub fn open(choice: &SmiChoice) -> Result<Session, String> {
        let library = library::load(choice).map_err(|refusals| match refusals.first() {
            Some(first) => format!("AMD's management library cannot be loaded: {first}"),
            None => "AMD's management library is disabled".to_owned(),
        })?;
        // SAFETY: a function of the loaded library, called with the flag for GPUs only.
        let status = unsafe { (library.amdsmi_init)(INIT_AMD_GPUS) };
        if status != 0 {
            let why = if status == DRIVER_NOT_LOADED { " (the driver is not loaded)" } else { "" };
            return Err(format!("AMD's management library failed to initialise: status {status}{why}"));
        }
        // Older releases report their version only after initialisation.
        let mut words = [0u64; ROOM];
        // SAFETY: the buffer is larger than the version structure of any release.
        let status = unsafe { (library.amdsmi_get_lib_version)(words.as_mut_ptr().cast()) };
        let bytes = Bytes(&words);
        let version = if status == 0 { (bytes.u32(0), bytes.u32(4)) } else { (0, 0) };
        let Some(layout) = Layout::of_version(version.0, version.1) else {
            // SAFETY: the library was initialised above.
            unsafe { (library.amdsmi_shut_down)() };
            return Err(format!(
                "AMD's management library has version {}.{}, which is not supported",
                version.0, version.1
            ));
        };
        Ok(Session { library, layout, version })
    }

    pub fn describe(&self) -> String {
        let (first, second) = self.version;
        format!("libamd_smi {first}.{second}, with the layout of ROCm {}", self.layout.name)
    }

    /// Reinitialises the library, because it discovers devices only at initialisation. Invalidates all earlier handles.
    pub fn restart(&self) {
        // SAFETY: the library was initialised. If the second initialisation fails, every later call returns an error status.
        unsafe {
            (self.library.amdsmi_shut_down)();
            (self.library.amdsmi_init)(INIT_AMD_GPUS);
        }
    }

    /// Returns all GPUs and partitions.
    pub fn devices(&self) -> Vec<Facts> {
        let sockets = list(|count, handles| {
            // SAFETY: `list` passes a count and a buffer for that many handles, or a null pointer with a count of zero.
            unsafe { (self.library.amdsmi_get_socket_handles)(count, handles) }
        });
        let mut found = Vec::new();
        for socket in sockets {
            let processors = list(|count, handles| {
                // SAFETY: as above, with a socket handle from the library.
                unsafe { (self.library.amdsmi_get_processor_handles)(socket, count, handles) }
            });
            for processor in processors {
                let mut kind = 0u32;
                // SAFETY: a processor handle from the library, and a pointer to a `u32`.
                let status = unsafe { (self.library.amdsmi_get_processor_type)(processor, &mut kind) };
                if status == 0 && kind == PROCESSOR_AMD_GPU {
                    found.push(self.facts(processor));
                }
            }
        }
        found
    }

    /// Reads the sensors of a device.
    pub fn metrics(&self, handle: usize) -> Metrics {
        let handle = handle as Handle;
        let library = &self.library;
        let mut metrics = Metrics::default();
        if let Some(words) = ask(library.amdsmi_get_gpu_activity, handle) {
            let bytes = Bytes(&words);
            metrics.utilization = percent(bytes.u32(0));
            if let Some(busy) = percent(bytes.u32(4)) {
                metrics.extra("memory_busy_percent", f64::from(busy));
            }
        }
        if let Some(words) = ask(library.amdsmi_get_power_info, handle) {
            let bytes = Bytes(&words);
            let power = self.layout.power;
            let watts = [power.current, power.average].map(|place| known(bytes.u32(place)));
            metrics.power_watts = watts.into_iter().flatten().find(|watts| *watts > 0).map(f64::from);
            if let Some(limit) = known(bytes.u32(power.limit)).filter(|limit| *limit > 0) {
                metrics.extra("power_limit_watts", f64::from(limit) / 1e6);
            }
        }
        if let Some(read) = library.amdsmi_get_temp_metric {
            metrics.temperature = TEMPERATURES.into_iter().find_map(|sensor| {
                let mut degrees = 0i64;
                // SAFETY: a processor handle from the library, and a pointer to an `i64`.
                let status = unsafe { read(handle, sensor, TEMPERATURE_NOW, &mut degrees) };
                (status == 0 && (-100..1000).contains(&degrees)).then_some(degrees as f64)
            });
        }
        metrics.memory_used = scalar(|to| {
            // SAFETY: a processor handle from the library, and a pointer to a `u64`.
            library.amdsmi_get_gpu_memory_usage.map(|read| unsafe { read(handle, MEMORY_VRAM, to) })
        });
        for (clock, key) in [(CLOCK_GRAPHICS, "graphics_clock_mhz"), (CLOCK_MEMORY, "memory_clock_mhz")] {
            if let Some((now, _)) = self.clock(handle, clock) {
                metrics.extra(key, f64::from(now));
            }
        }
        if let Some(words) = ask(library.amdsmi_get_gpu_total_ecc_count, handle) {
            metrics.extra("ecc_correctable", words[0] as f64);
            metrics.extra("ecc_uncorrectable", words[1] as f64);
        }
        metrics
    }

    /// Returns the processes on a device; `None` if the library does not report them.
    pub fn processes(&self, handle: usize) -> Option<Vec<SmiProcess>> {
        let read = self.library.amdsmi_get_gpu_process_list?;
        let layout = self.layout.process;
        let mut count = 0u32;
        // SAFETY: with a count of zero the library writes only the count.
        let status = unsafe { read(handle as Handle, &mut count, std::ptr::null_mut()) };
        if status != 0 && status != OUT_OF_RESOURCES {
            return None;
        }
        // The list may grow between two calls. The second call then returns the new count.
        for _ in 0..3 {
            let room = count.min(COUNT_LIMIT).saturating_add(8);
            let mut words = vec![0u64; layout.size.div_ceil(8) * room as usize];
            count = room;
            // SAFETY: the buffer has space for `count` processes.
            let status = unsafe { read(handle as Handle, &mut count, words.as_mut_ptr().cast()) };
            if status == OUT_OF_RESOURCES && count > room {
                continue;
            }
            if status != 0 {
                return None;
            }
            let bytes = Bytes(&words);
            let process = |number: u32| {
                let start = number as usize * layout.size;
                let occupied = layout.occupied_units.and_then(|place| known(bytes.u32(start + place)));
                SmiProcess {
                    pid: bytes.u32(start + layout.pid),
                    vram: bytes.u64(start + layout.vram),
                    occupied_units: occupied.map(u64::from),
                }
            };
            return Some((0..count.min(room)).map(process).filter(|process| process.pid != 0).collect());
        }
        None
    }

    /// Returns whether two devices are linked by XGMI; `None` if the library does not report it.
    pub fn is_xgmi(&self, from: usize, to: usize) -> Option<bool> {
        let read = self.library.amdsmi_topo_get_link_type?;
        let (mut hops, mut kind) = (0u64, 0u32);
        // SAFETY: two processor handles from the library, and pointers to both results.
        let status = unsafe { read(from as Handle, to as Handle, &mut hops, &mut kind) };
        match (status, kind) {
            (0, LINK_XGMI) => Some(true),
            (0, LINK_PCIE) => Some(false),
            _ => None,
        }
    }

    fn facts(&self, handle: Handle) -> Facts {
        let (library, layout) = (&self.library, self.layout);
        let mut facts = Facts { handle: handle as usize, ..Facts::default() };
        let place = scalar(|to| {
            // SAFETY: a processor handle from the library, and a pointer to a `u64`.
            library.amdsmi_get_gpu_bdf_id.map(|read| unsafe { read(handle, to) })
        });
        if let Some(place) = place {
            facts.address = Some(PciAddress::from_location((place >> 32) as u32, place as u32));
            facts.partition = PciAddress::partition_of(place as u32);
        }
        if let Some(words) = ask(library.amdsmi_get_gpu_asic_info, handle) {
            let bytes = Bytes(&words);
            facts.name = bytes.text(0, 64);
            facts.device_id = bytes.u64(layout.device_id) as u32 & 0xffff;
            facts.unique_id = bytes.text(layout.serial, 32).and_then(|text| hexadecimal(&text)).unwrap_or(0);
            let units = layout.compute_units.and_then(|place| known(bytes.u32(place)));
            facts.compute_units = units.filter(|units| (1..65536).contains(units)).map(u64::from);
            facts.target = layout.processor.and_then(|place| gfx::from_digits(bytes.u64(place)));
        }
        if layout.kfd
            && let Some(words) = ask(library.amdsmi_get_gpu_kfd_info, handle)
        {
            let bytes = Bytes(&words);
            facts.gpu_id = Some(bytes.u64(0)).filter(|id| *id != u64::MAX && *id != 0);
            facts.node = known(bytes.u32(8));
            if let Some(partition) = known(bytes.u32(12)) {
                facts.partition = partition;
            }
        }
        if layout.enumeration
            && let Some(words) = ask(library.amdsmi_get_gpu_enumeration_info, handle)
        {
            facts.render_minor = known(Bytes(&words).u32(0)).filter(|minor| *minor > 0);
        }
        facts.memory = scalar(|to| {
            // SAFETY: a processor handle from the library, and a pointer to a `u64`.
            library.amdsmi_get_gpu_memory_total.map(|read| unsafe { read(handle, MEMORY_VRAM, to) })
        });
        facts.driver =
            ask(library.amdsmi_get_gpu_driver_info, handle).and_then(|words| Bytes(&words).text(0, 64));
        let vbios = ask(library.amdsmi_get_gpu_vbios_info, handle);
        facts.firmware = vbios.and_then(|words| Bytes(&words).text(layout.vbios_version, 64));
        let mut numa = 0u32;
        // SAFETY: a processor handle from the library, and a pointer to a `u32`.
        let status = library.amdsmi_topo_get_numa_node_number.map(|read| unsafe { read(handle, &mut numa) });
        facts.numa =
            (status == Some(0)).then_some(numa).and_then(known).and_then(|node| i32::try_from(node).ok());
        if let Some(words) = ask(library.amdsmi_get_pcie_info, handle) {
            let width = u32::from(Bytes(&words).u32(0) as u16);
            let generation = pci::generation(f64::from(Bytes(&words).u32(4)));
            facts.pcie = generation
                .filter(|_| (1..=32).contains(&width))
                .map(|generation| PcieLink { generation, width });
        }
        facts.clock_mhz = self.clock(handle, CLOCK_GRAPHICS).and_then(|(_, most)| most).map(u64::from);
        facts
    }

    /// Returns the current and maximum clock in megahertz.
    fn clock(&self, handle: Handle, clock: u32) -> Option<(u32, Option<u32>)> {
        let read = self.library.amdsmi_get_clock_info?;
        let mut words = [0u64; ROOM];
        // SAFETY: a processor handle from the library, and a buffer larger than the structure.
        let status = unsafe { read(handle, clock, words.as_mut_ptr().cast()) };
        let bytes = Bytes(&words);
        let sensible = |megahertz: u32| known(megahertz).filter(|megahertz| *megahertz < 100_000);
        Some((
            sensible(bytes.u32(0)).filter(|_| status == 0)?,
            sensible(bytes.u32(8)).filter(|most| *most > 0),
        ))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: `open` initialised the library, and no handle is used after this.
        unsafe { (self.library.amdsmi_shut_down)() };
    }
}

// SAFETY: the library may be called from any thread, and this crate treats handles as numbers.
unsafe impl Send for Session {}

/// Queries a structure; `None` if the library lacks the function or returns an error.
fn ask(
    read: Option<unsafe extern "C" fn(Handle, *mut c_void) -> Status>,
    handle: Handle,
) -> Option<Box<[u64]>> {
    let mut words = vec![0u64; ROOM].into_boxed_slice();
    // SAFETY: a processor handle from the library, and a buffer larger than any structure of any release.
    let status = unsafe { read?(handle, words.as_mut_ptr().cast()) };
    (status == 0).then_some(words)
}

/// Queries a 64-bit number; `None` if the call fails or the value is unknown.
fn scalar(read: impl FnOnce(*mut u64) -> Option<Status>) -> Option<u64> {
    let mut value = u64::MAX;
    (read(&mut value)? == 0 && value != u64::MAX).then_some(value)
}

/// Queries handles in two calls: first the count, then the handles.
fn list(read: impl Fn(*mut u32, *mut Handle) -> Status) -> Vec<Handle> {
    let mut count = 0u32;
    if read(&mut count, std::ptr::null_mut()) != 0 || count == 0 {
        return Vec::new();
    }
    let room = count.min(COUNT_LIMIT);
    let mut handles = vec![std::ptr::null_mut(); room as usize];
    count = room;
    if read(&mut count, handles.as_mut_ptr()) != 0 {
        return Vec::new();
    }
    handles.truncate(count.min(room) as usize);
    handles.retain(|handle| !handle.is_null());
    handles
}

/// Filters values with all 16 or all 32 bits set, which mean "not available".
fn known(value: u32) -> Option<u32> {
    (value != u32::MAX && value != 0xffff).then_some(value)
}

fn percent(value: u32) -> Option<u32> {
    known(value).map(|percent| percent.min(100))
}

fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).ok().filter(|id| *id != 0)
}

/// Buffer with a structure of some layout.
struct Bytes<'a>(&'a [u64]);

impl Bytes<'_> {
    fn byte(&self, place: usize) -> u8 {
        self.0.get(place / 8).map_or(0, |word| word.to_ne_bytes()[place % 8])
    }

    fn u32(&self, place: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|byte| self.byte(place + byte)))
    }

    fn u64(&self, place: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|byte| self.byte(place + byte)))
    }

    /// Reads a C string; `None` for "N/A".
    fn text(&self, place: usize, room: usize) -> Option<String> {
        let bytes: Vec<u8> =
            (0..room).map(|byte| self.byte(place + byte)).take_while(|byte| *byte != 0).collect();
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty() && text != "N/A").then_some(text)
    }
}
