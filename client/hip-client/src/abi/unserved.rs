//! What AMD's DLLs export and HIP's table lacks.

#![allow(non_snake_case, reason = "named like the other extensions")]

use hip_api::types::*;

/// Stands for every such function (`hip_api::dll::UNSERVED`). The caller removes its own arguments, so there can be any.
#[unsafe(no_mangle)]
pub extern "C" fn remoraNotSupported() -> hipError_t {
    hipErrorNotSupported
}
