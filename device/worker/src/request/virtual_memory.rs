//! Requests about physical memory, mappings and memory sharing.
//!
//! Sharing goes through the supervisor, so its replies come later, from the control thread; nothing here blocks.

use std::sync::Arc;

use backend::{DeviceError, MemoryAccess, Shareable};
use wire::{Handle, Header, Operation};

use crate::control::ShareToken;
use crate::request::Dispatcher;
use crate::request::answer::{Answer, RequestError};

impl Handle<wire::CreateMemory> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::CreateMemory,
    ) -> Result<Answer<wire::CreateMemory>, RequestError> {
        self.device.create_memory(it.device, it.memory, it.bytes)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::ReleaseMemory> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::ReleaseMemory,
    ) -> Result<Answer<wire::ReleaseMemory>, RequestError> {
        self.device.release_memory(it.memory)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::MapMemory> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::MapMemory) -> Result<Answer<wire::MapMemory>, RequestError> {
        self.device.map_memory(it.memory, it.offset, it.address, it.bytes)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::UnmapMemory> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::UnmapMemory,
    ) -> Result<Answer<wire::UnmapMemory>, RequestError> {
        self.device.unmap_memory(it.address, it.bytes)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::SetAccess> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::SetAccess) -> Result<Answer<wire::SetAccess>, RequestError> {
        let access = match it.access {
            0 => MemoryAccess::None,
            1 => MemoryAccess::Read,
            3 => MemoryAccess::ReadWrite,
            access => return Err(DeviceError::invalid_value(format!("unknown access {access}")).into()),
        };
        self.device.set_access(it.device, it.address, it.bytes, access)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::ShareMemory> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::ShareMemory,
    ) -> Result<Answer<wire::ShareMemory>, RequestError> {
        let what = Shareable::Memory(it.memory);
        self.share::<wire::ShareMemory>(header, what, |token, bytes| wire::reply::ShareMemory {
            token,
            bytes,
        });
        Ok(Answer::Later)
    }
}

impl Handle<wire::ShareAllocation> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::ShareAllocation,
    ) -> Result<Answer<wire::ShareAllocation>, RequestError> {
        let what = Shareable::Allocation(it.address);
        self.share::<wire::ShareAllocation>(header, what, |token, bytes| wire::reply::ShareAllocation {
            token,
            bytes,
        });
        Ok(Answer::Later)
    }
}

impl Handle<wire::OpenMemory> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::OpenMemory,
    ) -> Result<Answer<wire::OpenMemory>, RequestError> {
        let (outgoing, device, header) = (Arc::clone(&self.outgoing), Arc::clone(&self.device), *header);
        self.exchange.open(
            it.token,
            Box::new(move |shared| {
                let opened = shared.and_then(|shared| {
                    let bytes = shared.bytes;
                    device.open_memory(it.device, it.memory, shared)?;
                    Ok(wire::reply::OpenMemory { bytes })
                });
                outgoing.outbox.finish::<wire::OpenMemory>(&header, opened);
            }),
        );
        Ok(Answer::Later)
    }
}

impl Dispatcher {
    /// Offers memory to other sessions and replies with its token.
    fn share<O: Operation>(
        &self,
        header: &Header,
        what: Shareable,
        reply: impl FnOnce(ShareToken, u64) -> O::Reply + Send + 'static,
    ) {
        let (outgoing, exchange, header) = (Arc::clone(&self.outgoing), Arc::clone(&self.exchange), *header);
        let address = match what {
            Shareable::Allocation(address) => Some(address),
            Shareable::Memory(_) => None,
        };
        let known = address.and_then(|address| exchange.token_of(address));
        let shared = move |shared: Result<backend::SharedMemory, DeviceError>| {
            let shared = match shared {
                Ok(shared) => shared,
                Err(error) => return outgoing.outbox.fail(&header, &error),
            };
            let bytes = shared.bytes;
            if let Some(token) = known {
                return outgoing.outbox.finish::<O>(&header, Ok(reply(token, bytes)));
            }
            let book = Arc::clone(&exchange);
            exchange.offer(
                shared,
                Box::new(move |token| {
                    if let (Ok(token), Some(address)) = (&token, address) {
                        book.remember(address, *token);
                    }
                    outgoing.outbox.finish::<O>(&header, token.map(|token| reply(token, bytes)));
                }),
            );
        };
        self.device.share(what, Box::new(shared));
    }
}
