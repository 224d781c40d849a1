//! Device memory of an evaluation.

/// Device memory by address. Both calls return whether all bytes exist.
pub trait Memory {
    /// Reads bytes.
    fn read(&mut self, address: u64, to: &mut [u8]) -> bool;
    /// Writes bytes.
    fn write(&mut self, address: u64, from: &[u8]) -> bool;
}

/// Ranges of bytes at fixed addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    ranges: Vec<(u64, Vec<u8>)>,
}

impl Bytes {
    /// Adds a range that must not overlap another one.
    pub fn add(&mut self, address: u64, bytes: Vec<u8>) {
        self.ranges.push((address, bytes));
    }

    /// The bytes of the range that starts at an address.
    pub fn range(&self, address: u64) -> Option<&[u8]> {
        self.ranges.iter().find(|(start, _)| *start == address).map(|(_, bytes)| &bytes[..])
    }

    fn find(&mut self, address: u64, count: usize) -> Option<&mut [u8]> {
        self.ranges.iter_mut().find_map(|(start, bytes)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get_mut(from..from.checked_add(count)?)
        })
    }
}

impl Memory for Bytes {
    fn read(&mut self, address: u64, to: &mut [u8]) -> bool {
        match self.find(address, to.len()) {
            Some(from) => to.copy_from_slice(from),
            None => return false,
        }
        true
    }

    fn write(&mut self, address: u64, from: &[u8]) -> bool {
        match self.find(address, from.len()) {
            Some(to) => to.copy_from_slice(from),
            None => return false,
        }
        true
    }
}
