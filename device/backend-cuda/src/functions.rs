//! Function pointers of NVIDIA's driver library, resolved by name: one field per row of the table.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use crate::types::*;

/// Library names tried when no path is given.
const LIBRARIES: &[&str] =
    &["libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"];

/// Why the driver library could not be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No library could be loaded.
    #[error("cannot load NVIDIA's driver library (tried {tried})")]
    Library {
        /// The paths that were tried.
        tried: String,
        /// Error of the first of them.
        source: libloading::Error,
    },
    /// The library does not export a function.
    #[error("{library} lacks {function}: the driver is too old")]
    Missing {
        /// Path of the library.
        library: String,
        /// Name of the function.
        function: &'static str,
    },
}

macro_rules! functions {
    ($(fn $name:ident($($ty:ty),* $(,)?);)*) => {
        /// Functions of the driver. All of them exist in drivers since CUDA 12.
        #[allow(non_snake_case, reason = "named as in the driver API")]
        pub struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($ty),*) -> CuResult,)*
            path: PathBuf,
            /// Keeps the library loaded as long as the function pointers above exist.
            _library: libloading::Library,
        }

        impl Functions {
            fn resolve(library: libloading::Library, path: PathBuf) -> Result<Functions, LoadError> {
                let missing =
                    |function| LoadError::Missing { library: path.display().to_string(), function };
                Ok(Functions {
                    $(
                        // SAFETY: the row states the function's C signature; the pointer is valid as long as the library, which
                        // the same struct holds.
                        $name: unsafe {
                            *library
                                .get(concat!(stringify!($name), "\0").as_bytes())
                                .map_err(|_| missing(stringify!($name)))?
                        },
                    )*
                    path,
                    _library: library,
                })
            }

            /// Functions that succeed and do nothing.
            #[cfg(test)]
            pub(crate) fn idle() -> Functions {
                Functions {
                    $($name: {
                        unsafe extern "C" fn nothing($(_: $ty),*) -> CuResult {
                            SUCCESS
                        }
                        nothing
                    },)*
                    path: PathBuf::from("stand-in"),
                    _library: libloading::os::unix::Library::this().into(),
                }
            }
        }
    };
}

functions! {
    fn cuInit(c_uint);
    fn cuDriverGetVersion(*mut c_int);
    fn cuGetErrorName(CuResult, *mut *const c_char);
    fn cuGetErrorString(CuResult, *mut *const c_char);
    fn cuDeviceGetCount(*mut c_int);
    fn cuDeviceGet(*mut CuDevice, c_int);
    fn cuDeviceGetName(*mut c_char, c_int, CuDevice);
    fn cuDeviceTotalMem_v2(*mut usize, CuDevice);
    fn cuDeviceGetAttribute(*mut c_int, c_int, CuDevice);
    fn cuDeviceGetUuid_v2(*mut [u8; 16], CuDevice);
    fn cuDeviceCanAccessPeer(*mut c_int, CuDevice, CuDevice);
    fn cuDevicePrimaryCtxRetain(*mut CuContext, CuDevice);
    fn cuCtxSetCurrent(CuContext);
    fn cuCtxSynchronize();
    fn cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int);
    fn cuMemGetInfo_v2(*mut usize, *mut usize);
    fn cuMemAddressReserve(*mut CuAddress, usize, usize, CuAddress, u64);
    fn cuMemAddressFree(CuAddress, usize);
    fn cuMemCreate(*mut CuMemory, usize, *const MemAllocationProp, u64);
    fn cuMemRelease(CuMemory);
    fn cuMemMap(CuAddress, usize, usize, CuMemory, u64);
    fn cuMemUnmap(CuAddress, usize);
    fn cuMemSetAccess(CuAddress, usize, *const MemAccessDesc, usize);
    fn cuMemGetAllocationGranularity(*mut usize, *const MemAllocationProp, c_uint);
    fn cuMemExportToShareableHandle(*mut c_void, CuMemory, c_int, u64);
    fn cuMemImportFromShareableHandle(*mut CuMemory, *mut c_void, c_int);
    fn cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    fn cuMemcpyAsync(CuAddress, CuAddress, usize, CuStream);
    fn cuMemcpyHtoDAsync_v2(CuAddress, *const c_void, usize, CuStream);
    fn cuMemcpyDtoHAsync_v2(*mut c_void, CuAddress, usize, CuStream);
    fn cuMemcpy3DAsync_v2(*const Copy3d, CuStream);
    fn cuMemsetD8Async(CuAddress, u8, usize, CuStream);
    fn cuMemsetD16Async(CuAddress, u16, usize, CuStream);
    fn cuMemsetD32Async(CuAddress, c_uint, usize, CuStream);
    fn cuMemsetD2D8Async(CuAddress, usize, u8, usize, usize, CuStream);
    fn cuMemsetD2D16Async(CuAddress, usize, u16, usize, usize, CuStream);
    fn cuMemsetD2D32Async(CuAddress, usize, c_uint, usize, usize, CuStream);
    fn cuStreamCreateWithPriority(*mut CuStream, c_uint, c_int);
    fn cuStreamDestroy_v2(CuStream);
    fn cuStreamQuery(CuStream);
    fn cuStreamSynchronize(CuStream);
    fn cuStreamWaitEvent(CuStream, CuEvent, c_uint);
    fn cuStreamWriteValue32_v2(CuStream, CuAddress, u32, c_uint);
    fn cuLaunchHostFunc(CuStream, CuHostFunction, *mut c_void);
    fn cuEventCreate(*mut CuEvent, c_uint);
    fn cuEventDestroy_v2(CuEvent);
    fn cuEventRecord(CuEvent, CuStream);
    fn cuEventSynchronize(CuEvent);
    fn cuEventElapsedTime(*mut f32, CuEvent, CuEvent);
    fn cuModuleLoadData(*mut CuModule, *const c_void);
    fn cuModuleUnload(CuModule);
    fn cuModuleGetFunction(*mut CuFunction, CuModule, *const c_char);
    fn cuFuncGetAttribute(*mut c_int, c_int, CuFunction);
    fn cuFuncSetAttribute(CuFunction, c_int, c_int);
    fn cuLaunchKernel(
        CuFunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CuStream, *mut *mut c_void,
        *mut *mut c_void,
    );
    fn cuLaunchCooperativeKernel(
        CuFunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CuStream, *mut *mut c_void,
    );
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CuFunction, c_int, usize);
    fn cuLinkCreate_v2(c_uint, *mut c_uint, *mut *mut c_void, *mut CuLinkState);
    fn cuLinkAddData_v2(
        CuLinkState, c_uint, *mut c_void, usize, *const c_char, c_uint, *mut c_uint, *mut *mut c_void,
    );
    fn cuLinkComplete(CuLinkState, *mut *mut c_void, *mut usize);
    fn cuLinkDestroy(CuLinkState);
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl Functions {
    /// Opens `path`, or searches for the driver library in the loader's search path.
    pub fn load(path: Option<&Path>) -> Result<Functions, LoadError> {
        let candidates: Vec<PathBuf> = match path {
            Some(path) => vec![path.to_owned()],
            None => LIBRARIES.iter().map(PathBuf::from).collect(),
        };
        let mut failure = None;
        for path in &candidates {
            // SAFETY: runs the library's constructors, as any program linked to the driver does.
            match unsafe { libloading::Library::new(path) } {
                Ok(library) => return Functions::resolve(library, path.clone()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let tried: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        let source = failure.unwrap_or(libloading::Error::DlOpenUnknown);
        Err(LoadError::Library { tried: tried.join(", "), source })
    }
}
