//! MIOpen. It compiles or loads the kernel of a convolution when that is first computed, which takes seconds, and keeps it on disk
//! where its own environment variables say.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use parking_lot::Mutex;
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;

use super::call::{Call, Role, Sizes};
use crate::companion::{functions, open};
use crate::memory::{Block, MemoryPool};
use crate::stream::Stream;

const NAMES: &[&str] = &["libMIOpen.so.1", "libMIOpen.so"];

type Handle = *mut c_void;

/// `miopenConvSolution_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Solution {
    /// An estimate in milliseconds.
    time: f32,
    workspace: usize,
    id: u64,
    algorithm: c_int,
}

/// Numbers of `miopenConvAlgorithm_t` whose rounding errors do not follow from the depth of the sums.
const FFT: c_int = 2;
const WINOGRAD: c_int = 3;
/// Numbers of `miopenConvolutionAttrib_t`.
const ALTERNATIVE_HALF: c_int = 0;
const DETERMINISTIC: c_int = 1;
/// The number of a convolution in `miopenConvolutionMode_t`.
const CONVOLUTION: c_int = 0;
/// The most solutions that are asked for.
const MOST: usize = 64;

type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type Count = unsafe extern "C" fn(Handle, Handle, Handle, Handle, Handle, *mut usize) -> c_int;
type Find =
    unsafe extern "C" fn(Handle, Handle, Handle, Handle, Handle, usize, *mut usize, *mut Solution) -> c_int;
type Compile = unsafe extern "C" fn(Handle, Handle, Handle, Handle, Handle, u64) -> c_int;
type Compute = unsafe extern "C" fn(
    Handle,
    Handle,
    *const c_void,
    Handle,
    *const c_void,
    Handle,
    Handle,
    *mut c_void,
    *mut c_void,
    usize,
    u64,
) -> c_int;

functions! {
    /// The functions used here. All but one return a status, zero for success. Those of a role have the same arguments in the same
    /// order: what is read, the convolution, what is written.
    struct Functions {
        miopenGetErrorString: unsafe extern "C" fn(c_int) -> *const c_char,
        miopenCreateWithStream: unsafe extern "C" fn(*mut Handle, *mut c_void) -> c_int,
        miopenDestroy: Destroy,
        miopenCreateTensorDescriptor: Create,
        miopenSetTensorDescriptor: unsafe extern "C" fn(Handle, c_int, c_int, *const c_int, *const c_int) -> c_int,
        miopenDestroyTensorDescriptor: Destroy,
        miopenCreateConvolutionDescriptor: Create,
        miopenInitConvolutionNdDescriptor: unsafe extern "C" fn(
            Handle, c_int, *const c_int, *const c_int, *const c_int, c_int,
        ) -> c_int,
        miopenSetConvolutionGroupCount: unsafe extern "C" fn(Handle, c_int) -> c_int,
        miopenSetConvolutionAttribute: unsafe extern "C" fn(Handle, c_int, c_int) -> c_int,
        miopenDestroyConvolutionDescriptor: Destroy,
        miopenConvolutionForwardGetSolutionCount: Count,
        miopenConvolutionForwardGetSolution: Find,
        miopenConvolutionForwardCompileSolution: Compile,
        miopenConvolutionForwardImmediate: Compute,
        miopenConvolutionBackwardDataGetSolutionCount: Count,
        miopenConvolutionBackwardDataGetSolution: Find,
        miopenConvolutionBackwardDataCompileSolution: Compile,
        miopenConvolutionBackwardDataImmediate: Compute,
        miopenConvolutionBackwardWeightsGetSolutionCount: Count,
        miopenConvolutionBackwardWeightsGetSolution: Find,
        miopenConvolutionBackwardWeightsCompileSolution: Compile,
        miopenConvolutionBackwardWeightsImmediate: Compute,
    }
}

/// The functions of one role, and the name of the last.
struct OfRole {
    count: Count,
    find: Find,
    compile: Compile,
    compute: Compute,
    name: &'static str,
}

/// The library with a handle of one device.
pub(super) struct MiOpen {
    functions: Functions,
    state: Mutex<State>,
    stream: Arc<Stream>,
}

struct State {
    /// As an integer, so that it can be used from any thread, one at a time.
    handle: usize,
    /// Failures are kept too: finding and compiling kernels again would take seconds for each convolution.
    known: HashMap<Sizes, Result<Prepared, String>>,
}

/// A convolution in the library's words.
struct Described {
    inputs: [Object; 2],
    convolution: Object,
    output: Object,
}

/// A convolution whose kernel is compiled.
struct Prepared {
    described: Described,
    solution: Solution,
    /// Solutions that the library expects to be slower; some need less memory.
    slower: Vec<Solution>,
}

/// An object of the library, destroyed on drop.
struct Object {
    /// As an integer, so that it can be used from any thread, one at a time.
    handle: usize,
    destroy: Destroy,
}

impl Object {
    fn new(call: &'static str, create: Create, destroy: Destroy) -> Result<Object, String> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        succeeded(call, unsafe { create(&mut handle) })?;
        Ok(Object { handle: handle as usize, destroy })
    }

    fn get(&self) -> Handle {
        self.handle as Handle
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle was created by the library, with this function to destroy it, and is not used afterwards.
        unsafe { (self.destroy)(self.get()) };
    }
}

impl Described {
    /// In the order of the library's functions.
    fn handles(&self) -> [Handle; 4] {
        [self.inputs[0].get(), self.inputs[1].get(), self.convolution.get(), self.output.get()]
    }
}

impl std::fmt::Debug for MiOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MIOpen")
    }
}

impl MiOpen {
    pub(super) fn open(stream: &Arc<Stream>) -> Result<MiOpen, String> {
        let (library, _) = open(NAMES, stream)?;
        // SAFETY: these are MIOpen's functions; the library is never closed.
        let functions = unsafe { Functions::of(&library) }?;
        stream.select().map_err(|error| error.to_string())?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call, the stream is one of the library's HIP runtime, and its device is current.
        let created = unsafe { (functions.miopenCreateWithStream)(&mut handle, stream.handle().cast()) };
        succeeded("miopenCreateWithStream", created)?;
        let state = State { handle: handle as usize, known: HashMap::new() };
        Ok(MiOpen { functions, state: Mutex::new(state), stream: stream.clone() })
    }

    /// Submits a convolution; `output` is the address of its sums. Returns the workspace that its kernels use.
    pub(super) fn convolve(
        &self,
        call: &Call<'_>,
        pool: &Arc<MemoryPool>,
        output: u64,
    ) -> Result<Option<Block>, DeviceError> {
        let of = self.of_role(call.sizes.role);
        let inputs = call.inputs()?.map(|address| address.0 as *const c_void);
        let mut state = self.state.lock();
        self.stream.select()?;
        let handle = state.handle as Handle;
        if !state.known.contains_key(&call.sizes) {
            let prepared = self.prepare(handle, &of, &call.sizes);
            state.known.insert(call.sizes.clone(), prepared);
        }
        let failed = |error| DeviceError::Call { call: of.name, error };
        let it = match state.known.get_mut(&call.sizes) {
            Some(Ok(it)) => it,
            Some(Err(error)) => return Err(failed(error.clone())),
            None => unreachable!("it was inserted above"),
        };
        let workspace = self.workspace(handle, &of, it, pool)?;
        let place = workspace.as_ref().map_or(std::ptr::null_mut(), |block| block.address as *mut c_void);
        // SAFETY: the addresses are those of tensors with the sizes of the descriptors, which have no gaps (see `Call::of`), and of a
        // workspace as large as the library asks for.
        let status = unsafe {
            (of.compute)(
                handle,
                it.described.inputs[0].get(),
                inputs[0],
                it.described.inputs[1].get(),
                inputs[1],
                it.described.convolution.get(),
                it.described.output.get(),
                output as *mut c_void,
                place,
                it.solution.workspace,
                it.solution.id,
            )
        };
        self.checked(of.name, status).map_err(failed)?;
        Ok(workspace)
    }

    /// Allocates the workspace of a solution. If there is not enough memory, takes a solution that needs less from now on.
    fn workspace(
        &self,
        handle: Handle,
        of: &OfRole,
        it: &mut Prepared,
        pool: &Arc<MemoryPool>,
    ) -> Result<Option<Block>, DeviceError> {
        loop {
            let bytes = it.solution.workspace;
            if bytes == 0 {
                return Ok(None);
            }
            let error = match pool.allocate(bytes) {
                Ok(block) => return Ok(Some(block)),
                Err(error @ DeviceError::OutOfMemory { .. }) => error,
                Err(error) => return Err(error),
            };
            let smaller = it.slower.iter().copied().filter(|solution| solution.workspace < bytes).collect();
            let Ok(found) = self.compiled(handle, of, &it.described, smaller) else { return Err(error) };
            (it.solution, it.slower) = found;
        }
    }

    fn of_role(&self, role: Role) -> OfRole {
        let it = &self.functions;
        match role {
            Role::Forward => OfRole {
                count: it.miopenConvolutionForwardGetSolutionCount,
                find: it.miopenConvolutionForwardGetSolution,
                compile: it.miopenConvolutionForwardCompileSolution,
                compute: it.miopenConvolutionForwardImmediate,
                name: "miopenConvolutionForwardImmediate",
            },
            Role::OfInput => OfRole {
                count: it.miopenConvolutionBackwardDataGetSolutionCount,
                find: it.miopenConvolutionBackwardDataGetSolution,
                compile: it.miopenConvolutionBackwardDataCompileSolution,
                compute: it.miopenConvolutionBackwardDataImmediate,
                name: "miopenConvolutionBackwardDataImmediate",
            },
            Role::OfWeight => OfRole {
                count: it.miopenConvolutionBackwardWeightsGetSolutionCount,
                find: it.miopenConvolutionBackwardWeightsGetSolution,
                compile: it.miopenConvolutionBackwardWeightsCompileSolution,
                compute: it.miopenConvolutionBackwardWeightsImmediate,
                name: "miopenConvolutionBackwardWeightsImmediate",
            },
        }
    }

    /// Describes a convolution, and compiles the kernel that the library expects to be the fastest.
    fn prepare(&self, handle: Handle, of: &OfRole, sizes: &Sizes) -> Result<Prepared, String> {
        let it = &self.functions;
        let [x, w, y] = [&sizes.x, &sizes.w, &sizes.y].map(|shape| self.tensor(sizes.dtype, shape));
        let (inputs, output) = match sizes.role {
            Role::Forward => ([w?, x?], y?),
            Role::OfInput => ([y?, w?], x?),
            Role::OfWeight => ([y?, x?], w?),
        };
        let convolution = Object::new(
            "miopenCreateConvolutionDescriptor",
            it.miopenCreateConvolutionDescriptor,
            it.miopenDestroyConvolutionDescriptor,
        )?;
        // SAFETY: each list has one number for each spatial axis.
        let made = unsafe {
            (it.miopenInitConvolutionNdDescriptor)(
                convolution.get(),
                sizes.stride.len() as c_int,
                sizes.padding.as_ptr(),
                sizes.stride.as_ptr(),
                sizes.dilation.as_ptr(),
                CONVOLUTION,
            )
        };
        self.checked("miopenInitConvolutionNdDescriptor", made)?;
        // SAFETY: the descriptor is the library's.
        let set = unsafe { (it.miopenSetConvolutionGroupCount)(convolution.get(), sizes.groups) };
        self.checked("miopenSetConvolutionGroupCount", set)?;
        // Sums by atomic additions would differ from run to run, and half numbers may not be rounded to bfloat16 first.
        for (attribute, value) in [(DETERMINISTIC, 1), (ALTERNATIVE_HALF, 0)] {
            // SAFETY: as above.
            let set = unsafe { (it.miopenSetConvolutionAttribute)(convolution.get(), attribute, value) };
            self.checked("miopenSetConvolutionAttribute", set)?;
        }
        let described = Described { inputs, convolution, output };
        let [first, second, of_convolution, to] = described.handles();
        let mut count = 0;
        // SAFETY: the descriptors are the library's, and the pointer is valid for the call.
        let counted = unsafe { (of.count)(handle, first, second, of_convolution, to, &mut count) };
        self.checked("GetSolutionCount", counted)?;
        let mut solutions = vec![Solution::default(); count.clamp(1, MOST)];
        let room = solutions.len();
        // SAFETY: as above; there is room for as many solutions as are asked for.
        let found = unsafe {
            (of.find)(handle, first, second, of_convolution, to, room, &mut count, solutions.as_mut_ptr())
        };
        self.checked("GetSolution", found)?;
        solutions.truncate(count);
        // The fastest is the first.
        solutions.retain(|solution| ![FFT, WINOGRAD].contains(&solution.algorithm));
        let (solution, slower) = self.compiled(handle, of, &described, solutions)?;
        Ok(Prepared { described, solution, slower })
    }

    /// Compiles the kernel of the first solution for which that succeeds; returns those after it, too.
    fn compiled(
        &self,
        handle: Handle,
        of: &OfRole,
        described: &Described,
        solutions: Vec<Solution>,
    ) -> Result<(Solution, Vec<Solution>), String> {
        let [first, second, convolution, to] = described.handles();
        let mut problem = "it offers no kernel that adds products".to_owned();
        let mut rest = solutions.into_iter();
        while let Some(solution) = rest.next() {
            // SAFETY: the descriptors are the library's, and the number is that of a solution for them.
            let compiled = unsafe { (of.compile)(handle, first, second, convolution, to, solution.id) };
            match self.checked("CompileSolution", compiled) {
                Ok(()) => return Ok((solution, rest.collect())),
                Err(error) => problem = format!("{error} for solution {}", solution.id),
            }
        }
        Err(problem)
    }

    /// Describes a tensor without gaps.
    fn tensor(&self, dtype: DType, shape: &[c_int]) -> Result<Object, String> {
        let it = &self.functions;
        let made = Object::new(
            "miopenCreateTensorDescriptor",
            it.miopenCreateTensorDescriptor,
            it.miopenDestroyTensorDescriptor,
        )?;
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        // SAFETY: both lists have as many numbers as the call says.
        let set = unsafe {
            (it.miopenSetTensorDescriptor)(
                made.get(),
                type_of(dtype),
                shape.len() as c_int,
                shape.as_ptr(),
                strides.as_ptr(),
            )
        };
        self.checked("miopenSetTensorDescriptor", set)?;
        Ok(made)
    }

    /// The error of a status, with the library's own words.
    fn checked(&self, call: &str, status: c_int) -> Result<(), String> {
        succeeded(call, status).map_err(|error| {
            // SAFETY: the function takes any number and returns a text that is never freed.
            let text = unsafe { (self.functions.miopenGetErrorString)(status) };
            if text.is_null() {
                return error;
            }
            // SAFETY: the library's texts end with a zero.
            format!("{error} ({})", unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy())
        })
    }
}

impl Drop for MiOpen {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.known.clear();
        // With the handle go the kernels, which may still run.
        if self.stream.synchronize().is_ok() {
            // A failure cannot be reported from drop.
            // SAFETY: the handle is the library's, and not used afterwards.
            unsafe { (self.functions.miopenDestroy)(state.handle as Handle) };
        }
    }
}

fn succeeded(call: &str, status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{call} returned status {status}")) }
}

/// The number of a type in `miopenDataType_t`.
fn type_of(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 0,
        DType::BF16 => 5,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hip_api::types::{hipError_t, hipErrorOutOfMemory, hipStream_t, hipSuccess};
    use tensor_core::layout::Layout;
    use tensor_core::step::{Fused, Operand, Step, Work};

    use super::*;
    use crate::library::Library;
    use crate::memory::Imaginary;

    /// How often the library without a compiler was asked to compile a kernel.
    static TRIED: AtomicUsize = AtomicUsize::new(0);
    /// The sum of the numbers of the solutions that were computed.
    static COMPUTED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn select(_: c_int) -> hipError_t {
        hipSuccess
    }

    extern "C" fn synchronize(_: hipStream_t) -> hipError_t {
        hipSuccess
    }

    extern "C" fn allocate(_: *mut *mut c_void, _: usize) -> hipError_t {
        hipErrorOutOfMemory
    }

    extern "C" fn create_stream(_: *mut hipStream_t, _: u32) -> hipError_t {
        hipSuccess
    }

    extern "C" fn text(_: c_int) -> *const c_char {
        c"no compiler".as_ptr()
    }

    extern "C" fn create_handle(_: *mut Handle, _: *mut c_void) -> c_int {
        0
    }

    extern "C" fn create(_: *mut Handle) -> c_int {
        0
    }

    extern "C" fn destroy(_: Handle) -> c_int {
        0
    }

    extern "C" fn set_tensor(_: Handle, _: c_int, _: c_int, _: *const c_int, _: *const c_int) -> c_int {
        0
    }

    extern "C" fn set_convolution(
        _: Handle,
        _: c_int,
        _: *const c_int,
        _: *const c_int,
        _: *const c_int,
        _: c_int,
    ) -> c_int {
        0
    }

    extern "C" fn set_groups(_: Handle, _: c_int) -> c_int {
        0
    }

    extern "C" fn set_attribute(_: Handle, _: c_int, _: c_int) -> c_int {
        0
    }

    unsafe extern "C" fn count(
        _: Handle,
        _: Handle,
        _: Handle,
        _: Handle,
        _: Handle,
        to: *mut usize,
    ) -> c_int {
        // SAFETY: the caller gives a valid pointer.
        unsafe { *to = 2 };
        0
    }

    unsafe extern "C" fn find(
        _: Handle,
        _: Handle,
        _: Handle,
        _: Handle,
        _: Handle,
        _: usize,
        found: *mut usize,
        to: *mut Solution,
    ) -> c_int {
        // SAFETY: the caller gives valid pointers, with room for two solutions.
        unsafe {
            *found = 2;
            *to = Solution { id: 1, workspace: 1 << 40, ..Solution::default() };
            *to.add(1) = Solution { id: 2, ..Solution::default() };
        }
        0
    }

    extern "C" fn compile(_: Handle, _: Handle, _: Handle, _: Handle, _: Handle, _: u64) -> c_int {
        0
    }

    extern "C" fn compile_nothing(_: Handle, _: Handle, _: Handle, _: Handle, _: Handle, _: u64) -> c_int {
        TRIED.fetch_add(1, Ordering::Relaxed);
        7
    }

    extern "C" fn compute(
        _: Handle,
        _: Handle,
        _: *const c_void,
        _: Handle,
        _: *const c_void,
        _: Handle,
        _: Handle,
        _: *mut c_void,
        _: *mut c_void,
        _: usize,
        solution: u64,
    ) -> c_int {
        COMPUTED.fetch_add(solution as usize, Ordering::Relaxed);
        0
    }

    /// A library that finds two solutions for every convolution: one that needs a workspace, and one without.
    fn library(compile: Compile) -> (MiOpen, Arc<MemoryPool>) {
        // SAFETY: these functions have the types of HIP's.
        let runtime = unsafe {
            Library::of(|name| match name.to_bytes() {
                b"hipSetDevice" => select as *mut c_void,
                b"hipStreamCreateWithFlags" => create_stream as *mut c_void,
                b"hipStreamSynchronize" => synchronize as *mut c_void,
                b"hipMalloc" => allocate as *mut c_void,
                _ => std::ptr::null_mut(),
            })
        };
        let stream = Arc::new(Stream::create(Arc::new(runtime), 0).unwrap());
        let functions = Functions {
            miopenGetErrorString: text,
            miopenCreateWithStream: create_handle,
            miopenDestroy: destroy,
            miopenCreateTensorDescriptor: create,
            miopenSetTensorDescriptor: set_tensor,
            miopenDestroyTensorDescriptor: destroy,
            miopenCreateConvolutionDescriptor: create,
            miopenInitConvolutionNdDescriptor: set_convolution,
            miopenSetConvolutionGroupCount: set_groups,
            miopenSetConvolutionAttribute: set_attribute,
            miopenDestroyConvolutionDescriptor: destroy,
            miopenConvolutionForwardGetSolutionCount: count,
            miopenConvolutionForwardGetSolution: find,
            miopenConvolutionForwardCompileSolution: compile,
            miopenConvolutionForwardImmediate: compute,
            miopenConvolutionBackwardDataGetSolutionCount: count,
            miopenConvolutionBackwardDataGetSolution: find,
            miopenConvolutionBackwardDataCompileSolution: compile,
            miopenConvolutionBackwardDataImmediate: compute,
            miopenConvolutionBackwardWeightsGetSolutionCount: count,
            miopenConvolutionBackwardWeightsGetSolution: find,
            miopenConvolutionBackwardWeightsCompileSolution: compile,
            miopenConvolutionBackwardWeightsImmediate: compute,
        };
        let state = Mutex::new(State { handle: 0, known: HashMap::new() });
        let pool = MemoryPool::new(stream.clone());
        (MiOpen { functions, state, stream }, pool)
    }

    fn gradient() -> Step {
        let operand = |shape: &[usize]| Operand {
            buffer: Arc::new(Imaginary(4096)),
            layout: Layout::contiguous(shape),
            dtype: DType::F16,
        };
        let [stride, padding, dilation] = [1, 0, 1].map(|number| [number; 2].into_iter().collect());
        Step {
            work: Work::Fused(Fused::ConvolutionGradient { stride, padding, dilation, groups: 1 }),
            inputs: vec![operand(&[1, 4, 6, 6]), operand(&[4, 2, 3, 3])],
            outputs: vec![operand(&[1, 2, 8, 8])],
        }
    }

    #[test]
    fn a_convolution_that_cannot_be_compiled_is_tried_once() {
        let (miopen, pool) = library(compile_nothing);
        let step = gradient();
        let call = Call::of(&step).unwrap();
        for _ in 0..3 {
            let problem = miopen.convolve(&call, &pool, 0).unwrap_err().to_string();
            assert!(problem.contains("CompileSolution returned status 7 (no compiler)"), "{problem}");
        }
        // Each of two solutions.
        assert_eq!(TRIED.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn without_memory_for_a_workspace_a_solution_that_needs_none_is_taken() {
        let (miopen, pool) = library(compile);
        let step = gradient();
        let call = Call::of(&step).unwrap();
        assert!(miopen.convolve(&call, &pool, 0).unwrap().is_none());
        assert_eq!(COMPUTED.load(Ordering::Relaxed), 2, "the second solution");
    }

    #[test]
    fn a_solution_has_the_layout_of_the_library_s() {
        assert_eq!(size_of::<Solution>(), 32);
        let offsets = [
            std::mem::offset_of!(Solution, time),
            std::mem::offset_of!(Solution, workspace),
            std::mem::offset_of!(Solution, id),
            std::mem::offset_of!(Solution, algorithm),
        ];
        assert_eq!(offsets, [0, 8, 16, 24]);
    }
}
