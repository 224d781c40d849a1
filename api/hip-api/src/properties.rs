//! Derived device properties: the HIP 5 layout, attributes, and the wire encoding.
//!
//! HIP 5.2, 6 and 7 use the same attribute numbers, so these need no translation. HIP 5.2 has five more: the architecture number,
//! which is supported here, and four (name, uuid, features, architecture name) that do not fit into an `int`.

#![allow(non_upper_case_globals, reason = "constants are named as in HIP")]

use core::ffi::{c_char, c_int};

use crate::types::*;

impl From<&hipDeviceProp_tR0600> for hipDeviceProp_tR0000 {
    fn from(p: &hipDeviceProp_tR0600) -> hipDeviceProp_tR0000 {
        hipDeviceProp_tR0000 {
            name: p.name,
            totalGlobalMem: p.totalGlobalMem,
            sharedMemPerBlock: p.sharedMemPerBlock,
            regsPerBlock: p.regsPerBlock,
            warpSize: p.warpSize,
            maxThreadsPerBlock: p.maxThreadsPerBlock,
            maxThreadsDim: p.maxThreadsDim,
            maxGridSize: p.maxGridSize,
            clockRate: p.clockRate,
            memoryClockRate: p.memoryClockRate,
            memoryBusWidth: p.memoryBusWidth,
            totalConstMem: p.totalConstMem,
            major: p.major,
            minor: p.minor,
            multiProcessorCount: p.multiProcessorCount,
            l2CacheSize: p.l2CacheSize,
            maxThreadsPerMultiProcessor: p.maxThreadsPerMultiProcessor,
            computeMode: p.computeMode,
            clockInstructionRate: p.clockInstructionRate,
            arch: p.arch,
            concurrentKernels: p.concurrentKernels,
            pciDomainID: p.pciDomainID,
            pciBusID: p.pciBusID,
            pciDeviceID: p.pciDeviceID,
            maxSharedMemoryPerMultiProcessor: p.maxSharedMemoryPerMultiProcessor,
            isMultiGpuBoard: p.isMultiGpuBoard,
            canMapHostMemory: p.canMapHostMemory,
            gcnArch: gcn_arch(&p.gcnArchName),
            gcnArchName: p.gcnArchName,
            integrated: p.integrated,
            cooperativeLaunch: p.cooperativeLaunch,
            cooperativeMultiDeviceLaunch: p.cooperativeMultiDeviceLaunch,
            maxTexture1DLinear: p.maxTexture1DLinear,
            maxTexture1D: p.maxTexture1D,
            maxTexture2D: p.maxTexture2D,
            maxTexture3D: p.maxTexture3D,
            hdpMemFlushCntl: p.hdpMemFlushCntl,
            hdpRegFlushCntl: p.hdpRegFlushCntl,
            memPitch: p.memPitch,
            textureAlignment: p.textureAlignment,
            texturePitchAlignment: p.texturePitchAlignment,
            kernelExecTimeoutEnabled: p.kernelExecTimeoutEnabled,
            ECCEnabled: p.ECCEnabled,
            tccDriver: p.tccDriver,
            cooperativeMultiDeviceUnmatchedFunc: p.cooperativeMultiDeviceUnmatchedFunc,
            cooperativeMultiDeviceUnmatchedGridDim: p.cooperativeMultiDeviceUnmatchedGridDim,
            cooperativeMultiDeviceUnmatchedBlockDim: p.cooperativeMultiDeviceUnmatchedBlockDim,
            cooperativeMultiDeviceUnmatchedSharedMem: p.cooperativeMultiDeviceUnmatchedSharedMem,
            isLargeBar: p.isLargeBar,
            asicRevision: p.asicRevision,
            managedMemory: p.managedMemory,
            directManagedMemAccessFromHost: p.directManagedMemAccessFromHost,
            concurrentManagedAccess: p.concurrentManagedAccess,
            pageableMemoryAccess: p.pageableMemoryAccess,
            pageableMemoryAccessUsesHostPageTables: p.pageableMemoryAccessUsesHostPageTables,
        }
    }
}

impl hipDeviceProp_tR0600 {
    /// The struct as bytes for the wire, with padding zeroed. The two register addresses are invalid in another process and are
    /// sent as zero.
    pub fn to_bytes(&self) -> Vec<u8> {
        let clean = hipDeviceProp_tR0600 {
            hdpMemFlushCntl: core::ptr::null_mut(),
            hdpRegFlushCntl: core::ptr::null_mut(),
            ..*self
        };
        let mut bytes = vec![0; size_of::<Self>()];
        let base = (&raw const clean).cast::<u8>();
        let layout = crate::types::layouts().find(|layout| layout.name == "hipDeviceProp_tR0600");
        for field in layout.map_or(&[][..], |layout| layout.fields) {
            // SAFETY: the field is inside `clean`, and no field of this struct contains padding.
            let field_bytes = unsafe { core::slice::from_raw_parts(base.add(field.offset), field.size) };
            bytes[field.offset..][..field.size].copy_from_slice(field_bytes);
        }
        bytes
    }

    /// Decodes the output of [`to_bytes`](Self::to_bytes), or returns `None` if the length is wrong. Names are truncated so that
    /// they end with a nul; addresses are set to null and never taken from the input.
    pub fn from_bytes(bytes: &[u8]) -> Option<hipDeviceProp_tR0600> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: the length was checked, the read needs no alignment, and every bit pattern is valid for every field.
        let mut properties = unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() };
        properties.hdpMemFlushCntl = core::ptr::null_mut();
        properties.hdpRegFlushCntl = core::ptr::null_mut();
        properties.name[255] = 0;
        properties.gcnArchName[255] = 0;
        Some(properties)
    }
}

/// Copies a text into a name field of a properties struct, truncated to leave room for the nul.
pub fn set_name<const N: usize>(field: &mut [c_char; N], text: &str) {
    *field = [0; N];
    for (to, from) in
        field.iter_mut().take(N.saturating_sub(1)).zip(text.bytes().take_while(|byte| *byte != 0))
    {
        *to = from as c_char;
    }
}

/// Returns the text of a name field.
pub fn name<const N: usize>(field: &[c_char; N]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Architecture number of HIP 5: `gfx90a:sramecc+` is 910, `gfx942` is 942. Zero if the name is not an architecture.
fn gcn_arch<const N: usize>(field: &[c_char; N]) -> c_int {
    let name = name(field);
    let target = name.split(':').next().and_then(|target| target.strip_prefix("gfx")).unwrap_or("");
    let mut digits = target.chars().rev().map(|digit| digit.to_digit(16));
    let (Some(Some(stepping)), Some(Some(minor))) = (digits.next(), digits.next()) else { return 0 };
    let Ok(major) = target[..target.len() - 2].parse::<u16>() else { return 0 };
    c_int::from(major) * 100 + (minor * 10 + stepping) as c_int
}

/// Value that hipDeviceGetAttribute returns for a device with these properties. Sizes beyond the range of an `int` saturate.
///
/// `None` for attributes that do not follow from properties: register addresses, LUIDs, and unknown attributes.
pub fn attribute(p: &hipDeviceProp_tR0600, attribute: hipDeviceAttribute_t) -> Option<c_int> {
    let size = |bytes: usize| c_int::try_from(bytes).unwrap_or(c_int::MAX);
    Some(match attribute {
        hipDeviceAttributeEccEnabled => p.ECCEnabled,
        hipDeviceAttributeAccessPolicyMaxWindowSize => p.accessPolicyMaxWindowSize,
        hipDeviceAttributeAsyncEngineCount => p.asyncEngineCount,
        hipDeviceAttributeCanMapHostMemory => p.canMapHostMemory,
        hipDeviceAttributeCanUseHostPointerForRegisteredMem => p.canUseHostPointerForRegisteredMem,
        hipDeviceAttributeClockRate => p.clockRate,
        hipDeviceAttributeComputeMode => p.computeMode,
        hipDeviceAttributeComputePreemptionSupported => p.computePreemptionSupported,
        hipDeviceAttributeConcurrentKernels => p.concurrentKernels,
        hipDeviceAttributeConcurrentManagedAccess => p.concurrentManagedAccess,
        hipDeviceAttributeCooperativeLaunch => p.cooperativeLaunch,
        hipDeviceAttributeCooperativeMultiDeviceLaunch => p.cooperativeMultiDeviceLaunch,
        hipDeviceAttributeDeviceOverlap => p.deviceOverlap,
        hipDeviceAttributeDirectManagedMemAccessFromHost => p.directManagedMemAccessFromHost,
        hipDeviceAttributeGlobalL1CacheSupported => p.globalL1CacheSupported,
        hipDeviceAttributeHostNativeAtomicSupported => p.hostNativeAtomicSupported,
        hipDeviceAttributeIntegrated => p.integrated,
        hipDeviceAttributeIsMultiGpuBoard => p.isMultiGpuBoard,
        hipDeviceAttributeKernelExecTimeout => p.kernelExecTimeoutEnabled,
        hipDeviceAttributeL2CacheSize => p.l2CacheSize,
        hipDeviceAttributeLocalL1CacheSupported => p.localL1CacheSupported,
        hipDeviceAttributeLuidDeviceNodeMask => p.luidDeviceNodeMask as c_int,
        hipDeviceAttributeComputeCapabilityMajor => p.major,
        hipDeviceAttributeComputeCapabilityMinor => p.minor,
        hipDeviceAttributeManagedMemory => p.managedMemory,
        hipDeviceAttributeMaxBlocksPerMultiProcessor => p.maxBlocksPerMultiProcessor,
        hipDeviceAttributeMaxBlockDimX | hipDeviceAttributeMaxThreadsDim => p.maxThreadsDim[0],
        hipDeviceAttributeMaxBlockDimY => p.maxThreadsDim[1],
        hipDeviceAttributeMaxBlockDimZ => p.maxThreadsDim[2],
        hipDeviceAttributeMaxGridDimX => p.maxGridSize[0],
        hipDeviceAttributeMaxGridDimY => p.maxGridSize[1],
        hipDeviceAttributeMaxGridDimZ => p.maxGridSize[2],
        hipDeviceAttributeMaxSurface1D => p.maxSurface1D,
        hipDeviceAttributeMaxSurface1DLayered => p.maxSurface1DLayered[0],
        hipDeviceAttributeMaxSurface2D => p.maxSurface2D[0],
        hipDeviceAttributeMaxSurface2DLayered => p.maxSurface2DLayered[0],
        hipDeviceAttributeMaxSurface3D => p.maxSurface3D[0],
        hipDeviceAttributeMaxSurfaceCubemap => p.maxSurfaceCubemap,
        hipDeviceAttributeMaxSurfaceCubemapLayered => p.maxSurfaceCubemapLayered[0],
        hipDeviceAttributeMaxTexture1DWidth => p.maxTexture1D,
        hipDeviceAttributeMaxTexture1DLayered => p.maxTexture1DLayered[0],
        hipDeviceAttributeMaxTexture1DLinear => p.maxTexture1DLinear,
        hipDeviceAttributeMaxTexture1DMipmap => p.maxTexture1DMipmap,
        hipDeviceAttributeMaxTexture2DWidth => p.maxTexture2D[0],
        hipDeviceAttributeMaxTexture2DHeight => p.maxTexture2D[1],
        hipDeviceAttributeMaxTexture2DGather => p.maxTexture2DGather[0],
        hipDeviceAttributeMaxTexture2DLayered => p.maxTexture2DLayered[0],
        hipDeviceAttributeMaxTexture2DLinear => p.maxTexture2DLinear[0],
        hipDeviceAttributeMaxTexture2DMipmap => p.maxTexture2DMipmap[0],
        hipDeviceAttributeMaxTexture3DWidth => p.maxTexture3D[0],
        hipDeviceAttributeMaxTexture3DHeight => p.maxTexture3D[1],
        hipDeviceAttributeMaxTexture3DDepth => p.maxTexture3D[2],
        hipDeviceAttributeMaxTexture3DAlt => p.maxTexture3DAlt[0],
        hipDeviceAttributeMaxTextureCubemap => p.maxTextureCubemap,
        hipDeviceAttributeMaxTextureCubemapLayered => p.maxTextureCubemapLayered[0],
        hipDeviceAttributeMaxThreadsPerBlock => p.maxThreadsPerBlock,
        hipDeviceAttributeMaxThreadsPerMultiProcessor => p.maxThreadsPerMultiProcessor,
        hipDeviceAttributeMaxPitch => size(p.memPitch),
        hipDeviceAttributeMemoryBusWidth => p.memoryBusWidth,
        hipDeviceAttributeMemoryClockRate => p.memoryClockRate,
        hipDeviceAttributeMultiGpuBoardGroupID => p.multiGpuBoardGroupID,
        hipDeviceAttributeMultiprocessorCount | hipDeviceAttributePhysicalMultiProcessorCount => {
            p.multiProcessorCount
        }
        hipDeviceAttributePageableMemoryAccess => p.pageableMemoryAccess,
        hipDeviceAttributePageableMemoryAccessUsesHostPageTables => p.pageableMemoryAccessUsesHostPageTables,
        hipDeviceAttributePciBusId => p.pciBusID,
        hipDeviceAttributePciDeviceId => p.pciDeviceID,
        hipDeviceAttributePciDomainId => p.pciDomainID,
        hipDeviceAttributePersistingL2CacheMaxSize => p.persistingL2CacheMaxSize,
        hipDeviceAttributeMaxRegistersPerBlock => p.regsPerBlock,
        hipDeviceAttributeMaxRegistersPerMultiprocessor => p.regsPerMultiprocessor,
        hipDeviceAttributeReservedSharedMemPerBlock => size(p.reservedSharedMemPerBlock),
        hipDeviceAttributeMaxSharedMemoryPerBlock => size(p.sharedMemPerBlock),
        hipDeviceAttributeSharedMemPerBlockOptin => size(p.sharedMemPerBlockOptin),
        hipDeviceAttributeSharedMemPerMultiprocessor => size(p.sharedMemPerMultiprocessor),
        hipDeviceAttributeSingleToDoublePrecisionPerfRatio => p.singleToDoublePrecisionPerfRatio,
        hipDeviceAttributeStreamPrioritiesSupported => p.streamPrioritiesSupported,
        hipDeviceAttributeSurfaceAlignment => size(p.surfaceAlignment),
        hipDeviceAttributeTccDriver => p.tccDriver,
        hipDeviceAttributeTextureAlignment => size(p.textureAlignment),
        hipDeviceAttributeTexturePitchAlignment => size(p.texturePitchAlignment),
        hipDeviceAttributeTotalConstantMemory => size(p.totalConstMem),
        hipDeviceAttributeTotalGlobalMem => size(p.totalGlobalMem),
        hipDeviceAttributeUnifiedAddressing => p.unifiedAddressing,
        hipDeviceAttributeWarpSize => p.warpSize,
        hipDeviceAttributeMemoryPoolsSupported => p.memoryPoolsSupported,
        hipDeviceAttributeHostRegisterSupported => p.hostRegisterSupported,
        hipDeviceAttributeMemoryPoolSupportedHandleTypes => p.memoryPoolSupportedHandleTypes as c_int,
        hipDeviceAttributeClockInstructionRate => p.clockInstructionRate,
        // Named hipDeviceAttributeGcnArch in HIP 5.
        hipDeviceAttributeUnused4 => gcn_arch(&p.gcnArchName),
        hipDeviceAttributeMaxSharedMemoryPerMultiprocessor => size(p.maxSharedMemoryPerMultiProcessor),
        hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc => p.cooperativeMultiDeviceUnmatchedFunc,
        hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim => p.cooperativeMultiDeviceUnmatchedGridDim,
        hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim => {
            p.cooperativeMultiDeviceUnmatchedBlockDim
        }
        hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem => {
            p.cooperativeMultiDeviceUnmatchedSharedMem
        }
        hipDeviceAttributeIsLargeBar => p.isLargeBar,
        hipDeviceAttributeAsicRevision => p.asicRevision,
        // Such a wait is for memory that the program writes without an API call, and the device is on another machine.
        hipDeviceAttributeCanUseStreamWaitValue => 0,
        hipDeviceAttributeVirtualMemoryManagementSupported => 1,
        // Image support follows from a texture limit; the host's NUMA node is unknown.
        hipDeviceAttributeImageSupport => c_int::from(p.maxTexture1D > 0),
        hipDeviceAttributeHostNumaId => -1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> hipDeviceProp_tR0600 {
        let mut properties = hipDeviceProp_tR0600 {
            totalGlobalMem: 192 << 30,
            warpSize: 64,
            multiProcessorCount: 304,
            maxThreadsDim: [1024, 512, 64],
            hdpMemFlushCntl: core::ptr::without_provenance_mut(0x1000),
            ..Default::default()
        };
        set_name(&mut properties.name, "AMD Instinct MI300X");
        set_name(&mut properties.gcnArchName, "gfx942:sramecc+:xnack-");
        properties
    }

    #[test]
    fn the_old_layout_carries_the_same_answers() {
        let old = hipDeviceProp_tR0000::from(&sample());
        assert_eq!(name(&old.name), "AMD Instinct MI300X");
        assert_eq!(name(&old.gcnArchName), "gfx942:sramecc+:xnack-");
        assert_eq!((old.warpSize, old.multiProcessorCount, old.gcnArch), (64, 304, 942));
    }

    #[test]
    fn architectures_have_the_numbers_of_hip_5() {
        for (text, number) in [
            ("gfx90a:xnack-", 910),
            ("gfx942", 942),
            ("gfx1030", 1030),
            ("gfx908", 908),
            ("", 0),
            ("gfx", 0),
            ("cpu", 0),
        ] {
            let mut field = [0; 256];
            set_name(&mut field, text);
            assert_eq!(gcn_arch(&field), number, "{text}");
        }
    }

    #[test]
    fn attributes_come_from_properties_and_saturate() {
        let properties = sample();
        assert_eq!(attribute(&properties, hipDeviceAttributeWarpSize), Some(64));
        assert_eq!(attribute(&properties, hipDeviceAttributeMaxBlockDimY), Some(512));
        assert_eq!(attribute(&properties, hipDeviceAttributeTotalGlobalMem), Some(c_int::MAX));
        assert_eq!(attribute(&properties, hipDeviceAttribute_t(4321)), None);
    }

    #[test]
    fn the_header_attributes_without_an_answer_are_these() {
        let silent: Vec<&str> = hipDeviceAttribute_t::CONSTANTS
            .iter()
            .filter(|(_, value)| attribute(&sample(), hipDeviceAttribute_t(*value)).is_none())
            .map(|(name, _)| name.trim_start_matches("hipDeviceAttribute"))
            .collect();
        let expected = "Luid Unused1 Unused2 CudaCompatibleEnd Unused3 Unused5 HdpMemFlushCntl HdpRegFlushCntl \
                        FineGrainSupport WallClockRate NumberOfXccs MaxAvailableVgprsPerThread PciChipId \
                        AmdSpecificEnd VendorSpecificBegin";
        assert_eq!(silent.join(" "), expected);
    }

    #[test]
    fn properties_survive_the_wire_without_their_addresses() {
        let bytes = sample().to_bytes();
        assert_eq!(bytes.len(), size_of::<hipDeviceProp_tR0600>());
        let back = hipDeviceProp_tR0600::from_bytes(&bytes).expect("the length is right");
        assert_eq!(back.to_bytes(), bytes);
        assert_eq!(back.totalGlobalMem, 192 << 30);
        assert!(back.hdpMemFlushCntl.is_null());
    }

    #[test]
    fn hostile_bytes_are_refused_or_tamed() {
        assert!(hipDeviceProp_tR0600::from_bytes(&[0xff; 8]).is_none());
        let bytes = vec![0xff; size_of::<hipDeviceProp_tR0600>()];
        let properties = hipDeviceProp_tR0600::from_bytes(&bytes).expect("the length is right");
        assert!(properties.hdpRegFlushCntl.is_null());
        assert_eq!(name(&properties.gcnArchName).chars().count(), 255);
        assert_eq!(gcn_arch(&properties.gcnArchName), 0);
    }
}
