//! Code objects of a session, by hash, so that later requests can refer to them without sending them again.

use std::collections::HashMap;
use std::sync::Arc;

use backend::DeviceError;
use hip_api::types::hipErrorOutOfMemory;
use limits::HostCharge;

/// Limit on all code objects of a session.
const MAX_IMAGES_BYTES: u64 = 4 << 30;
/// Limit on one code object.
const MAX_IMAGE_BYTES: u64 = 2 << 30;

/// The code objects of a session.
#[derive(Default)]
pub(crate) struct Images {
    images: HashMap<[u8; 32], Arc<[u8]>>,
    bytes: u64,
    charges: Vec<HostCharge>,
}

impl Images {
    pub(super) fn get(&self, hash: &[u8; 32]) -> Option<Arc<[u8]>> {
        self.images.get(hash).cloned()
    }

    /// Keeps a code object, for whose memory `charge` was paid, as long as the session.
    pub(super) fn keep(&mut self, hash: [u8; 32], image: Arc<[u8]>, charge: HostCharge) {
        self.charges.push(charge);
        self.bytes += image.len() as u64;
        self.images.insert(hash, image);
    }

    /// Checks that a code object of this size fits within the limits.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), DeviceError> {
        if bytes > MAX_IMAGE_BYTES || self.bytes + bytes > MAX_IMAGES_BYTES {
            let text = format!("a code object of {bytes} bytes exceeds the limit");
            return Err(DeviceError::new(hipErrorOutOfMemory, text));
        }
        Ok(())
    }

    /// Iterates over all code objects and their hashes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8; 32], &Arc<[u8]>)> {
        self.images.iter()
    }
}
