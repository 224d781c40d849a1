//! Symbols of AMD SMI, looked up by name. Functions that not every release has are optional.

use std::ffi::{OsString, c_void};
use std::path::PathBuf;

use crate::env::SmiChoice;
use crate::symbols::library_functions;

/// Opaque handle of a socket or processor.
pub type Handle = *mut c_void;
/// Status code; zero is success.
pub type Status = u32;

/// File names for the dynamic loader, newest first; the last one is Debian 13's.
const NAMES: &[&str] = &[
    "libamd_smi.so.27",
    "libamd_smi.so.26",
    "libamd_smi.so.25",
    "libamd_smi.so.24",
    "libamd_smi.so",
    "libamd_smi.so.0",
];
const USUAL_FOLDER: &str = "/opt/rocm/lib";

library_functions! {
    required {
        amdsmi_init(u64);
        amdsmi_shut_down();
        amdsmi_get_lib_version(*mut c_void);
        amdsmi_get_socket_handles(*mut u32, *mut Handle);
        amdsmi_get_processor_handles(Handle, *mut u32, *mut Handle);
        amdsmi_get_processor_type(Handle, *mut u32);
    }
    optional {
        amdsmi_get_gpu_bdf_id(Handle, *mut u64);
        amdsmi_get_gpu_asic_info(Handle, *mut c_void);
        amdsmi_get_gpu_kfd_info(Handle, *mut c_void);
        amdsmi_get_gpu_enumeration_info(Handle, *mut c_void);
        amdsmi_get_gpu_memory_total(Handle, u32, *mut u64);
        amdsmi_get_gpu_memory_usage(Handle, u32, *mut u64);
        amdsmi_get_gpu_driver_info(Handle, *mut c_void);
        amdsmi_get_gpu_vbios_info(Handle, *mut c_void);
        amdsmi_get_pcie_info(Handle, *mut c_void);
        amdsmi_get_clock_info(Handle, u32, *mut c_void);
        amdsmi_get_gpu_activity(Handle, *mut c_void);
        amdsmi_get_power_info(Handle, *mut c_void);
        amdsmi_get_temp_metric(Handle, u32, u32, *mut i64);
        amdsmi_get_gpu_total_ecc_count(Handle, *mut c_void);
        amdsmi_get_gpu_process_list(Handle, *mut u32, *mut c_void);
        amdsmi_topo_get_numa_node_number(Handle, *mut u32);
        amdsmi_topo_get_link_type(Handle, Handle, *mut u64, *mut u32);
    }
}

/// Loads the chosen library. The error lists for each candidate why it could not be loaded.
pub fn load(choice: &SmiChoice) -> Result<Library, Vec<String>> {
    let candidates: Vec<OsString> = match choice {
        SmiChoice::Off => Vec::new(),
        SmiChoice::File(file) => vec![file.clone().into()],
        SmiChoice::Search(folders) => {
            let stated = folders.iter().map(|folder| folder.join("libamd_smi.so"));
            let there: Vec<PathBuf> = stated.filter(|file| file.exists()).collect();
            let by_name = NAMES.iter().map(OsString::from);
            let usual = PathBuf::from(USUAL_FOLDER).join("libamd_smi.so");
            there.into_iter().map(OsString::from).chain(by_name).chain([usual.into()]).collect()
        }
    };
    let mut refusals = Vec::new();
    for candidate in candidates {
        // SAFETY: loading runs the library's constructors. It is AMD's library or the one the operator configured.
        let loaded = unsafe { libloading::Library::new(&candidate) };
        let library = match loaded {
            Ok(library) => library,
            Err(error) => {
                refusals.push(error.to_string());
                continue;
            }
        };
        // SAFETY: AMD SMI's functions have had these types since 6.1.
        let found = unsafe { Library::look_up(&library) };
        // Never unloaded: it has threads and destructors, and staying loaded costs nothing.
        std::mem::forget(library);
        match found {
            Ok(library) => return Ok(library),
            Err(function) => refusals.push(format!("{} lacks {function}", candidate.display())),
        }
    }
    Err(refusals)
}
