//! Graphs: node kinds and node parameters.

use super::{
    c_int, c_uint, c_void, dim3, hipCtx_t, hipEvent_t, hipGraph_t, hipGraphNode_t, hipHostFn_t,
    hipMemAccessDesc, hipMemPoolProps, hipMemcpy3DParms, hipStream_t, hipStreamBatchMemOpParams,
};
use crate::ctype::{Field, Layout, c_enums, c_name, c_structs};

/// The parameters of a node of any kind; `type` says which member of `params` counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hipGraphNodeParams {
    pub r#type: hipGraphNodeType,
    pub reserved0: [c_int; 3],
    pub params: hipGraphNodeParamsOf,
    pub reserved2: i64,
}

c_name!(hipGraphNodeParams);

/// The members of [`hipGraphNodeParams`], in C an unnamed union. Those of external semaphores are left out: no function
/// here reads them.
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

/// The layout of [`hipGraphNodeParams`]; every member of the union is at the same offset.
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
    /// The number HIP 5 has for it: it counts from 1, and has no kinds but the first eight.
    pub fn for_soname_5(self) -> hipGraphNodeType {
        hipGraphNodeType(self.0 + 1)
    }
}

c_enums! {
    /// Kinds of graph node, numbered as in HIP 6 and 7; HIP 5 has other numbers.
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
    /// Memory figures of graphs.
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
    /// A host function in a graph.
    hipHostNodeParams {
        r#fn: hipHostFn_t,
        userData: *mut c_void,
    }
    /// A kernel in a graph.
    hipKernelNodeParams {
        blockDim: dim3,
        extra: *mut *mut c_void,
        func: *mut c_void,
        gridDim: dim3,
        kernelParams: *mut *mut c_void,
        sharedMemBytes: c_uint,
    }
    /// A fill in a graph.
    hipMemsetParams {
        dst: *mut c_void,
        elementSize: c_uint,
        height: usize,
        pitch: usize,
        value: c_uint,
        width: usize,
    }
    /// An allocation in a graph.
    hipMemAllocNodeParams {
        poolProps: hipMemPoolProps,
        accessDescs: *const hipMemAccessDesc,
        accessDescCount: usize,
        bytesize: usize,
        dptr: *mut c_void,
    }
    /// How a graph is to be instantiated.
    hipGraphInstantiateParams {
        errNode_out: hipGraphNode_t,
        flags: u64,
        result_out: hipGraphInstantiateResult,
        uploadStream: hipStream_t,
    }
    /// What an edge of a graph waits for.
    hipGraphEdgeData {
        from_port: u8,
        reserved: [u8; 5],
        to_port: u8,
        r#type: u8,
    }
    /// Memory operations in a graph.
    hipBatchMemOpNodeParams {
        ctx: hipCtx_t,
        count: c_uint,
        paramArray: *mut hipStreamBatchMemOpParams,
        flags: c_uint,
    }
    /// A copy in a graph.
    hipMemcpyNodeParams {
        flags: c_int,
        reserved: [c_int; 3],
        copyParams: hipMemcpy3DParms,
    }
    /// A graph in a graph.
    hipChildGraphNodeParams {
        graph: hipGraph_t,
    }
    /// A wait for an event in a graph.
    hipEventWaitNodeParams {
        event: hipEvent_t,
    }
    /// A record of an event in a graph.
    hipEventRecordNodeParams {
        event: hipEvent_t,
    }
    /// A free in a graph.
    hipMemFreeNodeParams {
        dptr: *mut c_void,
    }
}
