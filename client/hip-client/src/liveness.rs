//! Link liveness: heartbeats, the timeout of a silent link, and its messages on stderr.
//!
//! A socket can stay open after traffic has stopped: behind a proxy whose peer is gone, or in a network that drops
//! packets. One thread checks the connection several times per timeout. It reads only what has arrived and leaves sending
//! to the sender thread, so no state of the socket blocks it.
//!
//! * Any received byte is a sign of life. So are send queues that the kernel is draining: a slow link is not a dead one.
//!   Where several links share the stream, every link with a queue must drain: a Ping sent over one link proves nothing
//!   about another.
//! * Without a sign of life a Ping is sent. The worker's reader answers it and never waits for the device, so a long
//!   kernel does not look like a dead link.
//! * After the silence timeout the sockets are shut down. The reading thread or the sender thread notices and reattaches.
//! * Silence is counted in steps of at most two ticks. A program that was stopped or got no CPU time did not listen, and
//!   that time must not count as silence of the worker.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use transport::Link;

use crate::alone;
use crate::connection::Shared;
use crate::incoming::{Arrived, ReadError};
use crate::outgoing::spawn_quietly;
use crate::trace;

/// The default silence timeout. Including detection and reattaching, a program continues within 15 s.
pub const DEFAULT_SILENCE_TIMEOUT: Duration = Duration::from_secs(12);
/// The shortest silence timeout that can be configured.
pub const SHORTEST_SILENCE_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest time between two checks. A worker that closes a connection to migrate a session waits for the next check.
const LONGEST_TICK: Duration = Duration::from_secs(1);
/// The longest time without a sign of life before a Ping is sent, while a call waits and while none does.
const LONGEST_BEAT: Duration = Duration::from_secs(2);
const LONGEST_IDLE_BEAT: Duration = Duration::from_secs(4);
/// How long a call waits for the network before a message is printed.
const LONGEST_NOTICE: Duration = Duration::from_secs(5);

/// Intervals and timeouts, all derived from the silence timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Timing {
    tick: Duration,
    beat: Duration,
    idle_beat: Duration,
    notice: Duration,
    timeout: Duration,
}

impl Timing {
    /// Without a timeout there are no heartbeats either: only a closed connection is noticed.
    fn new(timeout: Option<Duration>) -> Timing {
        let Some(timeout) = timeout else {
            let never = Duration::MAX;
            return Timing {
                tick: LONGEST_TICK,
                beat: never,
                idle_beat: never,
                notice: LONGEST_NOTICE,
                timeout: never,
            };
        };
        Timing {
            tick: (timeout / 12).min(LONGEST_TICK),
            beat: (timeout / 6).min(LONGEST_BEAT),
            idle_beat: (timeout / 3).min(LONGEST_IDLE_BEAT),
            notice: (timeout / 2).min(LONGEST_NOTICE),
            timeout,
        }
    }
}

/// Activity of the reader. Written only by the holder of the reader role.
#[derive(Debug, Default)]
pub struct Heard {
    /// Bytes received so far.
    bytes: AtomicU64,
    /// The reader is waiting for the socket.
    receiving: AtomicBool,
}

impl Heard {
    /// Runs a wait for the socket.
    #[inline]
    pub fn receiving<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.receiving.store(true, Ordering::Relaxed);
        let result = wait();
        self.receiving.store(false, Ordering::Relaxed);
        result
    }

    /// Counts received bytes.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.bytes.store(self.bytes() + bytes as u64, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Liveness state of the connection.
#[derive(Debug)]
pub struct Liveness {
    timing: Timing,
    thread: OnceLock<Thread>,
    pub heard: Arc<Heard>,
    /// Threads of the program that wait for the network but for no reply.
    held_up: AtomicUsize,
    outage: Mutex<Outage>,
}

/// The time since the last sign of life.
#[derive(Debug, Default)]
struct Outage {
    silence: Duration,
    /// The part of it during which a call was waiting.
    waited: Duration,
    /// The silence when the last Ping was sent.
    pinged: Duration,
    /// The message was printed.
    noticed: bool,
    /// The link was shut down because of its silence.
    ended: bool,
    /// Set while the connection is being replaced: the last error.
    reattaching: Option<String>,
}

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

impl Liveness {
    pub fn new(timeout: Option<Duration>) -> Liveness {
        Liveness {
            timing: Timing::new(timeout),
            thread: OnceLock::new(),
            heard: Arc::default(),
            held_up: AtomicUsize::new(0),
            outage: Mutex::default(),
        }
    }

    pub fn start(shared: &Arc<Shared>) -> io::Result<()> {
        let thread = spawn_quietly("remora-link", {
            let shared = shared.clone();
            move || shared.watch_link()
        })?;
        let _ = shared.liveness.thread.set(thread);
        Ok(())
    }

    /// Makes the thread check now, for example at the end of the session.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Runs a wait of a program thread for the network that is not a wait for a reply.
    pub fn holding_up<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.held_up.fetch_add(1, Ordering::Relaxed);
        let result = wait();
        self.held_up.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Records that the connection is about to be replaced. Returns why it broke.
    pub fn begin_reattaching(&self, error: ReadError) -> ReadError {
        let mut outage = self.outage.lock();
        let error = match error {
            ReadError::Broken(_) if outage.ended => {
                let text = format!("no answer for {}", Seconds(outage.silence));
                ReadError::Broken(io::Error::new(io::ErrorKind::TimedOut, text))
            }
            error => error,
        };
        if let ReadError::Broken(error) = &error {
            outage.reattaching = Some(error.to_string());
        }
        error
    }

    /// Records a failed attempt to replace the connection.
    pub fn still_reattaching(&self, why: String) {
        self.outage.lock().reattaching = Some(why);
    }
}

impl Shared {
    /// Records that the connection was replaced.
    pub fn reattached(&self) {
        self.recovered(&mut self.liveness.outage.lock());
    }

    fn watch_link(&self) {
        let timing = self.liveness.timing;
        let mut seen = Seen { when: Instant::now(), heard: 0, generation: 0, queues: Vec::new() };
        let mut counted = Instant::now();
        while !self.over.load(Ordering::Acquire) {
            std::thread::park_timeout(timing.tick);
            let now = Instant::now();
            let elapsed = now.duration_since(std::mem::replace(&mut seen.when, now)).min(2 * timing.tick);
            let sign = self.listen(&mut seen);
            self.judge(sign, elapsed);
            // A short timeout makes ticks short, and this check reads a file.
            if counted.elapsed() >= LONGEST_TICK && !self.callbacks.any_outstanding() {
                counted = now;
                alone::end_if_alone();
            }
        }
    }

    fn listen(&self, seen: &mut Seen) -> Sign {
        let heard = self.liveness.heard.bytes();
        if heard != seen.heard {
            seen.heard = heard;
            seen.queues.clear();
            return Sign::Alive;
        }
        if self.is_draining(seen) {
            return Sign::Alive;
        }
        let Some(mut incoming) = self.incoming.try_lock() else {
            let receiving = self.liveness.heard.receiving.load(Ordering::Relaxed);
            return if receiving { Sign::Silent } else { Sign::Unclear };
        };
        let arrived = self.take_arrived(&mut incoming);
        drop(incoming);
        self.pass_role();
        let heard = self.liveness.heard.bytes();
        let came = std::mem::replace(&mut seen.heard, heard) != heard;
        match arrived {
            _ if came => Sign::Alive,
            Arrived::All => Sign::Silent,
            Arrived::Part | Arrived::Ended => {
                self.sender.look_at_link();
                Sign::Unclear
            }
        }
    }

    fn is_draining(&self, seen: &mut Seen) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        let sent = self.counters.bytes_sent.load(Ordering::Relaxed);
        let first = self.link.lock().clone();
        let queue = |link: &Link| {
            let waiting = link.unacknowledged();
            // Without TCP the connection has only one link, so all bytes were sent over it.
            let delivered = link.acknowledged().unwrap_or_else(|| sent.saturating_sub(waiting));
            Queue { waiting, delivered }
        };
        let queues: Vec<Queue> =
            std::iter::once(first).chain(self.strands.links()).map(|it| queue(&it)).collect();
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
        let waits = self.desk.lock().is_awaited() || self.liveness.held_up.load(Ordering::Relaxed) > 0;
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
            self.link.lock().shutdown();
            self.strands.shutdown();
            self.sender.look_at_link();
            return;
        }
        let beat = if waits { timing.beat } else { timing.idle_beat };
        if outage.silence.saturating_sub(outage.pinged) >= beat {
            outage.pinged = outage.silence;
            self.sender.ping();
        }
    }

    fn notice(&self, outage: &Outage) {
        let (place, silence) = (self.place.lock(), Seconds(outage.silence));
        match &outage.reattaching {
            Some(why) => trace::line(format_args!(
                "no connection to {place} for {silence} and a call is waiting; retrying ({why})"
            )),
            None => trace::line(format_args!(
                "no answer from {place} for {silence} and a call is waiting; reconnecting after {}",
                Seconds(self.liveness.timing.timeout)
            )),
        }
    }

    fn recovered(&self, outage: &mut Outage) {
        if outage.noticed {
            let (place, silence) = (self.place.lock(), Seconds(outage.silence));
            trace::line(format_args!("connection to {place} restored after {silence}"));
        }
        *outage = Outage::default();
    }
}

/// Formats a duration in seconds.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
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

    #[test]
    fn a_worker_that_answers_is_heard_before_anybody_complains() {
        let timeouts = [SHORTEST_SILENCE_TIMEOUT, DEFAULT_SILENCE_TIMEOUT, Duration::from_secs(3600)];
        for timing in timeouts.map(|timeout| Timing::new(Some(timeout))) {
            assert!(timing.beat + 2 * timing.tick <= timing.notice, "{timing:?}");
            assert!(timing.idle_beat + 2 * timing.tick < timing.timeout, "{timing:?}");
            assert!(timing.notice < timing.timeout && timing.tick > Duration::ZERO, "{timing:?}");
        }
        let timing = Timing::new(Some(DEFAULT_SILENCE_TIMEOUT));
        assert_eq!(timing.notice, Duration::from_secs(5));
        assert!(timing.timeout + 2 * timing.tick < Duration::from_secs(15));
    }
}
