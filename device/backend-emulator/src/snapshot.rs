//! Saves and restores the state of a session's software GPUs, component by component.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

use backend::{Device, DeviceError, Holding, Inventory, Snapshot};
use hip_api::types::{hipLimitMallocHeapSize, hipLimitStackSize};

use crate::device::Emulator;

impl Snapshot for Emulator {
    fn capture(&self) -> Result<Inventory, DeviceError> {
        let runner = self.scheduler.work();
        if runner.observation.is_some() || runner.engines.iter().any(|engine| engine.counting.is_on()) {
            return Err(DeviceError::not_supported(
                "the session's kernels are being traced, profiled, checked or counted",
            ));
        }
        let mut inventory = Inventory::default();
        self.scheduler.capture(&mut inventory)?;
        runner.modules.lock().capture(&mut inventory);
        let modules: HashSet<u64> = inventory.modules.iter().map(|it| it.base).collect();
        self.memory.capture(&mut inventory, &modules)?;
        for (engine, device) in runner.engines.iter().zip(0..) {
            let (heap, limit) = engine.heap.capture();
            inventory.heaps.extend(heap);
            let heap = limit.map(|limit| (device, hipLimitMallocHeapSize.0 as i32, limit));
            let stack = Some(engine.stack_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0);
            let stack = stack.map(|bytes| (device, hipLimitStackSize.0 as i32, bytes));
            inventory.limits.extend(heap.into_iter().chain(stack));
        }
        Ok(inventory)
    }

    fn show(
        &self,
        holding: Holding,
        range: Range<u64>,
        show: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), DeviceError> {
        match holding {
            Holding::Memory(id) => self.memory.show_physical(id, range, show),
            Holding::At(address) => {
                let range = range.start..range.end.min(self.held(address)?);
                // SAFETY: the range is allocated, and the callers of `show` wait for each other before one makes a call that would unmap
                // or write it.
                unsafe { self.memory.show(address, range, show) };
                Ok(())
            }
        }
    }

    fn restore(&self, inventory: &Inventory) -> Result<(), DeviceError> {
        let runner = self.scheduler.work();
        self.memory.restore(inventory)?;
        for it in &inventory.modules {
            let image = inventory.images.get(it.image);
            let image =
                image.ok_or_else(|| DeviceError::invalid_value("a module's code object is missing"))?;
            self.load_module(it.device, it.module, it.base, image)?;
        }
        for it in &inventory.functions {
            self.define_function(it.function, it.module, &it.name)?;
        }
        for it in &inventory.heaps {
            let engine = runner.engines.get(it.device as usize);
            engine.ok_or_else(|| DeviceError::invalid_device(it.device))?.heap.restore(it)?;
        }
        for (device, limit, value) in &inventory.limits {
            self.set_limit(*device, *limit, *value)?;
        }
        self.scheduler.restore(inventory)?;
        self.memory.release_restored(inventory)
    }

    fn fill(&self, holding: Holding, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let address = match holding {
            Holding::Memory(id) => return self.memory.fill_physical(id, offset, bytes),
            Holding::At(address) => address,
        };
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| Some(end) > self.held(address).ok()) {
            let text = format!("{} bytes exceed the end of the memory at {address:#x}", bytes.len());
            return Err(DeviceError::invalid_value(text));
        }
        // SAFETY: the range is allocated, and nothing else uses it yet.
        unsafe { self.memory.bytes_mut(address + offset, bytes.len() as u64) }.copy_from_slice(bytes);
        Ok(())
    }

    fn waits_for_host(&self) -> bool {
        self.scheduler.waits_for_host()
    }
}

impl Emulator {
    /// The size of the allocation, module or heap piece that starts at an address.
    fn held(&self, address: u64) -> Result<u64, DeviceError> {
        let pieces = || self.scheduler.work().engines.iter().find_map(|engine| engine.heap.piece(address));
        let found = self.memory.allocated(address).or_else(pieces);
        found.ok_or_else(|| DeviceError::invalid_value(format!("nothing is allocated at {address:#x}")))
    }
}
