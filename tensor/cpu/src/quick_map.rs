//! Hash maps for internal keys. Keys are never chosen by an attacker, so one multiplication per word is hash enough.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
