//! Opening of libraries that call the HIP runtime by themselves: rocBLAS, hipBLASLt, MIOpen, RCCL.

use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use crate::library::{address, first};
use crate::stream::Stream;

/// A library that is never closed, whether it can be used or not: HIP libraries do not support unloading.
pub(crate) type Opened = ManuallyDrop<libloading::Library>;

/// Opens the first of the names. It must call the same HIP runtime as the device of the stream, because streams and memory are those
/// of one runtime.
pub(crate) fn open(names: &[&str], stream: &Stream) -> Result<(Opened, PathBuf), String> {
    let own = stream.library.runtime.hipSetDevice.map(|function| function as usize);
    open_for(names, own, &stream.library)
}

/// Like [`open`], for the runtime that has this `hipSetDevice`.
fn open_for(
    names: &[&str],
    own: Option<usize>,
    runtime: &dyn std::fmt::Debug,
) -> Result<(Opened, PathBuf), String> {
    let (library, path) = first(None, names)?;
    let library = ManuallyDrop::new(library);
    let its = address(&library, c"hipSetDevice") as usize;
    if own != Some(its) {
        return Err(format!(
            "{} calls another HIP runtime than {runtime:?}; open one that both can use (PYFLAME_HIP_LIBRARY)",
            path.display()
        ));
    }
    Ok((library, path))
}

/// Like [`open`]. The library must have kernels for the processor, which it loads from the folder `kernels` beside itself.
pub(crate) fn open_with_kernels(
    names: &[&str],
    kernels: &str,
    stream: &Stream,
    architecture: &str,
) -> Result<Opened, String> {
    let (library, path) = open(names, stream)?;
    let folder = folder_of(its_address(&library)?).unwrap_or_default();
    let places = [folder.join(kernels), folder.join("../lib").join(kernels)];
    if !places.iter().any(|place| holds(place, architecture, 3)) {
        return Err(format!(
            "{} has no kernels for {architecture} in {}",
            path.display(),
            places[0].display()
        ));
    }
    Ok(library)
}

/// The address of a function of the library itself.
fn its_address(library: &libloading::Library) -> Result<*mut c_void, String> {
    [c"rocblas_create_handle", c"hipblasLtCreate"]
        .into_iter()
        .map(|name: &CStr| address(library, name))
        .find(|address| !address.is_null())
        .ok_or_else(|| "it lacks its functions".to_owned())
}

/// The folder of the file that contains an address.
fn folder_of(address: *mut c_void) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let address = address as u64;
    let line = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
        range.is_some_and(|(from, to)| (number(from)..number(to)).contains(&address))
    })?;
    let path = Path::new(&line[line.find('/')?..]).canonicalize().ok()?;
    path.parent().map(Path::to_owned)
}

/// Whether a file below a folder is named after the processor.
fn holds(folder: &Path, architecture: &str, depth: usize) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.contains(architecture)
            || (depth > 0 && entry.path().is_dir() && holds(&entry.path(), architecture, depth - 1))
    })
}

/// Reads functions of a library by their names into a table.
macro_rules! functions {
    ($(#[$meta:meta])* struct $table:ident { $($name:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[allow(non_snake_case, reason = "the names are the library's own")]
        struct $table {
            $($name: $type,)*
        }

        impl $table {
            /// # Safety
            ///
            /// The library exports functions of these types, and stays loaded as long as they are called.
            unsafe fn of(library: &libloading::Library) -> Result<$table, String> {
                Ok($table {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the caller says that the function has this type.
                        match unsafe { library.get::<$type>(name.as_bytes()) } {
                            Ok(function) => *function,
                            Err(error) => return Err(format!("it does not export {}: {error}", stringify!($name))),
                        }
                    },)*
                })
            }
        }
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_function_is_that_of_its_file() {
        let here = folder_of(the_folder_of_a_function_is_that_of_its_file as *mut c_void).unwrap();
        assert_eq!(here, std::env::current_exe().unwrap().canonicalize().unwrap().parent().unwrap());
        assert_eq!(folder_of(std::ptr::null_mut()), None);
    }

    #[test]
    fn a_library_that_cannot_be_used_stays_loaded() {
        // A library of the C runtime that nothing here uses.
        let name = "libBrokenLocale.so.1";
        let is_loaded = || std::fs::read_to_string("/proc/self/maps").unwrap().contains("libBrokenLocale");
        match open_for(&[name], Some(1), &"a runtime") {
            Err(why) if why.contains("another HIP runtime than \"a runtime\"") => assert!(is_loaded()),
            Err(why) => assert!(!is_loaded(), "{why}"),
            Ok(_) => panic!("it has no hipSetDevice"),
        }
    }

    #[test]
    fn kernels_are_found_by_the_name_of_the_processor() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("5/library");
        std::fs::create_dir_all(&below).unwrap();
        assert!(!holds(folder.path(), "gfx90a", 3));
        std::fs::write(below.join("TensileLibrary_gfx90a.co"), "").unwrap();
        assert!(holds(folder.path(), "gfx90a", 3) && !holds(folder.path(), "gfx942", 3));
    }
}
