//! RCCL: sums, copies and collections between the GPUs of a process, by a library that is opened at run time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use parking_lot::Mutex;
use tensor_core::device::{Buffer, Device};
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;

use crate::companion::{functions, open};
use crate::device::RocmDevice;
use crate::memory::address_of;

const NAMES: &[&str] = &["librccl.so.1", "librccl.so"];

type Communicator = *mut c_void;

functions! {
    /// The functions used here. They return zero for success.
    struct Functions {
        ncclCommInitAll: unsafe extern "C" fn(*mut Communicator, c_int, *const c_int) -> c_int,
        ncclCommDestroy: unsafe extern "C" fn(Communicator) -> c_int,
        ncclGetErrorString: unsafe extern "C" fn(c_int) -> *const c_char,
        ncclGroupStart: unsafe extern "C" fn() -> c_int,
        ncclGroupEnd: unsafe extern "C" fn() -> c_int,
        ncclAllReduce: unsafe extern "C" fn(
            *const c_void, *mut c_void, usize, c_int, c_int, Communicator, *mut c_void,
        ) -> c_int,
        ncclBroadcast: unsafe extern "C" fn(
            *const c_void, *mut c_void, usize, c_int, c_int, Communicator, *mut c_void,
        ) -> c_int,
        ncclAllGather: unsafe extern "C" fn(
            *const c_void, *mut c_void, usize, c_int, Communicator, *mut c_void,
        ) -> c_int,
    }
}

/// How elements of several GPUs become one; the numbers are RCCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// Their sum.
    Sum = 0,
    /// Their product.
    Product = 1,
    /// The largest.
    Max = 2,
    /// The smallest.
    Min = 3,
}

/// What the GPUs of a group do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// All get the combination of all elements.
    AllReduce(Combination),
    /// All get the elements of the GPU with this number in the group.
    Broadcast(usize),
    /// All get the elements of all, in the order of the group.
    AllGather,
}

/// GPUs of one process that compute together.
pub struct Group {
    devices: Vec<Arc<dyn Device>>,
    functions: Functions,
    /// One for each device, as integers so that any thread can use them, one at a time.
    communicators: Mutex<Vec<usize>>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name()).collect();
        write!(f, "RCCL group of {}", names.join(", "))
    }
}

impl Group {
    /// Opens RCCL for different GPUs. Fails with the reason if it is not installed or cannot use them. Its kernels wait for the host
    /// unless it finds another way between the GPUs, see [`RocmDevice::sees_host_writes`].
    pub fn open(devices: &[Arc<dyn Device>]) -> Result<Group, String> {
        let gpus = devices.iter().map(gpu).collect::<Result<Vec<_>, _>>()?;
        let [first, ..] = gpus[..] else { return Err("there are no devices".to_owned()) };
        let (library, _) = open(NAMES, first.stream())?;
        // SAFETY: these are RCCL's functions; the library is never closed.
        let functions = unsafe { Functions::of(&library) }?;
        let numbers: Vec<c_int> = gpus.iter().map(|device| device.ordinal() as c_int).collect();
        let mut communicators: Vec<Communicator> = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: both arrays have as many elements as the call is given.
        let status = unsafe {
            (functions.ncclCommInitAll)(communicators.as_mut_ptr(), numbers.len() as c_int, numbers.as_ptr())
        };
        succeeded(&functions, "ncclCommInitAll", status)?;
        let communicators = Mutex::new(communicators.iter().map(|&it| it as usize).collect());
        let group = Group { devices: devices.to_vec(), functions, communicators };
        group.add_ones().map_err(|error| error.to_string())?;
        Ok(group)
    }

    /// Fails if the library cannot compute on these devices: it may have no kernels for them, which it says only now.
    fn add_ones(&self) -> Result<(), DeviceError> {
        let mut inputs = Vec::with_capacity(self.devices.len());
        for device in &self.devices {
            let one = device.allocate(size_of::<f32>())?;
            device.upload(&one, 0, &1.0_f32.to_ne_bytes())?;
            inputs.push((one, 0));
        }
        let sums = self.run(Collective::AllReduce(Combination::Sum), &inputs, 1, DType::F32)?;
        for (device, sum) in self.devices.iter().zip(&sums) {
            let mut bytes = [0; size_of::<f32>()];
            device.download(sum, 0, &mut bytes)?;
            let (found, expected) = (f32::from_ne_bytes(bytes), self.devices.len() as f32);
            if found != expected {
                return Err(DeviceError::Unsupported(format!(
                    "RCCL added {expected} ones on {} to {found}",
                    device.name()
                )));
            }
        }
        Ok(())
    }

    /// The devices, in order.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        &self.devices
    }

    /// Whether the library can compute with elements of this type. It copies those of every type.
    pub fn reduces(dtype: DType) -> bool {
        type_of(dtype).is_some()
    }

    /// Submits work to the streams of all devices. `inputs` has the buffer of each device and the offset in bytes of its first
    /// element; for a broadcast only that of the device that gives the elements. All have `count` elements of this type. Returns a new
    /// buffer for each device.
    pub fn run(
        &self,
        collective: Collective,
        inputs: &[(Buffer, usize)],
        count: usize,
        dtype: DType,
    ) -> Result<Vec<Buffer>, DeviceError> {
        let unsupported = |why: String| DeviceError::Unsupported(format!("RCCL: {why}"));
        let bytes = count * dtype.bytes();
        let (expected, parts) = match collective {
            Collective::Broadcast(_) => (1, 1),
            Collective::AllReduce(_) => (self.devices.len(), 1),
            Collective::AllGather => (self.devices.len(), self.devices.len()),
        };
        if inputs.len() != expected {
            return Err(unsupported(format!("{} tensors for {} GPUs", inputs.len(), self.devices.len())));
        }
        // What is only copied is bytes.
        let (number, count) = match collective {
            Collective::AllReduce(_) => {
                let number = type_of(dtype);
                (number.ok_or_else(|| unsupported(format!("no elements of type {dtype}")))?, count)
            }
            _ => (BYTE, bytes),
        };
        let mut outputs = Vec::with_capacity(self.devices.len());
        let mut places = Vec::with_capacity(self.devices.len());
        for (at, device) in self.devices.iter().enumerate() {
            gpu(device).map_err(unsupported)?.stream().select()?;
            let output = device.allocate((parts * bytes).max(1))?;
            let to =
                address_of(&*output).ok_or_else(|| unsupported("an output has no address".to_owned()))?;
            let input = match collective {
                Collective::Broadcast(root) if root != at => None,
                Collective::Broadcast(_) => inputs.first(),
                _ => inputs.get(at),
            };
            let from = match input {
                // Not read.
                None => to,
                Some((input, offset)) => address_of(&**input)
                    .filter(|_| offset.checked_add(bytes).is_some_and(|end| end <= input.bytes()))
                    .map(|address| address + *offset as u64)
                    .ok_or_else(|| unsupported(format!("a tensor is not in memory of {}", device.name())))?,
            };
            places.push((from as *const c_void, to as *mut c_void));
            outputs.push(output);
        }
        let communicators = self.communicators.lock();
        let it = &self.functions;
        let failed = |call| move |error| DeviceError::Call { call, error };
        // SAFETY: no arguments.
        let status = unsafe { (it.ncclGroupStart)() };
        succeeded(it, "ncclGroupStart", status).map_err(failed("ncclGroupStart"))?;
        let mut done = Ok(());
        for ((device, &communicator), (from, to)) in self.devices.iter().zip(&*communicators).zip(places) {
            let stream = gpu(device).map_err(unsupported)?.stream().handle().cast();
            let communicator = communicator as Communicator;
            // SAFETY: both addresses are memory of this device with at least the bytes that the call reads and writes, which the
            // callers keep until work that is submitted later frees them; the communicator is this device's.
            let (call, status) = unsafe {
                match collective {
                    Collective::AllReduce(combination) => (
                        "ncclAllReduce",
                        (it.ncclAllReduce)(
                            from,
                            to,
                            count,
                            number,
                            combination as c_int,
                            communicator,
                            stream,
                        ),
                    ),
                    Collective::Broadcast(root) => (
                        "ncclBroadcast",
                        (it.ncclBroadcast)(from, to, count, number, root as c_int, communicator, stream),
                    ),
                    Collective::AllGather => {
                        ("ncclAllGather", (it.ncclAllGather)(from, to, count, number, communicator, stream))
                    }
                }
            };
            done = done.and(succeeded(it, call, status).map_err(failed(call)));
        }
        // Also after a failure: a group that was begun must be ended.
        // SAFETY: no arguments.
        let status = unsafe { (it.ncclGroupEnd)() };
        done.and(succeeded(it, "ncclGroupEnd", status).map_err(failed("ncclGroupEnd")))?;
        Ok(outputs)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for (device, &communicator) in self.devices.iter().zip(self.communicators.get_mut().iter()) {
            if gpu(device).is_ok_and(|gpu| gpu.stream().select().is_ok()) {
                // A failure cannot be reported from drop.
                // SAFETY: the communicator is the library's, and not used afterwards.
                unsafe { (self.functions.ncclCommDestroy)(communicator as Communicator) };
            }
        }
    }
}

fn succeeded(functions: &Functions, call: &str, status: c_int) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: returns null or a static, terminated string for any status.
    let text = unsafe { (functions.ncclGetErrorString)(status) };
    if text.is_null() {
        return Err(format!("{call} returned status {status}"));
    }
    // SAFETY: not null, terminated and static, as above.
    Err(format!("{call} returned status {status}: {}", unsafe { CStr::from_ptr(text) }.to_string_lossy()))
}

fn gpu(device: &Arc<dyn Device>) -> Result<&RocmDevice, String> {
    device.as_any().downcast_ref().ok_or_else(|| format!("{} is not a ROCm device", device.name()))
}

/// The number of bytes among the types.
const BYTE: c_int = 1;

/// The number of a type, `ncclDataType_t`.
fn type_of(dtype: DType) -> Option<c_int> {
    Some(match dtype {
        DType::I8 => 0,
        DType::U8 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::U64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        _ => return None,
    })
}
