//! The HIP function table: one row for every function that AMD's libamdhip64.so.5, .6 or .7 exports.
//!
//! Format of a row:
//!
//! ```text
//! [number "version node" (sonames) class] fn symbol(argument: Type, ...) -> Return;
//! ```
//!
//! - *number*: the function's permanent opcode. It is AMD's own slot in `HipDispatchTable`, which is append-only;
//!   the compiler's table starts at 0x8000, the run-time compiler at 0x9000, other exports at 0xa000.
//! - *version node*: the ELF symbol version, the same in every library that exports the function.
//! - *sonames*: which of libamdhip64.so.5, .6 and .7 export it.
//! - *class*: how it is forwarded. `local` is answered in the client without network traffic, `post` is sent without
//!   waiting for a reply, `call` waits for one reply, `absent` is exported and returns hipErrorNotSupported.
//! - *symbol*: the name of the export, and of the Rust function that implements it.
//!
//! The signature is that of the HIP 7 header if it declares the function; a test compares it with the vendor's header.
//! Exports, opcodes, tracing, version scripts and the coverage page are all generated from these rows.

/// Passes all rows to `callback!` in one invocation, grouped by family:
///
/// ```text
/// family { [number "node" (sonames) class] fn symbol(argument: Type, ...) -> Return; ... } ...
/// ```
///
/// The types are in [`hip_api::types`](crate::types); import them where the macro is used.
///
/// ```
/// macro_rules! count {
///     ($($family:ident { $(
///         [$number:literal $node:literal ($($soname:literal)*) $class:ident]
///         fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
///     )* })*) => {
///         const COUNT: usize = [$($(stringify!($name)),*),*].len();
///     };
/// }
/// hip_api::for_each_hip_fn! { count }
/// assert_eq!(COUNT, hip_api::TABLE.len());
/// ```
#[macro_export]
macro_rules! for_each_hip_fn {
    ($($callback:tt)+) => {
        $($callback)+! {
            // Devices: enumeration, properties, attributes, limits, peers, versions.
            device {
                [0x000b "hip_4.2" (5 6 7) local] fn hipChooseDevice(
                    device: *mut c_int, prop: *const hipDeviceProp_tR0000) -> hipError_t;
                [0x000c "hip_4.2" (6 7) local] fn hipChooseDeviceR0000(
                    device: *mut c_int, prop: *const hipDeviceProp_tR0000) -> hipError_t;
                [0xa002 "hip_6.0" (6 7) local] fn hipChooseDeviceR0600(
                    device: *mut c_int, prop: *const hipDeviceProp_tR0600) -> hipError_t;
                [0x0024 "hip_4.2" (5 6 7) local] fn hipDeviceCanAccessPeer(
                    canAccessPeer: *mut c_int, deviceId: c_int, peerDeviceId: c_int) -> hipError_t;
                [0x0025 "hip_4.2" (5 6 7) local] fn hipDeviceComputeCapability(
                    major: *mut c_int, minor: *mut c_int, device: hipDevice_t) -> hipError_t;
                [0x0026 "hip_4.2" (5 6 7) local] fn hipDeviceDisablePeerAccess(
                    peerDeviceId: c_int) -> hipError_t;
                [0x0027 "hip_4.2" (5 6 7) local] fn hipDeviceEnablePeerAccess(
                    peerDeviceId: c_int, flags: c_uint) -> hipError_t;
                [0x0028 "hip_4.2" (5 6 7) local] fn hipDeviceGet(
                    device: *mut hipDevice_t, ordinal: c_int) -> hipError_t;
                [0x0029 "hip_4.2" (5 6 7) local] fn hipDeviceGetAttribute(
                    pi: *mut c_int, attr: hipDeviceAttribute_t, deviceId: c_int) -> hipError_t;
                [0x002a "hip_4.2" (5 6 7) local] fn hipDeviceGetByPCIBusId(
                    device: *mut c_int, pciBusId: *const c_char) -> hipError_t;
                [0x002b "hip_4.2" (5 6 7) local] fn hipDeviceGetCacheConfig(
                    cacheConfig: *mut hipFuncCache_t) -> hipError_t;
                [0x002e "hip_4.2" (5 6 7) local] fn hipDeviceGetLimit(
                    pValue: *mut usize, limit: hipLimit_t) -> hipError_t;
                [0x0030 "hip_4.2" (5 6 7) local] fn hipDeviceGetName(
                    name: *mut c_char, len: c_int, device: hipDevice_t) -> hipError_t;
                [0x0031 "hip_4.2" (5 6 7) local] fn hipDeviceGetP2PAttribute(
                    value: *mut c_int, attr: hipDeviceP2PAttr, srcDevice: c_int,
                    dstDevice: c_int) -> hipError_t;
                [0x0032 "hip_4.2" (5 6 7) local] fn hipDeviceGetPCIBusId(
                    pciBusId: *mut c_char, len: c_int, device: c_int) -> hipError_t;
                [0x0033 "hip_4.2" (5 6 7) local] fn hipDeviceGetSharedMemConfig(
                    pConfig: *mut hipSharedMemConfig) -> hipError_t;
                [0x0034 "hip_4.2" (5 6 7) local] fn hipDeviceGetStreamPriorityRange(
                    leastPriority: *mut c_int, greatestPriority: *mut c_int) -> hipError_t;
                [0x0035 "hip_5.1" (5 6 7) local] fn hipDeviceGetUuid(
                    uuid: *mut hipUUID, device: hipDevice_t) -> hipError_t;
                [0x003c "hip_4.2" (5 6 7) call] fn hipDeviceReset() -> hipError_t;
                [0x003d "hip_4.2" (5 6 7) local] fn hipDeviceSetCacheConfig(
                    cacheConfig: hipFuncCache_t) -> hipError_t;
                [0x003f "hip_5.3" (6 7) call] fn hipDeviceSetLimit(
                    limit: hipLimit_t, value: usize) -> hipError_t;
                [0x0041 "hip_4.2" (5 6 7) local] fn hipDeviceSetSharedMemConfig(
                    config: hipSharedMemConfig) -> hipError_t;
                [0x0042 "hip_4.2" (5 6 7) call] fn hipDeviceSynchronize() -> hipError_t;
                [0x0043 "hip_4.2" (5 6 7) local] fn hipDeviceTotalMem(
                    bytes: *mut usize, device: hipDevice_t) -> hipError_t;
                [0x0044 "hip_4.2" (5 6 7) local] fn hipDriverGetVersion(
                    driverVersion: *mut c_int) -> hipError_t;
                [0x0053 "hip_4.2" (5 6 7) call] fn hipExtGetLinkTypeAndHopCount(
                    device1: c_int, device2: c_int, linktype: *mut u32, hopcount: *mut u32) -> hipError_t;
                [0x0066 "hip_4.2" (5 6 7) local] fn hipGetDevice(deviceId: *mut c_int) -> hipError_t;
                [0x0067 "hip_4.2" (5 6 7) local] fn hipGetDeviceCount(count: *mut c_int) -> hipError_t;
                [0x0068 "hip_4.2" (5 6 7) local] fn hipGetDeviceFlags(flags: *mut c_uint) -> hipError_t;
                [0xa001 "hip_4.2" (5 6 7) local] fn hipGetDeviceProperties(
                    prop: *mut hipDeviceProp_tR0000, deviceId: c_int) -> hipError_t;
                [0x006a "hip_4.2" (6 7) local] fn hipGetDevicePropertiesR0000(
                    prop: *mut hipDeviceProp_tR0000, device: c_int) -> hipError_t;
                [0x0069 "hip_6.0" (6 7) local] fn hipGetDevicePropertiesR0600(
                    prop: *mut hipDeviceProp_tR0600, deviceId: c_int) -> hipError_t;
                [0x01eb "hip_7.1" (7) local] fn hipGetDriverEntryPoint(
                    symbol: *const c_char, funcPtr: *mut *mut c_void, flags: u64,
                    driverStatus: *mut hipDriverEntryPointQueryResult) -> hipError_t;
                [0x01ec "hip_7.1" (7) local] fn hipGetDriverEntryPoint_spt(
                    symbol: *const c_char, funcPtr: *mut *mut c_void, flags: u64,
                    status: *mut hipDriverEntryPointQueryResult) -> hipError_t;
                [0x01ba "hip_6.1" (6 7) local] fn hipGetProcAddress(
                    symbol: *const c_char, pfn: *mut *mut c_void, hipVersion: c_int, flags: u64,
                    symbolStatus: *mut hipDriverProcAddressQueryResult) -> hipError_t;
                [0x00ca "hip_4.2" (5 6 7) local] fn hipInit(flags: c_uint) -> hipError_t;
                [0x0146 "hip_4.2" (5 6 7) local] fn hipRuntimeGetVersion(
                    runtimeVersion: *mut c_int) -> hipError_t;
                [0x0147 "hip_4.2" (5 6 7) local] fn hipSetDevice(deviceId: c_int) -> hipError_t;
                [0x0148 "hip_4.2" (5 6 7) local] fn hipSetDeviceFlags(flags: c_uint) -> hipError_t;
                [0x01bd "hip_6.2" (6 7) local] fn hipSetValidDevices(
                    device_arr: *mut c_int, len: c_int) -> hipError_t;
            }
            // Errors: last error, names, texts.
            error {
                [0x0045 "hip_5.3" (6 7) local] fn hipDrvGetErrorName(
                    hipError: hipError_t, errorString: *mut *const c_char) -> hipError_t;
                [0x0046 "hip_5.3" (6 7) local] fn hipDrvGetErrorString(
                    hipError: hipError_t, errorString: *mut *const c_char) -> hipError_t;
                [0x01b7 "hip_6.0" (6 7) local] fn hipExtGetLastError() -> hipError_t;
                [0x006b "hip_4.2" (5 6 7) local] fn hipGetErrorName(hip_error: hipError_t) -> *const c_char;
                [0x006c "hip_4.2" (5 6 7) local] fn hipGetErrorString(hipError: hipError_t) -> *const c_char;
                [0x006d "hip_4.2" (5 6 7) local] fn hipGetLastError() -> hipError_t;
                [0x0140 "hip_4.2" (5 6 7) local] fn hipPeekAtLastError() -> hipError_t;
            }
            // Contexts of the driver-style API.
            context {
                [0x0010 "hip_4.2" (5 6 7) local] fn hipCtxCreate(
                    ctx: *mut hipCtx_t, flags: c_uint, device: hipDevice_t) -> hipError_t;
                [0x0011 "hip_4.2" (5 6 7) local] fn hipCtxDestroy(ctx: hipCtx_t) -> hipError_t;
                [0x0012 "hip_4.2" (5 6 7) local] fn hipCtxDisablePeerAccess(peerCtx: hipCtx_t) -> hipError_t;
                [0x0013 "hip_4.2" (5 6 7) local] fn hipCtxEnablePeerAccess(
                    peerCtx: hipCtx_t, flags: c_uint) -> hipError_t;
                [0x0014 "hip_4.2" (5 6 7) local] fn hipCtxGetApiVersion(
                    ctx: hipCtx_t, apiVersion: *mut c_uint) -> hipError_t;
                [0x0015 "hip_4.2" (5 6 7) local] fn hipCtxGetCacheConfig(
                    cacheConfig: *mut hipFuncCache_t) -> hipError_t;
                [0x0016 "hip_4.2" (5 6 7) local] fn hipCtxGetCurrent(ctx: *mut hipCtx_t) -> hipError_t;
                [0x0017 "hip_4.2" (5 6 7) local] fn hipCtxGetDevice(device: *mut hipDevice_t) -> hipError_t;
                [0x0018 "hip_4.2" (5 6 7) local] fn hipCtxGetFlags(flags: *mut c_uint) -> hipError_t;
                [0x0019 "hip_4.2" (5 6 7) local] fn hipCtxGetSharedMemConfig(
                    pConfig: *mut hipSharedMemConfig) -> hipError_t;
                [0x001a "hip_4.2" (5 6 7) local] fn hipCtxPopCurrent(ctx: *mut hipCtx_t) -> hipError_t;
                [0x001b "hip_4.2" (5 6 7) local] fn hipCtxPushCurrent(ctx: hipCtx_t) -> hipError_t;
                [0x001c "hip_4.2" (5 6 7) local] fn hipCtxSetCacheConfig(
                    cacheConfig: hipFuncCache_t) -> hipError_t;
                [0x001d "hip_4.2" (5 6 7) local] fn hipCtxSetCurrent(ctx: hipCtx_t) -> hipError_t;
                [0x001e "hip_4.2" (5 6 7) local] fn hipCtxSetSharedMemConfig(
                    config: hipSharedMemConfig) -> hipError_t;
                [0x001f "hip_4.2" (5 6 7) call] fn hipCtxSynchronize() -> hipError_t;
                [0x0037 "hip_4.2" (5 6 7) local] fn hipDevicePrimaryCtxGetState(
                    dev: hipDevice_t, flags: *mut c_uint, active: *mut c_int) -> hipError_t;
                [0x0038 "hip_4.2" (5 6 7) local] fn hipDevicePrimaryCtxRelease(
                    dev: hipDevice_t) -> hipError_t;
                [0x0039 "hip_4.2" (5 6 7) call] fn hipDevicePrimaryCtxReset(dev: hipDevice_t) -> hipError_t;
                [0x003a "hip_4.2" (5 6 7) local] fn hipDevicePrimaryCtxRetain(
                    pctx: *mut hipCtx_t, dev: hipDevice_t) -> hipError_t;
                [0x003b "hip_4.2" (5 6 7) local] fn hipDevicePrimaryCtxSetFlags(
                    dev: hipDevice_t, flags: c_uint) -> hipError_t;
            }
            // Memory: device, managed, pinned and registered host memory, pointer queries.
            memory {
                [0x004b "hip_5.0" (5 6 7) local] fn hipDrvPointerGetAttributes(
                    numAttributes: c_uint, attributes: *mut hipPointer_attribute, data: *mut *mut c_void,
                    ptr: hipDeviceptr_t) -> hipError_t;
                [0x0056 "hip_4.2" (5 6 7) post] fn hipExtMallocWithFlags(
                    ptr: *mut *mut c_void, sizeBytes: usize, flags: c_uint) -> hipError_t;
                [0x005a "hip_4.2" (5 6 7) post] fn hipFree(ptr: *mut c_void) -> hipError_t;
                [0x005d "hip_4.2" (5 6 7) call] fn hipFreeHost(ptr: *mut c_void) -> hipError_t;
                [0x00c1 "hip_4.2" (5 6 7) post] fn hipHostAlloc(
                    ptr: *mut *mut c_void, size: usize, flags: c_uint) -> hipError_t;
                [0x00c2 "hip_4.2" (5 6 7) call] fn hipHostFree(ptr: *mut c_void) -> hipError_t;
                [0x00c3 "hip_4.2" (5 6 7) local] fn hipHostGetDevicePointer(
                    devPtr: *mut *mut c_void, hstPtr: *mut c_void, flags: c_uint) -> hipError_t;
                [0x00c4 "hip_4.2" (5 6 7) local] fn hipHostGetFlags(
                    flagsPtr: *mut c_uint, hostPtr: *mut c_void) -> hipError_t;
                [0x00c5 "hip_4.2" (5 6 7) post] fn hipHostMalloc(
                    ptr: *mut *mut c_void, size: usize, flags: c_uint) -> hipError_t;
                [0x00c6 "hip_4.2" (5 6 7) call] fn hipHostRegister(
                    hostPtr: *mut c_void, sizeBytes: usize, flags: c_uint) -> hipError_t;
                [0x00c7 "hip_4.2" (5 6 7) call] fn hipHostUnregister(hostPtr: *mut c_void) -> hipError_t;
                [0x00d7 "hip_4.2" (5 6 7) post] fn hipMalloc(
                    ptr: *mut *mut c_void, size: usize) -> hipError_t;
                [0x00d8 "hip_4.2" (5 6 7) post] fn hipMalloc3D(
                    pitchedDevPtr: *mut hipPitchedPtr, extent: hipExtent) -> hipError_t;
                [0x00dd "hip_4.2" (5 6 7) local] fn hipMallocHost(
                    ptr: *mut *mut c_void, size: usize) -> hipError_t;
                [0x00de "hip_4.2" (5 6 7) post] fn hipMallocManaged(
                    dev_ptr: *mut *mut c_void, size: usize, flags: c_uint) -> hipError_t;
                [0x00e0 "hip_4.2" (5 6 7) post] fn hipMallocPitch(
                    ptr: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) -> hipError_t;
                [0x00e3 "hip_4.2" (5 6 7) local] fn hipMemAdvise(
                    dev_ptr: *const c_void, count: usize, advice: hipMemoryAdvise,
                    device: c_int) -> hipError_t;
                [0x01ee "hip_7.1" (7) local] fn hipMemAdvise_v2(
                    dev_ptr: *const c_void, count: usize, advice: hipMemoryAdvise,
                    location: hipMemLocation) -> hipError_t;
                [0x00e4 "hip_4.2" (5 6 7) post] fn hipMemAllocHost(
                    ptr: *mut *mut c_void, size: usize) -> hipError_t;
                [0x00e5 "hip_4.2" (5 6 7) post] fn hipMemAllocPitch(
                    dptr: *mut hipDeviceptr_t, pitch: *mut usize, widthInBytes: usize, height: usize,
                    elementSizeBytes: c_uint) -> hipError_t;
                [0x00e9 "hip_4.2" (5 6 7) local] fn hipMemGetAddressRange(
                    pbase: *mut hipDeviceptr_t, psize: *mut usize, dptr: hipDeviceptr_t) -> hipError_t;
                [0x00ec "hip_4.2" (5 6 7) call] fn hipMemGetInfo(
                    free: *mut usize, total: *mut usize) -> hipError_t;
                [0x00fb "hip_4.2" (5 6 7) post] fn hipMemPrefetchAsync(
                    dev_ptr: *const c_void, count: usize, device: c_int, stream: hipStream_t) -> hipError_t;
                [0x01ed "hip_7.1" (7) post] fn hipMemPrefetchAsync_v2(
                    dev_ptr: *const c_void, count: usize, location: hipMemLocation, flags: c_uint,
                    stream: hipStream_t) -> hipError_t;
                [0x00fc "hip_4.2" (5 6 7) local] fn hipMemPtrGetInfo(
                    ptr: *mut c_void, size: *mut usize) -> hipError_t;
                [0x00fd "hip_4.2" (5 6 7) local] fn hipMemRangeGetAttribute(
                    data: *mut c_void, data_size: usize, attribute: hipMemRangeAttribute,
                    dev_ptr: *const c_void, count: usize) -> hipError_t;
                [0x00fe "hip_4.2" (5 6 7) local] fn hipMemRangeGetAttributes(
                    data: *mut *mut c_void, data_sizes: *mut usize, attributes: *mut hipMemRangeAttribute,
                    num_attributes: usize, dev_ptr: *const c_void, count: usize) -> hipError_t;
                [0x0141 "hip_5.0" (5 6 7) local] fn hipPointerGetAttribute(
                    data: *mut c_void, attribute: hipPointer_attribute, ptr: hipDeviceptr_t) -> hipError_t;
                [0x0142 "hip_4.2" (5 6 7) local] fn hipPointerGetAttributes(
                    attributes: *mut hipPointerAttribute_t, ptr: *const c_void) -> hipError_t;
                [0x0143 "hip_4.2" (6 7) local] fn hipPointerSetAttribute(
                    value: *const c_void, attribute: hipPointer_attribute, ptr: hipDeviceptr_t) -> hipError_t;
            }
            // Stream-ordered allocation and memory pools.
            pool {
                [0x002c "hip_5.1" (5 6 7) local] fn hipDeviceGetDefaultMemPool(
                    mem_pool: *mut hipMemPool_t, device: c_int) -> hipError_t;
                [0x002f "hip_5.1" (5 6 7) local] fn hipDeviceGetMemPool(
                    mem_pool: *mut hipMemPool_t, device: c_int) -> hipError_t;
                [0x0040 "hip_5.1" (5 6 7) local] fn hipDeviceSetMemPool(
                    device: c_int, mem_pool: hipMemPool_t) -> hipError_t;
                [0x005c "hip_5.1" (5 6 7) post] fn hipFreeAsync(
                    dev_ptr: *mut c_void, stream: hipStream_t) -> hipError_t;
                [0x00db "hip_5.1" (5 6 7) post] fn hipMallocAsync(
                    dev_ptr: *mut *mut c_void, size: usize, stream: hipStream_t) -> hipError_t;
                [0x00dc "hip_5.1" (5 6 7) post] fn hipMallocFromPoolAsync(
                    dev_ptr: *mut *mut c_void, size: usize, mem_pool: hipMemPool_t,
                    stream: hipStream_t) -> hipError_t;
                [0x00f0 "hip_5.1" (5 6 7) local] fn hipMemPoolCreate(
                    mem_pool: *mut hipMemPool_t, pool_props: *const hipMemPoolProps) -> hipError_t;
                [0x00f1 "hip_5.1" (5 6 7) local] fn hipMemPoolDestroy(mem_pool: hipMemPool_t) -> hipError_t;
                [0x00f2 "hip_5.1" (5 6 7) call] fn hipMemPoolExportPointer(
                    export_data: *mut hipMemPoolPtrExportData, dev_ptr: *mut c_void) -> hipError_t;
                [0x00f3 "hip_5.1" (5 6 7) local] fn hipMemPoolExportToShareableHandle(
                    shared_handle: *mut c_void, mem_pool: hipMemPool_t,
                    handle_type: hipMemAllocationHandleType, flags: c_uint) -> hipError_t;
                [0x00f4 "hip_5.1" (5 6 7) local] fn hipMemPoolGetAccess(
                    flags: *mut hipMemAccessFlags, mem_pool: hipMemPool_t,
                    location: *mut hipMemLocation) -> hipError_t;
                [0x00f5 "hip_5.1" (5 6 7) local] fn hipMemPoolGetAttribute(
                    mem_pool: hipMemPool_t, attr: hipMemPoolAttr, value: *mut c_void) -> hipError_t;
                [0x00f6 "hip_5.1" (5 6 7) local] fn hipMemPoolImportFromShareableHandle(
                    mem_pool: *mut hipMemPool_t, shared_handle: *mut c_void,
                    handle_type: hipMemAllocationHandleType, flags: c_uint) -> hipError_t;
                [0x00f7 "hip_5.1" (5 6 7) call] fn hipMemPoolImportPointer(
                    dev_ptr: *mut *mut c_void, mem_pool: hipMemPool_t,
                    export_data: *mut hipMemPoolPtrExportData) -> hipError_t;
                [0x00f8 "hip_5.1" (5 6 7) local] fn hipMemPoolSetAccess(
                    mem_pool: hipMemPool_t, desc_list: *const hipMemAccessDesc, count: usize) -> hipError_t;
                [0x00f9 "hip_5.1" (5 6 7) local] fn hipMemPoolSetAttribute(
                    mem_pool: hipMemPool_t, attr: hipMemPoolAttr, value: *mut c_void) -> hipError_t;
                [0x00fa "hip_5.1" (5 6 7) local] fn hipMemPoolTrimTo(
                    mem_pool: hipMemPool_t, min_bytes_to_hold: usize) -> hipError_t;
            }
            // Copies of linear memory and of device symbols.
            copy {
                [0x0048 "hip_4.3" (5 6 7) call] fn hipDrvMemcpy2DUnaligned(
                    pCopy: *const hip_Memcpy2D) -> hipError_t;
                [0x0049 "hip_4.2" (5 6 7) call] fn hipDrvMemcpy3D(pCopy: *const HIP_MEMCPY3D) -> hipError_t;
                [0x004a "hip_4.2" (5 6 7) post] fn hipDrvMemcpy3DAsync(
                    pCopy: *const HIP_MEMCPY3D, stream: hipStream_t) -> hipError_t;
                [0x006f "hip_4.2" (5 6 7) post] fn hipGetSymbolAddress(
                    devPtr: *mut *mut c_void, symbol: *const c_void) -> hipError_t;
                [0x0070 "hip_4.2" (5 6 7) local] fn hipGetSymbolSize(
                    size: *mut usize, symbol: *const c_void) -> hipError_t;
                [0x0103 "hip_4.2" (5 6 7) call] fn hipMemcpy(
                    dst: *mut c_void, src: *const c_void, sizeBytes: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x0104 "hip_4.2" (5 6 7) call] fn hipMemcpy2D(
                    dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                    height: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0105 "hip_4.2" (5 6 7) post] fn hipMemcpy2DAsync(
                    dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                    height: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x0194 "hip_5.3" (6 7) post] fn hipMemcpy2DAsync_spt(
                    dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                    height: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x0189 "hip_5.2" (5 6 7) call] fn hipMemcpy2D_spt(
                    dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                    height: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x010a "hip_4.2" (5 6 7) call] fn hipMemcpy3D(p: *const hipMemcpy3DParms) -> hipError_t;
                [0x010b "hip_4.2" (5 6 7) post] fn hipMemcpy3DAsync(
                    p: *const hipMemcpy3DParms, stream: hipStream_t) -> hipError_t;
                [0x0193 "hip_5.3" (6 7) post] fn hipMemcpy3DAsync_spt(
                    p: *const hipMemcpy3DParms, stream: hipStream_t) -> hipError_t;
                [0x01e8 "hip_7.1" (7) post] fn hipMemcpy3DBatchAsync(
                    numOps: usize, opList: *mut hipMemcpy3DBatchOp, failIdx: *mut usize, flags: u64,
                    stream: hipStream_t) -> hipError_t;
                [0x01e9 "hip_7.1" (7) post] fn hipMemcpy3DPeer(p: *mut hipMemcpy3DPeerParms) -> hipError_t;
                [0x01ea "hip_7.1" (7) post] fn hipMemcpy3DPeerAsync(
                    p: *mut hipMemcpy3DPeerParms, stream: hipStream_t) -> hipError_t;
                [0x018b "hip_5.2" (5 6 7) call] fn hipMemcpy3D_spt(
                    p: *const hipMemcpy3DParms) -> hipError_t;
                [0x010c "hip_4.2" (5 6 7) post] fn hipMemcpyAsync(
                    dst: *mut c_void, src: *const c_void, sizeBytes: usize, kind: hipMemcpyKind,
                    stream: hipStream_t) -> hipError_t;
                [0x0192 "hip_5.2" (5 6 7) post] fn hipMemcpyAsync_spt(
                    dst: *mut c_void, src: *const c_void, sizeBytes: usize, kind: hipMemcpyKind,
                    stream: hipStream_t) -> hipError_t;
                [0x01e7 "hip_7.1" (7) post] fn hipMemcpyBatchAsync(
                    dsts: *mut *mut c_void, srcs: *mut *mut c_void, sizes: *mut usize, count: usize,
                    attrs: *mut hipMemcpyAttributes, attrsIdxs: *mut usize, numAttrs: usize,
                    failIdx: *mut usize, stream: hipStream_t) -> hipError_t;
                [0x010e "hip_4.2" (5 6 7) post] fn hipMemcpyDtoD(
                    dst: hipDeviceptr_t, src: hipDeviceptr_t, sizeBytes: usize) -> hipError_t;
                [0x010f "hip_4.2" (5 6 7) post] fn hipMemcpyDtoDAsync(
                    dst: hipDeviceptr_t, src: hipDeviceptr_t, sizeBytes: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x0110 "hip_4.2" (5 6 7) call] fn hipMemcpyDtoH(
                    dst: *mut c_void, src: hipDeviceptr_t, sizeBytes: usize) -> hipError_t;
                [0x0111 "hip_4.2" (5 6 7) post] fn hipMemcpyDtoHAsync(
                    dst: *mut c_void, src: hipDeviceptr_t, sizeBytes: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x0113 "hip_4.2" (5 6 7) call] fn hipMemcpyFromSymbol(
                    dst: *mut c_void, symbol: *const c_void, sizeBytes: usize, offset: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x0114 "hip_4.2" (5 6 7) post] fn hipMemcpyFromSymbolAsync(
                    dst: *mut c_void, symbol: *const c_void, sizeBytes: usize, offset: usize,
                    kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x0195 "hip_5.3" (6 7) post] fn hipMemcpyFromSymbolAsync_spt(
                    dst: *mut c_void, symbol: *const c_void, sizeBytes: usize, offset: usize,
                    kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x0188 "hip_5.2" (5 6 7) call] fn hipMemcpyFromSymbol_spt(
                    dst: *mut c_void, symbol: *const c_void, sizeBytes: usize, offset: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x0116 "hip_4.2" (5 6 7) call] fn hipMemcpyHtoD(
                    dst: hipDeviceptr_t, src: *const c_void, sizeBytes: usize) -> hipError_t;
                [0x0117 "hip_4.2" (5 6 7) post] fn hipMemcpyHtoDAsync(
                    dst: hipDeviceptr_t, src: *const c_void, sizeBytes: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x0118 "hip_4.2" (5 6 7) call] fn hipMemcpyParam2D(pCopy: *const hip_Memcpy2D) -> hipError_t;
                [0x0119 "hip_4.2" (5 6 7) post] fn hipMemcpyParam2DAsync(
                    pCopy: *const hip_Memcpy2D, stream: hipStream_t) -> hipError_t;
                [0x011a "hip_4.2" (5 6 7) post] fn hipMemcpyPeer(
                    dst: *mut c_void, dstDeviceId: c_int, src: *const c_void, srcDeviceId: c_int,
                    sizeBytes: usize) -> hipError_t;
                [0x011b "hip_4.2" (5 6 7) post] fn hipMemcpyPeerAsync(
                    dst: *mut c_void, dstDeviceId: c_int, src: *const c_void, srcDevice: c_int,
                    sizeBytes: usize, stream: hipStream_t) -> hipError_t;
                [0x011d "hip_4.2" (5 6 7) call] fn hipMemcpyToSymbol(
                    symbol: *const c_void, src: *const c_void, sizeBytes: usize, offset: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x011e "hip_4.2" (5 6 7) post] fn hipMemcpyToSymbolAsync(
                    symbol: *const c_void, src: *const c_void, sizeBytes: usize, offset: usize,
                    kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x0196 "hip_5.3" (6 7) post] fn hipMemcpyToSymbolAsync_spt(
                    symbol: *const c_void, src: *const c_void, sizeBytes: usize, offset: usize,
                    kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x0187 "hip_5.2" (5 6 7) call] fn hipMemcpyToSymbol_spt(
                    symbol: *const c_void, src: *const c_void, sizeBytes: usize, offset: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x011f "hip_4.2" (5 6 7) call] fn hipMemcpyWithStream(
                    dst: *mut c_void, src: *const c_void, sizeBytes: usize, kind: hipMemcpyKind,
                    stream: hipStream_t) -> hipError_t;
                [0x0186 "hip_5.2" (5 6 7) call] fn hipMemcpy_spt(
                    dst: *mut c_void, src: *const c_void, sizeBytes: usize,
                    kind: hipMemcpyKind) -> hipError_t;
            }
            // Fills.
            memset {
                [0x0120 "hip_4.2" (5 6 7) post] fn hipMemset(
                    dst: *mut c_void, value: c_int, sizeBytes: usize) -> hipError_t;
                [0x0121 "hip_4.2" (5 6 7) post] fn hipMemset2D(
                    dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> hipError_t;
                [0x0122 "hip_4.2" (5 6 7) post] fn hipMemset2DAsync(
                    dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x018f "hip_5.3" (6 7) post] fn hipMemset2DAsync_spt(
                    dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x018e "hip_5.2" (5 6 7) post] fn hipMemset2D_spt(
                    dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> hipError_t;
                [0x0123 "hip_4.2" (5 6 7) post] fn hipMemset3D(
                    pitchedDevPtr: hipPitchedPtr, value: c_int, extent: hipExtent) -> hipError_t;
                [0x0124 "hip_4.2" (5 6 7) post] fn hipMemset3DAsync(
                    pitchedDevPtr: hipPitchedPtr, value: c_int, extent: hipExtent,
                    stream: hipStream_t) -> hipError_t;
                [0x0190 "hip_5.3" (6 7) post] fn hipMemset3DAsync_spt(
                    pitchedDevPtr: hipPitchedPtr, value: c_int, extent: hipExtent,
                    stream: hipStream_t) -> hipError_t;
                [0x0191 "hip_5.2" (5 6 7) post] fn hipMemset3D_spt(
                    pitchedDevPtr: hipPitchedPtr, value: c_int, extent: hipExtent) -> hipError_t;
                [0x0125 "hip_4.2" (5 6 7) post] fn hipMemsetAsync(
                    dst: *mut c_void, value: c_int, sizeBytes: usize, stream: hipStream_t) -> hipError_t;
                [0x018d "hip_5.3" (6 7) post] fn hipMemsetAsync_spt(
                    dst: *mut c_void, value: c_int, sizeBytes: usize, stream: hipStream_t) -> hipError_t;
                [0x0126 "hip_4.2" (5 6 7) post] fn hipMemsetD16(
                    dest: hipDeviceptr_t, value: u16, count: usize) -> hipError_t;
                [0x0127 "hip_4.2" (5 6 7) post] fn hipMemsetD16Async(
                    dest: hipDeviceptr_t, value: u16, count: usize, stream: hipStream_t) -> hipError_t;
                [0x01e0 "hip_7.1" (7) post] fn hipMemsetD2D16(
                    dst: hipDeviceptr_t, dstPitch: usize, value: u16, width: usize,
                    height: usize) -> hipError_t;
                [0x01e1 "hip_7.1" (7) post] fn hipMemsetD2D16Async(
                    dst: hipDeviceptr_t, dstPitch: usize, value: u16, width: usize, height: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x01e2 "hip_7.1" (7) post] fn hipMemsetD2D32(
                    dst: hipDeviceptr_t, dstPitch: usize, value: c_uint, width: usize,
                    height: usize) -> hipError_t;
                [0x01e3 "hip_7.1" (7) post] fn hipMemsetD2D32Async(
                    dst: hipDeviceptr_t, dstPitch: usize, value: c_uint, width: usize, height: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x01de "hip_7.1" (7) post] fn hipMemsetD2D8(
                    dst: hipDeviceptr_t, dstPitch: usize, value: u8, width: usize,
                    height: usize) -> hipError_t;
                [0x01df "hip_7.1" (7) post] fn hipMemsetD2D8Async(
                    dst: hipDeviceptr_t, dstPitch: usize, value: u8, width: usize, height: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x0128 "hip_4.2" (5 6 7) post] fn hipMemsetD32(
                    dest: hipDeviceptr_t, value: c_int, count: usize) -> hipError_t;
                [0x0129 "hip_4.2" (5 6 7) post] fn hipMemsetD32Async(
                    dst: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t) -> hipError_t;
                [0x012a "hip_4.2" (5 6 7) post] fn hipMemsetD8(
                    dest: hipDeviceptr_t, value: u8, count: usize) -> hipError_t;
                [0x012b "hip_4.2" (5 6 7) post] fn hipMemsetD8Async(
                    dest: hipDeviceptr_t, value: u8, count: usize, stream: hipStream_t) -> hipError_t;
                [0x018c "hip_5.2" (5 6 7) post] fn hipMemset_spt(
                    dst: *mut c_void, value: c_int, sizeBytes: usize) -> hipError_t;
            }
            // Streams and the work ordered by them.
            stream {
                [0x0057 "hip_4.2" (5 6 7) post] fn hipExtStreamCreateWithCUMask(
                    stream: *mut hipStream_t, cuMaskSize: u32, cuMask: *const u32) -> hipError_t;
                [0x0058 "hip_4.2" (5 6 7) local] fn hipExtStreamGetCUMask(
                    stream: hipStream_t, cuMaskSize: u32, cuMask: *mut u32) -> hipError_t;
                [0x01ab "hip_4.2" (5 6 7) local] fn hipGetStreamDeviceId(stream: hipStream_t) -> c_int;
                [0x014b "hip_4.2" (5 6 7) post] fn hipStreamAddCallback(
                    stream: hipStream_t, callback: hipStreamCallback_t, userData: *mut c_void,
                    flags: c_uint) -> hipError_t;
                [0x01a0 "hip_5.3" (6 7) post] fn hipStreamAddCallback_spt(
                    stream: hipStream_t, callback: hipStreamCallback_t, userData: *mut c_void,
                    flags: c_uint) -> hipError_t;
                [0x014c "hip_4.2" (5 6 7) local] fn hipStreamAttachMemAsync(
                    stream: hipStream_t, dev_ptr: *mut c_void, length: usize, flags: c_uint) -> hipError_t;
                [0x01cf "hip_6.4" (6 7) post] fn hipStreamBatchMemOp(
                    stream: hipStream_t, count: c_uint, paramArray: *mut hipStreamBatchMemOpParams,
                    flags: c_uint) -> hipError_t;
                [0x01f5 "hip_7.2" (7) local] fn hipStreamCopyAttributes(
                    dst: hipStream_t, src: hipStream_t) -> hipError_t;
                [0x014e "hip_4.2" (5 6 7) post] fn hipStreamCreate(stream: *mut hipStream_t) -> hipError_t;
                [0x014f "hip_4.2" (5 6 7) post] fn hipStreamCreateWithFlags(
                    stream: *mut hipStream_t, flags: c_uint) -> hipError_t;
                [0x0150 "hip_4.2" (5 6 7) post] fn hipStreamCreateWithPriority(
                    stream: *mut hipStream_t, flags: c_uint, priority: c_int) -> hipError_t;
                [0x0151 "hip_4.2" (5 6 7) post] fn hipStreamDestroy(stream: hipStream_t) -> hipError_t;
                [0x01e4 "hip_7.1" (7) local] fn hipStreamGetAttribute(
                    stream: hipStream_t, attr: hipLaunchAttributeID,
                    value_out: *mut hipLaunchAttributeValue) -> hipError_t;
                [0x0155 "hip_4.2" (6 7) local] fn hipStreamGetDevice(
                    stream: hipStream_t, device: *mut hipDevice_t) -> hipError_t;
                [0x0156 "hip_4.2" (5 6 7) local] fn hipStreamGetFlags(
                    stream: hipStream_t, flags: *mut c_uint) -> hipError_t;
                [0x019f "hip_5.2" (5 6 7) local] fn hipStreamGetFlags_spt(
                    stream: hipStream_t, flags: *mut c_uint) -> hipError_t;
                [0x01ef "hip_7.1" (7) local] fn hipStreamGetId(
                    stream: hipStream_t, streamId: *mut u64) -> hipError_t;
                [0x0157 "hip_4.2" (5 6 7) local] fn hipStreamGetPriority(
                    stream: hipStream_t, priority: *mut c_int) -> hipError_t;
                [0x019d "hip_5.2" (5 6 7) local] fn hipStreamGetPriority_spt(
                    stream: hipStream_t, priority: *mut c_int) -> hipError_t;
                [0x0158 "hip_4.3" (5 6 7) local] fn hipStreamIsCapturing(
                    stream: hipStream_t, pCaptureStatus: *mut hipStreamCaptureStatus) -> hipError_t;
                [0x01a7 "hip_5.3" (6 7) local] fn hipStreamIsCapturing_spt(
                    stream: hipStream_t, pCaptureStatus: *mut hipStreamCaptureStatus) -> hipError_t;
                [0x0159 "hip_4.2" (5 6 7) call] fn hipStreamQuery(stream: hipStream_t) -> hipError_t;
                [0x019b "hip_5.2" (5 6 7) call] fn hipStreamQuery_spt(stream: hipStream_t) -> hipError_t;
                [0x01e5 "hip_7.1" (7) local] fn hipStreamSetAttribute(
                    stream: hipStream_t, attr: hipLaunchAttributeID,
                    value: *const hipLaunchAttributeValue) -> hipError_t;
                [0x015a "hip_4.2" (5 6 7) call] fn hipStreamSynchronize(stream: hipStream_t) -> hipError_t;
                [0x019c "hip_5.2" (5 6 7) call] fn hipStreamSynchronize_spt(
                    stream: hipStream_t) -> hipError_t;
                [0x015c "hip_4.2" (5 6 7) post] fn hipStreamWaitEvent(
                    stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> hipError_t;
                [0x019e "hip_5.2" (5 6 7) post] fn hipStreamWaitEvent_spt(
                    stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> hipError_t;
                [0x015d "hip_4.4" (5 6 7) post] fn hipStreamWaitValue32(
                    stream: hipStream_t, ptr: *mut c_void, value: u32, flags: c_uint,
                    mask: u32) -> hipError_t;
                [0x015e "hip_4.4" (5 6 7) post] fn hipStreamWaitValue64(
                    stream: hipStream_t, ptr: *mut c_void, value: u64, flags: c_uint,
                    mask: u64) -> hipError_t;
                [0x015f "hip_4.4" (5 6 7) post] fn hipStreamWriteValue32(
                    stream: hipStream_t, ptr: *mut c_void, value: u32, flags: c_uint) -> hipError_t;
                [0x0160 "hip_4.4" (5 6 7) post] fn hipStreamWriteValue64(
                    stream: hipStream_t, ptr: *mut c_void, value: u64, flags: c_uint) -> hipError_t;
            }
            // Events.
            event {
                [0x004c "hip_4.2" (5 6 7) post] fn hipEventCreate(event: *mut hipEvent_t) -> hipError_t;
                [0x004d "hip_4.2" (5 6 7) post] fn hipEventCreateWithFlags(
                    event: *mut hipEvent_t, flags: c_uint) -> hipError_t;
                [0x004e "hip_4.2" (5 6 7) post] fn hipEventDestroy(event: hipEvent_t) -> hipError_t;
                [0x004f "hip_4.2" (5 6 7) call] fn hipEventElapsedTime(
                    ms: *mut f32, start: hipEvent_t, stop: hipEvent_t) -> hipError_t;
                [0x0050 "hip_4.2" (5 6 7) call] fn hipEventQuery(event: hipEvent_t) -> hipError_t;
                [0x0051 "hip_4.2" (5 6 7) post] fn hipEventRecord(
                    event: hipEvent_t, stream: hipStream_t) -> hipError_t;
                [0x01d9 "hip_6.4" (6 7) post] fn hipEventRecordWithFlags(
                    event: hipEvent_t, stream: hipStream_t, flags: c_uint) -> hipError_t;
                [0x01a1 "hip_5.2" (6 7) post] fn hipEventRecord_spt(
                    event: hipEvent_t, stream: hipStream_t) -> hipError_t;
                [0x0052 "hip_4.2" (5 6 7) call] fn hipEventSynchronize(event: hipEvent_t) -> hipError_t;
            }
            // Modules: code objects loaded at run time.
            module {
                [0x012f "hip_4.2" (5 6 7) post] fn hipModuleGetFunction(
                    function: *mut hipFunction_t, module: hipModule_t, kname: *const c_char) -> hipError_t;
                [0x01dd "hip_7.1" (7) local] fn hipModuleGetFunctionCount(
                    count: *mut c_uint, mod_: hipModule_t) -> hipError_t;
                [0x0130 "hip_4.2" (5 6 7) call] fn hipModuleGetGlobal(
                    dptr: *mut hipDeviceptr_t, bytes: *mut usize, hmod: hipModule_t,
                    name: *const c_char) -> hipError_t;
                [0x0135 "hip_4.2" (5 6 7) post] fn hipModuleLoad(
                    module: *mut hipModule_t, fname: *const c_char) -> hipError_t;
                [0x0136 "hip_4.2" (5 6 7) post] fn hipModuleLoadData(
                    module: *mut hipModule_t, image: *const c_void) -> hipError_t;
                [0x0137 "hip_4.2" (5 6 7) post] fn hipModuleLoadDataEx(
                    module: *mut hipModule_t, image: *const c_void, numOptions: c_uint,
                    options: *mut hipJitOption, optionValues: *mut *mut c_void) -> hipError_t;
                [0x01e6 "hip_7.1" (7) post] fn hipModuleLoadFatBinary(
                    module: *mut hipModule_t, fatbin: *const c_void) -> hipError_t;
                [0x013c "hip_4.2" (5 6 7) post] fn hipModuleUnload(module: hipModule_t) -> hipError_t;
            }
            // Kernels: launch and function attributes.
            launch {
                [0x000d "hip_4.2" (5 6 7) local] fn hipConfigureCall(
                    gridDim: dim3, blockDim: dim3, sharedMem: usize, stream: hipStream_t) -> hipError_t;
                [0x01db "hip_6.5" (7) post] fn hipDrvLaunchKernelEx(
                    config: *const HIP_LAUNCH_CONFIG, f: hipFunction_t, params: *mut *mut c_void,
                    extra: *mut *mut c_void) -> hipError_t;
                [0x0054 "hip_4.2" (5 6 7) post] fn hipExtLaunchKernel(
                    function_address: *const c_void, numBlocks: dim3, dimBlocks: dim3, args: *mut *mut c_void,
                    sharedMemBytes: usize, stream: hipStream_t, startEvent: hipEvent_t, stopEvent: hipEvent_t,
                    flags: c_int) -> hipError_t;
                [0x0055 "hip_4.2" (5 6 7) post] fn hipExtLaunchMultiKernelMultiDevice(
                    launchParamsList: *mut hipLaunchParams, numDevices: c_int, flags: c_uint) -> hipError_t;
                [0x0184 "hip_4.2" (6 7) post] fn hipExtModuleLaunchKernel(
                    f: hipFunction_t, globalWorkSizeX: u32, globalWorkSizeY: u32, globalWorkSizeZ: u32,
                    localWorkSizeX: u32, localWorkSizeY: u32, localWorkSizeZ: u32, sharedMemBytes: usize,
                    hStream: hipStream_t, kernelParams: *mut *mut c_void, extra: *mut *mut c_void,
                    startEvent: hipEvent_t, stopEvent: hipEvent_t, flags: u32) -> hipError_t;
                [0x005f "hip_4.2" (5 6 7) local] fn hipFuncGetAttribute(
                    value: *mut c_int, attrib: hipFunction_attribute, hfunc: hipFunction_t) -> hipError_t;
                [0x0060 "hip_4.2" (5 6 7) local] fn hipFuncGetAttributes(
                    attr: *mut hipFuncAttributes, func: *const c_void) -> hipError_t;
                [0x0061 "hip_4.2" (5 6 7) local] fn hipFuncSetAttribute(
                    func: *const c_void, attr: hipFuncAttribute, value: c_int) -> hipError_t;
                [0x0062 "hip_4.2" (5 6 7) local] fn hipFuncSetCacheConfig(
                    func: *const c_void, config: hipFuncCache_t) -> hipError_t;
                [0x0063 "hip_4.2" (5 6 7) local] fn hipFuncSetSharedMemConfig(
                    func: *const c_void, config: hipSharedMemConfig) -> hipError_t;
                [0x01bc "hip_6.2" (6 7) local] fn hipGetFuncBySymbol(
                    functionPtr: *mut hipFunction_t, symbolPtr: *const c_void) -> hipError_t;
                [0x0185 "hip_4.2" (6 7) post] fn hipHccModuleLaunchKernel(
                    f: hipFunction_t, globalWorkSizeX: u32, globalWorkSizeY: u32, globalWorkSizeZ: u32,
                    localWorkSizeX: u32, localWorkSizeY: u32, localWorkSizeZ: u32, sharedMemBytes: usize,
                    hStream: hipStream_t, kernelParams: *mut *mut c_void, extra: *mut *mut c_void,
                    startEvent: hipEvent_t, stopEvent: hipEvent_t) -> hipError_t;
                [0x00d2 "hip_4.2" (5 6 7) post] fn hipLaunchByPtr(func: *const c_void) -> hipError_t;
                [0x00d3 "hip_4.2" (5 6 7) post] fn hipLaunchCooperativeKernel(
                    f: *const c_void, gridDim: dim3, blockDimX: dim3, kernelParams: *mut *mut c_void,
                    sharedMemBytes: c_uint, stream: hipStream_t) -> hipError_t;
                [0x00d4 "hip_4.2" (5 6 7) absent] fn hipLaunchCooperativeKernelMultiDevice(
                    launchParamsList: *mut hipLaunchParams, numDevices: c_int, flags: c_uint) -> hipError_t;
                [0x01a2 "hip_5.2" (5 6 7) post] fn hipLaunchCooperativeKernel_spt(
                    f: *const c_void, gridDim: dim3, blockDim: dim3, kernelParams: *mut *mut c_void,
                    sharedMemBytes: u32, hStream: hipStream_t) -> hipError_t;
                [0x00d5 "hip_5.3" (6 7) post] fn hipLaunchHostFunc(
                    stream: hipStream_t, fn_: hipHostFn_t, userData: *mut c_void) -> hipError_t;
                [0x01aa "hip_5.3" (6 7) post] fn hipLaunchHostFunc_spt(
                    stream: hipStream_t, fn_: hipHostFn_t, userData: *mut c_void) -> hipError_t;
                [0x00d6 "hip_4.2" (5 6 7) post] fn hipLaunchKernel(
                    function_address: *const c_void, numBlocks: dim3, dimBlocks: dim3, args: *mut *mut c_void,
                    sharedMemBytes: usize, stream: hipStream_t) -> hipError_t;
                [0x01da "hip_6.5" (7) post] fn hipLaunchKernelExC(
                    config: *const hipLaunchConfig_t, fPtr: *const c_void,
                    args: *mut *mut c_void) -> hipError_t;
                [0x01a3 "hip_5.2" (5 6 7) post] fn hipLaunchKernel_spt(
                    function_address: *const c_void, numBlocks: dim3, dimBlocks: dim3, args: *mut *mut c_void,
                    sharedMemBytes: usize, stream: hipStream_t) -> hipError_t;
                [0x0132 "hip_5.5" (6 7) post] fn hipModuleLaunchCooperativeKernel(
                    f: hipFunction_t, gridDimX: c_uint, gridDimY: c_uint, gridDimZ: c_uint, blockDimX: c_uint,
                    blockDimY: c_uint, blockDimZ: c_uint, sharedMemBytes: c_uint, stream: hipStream_t,
                    kernelParams: *mut *mut c_void) -> hipError_t;
                [0x0133 "hip_5.5" (6 7) absent] fn hipModuleLaunchCooperativeKernelMultiDevice(
                    launchParamsList: *mut hipFunctionLaunchParams, numDevices: c_uint,
                    flags: c_uint) -> hipError_t;
                [0x0134 "hip_4.2" (5 6 7) post] fn hipModuleLaunchKernel(
                    f: hipFunction_t, gridDimX: c_uint, gridDimY: c_uint, gridDimZ: c_uint, blockDimX: c_uint,
                    blockDimY: c_uint, blockDimZ: c_uint, sharedMemBytes: c_uint, stream: hipStream_t,
                    kernelParams: *mut *mut c_void, extra: *mut *mut c_void) -> hipError_t;
                [0x0149 "hip_4.2" (5 6 7) local] fn hipSetupArgument(
                    arg: *const c_void, size: usize, offset: usize) -> hipError_t;
            }
            // Occupancy.
            occupancy {
                [0x0138 "hip_4.2" (5 6 7) local] fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
                    numBlocks: *mut c_int, f: hipFunction_t, blockSize: c_int,
                    dynSharedMemPerBlk: usize) -> hipError_t;
                [0x0139 "hip_4.2" (5 6 7) local] fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                    numBlocks: *mut c_int, f: hipFunction_t, blockSize: c_int, dynSharedMemPerBlk: usize,
                    flags: c_uint) -> hipError_t;
                [0x013a "hip_4.2" (5 6 7) local] fn hipModuleOccupancyMaxPotentialBlockSize(
                    gridSize: *mut c_int, blockSize: *mut c_int, f: hipFunction_t, dynSharedMemPerBlk: usize,
                    blockSizeLimit: c_int) -> hipError_t;
                [0x013b "hip_4.2" (5 6 7) local] fn hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
                    gridSize: *mut c_int, blockSize: *mut c_int, f: hipFunction_t, dynSharedMemPerBlk: usize,
                    blockSizeLimit: c_int, flags: c_uint) -> hipError_t;
                [0x01f9 "hip_7.2" (7) local] fn hipOccupancyAvailableDynamicSMemPerBlock(
                    dynamicSmemSize: *mut usize, f: *const c_void, numBlocks: c_int,
                    blockSize: c_int) -> hipError_t;
                [0x013d "hip_4.2" (5 6 7) local] fn hipOccupancyMaxActiveBlocksPerMultiprocessor(
                    numBlocks: *mut c_int, f: *const c_void, blockSize: c_int,
                    dynSharedMemPerBlk: usize) -> hipError_t;
                [0x013e "hip_4.2" (5 6 7) local] fn hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                    numBlocks: *mut c_int, f: *const c_void, blockSize: c_int, dynSharedMemPerBlk: usize,
                    flags: c_uint) -> hipError_t;
                [0x013f "hip_4.2" (5 6 7) local] fn hipOccupancyMaxPotentialBlockSize(
                    gridSize: *mut c_int, blockSize: *mut c_int, f: *const c_void, dynSharedMemPerBlk: usize,
                    blockSizeLimit: c_int) -> hipError_t;
            }
            // Entry points that compiled host code calls by itself.
            registration {
                [0xa000 "hip_4.2" (5 6 7) local] fn __hipGetPCH(
                    pch: *mut *const c_char, size: *mut c_uint) -> ();
                [0x8000 "hip_4.2" (5 6 7) local] fn __hipPopCallConfiguration(
                    gridDim: *mut dim3, blockDim: *mut dim3, sharedMem: *mut usize,
                    stream: *mut hipStream_t) -> hipError_t;
                [0x8001 "hip_4.2" (5 6 7) local] fn __hipPushCallConfiguration(
                    gridDim: dim3, blockDim: dim3, sharedMem: usize, stream: hipStream_t) -> hipError_t;
                [0x8002 "hip_4.2" (5 6 7) local] fn __hipRegisterFatBinary(
                    data: *const c_void) -> *mut *mut c_void;
                [0x8003 "hip_4.2" (5 6 7) local] fn __hipRegisterFunction(
                    modules: *mut *mut c_void, hostFunction: *const c_void, deviceFunction: *mut c_char,
                    deviceName: *const c_char, threadLimit: c_uint, tid: *mut uint3, bid: *mut uint3,
                    blockDim: *mut dim3, gridDim: *mut dim3, wSize: *mut c_int) -> ();
                [0x8004 "hip_4.2" (5 6 7) local] fn __hipRegisterManagedVar(
                    hipModule: *mut c_void, pointer: *mut *mut c_void, init_value: *mut c_void,
                    name: *const c_char, size: usize, align: c_uint) -> ();
                [0x8005 "hip_4.2" (5 6 7) local] fn __hipRegisterSurface(
                    modules: *mut *mut c_void, var: *mut c_void, hostVar: *mut c_char, deviceVar: *mut c_char,
                    type_: c_int, ext: c_int) -> ();
                [0x8006 "hip_4.2" (5 6 7) local] fn __hipRegisterTexture(
                    modules: *mut *mut c_void, var: *mut c_void, hostVar: *mut c_char, deviceVar: *mut c_char,
                    type_: c_int, norm: c_int, ext: c_int) -> ();
                [0x8007 "hip_4.2" (5 6 7) local] fn __hipRegisterVar(
                    modules: *mut *mut c_void, var: *mut c_void, hostVar: *mut c_char, deviceVar: *mut c_char,
                    ext: c_int, size: usize, constant: c_int, global: c_int) -> ();
                [0x8008 "hip_4.2" (5 6 7) local] fn __hipUnregisterFatBinary(modules: *mut *mut c_void) -> ();
            }
            // Run-time compilation; HIP 7 moved these to libhiprtc.
            rtc {
                [0x9002 "hip_4.2" (5 6) local] fn hiprtcAddNameExpression(
                    prog: hiprtcProgram, name_expression: *const c_char) -> hiprtcResult;
                [0x9003 "hip_4.2" (5 6) call] fn hiprtcCompileProgram(
                    prog: hiprtcProgram, numOptions: c_int, options: *const *const c_char) -> hiprtcResult;
                [0x9004 "hip_4.2" (5 6) local] fn hiprtcCreateProgram(
                    prog: *mut hiprtcProgram, src: *const c_char, name: *const c_char, numHeaders: c_int,
                    headers: *const *const c_char, includeNames: *const *const c_char) -> hiprtcResult;
                [0x9005 "hip_4.2" (5 6) local] fn hiprtcDestroyProgram(
                    prog: *mut hiprtcProgram) -> hiprtcResult;
                [0x900b "hip_5.3" (6) local] fn hiprtcGetBitcode(
                    prog: hiprtcProgram, bitcode: *mut c_char) -> hiprtcResult;
                [0x900c "hip_5.3" (6) local] fn hiprtcGetBitcodeSize(
                    prog: hiprtcProgram, bitcode_size: *mut usize) -> hiprtcResult;
                [0x9009 "hip_4.2" (5 6) local] fn hiprtcGetCode(
                    prog: hiprtcProgram, code: *mut c_char) -> hiprtcResult;
                [0x900a "hip_4.2" (5 6) local] fn hiprtcGetCodeSize(
                    prog: hiprtcProgram, codeSizeRet: *mut usize) -> hiprtcResult;
                [0x9000 "hip_4.2" (5 6) local] fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char;
                [0x9006 "hip_4.2" (5 6) local] fn hiprtcGetLoweredName(
                    prog: hiprtcProgram, name_expression: *const c_char,
                    lowered_name: *mut *const c_char) -> hiprtcResult;
                [0x9007 "hip_4.2" (5 6) local] fn hiprtcGetProgramLog(
                    prog: hiprtcProgram, log: *mut c_char) -> hiprtcResult;
                [0x9008 "hip_4.2" (5 6) local] fn hiprtcGetProgramLogSize(
                    prog: hiprtcProgram, logSizeRet: *mut usize) -> hiprtcResult;
                [0x900f "hip_4.2" (6) local] fn hiprtcLinkAddData(
                    hip_link_state: hiprtcLinkState, input_type: hipJitInputType, image: *mut c_void,
                    image_size: usize, name: *const c_char, num_options: c_uint,
                    options_ptr: *mut hipJitOption, option_values: *mut *mut c_void) -> hiprtcResult;
                [0x900e "hip_4.2" (6) local] fn hiprtcLinkAddFile(
                    hip_link_state: hiprtcLinkState, input_type: hipJitInputType, file_path: *const c_char,
                    num_options: c_uint, options_ptr: *mut hipJitOption,
                    option_values: *mut *mut c_void) -> hiprtcResult;
                [0x9010 "hip_4.2" (6) call] fn hiprtcLinkComplete(
                    hip_link_state: hiprtcLinkState, bin_out: *mut *mut c_void,
                    size_out: *mut usize) -> hiprtcResult;
                [0x900d "hip_4.2" (6) local] fn hiprtcLinkCreate(
                    num_options: c_uint, option_ptr: *mut hipJitOption, option_vals_pptr: *mut *mut c_void,
                    hip_link_state_ptr: *mut hiprtcLinkState) -> hiprtcResult;
                [0x9011 "hip_4.2" (6) local] fn hiprtcLinkDestroy(
                    hip_link_state: hiprtcLinkState) -> hiprtcResult;
                [0x9001 "hip_4.2" (5 6) local] fn hiprtcVersion(
                    major: *mut c_int, minor: *mut c_int) -> hiprtcResult;
            }
            // Names and hooks for profilers.
            profile {
                [0x0000 "hip_4.2" (5 6 7) local] fn hipApiName(id: u32) -> *const c_char;
                [0xa00a "hip_4.2" (5) absent] fn hipEnableActivityCallback(op: c_uint, enable: bool) -> bool;
                [0xa003 "hip_4.2" (5 6 7) local] fn hipGetCmdName(op: c_uint) -> *const c_char;
                [0xa009 "hip_4.2" (5) absent] fn hipInitActivityCallback(
                    id_callback: *mut c_void, op_callback: *mut c_void, arg: *mut c_void) -> ();
                [0x00d0 "hip_4.2" (5 6 7) local] fn hipKernelNameRef(f: hipFunction_t) -> *const c_char;
                [0x00d1 "hip_4.2" (5 6 7) local] fn hipKernelNameRefByPtr(
                    hostFunction: *const c_void, stream: hipStream_t) -> *const c_char;
                [0x0144 "hip_4.2" (5 6 7) local] fn hipProfilerStart() -> hipError_t;
                [0x0145 "hip_4.2" (5 6 7) local] fn hipProfilerStop() -> hipError_t;
                [0xa007 "hip_4.2" (5) absent] fn hipRegisterActivityCallback(
                    id: u32, fun: *mut c_void, arg: *mut c_void) -> hipError_t;
                [0xa005 "hip_4.2" (5) absent] fn hipRegisterApiCallback(
                    id: u32, fun: *mut c_void, arg: *mut c_void) -> hipError_t;
                [0xa004 "hip_5.3" (6 7) absent] fn hipRegisterTracerCallback(
                    function: hipTracerCallback_t) -> ();
                [0xa008 "hip_4.2" (5) absent] fn hipRemoveActivityCallback(id: u32) -> hipError_t;
                [0xa006 "hip_4.2" (5) absent] fn hipRemoveApiCallback(id: u32) -> hipError_t;
            }
            // Build identity and half-precision support that the vendor library happens to export.
            support {
                [0xa00e "hip_4.2" (5 6 7) local] fn __gnu_f2h_ieee(value: f32) -> u16;
                [0xa00f "hip_4.2" (5 6 7) local] fn __gnu_h2f_ieee(value: u16) -> f32;
                [0xa00d "hip_4.5" (5 6 7) local] fn amd_dbgapi_get_build_id() -> usize;
                [0xa00b "hip_4.5" (5 6 7) local] fn amd_dbgapi_get_build_name() -> *const c_char;
                [0xa00c "hip_4.5" (5 6 7) local] fn amd_dbgapi_get_git_hash() -> *const c_char;
            }
            // C++ mangled twins, for programs built when these functions had no C linkage.
            cxx {
                [0xa013 "hip_4.2" (5) absent] fn _Z22hipCreateSurfaceObjectPP13__hip_surfacePK15hipResourceDesc(
                    pSurfObject: *mut hipSurfaceObject_t, pResDesc: *const hipResourceDesc) -> hipError_t;
                [0xa014 "hip_4.2" (5) local] fn _Z23hipDestroySurfaceObjectP13__hip_surface(
                    surfaceObject: hipSurfaceObject_t) -> hipError_t;
                [0xa011 "hip_4.2" (5 6 7) post] fn _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(
                    f: hipFunction_t, globalWorkSizeX: u32, globalWorkSizeY: u32, globalWorkSizeZ: u32,
                    localWorkSizeX: u32, localWorkSizeY: u32, localWorkSizeZ: u32, sharedMemBytes: usize,
                    hStream: hipStream_t, kernelParams: *mut *mut c_void, extra: *mut *mut c_void,
                    startEvent: hipEvent_t, stopEvent: hipEvent_t, flags: u32) -> hipError_t;
                [0xa012 "hip_4.2" (5 6 7) post] fn _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_(
                    f: hipFunction_t, globalWorkSizeX: u32, globalWorkSizeY: u32, globalWorkSizeZ: u32,
                    localWorkSizeX: u32, localWorkSizeY: u32, localWorkSizeZ: u32, sharedMemBytes: usize,
                    hStream: hipStream_t, kernelParams: *mut *mut c_void, extra: *mut *mut c_void,
                    startEvent: hipEvent_t, stopEvent: hipEvent_t) -> hipError_t;
                [0xa010 "hip_4.2" (5) post] fn _ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv(
                    function_address: usize, numBlocks: *const dim3, dimBlocks: *const dim3,
                    sharedMemBytes: c_uint, stream: hipStream_t, kernarg: *mut *mut c_void) -> ();
            }
            // Graphs and stream capture.
            graph {
                [0x002d "hip_4.5" (6 7) local] fn hipDeviceGetGraphMemAttribute(
                    device: c_int, attr: hipGraphMemAttributeType, value: *mut c_void) -> hipError_t;
                [0x0036 "hip_4.5" (6 7) post] fn hipDeviceGraphMemTrim(device: c_int) -> hipError_t;
                [0x003e "hip_4.5" (6 7) local] fn hipDeviceSetGraphMemAttribute(
                    device: c_int, attr: hipGraphMemAttributeType, value: *mut c_void) -> hipError_t;
                [0x01c4 "hip_6.2" (6 7) local] fn hipDrvGraphAddMemFreeNode(
                    phGraphNode: *mut hipGraphNode_t, hGraph: hipGraph_t, dependencies: *const hipGraphNode_t,
                    numDependencies: usize, dptr: hipDeviceptr_t) -> hipError_t;
                [0x0047 "hip_5.6" (6 7) local] fn hipDrvGraphAddMemcpyNode(
                    phGraphNode: *mut hipGraphNode_t, hGraph: hipGraph_t, dependencies: *const hipGraphNode_t,
                    numDependencies: usize, copyParams: *const HIP_MEMCPY3D, ctx: hipCtx_t) -> hipError_t;
                [0x01ac "hip_5.6" (6 7) local] fn hipDrvGraphAddMemsetNode(
                    phGraphNode: *mut hipGraphNode_t, hGraph: hipGraph_t, dependencies: *const hipGraphNode_t,
                    numDependencies: usize, memsetParams: *const hipMemsetParams,
                    ctx: hipCtx_t) -> hipError_t;
                [0x01c5 "hip_6.2" (6 7) post] fn hipDrvGraphExecMemcpyNodeSetParams(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t, copyParams: *const HIP_MEMCPY3D,
                    ctx: hipCtx_t) -> hipError_t;
                [0x01c6 "hip_6.2" (6 7) post] fn hipDrvGraphExecMemsetNodeSetParams(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t, memsetParams: *const hipMemsetParams,
                    ctx: hipCtx_t) -> hipError_t;
                [0x01cb "hip_6.0" (6 7) local] fn hipDrvGraphMemcpyNodeGetParams(
                    hNode: hipGraphNode_t, nodeParams: *mut HIP_MEMCPY3D) -> hipError_t;
                [0x01cc "hip_6.0" (6 7) local] fn hipDrvGraphMemcpyNodeSetParams(
                    hNode: hipGraphNode_t, nodeParams: *const HIP_MEMCPY3D) -> hipError_t;
                [0x01d0 "hip_6.4" (6 7) absent] fn hipGraphAddBatchMemOpNode(
                    phGraphNode: *mut hipGraphNode_t, hGraph: hipGraph_t, dependencies: *const hipGraphNode_t,
                    numDependencies: usize, nodeParams: *const hipBatchMemOpNodeParams) -> hipError_t;
                [0x0076 "hip_4.5" (5 6 7) local] fn hipGraphAddChildGraphNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, childGraph: hipGraph_t) -> hipError_t;
                [0x0077 "hip_4.4" (5 6 7) local] fn hipGraphAddDependencies(
                    graph: hipGraph_t, from: *const hipGraphNode_t, to: *const hipGraphNode_t,
                    numDependencies: usize) -> hipError_t;
                [0x0078 "hip_4.4" (5 6 7) local] fn hipGraphAddEmptyNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize) -> hipError_t;
                [0x0079 "hip_4.5" (5 6 7) local] fn hipGraphAddEventRecordNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, event: hipEvent_t) -> hipError_t;
                [0x007a "hip_4.5" (5 6 7) local] fn hipGraphAddEventWaitNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, event: hipEvent_t) -> hipError_t;
                [0x01ae "hip_5.3" (7) absent] fn hipGraphAddExternalSemaphoresSignalNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize,
                    nodeParams: *const hipExternalSemaphoreSignalNodeParams) -> hipError_t;
                [0x01ad "hip_5.3" (7) absent] fn hipGraphAddExternalSemaphoresWaitNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize,
                    nodeParams: *const hipExternalSemaphoreWaitNodeParams) -> hipError_t;
                [0x007b "hip_4.5" (5 6 7) local] fn hipGraphAddHostNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, pNodeParams: *const hipHostNodeParams) -> hipError_t;
                [0x007c "hip_4.3" (5 6 7) local] fn hipGraphAddKernelNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, pNodeParams: *const hipKernelNodeParams) -> hipError_t;
                [0x007d "hip_5.5" (6 7) local] fn hipGraphAddMemAllocNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, pNodeParams: *mut hipMemAllocNodeParams) -> hipError_t;
                [0x007e "hip_5.5" (6 7) local] fn hipGraphAddMemFreeNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, dev_ptr: *mut c_void) -> hipError_t;
                [0x007f "hip_4.3" (5 6 7) local] fn hipGraphAddMemcpyNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, pCopyParams: *const hipMemcpy3DParms) -> hipError_t;
                [0x0080 "hip_4.3" (5 6 7) local] fn hipGraphAddMemcpyNode1D(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, dst: *mut c_void, src: *const c_void, count: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x0081 "hip_4.5" (5 6 7) local] fn hipGraphAddMemcpyNodeFromSymbol(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, dst: *mut c_void, symbol: *const c_void, count: usize,
                    offset: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0082 "hip_4.5" (5 6 7) local] fn hipGraphAddMemcpyNodeToSymbol(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, symbol: *const c_void, src: *const c_void, count: usize,
                    offset: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0083 "hip_4.3" (5 6 7) local] fn hipGraphAddMemsetNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, pMemsetParams: *const hipMemsetParams) -> hipError_t;
                [0x01b5 "hip_5.5" (6 7) local] fn hipGraphAddNode(
                    pGraphNode: *mut hipGraphNode_t, graph: hipGraph_t, pDependencies: *const hipGraphNode_t,
                    numDependencies: usize, nodeParams: *mut hipGraphNodeParams) -> hipError_t;
                [0x01d1 "hip_6.4" (6 7) absent] fn hipGraphBatchMemOpNodeGetParams(
                    hNode: hipGraphNode_t, nodeParams_out: *mut hipBatchMemOpNodeParams) -> hipError_t;
                [0x01d2 "hip_6.4" (6 7) absent] fn hipGraphBatchMemOpNodeSetParams(
                    hNode: hipGraphNode_t, nodeParams: *mut hipBatchMemOpNodeParams) -> hipError_t;
                [0x0084 "hip_4.5" (5 6 7) local] fn hipGraphChildGraphNodeGetGraph(
                    node: hipGraphNode_t, pGraph: *mut hipGraph_t) -> hipError_t;
                [0x0085 "hip_4.5" (5 6 7) local] fn hipGraphClone(
                    pGraphClone: *mut hipGraph_t, originalGraph: hipGraph_t) -> hipError_t;
                [0x0086 "hip_4.3" (5 6 7) local] fn hipGraphCreate(
                    pGraph: *mut hipGraph_t, flags: c_uint) -> hipError_t;
                [0x0087 "hip_5.3" (6 7) local] fn hipGraphDebugDotPrint(
                    graph: hipGraph_t, path: *const c_char, flags: c_uint) -> hipError_t;
                [0x0088 "hip_4.3" (5 6 7) local] fn hipGraphDestroy(graph: hipGraph_t) -> hipError_t;
                [0x0089 "hip_4.5" (5 6 7) local] fn hipGraphDestroyNode(node: hipGraphNode_t) -> hipError_t;
                [0x008a "hip_4.5" (5 6 7) local] fn hipGraphEventRecordNodeGetEvent(
                    node: hipGraphNode_t, event_out: *mut hipEvent_t) -> hipError_t;
                [0x008b "hip_4.5" (5 6 7) local] fn hipGraphEventRecordNodeSetEvent(
                    node: hipGraphNode_t, event: hipEvent_t) -> hipError_t;
                [0x008c "hip_4.5" (5 6 7) local] fn hipGraphEventWaitNodeGetEvent(
                    node: hipGraphNode_t, event_out: *mut hipEvent_t) -> hipError_t;
                [0x008d "hip_4.5" (5 6 7) local] fn hipGraphEventWaitNodeSetEvent(
                    node: hipGraphNode_t, event: hipEvent_t) -> hipError_t;
                [0x01d3 "hip_6.4" (6 7) absent] fn hipGraphExecBatchMemOpNodeSetParams(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t,
                    nodeParams: *const hipBatchMemOpNodeParams) -> hipError_t;
                [0x008e "hip_4.5" (5 6 7) post] fn hipGraphExecChildGraphNodeSetParams(
                    hGraphExec: hipGraphExec_t, node: hipGraphNode_t, childGraph: hipGraph_t) -> hipError_t;
                [0x008f "hip_4.3" (5 6 7) post] fn hipGraphExecDestroy(
                    graphExec: hipGraphExec_t) -> hipError_t;
                [0x0090 "hip_4.5" (5 6 7) post] fn hipGraphExecEventRecordNodeSetEvent(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t, event: hipEvent_t) -> hipError_t;
                [0x0091 "hip_4.5" (5 6 7) post] fn hipGraphExecEventWaitNodeSetEvent(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t, event: hipEvent_t) -> hipError_t;
                [0x01b3 "hip_5.3" (7) absent] fn hipGraphExecExternalSemaphoresSignalNodeSetParams(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t,
                    nodeParams: *const hipExternalSemaphoreSignalNodeParams) -> hipError_t;
                [0x01b4 "hip_5.3" (7) absent] fn hipGraphExecExternalSemaphoresWaitNodeSetParams(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t,
                    nodeParams: *const hipExternalSemaphoreWaitNodeParams) -> hipError_t;
                [0x01c7 "hip_6.2" (6 7) local] fn hipGraphExecGetFlags(
                    graphExec: hipGraphExec_t, flags: *mut u64) -> hipError_t;
                [0x0092 "hip_4.5" (5 6 7) post] fn hipGraphExecHostNodeSetParams(
                    hGraphExec: hipGraphExec_t, node: hipGraphNode_t,
                    pNodeParams: *const hipHostNodeParams) -> hipError_t;
                [0x0093 "hip_4.4" (5 6 7) post] fn hipGraphExecKernelNodeSetParams(
                    hGraphExec: hipGraphExec_t, node: hipGraphNode_t,
                    pNodeParams: *const hipKernelNodeParams) -> hipError_t;
                [0x0094 "hip_4.5" (5 6 7) post] fn hipGraphExecMemcpyNodeSetParams(
                    hGraphExec: hipGraphExec_t, node: hipGraphNode_t,
                    pNodeParams: *mut hipMemcpy3DParms) -> hipError_t;
                [0x0095 "hip_4.5" (5 6 7) post] fn hipGraphExecMemcpyNodeSetParams1D(
                    hGraphExec: hipGraphExec_t, node: hipGraphNode_t, dst: *mut c_void, src: *const c_void,
                    count: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0096 "hip_4.5" (5 6 7) post] fn hipGraphExecMemcpyNodeSetParamsFromSymbol(
                    hGraphExec: hipGraphExec_t, node: hipGraphNode_t, dst: *mut c_void, symbol: *const c_void,
                    count: usize, offset: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0097 "hip_4.5" (5 6 7) post] fn hipGraphExecMemcpyNodeSetParamsToSymbol(
                    hGraphExec: hipGraphExec_t, node: hipGraphNode_t, symbol: *const c_void,
                    src: *const c_void, count: usize, offset: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0098 "hip_4.5" (5 6 7) post] fn hipGraphExecMemsetNodeSetParams(
                    hGraphExec: hipGraphExec_t, node: hipGraphNode_t,
                    pNodeParams: *const hipMemsetParams) -> hipError_t;
                [0x01c9 "hip_6.2" (6 7) post] fn hipGraphExecNodeSetParams(
                    graphExec: hipGraphExec_t, node: hipGraphNode_t,
                    nodeParams: *mut hipGraphNodeParams) -> hipError_t;
                [0x0099 "hip_4.5" (5 6 7) post] fn hipGraphExecUpdate(
                    hGraphExec: hipGraphExec_t, hGraph: hipGraph_t, hErrorNode_out: *mut hipGraphNode_t,
                    updateResult_out: *mut hipGraphExecUpdateResult) -> hipError_t;
                [0x01b1 "hip_5.3" (7) absent] fn hipGraphExternalSemaphoresSignalNodeGetParams(
                    hNode: hipGraphNode_t,
                    params_out: *mut hipExternalSemaphoreSignalNodeParams) -> hipError_t;
                [0x01af "hip_5.3" (7) absent] fn hipGraphExternalSemaphoresSignalNodeSetParams(
                    hNode: hipGraphNode_t,
                    nodeParams: *const hipExternalSemaphoreSignalNodeParams) -> hipError_t;
                [0x01b2 "hip_5.3" (7) absent] fn hipGraphExternalSemaphoresWaitNodeGetParams(
                    hNode: hipGraphNode_t, params_out: *mut hipExternalSemaphoreWaitNodeParams) -> hipError_t;
                [0x01b0 "hip_5.3" (7) absent] fn hipGraphExternalSemaphoresWaitNodeSetParams(
                    hNode: hipGraphNode_t,
                    nodeParams: *const hipExternalSemaphoreWaitNodeParams) -> hipError_t;
                [0x009a "hip_4.5" (5 6 7) local] fn hipGraphGetEdges(
                    graph: hipGraph_t, from: *mut hipGraphNode_t, to: *mut hipGraphNode_t,
                    numEdges: *mut usize) -> hipError_t;
                [0x009b "hip_4.4" (5 6 7) local] fn hipGraphGetNodes(
                    graph: hipGraph_t, nodes: *mut hipGraphNode_t, numNodes: *mut usize) -> hipError_t;
                [0x009c "hip_4.4" (5 6 7) local] fn hipGraphGetRootNodes(
                    graph: hipGraph_t, pRootNodes: *mut hipGraphNode_t,
                    pNumRootNodes: *mut usize) -> hipError_t;
                [0x009d "hip_4.5" (5 6 7) local] fn hipGraphHostNodeGetParams(
                    node: hipGraphNode_t, pNodeParams: *mut hipHostNodeParams) -> hipError_t;
                [0x009e "hip_4.5" (5 6 7) local] fn hipGraphHostNodeSetParams(
                    node: hipGraphNode_t, pNodeParams: *const hipHostNodeParams) -> hipError_t;
                [0x009f "hip_4.3" (5 6 7) post] fn hipGraphInstantiate(
                    pGraphExec: *mut hipGraphExec_t, graph: hipGraph_t, pErrorNode: *mut hipGraphNode_t,
                    pLogBuffer: *mut c_char, bufferSize: usize) -> hipError_t;
                [0x00a0 "hip_4.5" (5 6 7) post] fn hipGraphInstantiateWithFlags(
                    pGraphExec: *mut hipGraphExec_t, graph: hipGraph_t, flags: u64) -> hipError_t;
                [0x01b6 "hip_6.1" (6 7) post] fn hipGraphInstantiateWithParams(
                    pGraphExec: *mut hipGraphExec_t, graph: hipGraph_t,
                    instantiateParams: *mut hipGraphInstantiateParams) -> hipError_t;
                [0x00a1 "hip_5.3" (6 7) local] fn hipGraphKernelNodeCopyAttributes(
                    hSrc: hipGraphNode_t, hDst: hipGraphNode_t) -> hipError_t;
                [0x00a2 "hip_5.0" (6 7) local] fn hipGraphKernelNodeGetAttribute(
                    hNode: hipGraphNode_t, attr: hipLaunchAttributeID,
                    value: *mut hipLaunchAttributeValue) -> hipError_t;
                [0x00a3 "hip_4.4" (5 6 7) local] fn hipGraphKernelNodeGetParams(
                    node: hipGraphNode_t, pNodeParams: *mut hipKernelNodeParams) -> hipError_t;
                [0x00a4 "hip_5.0" (6 7) local] fn hipGraphKernelNodeSetAttribute(
                    hNode: hipGraphNode_t, attr: hipLaunchAttributeID,
                    value: *const hipLaunchAttributeValue) -> hipError_t;
                [0x00a5 "hip_4.4" (5 6 7) local] fn hipGraphKernelNodeSetParams(
                    node: hipGraphNode_t, pNodeParams: *const hipKernelNodeParams) -> hipError_t;
                [0x00a6 "hip_4.3" (5 6 7) post] fn hipGraphLaunch(
                    graphExec: hipGraphExec_t, stream: hipStream_t) -> hipError_t;
                [0x01a4 "hip_5.3" (6 7) post] fn hipGraphLaunch_spt(
                    graphExec: hipGraphExec_t, stream: hipStream_t) -> hipError_t;
                [0x00a7 "hip_5.5" (6 7) local] fn hipGraphMemAllocNodeGetParams(
                    node: hipGraphNode_t, pNodeParams: *mut hipMemAllocNodeParams) -> hipError_t;
                [0x00a8 "hip_5.5" (6 7) local] fn hipGraphMemFreeNodeGetParams(
                    node: hipGraphNode_t, dev_ptr: *mut c_void) -> hipError_t;
                [0x00a9 "hip_4.4" (5 6 7) local] fn hipGraphMemcpyNodeGetParams(
                    node: hipGraphNode_t, pNodeParams: *mut hipMemcpy3DParms) -> hipError_t;
                [0x00aa "hip_4.4" (5 6 7) local] fn hipGraphMemcpyNodeSetParams(
                    node: hipGraphNode_t, pNodeParams: *const hipMemcpy3DParms) -> hipError_t;
                [0x00ab "hip_4.5" (5 6 7) local] fn hipGraphMemcpyNodeSetParams1D(
                    node: hipGraphNode_t, dst: *mut c_void, src: *const c_void, count: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x00ac "hip_4.5" (5 6 7) local] fn hipGraphMemcpyNodeSetParamsFromSymbol(
                    node: hipGraphNode_t, dst: *mut c_void, symbol: *const c_void, count: usize,
                    offset: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x00ad "hip_4.5" (5 6 7) local] fn hipGraphMemcpyNodeSetParamsToSymbol(
                    node: hipGraphNode_t, symbol: *const c_void, src: *const c_void, count: usize,
                    offset: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x00ae "hip_4.4" (5 6 7) local] fn hipGraphMemsetNodeGetParams(
                    node: hipGraphNode_t, pNodeParams: *mut hipMemsetParams) -> hipError_t;
                [0x00af "hip_4.4" (5 6 7) local] fn hipGraphMemsetNodeSetParams(
                    node: hipGraphNode_t, pNodeParams: *const hipMemsetParams) -> hipError_t;
                [0x00b0 "hip_4.5" (5 6 7) local] fn hipGraphNodeFindInClone(
                    pNode: *mut hipGraphNode_t, originalNode: hipGraphNode_t,
                    clonedGraph: hipGraph_t) -> hipError_t;
                [0x00b1 "hip_4.5" (5 6 7) local] fn hipGraphNodeGetDependencies(
                    node: hipGraphNode_t, pDependencies: *mut hipGraphNode_t,
                    pNumDependencies: *mut usize) -> hipError_t;
                [0x00b2 "hip_4.5" (5 6 7) local] fn hipGraphNodeGetDependentNodes(
                    node: hipGraphNode_t, pDependentNodes: *mut hipGraphNode_t,
                    pNumDependentNodes: *mut usize) -> hipError_t;
                [0x00b3 "hip_5.3" (6 7) local] fn hipGraphNodeGetEnabled(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t, isEnabled: *mut c_uint) -> hipError_t;
                [0x00b4 "hip_4.5" (5 6 7) local] fn hipGraphNodeGetType(
                    node: hipGraphNode_t, pType: *mut hipGraphNodeType) -> hipError_t;
                [0x00b5 "hip_5.3" (6 7) post] fn hipGraphNodeSetEnabled(
                    hGraphExec: hipGraphExec_t, hNode: hipGraphNode_t, isEnabled: c_uint) -> hipError_t;
                [0x01c8 "hip_6.2" (6 7) local] fn hipGraphNodeSetParams(
                    node: hipGraphNode_t, nodeParams: *mut hipGraphNodeParams) -> hipError_t;
                [0x00b6 "hip_5.3" (6 7) local] fn hipGraphReleaseUserObject(
                    graph: hipGraph_t, object: hipUserObject_t, count: c_uint) -> hipError_t;
                [0x00b7 "hip_4.5" (5 6 7) local] fn hipGraphRemoveDependencies(
                    graph: hipGraph_t, from: *const hipGraphNode_t, to: *const hipGraphNode_t,
                    numDependencies: usize) -> hipError_t;
                [0x00b8 "hip_5.3" (6 7) local] fn hipGraphRetainUserObject(
                    graph: hipGraph_t, object: hipUserObject_t, count: c_uint, flags: c_uint) -> hipError_t;
                [0x00b9 "hip_5.3" (6 7) local] fn hipGraphUpload(
                    graphExec: hipGraphExec_t, stream: hipStream_t) -> hipError_t;
                [0x014d "hip_4.3" (5 6 7) local] fn hipStreamBeginCapture(
                    stream: hipStream_t, mode: hipStreamCaptureMode) -> hipError_t;
                [0x01bb "hip_6.1" (6 7) local] fn hipStreamBeginCaptureToGraph(
                    stream: hipStream_t, graph: hipGraph_t, dependencies: *const hipGraphNode_t,
                    dependencyData: *const hipGraphEdgeData, numDependencies: usize,
                    mode: hipStreamCaptureMode) -> hipError_t;
                [0x01a5 "hip_5.3" (6 7) local] fn hipStreamBeginCapture_spt(
                    stream: hipStream_t, mode: hipStreamCaptureMode) -> hipError_t;
                [0x0152 "hip_4.3" (5 6 7) local] fn hipStreamEndCapture(
                    stream: hipStream_t, pGraph: *mut hipGraph_t) -> hipError_t;
                [0x01a6 "hip_5.3" (6 7) local] fn hipStreamEndCapture_spt(
                    stream: hipStream_t, pGraph: *mut hipGraph_t) -> hipError_t;
                [0x0153 "hip_4.5" (5 6 7) local] fn hipStreamGetCaptureInfo(
                    stream: hipStream_t, pCaptureStatus: *mut hipStreamCaptureStatus,
                    pId: *mut u64) -> hipError_t;
                [0x01a8 "hip_5.3" (6 7) local] fn hipStreamGetCaptureInfo_spt(
                    stream: hipStream_t, pCaptureStatus: *mut hipStreamCaptureStatus,
                    pId: *mut u64) -> hipError_t;
                [0x0154 "hip_4.5" (5 6 7) local] fn hipStreamGetCaptureInfo_v2(
                    stream: hipStream_t, captureStatus_out: *mut hipStreamCaptureStatus, id_out: *mut u64,
                    graph_out: *mut hipGraph_t, dependencies_out: *mut *const hipGraphNode_t,
                    numDependencies_out: *mut usize) -> hipError_t;
                [0x01a9 "hip_5.3" (6 7) local] fn hipStreamGetCaptureInfo_v2_spt(
                    stream: hipStream_t, captureStatus_out: *mut hipStreamCaptureStatus, id_out: *mut u64,
                    graph_out: *mut hipGraph_t, dependencies_out: *mut *const hipGraphNode_t,
                    numDependencies_out: *mut usize) -> hipError_t;
                [0x015b "hip_4.5" (5 6 7) local] fn hipStreamUpdateCaptureDependencies(
                    stream: hipStream_t, dependencies: *mut hipGraphNode_t, numDependencies: usize,
                    flags: c_uint) -> hipError_t;
                [0x017d "hip_5.0" (5 6 7) local] fn hipThreadExchangeStreamCaptureMode(
                    mode: *mut hipStreamCaptureMode) -> hipError_t;
                [0x017f "hip_5.3" (6 7) local] fn hipUserObjectCreate(
                    object_out: *mut hipUserObject_t, ptr: *mut c_void, destroy: hipHostFn_t,
                    initialRefcount: c_uint, flags: c_uint) -> hipError_t;
                [0x0180 "hip_5.3" (6 7) local] fn hipUserObjectRelease(
                    object: hipUserObject_t, count: c_uint) -> hipError_t;
                [0x0181 "hip_5.3" (6 7) local] fn hipUserObjectRetain(
                    object: hipUserObject_t, count: c_uint) -> hipError_t;
            }
            // Arrays.
            array {
                [0x0001 "hip_4.2" (5 6 7) absent] fn hipArray3DCreate(
                    array: *mut hipArray_t, pAllocateArray: *const HIP_ARRAY3D_DESCRIPTOR) -> hipError_t;
                [0x0002 "hip_5.6" (6 7) absent] fn hipArray3DGetDescriptor(
                    pArrayDescriptor: *mut HIP_ARRAY3D_DESCRIPTOR, array: hipArray_t) -> hipError_t;
                [0x0003 "hip_4.2" (5 6 7) absent] fn hipArrayCreate(
                    pHandle: *mut hipArray_t, pAllocateArray: *const HIP_ARRAY_DESCRIPTOR) -> hipError_t;
                [0x0004 "hip_4.3" (5 6 7) local] fn hipArrayDestroy(array: hipArray_t) -> hipError_t;
                [0x0005 "hip_5.6" (6 7) absent] fn hipArrayGetDescriptor(
                    pArrayDescriptor: *mut HIP_ARRAY_DESCRIPTOR, array: hipArray_t) -> hipError_t;
                [0x0006 "hip_5.6" (6 7) absent] fn hipArrayGetInfo(
                    desc: *mut hipChannelFormatDesc, extent: *mut hipExtent, flags: *mut c_uint,
                    array: hipArray_t) -> hipError_t;
                [0x005b "hip_4.2" (5 6 7) local] fn hipFreeArray(array: hipArray_t) -> hipError_t;
                [0x005e "hip_4.2" (5 6 7) local] fn hipFreeMipmappedArray(
                    mipmappedArray: hipMipmappedArray_t) -> hipError_t;
                [0x006e "hip_4.2" (5 6 7) absent] fn hipGetMipmappedArrayLevel(
                    levelArray: *mut hipArray_t, mipmappedArray: hipMipmappedArray_const_t,
                    level: c_uint) -> hipError_t;
                [0x00d9 "hip_4.2" (5 6 7) absent] fn hipMalloc3DArray(
                    array: *mut hipArray_t, desc: *const hipChannelFormatDesc, extent: hipExtent,
                    flags: c_uint) -> hipError_t;
                [0x00da "hip_4.2" (5 6 7) absent] fn hipMallocArray(
                    array: *mut hipArray_t, desc: *const hipChannelFormatDesc, width: usize, height: usize,
                    flags: c_uint) -> hipError_t;
                [0x00df "hip_4.2" (5 6 7) absent] fn hipMallocMipmappedArray(
                    mipmappedArray: *mut hipMipmappedArray_t, desc: *const hipChannelFormatDesc,
                    extent: hipExtent, numLevels: c_uint, flags: c_uint) -> hipError_t;
                [0x01c3 "hip_6.2" (6 7) absent] fn hipMemcpy2DArrayToArray(
                    dst: hipArray_t, wOffsetDst: usize, hOffsetDst: usize, src: hipArray_const_t,
                    wOffsetSrc: usize, hOffsetSrc: usize, width: usize, height: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x0106 "hip_4.2" (5 6 7) absent] fn hipMemcpy2DFromArray(
                    dst: *mut c_void, dpitch: usize, src: hipArray_const_t, wOffset: usize, hOffset: usize,
                    width: usize, height: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0107 "hip_4.2" (5 6 7) absent] fn hipMemcpy2DFromArrayAsync(
                    dst: *mut c_void, dpitch: usize, src: hipArray_const_t, wOffset: usize, hOffset: usize,
                    width: usize, height: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x0199 "hip_5.3" (6 7) absent] fn hipMemcpy2DFromArrayAsync_spt(
                    dst: *mut c_void, dpitch: usize, src: hipArray_const_t, wOffsetSrc: usize,
                    hOffsetSrc: usize, width: usize, height: usize, kind: hipMemcpyKind,
                    stream: hipStream_t) -> hipError_t;
                [0x018a "hip_5.2" (5 6 7) absent] fn hipMemcpy2DFromArray_spt(
                    dst: *mut c_void, dpitch: usize, src: hipArray_const_t, wOffset: usize, hOffset: usize,
                    width: usize, height: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0108 "hip_4.2" (5 6 7) absent] fn hipMemcpy2DToArray(
                    dst: hipArray_t, wOffset: usize, hOffset: usize, src: *const c_void, spitch: usize,
                    width: usize, height: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0109 "hip_4.3" (5 6 7) absent] fn hipMemcpy2DToArrayAsync(
                    dst: hipArray_t, wOffset: usize, hOffset: usize, src: *const c_void, spitch: usize,
                    width: usize, height: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x019a "hip_5.3" (6 7) absent] fn hipMemcpy2DToArrayAsync_spt(
                    dst: hipArray_t, wOffset: usize, hOffset: usize, src: *const c_void, spitch: usize,
                    width: usize, height: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
                [0x0198 "hip_5.2" (5 6 7) absent] fn hipMemcpy2DToArray_spt(
                    dst: hipArray_t, wOffset: usize, hOffset: usize, src: *const c_void, spitch: usize,
                    width: usize, height: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x01c0 "hip_6.2" (6 7) absent] fn hipMemcpyAtoA(
                    dstArray: hipArray_t, dstOffset: usize, srcArray: hipArray_t, srcOffset: usize,
                    ByteCount: usize) -> hipError_t;
                [0x01be "hip_6.2" (6 7) absent] fn hipMemcpyAtoD(
                    dstDevice: hipDeviceptr_t, srcArray: hipArray_t, srcOffset: usize,
                    ByteCount: usize) -> hipError_t;
                [0x010d "hip_4.2" (5 6 7) absent] fn hipMemcpyAtoH(
                    dst: *mut c_void, srcArray: hipArray_t, srcOffset: usize, count: usize) -> hipError_t;
                [0x01c1 "hip_6.2" (6 7) absent] fn hipMemcpyAtoHAsync(
                    dstHost: *mut c_void, srcArray: hipArray_t, srcOffset: usize, ByteCount: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x01bf "hip_6.2" (6 7) absent] fn hipMemcpyDtoA(
                    dstArray: hipArray_t, dstOffset: usize, srcDevice: hipDeviceptr_t,
                    ByteCount: usize) -> hipError_t;
                [0x0112 "hip_4.2" (5 6 7) absent] fn hipMemcpyFromArray(
                    dst: *mut c_void, srcArray: hipArray_const_t, wOffset: usize, hOffset: usize,
                    count: usize, kind: hipMemcpyKind) -> hipError_t;
                [0x0197 "hip_5.3" (6 7) absent] fn hipMemcpyFromArray_spt(
                    dst: *mut c_void, src: hipArray_const_t, wOffsetSrc: usize, hOffset: usize, count: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x0115 "hip_4.2" (5 6 7) absent] fn hipMemcpyHtoA(
                    dstArray: hipArray_t, dstOffset: usize, srcHost: *const c_void,
                    count: usize) -> hipError_t;
                [0x01c2 "hip_6.2" (6 7) absent] fn hipMemcpyHtoAAsync(
                    dstArray: hipArray_t, dstOffset: usize, srcHost: *const c_void, ByteCount: usize,
                    stream: hipStream_t) -> hipError_t;
                [0x011c "hip_4.2" (5 6 7) absent] fn hipMemcpyToArray(
                    dst: hipArray_t, wOffset: usize, hOffset: usize, src: *const c_void, count: usize,
                    kind: hipMemcpyKind) -> hipError_t;
                [0x012c "hip_4.2" (5 6 7) absent] fn hipMipmappedArrayCreate(
                    pHandle: *mut hipMipmappedArray_t, pMipmappedArrayDesc: *mut HIP_ARRAY3D_DESCRIPTOR,
                    numMipmapLevels: c_uint) -> hipError_t;
                [0x012d "hip_4.2" (5 6 7) local] fn hipMipmappedArrayDestroy(
                    hMipmappedArray: hipMipmappedArray_t) -> hipError_t;
                [0x012e "hip_4.2" (5 6 7) absent] fn hipMipmappedArrayGetLevel(
                    pLevelArray: *mut hipArray_t, hMipMappedArray: hipMipmappedArray_t,
                    level: c_uint) -> hipError_t;
            }
            // Textures and surfaces.
            texture {
                [0x0007 "hip_4.2" (5 6 7) absent] fn hipBindTexture(
                    offset: *mut usize, tex: *const textureReference, devPtr: *const c_void,
                    desc: *const hipChannelFormatDesc, size: usize) -> hipError_t;
                [0x0008 "hip_4.2" (5 6 7) absent] fn hipBindTexture2D(
                    offset: *mut usize, tex: *const textureReference, devPtr: *const c_void,
                    desc: *const hipChannelFormatDesc, width: usize, height: usize,
                    pitch: usize) -> hipError_t;
                [0x0009 "hip_4.2" (5 6 7) absent] fn hipBindTextureToArray(
                    tex: *const textureReference, array: hipArray_const_t,
                    desc: *const hipChannelFormatDesc) -> hipError_t;
                [0x000a "hip_4.2" (5 6 7) absent] fn hipBindTextureToMipmappedArray(
                    tex: *const textureReference, mipmappedArray: hipMipmappedArray_const_t,
                    desc: *const hipChannelFormatDesc) -> hipError_t;
                [0x0183 "hip_4.2" (5 6 7) local] fn hipCreateChannelDesc(
                    x: c_int, y: c_int, z: c_int, w: c_int, f: hipChannelFormatKind) -> hipChannelFormatDesc;
                [0x000e "hip_4.2" (6 7) absent] fn hipCreateSurfaceObject(
                    pSurfObject: *mut hipSurfaceObject_t, pResDesc: *const hipResourceDesc) -> hipError_t;
                [0x000f "hip_4.2" (5 6 7) call] fn hipCreateTextureObject(
                    pTexObject: *mut hipTextureObject_t, pResDesc: *const hipResourceDesc,
                    pTexDesc: *const hipTextureDesc, pResViewDesc: *const hipResourceViewDesc) -> hipError_t;
                [0x0022 "hip_4.2" (6 7) local] fn hipDestroySurfaceObject(
                    surfaceObject: hipSurfaceObject_t) -> hipError_t;
                [0x0023 "hip_4.2" (5 6 7) post] fn hipDestroyTextureObject(
                    textureObject: hipTextureObject_t) -> hipError_t;
                [0x01ce "hip_4.2" (7) absent] fn hipDeviceGetTexture1DLinearMaxWidth(
                    max_width: *mut usize, desc: *const hipChannelFormatDesc, device: c_int) -> hipError_t;
                [0x0065 "hip_4.2" (5 6 7) absent] fn hipGetChannelDesc(
                    desc: *mut hipChannelFormatDesc, array: hipArray_const_t) -> hipError_t;
                [0x0071 "hip_4.2" (5 6 7) absent] fn hipGetTextureAlignmentOffset(
                    offset: *mut usize, texref: *const textureReference) -> hipError_t;
                [0x0072 "hip_4.2" (5 6 7) local] fn hipGetTextureObjectResourceDesc(
                    pResDesc: *mut hipResourceDesc, textureObject: hipTextureObject_t) -> hipError_t;
                [0x0073 "hip_4.2" (5 6 7) local] fn hipGetTextureObjectResourceViewDesc(
                    pResViewDesc: *mut hipResourceViewDesc, textureObject: hipTextureObject_t) -> hipError_t;
                [0x0074 "hip_4.2" (5 6 7) local] fn hipGetTextureObjectTextureDesc(
                    pTexDesc: *mut hipTextureDesc, textureObject: hipTextureObject_t) -> hipError_t;
                [0x0075 "hip_4.2" (5 6 7) absent] fn hipGetTextureReference(
                    texref: *mut *const textureReference, symbol: *const c_void) -> hipError_t;
                [0x0131 "hip_4.2" (5 6 7) absent] fn hipModuleGetTexRef(
                    texRef: *mut *mut textureReference, hmod: hipModule_t, name: *const c_char) -> hipError_t;
                [0x0161 "hip_4.2" (5 6 7) absent] fn hipTexObjectCreate(
                    pTexObject: *mut hipTextureObject_t, pResDesc: *const HIP_RESOURCE_DESC,
                    pTexDesc: *const HIP_TEXTURE_DESC,
                    pResViewDesc: *const HIP_RESOURCE_VIEW_DESC) -> hipError_t;
                [0x0162 "hip_4.2" (5 6 7) post] fn hipTexObjectDestroy(
                    texObject: hipTextureObject_t) -> hipError_t;
                [0x0163 "hip_4.2" (5 6 7) absent] fn hipTexObjectGetResourceDesc(
                    pResDesc: *mut HIP_RESOURCE_DESC, texObject: hipTextureObject_t) -> hipError_t;
                [0x0164 "hip_4.2" (5 6 7) absent] fn hipTexObjectGetResourceViewDesc(
                    pResViewDesc: *mut HIP_RESOURCE_VIEW_DESC, texObject: hipTextureObject_t) -> hipError_t;
                [0x0165 "hip_4.2" (5 6 7) absent] fn hipTexObjectGetTextureDesc(
                    pTexDesc: *mut HIP_TEXTURE_DESC, texObject: hipTextureObject_t) -> hipError_t;
                [0x0166 "hip_4.2" (5 6 7) absent] fn hipTexRefGetAddress(
                    dev_ptr: *mut hipDeviceptr_t, texRef: *const textureReference) -> hipError_t;
                [0x0167 "hip_4.2" (5 6 7) absent] fn hipTexRefGetAddressMode(
                    pam: *mut hipTextureAddressMode, texRef: *const textureReference,
                    dim: c_int) -> hipError_t;
                [0x01b9 "hip_4.2" (6 7) absent] fn hipTexRefGetArray(
                    pArray: *mut hipArray_t, texRef: *const textureReference) -> hipError_t;
                [0x01b8 "hip_4.2" (6 7) absent] fn hipTexRefGetBorderColor(
                    pBorderColor: *mut f32, texRef: *const textureReference) -> hipError_t;
                [0x0168 "hip_4.2" (5 6 7) absent] fn hipTexRefGetFilterMode(
                    pfm: *mut hipTextureFilterMode, texRef: *const textureReference) -> hipError_t;
                [0x0169 "hip_4.2" (5 6 7) absent] fn hipTexRefGetFlags(
                    pFlags: *mut c_uint, texRef: *const textureReference) -> hipError_t;
                [0x016a "hip_4.2" (5 6 7) absent] fn hipTexRefGetFormat(
                    pFormat: *mut hipArray_Format, pNumChannels: *mut c_int,
                    texRef: *const textureReference) -> hipError_t;
                [0x016b "hip_4.2" (5 6 7) absent] fn hipTexRefGetMaxAnisotropy(
                    pmaxAnsio: *mut c_int, texRef: *const textureReference) -> hipError_t;
                [0x016c "hip_4.2" (6 7) absent] fn hipTexRefGetMipMappedArray(
                    pArray: *mut hipMipmappedArray_t, texRef: *const textureReference) -> hipError_t;
                [0x016d "hip_4.2" (5 6 7) absent] fn hipTexRefGetMipmapFilterMode(
                    pfm: *mut hipTextureFilterMode, texRef: *const textureReference) -> hipError_t;
                [0x016e "hip_4.2" (5 6 7) absent] fn hipTexRefGetMipmapLevelBias(
                    pbias: *mut f32, texRef: *const textureReference) -> hipError_t;
                [0x016f "hip_4.2" (5 6 7) absent] fn hipTexRefGetMipmapLevelClamp(
                    pminMipmapLevelClamp: *mut f32, pmaxMipmapLevelClamp: *mut f32,
                    texRef: *const textureReference) -> hipError_t;
                [0x0170 "hip_4.2" (5 6 7) absent] fn hipTexRefSetAddress(
                    ByteOffset: *mut usize, texRef: *mut textureReference, dptr: hipDeviceptr_t,
                    bytes: usize) -> hipError_t;
                [0x0171 "hip_4.2" (5 6 7) absent] fn hipTexRefSetAddress2D(
                    texRef: *mut textureReference, desc: *const HIP_ARRAY_DESCRIPTOR, dptr: hipDeviceptr_t,
                    Pitch: usize) -> hipError_t;
                [0x0172 "hip_4.2" (5 6 7) absent] fn hipTexRefSetAddressMode(
                    texRef: *mut textureReference, dim: c_int, am: hipTextureAddressMode) -> hipError_t;
                [0x0173 "hip_4.2" (5 6 7) absent] fn hipTexRefSetArray(
                    tex: *mut textureReference, array: hipArray_const_t, flags: c_uint) -> hipError_t;
                [0x0174 "hip_4.2" (5 6 7) absent] fn hipTexRefSetBorderColor(
                    texRef: *mut textureReference, pBorderColor: *mut f32) -> hipError_t;
                [0x0175 "hip_4.2" (5 6 7) absent] fn hipTexRefSetFilterMode(
                    texRef: *mut textureReference, fm: hipTextureFilterMode) -> hipError_t;
                [0x0176 "hip_4.2" (5 6 7) absent] fn hipTexRefSetFlags(
                    texRef: *mut textureReference, Flags: c_uint) -> hipError_t;
                [0x0177 "hip_4.2" (5 6 7) absent] fn hipTexRefSetFormat(
                    texRef: *mut textureReference, fmt: hipArray_Format,
                    NumPackedComponents: c_int) -> hipError_t;
                [0x0178 "hip_4.2" (5 6 7) absent] fn hipTexRefSetMaxAnisotropy(
                    texRef: *mut textureReference, maxAniso: c_uint) -> hipError_t;
                [0x0179 "hip_4.2" (5 6 7) absent] fn hipTexRefSetMipmapFilterMode(
                    texRef: *mut textureReference, fm: hipTextureFilterMode) -> hipError_t;
                [0x017a "hip_4.2" (5 6 7) absent] fn hipTexRefSetMipmapLevelBias(
                    texRef: *mut textureReference, bias: f32) -> hipError_t;
                [0x017b "hip_4.2" (5 6 7) absent] fn hipTexRefSetMipmapLevelClamp(
                    texRef: *mut textureReference, minMipMapLevelClamp: f32,
                    maxMipMapLevelClamp: f32) -> hipError_t;
                [0x017c "hip_4.2" (5 6 7) absent] fn hipTexRefSetMipmappedArray(
                    texRef: *mut textureReference, mipmappedArray: *mut hipMipmappedArray,
                    Flags: c_uint) -> hipError_t;
                [0x017e "hip_4.2" (5 6 7) absent] fn hipUnbindTexture(
                    tex: *const textureReference) -> hipError_t;
            }
            // Kernel libraries and the device linker.
            library {
                [0x01f7 "hip_7.2" (7) local] fn hipKernelGetLibrary(
                    library: *mut hipLibrary_t, kernel: hipKernel_t) -> hipError_t;
                [0x01f8 "hip_7.2" (7) local] fn hipKernelGetName(
                    name: *mut *const c_char, kernel: hipKernel_t) -> hipError_t;
                [0x01f6 "hip_7.2" (7) post] fn hipLibraryEnumerateKernels(
                    kernels: *mut hipKernel_t, numKernels: c_uint, library: hipLibrary_t) -> hipError_t;
                [0x01f3 "hip_7.2" (7) post] fn hipLibraryGetKernel(
                    pKernel: *mut hipKernel_t, library: hipLibrary_t, name: *const c_char) -> hipError_t;
                [0x01f4 "hip_7.2" (7) local] fn hipLibraryGetKernelCount(
                    count: *mut c_uint, library: hipLibrary_t) -> hipError_t;
                [0x01f0 "hip_7.2" (7) post] fn hipLibraryLoadData(
                    library: *mut hipLibrary_t, code: *const c_void, jitOptions: *mut hipJitOption,
                    jitOptionsValues: *mut *mut c_void, numJitOptions: c_uint,
                    libraryOptions: *mut hipLibraryOption, libraryOptionValues: *mut *mut c_void,
                    numLibraryOptions: c_uint) -> hipError_t;
                [0x01f1 "hip_7.2" (7) post] fn hipLibraryLoadFromFile(
                    library: *mut hipLibrary_t, fileName: *const c_char, jitOptions: *mut hipJitOption,
                    jitOptionsValues: *mut *mut c_void, numJitOptions: c_uint,
                    libraryOptions: *mut hipLibraryOption, libraryOptionValues: *mut *mut c_void,
                    numLibraryOptions: c_uint) -> hipError_t;
                [0x01f2 "hip_7.2" (7) post] fn hipLibraryUnload(library: hipLibrary_t) -> hipError_t;
                [0x01d4 "hip_6.4" (6 7) local] fn hipLinkAddData(
                    state: hipLinkState_t, type_: hipJitInputType, data: *mut c_void, size: usize,
                    name: *const c_char, numOptions: c_uint, options: *mut hipJitOption,
                    optionValues: *mut *mut c_void) -> hipError_t;
                [0x01d5 "hip_6.4" (6 7) local] fn hipLinkAddFile(
                    state: hipLinkState_t, type_: hipJitInputType, path: *const c_char, numOptions: c_uint,
                    options: *mut hipJitOption, optionValues: *mut *mut c_void) -> hipError_t;
                [0x01d6 "hip_6.4" (6 7) call] fn hipLinkComplete(
                    state: hipLinkState_t, hipBinOut: *mut *mut c_void, sizeOut: *mut usize) -> hipError_t;
                [0x01d7 "hip_6.4" (6 7) local] fn hipLinkCreate(
                    numOptions: c_uint, options: *mut hipJitOption, optionValues: *mut *mut c_void,
                    stateOut: *mut hipLinkState_t) -> hipError_t;
                [0x01d8 "hip_6.4" (6 7) local] fn hipLinkDestroy(state: hipLinkState_t) -> hipError_t;
            }
            // Virtual memory management.
            virtual_memory {
                [0x00e1 "hip_5.1" (5 6 7) local] fn hipMemAddressFree(
                    devPtr: *mut c_void, size: usize) -> hipError_t;
                [0x00e2 "hip_5.1" (5 6 7) local] fn hipMemAddressReserve(
                    ptr: *mut *mut c_void, size: usize, alignment: usize, addr: *mut c_void,
                    flags: u64) -> hipError_t;
                [0x00e6 "hip_5.1" (5 6 7) post] fn hipMemCreate(
                    handle: *mut hipMemGenericAllocationHandle_t, size: usize,
                    prop: *const hipMemAllocationProp, flags: u64) -> hipError_t;
                [0x00e7 "hip_5.1" (5 6 7) call] fn hipMemExportToShareableHandle(
                    shareableHandle: *mut c_void, handle: hipMemGenericAllocationHandle_t,
                    handleType: hipMemAllocationHandleType, flags: u64) -> hipError_t;
                [0x00e8 "hip_5.1" (5 6 7) local] fn hipMemGetAccess(
                    flags: *mut u64, location: *const hipMemLocation, ptr: *mut c_void) -> hipError_t;
                [0x00ea "hip_5.1" (5 6 7) local] fn hipMemGetAllocationGranularity(
                    granularity: *mut usize, prop: *const hipMemAllocationProp,
                    option: hipMemAllocationGranularity_flags) -> hipError_t;
                [0x00eb "hip_5.1" (5 6 7) local] fn hipMemGetAllocationPropertiesFromHandle(
                    prop: *mut hipMemAllocationProp, handle: hipMemGenericAllocationHandle_t) -> hipError_t;
                [0x01dc "hip_6.5" (7) absent] fn hipMemGetHandleForAddressRange(
                    handle: *mut c_void, dptr: hipDeviceptr_t, size: usize, handleType: hipMemRangeHandleType,
                    flags: u64) -> hipError_t;
                [0x00ed "hip_5.1" (5 6 7) call] fn hipMemImportFromShareableHandle(
                    handle: *mut hipMemGenericAllocationHandle_t, osHandle: *mut c_void,
                    shHandleType: hipMemAllocationHandleType) -> hipError_t;
                [0x00ee "hip_5.1" (5 6 7) post] fn hipMemMap(
                    ptr: *mut c_void, size: usize, offset: usize, handle: hipMemGenericAllocationHandle_t,
                    flags: u64) -> hipError_t;
                [0x00ef "hip_5.1" (5 6 7) absent] fn hipMemMapArrayAsync(
                    mapInfoList: *mut hipArrayMapInfo, count: c_uint, stream: hipStream_t) -> hipError_t;
                [0x00ff "hip_5.1" (5 6 7) post] fn hipMemRelease(
                    handle: hipMemGenericAllocationHandle_t) -> hipError_t;
                [0x0100 "hip_5.1" (5 6 7) local] fn hipMemRetainAllocationHandle(
                    handle: *mut hipMemGenericAllocationHandle_t, addr: *mut c_void) -> hipError_t;
                [0x0101 "hip_5.1" (5 6 7) post] fn hipMemSetAccess(
                    ptr: *mut c_void, size: usize, desc: *const hipMemAccessDesc, count: usize) -> hipError_t;
                [0x0102 "hip_5.1" (5 6 7) post] fn hipMemUnmap(ptr: *mut c_void, size: usize) -> hipError_t;
            }
            // Sharing between processes.
            ipc {
                [0x00cb "hip_4.2" (5 6 7) post] fn hipIpcCloseMemHandle(devPtr: *mut c_void) -> hipError_t;
                [0x00cc "hip_4.2" (5 6 7) absent] fn hipIpcGetEventHandle(
                    handle: *mut hipIpcEventHandle_t, event: hipEvent_t) -> hipError_t;
                [0x00cd "hip_4.2" (5 6 7) call] fn hipIpcGetMemHandle(
                    handle: *mut hipIpcMemHandle_t, devPtr: *mut c_void) -> hipError_t;
                [0x00ce "hip_4.2" (5 6 7) absent] fn hipIpcOpenEventHandle(
                    event: *mut hipEvent_t, handle: hipIpcEventHandle_t) -> hipError_t;
                [0x00cf "hip_4.2" (5 6 7) call] fn hipIpcOpenMemHandle(
                    devPtr: *mut *mut c_void, handle: hipIpcMemHandle_t, flags: c_uint) -> hipError_t;
            }
            // External memory, external semaphores and graphics.
            interop {
                [0x0020 "hip_4.3" (5 6 7) absent] fn hipDestroyExternalMemory(
                    extMem: hipExternalMemory_t) -> hipError_t;
                [0x0021 "hip_4.3" (5 6 7) absent] fn hipDestroyExternalSemaphore(
                    extSem: hipExternalSemaphore_t) -> hipError_t;
                [0x0059 "hip_4.3" (5 6 7) absent] fn hipExternalMemoryGetMappedBuffer(
                    devPtr: *mut *mut c_void, extMem: hipExternalMemory_t,
                    bufferDesc: *const hipExternalMemoryBufferDesc) -> hipError_t;
                [0x0064 "hip_4.3" (5 6 7) absent] fn hipGLGetDevices(
                    pHipDeviceCount: *mut c_uint, pHipDevices: *mut c_int, hipDeviceCount: c_uint,
                    deviceList: hipGLDeviceList) -> hipError_t;
                [0x00ba "hip_4.3" (5 6 7) absent] fn hipGraphicsGLRegisterBuffer(
                    resource: *mut *mut hipGraphicsResource, buffer: GLuint, flags: c_uint) -> hipError_t;
                [0x00bb "hip_4.5" (5 6 7) absent] fn hipGraphicsGLRegisterImage(
                    resource: *mut *mut hipGraphicsResource, image: GLuint, target: GLenum,
                    flags: c_uint) -> hipError_t;
                [0x00bc "hip_4.3" (5 6 7) absent] fn hipGraphicsMapResources(
                    count: c_int, resources: *mut hipGraphicsResource_t, stream: hipStream_t) -> hipError_t;
                [0x00bd "hip_4.3" (5 6 7) absent] fn hipGraphicsResourceGetMappedPointer(
                    devPtr: *mut *mut c_void, size: *mut usize,
                    resource: hipGraphicsResource_t) -> hipError_t;
                [0x00be "hip_4.5" (5 6 7) absent] fn hipGraphicsSubResourceGetMappedArray(
                    array: *mut hipArray_t, resource: hipGraphicsResource_t, arrayIndex: c_uint,
                    mipLevel: c_uint) -> hipError_t;
                [0x00bf "hip_4.3" (5 6 7) absent] fn hipGraphicsUnmapResources(
                    count: c_int, resources: *mut hipGraphicsResource_t, stream: hipStream_t) -> hipError_t;
                [0x00c0 "hip_4.3" (5 6 7) absent] fn hipGraphicsUnregisterResource(
                    resource: hipGraphicsResource_t) -> hipError_t;
                [0x00c8 "hip_4.3" (5 6 7) absent] fn hipImportExternalMemory(
                    extMem_out: *mut hipExternalMemory_t,
                    memHandleDesc: *const hipExternalMemoryHandleDesc) -> hipError_t;
                [0x00c9 "hip_4.3" (5 6 7) absent] fn hipImportExternalSemaphore(
                    extSem_out: *mut hipExternalSemaphore_t,
                    semHandleDesc: *const hipExternalSemaphoreHandleDesc) -> hipError_t;
                [0x014a "hip_4.3" (5 6 7) absent] fn hipSignalExternalSemaphoresAsync(
                    extSemArray: *const hipExternalSemaphore_t,
                    paramsArray: *const hipExternalSemaphoreSignalParams, numExtSems: c_uint,
                    stream: hipStream_t) -> hipError_t;
                [0x0182 "hip_4.3" (5 6 7) absent] fn hipWaitExternalSemaphoresAsync(
                    extSemArray: *const hipExternalSemaphore_t,
                    paramsArray: *const hipExternalSemaphoreWaitParams, numExtSems: c_uint,
                    stream: hipStream_t) -> hipError_t;
            }
        }
    };
}
