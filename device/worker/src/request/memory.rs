//! Requests about allocations and mirrored memory.

use backend::{DeviceError, MemoryKind};
use wire::{Handle, HandleBody, Header, Payload as _};

use crate::request::Dispatcher;
use crate::request::answer::{Answer, RequestError};
use crate::request::payload::Payload;

impl Handle<wire::Allocate> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::Allocate) -> Result<Answer<wire::Allocate>, RequestError> {
        let kind = match it.kind {
            0 => MemoryKind::Device,
            1 => MemoryKind::Managed,
            2 => MemoryKind::PinnedHost,
            kind => return Err(DeviceError::invalid_value(format!("unknown memory kind {kind}")).into()),
        };
        self.device.map(it.device, kind, it.address, it.bytes)?;
        if kind != MemoryKind::Device {
            let owner = (kind == MemoryKind::Managed).then_some(it.device);
            self.mirror(owner, it.address, it.bytes)?;
        }
        Ok(Answer::done())
    }
}

impl Handle<wire::Adopt> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::Adopt) -> Result<Answer<wire::Adopt>, RequestError> {
        self.device.map_host_range(it.device, it.address, it.bytes)?;
        self.mirror(None, it.address, it.bytes)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::Release> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::Release) -> Result<Answer<wire::Release>, RequestError> {
        self.outgoing.mirrors.remove(it.address);
        self.exchange.withdraw(it.address);
        self.device.unmap(it.address)?;
        Ok(Answer::done())
    }
}

impl HandleBody<wire::MirrorWrite> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::MirrorWrite,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::MirrorWrite>, RequestError> {
        self.charge_large(body)?;
        self.outgoing.mirrors.write(&*self.device, it.number, body.whole()?)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::MemoryInfo> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::MemoryInfo) -> Result<Answer<wire::MemoryInfo>, RequestError> {
        let memory = self.device.memory(it.device)?;
        Ok(Answer::Reply(wire::reply::MemoryInfo { free: memory.free, total: memory.total }))
    }
}

impl Dispatcher {
    /// Registers newly mapped memory as mirrored on the client. Unmaps it if that fails.
    fn mirror(&self, owner: Option<u32>, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.outgoing.mirrors.insert(&*self.device, owner, address, bytes);
        shared.inspect_err(|_| {
            let _ = self.device.unmap(address);
        })
    }
}
