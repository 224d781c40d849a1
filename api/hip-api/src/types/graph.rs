//! Graphs: node kinds and node parameters.

use super::{
    c_uint, c_void, dim3, hipCtx_t, hipGraphNode_t, hipHostFn_t, hipMemAccessDesc, hipMemPoolProps,
    hipStream_t, hipStreamBatchMemOpParams,
};
use crate::ctype::{c_enums, c_structs};

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
}
