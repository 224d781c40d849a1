//! The 24-byte header of every frame: its layout and size limits. Independent of the meaning of operations.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::{
    MAX_BODY_BYTES, MAX_CHUNK_BYTES, MAX_HANDSHAKE_BYTES, MAX_HEAD_BYTES, MAX_WELCOME_BYTES, Opcode,
    WireError,
};

/// The bytes `HIPR`, read as a little-endian word.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HIPR");
/// Oldest and newest protocol version that this build supports.
pub const MIN_VERSION: u16 = 1;
/// Newest version that this crate speaks.
pub const MAX_VERSION: u16 = 1;

/// Low half of the header's flag word.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u16);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// The frame is the reply to request `request_id`.
    pub const REPLY: Flags = Flags(1);
    /// The reply reports a failure: it contains status and text instead of the operation's fields.
    pub const ERROR: Flags = Flags(2);
    /// No reply is expected; a failure is reported by a `LateError`.
    pub const POSTED: Flags = Flags(4);
    /// The frame is outside the sequence and is never resent.
    pub const UNSEQUENCED: Flags = Flags(8);
    const KNOWN: u16 = 0xf;

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds the flags of `other`.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The decoded header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Protocol version of the frame's layout.
    pub version: u16,
    /// Kept as a number: an unknown opcode must be answered, not dropped.
    pub opcode: u16,
    /// Number of the request, modulo 2^32; a reply has that of its request.
    pub request_id: u32,
    /// Properties of the frame.
    pub flags: Flags,
    /// The HIP function that caused the frame, by its number in the function table; 0 for none.
    pub function: u16,
    /// Size of fields and body in bytes.
    pub payload_len: u64,
}

impl Header {
    /// Size of an encoded header.
    pub const BYTES: usize = 24;

    /// Creates a header of the newest version.
    pub fn new(opcode: Opcode, flags: Flags, request_id: u32, payload_len: u64) -> Header {
        Header { version: MAX_VERSION, opcode: opcode.number(), request_id, flags, function: 0, payload_len }
    }

    /// Encodes the header.
    #[inline]
    pub fn encode(&self) -> [u8; Header::BYTES] {
        let mut bytes = [0; Header::BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.opcode.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.request_id.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.flags.0.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.function.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes
    }

    /// Decodes a header. Fails only if the stream cannot be used any further: wrong magic, or a payload above the limit of its
    /// operation. Unknown opcodes and flags are returned unchanged, see [`Header::known`].
    #[inline]
    pub fn decode(bytes: &[u8; Header::BYTES]) -> Result<Header, WireError> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if word(0) != MAGIC {
            return Err(WireError::Magic { found: word(0) });
        }
        let header = Header {
            version: half(4),
            opcode: half(6),
            request_id: word(8),
            flags: Flags(half(12)),
            function: half(14),
            payload_len: u64::from(word(16)) | u64::from(word(20)) << 32,
        };
        let limit = header.payload_limit();
        if header.payload_len > limit {
            return Err(WireError::TooLarge { what: "payload", bytes: header.payload_len, limit });
        }
        Ok(header)
    }

    /// Returns the operation, if this build knows the opcode and all flags.
    pub fn known(&self) -> Result<Opcode, WireError> {
        if self.flags.0 & !Flags::KNOWN != 0 {
            return Err(WireError::UnknownFlags(self.flags.0));
        }
        Opcode::from_number(self.opcode).ok_or(WireError::UnknownOpcode(self.opcode))
    }

    /// Whether the frame has this opcode.
    pub fn is(&self, opcode: Opcode) -> bool {
        self.opcode == opcode.number()
    }

    /// Whether the frame is a reply.
    pub fn is_reply(&self) -> bool {
        self.flags.contains(Flags::REPLY)
    }

    /// Whether the frame is the reply to a failed request.
    pub fn is_error(&self) -> bool {
        self.flags.contains(Flags::ERROR)
    }

    /// Whether the request is answered only if it fails.
    pub fn is_posted(&self) -> bool {
        self.flags.contains(Flags::POSTED)
    }

    /// Whether the frame is numbered and kept until it is acknowledged.
    pub fn is_sequenced(&self) -> bool {
        !self.flags.contains(Flags::UNSEQUENCED)
    }

    /// Maximum size of the payload after this header.
    fn payload_limit(&self) -> u64 {
        let Some(opcode) = Opcode::from_number(self.opcode) else { return MAX_HEAD_BYTES };
        let bulk = if self.is_error() {
            false
        } else if self.is_reply() {
            opcode.reply_has_body()
        } else {
            opcode.request_has_body()
        };
        match opcode {
            Opcode::Welcome => MAX_WELCOME_BYTES,
            Opcode::Status => MAX_HEAD_BYTES,
            Opcode::SnapshotChunk => MAX_CHUNK_BYTES,
            _ if opcode.is_unsequenced() => MAX_HANDSHAKE_BYTES,
            _ if bulk => MAX_BODY_BYTES + MAX_HEAD_BYTES,
            _ => MAX_HEAD_BYTES,
        }
    }
}

/// A complete frame in memory, for handshakes, tests and small messages; not used for bulk data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The header.
    pub header: Header,
    /// Fields and body.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Parses a frame from the front of `bytes`, and returns it with its size; `None` if it is incomplete.
    pub fn take(bytes: &[u8]) -> Result<Option<(Frame, usize)>, WireError> {
        let Some(head) = bytes.first_chunk::<{ Header::BYTES }>() else { return Ok(None) };
        let header = Header::decode(head)?;
        let Ok(length) = usize::try_from(header.payload_len) else {
            return Err(WireError::TooLarge {
                what: "payload",
                bytes: header.payload_len,
                limit: usize::MAX as u64,
            });
        };
        let rest = &bytes[Header::BYTES..];
        if rest.len() < length {
            return Ok(None);
        }
        Ok(Some((Frame { header, payload: rest[..length].to_vec() }, Header::BYTES + length)))
    }

    /// Encodes the frame.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Header::BYTES + self.payload.len());
        bytes.extend_from_slice(&self.header.encode());
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_layout_is_the_documented_one() {
        let header = Header {
            version: 0x0102,
            opcode: 0x0304,
            request_id: 0x0506_0708,
            flags: Flags(0x090a),
            function: 0x0b0c,
            payload_len: 0x0d0e,
        };
        assert_eq!(
            header.encode(),
            [b'H', b'I', b'P', b'R', 2, 1, 4, 3, 8, 7, 6, 5, 10, 9, 12, 11, 14, 13, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn absurd_lengths_are_refused_before_anything_is_allocated() {
        for (opcode, limit) in [
            (Opcode::Write, MAX_BODY_BYTES + MAX_HEAD_BYTES),
            (Opcode::Release, MAX_HEAD_BYTES),
            (Opcode::Hello, MAX_HANDSHAKE_BYTES),
        ] {
            assert!(Header::decode(&Header::new(opcode, Flags::NONE, 1, limit).encode()).is_ok());
            assert!(Header::decode(&Header::new(opcode, Flags::NONE, 1, limit + 1).encode()).is_err());
        }
        let mut unknown = Header::new(Opcode::Write, Flags::NONE, 1, MAX_HEAD_BYTES + 1);
        unknown.opcode = 0xeeee;
        assert!(Header::decode(&unknown.encode()).is_err());
    }
}
