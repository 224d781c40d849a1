//! Reasons why exported functions are not supported: one for every `absent` row of the table.
//!
//! The reasons are shown on the coverage page and on stderr. Tests ensure that every `absent` row has a reason, and no other row.

use crate::meta::{Class, HipFn};

/// Functions that are unsupported for the same reason.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Completes "it is refused because ...".
    pub reason: &'static str,
    /// The functions.
    pub functions: &'static [&'static str],
}

/// All functions that are permanently unsupported.
pub const REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "external memory and semaphores belong to a graphics driver on the program's machine, and the GPU is \
                 on another machine",
        functions: &[
            "hipDestroyExternalMemory",
            "hipDestroyExternalSemaphore",
            "hipExternalMemoryGetMappedBuffer",
            "hipImportExternalMemory",
            "hipImportExternalSemaphore",
            "hipSignalExternalSemaphoresAsync",
            "hipWaitExternalSemaphoresAsync",
        ],
    },
    Refusal {
        reason: "graphics resources belong to the program's machine, and the GPU is on another machine",
        functions: &[
            "hipGLGetDevices",
            "hipGraphicsGLRegisterBuffer",
            "hipGraphicsGLRegisterImage",
            "hipGraphicsMapResources",
            "hipGraphicsResourceGetMappedPointer",
            "hipGraphicsSubResourceGetMappedArray",
            "hipGraphicsUnmapResources",
            "hipGraphicsUnregisterResource",
        ],
    },
    Refusal {
        reason: "an external semaphore belongs to Vulkan or Direct3D on the program's machine, and the GPU is on another machine",
        functions: &[
            "hipGraphAddExternalSemaphoresSignalNode",
            "hipGraphAddExternalSemaphoresWaitNode",
            "hipGraphExecExternalSemaphoresSignalNodeSetParams",
            "hipGraphExecExternalSemaphoresWaitNodeSetParams",
            "hipGraphExternalSemaphoresSignalNodeGetParams",
            "hipGraphExternalSemaphoresSignalNodeSetParams",
            "hipGraphExternalSemaphoresWaitNodeGetParams",
            "hipGraphExternalSemaphoresWaitNodeSetParams",
        ],
    },
    Refusal {
        reason: "a launch of a graph is one message, and a node that waits for a value in memory would block the other nodes of \
                 its launch; hipStreamBatchMemOp does the same on a stream",
        functions: &[
            "hipGraphAddBatchMemOpNode",
            "hipGraphBatchMemOpNodeGetParams",
            "hipGraphBatchMemOpNodeSetParams",
            "hipGraphExecBatchMemOpNodeSetParams",
        ],
    },
    Refusal {
        reason: "a dma-buf is a file descriptor on the GPU's machine, and the program runs on another machine",
        functions: &["hipMemGetHandleForAddressRange"],
    },
    Refusal {
        reason: "sparse arrays are images, which AMD's runtime does not support on any GPU",
        functions: &["hipMemMapArrayAsync"],
    },
    Refusal {
        reason: "arrays, and surfaces and textures of non-linear memory, are images: gfx942 has no instructions for them, and \
                 AMD's runtime does not support them there either; for gfx90a the software GPU does not implement them. \
                 hipDeviceAttributeImageSupport is 0",
        functions: &[
            "_Z22hipCreateSurfaceObjectPP13__hip_surfacePK15hipResourceDesc",
            "hipArray3DCreate",
            "hipArray3DGetDescriptor",
            "hipArrayCreate",
            "hipArrayGetDescriptor",
            "hipArrayGetInfo",
            "hipBindTexture",
            "hipBindTexture2D",
            "hipBindTextureToArray",
            "hipBindTextureToMipmappedArray",
            "hipCreateSurfaceObject",
            "hipDeviceGetTexture1DLinearMaxWidth",
            "hipGetChannelDesc",
            "hipGetMipmappedArrayLevel",
            "hipGetTextureAlignmentOffset",
            "hipGetTextureReference",
            "hipMalloc3DArray",
            "hipMallocArray",
            "hipMallocMipmappedArray",
            "hipMemcpy2DArrayToArray",
            "hipMemcpy2DFromArray",
            "hipMemcpy2DFromArrayAsync",
            "hipMemcpy2DFromArrayAsync_spt",
            "hipMemcpy2DFromArray_spt",
            "hipMemcpy2DToArray",
            "hipMemcpy2DToArrayAsync",
            "hipMemcpy2DToArrayAsync_spt",
            "hipMemcpy2DToArray_spt",
            "hipMemcpyAtoA",
            "hipMemcpyAtoD",
            "hipMemcpyAtoH",
            "hipMemcpyAtoHAsync",
            "hipMemcpyDtoA",
            "hipMemcpyFromArray",
            "hipMemcpyFromArray_spt",
            "hipMemcpyHtoA",
            "hipMemcpyHtoAAsync",
            "hipMemcpyToArray",
            "hipMipmappedArrayCreate",
            "hipMipmappedArrayGetLevel",
            "hipModuleGetTexRef",
            "hipTexObjectCreate",
            "hipTexObjectGetResourceDesc",
            "hipTexObjectGetResourceViewDesc",
            "hipTexObjectGetTextureDesc",
            "hipTexRefGetAddress",
            "hipTexRefGetAddressMode",
            "hipTexRefGetArray",
            "hipTexRefGetBorderColor",
            "hipTexRefGetFilterMode",
            "hipTexRefGetFlags",
            "hipTexRefGetFormat",
            "hipTexRefGetMaxAnisotropy",
            "hipTexRefGetMipMappedArray",
            "hipTexRefGetMipmapFilterMode",
            "hipTexRefGetMipmapLevelBias",
            "hipTexRefGetMipmapLevelClamp",
            "hipTexRefSetAddress",
            "hipTexRefSetAddress2D",
            "hipTexRefSetAddressMode",
            "hipTexRefSetArray",
            "hipTexRefSetBorderColor",
            "hipTexRefSetFilterMode",
            "hipTexRefSetFlags",
            "hipTexRefSetFormat",
            "hipTexRefSetMaxAnisotropy",
            "hipTexRefSetMipmapFilterMode",
            "hipTexRefSetMipmapLevelBias",
            "hipTexRefSetMipmapLevelClamp",
            "hipTexRefSetMipmappedArray",
            "hipUnbindTexture",
        ],
    },
    Refusal {
        reason: "one grid on several devices has to synchronise through memory that they share while they run, which is not \
                 supported; hipDeviceAttributeCooperativeMultiDeviceLaunch is 0",
        functions: &["hipLaunchCooperativeKernelMultiDevice", "hipModuleLaunchCooperativeKernelMultiDevice"],
    },
    Refusal {
        reason: "profiler callbacks are called by AMD's runtime, which is not loaded in this process",
        functions: &[
            "hipEnableActivityCallback",
            "hipInitActivityCallback",
            "hipRegisterActivityCallback",
            "hipRegisterApiCallback",
            "hipRegisterTracerCallback",
            "hipRemoveActivityCallback",
            "hipRemoveApiCallback",
        ],
    },
    Refusal {
        reason: "an event marks a position in the streams of one session, and sessions are not ordered with each other",
        functions: &["hipIpcGetEventHandle", "hipIpcOpenEventHandle"],
    },
];

/// Reason why a row is not supported; `None` for rows that are implemented.
pub fn reason(row: &HipFn) -> Option<&'static str> {
    if row.class != Class::Absent {
        return None;
    }
    REFUSALS.iter().find(|refusal| refusal.functions.contains(&row.name)).map(|refusal| refusal.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{TABLE, function_named};

    fn named() -> impl Iterator<Item = &'static str> {
        REFUSALS.iter().flat_map(|refusal| refusal.functions.iter().copied())
    }

    #[test]
    fn every_absent_row_has_a_reason() {
        for row in TABLE.iter().filter(|row| row.class == Class::Absent) {
            assert!(reason(row).is_some(), "{} is absent and has no reason", row.name);
        }
    }

    #[test]
    fn a_reason_is_for_an_absent_row_and_given_once() {
        for name in named() {
            let row = function_named(name).unwrap_or_else(|| panic!("{name} has no row"));
            assert_eq!(row.class, Class::Absent, "{name} is implemented but has a reason");
            assert_eq!(named().filter(|other| *other == name).count(), 1, "{name} has two reasons");
        }
    }
}
