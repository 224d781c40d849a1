//! GPU models that can be emulated, with the properties and attributes they report.

use backend::DeviceInfo;
use hip_api::types::*;

/// One GPU model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Name used in options, such as `mi300x`.
    pub key: &'static str,
    /// Marketing name, as the vendor's driver reports it.
    pub name: &'static str,
    /// The processor without target features, such as `gfx942`.
    pub processor: &'static str,
    /// Size of its memory.
    pub memory_bytes: u64,
    /// Number of compute units.
    pub compute_units: u32,
    /// Number of compute dies (XCC), over which workgroups are distributed.
    pub xccs: u32,
    /// Highest clock of the compute units.
    pub clock_khz: u32,
    /// Highest clock of the memory.
    pub memory_clock_khz: u32,
    /// Width of the memory bus.
    pub memory_bus_bits: u32,
    /// Size of the L2 cache of one die.
    pub l2_bytes: u32,
    /// PCI device ID.
    pub pci_chip: u32,
    /// The GPU shares its memory with a CPU (APU).
    pub integrated: bool,
}

/// One row per model, in GiB, MHz and MiB. L2 is the size of one die, which is what HIP reports.
macro_rules! models {
    ($($key:literal $name:literal $processor:literal $gib:literal GiB $units:literal CUs $xccs:literal XCCs $clock:literal MHz
       $memory_clock:literal MHz $bus:literal bits $l2:literal MiB $chip:literal $integrated:literal)*) => {
        &[$(Model {
            key: $key,
            name: $name,
            processor: $processor,
            memory_bytes: $gib << 30,
            compute_units: $units,
            xccs: $xccs,
            clock_khz: $clock * 1000,
            memory_clock_khz: $memory_clock * 1000,
            memory_bus_bits: $bus,
            l2_bytes: $l2 << 20,
            pci_chip: $chip,
            integrated: $integrated,
        }),*]
    };
}

/// All models, the default first. A program sees each die of an MI250X as a separate device, so the row describes one of the two.
#[rustfmt::skip]
pub const MODELS: &[Model] = models! {
//   key      name                  processor memory   units   dies    clock    memory's bus       L2    PCI    shares the host's memory
    "mi300x" "AMD Instinct MI300X" "gfx942"  192 GiB  304 CUs 8 XCCs  2100 MHz 1300 MHz 8192 bits 4 MiB 0x74a1 false
    "mi300a" "AMD Instinct MI300A" "gfx942"  128 GiB  228 CUs 6 XCCs  2100 MHz 1300 MHz 8192 bits 4 MiB 0x74a0 true
    "mi325x" "AMD Instinct MI325X" "gfx942"  256 GiB  304 CUs 8 XCCs  2100 MHz 1500 MHz 8192 bits 4 MiB 0x74a5 false
    "mi210"  "AMD Instinct MI210"  "gfx90a"   64 GiB  104 CUs 1 XCCs  1700 MHz 1600 MHz 4096 bits 8 MiB 0x740f false
    "mi250x" "AMD Instinct MI250X" "gfx90a"   64 GiB  110 CUs 1 XCCs  1700 MHz 1600 MHz 4096 bits 8 MiB 0x7408 false
};

/// Stack size of a work-item in kernels with function calls, unless `hipLimitStackSize` was set.
pub const DEFAULT_STACK_BYTES: u64 = 1024;
const LDS_BYTES: i32 = 65536;
/// HIP 7.0, in the format of `hipRuntimeGetVersion`.
const RUNTIME_VERSION: i32 = 70_051_831;

impl Model {
    /// Finds a model by its key, ignoring case.
    pub fn find(key: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.key.eq_ignore_ascii_case(key))
    }

    /// The default model for a processor (`gfx90a`, `gfx942`).
    pub fn for_processor(processor: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.processor == processor)
    }

    /// The target ID with its features, in the format of `gcnArchName`.
    pub fn isa(&self) -> String {
        format!("{}:sramecc+:xnack-", self.processor)
    }

    /// Everything that HIP reports about device `ordinal` of this model with `memory` bytes, of which a session may use `quota`.
    pub fn describe(&self, ordinal: u32, memory: u64, quota: u64) -> DeviceInfo {
        let properties = self.properties(ordinal, memory);
        let attributes = self.attributes(&properties);
        DeviceInfo {
            name: self.name.to_owned(),
            isa: self.isa(),
            properties: Box::new(properties),
            attributes,
            limits: vec![
                (hipLimitStackSize.0 as i32, DEFAULT_STACK_BYTES),
                (hipLimitPrintfFifoSize.0 as i32, 1 << 20),
                (hipLimitMallocHeapSize.0 as i32, 8 << 20),
            ],
            total_memory: memory,
            quota,
            least_priority: 1,
            greatest_priority: -1,
            driver_version: RUNTIME_VERSION,
            runtime_version: RUNTIME_VERSION,
        }
    }

    fn capability(&self) -> (i32, i32) {
        if self.processor == "gfx90a" { (9, 0) } else { (9, 4) }
    }

    fn properties(&self, ordinal: u32, memory: u64) -> hipDeviceProp_tR0600 {
        let (major, minor) = self.capability();
        let mut it = hipDeviceProp_tR0600 {
            totalGlobalMem: memory as usize,
            sharedMemPerBlock: LDS_BYTES as usize,
            regsPerBlock: 65536,
            warpSize: 64,
            memPitch: 0x7fff_ffff,
            maxThreadsPerBlock: 1024,
            maxThreadsDim: [1024, 1024, 1024],
            maxGridSize: [0x7fff_ffff, 65536, 65536],
            clockRate: self.clock_khz as i32,
            totalConstMem: 0x7fff_ffff,
            major,
            minor,
            textureAlignment: 256,
            texturePitchAlignment: 256,
            deviceOverlap: 1,
            multiProcessorCount: self.compute_units as i32,
            integrated: self.integrated.into(),
            canMapHostMemory: 1,
            surfaceAlignment: 256,
            concurrentKernels: 1,
            ECCEnabled: 1,
            pciBusID: 0xc0 + ordinal as i32,
            asyncEngineCount: 2,
            unifiedAddressing: 1,
            memoryClockRate: self.memory_clock_khz as i32,
            memoryBusWidth: self.memory_bus_bits as i32,
            l2CacheSize: self.l2_bytes as i32,
            maxThreadsPerMultiProcessor: 2048,
            streamPrioritiesSupported: 1,
            globalL1CacheSupported: 1,
            localL1CacheSupported: 1,
            sharedMemPerMultiprocessor: LDS_BYTES as usize,
            regsPerMultiprocessor: 65536,
            managedMemory: 1,
            hostNativeAtomicSupported: 1,
            cooperativeLaunch: 1,
            sharedMemPerBlockOptin: LDS_BYTES as usize,
            maxBlocksPerMultiProcessor: 2,
            hostRegisterSupported: 1,
            memoryPoolsSupported: 1,
            persistingL2CacheMaxSize: self.l2_bytes as i32,
            maxSharedMemoryPerMultiProcessor: LDS_BYTES as usize,
            clockInstructionRate: 100_000,
            isLargeBar: 1,
            asicRevision: 1,
            ..Default::default()
        };
        write_text(&mut it.name, self.name);
        write_text(&mut it.gcnArchName, &self.isa());
        write_text(&mut it.uuid.bytes, &format!("{:04x}{:011x}", self.pci_chip, ordinal));
        it.arch = ARCH_FLAGS;
        it
    }

    fn attributes(&self, it: &hipDeviceProp_tR0600) -> Vec<(i32, i32)> {
        let clip = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
        let pairs = [
            (hipDeviceAttributeEccEnabled, it.ECCEnabled),
            (hipDeviceAttributeAccessPolicyMaxWindowSize, it.accessPolicyMaxWindowSize),
            (hipDeviceAttributeAsyncEngineCount, it.asyncEngineCount),
            (hipDeviceAttributeCanMapHostMemory, it.canMapHostMemory),
            (hipDeviceAttributeCanUseHostPointerForRegisteredMem, it.canUseHostPointerForRegisteredMem),
            (hipDeviceAttributeClockRate, it.clockRate),
            (hipDeviceAttributeComputeMode, it.computeMode),
            (hipDeviceAttributeComputePreemptionSupported, it.computePreemptionSupported),
            (hipDeviceAttributeConcurrentKernels, it.concurrentKernels),
            (hipDeviceAttributeConcurrentManagedAccess, it.concurrentManagedAccess),
            (hipDeviceAttributeCooperativeLaunch, it.cooperativeLaunch),
            (hipDeviceAttributeCooperativeMultiDeviceLaunch, it.cooperativeMultiDeviceLaunch),
            (hipDeviceAttributeDeviceOverlap, it.deviceOverlap),
            (hipDeviceAttributeDirectManagedMemAccessFromHost, it.directManagedMemAccessFromHost),
            (hipDeviceAttributeGlobalL1CacheSupported, it.globalL1CacheSupported),
            (hipDeviceAttributeHostNativeAtomicSupported, it.hostNativeAtomicSupported),
            (hipDeviceAttributeIntegrated, it.integrated),
            (hipDeviceAttributeIsMultiGpuBoard, it.isMultiGpuBoard),
            (hipDeviceAttributeKernelExecTimeout, it.kernelExecTimeoutEnabled),
            (hipDeviceAttributeL2CacheSize, it.l2CacheSize),
            (hipDeviceAttributeLocalL1CacheSupported, it.localL1CacheSupported),
            (hipDeviceAttributeLuidDeviceNodeMask, it.luidDeviceNodeMask as i32),
            (hipDeviceAttributeComputeCapabilityMajor, it.major),
            (hipDeviceAttributeManagedMemory, it.managedMemory),
            (hipDeviceAttributeMaxBlocksPerMultiProcessor, it.maxBlocksPerMultiProcessor),
            (hipDeviceAttributeMaxBlockDimX, it.maxThreadsDim[0]),
            (hipDeviceAttributeMaxBlockDimY, it.maxThreadsDim[1]),
            (hipDeviceAttributeMaxBlockDimZ, it.maxThreadsDim[2]),
            (hipDeviceAttributeMaxGridDimX, it.maxGridSize[0]),
            (hipDeviceAttributeMaxGridDimY, it.maxGridSize[1]),
            (hipDeviceAttributeMaxGridDimZ, it.maxGridSize[2]),
            (hipDeviceAttributeMaxThreadsDim, it.maxThreadsDim[0]),
            (hipDeviceAttributeMaxThreadsPerBlock, it.maxThreadsPerBlock),
            (hipDeviceAttributeMaxThreadsPerMultiProcessor, it.maxThreadsPerMultiProcessor),
            (hipDeviceAttributeMaxPitch, clip(it.memPitch)),
            (hipDeviceAttributeMemoryBusWidth, it.memoryBusWidth),
            (hipDeviceAttributeMemoryClockRate, it.memoryClockRate),
            (hipDeviceAttributeComputeCapabilityMinor, it.minor),
            (hipDeviceAttributeMultiGpuBoardGroupID, it.multiGpuBoardGroupID),
            (hipDeviceAttributeMultiprocessorCount, it.multiProcessorCount),
            (hipDeviceAttributePageableMemoryAccess, it.pageableMemoryAccess),
            (
                hipDeviceAttributePageableMemoryAccessUsesHostPageTables,
                it.pageableMemoryAccessUsesHostPageTables,
            ),
            (hipDeviceAttributePciBusId, it.pciBusID),
            (hipDeviceAttributePciDeviceId, it.pciDeviceID),
            (hipDeviceAttributePciDomainId, it.pciDomainID),
            (hipDeviceAttributePersistingL2CacheMaxSize, it.persistingL2CacheMaxSize),
            (hipDeviceAttributeMaxRegistersPerBlock, it.regsPerBlock),
            (hipDeviceAttributeMaxRegistersPerMultiprocessor, it.regsPerMultiprocessor),
            (hipDeviceAttributeReservedSharedMemPerBlock, clip(it.reservedSharedMemPerBlock)),
            (hipDeviceAttributeMaxSharedMemoryPerBlock, clip(it.sharedMemPerBlock)),
            (hipDeviceAttributeSharedMemPerBlockOptin, clip(it.sharedMemPerBlockOptin)),
            (hipDeviceAttributeSharedMemPerMultiprocessor, clip(it.sharedMemPerMultiprocessor)),
            (hipDeviceAttributeSingleToDoublePrecisionPerfRatio, it.singleToDoublePrecisionPerfRatio),
            (hipDeviceAttributeStreamPrioritiesSupported, it.streamPrioritiesSupported),
            (hipDeviceAttributeSurfaceAlignment, clip(it.surfaceAlignment)),
            (hipDeviceAttributeTccDriver, it.tccDriver),
            (hipDeviceAttributeTextureAlignment, clip(it.textureAlignment)),
            (hipDeviceAttributeTexturePitchAlignment, clip(it.texturePitchAlignment)),
            (hipDeviceAttributeTotalConstantMemory, clip(it.totalConstMem)),
            (hipDeviceAttributeTotalGlobalMem, clip(it.totalGlobalMem)),
            (hipDeviceAttributeUnifiedAddressing, it.unifiedAddressing),
            (hipDeviceAttributeWarpSize, it.warpSize),
            (hipDeviceAttributeMemoryPoolsSupported, it.memoryPoolsSupported),
            (hipDeviceAttributeVirtualMemoryManagementSupported, 1),
            (hipDeviceAttributeHostRegisterSupported, it.hostRegisterSupported),
            (hipDeviceAttributeMemoryPoolSupportedHandleTypes, it.memoryPoolSupportedHandleTypes as i32),
            (hipDeviceAttributeHostNumaId, 0),
            (hipDeviceAttributeClockInstructionRate, it.clockInstructionRate),
            (hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, clip(it.maxSharedMemoryPerMultiProcessor)),
            (hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc, 0),
            (hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim, 0),
            (hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim, 0),
            (hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem, 0),
            (hipDeviceAttributeIsLargeBar, it.isLargeBar),
            (hipDeviceAttributeAsicRevision, it.asicRevision),
            (hipDeviceAttributeCanUseStreamWaitValue, 0),
            (hipDeviceAttributeImageSupport, 0),
            (hipDeviceAttributePhysicalMultiProcessorCount, it.multiProcessorCount),
            (hipDeviceAttributeFineGrainSupport, 1),
            (hipDeviceAttributeWallClockRate, 100_000),
            (hipDeviceAttributeNumberOfXccs, self.xccs as i32),
            (hipDeviceAttributeMaxAvailableVgprsPerThread, 512),
            (hipDeviceAttributePciChipId, self.pci_chip as i32),
        ];
        pairs.into_iter().map(|(attribute, value)| (attribute.0 as i32, value)).collect()
    }
}

fn write_text<const N: usize>(field: &mut [c_char; N], text: &str) {
    for (to, from) in field[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

/// Feature bits in the order of the header: all atomics, doubles, warp vote and shuffle, system fences and 3-D grids; no
/// funnel shift, no extended barriers, no surfaces, no dynamic parallelism.
const ARCH_FLAGS: hipDeviceArch_t = hipDeviceArch_t(0x97ff);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_found_by_its_key_and_described_truthfully() {
        for model in MODELS {
            assert_eq!(Model::find(&model.key.to_uppercase()), Some(model));
            let info = model.describe(0, model.memory_bytes, model.memory_bytes);
            assert_eq!(info.properties.totalGlobalMem as u64, model.memory_bytes);
            assert_eq!(info.properties_bytes().len(), 1472, "the size of hipDeviceProp_tR0600");
            let name: Vec<u8> =
                info.properties.name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
            assert_eq!(name, model.name.as_bytes());
            let warp = info.attributes.iter().find(|(key, _)| *key == hipDeviceAttributeWarpSize.0 as i32);
            assert_eq!(warp, Some(&(hipDeviceAttributeWarpSize.0 as i32, 64)));
        }
        assert!(Model::find("mi999").is_none());
    }

    #[test]
    fn the_usual_model_of_a_processor_has_that_processor() {
        assert_eq!(Model::for_processor("gfx90a").map(|model| model.key), Some("mi210"));
        assert_eq!(Model::for_processor("gfx942").map(|model| model.key), Some("mi300x"));
    }

    #[test]
    fn no_attribute_is_listed_twice() {
        let info = MODELS[0].describe(0, 1, 1);
        let mut keys: Vec<i32> = info.attributes.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        let before = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), before);
    }
}
