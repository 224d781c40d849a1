//! Protocol errors: everything that can be wrong with data from the peer.

use crate::handshake::RejectCode;

/// A protocol violation by the peer. None of these causes a panic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum WireError {
    #[error("not a HIPR frame: magic {found:#010x}")]
    Magic { found: u32 },
    #[error("protocol version {found} is outside {min}..={max}")]
    Version { found: u16, min: u16, max: u16 },
    #[error("{what} of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge { what: &'static str, bytes: u64, limit: u64 },
    #[error("{what} is truncated: {needed} bytes needed, {found} available")]
    Truncated { what: &'static str, needed: u64, found: u64 },
    #[error("{what} has {extra} trailing bytes")]
    Trailing { what: &'static str, extra: u64 },
    #[error("{what} has the invalid value {value}")]
    Value { what: &'static str, value: u64 },
    #[error("{what} is not UTF-8")]
    Text { what: &'static str },
    #[error("unknown opcode {0:#06x}")]
    UnknownOpcode(u16),
    #[error("unknown flags {0:#06x}")]
    UnknownFlags(u16),
    #[error("unexpected {found}, expected {expected}")]
    Unexpected { expected: &'static str, found: String },
    #[error("unexpected request ID {found}, expected {expected}")]
    RequestId { expected: u32, found: u32 },
    #[error("acknowledgement of frame {acknowledged}, but only {sent} were sent")]
    AcknowledgedUnsent { acknowledged: u64, sent: u64 },
    #[error("frames {first}..={last} must be resent but are no longer kept")]
    NotKept { first: u64, last: u64 },
    #[error("rejected ({code}): {text}")]
    Rejected { code: RejectCode, text: String },
}
