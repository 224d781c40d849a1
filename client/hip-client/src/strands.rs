//! More links for a connection that has much to carry over a long way.
//!
//! One TCP connection has only so many bytes under way, by the windows of both systems or by what a network grants it. A copy that
//! is seen to be slow over a long way has further links opened, by a thread of its own and while it runs; once the worker has them
//! all, both directions are spread over them. A fast connection is left alone: dealing with several costs processor time. They live
//! as long as the connection: one that breaks breaks all of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use transport::{Endpoint, Link, TransportError};
use wire::{Flags, MAX_LINKS, Spread, WireError, capability};

use crate::connection::{Config, Shared};
use crate::outgoing::spawn_quietly;
use crate::reattach::{self, Session};
use crate::trace;

/// What has to be moved at once for more links to be worth their handshakes, where their number was asked for.
const WORTH_BYTES: usize = 4 << 20;
/// So many bytes have to be seen moving before one link is said to be slow, more than the systems' buffers take in at once.
const SEEN_BYTES: u64 = 12 << 20;
/// Bytes a second that a link must stay below to be called slow: windows of some megabytes let no more pass from tens of
/// milliseconds away, and a machine that is only busy moves more.
const SLOW: f64 = 250e6;
/// A worker nearer than this is not held up by windows: they let some gigabytes a second pass.
const WORTH_DISTANCE: Duration = Duration::from_millis(2);
/// As many links as browsers are wont to open, and enough for a gigabyte a second from another continent.
const LINKS: u16 = 6;

/// The further links of the connection, from being wanted to being in use.
#[derive(Debug)]
pub struct Strands {
    /// All links, the first among them; 1 for no others.
    wanted: u16,
    /// The number was asked for, so that no slowness need be seen.
    certain: bool,
    /// What opens them.
    shared: OnceLock<Weak<Shared>>,
    /// One more than the generation of the connection they were last asked for.
    asked_for: AtomicU64,
    joined: Mutex<Joined>,
    /// They have joined, and the sender should begin to use them.
    due: AtomicBool,
}

/// Links that the worker has, and the generation of the connection they belong to.
#[derive(Debug, Default)]
struct Joined {
    links: Vec<Link>,
    generation: u64,
}

impl Strands {
    pub fn new(config: &Config, session: &Session) -> Strands {
        let wanted = match config.links {
            _ if session.capabilities & capability::STRANDS == 0 => 1,
            Some(links) => links.clamp(1, MAX_LINKS),
            None if matches!(config.endpoint, Endpoint::Unix { .. }) => 1,
            None if session.distance < WORTH_DISTANCE => 1,
            None => LINKS,
        };
        Strands {
            wanted,
            certain: config.links.is_some(),
            shared: OnceLock::new(),
            asked_for: AtomicU64::new(0),
            joined: Mutex::default(),
            due: AtomicBool::new(false),
        }
    }

    /// Called once, before anything is moved.
    pub fn belong_to(&self, shared: &Arc<Shared>) {
        // Set once; a second call would name the same.
        let _ = self.shared.set(Arc::downgrade(shared));
    }

    #[inline]
    pub fn are_due(&self) -> bool {
        self.due.load(Ordering::Acquire)
    }

    /// The links that the sender of this generation shall spread over, behind the frame that is put in `control`.
    pub fn take_due(&self, generation: u64, control: &mut Vec<u8>) -> Option<Vec<Link>> {
        let joined = self.joined.lock();
        // Links may have joined while their connection was being replaced: the worker has let go of them.
        if !self.due.swap(false, Ordering::AcqRel) || joined.generation != generation {
            return None;
        }
        let links = 1 + joined.links.len() as u16;
        wire::encode_request(&Spread { links }, &[], Flags::UNSEQUENCED, 0, 0, control);
        Some(joined.links.clone())
    }

    /// The links that the worker has begun to use.
    pub fn in_use(&self, links: u16) -> Result<Vec<Link>, WireError> {
        let joined = self.joined.lock();
        match joined.links.len() + 1 == usize::from(links) && links > 1 && !self.are_due() {
            true => Ok(joined.links.clone()),
            false => Err(WireError::Value { what: "the number of links spread over", value: links.into() }),
        }
    }

    /// The connection they belonged to is gone. Called with both directions held.
    pub fn forget(&self) {
        let mut joined = self.joined.lock();
        self.due.store(false, Ordering::Release);
        joined.links.drain(..).for_each(|link| link.shutdown());
    }

    /// The links that the worker has.
    pub fn links(&self) -> Vec<Link> {
        self.joined.lock().links.clone()
    }

    /// Wakes whoever reads or writes them.
    pub fn shutdown(&self) {
        self.joined.lock().links.iter().for_each(Link::shutdown);
    }
}

/// How fast one direction of the connection moves while it does nothing else.
#[derive(Debug, Default)]
pub struct Pace {
    bytes: u64,
    taken: Duration,
}

impl Pace {
    /// So many bytes took so long; true once enough have been seen, if they were slow.
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

impl Shared {
    /// Called before something is moved: opens further links if that is much and they were asked for.
    #[inline]
    pub fn consider_strands(&self, bytes: usize) {
        if self.strands.wanted > 1 && self.strands.certain && bytes >= WORTH_BYTES {
            self.ask_for_strands();
        }
    }

    /// One link is slow: opens further ones if the way is long.
    #[inline]
    pub fn is_too_slow(&self) {
        if self.strands.wanted > 1 {
            self.ask_for_strands();
        }
    }

    #[cold]
    fn ask_for_strands(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.strands.asked_for.swap(generation + 1, Ordering::AcqRel) == generation + 1 {
            return;
        }
        let Some(shared) = self.strands.shared.get().and_then(Weak::upgrade) else { return };
        // Without a thread for it, one link has to do.
        let _ = spawn_quietly("remora-strands", move || match shared.open_strands(generation) {
            Ok(0) => {}
            Ok(links) => trace::debug(format_args!("spread over {} links", links + 1)),
            Err(error) => trace::debug(format_args!("no further links: {}", error.line())),
        });
    }

    fn open_strands(&self, generation: u64) -> Result<usize, TransportError> {
        let links: Result<Vec<Link>, TransportError> = std::thread::scope(|scope| {
            let joining: Vec<_> = (1..self.strands.wanted)
                .map(|place| {
                    std::thread::Builder::new().spawn_scoped(scope, move || reattach::join(self, place))
                })
                .collect();
            let failed = || std::io::Error::other("a thread ended early");
            joining.into_iter().map(|thread| thread?.join().map_err(|_| failed())?).collect()
        });
        let links = links?;
        let count = links.len();
        let mut joined = self.strands.joined.lock();
        // Their connection may have been replaced meanwhile, and the next one have links of its own.
        if self.over.load(Ordering::Acquire) || self.generation.load(Ordering::Acquire) != generation {
            links.iter().for_each(Link::shutdown);
            return Ok(0);
        }
        *joined = Joined { links, generation };
        self.strands.due.store(true, Ordering::Release);
        drop(joined);
        self.sender.wake();
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_slow_only_by_what_was_seen_of_much() {
        let mut pace = Pace::default();
        let (piece, slow, fast) = (4 << 20, Duration::from_millis(100), Duration::from_millis(2));
        assert!(!pace.is_slow(piece, slow) && !pace.is_slow(piece, slow));
        assert!(pace.is_slow(piece, slow));
        assert!((0..30).all(|_| !pace.is_slow(piece, fast)));
        // A single stall is not slowness.
        assert!(!pace.is_slow(piece, Duration::from_millis(20)) && !pace.is_slow(2 * piece, fast));
    }
}
