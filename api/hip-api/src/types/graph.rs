//! Graphs: node kinds and node parameters.

use super::{
    c_int, c_uint, c_void, dim3, hipCtx_t, hipEvent_t, hipGraph_t, hipGraphNode_t, hipHostFn_t,
    hipMemAccessDesc, hipMemPoolProps, hipMemcpy3DParms, hipStream_t, hipStreamBatchMemOpParams,
};
use crate::ctype::{Field, Layout, c_enums, c_name, c_structs};

/// Parameters of a node of any kind; `type` selects the member of `params`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hipGraphNodeParams {
    pub r#type: hipGraphNodeType,
    pub reserved0: [c_int; 3],
    pub params: hipGraphNodeParamsOf,
    pub reserved2: i64,
}

c_name!(hipGraphNodeParams);

/// Members of [`hipGraphNodeParams`], an unnamed union in C. Those of external semaphores are omitted, since no function here
/// reads them.
#[repr(C)]
#[derive(Clone, Copy)]
pub union hipGraphNodeParamsOf {
    pub reserved1: [i64; 29],
    pub kernel: hipKernelNodeParams,
    pub memcpy: hipMemcpyNodeParams,
    pub memset: hipMemsetParams,
    pub host: hipHostNodeParams,
    pub graph: hipChildGraphNodeParams,
    pub eventWait: hipEventWaitNodeParams,
    pub eventRecord: hipEventRecordNodeParams,
    pub alloc: hipMemAllocNodeParams,
    pub free: hipMemFreeNodeParams,
}

impl core::fmt::Debug for hipGraphNodeParamsOf {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("hipGraphNodeParamsOf")
    }
}

impl core::fmt::Debug for hipGraphNodeParams {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("hipGraphNodeParams").field("type", &self.r#type).finish_non_exhaustive()
    }
}

/// Layout of [`hipGraphNodeParams`]; all members of the union have the same offset.
pub(crate) const UNIONS: &[Layout] = &[Layout {
    name: "hipGraphNodeParams",
    size: size_of::<hipGraphNodeParams>(),
    align: align_of::<hipGraphNodeParams>(),
    fields: &[
        Field { name: "type", offset: 0, size: size_of::<hipGraphNodeType>() },
        Field { name: "reserved0", offset: 4, size: 12 },
        Field { name: "reserved1", offset: 16, size: 232 },
        Field { name: "kernel", offset: 16, size: size_of::<hipKernelNodeParams>() },
        Field { name: "memcpy", offset: 16, size: size_of::<hipMemcpyNodeParams>() },
        Field { name: "memset", offset: 16, size: size_of::<hipMemsetParams>() },
        Field { name: "host", offset: 16, size: size_of::<hipHostNodeParams>() },
        Field { name: "graph", offset: 16, size: size_of::<hipChildGraphNodeParams>() },
        Field { name: "eventWait", offset: 16, size: size_of::<hipEventWaitNodeParams>() },
        Field { name: "eventRecord", offset: 16, size: size_of::<hipEventRecordNodeParams>() },
        Field { name: "alloc", offset: 16, size: size_of::<hipMemAllocNodeParams>() },
        Field { name: "free", offset: 16, size: size_of::<hipMemFreeNodeParams>() },
        Field { name: "reserved2", offset: 248, size: 8 },
    ],
}];

impl hipGraphNodeType {
    /// Number of this kind in HIP 5, which counts from 1 and has only the first eight kinds.
    pub fn for_soname_5(self) -> hipGraphNodeType {
        hipGraphNodeType(self.0 + 1)
    }
}

c_enums! {
    /// Kinds of graph nodes, numbered as in HIP 6 and 7; HIP 5 uses other numbers.
    hipGraphNodeType {
        hipGraphNodeTypeKernel = 0,
        hipGraphNodeTypeMemcpy = 1,
        hipGraphNodeTypeMemset = 2,
        hipGraphNodeTypeHost = 3,
        hipGraphNodeTypeGraph = 4,
        hipGraphNodeTypeEmpty = 5,
        hipGraphNodeTypeWaitEvent = 6,
        hipGraphNodeTypeEventRecord = 7,
        hipGraphNodeTypeExtSemaphoreSignal = 8,
        hipGraphNodeTypeExtSemaphoreWait = 9,
        hipGraphNodeTypeMemAlloc = 10,
        hipGraphNodeTypeMemFree = 11,
        hipGraphNodeTypeMemcpyFromSymbol = 12,
        hipGraphNodeTypeMemcpyToSymbol = 13,
        hipGraphNodeTypeBatchMemOp = 14,
        hipGraphNodeTypeCount = 15,
    }
    /// Outcome of a graph update.
    hipGraphExecUpdateResult {
        hipGraphExecUpdateSuccess = 0,
        hipGraphExecUpdateError = 1,
        hipGraphExecUpdateErrorTopologyChanged = 2,
        hipGraphExecUpdateErrorNodeTypeChanged = 3,
        hipGraphExecUpdateErrorFunctionChanged = 4,
        hipGraphExecUpdateErrorParametersChanged = 5,
        hipGraphExecUpdateErrorNotSupported = 6,
        hipGraphExecUpdateErrorUnsupportedFunctionChange = 7,
    }
    /// Memory statistics of graphs.
    hipGraphMemAttributeType {
        hipGraphMemAttrUsedMemCurrent = 0,
        hipGraphMemAttrUsedMemHigh = 1,
        hipGraphMemAttrReservedMemCurrent = 2,
        hipGraphMemAttrReservedMemHigh = 3,
    }
    /// Outcome of an instantiation.
    hipGraphInstantiateResult {
        hipGraphInstantiateSuccess = 0,
        hipGraphInstantiateError = 1,
        hipGraphInstantiateInvalidStructure = 2,
        hipGraphInstantiateNodeOperationNotSupported = 3,
        hipGraphInstantiateMultipleDevicesNotSupported = 4,
    }
}

c_structs! {
    /// Parameters of a host function node.
    hipHostNodeParams {
        r#fn: hipHostFn_t,
        userData: *mut c_void,
    }
    /// Parameters of a kernel node.
    hipKernelNodeParams {
        blockDim: dim3,
        extra: *mut *mut c_void,
        func: *mut c_void,
        gridDim: dim3,
        kernelParams: *mut *mut c_void,
        sharedMemBytes: c_uint,
    }
    /// Parameters of a memset node.
    hipMemsetParams {
        dst: *mut c_void,
        elementSize: c_uint,
        height: usize,
        pitch: usize,
        value: c_uint,
        width: usize,
    }
    /// Parameters of an allocation node.
    hipMemAllocNodeParams {
        poolProps: hipMemPoolProps,
        accessDescs: *const hipMemAccessDesc,
        accessDescCount: usize,
        bytesize: usize,
        dptr: *mut c_void,
    }
    /// Parameters of graph instantiation.
    hipGraphInstantiateParams {
        errNode_out: hipGraphNode_t,
        flags: u64,
        result_out: hipGraphInstantiateResult,
        uploadStream: hipStream_t,
    }
    /// Dependency data of a graph edge.
    hipGraphEdgeData {
        from_port: u8,
        reserved: [u8; 5],
        to_port: u8,
        r#type: u8,
    }
    /// Parameters of a batch memory operation node.
    hipBatchMemOpNodeParams {
        ctx: hipCtx_t,
        count: c_uint,
        paramArray: *mut hipStreamBatchMemOpParams,
        flags: c_uint,
    }
    /// Parameters of a copy node.
    hipMemcpyNodeParams {
        flags: c_int,
        reserved: [c_int; 3],
        copyParams: hipMemcpy3DParms,
    }
    /// Parameters of a child graph node.
    hipChildGraphNodeParams {
        graph: hipGraph_t,
    }
    /// Parameters of an event wait node.
    hipEventWaitNodeParams {
        event: hipEvent_t,
    }
    /// Parameters of an event record node.
    hipEventRecordNodeParams {
        event: hipEvent_t,
    }
    /// Parameters of a free node.
    hipMemFreeNodeParams {
        dptr: *mut c_void,
    }
}
