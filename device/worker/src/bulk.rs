//! Bulk requests: copies to the device and code objects, whose bodies are read from the connection separately.
//!
//! A frame is always read to its end, even if it is invalid, so that the start of the next one is found.

use std::sync::Arc;
use std::time::Instant;

use backend::{Command, DeviceError};
use hip_api::types::{hipErrorInvalidImage, hipErrorOutOfMemory};
use limits::HostCharge;
use wire::{Header, Operation, decode_request};

use crate::dispatch::{Dispatcher, malformed, tag};
use crate::inbox::{Broken, Inbox};
use crate::packed::{self, Unpacked};
use crate::region::PackedTransfer;

/// Limit on the code objects a session may hold, so that later requests can refer to them by hash.
const MAX_IMAGES_BYTES: u64 = 4 << 30;
const MAX_IMAGE_BYTES: u64 = 2 << 30;

impl Dispatcher {
    /// Writes to the device: straight from the socket into its memory if the stream is idle, else through a buffer.
    pub(crate) fn write(
        &mut self,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
    ) -> Result<(), Broken> {
        let Some((it, bytes)) = self.head::<wire::Write>(header, inbox, counted)? else { return Ok(()) };
        let mut broken = None;
        let timed = self.outbox.spans().is_on();
        let mut time = None;
        let direct = self.device.direct(it.stream, it.destination, bytes, &mut |memory| {
            let begin = timed.then(Instant::now);
            broken = inbox.read_into(memory).err();
            time = begin.map(|begin| [begin, Instant::now()]);
            broken.is_none()
        });
        if let Some(error) = broken {
            return Err(error);
        }
        if direct.is_some() {
            if let Some(time) = time {
                self.outbox.spans().wrote(it.stream, tag(header), bytes, time);
            }
            self.outbox.mirrors().worked();
            counted();
            self.outbox.finish::<wire::Write>(header, Ok(Default::default()));
            return Ok(());
        }
        let checked = self.device.check(it.destination, bytes);
        if let Some(data) = self.body(header, inbox, counted, bytes, checked)? {
            self.enqueue::<wire::Write>(header, it.stream, Command::write_flat(it.destination, data));
        }
        Ok(())
    }

    /// Writes to the device and to the upload cache. This makes another copy; clients request it only if the network is slower
    /// than the copy.
    pub(crate) fn write_kept(
        &mut self,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
    ) -> Result<(), Broken> {
        let Some((it, bytes)) = self.head::<wire::WriteKept>(header, inbox, counted)? else { return Ok(()) };
        let checked = self.device.check(it.destination, bytes);
        if let Some(data) = self.body(header, inbox, counted, bytes, checked)? {
            self.keep_write(header, &it, data);
        }
        Ok(())
    }

    fn keep_write(&self, header: &Header, it: &wire::WriteKept, data: Vec<u8>) {
        if let Some(store) = &self.store {
            store.put(it.hash, data.as_slice().into());
        }
        let command = Command::write_flat(it.destination, data);
        self.enqueue::<wire::WriteKept>(header, it.stream, command);
    }

    /// Handles an operation whose body was compressed for a slow link.
    pub(crate) fn packed(
        &mut self,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
    ) -> Result<(), Broken> {
        let Some((it, bytes)) = self.head::<wire::Packed>(header, inbox, counted)? else { return Ok(()) };
        let plausible = packed::is_plausible(bytes, it.bytes);
        let charge = plausible.then(|| self.count_host(bytes.saturating_add(it.bytes)));
        let (_charge, checked) = match charge.transpose() {
            Ok(Some(charge)) => (Some(charge), Ok(())),
            Ok(None) => (None, Err(malformed("Packed"))),
            Err(error) => (None, Err(error)),
        };
        let Some(body) = self.body(header, inbox, counted, bytes, checked)? else { return Ok(()) };
        match packed::unpack(&it, &body) {
            Ok(Unpacked::Write(it, data)) => {
                let command = Command::write_flat(it.destination, data);
                self.enqueue::<wire::Packed>(header, it.stream, command);
            }
            Ok(Unpacked::WriteKept(it, data)) => self.keep_write(header, &it, data),
            Ok(Unpacked::LoadModule(it, image)) => {
                let result = self.load_image(&it, image).map(|()| Default::default());
                self.outbox.finish::<wire::Packed>(header, result);
            }
            Err(error) => self.outbox.fail(header, &error),
        }
        Ok(())
    }

    /// Writes tightly packed rows to a rectangle or box on the device.
    pub(crate) fn write_region<O: PackedTransfer>(
        &mut self,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
    ) -> Result<(), Broken> {
        let Some((it, bytes)) = self.head::<O>(header, inbox, counted)? else { return Ok(()) };
        let (stream, to) = it.region();
        let checked = match to.bytes() {
            Some(expected) if expected == bytes => {
                to.span().and_then(|span| self.device.check(to.address, span))
            }
            _ => Err(malformed(O::OPCODE.name())),
        };
        if let Some(data) = self.body(header, inbox, counted, bytes, checked)? {
            self.enqueue::<O>(header, stream, Command::Write { to, data });
        }
        Ok(())
    }

    pub(crate) fn load_module(
        &mut self,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
    ) -> Result<(), Broken> {
        let Some((it, bytes)) = self.head::<wire::LoadModule>(header, inbox, counted)? else { return Ok(()) };
        let checked = match bytes > MAX_IMAGE_BYTES || self.images_bytes + bytes > MAX_IMAGES_BYTES {
            true => Err(too_large(bytes)),
            false => Ok(()),
        };
        let (_charge, checked) = match checked.and_then(|()| self.count_host(bytes)) {
            Ok(charge) => (Some(charge), Ok(())),
            Err(error) => (None, Err(error)),
        };
        if let Some(image) = self.body(header, inbox, counted, bytes, checked)? {
            let result = self.load_image(&it, image).map(|()| Default::default());
            self.outbox.finish::<wire::LoadModule>(header, result);
        }
        Ok(())
    }

    fn load_image(&mut self, it: &wire::LoadModule, image: Vec<u8>) -> Result<(), DeviceError> {
        if self.images_bytes + image.len() as u64 > MAX_IMAGES_BYTES {
            return Err(too_large(image.len() as u64));
        }
        let image = self.image(it.hash, image)?;
        self.device.load_module(it.device, it.module, it.base, &image)
    }

    /// Returns the image with this hash: the one just sent, or one sent before.
    fn image(&mut self, hash: [u8; 32], sent: Vec<u8>) -> Result<Arc<[u8]>, DeviceError> {
        if let Some(image) = self.images.get(&hash) {
            return Ok(Arc::clone(image));
        }
        if sent.is_empty() {
            if let Some(image) = self.store.as_ref().and_then(|store| store.get(&hash)) {
                return self.keep_image(hash, image);
            }
            return Err(DeviceError::new(
                hipErrorInvalidImage,
                "no code object with that hash was sent before",
            ));
        }
        if *blake3::hash(&sent).as_bytes() != hash {
            return Err(DeviceError::new(
                hipErrorInvalidImage,
                "the code object does not match the hash sent with it",
            ));
        }
        let image: Arc<[u8]> = sent.into();
        if let Some(store) = &self.store {
            store.put(hash, Arc::clone(&image));
        }
        self.keep_image(hash, image)
    }

    /// Restores a code object of a migrated session.
    pub(crate) fn restore_image(&mut self, image: Arc<[u8]>) -> Result<(), DeviceError> {
        self.keep_image(*blake3::hash(&image).as_bytes(), image).map(drop)
    }

    fn keep_image(&mut self, hash: [u8; 32], image: Arc<[u8]>) -> Result<Arc<[u8]>, DeviceError> {
        self.image_charges.push(self.count_host(image.len() as u64)?);
        self.images_bytes += image.len() as u64;
        self.images.insert(hash, Arc::clone(&image));
        Ok(image)
    }

    /// Charges host memory that this process allocates for the client.
    pub(crate) fn count_host(&self, bytes: u64) -> Result<HostCharge, DeviceError> {
        self.host.charge(bytes).map_err(|left| {
            DeviceError::out_of_memory(format!("{bytes} bytes of the worker's host memory: {left}"))
        })
    }

    /// Reads the fields that precede the body, and returns them with the body's size. Returns `None` if they are malformed; the
    /// error has been sent.
    fn head<O: Operation>(
        &self,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
    ) -> Result<Option<(O, u64)>, Broken> {
        let head = O::HEAD_BYTES.unwrap_or(0) as u64;
        let Some(body) = header.payload_len.checked_sub(head) else {
            return self.refuse(header, inbox, counted, header.payload_len, &malformed(O::OPCODE.name()));
        };
        match decode_request::<O>(inbox.take(head as usize)?) {
            Ok((fields, _)) => Ok(Some((fields, body))),
            Err(_) => self.refuse(header, inbox, counted, body, &malformed(O::OPCODE.name())),
        }
    }

    /// Reads the body. Returns `None` if `checked` is an error, which has been sent.
    fn body(
        &self,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
        bytes: u64,
        checked: Result<(), DeviceError>,
    ) -> Result<Option<Vec<u8>>, Broken> {
        if let Err(error) = checked {
            return self.refuse(header, inbox, counted, bytes, &error);
        }
        let data = inbox.read_vec(bytes)?;
        counted();
        Ok(Some(data))
    }

    fn refuse<T>(
        &self,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
        bytes: u64,
        error: &DeviceError,
    ) -> Result<Option<T>, Broken> {
        inbox.skip(bytes)?;
        counted();
        self.outbox.fail(header, error);
        Ok(None)
    }
}

fn too_large(bytes: u64) -> DeviceError {
    DeviceError::new(hipErrorOutOfMemory, format!("a code object of {bytes} bytes exceeds the limit"))
}
