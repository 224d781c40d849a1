//! Requests about physical memory, mappings and memory sharing.
//!
//! Sharing goes through the supervisor, so its replies come later, from the control thread; nothing here blocks.

use std::sync::Arc;

use backend::{DeviceError, MemoryAccess, Shareable};
use wire::{Header, Opcode, Operation};

use crate::broker::Token;
use crate::dispatch::{Dispatcher, decode};

impl Dispatcher {
    /// Executes the operations of this file.
    pub(crate) fn virtual_memory(&self, opcode: Opcode, header: &Header, payload: &[u8]) {
        let device = &*self.device;
        match opcode {
            Opcode::CreateMemory => self.now::<wire::CreateMemory>(header, payload, |it, _| {
                device.create_memory(it.device, it.memory, it.bytes)?;
                Ok(Default::default())
            }),
            Opcode::ReleaseMemory => self.now::<wire::ReleaseMemory>(header, payload, |it, _| {
                device.release_memory(it.memory)?;
                Ok(Default::default())
            }),
            Opcode::MapMemory => self.now::<wire::MapMemory>(header, payload, |it, _| {
                device.map_memory(it.memory, it.offset, it.address, it.bytes)?;
                Ok(Default::default())
            }),
            Opcode::UnmapMemory => self.now::<wire::UnmapMemory>(header, payload, |it, _| {
                device.unmap_memory(it.address, it.bytes)?;
                Ok(Default::default())
            }),
            Opcode::SetAccess => self.now::<wire::SetAccess>(header, payload, |it, _| {
                let access = match it.access {
                    0 => MemoryAccess::None,
                    1 => MemoryAccess::Read,
                    3 => MemoryAccess::ReadWrite,
                    access => return Err(DeviceError::invalid_value(format!("unknown access {access}"))),
                };
                device.set_access(it.device, it.address, it.bytes, access)?;
                Ok(Default::default())
            }),
            Opcode::ShareMemory => match decode::<wire::ShareMemory>(payload) {
                Ok((it, _)) => {
                    self.share::<wire::ShareMemory>(header, Shareable::Memory(it.memory), |token, bytes| {
                        wire::reply::ShareMemory { token, bytes }
                    })
                }
                Err(error) => self.outbox.fail(header, &error),
            },
            Opcode::ShareAllocation => match decode::<wire::ShareAllocation>(payload) {
                Ok((it, _)) => {
                    let what = Shareable::Allocation(it.address);
                    self.share::<wire::ShareAllocation>(header, what, |token, bytes| {
                        wire::reply::ShareAllocation { token, bytes }
                    });
                }
                Err(error) => self.outbox.fail(header, &error),
            },
            Opcode::OpenMemory => match decode::<wire::OpenMemory>(payload) {
                Ok((it, _)) => self.open(header, it),
                Err(error) => self.outbox.fail(header, &error),
            },
            other => self.outbox.fail(header, &DeviceError::not_supported(other.name())),
        }
    }

    fn share<O: Operation>(
        &self,
        header: &Header,
        what: Shareable,
        reply: impl FnOnce(Token, u64) -> O::Reply + Send + 'static,
    ) {
        let (outbox, exchange, header) = (Arc::clone(&self.outbox), Arc::clone(&self.exchange), *header);
        let address = match what {
            Shareable::Allocation(address) => Some(address),
            Shareable::Memory(_) => None,
        };
        let known = address.and_then(|address| exchange.token_of(address));
        let shared = move |shared: Result<backend::SharedMemory, DeviceError>| {
            let shared = match shared {
                Ok(shared) => shared,
                Err(error) => return outbox.fail(&header, &error),
            };
            let bytes = shared.bytes;
            if let Some(token) = known {
                return outbox.finish::<O>(&header, Ok(reply(token, bytes)));
            }
            let book = Arc::clone(&exchange);
            exchange.offer(
                shared,
                Box::new(move |token| {
                    if let (Ok(token), Some(address)) = (&token, address) {
                        book.remember(address, *token);
                    }
                    outbox.finish::<O>(&header, token.map(|token| reply(token, bytes)));
                }),
            );
        };
        self.device.share(what, Box::new(shared));
    }

    fn open(&self, header: &Header, it: wire::OpenMemory) {
        let (outbox, device, header) = (Arc::clone(&self.outbox), Arc::clone(&self.device), *header);
        self.exchange.open(
            it.token,
            Box::new(move |shared| {
                let opened = shared.and_then(|shared| {
                    let bytes = shared.bytes;
                    device.open_memory(it.device, it.memory, shared)?;
                    Ok(wire::reply::OpenMemory { bytes })
                });
                outbox.finish::<wire::OpenMemory>(&header, opened);
            }),
        );
    }
}
