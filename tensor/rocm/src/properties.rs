//! Device properties. `hipDeviceProp_t` has two incompatible layouts.

use std::mem::offset_of;

use hip_api::types::{hipDeviceProp_tR0000, hipDeviceProp_tR0600};
use tensor_core::error::DeviceError;

use crate::library::{Library, call};

/// Larger than the structure of any release, which has room to grow.
const BYTES: usize = 4096;
const TEXT: usize = 256;

/// Byte offsets of fields in `hipDeviceProp_t`.
struct Fields {
    compute_units: usize,
    architecture: usize,
}

/// The layout since HIP 6 (`hipDeviceProp_tR0600`).
const R0600: Fields = Fields {
    compute_units: offset_of!(hipDeviceProp_tR0600, multiProcessorCount),
    architecture: offset_of!(hipDeviceProp_tR0600, gcnArchName),
};
/// The layout before (`hipDeviceProp_tR0000`).
const R0000: Fields = Fields {
    compute_units: offset_of!(hipDeviceProp_tR0000, multiProcessorCount),
    architecture: offset_of!(hipDeviceProp_tR0000, gcnArchName),
};

/// The properties used here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub name: String,
    /// With features: "gfx942:sramecc+:xnack-".
    pub architecture: String,
    pub compute_units: u32,
}

impl Properties {
    pub(crate) fn of(library: &Library, ordinal: u32) -> Result<Properties, DeviceError> {
        let mut bytes = vec![0; BYTES];
        let (place, ordinal) = (bytes.as_mut_ptr(), ordinal as i32);
        let fields = if library.runtime.hipGetDevicePropertiesR0600.is_some() {
            call!(library, runtime.hipGetDevicePropertiesR0600(place.cast(), ordinal))?;
            R0600
        } else {
            call!(library, runtime.hipGetDeviceProperties(place.cast(), ordinal))?;
            R0000
        };
        Ok(Properties::read(&bytes, &fields))
    }

    fn read(bytes: &[u8], fields: &Fields) -> Properties {
        let text = |from: usize| {
            let bytes = &bytes[from..from + TEXT];
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(TEXT);
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        let number = |from: usize| bytes[from..from + 4].try_into().map_or(0, u32::from_ne_bytes);
        Properties {
            name: text(0),
            architecture: text(fields.architecture),
            compute_units: number(fields.compute_units),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_are_read_from_their_own_places() {
        for fields in [R0600, R0000] {
            let mut bytes = vec![0; BYTES];
            bytes[..3].copy_from_slice(b"GPU");
            bytes[fields.architecture..fields.architecture + 6].copy_from_slice(b"gfx90a");
            bytes[fields.compute_units] = 104;
            let expected =
                Properties { name: "GPU".to_owned(), architecture: "gfx90a".to_owned(), compute_units: 104 };
            assert_eq!(Properties::read(&bytes, &fields), expected);
        }
    }
}
