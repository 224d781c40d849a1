//! The prelude: declarations that a program compiled at run time has without including anything.
//!
//! AMD's hiprtc includes a list of headers before every source, and programs rely on their types and functions, down to `ushort`.
//! Some ROCm releases lack some of these headers, so each is included only if it exists.

use std::fmt::Write;

/// In the order of AMD's own list (hipamd/src/hiprtc/CMakeLists.txt): later headers need earlier ones.
const HEADERS: &[&str] = &[
    "hip_runtime.h",
    "hip_bfloat16.h",
    "hip_common.h",
    "amd_detail/device_library_decls.h",
    "amd_detail/hip_assert.h",
    "library_types.h",
    "driver_types.h",
    "surface_types.h",
    "amd_detail/amd_channel_descriptor.h",
    "texture_types.h",
    "amd_detail/ockl_image.h",
    "amd_detail/texture_fetch_functions.h",
    "amd_detail/texture_indirect_functions.h",
    "amd_detail/amd_surface_functions.h",
    "amd_detail/amd_hip_complex.h",
    "amd_detail/amd_hip_math_constants.h",
    "amd_detail/math_fwd.h",
    "amd_detail/amd_warp_functions.h",
    "amd_detail/amd_device_functions.h",
    "amd_detail/amd_warp_sync_functions.h",
    "amd_detail/hip_cooperative_groups_helper.h",
    "amd_detail/amd_hip_cooperative_groups.h",
    "amd_detail/amd_hip_unsafe_atomics.h",
    "amd_detail/amd_hip_atomic.h",
    "amd_detail/hip_fp16_math_fwd.h",
    "amd_detail/amd_hip_fp16.h",
    "amd_detail/amd_math_functions.h",
];

/// Types that AMD's hiprtc declares in addition, unless the program opts out.
const TYPES: &str = "#if !__HIP_NO_STD_DEFS__
#if __HIPRTC_PTRDIFF_T_IS_LONG_LONG__
typedef long long ptrdiff_t;
#else
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#endif
typedef long clock_t;
namespace std { using ::ptrdiff_t; using ::clock_t; }
#endif
";

/// Returns the text that is included before the source. Warnings inside it are disabled: the program cannot fix AMD's headers.
pub(crate) fn text() -> String {
    let mut text =
        "#pragma clang diagnostic push\n#pragma clang diagnostic ignored \"-Weverything\"\n".to_owned();
    for header in HEADERS {
        let _ = write!(text, "#if __has_include(<hip/{header}>)\n#include <hip/{header}>\n#endif\n");
    }
    // The compiler declares no printf in this mode, though device code may call it.
    text + TYPES + "#pragma clang diagnostic pop\nextern \"C\" __device__ int printf(const char*, ...);\n"
}
