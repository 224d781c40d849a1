//! Virtual memory management of the software GPUs, ordered with work in progress.

use std::sync::Arc;
use std::time::Duration;

use backend::{DeviceError, MemoryAccess, MemoryId, Scope, Shareable, SharedMemory, Sharing, VirtualMemory};

use crate::device::Emulator;

/// Maximum time for which new commands are blocked while an allocation waits to be moved. A running command may wait for a
/// blocked one, so the lock attempt is abandoned after this time and retried, which avoids a deadlock.
const HOLD: Duration = Duration::from_millis(10);

impl VirtualMemory for Emulator {
    fn create_memory(&self, device: u32, memory: MemoryId, bytes: u64) -> Result<(), DeviceError> {
        self.memory.create_physical(device, memory, bytes)
    }

    fn release_memory(&self, memory: MemoryId) -> Result<(), DeviceError> {
        self.memory.release_physical(memory)
    }

    fn map_memory(&self, memory: MemoryId, offset: u64, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.settle(address, bytes);
        self.memory.map_physical(memory, offset, address, bytes)
    }

    fn unmap_memory(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let mappings = self.memory.mappings(address, bytes)?;
        for (start, _) in &mappings {
            self.memory.leave_mapping(*start)?;
        }
        let memory = Arc::clone(&self.memory);
        self.scheduler.after(Scope::Everything, move || {
            mappings.iter().for_each(|(start, _)| memory.unmap(*start));
        });
        Ok(())
    }

    fn set_access(
        &self,
        device: u32,
        address: u64,
        bytes: u64,
        access: MemoryAccess,
    ) -> Result<(), DeviceError> {
        self.memory.set_access(device, address, bytes, access)
    }

    fn share(&self, what: Shareable, done: Sharing) {
        let address = match (self.memory.shared(what), what) {
            (Err(error), _) => return done(Err(error)),
            (Ok(Some(shared)), _) => return done(Ok(shared)),
            (Ok(None), Shareable::Allocation(address)) => address,
            (Ok(None), Shareable::Memory(_)) => {
                return done(Err(DeviceError::invalid_handle("unknown memory handle")));
            }
        };
        let memory = Arc::clone(&self.memory);
        let moving = move || {
            let still = loop {
                if let Some(still) = memory.still.try_write_for(HOLD) {
                    break still;
                }
                std::thread::sleep(HOLD);
            };
            let moved = memory.move_to_file(address);
            drop(still);
            done(moved);
        };
        if let Err(error) = std::thread::Builder::new().name("share".to_owned()).spawn(moving) {
            tracing::error!("cannot start a thread to share memory: {error}");
        }
    }

    fn open_memory(&self, device: u32, memory: MemoryId, shared: SharedMemory) -> Result<(), DeviceError> {
        if device as usize >= backend::Device::info(self).len() {
            return Err(DeviceError::invalid_device(device));
        }
        self.memory.open_physical(device, memory, shared)
    }
}
