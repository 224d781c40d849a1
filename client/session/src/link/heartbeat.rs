//! The heartbeat thread: checks the link several times per silence timeout, see [`liveness`](super::liveness).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transport::{Link, spawn_quietly};

use super::liveness::{LONGEST_TICK, Outage, Seconds};
use crate::receive::incoming::Arrived;
use crate::shared::Shared;

/// Result of one check of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    Alive,
    /// The reader is busy elsewhere, or not everything that has arrived can be read.
    Unclear,
    Silent,
}

/// State at the previous check.
#[derive(Debug)]
struct Seen {
    when: Instant,
    heard: u64,
    generation: u64,
    /// One entry per link of the connection.
    queues: Vec<Queue>,
}

/// Bytes in a link's send queue, and bytes it has delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Queue {
    waiting: u64,
    delivered: u64,
}

/// Whether bytes were queued at both checks, and every link with such a queue has delivered some since. Bytes that a
/// proxy's kernel accepts at once prove nothing.
fn are_draining(before: &[Queue], now: &[Queue]) -> bool {
    let full = || before.iter().zip(now).filter(|(before, now)| before.waiting > 0 && now.waiting > 0);
    before.len() == now.len()
        && full().next().is_some()
        && full().all(|(before, now)| now.delivered > before.delivered)
}

impl Shared {
    /// Starts the thread that checks the link.
    pub fn start_heartbeat(self: &Arc<Shared>) -> io::Result<()> {
        let thread = spawn_quietly("remora-link", {
            let shared = Arc::clone(self);
            move || shared.watch_link()
        })?;
        let _ = self.liveness.thread.set(thread);
        Ok(())
    }

    /// Records that the connection was replaced.
    pub fn reattached(&self) {
        self.recovered(&mut self.liveness.outage.lock());
    }

    fn watch_link(&self) {
        let timing = self.liveness.timing;
        let mut seen = Seen { when: Instant::now(), heard: 0, generation: 0, queues: Vec::new() };
        let mut counted = Instant::now();
        while !self.ending.over.load(Ordering::Acquire) {
            std::thread::park_timeout(timing.tick);
            let now = Instant::now();
            let elapsed = now.duration_since(std::mem::replace(&mut seen.when, now)).min(2 * timing.tick);
            let sign = self.listen(&mut seen);
            self.judge(sign, elapsed);
            // A short timeout makes ticks short, and this check reads a file.
            if counted.elapsed() >= LONGEST_TICK && !self.arrivals.callbacks.any_outstanding() {
                counted = now;
                self.config.host.idle();
            }
        }
    }

    fn listen(&self, seen: &mut Seen) -> Sign {
        let heard = self.liveness.activity.bytes();
        if heard != seen.heard {
            seen.heard = heard;
            seen.queues.clear();
            return Sign::Alive;
        }
        if self.is_draining(seen) {
            return Sign::Alive;
        }
        let Some(mut incoming) = self.receiving.incoming.try_lock() else {
            let receiving = self.liveness.activity.receiving.load(Ordering::Relaxed);
            return if receiving { Sign::Silent } else { Sign::Unclear };
        };
        let arrived = self.take_arrived(&mut incoming);
        drop(incoming);
        self.pass_role();
        let heard = self.liveness.activity.bytes();
        let came = std::mem::replace(&mut seen.heard, heard) != heard;
        match arrived {
            _ if came => Sign::Alive,
            Arrived::All => Sign::Silent,
            Arrived::Part | Arrived::Ended => {
                self.sending.sender.look_at_link();
                Sign::Unclear
            }
        }
    }

    fn is_draining(&self, seen: &mut Seen) -> bool {
        let generation = self.links.generation.load(Ordering::Acquire);
        let sent = self.counters.bytes_sent.load(Ordering::Relaxed);
        let first = self.links.first.lock().clone();
        let queue = |link: &Link| {
            let waiting = link.unacknowledged();
            // Without TCP the connection has only one link, so all bytes were sent over it.
            let delivered = link.acknowledged().unwrap_or_else(|| sent.saturating_sub(waiting));
            Queue { waiting, delivered }
        };
        let queues: Vec<Queue> =
            std::iter::once(first).chain(self.links.extra.links()).map(|it| queue(&it)).collect();
        let same = std::mem::replace(&mut seen.generation, generation) == generation;
        let before = std::mem::replace(&mut seen.queues, queues);
        same && are_draining(&before, &seen.queues)
    }

    fn judge(&self, sign: Sign, elapsed: Duration) {
        let timing = &self.liveness.timing;
        let mut outage = self.liveness.outage.lock();
        let reattaching = outage.reattaching.is_some();
        match sign {
            _ if reattaching || outage.ended => {}
            Sign::Alive => return self.recovered(&mut outage),
            Sign::Unclear => return,
            // Pings are disabled, so silence means nothing.
            Sign::Silent if timing.timeout == Duration::MAX => return,
            Sign::Silent => {}
        }
        outage.silence += elapsed;
        let waits =
            self.receiving.pending.lock().is_awaited() || self.liveness.held_up.load(Ordering::Relaxed) > 0;
        outage.waited = if waits { outage.waited + elapsed } else { Duration::ZERO };
        if outage.waited >= timing.notice && !outage.noticed {
            outage.noticed = true;
            self.notice(&outage);
        }
        if reattaching {
            return;
        }
        if outage.silence >= timing.timeout {
            outage.ended = true;
            // Cannot be the link of a later connection: that one is installed only after `begin_reattaching`.
            self.links.first.lock().shutdown();
            self.links.extra.shutdown();
            self.sending.sender.look_at_link();
            return;
        }
        let beat = if waits { timing.beat } else { timing.idle_beat };
        if outage.silence.saturating_sub(outage.pinged) >= beat {
            outage.pinged = outage.silence;
            self.sending.sender.ping();
        }
    }

    fn notice(&self, outage: &Outage) {
        let (place, silence) = (&self.links.place.lock().endpoint, Seconds(outage.silence));
        match &outage.reattaching {
            Some(why) => self.config.host.line(format_args!(
                "no connection to {place} for {silence} and a call is waiting; retrying ({why})"
            )),
            None => self.config.host.line(format_args!(
                "no answer from {place} for {silence} and a call is waiting; reconnecting after {}",
                Seconds(self.liveness.timing.timeout)
            )),
        }
    }

    fn recovered(&self, outage: &mut Outage) {
        if outage.noticed {
            let (place, silence) = (&self.links.place.lock().endpoint, Seconds(outage.silence));
            self.config.host.line(format_args!("connection to {place} restored after {silence}"));
        }
        *outage = Outage::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_is_stuck_is_not_excused_by_a_ping_that_left_over_another() {
        let queue = |waiting, delivered| Queue { waiting, delivered };
        let stuck = queue(1_473_801, 2_000_003);
        assert!(!are_draining(&[queue(0, 100), stuck], &[queue(0, 116), stuck]));
        assert!(!are_draining(&[queue(16, 100), stuck], &[queue(16, 116), stuck]));
        let slow = queue(1_400_000, 2_073_804);
        assert!(are_draining(&[queue(0, 100), stuck], &[queue(0, 100), slow]));
        assert!(are_draining(&[queue(16, 100), stuck], &[queue(16, 116), slow]));
        // Bytes queued at only one of the checks, and links added in between.
        assert!(!are_draining(&[queue(0, 100)], &[queue(50, 150)]));
        assert!(!are_draining(&[queue(50, 100)], &[queue(0, 150)]));
        assert!(!are_draining(&[stuck], &[slow, slow]));
    }
}
