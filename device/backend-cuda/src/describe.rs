//! Description of an NVIDIA GPU as the AMD GPU that it imitates.
//!
//! What programs compile for (processor, wave size, LDS) is the model's; sizes, clocks and counts are the GPU's own.

use backend::DeviceInfo;
use backend_emulator::Model;
use hip_api::types::*;

use crate::gpu::Gpu;
use crate::types::attribute;

/// Everything that HIP reports about a GPU.
pub(crate) fn describe(gpu: &Gpu, model: &Model, ordinal: u32) -> DeviceInfo {
    let mut info = model.describe(ordinal, gpu.memory_bytes, gpu.memory_bytes);
    let it = &mut *info.properties;
    let own = |number| gpu.attribute(number);
    let bus = own(attribute::PCI_BUS);
    it.multiProcessorCount = gpu.multiprocessors as i32;
    it.clockRate = own(attribute::CLOCK_KHZ);
    it.memoryClockRate = own(attribute::MEMORY_CLOCK_KHZ);
    it.memoryBusWidth = own(attribute::MEMORY_BUS_BITS);
    it.l2CacheSize = own(attribute::L2_BYTES);
    it.ECCEnabled = own(attribute::ECC);
    it.integrated = own(attribute::INTEGRATED);
    it.asyncEngineCount = own(attribute::COPY_ENGINES);
    it.cooperativeLaunch = own(attribute::COOPERATIVE_LAUNCH);
    it.hostNativeAtomicSupported = 0;
    it.isLargeBar = 0;
    (it.pciDomainID, it.pciBusID, it.pciDeviceID) =
        (own(attribute::PCI_DOMAIN), bus, own(attribute::PCI_DEVICE));
    for (to, from) in it.uuid.bytes.iter_mut().zip(gpu.uuid) {
        *to = from as c_char;
    }
    let name = format!("{} as {}", gpu.name, model.processor);
    it.name.fill(0);
    let room = it.name.len() - 1;
    for (to, from) in it.name[..room].iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    let replaced = [
        (hipDeviceAttributeMultiprocessorCount, it.multiProcessorCount),
        (hipDeviceAttributePhysicalMultiProcessorCount, it.multiProcessorCount),
        (hipDeviceAttributeClockRate, it.clockRate),
        (hipDeviceAttributeMemoryClockRate, it.memoryClockRate),
        (hipDeviceAttributeMemoryBusWidth, it.memoryBusWidth),
        (hipDeviceAttributeL2CacheSize, it.l2CacheSize),
        (hipDeviceAttributeEccEnabled, it.ECCEnabled),
        (hipDeviceAttributeIntegrated, it.integrated),
        (hipDeviceAttributeAsyncEngineCount, it.asyncEngineCount),
        (hipDeviceAttributeCooperativeLaunch, it.cooperativeLaunch),
        (hipDeviceAttributeHostNativeAtomicSupported, 0),
        (hipDeviceAttributeIsLargeBar, 0),
        (hipDeviceAttributePciDomainId, it.pciDomainID),
        (hipDeviceAttributePciBusId, it.pciBusID),
        (hipDeviceAttributePciDeviceId, it.pciDeviceID),
        (hipDeviceAttributeNumberOfXccs, 1),
    ];
    for (attribute, value) in replaced {
        if let Some(pair) = info.attributes.iter_mut().find(|(key, _)| *key == attribute.0 as i32) {
            pair.1 = value;
        }
    }
    (info.least_priority, info.greatest_priority) = gpu.priorities;
    info.name = name;
    info
}
