//! The runner process for solutions of the kernel shape. It uses the device through the client library, as any program would.
//!
//! No user code runs in it. It is a separate process so that the judge can kill it and report the failure if the device hangs or the
//! library crashes.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use crate::generator;
use crate::hip::{Address, Handle, Hip, HipError, HipResult, Shareable};
use crate::message::{
    self, Call, CallReport, DESCRIPTOR, DONE, Fill, Generate, HIP_ERROR, MOST, OTHER_ERROR, Preparation,
    Request, Slot,
};

/// Error that ends a runner.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The client library is missing or lacks a function.
    #[error("the client library could not be opened")]
    Library(#[from] libloading::Error),
    /// The connection to the judge failed.
    #[error("the judge cannot be reached")]
    Link(#[from] std::io::Error),
}

/// Serves the judge, connected through descriptor 3, until it closes the connection.
///
/// # Safety
/// Descriptor 3 is a socket that nothing else in this process uses.
pub unsafe fn serve(library: &Path) -> Result<(), RunnerError> {
    // SAFETY: the caller guarantees that descriptor 3 is a socket that nothing else uses.
    let mut stream = unsafe { UnixStream::from_raw_fd(DESCRIPTOR) };
    let hip = Hip::open(library)?;
    let mut runner = Runner {
        hip,
        code: None,
        kernel: None,
        buffers: HashMap::new(),
        scratch: None,
        events: None,
        generator: Vec::new(),
        generators: HashMap::new(),
    };
    // Both keep their memory: to get new pages from the system takes longer than to copy the contents.
    let (mut frame, mut reply) = (Vec::new(), Vec::new());
    loop {
        match message::receive_into(&mut stream, &mut frame) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        reply.clear();
        reply.push(DONE);
        let done = match Request::decode(&frame) {
            Some(request) => runner.serve(request, &mut reply),
            None => Err(Refusal::Other("invalid request from the judge".to_owned())),
        };
        if let Err(refusal) = done {
            reply.clear();
            match refusal {
                Refusal::Hip(error) => {
                    reply.push(HIP_ERROR);
                    reply.extend(error.code.to_le_bytes());
                    reply.extend(error.to_string().as_bytes());
                }
                Refusal::Other(text) => {
                    reply.push(OTHER_ERROR);
                    reply.extend(text.as_bytes());
                }
            }
        }
        message::send(&mut stream, &reply)?;
    }
}

enum Refusal {
    Hip(HipError),
    Other(String),
}

impl From<HipError> for Refusal {
    fn from(error: HipError) -> Refusal {
        Refusal::Hip(error)
    }
}

struct Runner {
    hip: Hip,
    /// The code object and the name of its kernel.
    code: Option<(Vec<u8>, CString)>,
    /// The loaded module and its kernel.
    kernel: Option<(Handle, Handle)>,
    buffers: HashMap<u32, Buffer>,
    /// Scratch buffer, written to flush the caches.
    scratch: Option<(Address, u64)>,
    events: Option<(Handle, Handle)>,
    /// Code of the kernel that generates inputs, and the kernel on the devices that have used it.
    generator: Vec<u8>,
    generators: HashMap<u32, Handle>,
}

/// A buffer on a device.
struct Buffer {
    device: u32,
    address: Address,
    bytes: u64,
    /// Its physical memory, if other processes can map it.
    shared: Option<Shareable>,
}

impl Runner {
    fn serve(&mut self, request: Request, reply: &mut Vec<u8>) -> Result<(), Refusal> {
        match request {
            Request::Device => reply.extend(self.hip.device_name()?.as_bytes()),
            Request::DeviceCount => reply.extend(self.hip.device_count()?.to_le_bytes()),
            Request::Load { code, kernel } => {
                let name = CString::new(kernel)
                    .map_err(|_| Refusal::Other("the kernel name contains a zero byte".to_owned()))?;
                self.code = Some((code, name));
                self.reload()?;
            }
            Request::Allocate { device, buffer, bytes } => {
                let address = self.on(device, |hip| hip.allocate(bytes))?;
                self.buffers.insert(buffer, Buffer { device, address, bytes, shared: None });
            }
            Request::Free { buffer } => match self.buffers.remove(&buffer) {
                Some(Buffer { shared: Some(shared), .. }) => self.hip.free_shareable(shared)?,
                Some(Buffer { address, .. }) => self.hip.free(address)?,
                None => {}
            },
            Request::Write { buffer, offset, bytes } => {
                let address = self.place(buffer, offset, bytes.len() as u64)?;
                // On the device of the buffer, and so after its fills.
                self.on(self.device_of(buffer), |hip| hip.write(address, &bytes))?;
            }
            Request::Read { buffer, offset, bytes } => {
                let address = self.place(buffer, offset, bytes)?;
                if bytes as usize > MOST - 1 {
                    return Err(Refusal::Other("the read is larger than a frame".to_owned()));
                }
                reply.resize(1 + bytes as usize, 0);
                self.on(self.device_of(buffer), |hip| hip.read(address, &mut reply[1..]))?;
            }
            Request::Fill(fills) => self.fill(&fills)?,
            Request::Call(call) => self.call(&call)?.encode(reply),
            Request::Reload => self.reload()?,
            Request::SessionId => reply.extend(self.hip.session().unwrap_or(0).to_le_bytes()),
            Request::Generator { code } => self.generator = code,
            Request::Generate(generate) => self.generate(&generate)?,
            Request::Share { device, buffer, bytes } => {
                let shared = self.on(device, |hip| hip.allocate_shareable(device, bytes))?;
                let address = shared.address;
                self.buffers.insert(buffer, Buffer { device, address, bytes, shared: Some(shared) });
                reply.extend(self.hip.share(address)?);
            }
            Request::Prepare(Preparation { flush, fills }) => {
                self.fill(&fills)?;
                for device in self.devices() {
                    self.on(device, |hip| hip.synchronize())?;
                }
                self.flush(flush)?;
                self.hip.synchronize()?;
            }
        }
        Ok(())
    }

    /// Ordinals of the devices that have buffers.
    fn devices(&self) -> BTreeSet<u32> {
        self.buffers.values().map(|buffer| buffer.device).collect()
    }

    /// Ordinal of the device that has a buffer.
    fn device_of(&self, buffer: u32) -> u32 {
        self.buffers.get(&buffer).map_or(0, |buffer| buffer.device)
    }

    /// Calls a function with a device as the current one. The first device is current otherwise.
    fn on<T>(&self, device: u32, call: impl FnOnce(&Hip) -> HipResult<T>) -> HipResult<T> {
        if device == 0 {
            return call(&self.hip);
        }
        self.hip.set_device(device)?;
        let result = call(&self.hip);
        self.hip.set_device(0)?;
        result
    }

    /// Loads the module again: its global variables then have their initial values.
    fn reload(&mut self) -> Result<(), Refusal> {
        if let Some((module, _)) = self.kernel.take() {
            self.hip.unload(module)?;
        }
        if let Some((code, name)) = &self.code {
            self.kernel = Some(self.hip.load(code, name)?);
        }
        Ok(())
    }

    /// Returns the address of a range in a buffer.
    fn place(&self, buffer: u32, offset: u64, bytes: u64) -> Result<Address, Refusal> {
        let inside = self.buffers.get(&buffer).and_then(|it| {
            let end = offset.checked_add(bytes)?;
            (end <= it.bytes).then(|| it.address + offset)
        });
        inside.ok_or_else(|| Refusal::Other("the range is outside of the buffer".to_owned()))
    }

    fn fill(&self, fills: &[Fill]) -> Result<(), Refusal> {
        for fill in fills {
            let address = self.place(fill.buffer, fill.offset, fill.words.saturating_mul(4))?;
            let device = self.device_of(fill.buffer);
            if fill.words > 0 {
                self.on(device, |hip| hip.fill(address, fill.words, fill.pattern))?;
            }
        }
        Ok(())
    }

    /// Generates an input on the device of its buffer.
    fn generate(&mut self, it: &Generate) -> Result<(), Refusal> {
        let address = self.place(it.buffer, it.offset, it.bytes)?;
        let device = self.device_of(it.buffer);
        let kernel = match self.generators.get(&device) {
            Some(kernel) => *kernel,
            None => {
                let name = CString::new(generator::KERNEL).unwrap_or_default();
                let (_, kernel) = self.on(device, |hip| hip.load(&self.generator, &name))?;
                self.generators.insert(device, kernel);
                kernel
            }
        };
        let numbers = [address, it.count, it.seed, it.element.into(), it.kind.into(), it.low, it.span]
            .map(u64::to_le_bytes);
        let (grid, block) = ([generator::groups(it.count), 1, 1], [generator::BLOCK, 1, 1]);
        self.on(device, |hip| hip.launch(kernel, grid, block, 0, &mut { numbers }))?;
        Ok(())
    }

    fn call(&mut self, call: &Call) -> Result<CallReport, Refusal> {
        let (_, kernel) = self.kernel.ok_or_else(|| Refusal::Other("no kernel is loaded".to_owned()))?;
        let mut arguments = Vec::new();
        for slot in &call.slots {
            arguments.push(match slot {
                Slot::Scalar { bytes } => *bytes,
                Slot::Buffer { buffer, offset } => self.place(*buffer, *offset, 0)?.to_le_bytes(),
            });
        }
        let (from, to) = self.events()?;
        self.hip.synchronize()?;
        let counting = call.count && self.hip.begin_counting();
        let begun = Instant::now();
        self.hip.record(from)?;
        let launched = self.hip.launch(kernel, call.grid, call.block, call.local, &mut arguments);
        let done = launched.and_then(|()| self.hip.record(to)).and_then(|()| self.hip.synchronize());
        let host_ms = begun.elapsed().as_secs_f64() * 1e3;
        // Stop counting even if the call failed.
        let counts = if counting { self.hip.end_counting() } else { None };
        done?;
        Ok(CallReport { device_ms: self.hip.elapsed(from, to)?, host_ms, counts })
    }

    fn events(&mut self) -> HipResult<(Handle, Handle)> {
        if let Some(events) = self.events {
            return Ok(events);
        }
        let events = (self.hip.event()?, self.hip.event()?);
        self.events = Some(events);
        Ok(events)
    }

    /// Flushes the caches by writing `bytes` of scratch memory.
    fn flush(&mut self, bytes: u64) -> Result<(), Refusal> {
        if bytes == 0 {
            return Ok(());
        }
        let scratch = match self.scratch {
            Some((address, size)) if size >= bytes => address,
            _ => {
                let address = self.hip.allocate(bytes)?;
                self.scratch = Some((address, bytes));
                address
            }
        };
        Ok(self.hip.fill(scratch, bytes / 4, 0x5a5a_5a5a)?)
    }
}
