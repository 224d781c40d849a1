//! Requests that copy within device memory, fill it, and read it.

use std::sync::Arc;

use backend::{Command, DeviceError, ReadSink};
use wire::{Handle, Header, MAX_BODY_BYTES};

use crate::outgoing::deliver;
use crate::request::answer::{Answer, RequestError};
use crate::request::{Dispatcher, region};

impl Handle<wire::Read> for Dispatcher {
    fn handle(&mut self, header: &Header, it: wire::Read) -> Result<Answer<wire::Read>, RequestError> {
        if it.bytes > MAX_BODY_BYTES {
            let text = format!("a read of {} bytes is too large", it.bytes);
            return Err(DeviceError::invalid_value(text).into());
        }
        let sink = self.reply_sink(header, Some(it.source));
        Ok(Answer::Read(it.stream, Command::Read { source: it.source, bytes: it.bytes, sink }))
    }
}

impl Handle<wire::ReadRect> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::ReadRect,
    ) -> Result<Answer<wire::ReadRect>, RequestError> {
        if it.width.checked_mul(it.height).is_none_or(|bytes| bytes > MAX_BODY_BYTES) {
            let text = format!("a read of {} rows of {} bytes is too large", it.height, it.width);
            return Err(DeviceError::invalid_value(text).into());
        }
        let (source, pitch, width, height) = (it.source, it.pitch, it.width, it.height);
        let sink = self.reply_sink(header, None);
        Ok(Answer::Read(it.stream, Command::ReadRect { source, pitch, width, height, sink }))
    }
}

impl Handle<wire::ReadBox> for Dispatcher {
    fn handle(&mut self, header: &Header, it: wire::ReadBox) -> Result<Answer<wire::ReadBox>, RequestError> {
        let (from, extent) = region::source(&it);
        if extent.volume().is_none_or(|bytes| bytes > MAX_BODY_BYTES) {
            return Err(DeviceError::invalid_value(format!("a read of {extent:?} is too large")).into());
        }
        let sink = self.reply_sink(header, None);
        Ok(Answer::Read(it.stream, Command::ReadBox { from, extent, sink }))
    }
}

impl Handle<wire::ReadLater> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::ReadLater,
    ) -> Result<Answer<wire::ReadLater>, RequestError> {
        let (outgoing, header) = (Arc::clone(&self.outgoing), *header);
        let sink = Box::new(move |result: Result<&[u8], DeviceError>| match result {
            Ok(bytes) => {
                outgoing.mirrors.read(it.source, bytes);
                deliver(&outgoing.outbox, it.token, bytes);
            }
            Err(error) => outgoing.outbox.fail(&header, &error),
        });
        // As a call it is answered when its snapshot has been taken.
        Ok(Answer::Queued(it.stream, Command::Read { source: it.source, bytes: it.bytes, sink }))
    }
}

impl Handle<wire::Copy> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::Copy) -> Result<Answer<wire::Copy>, RequestError> {
        let (destination, source, bytes) = (it.destination, it.source, it.bytes);
        Ok(Answer::Queued(it.stream, Command::Copy { destination, source, bytes }))
    }
}

impl Handle<wire::CopyRect> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::CopyRect) -> Result<Answer<wire::CopyRect>, RequestError> {
        let command = Command::CopyRect {
            destination: it.destination,
            destination_pitch: it.destination_pitch,
            source: it.source,
            source_pitch: it.source_pitch,
            width: it.width,
            height: it.height,
        };
        Ok(Answer::Queued(it.stream, command))
    }
}

impl Handle<wire::CopyBox> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::CopyBox) -> Result<Answer<wire::CopyBox>, RequestError> {
        Ok(Answer::Queued(it.stream, region::copy(&it)))
    }
}

impl Handle<wire::Fill> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::Fill) -> Result<Answer<wire::Fill>, RequestError> {
        let (destination, value, width, count) = (it.destination, it.value, it.width, it.count);
        Ok(Answer::Queued(it.stream, Command::Fill { destination, value, width, count }))
    }
}

impl Handle<wire::FillRect> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::FillRect) -> Result<Answer<wire::FillRect>, RequestError> {
        let (destination, pitch, value) = (it.destination, it.pitch, it.value);
        let (width, height) = (it.width, it.height);
        Ok(Answer::Queued(it.stream, Command::FillRect { destination, pitch, value, width, height }))
    }
}

impl Handle<wire::FillBox> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::FillBox) -> Result<Answer<wire::FillBox>, RequestError> {
        Ok(Answer::Queued(it.stream, region::fill(&it)))
    }
}

impl Handle<wire::Reach> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::Reach) -> Result<Answer<wire::Reach>, RequestError> {
        self.device.check(it.address, it.bytes)?;
        // An empty copy: it only takes its turn in the stream, as a real copy would.
        let (destination, source) = (it.address, it.address);
        Ok(Answer::Queued(it.stream, Command::Copy { destination, source, bytes: 0 }))
    }
}

impl Dispatcher {
    /// Returns a sink that replies with the bytes of a read. `address` says where they are if the read is contiguous.
    fn reply_sink(&self, header: &Header, address: Option<u64>) -> ReadSink {
        let (outgoing, header, watches) = (Arc::clone(&self.outgoing), *header, Arc::clone(&self.watches));
        Box::new(move |result| {
            watches.sweep();
            match result {
                Ok(bytes) => {
                    if let Some(address) = address {
                        outgoing.mirrors.read(address, bytes);
                    }
                    outgoing.tell_changes();
                    outgoing.outbox.reply_body(&header, address, bytes);
                }
                Err(error) => outgoing.outbox.fail(&header, &error),
            }
        })
    }
}
