//! Copies, pointers, locations, pools and handles shared between processes.

use super::{c_char, c_int, c_uint, c_void, hipArray_t};
use crate::ctype::{c_enums, c_flags, c_structs};

/// A device address of the driver-style API.
pub type hipDeviceptr_t = *mut c_void;

c_flags! {
    hipHostMallocDefault = 0x0,
    hipHostMallocPortable = 0x1,
    hipHostMallocMapped = 0x2,
    hipHostMallocWriteCombined = 0x4,
    hipHostMallocUncached = 0x10000000,
    hipHostMallocNumaUser = 0x20000000,
    hipHostMallocCoherent = 0x40000000,
    hipHostMallocNonCoherent = 0x80000000,
    hipMemAttachGlobal = 0x01,
    hipMemAttachHost = 0x02,
    hipMemAttachSingle = 0x04,
    hipDeviceMallocDefault = 0x0,
    hipDeviceMallocFinegrained = 0x1,
    hipMallocSignalMemory = 0x2,
    hipDeviceMallocUncached = 0x3,
    hipDeviceMallocContiguous = 0x4,
    hipHostRegisterDefault = 0x0,
    hipHostRegisterPortable = 0x1,
    hipHostRegisterMapped = 0x2,
    hipHostRegisterIoMemory = 0x4,
    hipHostRegisterReadOnly = 0x08,
    hipExtHostRegisterCoarseGrained = 0x8,
    hipExtHostRegisterUncached = 0x80000000,
    hipIpcMemLazyEnablePeerAccess = 0x01,
}

c_enums! {
    /// Type of memory, numbered as in HIP 6 and 7; HIP 5 uses other numbers.
    hipMemoryType {
        hipMemoryTypeUnregistered = 0,
        hipMemoryTypeHost = 1,
        hipMemoryTypeDevice = 2,
        hipMemoryTypeManaged = 3,
        hipMemoryTypeArray = 10,
        hipMemoryTypeUnified = 11,
    }
    /// Direction of a copy.
    hipMemcpyKind {
        hipMemcpyHostToHost = 0,
        hipMemcpyHostToDevice = 1,
        hipMemcpyDeviceToHost = 2,
        hipMemcpyDeviceToDevice = 3,
        hipMemcpyDefault = 4,
        hipMemcpyDeviceToDeviceNoCU = 1024,
    }
    /// Attributes for hipPointerGetAttribute.
    hipPointer_attribute {
        HIP_POINTER_ATTRIBUTE_CONTEXT = 1,
        HIP_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
        HIP_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
        HIP_POINTER_ATTRIBUTE_HOST_POINTER = 4,
        HIP_POINTER_ATTRIBUTE_P2P_TOKENS = 5,
        HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
        HIP_POINTER_ATTRIBUTE_BUFFER_ID = 7,
        HIP_POINTER_ATTRIBUTE_IS_MANAGED = 8,
        HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
        HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE = 10,
        HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
        HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
        HIP_POINTER_ATTRIBUTE_MAPPED = 13,
        HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
        HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
        HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
        HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
    }
    /// Hints for managed memory.
    hipMemoryAdvise {
        hipMemAdviseSetReadMostly = 1,
        hipMemAdviseUnsetReadMostly = 2,
        hipMemAdviseSetPreferredLocation = 3,
        hipMemAdviseUnsetPreferredLocation = 4,
        hipMemAdviseSetAccessedBy = 5,
        hipMemAdviseUnsetAccessedBy = 6,
        hipMemAdviseSetCoarseGrain = 100,
        hipMemAdviseUnsetCoarseGrain = 101,
    }
    /// Attributes for hipMemRangeGetAttribute.
    hipMemRangeAttribute {
        hipMemRangeAttributeReadMostly = 1,
        hipMemRangeAttributePreferredLocation = 2,
        hipMemRangeAttributeAccessedBy = 3,
        hipMemRangeAttributeLastPrefetchLocation = 4,
        hipMemRangeAttributeCoherencyMode = 100,
    }
    /// Attributes of a memory pool.
    hipMemPoolAttr {
        hipMemPoolReuseFollowEventDependencies = 1,
        hipMemPoolReuseAllowOpportunistic = 2,
        hipMemPoolReuseAllowInternalDependencies = 3,
        hipMemPoolAttrReleaseThreshold = 4,
        hipMemPoolAttrReservedMemCurrent = 5,
        hipMemPoolAttrReservedMemHigh = 6,
        hipMemPoolAttrUsedMemCurrent = 7,
        hipMemPoolAttrUsedMemHigh = 8,
    }
    /// Access that a location has.
    hipMemAccessFlags {
        hipMemAccessFlagsProtNone = 0,
        hipMemAccessFlagsProtRead = 1,
        hipMemAccessFlagsProtReadWrite = 3,
    }
    /// Kinds of allocation.
    hipMemAllocationType {
        hipMemAllocationTypeInvalid = 0,
        hipMemAllocationTypePinned = 1,
        hipMemAllocationTypeUncached = 0x40000000,
        hipMemAllocationTypeMax = 0x7fffffff,
    }
    /// Kinds of shareable handle.
    hipMemAllocationHandleType {
        hipMemHandleTypeNone = 0,
        hipMemHandleTypePosixFileDescriptor = 1,
        hipMemHandleTypeWin32 = 2,
        hipMemHandleTypeWin32Kmt = 4,
    }
    /// Kinds of memory location.
    hipMemLocationType {
        hipMemLocationTypeInvalid = 0,
        hipMemLocationTypeNone = 0,
        hipMemLocationTypeDevice = 1,
        hipMemLocationTypeHost = 2,
        hipMemLocationTypeHostNuma = 3,
        hipMemLocationTypeHostNumaCurrent = 4,
    }
    /// Kind of an operand of a batched 3D copy.
    hipMemcpy3DOperandType {
        hipMemcpyOperandTypePointer = 1,
        hipMemcpyOperandTypeArray = 2,
        hipMemcpyOperandTypeMax = 0x7fffffff,
    }
    /// When a batched copy may read its source.
    hipMemcpySrcAccessOrder {
        hipMemcpySrcAccessOrderInvalid = 0,
        hipMemcpySrcAccessOrderStream = 1,
        hipMemcpySrcAccessOrderDuringApiCall = 2,
        hipMemcpySrcAccessOrderAny = 3,
        hipMemcpySrcAccessOrderMax = 0x7fffffff,
    }
    /// Kinds of allocation granularity.
    hipMemAllocationGranularity_flags {
        hipMemAllocationGranularityMinimum = 0,
        hipMemAllocationGranularityRecommended = 1,
    }
    /// Kinds of address-range handle.
    hipMemRangeHandleType {
        hipMemRangeHandleTypeDmaBufFd = 1,
        hipMemRangeHandleTypeMax = 0x7fffffff,
    }
}

c_structs! {
    /// Result of hipPointerGetAttributes. HIP 5 calls `type` `memoryType` and uses other numbers.
    hipPointerAttribute_t {
        r#type: hipMemoryType,
        device: c_int,
        devicePointer: *mut c_void,
        hostPointer: *mut c_void,
        isManaged: c_int,
        allocationFlags: c_uint,
    }
    /// Extent of a 3D box; the width is in bytes for linear memory, in elements for arrays.
    hipExtent {
        width: usize,
        height: usize,
        depth: usize,
    }
    /// A position in a box.
    hipPos {
        x: usize,
        y: usize,
        z: usize,
    }
    /// A pointer with its pitch.
    hipPitchedPtr {
        ptr: *mut c_void,
        pitch: usize,
        xsize: usize,
        ysize: usize,
    }
    /// A pitched copy of the driver-style API.
    hip_Memcpy2D {
        srcXInBytes: usize,
        srcY: usize,
        srcMemoryType: hipMemoryType,
        srcHost: *const c_void,
        srcDevice: hipDeviceptr_t,
        srcArray: hipArray_t,
        srcPitch: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstMemoryType: hipMemoryType,
        dstHost: *mut c_void,
        dstDevice: hipDeviceptr_t,
        dstArray: hipArray_t,
        dstPitch: usize,
        WidthInBytes: usize,
        Height: usize,
    }
    /// A 3D copy.
    hipMemcpy3DParms {
        srcArray: hipArray_t,
        srcPos: hipPos,
        srcPtr: hipPitchedPtr,
        dstArray: hipArray_t,
        dstPos: hipPos,
        dstPtr: hipPitchedPtr,
        extent: hipExtent,
        kind: hipMemcpyKind,
    }
    /// A 3D copy of the driver-style API. The sizes are 32-bit in HIP 5.
    HIP_MEMCPY3D {
        srcXInBytes: usize,
        srcY: usize,
        srcZ: usize,
        srcLOD: usize,
        srcMemoryType: hipMemoryType,
        srcHost: *const c_void,
        srcDevice: hipDeviceptr_t,
        srcArray: hipArray_t,
        srcPitch: usize,
        srcHeight: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstZ: usize,
        dstLOD: usize,
        dstMemoryType: hipMemoryType,
        dstHost: *mut c_void,
        dstDevice: hipDeviceptr_t,
        dstArray: hipArray_t,
        dstPitch: usize,
        dstHeight: usize,
        WidthInBytes: usize,
        Height: usize,
        Depth: usize,
    }
    /// A 3D copy between devices.
    hipMemcpy3DPeerParms {
        srcArray: hipArray_t,
        srcPos: hipPos,
        srcPtr: hipPitchedPtr,
        srcDevice: c_int,
        dstArray: hipArray_t,
        dstPos: hipPos,
        dstPtr: hipPitchedPtr,
        dstDevice: c_int,
        extent: hipExtent,
    }
    /// A device or the host.
    hipMemLocation {
        r#type: hipMemLocationType,
        id: c_int,
    }
    /// Attributes of one batched copy.
    hipMemcpyAttributes {
        srcAccessOrder: hipMemcpySrcAccessOrder,
        srcLocHint: hipMemLocation,
        dstLocHint: hipMemLocation,
        flags: c_uint,
    }
    /// One operand of a batched 3D copy. `op` is a union: for a pointer, the address, elements per row, rows per layer and a
    /// location; for an array, its handle and an offset.
    hipMemcpy3DOperand {
        r#type: hipMemcpy3DOperandType,
        op: [usize; 4],
    }
    /// One batched 3D copy.
    hipMemcpy3DBatchOp {
        src: hipMemcpy3DOperand,
        dst: hipMemcpy3DOperand,
        extent: hipExtent,
        srcAccessOrder: hipMemcpySrcAccessOrder,
        flags: c_uint,
    }
    /// One location and its access.
    hipMemAccessDesc {
        location: hipMemLocation,
        flags: hipMemAccessFlags,
    }
    /// Properties of a physical allocation. `allocFlags` is a separate struct in C; it requests nothing that is supported here.
    hipMemAllocationProp {
        r#type: hipMemAllocationType,
        requestedHandleType: hipMemAllocationHandleType,
        location: hipMemLocation,
        win32HandleMetaData: *mut c_void,
        allocFlags: [u8; 4],
    }
    /// Properties of a memory pool.
    hipMemPoolProps {
        allocType: hipMemAllocationType,
        handleTypes: hipMemAllocationHandleType,
        location: hipMemLocation,
        win32SecurityAttributes: *mut c_void,
        maxSize: usize,
        reserved: [u8; 56],
    }
    /// Exported reference to an allocation of a shared pool.
    hipMemPoolPtrExportData {
        reserved: [u8; 64],
    }
    /// Handle of another process's memory.
    hipIpcMemHandle_t {
        reserved: [c_char; 64],
    }
    /// Handle of another process's event.
    hipIpcEventHandle_t {
        reserved: [c_char; 64],
    }
}

impl hipMemoryType {
    /// Number of this memory type for programs built with HIP 5 (soname 5).
    ///
    /// HIP 5 uses host 0, device 1, array 2, unified 3. It has no type for managed memory, which it reports as host memory with
    /// `isManaged` set, and none for unregistered memory, for which its query fails.
    pub fn for_soname_5(self) -> hipMemoryType {
        match self {
            hipMemoryTypeHost | hipMemoryTypeManaged => hipMemoryType(0),
            hipMemoryTypeDevice => hipMemoryType(1),
            hipMemoryTypeArray => hipMemoryType(2),
            hipMemoryTypeUnified => hipMemoryType(3),
            other => other,
        }
    }

    /// The reverse of [`for_soname_5`](Self::for_soname_5), for memory types that a program passes in.
    pub fn from_soname_5(self) -> hipMemoryType {
        match self.0 {
            0 => hipMemoryTypeHost,
            1 => hipMemoryTypeDevice,
            2 => hipMemoryTypeArray,
            3 => hipMemoryTypeUnified,
            _ => self,
        }
    }
}
