//! Textures of linear memory: the texture object's contents, as GPUs of the GFX9 family read them.
//!
//! A fetch from such a texture is a typed buffer load, so a texture object is a buffer resource descriptor in device
//! memory. Builds the descriptor and tracks the objects created. Images (arrays, pitched textures, filtering) are refused
//! before they get here.

#![allow(non_upper_case_globals, reason = "constants are named as in HIP")]

use std::collections::HashMap;

use hip_api::types::*;
use parking_lot::Mutex;

/// Size of an image resource, of which a buffer resource uses only the beginning, plus a sampler.
pub const OBJECT_BYTES: usize = 4 * (12 + 8);
/// Resources start on this boundary.
pub const ALIGNMENT: u64 = 256;

/// The descriptions of texture objects that a program can query, by address.
#[derive(Debug, Default)]
pub struct Textures(Mutex<HashMap<u64, Texture>>);

#[derive(Clone, Copy, Debug)]
pub struct Texture {
    pub resource: hipResourceDesc,
    pub sampling: hipTextureDesc,
}

// SAFETY: the pointers in it are addresses that are never dereferenced here.
unsafe impl Send for Texture {}

impl Textures {
    pub fn add(&self, object: u64, texture: Texture) {
        self.0.lock().insert(object, texture);
    }

    pub fn find(&self, object: u64) -> Option<Texture> {
        self.0.lock().get(&object).copied()
    }

    pub fn remove(&self, object: u64) -> Option<Texture> {
        self.0.lock().remove(&object)
    }
}

/// Whether textures of linear memory on this processor are buffer resources of this layout.
pub fn has_linear_textures(processor: &str) -> bool {
    processor.starts_with("gfx90")
}

/// Format of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    channels: u32,
    /// Of each channel.
    bits: u32,
    number: Number,
}

/// `NUM_FORMAT` of a buffer resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Unorm = 0,
    Snorm = 1,
    Uint = 4,
    Sint = 5,
    Float = 7,
}

impl Element {
    /// `None` if it is not a texture format.
    pub fn of(format: &hipChannelFormatDesc, mode: hipTextureReadMode) -> Option<Element> {
        let widths = [format.x, format.y, format.z, format.w];
        let channels = widths.iter().filter(|bits| **bits != 0).count();
        let alike = widths[..channels].iter().all(|bits| *bits == format.x);
        if !alike || !matches!(channels, 1 | 2 | 4) {
            return None;
        }
        let normalized = mode == hipReadModeNormalizedFloat;
        let number = match (format.f, format.x) {
            (hipChannelFormatKindUnsigned, 8 | 16) if normalized => Number::Unorm,
            (hipChannelFormatKindSigned, 8 | 16) if normalized => Number::Snorm,
            (hipChannelFormatKindUnsigned, 8 | 16 | 32) => Number::Uint,
            (hipChannelFormatKindSigned, 8 | 16 | 32) => Number::Sint,
            (hipChannelFormatKindFloat, 16 | 32) => Number::Float,
            _ => return None,
        };
        Some(Element { channels: channels as u32, bits: format.x as u32, number })
    }

    pub fn bytes(self) -> u32 {
        self.channels * self.bits / 8
    }

    /// `DATA_FORMAT` of a buffer resource.
    fn layout(self) -> u32 {
        match (self.bits, self.channels) {
            (8, 1) => 1,
            (16, 1) => 2,
            (8, 2) => 3,
            (32, 1) => 4,
            (16, 2) => 5,
            (8, _) => 10,
            (32, 2) => 11,
            (16, _) => 12,
            _ => 14,
        }
    }

    /// `DST_SEL`: the channel, or constant zero or one, of each component of a fetch.
    fn select(self) -> u32 {
        const ZERO: u32 = 0;
        const ONE: u32 = 1;
        const FIRST: u32 = 4;
        let missing = [ZERO, ZERO, ZERO, ONE];
        (0..4).fold(0, |word, at: u32| {
            let source = if at < self.channels { FIRST + at } else { missing[at as usize] };
            word | source << (3 * at)
        })
    }
}

/// The texture object for `elements` elements at `address`. Fetches beyond them return zero.
pub fn object(address: u64, elements: u32, element: Element) -> [u8; OBJECT_BYTES] {
    let words = [
        address as u32,
        (address >> 32) as u32 & 0xffff | element.bytes() << 16,
        elements,
        element.select() | (element.number as u32) << 12 | element.layout() << 15,
    ];
    let mut bytes = [0; OBJECT_BYTES];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(bits: [i32; 4], f: hipChannelFormatKind) -> hipChannelFormatDesc {
        let [x, y, z, w] = bits;
        hipChannelFormatDesc { x, y, z, w, f }
    }

    #[test]
    fn missing_channels_are_zero_and_the_last_is_one() {
        let two =
            Element::of(&format([32, 32, 0, 0], hipChannelFormatKindFloat), hipReadModeElementType).unwrap();
        assert_eq!(two.bytes(), 8);
        assert_eq!(two.select(), 4 | 5 << 3 | 1 << 9);
        let object = object(0x1234_5678_9a00, 3, two);
        let word = |at: usize| u32::from_le_bytes(object[4 * at..4 * at + 4].try_into().unwrap());
        assert_eq!([word(0), word(1), word(2)], [0x5678_9a00, 0x1234 | 8 << 16, 3]);
        assert_eq!(word(3), two.select() | 7 << 12 | 11 << 15);
        assert!(object[16..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn only_narrow_integers_are_normalized() {
        let of = |bits, kind| {
            Element::of(&format([bits, 0, 0, 0], kind), hipReadModeNormalizedFloat).unwrap().number
        };
        assert_eq!(of(8, hipChannelFormatKindUnsigned), Number::Unorm);
        assert_eq!(of(16, hipChannelFormatKindSigned), Number::Snorm);
        assert_eq!(of(32, hipChannelFormatKindUnsigned), Number::Uint);
        assert_eq!(of(32, hipChannelFormatKindFloat), Number::Float);
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for (bits, kind) in [
            ([32, 32, 32, 0], hipChannelFormatKindFloat),
            ([32, 16, 0, 0], hipChannelFormatKindUnsigned),
            ([8, 0, 0, 0], hipChannelFormatKindFloat),
            ([0, 0, 0, 0], hipChannelFormatKindSigned),
            ([0, 32, 0, 0], hipChannelFormatKindSigned),
            ([-8, 0, 0, 0], hipChannelFormatKindSigned),
            ([8, 0, 0, 0], hipChannelFormatKindNone),
        ] {
            assert_eq!(Element::of(&format(bits, kind), hipReadModeElementType), None, "{bits:?} {kind:?}");
        }
    }
}
