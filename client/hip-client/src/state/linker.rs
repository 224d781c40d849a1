//! The device linker: collects bitcode on the client and links it on the worker in one call.

use std::ffi::c_void;
use std::sync::Arc;

use hip_api::types::*;
use parking_lot::Mutex;

use crate::state::handles::{Kind, Table};
use crate::state::runtime::runtime;
use crate::telemetry::report;

/// Linkers can exist before any session, so their table belongs to the process.
static LINKERS: Table<Linker> = Table::new(Kind::Linker);

/// The inputs and the result of a link.
#[derive(Debug, Default)]
pub struct Linker {
    inputs: Mutex<Vec<(String, Vec<u8>)>>,
    /// The program holds a pointer into it, so it must not change.
    output: Mutex<Option<Vec<u8>>>,
}

/// Why linking failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    Handle,
    /// Only bitcode can be linked.
    Input,
    /// The file cannot be read.
    File,
    OutOfMemory,
    /// The session could not be opened or has failed.
    Session,
    Link,
}

pub fn create() -> Result<u64, LinkError> {
    LINKERS.insert_with(|_| Linker::default()).map(|(handle, _)| handle).ok_or(LinkError::OutOfMemory)
}

pub fn find(linker: u64) -> Result<Arc<Linker>, LinkError> {
    LINKERS.get(linker).ok_or(LinkError::Handle)
}

pub fn destroy(linker: u64) -> Result<(), LinkError> {
    LINKERS.remove(linker).map(|_| ()).ok_or(LinkError::Handle)
}

impl Linker {
    pub fn add(&self, kind: hipJitInputType, name: String, bytes: &[u8]) -> Result<(), LinkError> {
        if kind != hipJitInputLLVMBitcode || bytes.is_empty() {
            return Err(LinkError::Input);
        }
        self.inputs.lock().push((name, bytes.to_vec()));
        Ok(())
    }

    pub fn add_file(&self, kind: hipJitInputType, path: &str) -> Result<(), LinkError> {
        if kind != hipJitInputLLVMBitcode {
            return Err(LinkError::Input);
        }
        let bytes = std::fs::read(path).map_err(|error| {
            report::line(format_args!("the linker cannot read {path}: {error}"));
            LinkError::File
        })?;
        self.add(kind, path.to_owned(), &bytes)
    }

    /// Links for the current device. The linker owns the result.
    pub fn complete(&self) -> Result<(*mut c_void, usize), LinkError> {
        let mut output = self.output.lock();
        if output.is_none() {
            let runtime = runtime().map_err(|_| LinkError::Session)?;
            let (_, device) = runtime.current().map_err(|_| LinkError::Session)?;
            let inputs = self.inputs.lock();
            let inputs =
                inputs.iter().map(|(name, bytes)| (name.clone(), wire::Bytes(bytes.clone()))).collect();
            let operation = wire::Link { isa: device.snapshot.isa.clone(), inputs };
            let linked = runtime.call(&operation).map_err(|_| LinkError::Session)?;
            if linked.status != HIPRTC_SUCCESS.0 as i32 {
                report::line(format_args!("linking failed: {}", linked.log.trim_end()));
                return Err(LinkError::Link);
            }
            *output = Some(linked.code.0);
        }
        let code = output.as_mut().ok_or(LinkError::Link)?;
        Ok((code.as_mut_ptr().cast(), code.len()))
    }
}
