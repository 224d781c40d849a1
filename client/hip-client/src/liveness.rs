//! Whether the link is alive: heartbeats, the end of a silent link, and the lines on stderr about it.
//!
//! A socket can stay open while nothing passes any more: behind a proxy whose other side is gone, or in a network that drops
//! packets. One thread looks at the connection several times per timeout. It takes only what has arrived and leaves sending to the
//! sender, so no state of the socket blocks it.
//!
//! * Any received byte is a sign of life. So are send queues that the kernel is emptying: a slow link is not a dead one. Where
//!   several links share the stream, all that have a queue must move: a Ping that leaves over one of them says nothing of another.
//! * Without a sign of life a Ping is sent. The worker's reader answers it and never waits for the device, so a long kernel does not
//!   look like a dead link.
//! * After the silence timeout the sockets are shut down. The thread that reads, or the sender, finds that out and reattaches.
//! * Silence is counted in steps of at most two ticks. A program that was stopped, or got no processor time, did not listen in the
//!   meantime, and that is not the silence of the worker.

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

/// The silence timeout where none is configured. With the time to notice and to reattach a program goes on within 15 s.
pub const DEFAULT_SILENCE_TIMEOUT: Duration = Duration::from_secs(12);
/// The shortest that can be configured.
pub const SHORTEST_SILENCE_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest time between two looks. A worker that ends a connection to move a session waits for one of them.
const LONGEST_TICK: Duration = Duration::from_secs(1);
/// The longest time without a sign of life before a Ping is sent, while a call waits and while none does.
const LONGEST_BEAT: Duration = Duration::from_secs(2);
const LONGEST_IDLE_BEAT: Duration = Duration::from_secs(4);
/// How long a call waits for the network before the user reads about it.
const LONGEST_NOTICE: Duration = Duration::from_secs(5);

/// When what is done about silence, all derived from the silence timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Timing {
    tick: Duration,
    beat: Duration,
    idle_beat: Duration,
    notice: Duration,
    timeout: Duration,
}

impl Timing {
    /// Without a timeout there are no beats either: only the end of a connection is noticed.
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

/// What the holder of the reader's role does. Only that thread writes to it.
#[derive(Debug, Default)]
pub struct Heard {
    /// Bytes received so far.
    bytes: AtomicU64,
    /// The holder waits for the socket.
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

    /// Bytes have come.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.bytes.store(self.bytes() + bytes as u64, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// What is known of the link's life.
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
    /// How much of it a call has waited.
    waited: Duration,
    /// The silence when the last Ping was sent.
    pinged: Duration,
    /// The user was told.
    noticed: bool,
    /// The link was shut down because of its silence.
    ended: bool,
    /// The connection is being replaced; why that has not succeeded yet.
    reattaching: Option<String>,
}

/// What a look at the link has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    Alive,
    /// Nobody listens just now, or not all that has come can be taken.
    Unclear,
    Silent,
}

/// What the last look has seen.
#[derive(Debug)]
struct Seen {
    when: Instant,
    heard: u64,
    generation: u64,
    /// Of each link of the connection.
    queues: Vec<Queue>,
}

/// The bytes that a link has yet to deliver, and those that it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Queue {
    waiting: u64,
    delivered: u64,
}

/// Whether bytes waited at both looks, and every link where they did has delivered some meanwhile. What the kernel of a proxy takes
/// at once says nothing.
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

    /// Has the thread look now, such as at the end of the session.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Runs something of the program's that waits for the network but for no reply.
    pub fn holding_up<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.held_up.fetch_add(1, Ordering::Relaxed);
        let result = wait();
        self.held_up.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// The connection is about to be replaced. Returns why it broke.
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

    /// An attempt to replace the connection failed.
    pub fn still_reattaching(&self, why: String) {
        self.outage.lock().reattaching = Some(why);
    }
}

impl Shared {
    /// The connection was replaced.
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
            // Short timeouts make short ticks, and this reads a file.
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
            // A connection over anything but TCP has one link, so that all bytes went there.
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
            // Nobody sends Pings, so silence means nothing.
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
            // Not the link of a later connection: that one is in place only after `begin_reattaching`.
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

/// A time as people read it.
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
        // Bytes that wait at one of the looks only, and links that were added meanwhile.
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
