//! A fast hash for maps whose keys are addresses.

/// Hash for keys that are addresses. Not collision-resistant, because keys are not attacker-chosen; fast, because every
/// launch does a lookup.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressHash(u64);

impl std::hash::BuildHasher for AddressHash {
    type Hasher = AddressHash;
    fn build_hasher(&self) -> AddressHash {
        AddressHash(0)
    }
}

impl std::hash::Hasher for AddressHash {
    fn finish(&self) -> u64 {
        // Addresses end in zero bits, and so would the product; hash tables use its low bits.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, word: usize) {
        self.0 = (self.0.rotate_left(23) ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
