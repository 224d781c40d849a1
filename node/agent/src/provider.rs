//! The provider library of a vendor (accelerator interface), loaded at run time: lists GPUs and reads their metrics.
//!
//! Functions and structs are those of the current generation (`Accel*`); struct sizes are checked at compile time. Strings that the library
//! writes are read as bytes of bounded length: they may be invalid UTF-8 or lack a terminator.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;

use libloading::Library;
use parking_lot::Mutex;

use crate::device::{Backing, Gpu};

/// Most devices and extra metrics that are read.
const MAX_DEVICES: usize = 64;
const MAX_EXTRA: usize = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct Property {
    key: [u8; 64],
    value: [u8; 256],
}

#[repr(C)]
struct DeviceInfo {
    uuid: [u8; 64],
    vendor: [u8; 32],
    model: [u8; 128],
    driver_version: [u8; 80],
    firmware_version: [u8; 64],
    device_node: [u8; 64],
    index: i32,
    numa_node: i32,
    total_memory_bytes: u64,
    total_compute_units: u64,
    max_tflops: f64,
    pcie_gen: u32,
    pcie_width: u32,
    properties: [Property; 64],
    property_count: usize,
    capabilities: [u8; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ExtraMetric {
    key: [u8; 64],
    value: f64,
}

#[repr(C)]
struct DeviceMetrics {
    device_uuid: [u8; 64],
    power_watts: f64,
    temperature_celsius: f64,
    pcie_rx_bytes: u64,
    pcie_tx_bytes: u64,
    utilization_percent: u32,
    memory_used_bytes: u64,
    extra: [ExtraMetric; MAX_EXTRA],
    extra_count: usize,
}

const _: () = assert!(size_of::<DeviceInfo>() == 20976);
const _: () = assert!(std::mem::offset_of!(DeviceInfo, total_memory_bytes) == 440);
const _: () = assert!(std::mem::offset_of!(DeviceInfo, property_count) == 20952);
const _: () = assert!(size_of::<DeviceMetrics>() == 4728);
const _: () = assert!(std::mem::offset_of!(DeviceMetrics, memory_used_bytes) == 104);

type NoArguments = unsafe extern "C" fn() -> c_int;
type GetAllDevices = unsafe extern "C" fn(*mut DeviceInfo, usize, *mut usize) -> c_int;
type GetDeviceMetrics = unsafe extern "C" fn(*const *const c_char, usize, *mut DeviceMetrics) -> c_int;

/// Metrics of a GPU, as reported by the vendor's library.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Health {
    pub(crate) power_watts: f64,
    pub(crate) temperature_celsius: f64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) utilization_percent: u32,
    pub(crate) memory_used_bytes: u64,
    pub(crate) extra: Vec<(String, f64)>,
}

/// A loaded and initialised provider library. It is never unloaded, because such libraries start threads.
pub(crate) struct Provider {
    library: std::mem::ManuallyDrop<Library>,
    /// Serializes calls, whether or not the library is thread-safe.
    calls: Mutex<()>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Provider")
    }
}

impl Provider {
    pub(crate) fn load(path: &Path) -> Result<Provider, String> {
        // SAFETY: loading runs the library's constructors. The operator chose the library in the agent's configuration.
        let library =
            unsafe { Library::new(path) }.map_err(|error| format!("{}: {error}", path.display()))?;
        let provider = Provider { library: std::mem::ManuallyDrop::new(library), calls: Mutex::new(()) };
        for name in [c"AccelInit", c"AccelGetAllDevices", c"AccelGetDeviceMetrics"] {
            provider.symbol::<NoArguments>(name)?;
        }
        let init = provider.symbol::<NoArguments>(c"AccelInit")?;
        // SAFETY: the interface defines this function without arguments.
        match unsafe { init() } {
            0 => Ok(provider),
            code => Err(format!("{}: AccelInit failed with code {code}", path.display())),
        }
    }

    fn symbol<T: Copy>(&self, name: &CStr) -> Result<T, String> {
        // SAFETY: the types are those of the interface, which a library that exports this name implements.
        let symbol = unsafe { self.library.get::<T>(name.to_bytes_with_nul()) };
        symbol.map(|symbol| *symbol).map_err(|error| format!("{}: {error}", name.to_string_lossy()))
    }

    /// Returns the GPUs that the library lists. NVIDIA's imitate the model `imitates`.
    pub(crate) fn devices(&self, imitates: &str) -> Result<Vec<Gpu>, String> {
        let _one = self.calls.lock();
        let get = self.symbol::<GetAllDevices>(c"AccelGetAllDevices")?;
        let mut found: Vec<DeviceInfo> = Vec::with_capacity(MAX_DEVICES);
        // SAFETY: all zeros is a valid value of the struct, and the buffer has space for `MAX_DEVICES` of them.
        unsafe { std::ptr::write_bytes(found.as_mut_ptr(), 0, MAX_DEVICES) };
        let mut count = 0;
        // SAFETY: the buffer has space for the `MAX_DEVICES` structs that are passed as its size.
        let code = unsafe { get(found.as_mut_ptr(), MAX_DEVICES, &raw mut count) };
        if code != 0 {
            return Err(format!("AccelGetAllDevices failed with code {code}"));
        }
        // SAFETY: the structs were zeroed above, and any bytes are a valid value.
        unsafe { found.set_len(count.min(MAX_DEVICES)) };
        let mut gpus: Vec<Gpu> = Vec::new();
        for (device, at) in found.iter().zip(0..) {
            let properties = &device.properties[..device.property_count.min(device.properties.len())];
            let property = |key: &str| {
                properties
                    .iter()
                    .find(|property| text(&property.key) == key)
                    .map(|property| text(&property.value))
            };
            let is_software = property("source").is_some_and(|source| source == "remora");
            let model = text(&device.model);
            let pci = property("pciAddress").filter(|address| !address.is_empty());
            let is_nvidia = text(&device.vendor).eq_ignore_ascii_case("nvidia");
            let backing = match Gpu::software_model(&model).filter(|_| is_software) {
                Some(model) => Backing::Software { model: model.to_owned() },
                None if is_nvidia => {
                    let Some(uuid) = Gpu::nvidia_uuid(&text(&device.uuid)) else {
                        tracing::warn!("an NVIDIA GPU is left out: its identifier is not the driver's");
                        continue;
                    };
                    Backing::Cuda { uuid, pci, imitates: imitates.to_owned() }
                }
                None => {
                    let same =
                        |gpu: &&Gpu| matches!(&gpu.backing, Backing::Hip { pci: other, .. } if *other == pci);
                    let position = gpus.iter().filter(same).count() as u32;
                    Backing::Hip { pci, position }
                }
            };
            gpus.push(Gpu {
                uuid: text(&device.uuid).to_ascii_lowercase(),
                vendor: text(&device.vendor),
                model,
                driver: text(&device.driver_version),
                index: u32::try_from(device.index).unwrap_or(at),
                numa_node: device.numa_node,
                memory_bytes: match backing {
                    // A software GPU has no more memory than its host.
                    Backing::Software { .. } => device.total_memory_bytes.min(limits::machine_memory()),
                    Backing::Hip { .. } | Backing::Cuda { .. } => device.total_memory_bytes,
                },
                compute_units: device.total_compute_units,
                tflops: if device.max_tflops.is_finite() { device.max_tflops.max(0.0) } else { 0.0 },
                backing,
            });
        }
        gpus.retain(|gpu| !gpu.uuid.is_empty());
        Ok(gpus)
    }

    /// Returns the metrics of several GPUs, in the order of `uuids`.
    pub(crate) fn health(&self, uuids: &[&str]) -> Result<Vec<Health>, String> {
        if uuids.is_empty() {
            return Ok(Vec::new());
        }
        let _one = self.calls.lock();
        let get = self.symbol::<GetDeviceMetrics>(c"AccelGetDeviceMetrics")?;
        let names: Vec<CString> = uuids.iter().filter_map(|uuid| CString::new(*uuid).ok()).collect();
        let pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut metrics: Vec<DeviceMetrics> = Vec::with_capacity(pointers.len());
        // SAFETY: as in `devices`.
        unsafe { std::ptr::write_bytes(metrics.as_mut_ptr(), 0, pointers.len()) };
        // SAFETY: both arrays have `pointers.len()` elements and outlive the call.
        let code = unsafe { get(pointers.as_ptr(), pointers.len(), metrics.as_mut_ptr()) };
        if code != 0 {
            return Err(format!("AccelGetDeviceMetrics failed with code {code}"));
        }
        // SAFETY: as in `devices`.
        unsafe { metrics.set_len(pointers.len()) };
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        let health = metrics.iter().map(|it| Health {
            power_watts: finite(it.power_watts),
            temperature_celsius: finite(it.temperature_celsius),
            rx_bytes: it.pcie_rx_bytes,
            tx_bytes: it.pcie_tx_bytes,
            utilization_percent: it.utilization_percent.min(100),
            memory_used_bytes: it.memory_used_bytes,
            extra: it.extra[..it.extra_count.min(MAX_EXTRA)]
                .iter()
                .filter(|extra| extra.value.is_finite())
                .map(|extra| (text(&extra.key), extra.value))
                .filter(|(key, _)| !key.is_empty())
                .collect(),
        });
        Ok(health.collect())
    }
}

/// Converts a C string to text, up to its terminator or the end of the buffer.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A provider library in C, with four GPUs, the last of which has an invalid name.
    const LIBRARY: &str = r#"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct { char key[64]; char value[256]; } Kv;
typedef struct { char uuid[64], vendor[32], model[128], driver[80], firmware[64], node[64]; int32_t index, numa;
  uint64_t memory, units; double tflops; uint32_t gen, width; Kv kv[64]; size_t count; char caps[16]; } Info;
typedef struct { char key[64]; double value; } Extra;
typedef struct { char uuid[64]; double power, temperature; uint64_t rx, tx; uint32_t use; uint64_t used; Extra extra[64]; size_t count; } Metrics;
static int ready;
int AccelInit(void) { ready = 1; return 0; }
int AccelGetAllDevices(Info *to, size_t most, size_t *count) {
  if (!ready || !to || most < 4) return 1;
  for (int i = 0; i < 4; i++) {
    snprintf(to[i].uuid, 64, "GPU-%d", i); strcpy(to[i].vendor, "Acme"); memset(to[i].model, 'X', 128);
    to[i].index = i; to[i].memory = 1ull << 35; to[i].units = 64; to[i].tflops = 100.5;
  }
  strcpy(to[0].kv[0].key, "pciAddress"); strcpy(to[0].kv[0].value, "0000:c1:00.0"); to[0].count = 1;
  strcpy(to[1].model, "AMD Instinct MI210"); strcpy(to[1].kv[0].key, "source"); strcpy(to[1].kv[0].value, "remora"); to[1].count = 1;
  strcpy(to[2].uuid, "gpu-FEED0000-01"); strcpy(to[2].vendor, "NVIDIA"); strcpy(to[2].model, "NVIDIA H200");
  strcpy(to[2].kv[0].key, "pciAddress"); strcpy(to[2].kv[0].value, "0000:18:00.0"); to[2].count = 1;
  strcpy(to[3].uuid, "GPU-1,GPU-2"); strcpy(to[3].vendor, "nvidia");
  *count = 4; return 0;
}
int AccelGetDeviceMetrics(const char **uuids, size_t n, Metrics *to) {
  for (size_t i = 0; i < n; i++) {
    snprintf(to[i].uuid, 64, "%s", uuids[i]); to[i].power = 300.5; to[i].temperature = 61; to[i].use = 250; to[i].used = 7;
    strcpy(to[i].extra[0].key, "graphics_clock_mhz"); to[i].extra[0].value = 2100; to[i].count = 1;
  }
  return 0;
}
"#;

    #[test]
    fn any_vendors_library_is_understood_and_a_missing_function_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let build = |name: &str, source: &str| {
            let (code, library) = (folder.path().join(format!("{name}.c")), folder.path().join(name));
            std::fs::write(&code, source).unwrap();
            let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).status();
            assert!(built.unwrap().success());
            library
        };
        let provider = Provider::load(&build("whole.so", LIBRARY)).unwrap();
        let gpus = provider.devices("mi210").unwrap();
        assert_eq!((gpus[0].uuid.as_str(), gpus[0].vendor.as_str()), ("gpu-0", "Acme"));
        assert_eq!((gpus[0].model.len(), gpus[0].memory_bytes, gpus[0].tflops), (128, 1 << 35, 100.5));
        let pci = Some("0000:c1:00.0".to_owned());
        assert_eq!(gpus[0].backing, Backing::Hip { pci, position: 0 });
        assert_eq!(gpus[1].backing, Backing::Software { model: "mi210".to_owned() });
        let nvidia = Backing::Cuda {
            uuid: "GPU-feed0000-01".to_owned(),
            pci: Some("0000:18:00.0".to_owned()),
            imitates: "mi210".to_owned(),
        };
        assert_eq!((gpus.len(), gpus[2].uuid.as_str()), (3, "gpu-feed0000-01"));
        assert_eq!((&gpus[2].backing, gpus[2].model.as_str()), (&nvidia, "NVIDIA H200"));
        let health = provider.health(&["gpu-0", "gpu-1"]).unwrap();
        assert_eq!((health.len(), health[1].power_watts, health[1].utilization_percent), (2, 300.5, 100));
        assert_eq!(health[0].extra, [("graphics_clock_mhz".to_owned(), 2100.0)]);
        let part = build("part.so", "int AccelInit(void) { return 0; }\n");
        let error = Provider::load(&part).unwrap_err();
        assert!(error.contains("AccelGetAllDevices"), "{error}");
        assert!(Provider::load(Path::new("/nowhere/lib.so")).is_err());
    }
}
