//! Why a function that is exported is refused: one reason for every `absent` row of the table.
//!
//! Owns the reasons, in words for the people who meet them on the coverage page and on stderr. Refuses a reason for a row
//! that is not `absent`, and an `absent` row without one, by test.

use crate::meta::{Class, HipFn};

/// Functions refused for the same reason.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Completes "it is refused because ...".
    pub reason: &'static str,
    pub functions: &'static [&'static str],
}

/// What is refused for good.
pub const REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "external memory and semaphores belong to a graphics driver of the program's own machine, and the GPU is \
                 on another",
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
        reason: "graphics resources belong to the program's own machine, and the GPU is on another",
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
        reason: "an external semaphore is one of Vulkan or Direct3D on the program's machine, and the GPU is on another",
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
        reason: "a launch of a graph is one message, and a node that waits for a value in memory would hold up the others of \
                 its launch; hipStreamBatchMemOp does the same on a stream",
        functions: &[
            "hipGraphAddBatchMemOpNode",
            "hipGraphBatchMemOpNodeGetParams",
            "hipGraphBatchMemOpNodeSetParams",
            "hipGraphExecBatchMemOpNodeSetParams",
        ],
    },
    Refusal {
        reason: "a dma-buf is a file of the machine that has the GPU, which the program is not on",
        functions: &["hipMemGetHandleForAddressRange"],
    },
    Refusal {
        reason: "sparse arrays are images; AMD's runtime refuses them on every GPU",
        functions: &["hipMemMapArrayAsync"],
    },
    Refusal {
        reason: "arrays, surfaces and textures that are not of linear memory are images: gfx942 has no instructions for them, and \
                 AMD's runtime refuses them there in the same way; for gfx90a the software GPU has none. \
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
        reason: "one grid on several devices has to synchronise through memory that they share while they run; devices say so \
                 with hipDeviceAttributeCooperativeMultiDeviceLaunch, which is 0",
        functions: &["hipLaunchCooperativeKernelMultiDevice", "hipModuleLaunchCooperativeKernelMultiDevice"],
    },
    Refusal {
        reason: "a profiler's callbacks are called from inside AMD's runtime, of which there is none in this process",
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
        reason: "an event is a place in the order of one session's streams, and sessions have no order among each other",
        functions: &["hipIpcGetEventHandle", "hipIpcOpenEventHandle"],
    },
];

/// Why a row is refused; `None` for rows that are implemented.
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
            assert!(reason(row).is_some(), "{} is absent and nobody says why", row.name);
        }
    }

    #[test]
    fn a_reason_is_for_an_absent_row_and_given_once() {
        for name in named() {
            let row = function_named(name).unwrap_or_else(|| panic!("{name} has no row"));
            assert_eq!(row.class, Class::Absent, "{name} is implemented and has a reason why not");
            assert_eq!(named().filter(|other| *other == name).count(), 1, "{name} has two reasons");
        }
    }
}
