//! Requests that copy within device memory, fill it, and read it.

use std::sync::Arc;

use backend::{Command, DeviceError, ReadSink, Region};
use wire::{Handle, Header, MAX_BODY_BYTES};

use crate::outgoing::deliver;
use crate::request::Dispatcher;
use crate::request::answer::{Answer, RequestError};
use crate::request::region::{PackedTransfer, Transfer};

/// Implements the handlers of copies and fills.
macro_rules! handle_transfers {
    ($($operation:ident)*) => {$(
        impl Handle<wire::$operation> for Dispatcher {
            fn handle(
                &mut self,
                _: &Header,
                it: wire::$operation,
            ) -> Result<Answer<wire::$operation>, RequestError> {
                let (stream, command) = it.command();
                Ok(Answer::Queued(stream, command))
            }
        }
    )*};
}

handle_transfers! { Copy CopyRect CopyBox Fill FillRect FillBox }

impl Handle<wire::Read> for Dispatcher {
    fn handle(&mut self, header: &Header, it: wire::Read) -> Result<Answer<wire::Read>, RequestError> {
        let sink = self.reply_sink(header, Some(it.source));
        Ok(Answer::Read(it.stream, read(Region::flat(it.source, it.bytes), sink)?))
    }
}

impl Handle<wire::ReadRect> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::ReadRect,
    ) -> Result<Answer<wire::ReadRect>, RequestError> {
        self.read_region(header, &it)
    }
}

impl Handle<wire::ReadBox> for Dispatcher {
    fn handle(&mut self, header: &Header, it: wire::ReadBox) -> Result<Answer<wire::ReadBox>, RequestError> {
        self.read_region(header, &it)
    }
}

impl Handle<wire::ReadLater> for Dispatcher {
    /// As a call it is answered when its snapshot has been taken.
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
        Ok(Answer::Queued(it.stream, Command::Read { from: Region::flat(it.source, it.bytes), sink }))
    }
}

impl Handle<wire::Reach> for Dispatcher {
    fn handle(&mut self, _: &Header, it: wire::Reach) -> Result<Answer<wire::Reach>, RequestError> {
        self.device.check(it.address, it.bytes)?;
        // An empty copy: it only takes its turn in the stream, as a real copy would.
        let nothing = Region::flat(it.address, 0);
        Ok(Answer::Queued(it.stream, Command::Copy { to: nothing, from: nothing }))
    }
}

impl Dispatcher {
    /// Reads rows, which are the reply, packed.
    fn read_region<O: PackedTransfer>(&self, header: &Header, it: &O) -> Result<Answer<O>, RequestError> {
        let (stream, from) = it.region();
        Ok(Answer::Read(stream, read(from, self.reply_sink(header, None))?))
    }

    /// Returns a sink that replies with the bytes of a read. `source` is their address if they are contiguous: mirrors then take
    /// note of what the client has seen.
    fn reply_sink(&self, header: &Header, source: Option<u64>) -> ReadSink {
        let (outgoing, header, watches) = (Arc::clone(&self.outgoing), *header, Arc::clone(&self.watches));
        Box::new(move |result| {
            watches.sweep();
            match result {
                Ok(bytes) => {
                    if let Some(source) = source {
                        outgoing.mirrors.read(source, bytes);
                    }
                    outgoing.tell_changes();
                    outgoing.outbox.reply_body(&header, source, bytes);
                }
                Err(error) => outgoing.outbox.fail(&header, &error),
            }
        })
    }
}

/// Command for a read that is answered in one reply; fails if that would be too large.
fn read(from: Region, sink: ReadSink) -> Result<Command, DeviceError> {
    if from.bytes().is_none_or(|bytes| bytes > MAX_BODY_BYTES) {
        return Err(DeviceError::invalid_value(format!("a read of {:?} is too large", from.extent)));
    }
    Ok(Command::Read { from, sink })
}
