//! Everything that can be wrong with bytes from the other side, in one type.

use crate::handshake::RejectCode;

/// A violation of the protocol by the peer. None of these is ever a panic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("not a HIPR frame: magic {found:#010x}")]
    Magic { found: u32 },
    #[error("protocol version {found} is outside {min}..={max}")]
    Version { found: u16, min: u16, max: u16 },
    #[error("{what} of {bytes} bytes is over the limit of {limit}")]
    TooLarge { what: &'static str, bytes: u64, limit: u64 },
    #[error("{what} ends early: {needed} bytes needed, {found} there")]
    Truncated { what: &'static str, needed: u64, found: u64 },
    #[error("{what} has {extra} bytes too many")]
    Trailing { what: &'static str, extra: u64 },
    #[error("{what} holds the impossible value {value}")]
    Value { what: &'static str, value: u64 },
    #[error("{what} is not UTF-8")]
    Text { what: &'static str },
    #[error("unknown opcode {0:#06x}")]
    UnknownOpcode(u16),
    #[error("unknown flags {0:#06x}")]
    UnknownFlags(u16),
    #[error("{found} where {expected} was due")]
    Unexpected { expected: &'static str, found: String },
    #[error("request id {found} where {expected} was due")]
    RequestId { expected: u32, found: u32 },
    #[error("acknowledgement of frame {acknowledged}, but only {sent} were sent")]
    AcknowledgedUnsent { acknowledged: u64, sent: u64 },
    #[error("frames {first}..={last} are needed again but no longer kept")]
    NotKept { first: u64, last: u64 },
    #[error("rejected ({code}): {text}")]
    Rejected { code: RejectCode, text: String },
}
