//! Requests about modules, their functions, and launches.

use std::sync::Arc;

use backend::{Command, DeviceError, Launch};
use hip_api::types::hipErrorInvalidImage;
use wire::{Handle, HandleBody, Header, Payload as _};

use crate::request::Dispatcher;
use crate::request::answer::{Answer, RequestError};
use crate::request::payload::Payload;

impl HandleBody<wire::LoadModule> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::LoadModule,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::LoadModule>, RequestError> {
        self.images.check_room(body.bytes())?;
        let _charge = self.count_host(body.bytes())?;
        self.load_image(&it, body.read_vec()?)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::UnloadModule> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::UnloadModule,
    ) -> Result<Answer<wire::UnloadModule>, RequestError> {
        self.device.unload_module(it.module)?;
        Ok(Answer::done())
    }
}

impl Handle<wire::ModuleGlobal> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::ModuleGlobal,
    ) -> Result<Answer<wire::ModuleGlobal>, RequestError> {
        let (address, bytes) = self.device.global(it.module, &it.name)?;
        Ok(Answer::Reply(wire::reply::ModuleGlobal { address, bytes }))
    }
}

impl Handle<wire::DefineFunction> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::DefineFunction,
    ) -> Result<Answer<wire::DefineFunction>, RequestError> {
        self.device.define_function(it.function, it.module, &it.name)?;
        self.outgoing.spans.name(it.function, &it.name);
        Ok(Answer::done())
    }
}

impl HandleBody<wire::Launch> for Dispatcher {
    fn handle(
        &mut self,
        _: &Header,
        it: wire::Launch,
        body: &mut Payload<'_>,
    ) -> Result<Answer<wire::Launch>, RequestError> {
        let launch = Launch {
            function: it.function,
            grid: it.grid,
            block: it.block,
            shared_bytes: it.shared_bytes,
            cooperative: it.flags & 1 != 0,
            start_event: it.start_event,
            stop_event: it.stop_event,
            arguments: body.whole()?.to_vec(),
        };
        Ok(Answer::Queued(it.stream, Command::Launch(launch)))
    }
}

impl Dispatcher {
    /// Loads a module from the image that was sent, or from an earlier one with the same hash if that is empty.
    pub(super) fn load_image(&mut self, it: &wire::LoadModule, image: Vec<u8>) -> Result<(), DeviceError> {
        self.images.check_room(image.len() as u64)?;
        let image = self.image(it.hash, image)?;
        self.device.load_module(it.device, it.module, it.base, &image)
    }

    /// Returns the image with this hash: the one just sent, or one sent before.
    fn image(&mut self, hash: [u8; 32], sent: Vec<u8>) -> Result<Arc<[u8]>, DeviceError> {
        if let Some(image) = self.images.get(&hash) {
            return Ok(image);
        }
        let image = match sent.is_empty() {
            true => {
                let held = self.store.as_ref().and_then(|store| store.get(&hash));
                let text = "no code object with that hash was sent before";
                held.ok_or_else(|| DeviceError::new(hipErrorInvalidImage, text))?
            }
            false => {
                if *blake3::hash(&sent).as_bytes() != hash {
                    let text = "the code object does not match the hash sent with it";
                    return Err(DeviceError::new(hipErrorInvalidImage, text));
                }
                let image: Arc<[u8]> = sent.into();
                if let Some(store) = &self.store {
                    store.put(hash, Arc::clone(&image));
                }
                image
            }
        };
        let charge = self.count_host(image.len() as u64)?;
        self.images.keep(hash, Arc::clone(&image), charge);
        Ok(image)
    }
}
