//! Decompresses bodies that were compressed for a slow link. Defines which operations may be compressed and bounds the expansion;
//! refuses a body that does not decompress to exactly the announced size.

use backend::DeviceError;
use wire::{MAX_PACKED_BYTES, Opcode, Packed, Reader};

/// Maximum expansion of LZ4: output bytes per input byte.
const MOST_FROM_ONE: u64 = 255;

/// A decompressed operation.
#[derive(Debug)]
pub(crate) enum Unpacked {
    Write(wire::Write, Vec<u8>),
    WriteKept(wire::WriteKept, Vec<u8>),
    LoadModule(wire::LoadModule, Vec<u8>),
}

/// Whether `packed` bytes can decompress to `bytes`. Checked before allocating, so that a few bytes cannot claim much memory.
pub(crate) fn is_plausible(packed: u64, bytes: u64) -> bool {
    bytes <= MAX_PACKED_BYTES && packed <= bytes && bytes <= packed.saturating_mul(MOST_FROM_ONE)
}

pub(crate) fn unpack(it: &Packed, body: &[u8]) -> Result<Unpacked, DeviceError> {
    let wrong = |text: String| DeviceError::invalid_value(text);
    if !is_plausible(body.len() as u64, it.bytes) {
        return Err(wrong(format!("{} compressed bytes cannot decompress to {}", body.len(), it.bytes)));
    }
    let fields = it.fields.concat();
    let mut reader = Reader::new(&fields);
    let data = || {
        let mut data = vec![0; it.bytes as usize];
        match lz4_flex::block::decompress_into(body, &mut data) {
            Ok(bytes) if bytes == data.len() => Ok(data),
            Ok(bytes) => Err(wrong(format!("a compressed body became {bytes} bytes, not {}", it.bytes))),
            Err(error) => Err(wrong(format!("a compressed body is corrupt: {error}"))),
        }
    };
    let damaged = |error: wire::WireError| DeviceError::invalid_value(error.to_string());
    match Opcode::from_number(it.opcode) {
        Some(Opcode::Write) => Ok(Unpacked::Write(wire::Field::take(&mut reader).map_err(damaged)?, data()?)),
        Some(Opcode::WriteKept) => {
            Ok(Unpacked::WriteKept(wire::Field::take(&mut reader).map_err(damaged)?, data()?))
        }
        Some(Opcode::LoadModule) => {
            Ok(Unpacked::LoadModule(wire::Field::take(&mut reader).map_err(damaged)?, data()?))
        }
        _ => Err(wrong(format!("{} cannot have a compressed body", wire::name(it.opcode)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::Field;

    fn packed(opcode: Opcode, fields: &impl Field, data: &[u8]) -> (Packed, Vec<u8>) {
        let mut bytes = Vec::new();
        fields.put(&mut bytes);
        bytes.resize(64, 0);
        let (halves, _) = bytes.as_chunks::<32>();
        let head =
            Packed { opcode: opcode.number(), bytes: data.len() as u64, fields: [halves[0], halves[1]] };
        (head, lz4_flex::block::compress(data))
    }

    #[test]
    fn what_was_packed_comes_out_and_nothing_else_is_taken() {
        let data = vec![7; 10_000];
        let write = wire::Write { stream: 3, destination: 0x1000 };
        let (head, body) = packed(Opcode::Write, &write, &data);
        assert!(
            matches!(unpack(&head, &body), Ok(Unpacked::Write(it, bytes)) if it == write && bytes == data)
        );
        assert!(unpack(&Packed { bytes: 9_999, ..head.clone() }, &body).is_err());
        assert!(unpack(&Packed { bytes: 10_001, ..head.clone() }, &body).is_err());
        assert!(unpack(&Packed { bytes: u64::MAX, ..head.clone() }, &body).is_err());
        assert!(unpack(&Packed { opcode: Opcode::Launch.number(), ..head.clone() }, &body).is_err());
        assert!(unpack(&head, &body[..body.len() - 1]).is_err());
        assert!(unpack(&head, &[]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_unpacked_or_refused(
            body in prop::collection::vec(any::<u8>(), 0..300),
            bytes in 0u64..100_000,
            opcode: u16,
        ) {
            let it = Packed { opcode, bytes, ..Packed::default() };
            let _ = unpack(&it, &body);
            let it = Packed { opcode: Opcode::Write.number(), ..it };
            if let Ok(Unpacked::Write(_, data)) = unpack(&it, &body) {
                prop_assert_eq!(data.len() as u64, bytes);
            }
        }
    }
}
