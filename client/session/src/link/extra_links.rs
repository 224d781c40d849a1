//! Extra links: additional TCP links for bulk transfers over high latency (`Strand` on the wire).
//!
//! One TCP connection has a limited number of bytes in flight, set by the windows of both systems or by the network. When
//! a copy over a high-latency link is measured to be slow, a separate thread opens more links while the copy runs; once
//! the worker has accepted all of them, both directions are spread over them. A copy to a worker that is near, over TCP or a unix
//! socket, is limited by the threads that copy to and from the socket, so large copies use several links at once where there are
//! processors for them; with few processors one link is faster. Extra links live as long as the connection: if one breaks, the
//! whole connection is replaced.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use transport::{Endpoint, Link};
use wire::{Flags, MAX_LINKS, Spread, WireError, capability};

use super::handshake::Identity;
use crate::config::Config;

/// Bytes to measure before a link is called slow; more than the socket buffers absorb at once.
const SEEN_BYTES: u64 = 12 << 20;
/// Throughput in bytes per second below which a link counts as slow: TCP windows of a few megabytes allow no more at
/// latencies of tens of milliseconds, and a machine that is merely busy moves more.
const SLOW: f64 = 250e6;
/// A worker with a lower latency than this is not limited by TCP windows: they allow several GB/s.
const WORTH_DISTANCE: Duration = Duration::from_millis(2);
/// The usual number of connections of a browser, and enough for 1 GB/s from another continent.
const LINKS: u16 = 6;
/// Most links to a worker that is near, and the fewest processors for several: as many threads copy on each side.
const NEAR_LINKS: usize = 6;
const NEAR_PROCESSORS: usize = 8;

/// The additional links of the connection.
#[derive(Debug)]
pub struct ExtraLinks {
    /// Number of links, including the first; 1 for no additional ones.
    pub(super) wanted: u16,
    /// Whatever the measured speed.
    pub(super) certain: bool,
    /// The generation of the connection that links were last opened for, plus 1.
    pub(super) asked_for: AtomicU64,
    pub(super) joined: Mutex<Joined>,
    /// The links have joined; the sender should start to use them.
    pub(super) due: AtomicBool,
}

/// Links that the worker has accepted, and the generation of the connection they belong to.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub links: Vec<Link>,
    pub generation: u64,
}

impl ExtraLinks {
    /// Decides how many links the session may use.
    pub fn new(config: &Config, identity: &Identity) -> ExtraLinks {
        let is_near = matches!(config.endpoint, Endpoint::Unix { .. }) || identity.distance < WORTH_DISTANCE;
        let wanted = match config.copies.links {
            _ if identity.capabilities & capability::STRANDS == 0 => 1,
            Some(links) => links.clamp(1, MAX_LINKS),
            None if identity.capabilities & capability::MEMORY_LINK != 0 => 1,
            None if is_near => near_links(processors()),
            None => LINKS,
        };
        ExtraLinks {
            wanted,
            certain: config.copies.links.is_some() || is_near,
            asked_for: AtomicU64::new(0),
            joined: Mutex::default(),
            due: AtomicBool::new(false),
        }
    }

    /// Whether large copies use several links, whatever the measured speed.
    pub fn are_certain(&self) -> bool {
        self.wanted > 1 && self.certain
    }

    /// Whether the sender should start to use links that have joined.
    #[inline]
    pub fn are_due(&self) -> bool {
        self.due.load(Ordering::Acquire)
    }

    /// Returns the links that the sender of this generation should spread over, and appends the Spread frame to
    /// `control`.
    pub fn take_due(&self, generation: u64, control: &mut Vec<u8>) -> Option<Vec<Link>> {
        let joined = self.joined.lock();
        // Links may have joined while their connection was being replaced; the worker has dropped those.
        if !self.due.swap(false, Ordering::AcqRel) || joined.generation != generation {
            return None;
        }
        let links = 1 + joined.links.len() as u16;
        wire::encode_request(&Spread { links }, &[], Flags::UNSEQUENCED, 0, 0, control);
        Some(joined.links.clone())
    }

    /// The links that the worker has started to use.
    pub fn in_use(&self, links: u16) -> Result<Vec<Link>, WireError> {
        let joined = self.joined.lock();
        match joined.links.len() + 1 == usize::from(links) && links > 1 && !self.are_due() {
            true => Ok(joined.links.clone()),
            false => Err(WireError::Value { what: "the number of links spread over", value: links.into() }),
        }
    }

    /// Shuts down the links of a replaced connection. Called with both directions locked.
    pub fn forget(&self) {
        let mut joined = self.joined.lock();
        self.due.store(false, Ordering::Release);
        joined.links.drain(..).for_each(|link| link.shutdown());
    }

    /// The links that the worker has accepted.
    pub fn links(&self) -> Vec<Link> {
        self.joined.lock().links.clone()
    }

    /// Wakes the threads that read or write them.
    pub fn shutdown(&self) {
        self.joined.lock().links.iter().for_each(Link::shutdown);
    }
}

/// Number of links to a worker that is near.
fn near_links(processors: usize) -> u16 {
    if processors < NEAR_PROCESSORS { 1 } else { (processors / 2).min(NEAR_LINKS) as u16 }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// Measures the throughput of one direction while it is saturated.
#[derive(Debug, Default)]
pub struct Throughput {
    bytes: u64,
    taken: Duration,
}

impl Throughput {
    /// Adds a measurement. Returns true once enough bytes were measured and they were slow.
    pub fn is_slow(&mut self, bytes: u64, taken: Duration) -> bool {
        self.bytes += bytes;
        self.taken += taken;
        if self.bytes < SEEN_BYTES {
            return false;
        }
        let seen = std::mem::take(self);
        (seen.bytes as f64) < SLOW * seen.taken.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_near_has_several_links_where_there_are_processors_for_them() {
        assert_eq!([2, 4, 8, 12, 16, 64].map(near_links), [1, 1, 4, 6, 6, 6]);
    }

    #[test]
    fn a_link_is_slow_only_by_what_was_seen_of_much() {
        let mut pace = Throughput::default();
        let (piece, slow, fast) = (4 << 20, Duration::from_millis(100), Duration::from_millis(2));
        assert!(!pace.is_slow(piece, slow) && !pace.is_slow(piece, slow));
        assert!(pace.is_slow(piece, slow));
        assert!((0..30).all(|_| !pace.is_slow(piece, fast)));
        // A single stall does not make a link slow.
        assert!(!pace.is_slow(piece, Duration::from_millis(20)) && !pace.is_slow(2 * piece, fast));
    }
}
