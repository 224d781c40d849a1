//! Opens extra links while a transfer runs, when one link is slow.

use std::sync::atomic::Ordering;

use transport::{Link, TransportError, spawn_quietly};

use super::extra_links::Joined;
use crate::shared::Shared;

/// The smallest transfer that justifies the handshakes of more links, where the number of links is configured.
const WORTH_BYTES: usize = 4 << 20;

impl Shared {
    /// Called before a transfer: opens more links if it is large and their number was configured.
    #[inline]
    pub fn consider_extra_links(&self, bytes: usize) {
        if self.links.extra.are_certain() && bytes >= WORTH_BYTES {
            self.ask_for_extra_links();
        }
    }

    /// Called when one link is slow: opens more links if the latency is high.
    #[inline]
    pub fn is_too_slow(&self) {
        if self.links.extra.wanted > 1 {
            self.ask_for_extra_links();
        }
    }

    #[cold]
    fn ask_for_extra_links(&self) {
        let generation = self.links.generation.load(Ordering::Acquire);
        if self.links.extra.asked_for.swap(generation + 1, Ordering::AcqRel) == generation + 1 {
            return;
        }
        let Some(shared) = self.owned() else { return };
        // If the thread cannot be started, one link remains in use.
        let _ = spawn_quietly("remora-strands", move || {
            let host = shared.config.host;
            match shared.open_extra_links(generation) {
                Ok(0) => {}
                Ok(links) => host.debug(format_args!("spread over {} links", links + 1)),
                Err(error) => host.debug(format_args!("no further links: {}", error.line())),
            }
        });
    }

    fn open_extra_links(&self, generation: u64) -> Result<usize, TransportError> {
        let links: Result<Vec<Link>, TransportError> = std::thread::scope(|scope| {
            let joining: Vec<_> = (1..self.links.extra.wanted)
                .map(|place| std::thread::Builder::new().spawn_scoped(scope, move || self.join(place)))
                .collect();
            let failed = || std::io::Error::other("a thread ended early");
            joining.into_iter().map(|thread| thread?.join().map_err(|_| failed())?).collect()
        });
        let links = links?;
        let count = links.len();
        let mut joined = self.links.extra.joined.lock();
        // The connection may have been replaced meanwhile, and the next one may have its own links.
        if self.ending.over.load(Ordering::Acquire)
            || self.links.generation.load(Ordering::Acquire) != generation
        {
            links.iter().for_each(Link::shutdown);
            return Ok(0);
        }
        *joined = Joined { links, generation };
        self.links.extra.due.store(true, Ordering::Release);
        drop(joined);
        self.sending.sender.wake();
        Ok(count)
    }
}
