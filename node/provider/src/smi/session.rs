//! Asking the library: what it says of each device, in this crate's terms.
//!
//! Every structure is written by the library into more room than any release needs, and read by the layout of its version. What
//! it calls unsupported, or answers with all bits set, is not known.

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
/// Hottest place, edge, memory.
const TEMPERATURES: [u32; 3] = [1, 0, 2];
const TEMPERATURE_NOW: u32 = 0;
/// What `amdsmi_topo_get_link_type` answers in every release: by an enumeration of its own up to 6.4, and since by the one for
/// all links, which meant other things by these numbers before.
const LINK_PCIE: u32 = 1;
const LINK_XGMI: u32 = 2;
const DRIVER_NOT_LOADED: Status = 34;
const OUT_OF_RESOURCES: Status = 15;
/// More than there are, of sockets, processors or processes.
const COUNT_LIMIT: u32 = 4096;
/// Room for one structure of any release, in words.
const ROOM: usize = 2048;

/// A library that is loaded, understood and initialised. Used by one thread at a time.
#[derive(Debug)]
pub struct Session {
    library: Library,
    layout: &'static Layout,
    version: (u32, u32),
}

/// What the library knows of a device.
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

/// A process as the library lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmiProcess {
    pub pid: u32,
    pub vram: u64,
    pub occupied_units: Option<u64>,
}

impl Session {
    /// Loads and initialises the library. The error says why it is not used, in words.
    pub fn open(choice: &SmiChoice) -> Result<Session, String> {
        let library = library::load(choice).map_err(|refusals| match refusals.first() {
            Some(first) => format!("AMD's management library cannot be loaded: {first}"),
            None => "AMD's management library is switched off".to_owned(),
        })?;
        // SAFETY: a function of the loaded library, with the flag for GPUs alone.
        let status = unsafe { (library.amdsmi_init)(INIT_AMD_GPUS) };
        if status != 0 {
            let why = if status == DRIVER_NOT_LOADED { " (the driver is not loaded)" } else { "" };
            return Err(format!("AMD's management library refuses to start: status {status}{why}"));
        }
        // Only now: older releases do not tell their version before.
        let mut words = [0u64; ROOM];
        // SAFETY: there is far more room than a version needs in any release.
        let status = unsafe { (library.amdsmi_get_lib_version)(words.as_mut_ptr().cast()) };
        let bytes = Bytes(&words);
        let version = if status == 0 { (bytes.u32(0), bytes.u32(4)) } else { (0, 0) };
        let Some(layout) = Layout::of_version(version.0, version.1) else {
            // SAFETY: it was initialised above.
            unsafe { (library.amdsmi_shut_down)() };
            return Err(format!(
                "AMD's management library has version {}.{}, which is not known here",
                version.0, version.1
            ));
        };
        Ok(Session { library, layout, version })
    }

    pub fn describe(&self) -> String {
        let (first, second) = self.version;
        format!("libamd_smi {first}.{second}, with the layout of ROCm {}", self.layout.name)
    }

    /// Makes the library look at the machine again, which it does only when it starts. Handles from before mean nothing to it.
    pub fn restart(&self) {
        // SAFETY: it was initialised, and if it now refuses to be, it answers every call with that.
        unsafe {
            (self.library.amdsmi_shut_down)();
            (self.library.amdsmi_init)(INIT_AMD_GPUS);
        }
    }

    /// Every GPU, and every partition of one.
    pub fn devices(&self) -> Vec<Facts> {
        let sockets = list(|count, handles| {
            // SAFETY: `list` passes a count and room for that many handles, or none with a count of zero.
            unsafe { (self.library.amdsmi_get_socket_handles)(count, handles) }
        });
        let mut found = Vec::new();
        for socket in sockets {
            let processors = list(|count, handles| {
                // SAFETY: as above, with a socket the library gave us.
                unsafe { (self.library.amdsmi_get_processor_handles)(socket, count, handles) }
            });
            for processor in processors {
                let mut kind = 0u32;
                // SAFETY: a processor the library gave us, and room for its kind.
                let status = unsafe { (self.library.amdsmi_get_processor_type)(processor, &mut kind) };
                if status == 0 && kind == PROCESSOR_AMD_GPU {
                    found.push(self.facts(processor));
                }
            }
        }
        found
    }

    /// What its sensors say.
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
                // SAFETY: a processor of the library and room for a temperature.
                let status = unsafe { read(handle, sensor, TEMPERATURE_NOW, &mut degrees) };
                (status == 0 && (-100..1000).contains(&degrees)).then_some(degrees as f64)
            });
        }
        metrics.memory_used = scalar(|to| {
            // SAFETY: a processor of the library and room for a size.
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

    /// Who uses a device; nothing where the library does not tell.
    pub fn processes(&self, handle: usize) -> Option<Vec<SmiProcess>> {
        let read = self.library.amdsmi_get_gpu_process_list?;
        let layout = self.layout.process;
        let mut count = 0u32;
        // SAFETY: with a count of zero the library only counts.
        let status = unsafe { read(handle as Handle, &mut count, std::ptr::null_mut()) };
        if status != 0 && status != OUT_OF_RESOURCES {
            return None;
        }
        // The list may grow between two calls; the second says by how much.
        for _ in 0..3 {
            let room = count.min(COUNT_LIMIT).saturating_add(8);
            let mut words = vec![0u64; layout.size.div_ceil(8) * room as usize];
            count = room;
            // SAFETY: there is room for as many processes as the count says.
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

    /// Whether two devices are linked without the PCI bus; nothing where the library does not tell.
    pub fn is_xgmi(&self, from: usize, to: usize) -> Option<bool> {
        let read = self.library.amdsmi_topo_get_link_type?;
        let (mut hops, mut kind) = (0u64, 0u32);
        // SAFETY: two processors of the library, and room for both answers.
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
            // SAFETY: a processor of the library and room for its place.
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
            // SAFETY: a processor of the library and room for a size.
            library.amdsmi_get_gpu_memory_total.map(|read| unsafe { read(handle, MEMORY_VRAM, to) })
        });
        facts.driver =
            ask(library.amdsmi_get_gpu_driver_info, handle).and_then(|words| Bytes(&words).text(0, 64));
        let vbios = ask(library.amdsmi_get_gpu_vbios_info, handle);
        facts.firmware = vbios.and_then(|words| Bytes(&words).text(layout.vbios_version, 64));
        let mut numa = 0u32;
        // SAFETY: a processor of the library and room for a number.
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

    /// Megahertz now and at most.
    fn clock(&self, handle: Handle, clock: u32) -> Option<(u32, Option<u32>)> {
        let read = self.library.amdsmi_get_clock_info?;
        let mut words = [0u64; ROOM];
        // SAFETY: a processor of the library, and more room than the structure needs.
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
        // SAFETY: initialised when this was made, and no handle outlives this.
        unsafe { (self.library.amdsmi_shut_down)() };
    }
}

// SAFETY: the library may be called by any thread; handles are numbers to us.
unsafe impl Send for Session {}

/// A structure that the library fills in, if it does.
fn ask(
    read: Option<unsafe extern "C" fn(Handle, *mut c_void) -> Status>,
    handle: Handle,
) -> Option<Box<[u64]>> {
    let mut words = vec![0u64; ROOM].into_boxed_slice();
    // SAFETY: a processor of the library, and room for any structure of any release.
    let status = unsafe { read?(handle, words.as_mut_ptr().cast()) };
    (status == 0).then_some(words)
}

/// A 64-bit number that the library fills in, if it does and knows it.
fn scalar(read: impl FnOnce(*mut u64) -> Option<Status>) -> Option<u64> {
    let mut value = u64::MAX;
    (read(&mut value)? == 0 && value != u64::MAX).then_some(value)
}

/// Handles, asked for twice: how many, then which.
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

/// All bits of 16 or of 32 mean "not available".
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

/// Memory that was written as a structure of some layout.
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

    /// What stands there up to a zero; nothing for "N/A".
    fn text(&self, place: usize, room: usize) -> Option<String> {
        let bytes: Vec<u8> =
            (0..room).map(|byte| self.byte(place + byte)).take_while(|byte| *byte != 0).collect();
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty() && text != "N/A").then_some(text)
    }
}
