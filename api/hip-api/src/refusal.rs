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
        reason: "its operations are those of hipStreamBatchMemOp, which is not there either: no back end has a stream that \
                 waits for a value in memory",
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
        reason: "sparse arrays need image instructions, which gfx90a and gfx942 lack; AMD's runtime refuses them on every GPU",
        functions: &["hipMemMapArrayAsync"],
    },
];

/// Families with rows nobody has come to yet, and what the other rows of the family wait for. A family leaves this list
/// when each of its rows is implemented or has a reason of its own above.
pub const UNFINISHED: &[(&str, &str)] = &[
    ("device", "not implemented yet"),
    ("memory", "host, mapped and managed memory are not implemented yet"),
    ("stream", "not implemented yet"),
    ("launch", "not implemented yet"),
    ("rtc", "not implemented yet"),
    ("profile", "not implemented yet"),
    ("cxx", "not implemented yet"),
    ("array", "not implemented yet"),
    ("texture", "not implemented yet"),
    ("library", "not implemented yet"),
    ("ipc", "not implemented yet"),
];

/// Why a row is refused; `None` for rows that are implemented.
pub fn reason(row: &HipFn) -> Option<&'static str> {
    if row.class != Class::Absent {
        return None;
    }
    let own = REFUSALS.iter().find(|refusal| refusal.functions.contains(&row.name));
    let family = || UNFINISHED.iter().find(|(family, _)| *family == row.family);
    own.map(|refusal| refusal.reason).or_else(|| family().map(|(_, reason)| *reason))
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

    #[test]
    fn an_unfinished_family_has_rows_that_wait() {
        for (family, _) in UNFINISHED {
            let waits = |row: &&HipFn| {
                row.family == *family && row.class == Class::Absent && named().all(|name| name != row.name)
            };
            assert!(TABLE.iter().any(|row| waits(&row)), "{family} is finished: take it off the list");
        }
    }
}
