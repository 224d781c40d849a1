//! The DLLs of Windows: their names and their exports.
//!
//! A Windows program that imports a function which a DLL lacks does not start, whether it calls the function or not. So every DLL of
//! the runtime exports all functions of the table, of whichever version of HIP, and names for what the table lacks.

use crate::meta::exports;
use std::collections::BTreeSet;

/// The DLLs that Windows programs load, and the library with the same code on Linux. AMD's hiprtc has its minor version in
/// its name; one per major version is enough, because the exports are the same.
pub const DLLS: [(&str, &str); 6] = [
    ("amdhip64.dll", "libamdhip64.so.5"),
    ("amdhip64_6.dll", "libamdhip64.so.6"),
    ("amdhip64_7.dll", "libamdhip64.so.7"),
    ("hiprtc0507.dll", "libhiprtc.so.5"),
    ("hiprtc0604.dll", "libhiprtc.so.6"),
    ("hiprtc0700.dll", "libhiprtc.so.7"),
];

/// Other names of functions: spellings that only AMD's DLLs have, and the names that Microsoft's compiler gives to functions
/// that HIP 5's headers declare as C++. Both compilers call them alike.
pub const ALIASES: &[(&str, &str)] = &[
    ("hipExtHostAlloc", "hipHostMalloc"),
    ("hipTexRefGetMipmappedArray", "hipTexRefGetMipMappedArray"),
    (
        "?hipCreateSurfaceObject@@YA?AW4hipError_t@@PEAPEAU__hip_surface@@PEBUhipResourceDesc@@@Z",
        "hipCreateSurfaceObject",
    ),
    ("?hipDestroySurfaceObject@@YA?AW4hipError_t@@PEAU__hip_surface@@@Z", "hipDestroySurfaceObject"),
    (
        "?hipExtModuleLaunchKernel@@YA?AW4hipError_t@@PEAUihipModuleSymbol_t@@IIIIII_KPEAUihipStream_t@@PEAPEAX3PEAUihipEvent_t@@4I@Z",
        "hipExtModuleLaunchKernel",
    ),
    (
        "?hipHccModuleLaunchKernel@@YA?AW4hipError_t@@PEAUihipModuleSymbol_t@@IIIIII_KPEAUihipStream_t@@PEAPEAX3PEAUihipEvent_t@@4@Z",
        "hipHccModuleLaunchKernel",
    ),
];

/// Functions that AMD's DLLs export and the table lacks: newer than the table, or exported on Windows only. They return
/// hipErrorNotSupported.
pub const UNSERVED: &[&str] = &[
    "hipExtDisableLogging",
    "hipExtEnableLogging",
    "hipExtSetLoggingParams",
    "hipExternalMemoryGetMappedMipmappedArray",
    "hipGetProcAddress_spt",
    "hipKernelGetAttribute",
    "hipKernelGetFunction",
    "hipKernelGetParamInfo",
    "hipKernelSetAttribute",
    "hipMemGetMemPool",
    "hipMemPrefetchBatchAsync",
    "hipMemSetMemPool",
    "hipMipmappedArrayGetMemoryRequirements",
    "hipModuleLaunchKernelExt",
];

/// The function behind them: the client's, with any arguments.
const NOT_SUPPORTED: &str = "remoraNotSupported";

/// Module definition file of a DLL: its exports, without the C++ names of ELF programs.
pub fn module_definition(dll: &str) -> Option<String> {
    let (_, soname) = DLLS.iter().find(|(name, _)| *name == dll)?;
    let is_runtime = soname.starts_with("libamdhip64");
    let sonames: Vec<&str> = match is_runtime {
        true => DLLS
            .iter()
            .map(|(_, soname)| *soname)
            .filter(|soname| soname.starts_with("libamdhip64"))
            .collect(),
        false => vec![soname],
    };
    let symbols: BTreeSet<&str> =
        sonames.iter().flat_map(|soname| exports(soname)).map(|(symbol, _)| symbol).collect();
    let mut list: String = symbols
        .iter()
        .filter(|symbol| !symbol.starts_with("_Z"))
        .map(|symbol| format!("    {symbol}\n"))
        .collect();
    if is_runtime {
        let unserved = UNSERVED.iter().map(|name| (*name, NOT_SUPPORTED));
        list.extend(
            ALIASES.iter().copied().chain(unserved).map(|(name, of)| format!("    \"{name}\" = {of}\n")),
        );
    }
    Some(format!("LIBRARY {dll}\nEXPORTS\n{list}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::function_named;

    #[test]
    fn a_dll_of_the_runtime_exports_the_functions_of_all_versions() {
        for dll in ["amdhip64.dll", "amdhip64_6.dll", "amdhip64_7.dll"] {
            let text = module_definition(dll).expect("it is a DLL of the table");
            assert!(text.starts_with(&format!("LIBRARY {dll}\nEXPORTS\n")), "{text}");
            for name in ["hipMalloc", "hipGetDevicePropertiesR0600", "hipLibraryLoadData"] {
                assert_eq!(text.matches(&format!("    {name}\n")).count(), 1, "{name} in {text}");
            }
            assert!(!text.contains("_Z"), "{text}");
            assert!(text.contains("    \"hipExtHostAlloc\" = hipHostMalloc\n"), "{text}");
        }
        assert_eq!(module_definition("hiprtc0700.dll").map(|text| text.lines().count()), Some(20));
        assert_eq!(module_definition("kernel32.dll"), None);
    }

    #[test]
    fn names_beside_the_table_are_not_in_it_and_stand_for_functions_that_are() {
        for (name, function) in ALIASES {
            assert!(function_named(name).is_none() && function_named(function).is_some(), "{name}");
        }
        for name in UNSERVED {
            assert!(function_named(name).is_none(), "{name} has a row now; remove it here");
        }
    }
}
