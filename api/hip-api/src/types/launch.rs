//! Kernel launches, function attributes, and linker options.

use core::ptr::without_provenance_mut;

use super::{c_char, c_int, c_uint, c_void, hipFunction_t, hipStream_t};
use crate::ctype::{Field, Layout, c_enums, c_flags, c_name, c_structs};

/// Precedes the argument buffer in the `extra` list of a module launch.
pub const HIP_LAUNCH_PARAM_BUFFER_POINTER: *mut c_void = without_provenance_mut(1);
/// Precedes the pointer to the size of the argument buffer.
pub const HIP_LAUNCH_PARAM_BUFFER_SIZE: *mut c_void = without_provenance_mut(2);
/// Ends the `extra` list.
pub const HIP_LAUNCH_PARAM_END: *mut c_void = without_provenance_mut(3);

c_flags! {
    hipOccupancyDefault = 0x00,
    hipOccupancyDisableCachingOverride = 0x01,
    hipCooperativeLaunchMultiDeviceNoPreSync = 0x01,
    hipCooperativeLaunchMultiDeviceNoPostSync = 0x02,
    hipExtAnyOrderLaunch = 0x01,
}

/// Value of a launch attribute.
#[repr(C)]
#[derive(Clone, Copy)]
pub union hipLaunchAttributeValue {
    pub pad: [c_char; 64],
    pub accessPolicyWindow: hipAccessPolicyWindow,
    pub cooperative: c_int,
    pub priority: c_int,
    pub syncPolicy: hipSynchronizationPolicy,
    pub memSyncDomainMap: hipLaunchMemSyncDomainMap,
    pub memSyncDomain: hipLaunchMemSyncDomain,
}

c_name!(hipLaunchAttributeValue);

impl core::fmt::Debug for hipLaunchAttributeValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("hipLaunchAttributeValue")
    }
}

/// Layout of [`hipLaunchAttributeValue`]; all members of a union are at offset 0.
pub(crate) const UNIONS: &[Layout] = &[Layout {
    name: "hipLaunchAttributeValue",
    size: size_of::<hipLaunchAttributeValue>(),
    align: align_of::<hipLaunchAttributeValue>(),
    fields: &[
        Field { name: "pad", offset: 0, size: 64 },
        Field { name: "accessPolicyWindow", offset: 0, size: size_of::<hipAccessPolicyWindow>() },
        Field { name: "cooperative", offset: 0, size: size_of::<c_int>() },
        Field { name: "priority", offset: 0, size: size_of::<c_int>() },
        Field { name: "syncPolicy", offset: 0, size: size_of::<hipSynchronizationPolicy>() },
        Field { name: "memSyncDomainMap", offset: 0, size: size_of::<hipLaunchMemSyncDomainMap>() },
        Field { name: "memSyncDomain", offset: 0, size: size_of::<hipLaunchMemSyncDomain>() },
    ],
}];

c_enums! {
    /// Attributes for hipFuncGetAttribute.
    hipFunction_attribute {
        HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
        HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
        HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
        HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
        HIP_FUNC_ATTRIBUTE_NUM_REGS = 4,
        HIP_FUNC_ATTRIBUTE_PTX_VERSION = 5,
        HIP_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
        HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
        HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
        HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
        HIP_FUNC_ATTRIBUTE_MAX = 10,
    }
    /// Attributes for hipFuncSetAttribute.
    hipFuncAttribute {
        hipFuncAttributeMaxDynamicSharedMemorySize = 8,
        hipFuncAttributePreferredSharedMemoryCarveout = 9,
        hipFuncAttributeMax = 10,
    }
    /// Selects the member of a launch attribute.
    hipLaunchAttributeID {
        hipLaunchAttributeAccessPolicyWindow = 1,
        hipLaunchAttributeCooperative = 2,
        hipLaunchAttributeSynchronizationPolicy = 3,
        hipLaunchAttributePriority = 8,
        hipLaunchAttributeMemSyncDomainMap = 9,
        hipLaunchAttributeMemSyncDomain = 10,
        hipLaunchAttributeMax = 11,
    }
    /// Cache behaviour of an access window.
    hipAccessProperty {
        hipAccessPropertyNormal = 0,
        hipAccessPropertyStreaming = 1,
        hipAccessPropertyPersisting = 2,
    }
    /// Memory synchronisation domains.
    hipLaunchMemSyncDomain {
        hipLaunchMemSyncDomainDefault = 0,
        hipLaunchMemSyncDomainRemote = 1,
    }
    /// How a host thread waits.
    hipSynchronizationPolicy {
        hipSyncPolicyAuto = 1,
        hipSyncPolicySpin = 2,
        hipSyncPolicyYield = 3,
        hipSyncPolicyBlockingSync = 4,
    }
    /// Options of the run-time linker and of hipModuleLoadDataEx.
    hipJitOption {
        hipJitOptionMaxRegisters = 0,
        hipJitOptionThreadsPerBlock = 1,
        hipJitOptionWallTime = 2,
        hipJitOptionInfoLogBuffer = 3,
        hipJitOptionInfoLogBufferSizeBytes = 4,
        hipJitOptionErrorLogBuffer = 5,
        hipJitOptionErrorLogBufferSizeBytes = 6,
        hipJitOptionOptimizationLevel = 7,
        hipJitOptionTargetFromContext = 8,
        hipJitOptionTarget = 9,
        hipJitOptionFallbackStrategy = 10,
        hipJitOptionGenerateDebugInfo = 11,
        hipJitOptionLogVerbose = 12,
        hipJitOptionGenerateLineInfo = 13,
        hipJitOptionCacheMode = 14,
        hipJitOptionSm3xOpt = 15,
        hipJitOptionFastCompile = 16,
        hipJitOptionGlobalSymbolNames = 17,
        hipJitOptionGlobalSymbolAddresses = 18,
        hipJitOptionGlobalSymbolCount = 19,
        hipJitOptionLto = 20,
        hipJitOptionFtz = 21,
        hipJitOptionPrecDiv = 22,
        hipJitOptionPrecSqrt = 23,
        hipJitOptionFma = 24,
        hipJitOptionPositionIndependentCode = 25,
        hipJitOptionMinCTAPerSM = 26,
        hipJitOptionMaxThreadsPerBlock = 27,
        hipJitOptionOverrideDirectiveValues = 28,
        hipJitOptionNumOptions = 29,
        hipJitOptionIRtoISAOptExt = 10000,
        hipJitOptionIRtoISAOptCountExt = 10001,
    }
    /// Kinds of linker input.
    hipJitInputType {
        hipJitInputCubin = 0,
        hipJitInputPtx = 1,
        hipJitInputFatBinary = 2,
        hipJitInputObject = 3,
        hipJitInputLibrary = 4,
        hipJitInputNvvm = 5,
        hipJitNumLegacyInputTypes = 6,
        hipJitInputLLVMBitcode = 100,
        hipJitInputLLVMBundledBitcode = 101,
        hipJitInputLLVMArchivesOfBundledBitcode = 102,
        hipJitInputSpirv = 103,
        hipJitNumInputTypes = 10,
    }
    /// Options of hipLibraryLoadData.
    hipLibraryOption {
        hipLibraryHostUniversalFunctionAndDataTable = 0,
        hipLibraryBinaryIsPreserved = 1,
    }
}

c_structs! {
    /// Number of blocks in a grid or of threads in a block. Unlike in C++, the default is zero, not one.
    #[derive(PartialEq, Eq, Hash)]
    dim3 {
        x: u32,
        y: u32,
        z: u32,
    }
    /// Three unsigned integers.
    uint3 {
        x: c_uint,
        y: c_uint,
        z: c_uint,
    }
    /// One launch of a cooperative multi-device launch.
    hipLaunchParams {
        func: *mut c_void,
        gridDim: dim3,
        blockDim: dim3,
        args: *mut *mut c_void,
        sharedMem: usize,
        stream: hipStream_t,
    }
    /// One launch of a cooperative multi-device launch, driver style.
    hipFunctionLaunchParams {
        function: hipFunction_t,
        gridDimX: c_uint,
        gridDimY: c_uint,
        gridDimZ: c_uint,
        blockDimX: c_uint,
        blockDimY: c_uint,
        blockDimZ: c_uint,
        sharedMemBytes: c_uint,
        hStream: hipStream_t,
        kernelParams: *mut *mut c_void,
    }
    /// Result of hipFuncGetAttributes.
    hipFuncAttributes {
        binaryVersion: c_int,
        cacheModeCA: c_int,
        constSizeBytes: usize,
        localSizeBytes: usize,
        maxDynamicSharedSizeBytes: c_int,
        maxThreadsPerBlock: c_int,
        numRegs: c_int,
        preferredShmemCarveout: c_int,
        ptxVersion: c_int,
        sharedSizeBytes: usize,
    }
    /// A memory range with a specific cache behaviour.
    hipAccessPolicyWindow {
        base_ptr: *mut c_void,
        hitProp: hipAccessProperty,
        hitRatio: f32,
        missProp: hipAccessProperty,
        num_bytes: usize,
    }
    /// Mapping of logical to physical synchronisation domains.
    hipLaunchMemSyncDomainMap {
        default_: u8,
        remote: u8,
    }
    /// One launch attribute; `id` selects the member of `val`.
    hipLaunchAttribute {
        id: hipLaunchAttributeID,
        pad: [c_char; 4],
        val: hipLaunchAttributeValue,
    }
    /// Launch configuration of hipLaunchKernelExC.
    hipLaunchConfig_t {
        gridDim: dim3,
        blockDim: dim3,
        dynamicSmemBytes: usize,
        stream: hipStream_t,
        attrs: *mut hipLaunchAttribute,
        numAttrs: c_uint,
    }
    /// Launch configuration of hipDrvLaunchKernelEx.
    HIP_LAUNCH_CONFIG {
        gridDimX: c_uint,
        gridDimY: c_uint,
        gridDimZ: c_uint,
        blockDimX: c_uint,
        blockDimY: c_uint,
        blockDimZ: c_uint,
        sharedMemBytes: c_uint,
        hStream: hipStream_t,
        attrs: *mut hipLaunchAttribute,
        numAttrs: c_uint,
    }
}

impl dim3 {
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        dim3 { x, y, z }
    }

    /// Product of the three components, or `None` on overflow.
    pub fn volume(self) -> Option<u64> {
        (self.x as u64 * self.y as u64).checked_mul(self.z as u64)
    }
}
