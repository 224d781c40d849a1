//! Size limits, checked against a header before memory for the payload is allocated.

/// Maximum body of a frame that may have one (copies, images, deliveries).
pub const MAX_BODY_BYTES: u64 = 64 << 30;
/// Maximum size of the fields of a frame, and of the payload of operations without a body.
pub const MAX_HEAD_BYTES: u64 = 16 << 20;
/// Maximum frame of the handshake: before authentication, a peer cannot cause larger allocations.
pub const MAX_HANDSHAKE_BYTES: u64 = 64 << 10;
/// Maximum Welcome, the only large handshake frame; only workers send it.
pub const MAX_WELCOME_BYTES: u64 = MAX_HEAD_BYTES;
/// Maximum size of a decompressed body.
pub const MAX_PACKED_BYTES: u64 = 256 << 20;
/// Maximum body of a Deliver push. The worker splits larger data into such pieces, so that replies are not delayed behind it.
pub const MAX_DELIVER_PIECE: u64 = 4 << 20;
/// Maximum piece of a session that is being moved to another worker.
pub const MAX_CHUNK_BYTES: u64 = 1 << 20;
/// Maximum number of links in one connection.
pub const MAX_LINKS: u16 = 16;
/// Minimum and maximum size of the page-aligned arena that a client may offer.
pub const MIN_ARENA_BYTES: u64 = 1 << 30;
/// Largest arena that a client may offer.
pub const MAX_ARENA_BYTES: u64 = 1 << 46;
