//! What a program may ask about a GPU without running anything on it.

use hip_api::types::hipDeviceProp_tR0600;

/// A GPU, described once.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Name as the vendor prints it.
    pub name: String,
    /// Target with its features: `gfx942:sramecc+:xnack-`.
    pub isa: String,
    pub properties: Box<hipDeviceProp_tR0600>,
    /// `hipDeviceAttribute_t` and its value.
    pub attributes: Vec<(i32, i32)>,
    /// `hipLimit_t` and its initial value.
    pub limits: Vec<(i32, u64)>,
    /// Bytes of the device.
    pub total_memory: u64,
    /// Bytes a session may use of them.
    pub quota: u64,
    pub least_priority: i32,
    pub greatest_priority: i32,
    pub driver_version: i32,
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

// SAFETY: the raw pointers inside the properties are numbers of the device's, never followed here.
unsafe impl Send for DeviceInfo {}
// SAFETY: as above; the description is never changed once made.
unsafe impl Sync for DeviceInfo {}
