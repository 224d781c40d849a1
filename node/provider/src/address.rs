//! PCI addresses.

use std::fmt;

/// A PCI address: `domain:bus:device.function`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl PciAddress {
    /// Parses the kernel's notation: `0000:c1:00.0`.
    pub fn parse(text: &str) -> Option<PciAddress> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
            let plain = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if plain { u32::from_str_radix(text, 16).ok() } else { None }
        };
        let address = PciAddress {
            domain: hex(domain, 4..=8)?,
            bus: hex(bus, 2..=2)? as u8,
            device: hex(device, 2..=2)? as u8,
            function: hex(function, 1..=1)? as u8,
        };
        (address.device < 32 && address.function < 8).then_some(address)
    }

    /// Builds an address from KFD's `domain` and `location_id`, or from the two halves of AMD SMI's BDF id.
    pub fn from_location(domain: u32, location: u32) -> PciAddress {
        PciAddress {
            domain,
            bus: (location >> 8) as u8,
            device: (location >> 3 & 0x1f) as u8,
            function: (location & 7) as u8,
        }
    }

    /// Returns the bits of a `location_id` that distinguish the partitions of one card.
    pub fn partition_of(location: u32) -> u32 {
        location >> 28
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_read_and_written() {
        for text in ["0000:c1:00.0", "0002:ff:1f.7", "10000:01:00.0"] {
            assert_eq!(PciAddress::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "module", "0000:c1:00", "0000:c1:20.0", "0000:c1:00.8", "0000:+1:00.0", "new_id"] {
            assert_eq!(PciAddress::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_location_has_bus_device_function_and_partition() {
        let location = 3 << 28 | 0xc1 << 8 | 2 << 3 | 1;
        assert_eq!(PciAddress::from_location(0, location).to_string(), "0000:c1:02.1");
        assert_eq!(PciAddress::partition_of(location), 3);
    }
}
