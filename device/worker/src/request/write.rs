//! Requests that write from the client to device memory. Bodies are read from the connection straight to their destination where
//! possible.

use std::time::Instant;

use backend::{Command, DeviceError};
use wire::{Handle, HandleBody, Header, Operation};

use crate::request::answer::{Answer, RequestError};
use crate::request::packed::{self, Unpacked};
use crate::request::payload::Payload;
use crate::request::region::PackedTransfer;
use crate::request::{Dispatcher, tag};

impl HandleBody<wire::Write> for Dispatcher {
    /// Reads from the socket into device memory if the stream is idle, else into a buffer.
    fn handle(
        &mut self,
        header: &Header,
        it: wire::Write,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::Write>, RequestError> {
        let bytes = body.bytes();
        let mut broken = None;
        let timed = self.outgoing.is_timed();
        let mut time = None;
        let direct = self.device.direct(it.stream, it.destination, bytes, &mut |memory| {
            let begin = timed.then(Instant::now);
            broken = body.read_into(memory).err();
            time = begin.map(|begin| [begin, Instant::now()]);
            broken.is_none()
        });
        if let Some(broken) = broken {
            return Err(broken.into());
        }
        if direct.is_some() {
            if let Some(time) = time {
                self.outgoing.wrote(it.stream, tag(header), bytes, time);
            }
            self.outgoing.mirrors.worked();
            return Ok(Answer::done());
        }
        self.device.check(it.destination, bytes)?;
        let command = Command::write_flat(it.destination, body.read_vec()?);
        Ok(Answer::Queued(it.stream, command))
    }
}

impl HandleBody<wire::WriteRect> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::WriteRect,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::WriteRect>, RequestError> {
        self.write_region(&it, body)
    }
}

impl HandleBody<wire::WriteBox> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::WriteBox,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::WriteBox>, RequestError> {
        self.write_region(&it, body)
    }
}

impl HandleBody<wire::WriteKept> for Dispatcher {
    /// Writes to the device and to the upload cache. This makes another copy; clients request it only if the network is slower
    /// than the copy.
    fn handle(
        &mut self,
        _: &Header,
        it: wire::WriteKept,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::WriteKept>, RequestError> {
        self.device.check(it.destination, body.bytes())?;
        let data = body.read_vec()?;
        Ok(Answer::Queued(it.stream, self.keep_write(&it, data)))
    }
}

impl Handle<wire::WriteKnown> for Dispatcher {
    fn handle(
        &mut self,
        header: &Header,
        it: wire::WriteKnown,
    ) -> Result<Answer<wire::WriteKnown>, RequestError> {
        let content = self.store.as_ref().and_then(|store| store.get(&it.hash));
        let Some(content) = content.filter(|content| content.len() as u64 == it.bytes) else {
            return Ok(Answer::Reply(wire::reply::WriteKnown { held: false }));
        };
        let command = Command::write_flat(it.destination, content.to_vec());
        self.device.enqueue(it.stream, tag(header), command)?;
        self.outgoing.mirrors.worked();
        Ok(Answer::Reply(wire::reply::WriteKnown { held: true }))
    }
}

impl HandleBody<wire::Packed> for Dispatcher {
    /// Executes an operation whose body was compressed for a slow link.
    fn handle(
        &mut self,
        _: &Header,
        it: wire::Packed,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::Packed>, RequestError> {
        if !packed::is_plausible(body.bytes(), it.bytes) {
            return Err(malformed::<wire::Packed>().into());
        }
        let _charge = self.count_host(body.bytes().saturating_add(it.bytes))?;
        match packed::unpack(&it, &body.read_vec()?)? {
            Unpacked::Write(it, data) => {
                Ok(Answer::Queued(it.stream, Command::write_flat(it.destination, data)))
            }
            Unpacked::WriteKept(it, data) => Ok(Answer::Queued(it.stream, self.keep_write(&it, data))),
            Unpacked::LoadModule(it, image) => {
                self.load_image(&it, image)?;
                Ok(Answer::done())
            }
        }
    }
}

impl Dispatcher {
    /// Writes tightly packed rows to a rectangle or box on the device.
    fn write_region<O: PackedTransfer>(
        &self,
        it: &O,
        body: &mut Payload<'_>,
    ) -> Result<Answer<O>, RequestError> {
        let (stream, to) = it.region();
        if to.bytes() != Some(body.bytes()) {
            return Err(malformed::<O>().into());
        }
        self.device.check(to.address, to.span()?)?;
        Ok(Answer::Queued(stream, Command::Write { to, data: body.read_vec()? }))
    }

    /// Puts a write into the upload cache. Returns its command.
    fn keep_write(&self, it: &wire::WriteKept, data: Vec<u8>) -> Command {
        if let Some(store) = &self.store {
            store.put(it.hash, data.as_slice().into());
        }
        Command::write_flat(it.destination, data)
    }
}

fn malformed<O: Operation>() -> DeviceError {
    DeviceError::invalid_value(format!("{} is malformed", O::OPCODE.name()))
}
