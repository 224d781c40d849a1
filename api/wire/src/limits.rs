//! Size limits, checked against a header before a byte is allocated for what follows it.

/// The bulk bytes of a frame that may carry them (copies, images, deliveries).
pub const MAX_BODY_BYTES: u64 = 64 << 30;
/// Everything else: fields, and the payload of operations without a bulk body.
pub const MAX_HEAD_BYTES: u64 = 16 << 20;
/// A frame of the handshake: nothing before authentication may cost more memory than this.
pub const MAX_HANDSHAKE_BYTES: u64 = 64 << 10;
/// A Welcome is the one large handshake frame; it travels from the worker only.
pub const MAX_WELCOME_BYTES: u64 = MAX_HEAD_BYTES;
/// What a packed body may become when it is unpacked.
pub const MAX_PACKED_BYTES: u64 = 256 << 20;
/// Bulk pushed by the worker travels in pieces of at most this, so that replies are never stuck behind one.
pub const MAX_DELIVER_PIECE: u64 = 4 << 20;
/// A session on its way to another worker travels in pieces of at most this.
pub const MAX_PIECE_BYTES: u64 = 1 << 20;
/// The links one connection may be spread over.
pub const MAX_LINKS: u16 = 16;
/// The smallest and the largest page-aligned arena a client may offer.
pub const MIN_ARENA_BYTES: u64 = 1 << 30;
pub const MAX_ARENA_BYTES: u64 = 1 << 46;
