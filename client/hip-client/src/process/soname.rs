//! The name of this copy of the library: the program's HIP version decides a few struct and enum layouts.
//!
//! One archive is linked as .so.5, .so.6 and .so.7, or as DLLs with other names; the loaded copy reads its own DT_SONAME or
//! file name.

use std::sync::OnceLock;

use crate::os::module::own_name;

/// Major version of the HIP runtime that this library replaces: 5, 6 or 7. Without a SONAME (in tests) it is 6.
pub fn hip_major() -> u32 {
    static MAJOR: OnceLock<u32> = OnceLock::new();
    *MAJOR.get_or_init(|| own_name().as_deref().and_then(major_of).unwrap_or(6))
}

/// Whether this copy is the hiprtc library, which has a separate session from the runtime's.
pub fn is_hiprtc() -> bool {
    own_name().is_some_and(|name| name.trim_start_matches("lib").starts_with("hiprtc"))
}

/// Parses `libamdhip64.so.7`, `amdhip64_7.dll` or `hiprtc0700.dll`; `amdhip64.dll` is HIP 5.
fn major_of(name: &str) -> Option<u32> {
    let major = match name.split_once(".so.") {
        Some(("libamdhip64" | "libhiprtc", version)) => version.split('.').next()?.parse().ok(),
        Some(_) => None,
        None => {
            let name = name.to_ascii_lowercase();
            let name = name.strip_suffix(".dll")?;
            match (name.strip_prefix("amdhip64"), name.strip_prefix("hiprtc")) {
                (Some(""), _) => Some(5),
                (Some(version), _) => version.strip_prefix('_')?.parse().ok(),
                (_, Some(version)) => version.get(..2)?.parse().ok(),
                (None, None) => None,
            }
        }
    };
    major.filter(|major| (5..=7).contains(major))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soname_decides_the_hip_generation() {
        assert_eq!(major_of("libamdhip64.so.5"), Some(5));
        assert_eq!(major_of("libamdhip64.so.7"), Some(7));
        assert_eq!(major_of("libhiprtc.so.7.2.1"), Some(7));
        assert_eq!(major_of("libc.so.6"), None);
        assert_eq!(major_of("libamdhip64.so"), None);
        assert_eq!(major_of("libamdhip64.so.9"), None);
        assert_eq!(major_of("amdhip64_7.dll"), Some(7));
        assert_eq!(major_of("AMDHIP64_6.DLL"), Some(6));
        assert_eq!(major_of("amdhip64.dll"), Some(5));
        assert_eq!(major_of("hiprtc0700.dll"), Some(7));
        assert_eq!(major_of("hiprtc0507.dll"), Some(5));
        assert_eq!(major_of("hiprtc.dll"), None);
        assert_eq!(major_of("amdhip64_70.dll"), None);
    }

    #[test]
    fn a_program_without_a_soname_counts_as_hip_6() {
        assert_eq!(hip_major(), 6);
    }
}
