//! hipBLASLt.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;

use super::gemm::{Gemm, Side};
use crate::companion::{functions, open_with_kernels};
use crate::library::call;
use crate::stream::Stream;
use crate::work::address;

const NAMES: &[&str] = &["libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"];

/// The workspace that its kernels may use.
const WORKSPACE: usize = 32 << 20;

type Handle = *mut c_void;

/// `hipblasLtMatmulHeuristicResult_t`.
#[repr(C)]
struct Found {
    algorithm: [u64; 3],
    workspace: usize,
    state: i32,
    waves: f32,
    reserved: [i32; 4],
}

functions! {
    /// The functions used here. All return a status, zero for success.
    struct Functions {
        hipblasLtCreate: unsafe extern "C" fn(*mut Handle) -> i32,
        hipblasLtDestroy: unsafe extern "C" fn(Handle) -> i32,
        hipblasLtMatmulDescCreate: unsafe extern "C" fn(*mut Handle, i32, i32) -> i32,
        hipblasLtMatmulDescDestroy: unsafe extern "C" fn(Handle) -> i32,
        hipblasLtMatmulDescSetAttribute: unsafe extern "C" fn(Handle, i32, *const c_void, usize) -> i32,
        hipblasLtMatrixLayoutCreate: unsafe extern "C" fn(*mut Handle, i32, u64, u64, i64) -> i32,
        hipblasLtMatrixLayoutDestroy: unsafe extern "C" fn(Handle) -> i32,
        hipblasLtMatrixLayoutSetAttribute: unsafe extern "C" fn(Handle, i32, *const c_void, usize) -> i32,
        hipblasLtMatmulPreferenceCreate: unsafe extern "C" fn(*mut Handle) -> i32,
        hipblasLtMatmulPreferenceDestroy: unsafe extern "C" fn(Handle) -> i32,
        hipblasLtMatmulPreferenceSetAttribute: unsafe extern "C" fn(Handle, i32, *const c_void, usize) -> i32,
        hipblasLtMatmulAlgoGetHeuristic: unsafe extern "C" fn(
            Handle, Handle, Handle, Handle, Handle, Handle, Handle, i32, *mut Found, *mut i32,
        ) -> i32,
        hipblasLtMatmul: unsafe extern "C" fn(
            Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle, *const c_void,
            *const c_void, Handle, *mut c_void, Handle, *const [u64; 3], *mut c_void, usize, *mut c_void,
        ) -> i32,
    }
}

/// The library with a handle and a workspace of one device.
pub(super) struct HipBlasLt {
    functions: Functions,
    /// Handle and workspace as integers, so that they can be used from any thread, one at a time.
    state: Mutex<[usize; 2]>,
    stream: Arc<Stream>,
}

impl std::fmt::Debug for HipBlasLt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hipBLASLt")
    }
}

/// An object of the library, destroyed on drop.
struct Object {
    handle: Handle,
    destroy: unsafe extern "C" fn(Handle) -> i32,
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle was created by the library, with this function to destroy it, and is not used afterwards.
        unsafe { (self.destroy)(self.handle) };
    }
}

impl HipBlasLt {
    pub(super) fn open(stream: &Arc<Stream>, architecture: &str) -> Result<HipBlasLt, String> {
        let library = open_with_kernels(NAMES, "hipblaslt", stream, architecture)?;
        // SAFETY: these are hipBLASLt's functions; the library is never closed.
        let functions = unsafe { Functions::of(&library) }?;
        stream.select().map_err(|error| error.to_string())?;
        let mut workspace = std::ptr::null_mut();
        call!(stream.library, runtime.hipMalloc(&mut workspace, WORKSPACE))
            .map_err(|error| error.to_string())?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call; the device is current.
        succeeded("hipblasLtCreate", unsafe { (functions.hipblasLtCreate)(&mut handle) })
            .map_err(|error| error.to_string())?;
        Ok(HipBlasLt {
            functions,
            state: Mutex::new([handle as usize, workspace as usize]),
            stream: stream.clone(),
        })
    }

    pub(super) fn multiply(&self, gemm: &Gemm<'_>, output: u64) -> Result<(), DeviceError> {
        let it = &self.functions;
        let state = self.state.lock();
        self.stream.select()?;
        let [handle, workspace] = [state[0] as Handle, state[1] as *mut c_void];
        let (computed, factor) = match gemm.dtype {
            DType::F64 => (7, type_of(DType::F64)),
            _ => (2, type_of(DType::F32)),
        };
        let product = object("hipblasLtMatmulDescCreate", it.hipblasLtMatmulDescDestroy, |to| {
            // SAFETY: the pointer is valid for the call.
            unsafe { (it.hipblasLtMatmulDescCreate)(to, computed, factor) }
        })?;
        for (attribute, side) in [(0, gemm.a), (1, gemm.b)] {
            let value: i32 = if side.transposed { 112 } else { 111 };
            // SAFETY: the attribute is a number of 32 bits, which is read before the call returns.
            let set = unsafe {
                (it.hipblasLtMatmulDescSetAttribute)(product.handle, attribute, (&raw const value).cast(), 4)
            };
            succeeded("hipblasLtMatmulDescSetAttribute", set)?;
        }
        let operand = type_of(gemm.dtype);
        let a = self.layout(operand, gemm.rows, gemm.depth, gemm.a, gemm.batch)?;
        let b = self.layout(operand, gemm.depth, gemm.columns, gemm.b, gemm.batch)?;
        let apart = gemm.rows * gemm.columns;
        let out = Side { transposed: false, leading: gemm.rows, batch: apart };
        let c = self.layout(type_of(gemm.sum_type()), gemm.rows, gemm.columns, out, gemm.batch)?;
        let preference =
            object("hipblasLtMatmulPreferenceCreate", it.hipblasLtMatmulPreferenceDestroy, |to| {
                // SAFETY: the pointer is valid for the call.
                unsafe { (it.hipblasLtMatmulPreferenceCreate)(to) }
            })?;
        let limit = WORKSPACE as u64;
        // SAFETY: the attribute is a number of 64 bits, which is read before the call returns.
        let set = unsafe {
            (it.hipblasLtMatmulPreferenceSetAttribute)(preference.handle, 1, (&raw const limit).cast(), 8)
        };
        succeeded("hipblasLtMatmulPreferenceSetAttribute", set)?;
        let mut found = Found { algorithm: [0; 3], workspace: 0, state: 0, waves: 1.0, reserved: [0; 4] };
        let mut count = 0;
        // SAFETY: all handles are the library's; there is room for one result.
        let status = unsafe {
            (it.hipblasLtMatmulAlgoGetHeuristic)(
                handle,
                product.handle,
                a.handle,
                b.handle,
                c.handle,
                c.handle,
                preference.handle,
                1,
                &mut found,
                &mut count,
            )
        };
        succeeded("hipblasLtMatmulAlgoGetHeuristic", status)?;
        if count < 1 {
            return Err(DeviceError::Unsupported("hipBLASLt has no kernel for this product".to_owned()));
        }
        let [left, right] = gemm.operands();
        let [left, right] = [address(left)?.0 as *const c_void, address(right)?.0 as *const c_void];
        let (float, double) = ([1.0_f32, 0.0], [1.0_f64, 0.0]);
        let [one, zero] = match gemm.dtype {
            DType::F64 => [&raw const double[0], &raw const double[1]].map(|it| it.cast::<c_void>()),
            _ => [&raw const float[0], &raw const float[1]].map(|it| it.cast::<c_void>()),
        };
        let to = output as *mut c_void;
        // SAFETY: the layouts describe the operands (see `Gemm::of`) and an output that holds the results. Products that share the
        // workspace are in one stream.
        let status = unsafe {
            (it.hipblasLtMatmul)(
                handle,
                product.handle,
                one,
                left,
                a.handle,
                right,
                b.handle,
                zero,
                to,
                c.handle,
                to,
                c.handle,
                &raw const found.algorithm,
                workspace,
                WORKSPACE,
                self.stream.handle().cast(),
            )
        };
        succeeded("hipblasLtMatmul", status)
    }

    /// Describes a matrix before its transposition.
    fn layout(
        &self,
        dtype: i32,
        rows: usize,
        columns: usize,
        side: Side,
        batch: usize,
    ) -> Result<Object, DeviceError> {
        let it = &self.functions;
        let (rows, columns) = if side.transposed { (columns, rows) } else { (rows, columns) };
        let layout = object("hipblasLtMatrixLayoutCreate", it.hipblasLtMatrixLayoutDestroy, |to| {
            // SAFETY: the pointer is valid for the call.
            unsafe {
                (it.hipblasLtMatrixLayoutCreate)(to, dtype, rows as u64, columns as u64, side.leading as i64)
            }
        })?;
        let (count, apart) = (batch as i32, side.batch as i64);
        // SAFETY: the attributes are numbers of these sizes, which are read before the calls return.
        let set = unsafe {
            [
                (it.hipblasLtMatrixLayoutSetAttribute)(layout.handle, 0, (&raw const count).cast(), 4),
                (it.hipblasLtMatrixLayoutSetAttribute)(layout.handle, 1, (&raw const apart).cast(), 8),
            ]
        };
        set.into_iter().try_for_each(|status| succeeded("hipblasLtMatrixLayoutSetAttribute", status))?;
        Ok(layout)
    }
}

impl Drop for HipBlasLt {
    fn drop(&mut self) {
        if self.stream.select().is_ok() {
            let [handle, workspace] = *self.state.get_mut();
            // A failure cannot be reported from drop.
            // SAFETY: the handle is the library's, and not used afterwards.
            unsafe { (self.functions.hipblasLtDestroy)(handle as Handle) };
            let _ = call!(self.stream.library, runtime.hipFree(workspace as *mut c_void));
        }
    }
}

fn object(
    call: &'static str,
    destroy: unsafe extern "C" fn(Handle) -> i32,
    create: impl FnOnce(&mut Handle) -> i32,
) -> Result<Object, DeviceError> {
    let mut handle: Handle = std::ptr::null_mut();
    succeeded(call, create(&mut handle))?;
    Ok(Object { handle, destroy })
}

fn succeeded(call: &'static str, status: i32) -> Result<(), DeviceError> {
    if status == 0 { Ok(()) } else { Err(DeviceError::Call { call, error: format!("status {status}") }) }
}

/// The number of a type, `hipDataType`.
fn type_of(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => 2,
        DType::BF16 => 14,
        DType::F64 => 1,
        _ => 0,
    }
}
