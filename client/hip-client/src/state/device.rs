//! The visible devices.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64};

use code_object::TargetId;
use hip_api::types::*;
use parking_lot::Mutex;
use wire::DeviceSnapshot;

use super::credit::Credit;
use super::memory::Ledger;
use crate::process::env;
use crate::telemetry::report;

/// A visible device, with everything that can be answered without a round trip.
#[derive(Debug)]
pub struct Device {
    /// Its number on the wire.
    pub ordinal: u32,
    pub target: TargetId,
    pub properties: Box<hipDeviceProp_tR0600>,
    pub snapshot: DeviceSnapshot,
    pub ledger: Ledger,
    pub settings: DeviceSettings,
    pub default_pool: AtomicU64,
    pub current_pool: AtomicU64,
    pub primary_context: AtomicU64,
    pub primary_context_users: AtomicU32,
    /// Credit of its null stream.
    pub credit: Credit,
}

/// What the program has set on a device.
#[derive(Debug)]
pub struct DeviceSettings {
    pub limits: Mutex<HashMap<u32, u64>>,
    pub flags: AtomicU32,
    pub cache_config: AtomicU32,
    /// Peers that access was enabled to.
    pub peers: Mutex<HashSet<usize>>,
}

impl Device {
    /// From what the worker said of it.
    pub fn new(snapshot: DeviceSnapshot) -> Result<Device, hipError_t> {
        let properties = hipDeviceProp_tR0600::from_bytes(&snapshot.properties.0).ok_or_else(|| {
            report::line(format_args!(
                "the worker's properties of device {} have {} bytes, expected {}: use client and worker of the same version",
                snapshot.ordinal,
                snapshot.properties.0.len(),
                size_of::<hipDeviceProp_tR0600>()
            ));
            hipErrorNoDevice
        })?;
        let snapshot = DeviceSnapshot { attributes: attributes(&snapshot), ..snapshot };
        let properties = across_a_network(properties);
        let target = snapshot.isa.parse::<TargetId>().map_err(|error| {
            report::line(format_args!("device {}: {error}", snapshot.ordinal));
            hipErrorNoDevice
        })?;
        Ok(Device {
            ordinal: snapshot.ordinal,
            target,
            properties: Box::new(properties),
            ledger: Ledger::new(snapshot.quota),
            settings: DeviceSettings {
                limits: Mutex::new(
                    snapshot.limits.iter().map(|(limit, value)| (*limit as u32, *value)).collect(),
                ),
                flags: AtomicU32::new(0),
                cache_config: AtomicU32::new(0),
                peers: Mutex::default(),
            },
            default_pool: AtomicU64::new(0),
            current_pool: AtomicU64::new(0),
            primary_context: AtomicU64::new(0),
            primary_context_users: AtomicU32::new(0),
            credit: Credit::default(),
            snapshot,
        })
    }
}

/// Device attributes for host memory, overridden because the device is behind a network: it sees only memory allocated
/// for it, and only at the synchronization points HIP defines.
const HOST_MEMORY: [(hipDeviceAttribute_t, fn() -> i32); 9] = [
    (hipDeviceAttributeCanMapHostMemory, || env::mapped().into()),
    (hipDeviceAttributeManagedMemory, || env::mapped().into()),
    (hipDeviceAttributeConcurrentManagedAccess, || 0),
    (hipDeviceAttributeDirectManagedMemAccessFromHost, || 0),
    (hipDeviceAttributePageableMemoryAccess, || 0),
    (hipDeviceAttributePageableMemoryAccessUsesHostPageTables, || 0),
    (hipDeviceAttributeHostNativeAtomicSupported, || 0),
    // The reverse direction: the program cannot access device memory.
    (hipDeviceAttributeIsLargeBar, || 0),
    // A stream would have to wait for host memory that the program writes without a call.
    (hipDeviceAttributeCanUseStreamWaitValue, || 0),
];

fn attributes(snapshot: &DeviceSnapshot) -> Vec<(i32, i32)> {
    let mut all = snapshot.attributes.clone();
    for (known, value) in &mut all {
        let fixed = HOST_MEMORY.iter().find(|(attribute, _)| attribute.0 as i32 == *known);
        if let Some((_, fixed)) = fixed {
            *value = fixed();
        }
    }
    all
}

fn across_a_network(mut properties: hipDeviceProp_tR0600) -> hipDeviceProp_tR0600 {
    properties.canMapHostMemory = env::mapped().into();
    properties.managedMemory = env::mapped().into();
    properties.concurrentManagedAccess = 0;
    properties.directManagedMemAccessFromHost = 0;
    properties.pageableMemoryAccess = 0;
    properties.pageableMemoryAccessUsesHostPageTables = 0;
    properties.hostNativeAtomicSupported = 0;
    properties.isLargeBar = 0;
    properties
}
