//! Handles: pointers to structs that only the runtime accesses, and structs that no implemented function reads.

use crate::ctype::c_opaque;

c_opaque! {
    ihipStream_t,
    ihipEvent_t,
    ihipModule_t,
    ihipModuleSymbol_t,
    ihipCtx_t,
    ihipMemPoolHandle_t,
    ihipKernel_t,
    ihipLibrary_t,
    ihipLinkState_t,
    hipArray,
    hipMipmappedArray,
    __hip_texture,
    __hip_surface,
    ihipGraph,
    hipGraphNode,
    hipGraphExec,
    hipUserObject,
    ihipMemGenericAllocationHandle,
    hipGraphicsResource,
    _hiprtcProgram,
    ihiprtcLinkState,
    HIP_RESOURCE_DESC,
    hipExternalMemoryHandleDesc,
    hipExternalSemaphoreHandleDesc,
    hipExternalSemaphoreSignalParams,
    hipExternalSemaphoreWaitParams,
    hipArrayMapInfo,
}

pub type hipStream_t = *mut ihipStream_t;
pub type hipEvent_t = *mut ihipEvent_t;
pub type hipModule_t = *mut ihipModule_t;
pub type hipFunction_t = *mut ihipModuleSymbol_t;
pub type hipCtx_t = *mut ihipCtx_t;
pub type hipMemPool_t = *mut ihipMemPoolHandle_t;
pub type hipKernel_t = *mut ihipKernel_t;
pub type hipLibrary_t = *mut ihipLibrary_t;
pub type hipLinkState_t = *mut ihipLinkState_t;
pub type hipArray_t = *mut hipArray;
pub type hipMipmappedArray_t = *mut hipMipmappedArray;
pub type hipTextureObject_t = *mut __hip_texture;
pub type hipSurfaceObject_t = *mut __hip_surface;
pub type hipGraph_t = *mut ihipGraph;
pub type hipGraphNode_t = *mut hipGraphNode;
pub type hipGraphExec_t = *mut hipGraphExec;
pub type hipUserObject_t = *mut hipUserObject;
pub type hipMemGenericAllocationHandle_t = *mut ihipMemGenericAllocationHandle;
pub type hipGraphicsResource_t = *mut hipGraphicsResource;
pub type hiprtcProgram = *mut _hiprtcProgram;
pub type hiprtcLinkState = *mut ihiprtcLinkState;

pub type hipArray_const_t = *const hipArray;
pub type hipMipmappedArray_const_t = *const hipMipmappedArray;
