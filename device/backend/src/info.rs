//! Static description of a GPU: properties, attributes and limits that a program can query without running anything on it.

use hip_api::types::hipDeviceProp_tR0600;

/// Description of one GPU.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Marketing name, as the vendor's runtime returns it.
    pub name: String,
    /// Target ID with its features, such as `gfx942:sramecc+:xnack-`.
    pub isa: String,
    /// Properties, as `hipGetDeviceProperties` returns them.
    pub properties: Box<hipDeviceProp_tR0600>,
    /// Pairs of `hipDeviceAttribute_t` and value.
    pub attributes: Vec<(i32, i32)>,
    /// Pairs of `hipLimit_t` and initial value.
    pub limits: Vec<(i32, u64)>,
    /// Bytes of memory that the device has.
    pub total_memory: u64,
    /// Bytes of it that a session may use.
    pub quota: u64,
    /// Number of the lowest stream priority.
    pub least_priority: i32,
    /// Number of the highest stream priority; smaller than that of the lowest.
    pub greatest_priority: i32,
    /// Version that `hipDriverGetVersion` returns.
    pub driver_version: i32,
    /// Version that `hipRuntimeGetVersion` returns.
    pub runtime_version: i32,
}

impl DeviceInfo {
    /// The properties as the C struct's bytes.
    pub fn properties_bytes(&self) -> &[u8] {
        let size = size_of::<hipDeviceProp_tR0600>();
        // SAFETY: the struct is plain data owned by the box; its padding was zeroed by `Default` and never rewritten as a
        // whole, and bytes read from padding are not interpreted.
        unsafe { std::slice::from_raw_parts((&raw const *self.properties).cast::<u8>(), size) }
    }
}

// SAFETY: the raw pointers inside the properties are opaque values of the device and are never dereferenced here.
unsafe impl Send for DeviceInfo {}
// SAFETY: as above; the description is immutable after construction.
unsafe impl Sync for DeviceInfo {}
