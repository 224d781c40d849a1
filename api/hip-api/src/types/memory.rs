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
    /// Where memory lies, numbered as in HIP 6 and 7; HIP 5 has other numbers.
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
    /// What hipPointerGetAttribute can be asked.
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
    /// What hipMemRangeGetAttribute can be asked.
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
    /// What a side of a batched copy of boxes is.
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
    /// Which granularity is asked for.
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
    /// What hipPointerGetAttributes fills in. HIP 5 calls `type` `memoryType`, with other numbers.
    hipPointerAttribute_t {
        r#type: hipMemoryType,
        device: c_int,
        devicePointer: *mut c_void,
        hostPointer: *mut c_void,
        isManaged: c_int,
        allocationFlags: c_uint,
    }
    /// Extent of a box; the width is in bytes for linear memory, in elements for arrays.
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
    /// A copy of a box.
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
    /// A copy of a box, driver style. The sizes are 32-bit in HIP 5.
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
    /// A copy of a box between devices.
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
    /// One side of a batched copy of boxes. `op` is a union: for a pointer the address, the elements of a row, the rows of
    /// a layer and a location, for an array its handle and an offset.
    hipMemcpy3DOperand {
        r#type: hipMemcpy3DOperandType,
        op: [usize; 4],
    }
    /// One batched copy of a box.
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
    /// How physical memory is to be made. `allocFlags` is a struct of its own, which asks for nothing that exists here.
    hipMemAllocationProp {
        r#type: hipMemAllocationType,
        requestedHandleType: hipMemAllocationHandleType,
        location: hipMemLocation,
        win32HandleMetaData: *mut c_void,
        allocFlags: [u8; 4],
    }
    /// How a memory pool is to be made.
    hipMemPoolProps {
        allocType: hipMemAllocationType,
        handleTypes: hipMemAllocationHandleType,
        location: hipMemLocation,
        win32SecurityAttributes: *mut c_void,
        maxSize: usize,
        reserved: [u8; 56],
    }
    /// Names an allocation of a shared pool.
    hipMemPoolPtrExportData {
        reserved: [u8; 64],
    }
    /// Names memory of another process.
    hipIpcMemHandle_t {
        reserved: [c_char; 64],
    }
    /// Names an event of another process.
    hipIpcEventHandle_t {
        reserved: [c_char; 64],
    }
}

impl hipMemoryType {
    /// The number that programs built with HIP 5 (soname 5) know for this memory type.
    ///
    /// HIP 5 counts host 0, device 1, array 2, unified 3. It has no word for managed memory, which it calls host
    /// memory with `isManaged` set, and none for unregistered memory, for which its library fails the query.
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
