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
use std::time::Duration;

use parking_lot::Mutex;

/// The default silence timeout. Including detection and reattaching, a program continues within 15 s.
pub const DEFAULT_SILENCE_TIMEOUT: Duration = Duration::from_secs(12);
/// The shortest silence timeout that can be configured.
pub const SHORTEST_SILENCE_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest time between two checks. A worker that closes a connection to migrate a session waits for the next check.
pub(super) const LONGEST_TICK: Duration = Duration::from_secs(1);
/// The longest time without a sign of life before a Ping is sent, while a call waits and while none does.
const LONGEST_BEAT: Duration = Duration::from_secs(2);
const LONGEST_IDLE_BEAT: Duration = Duration::from_secs(4);
/// How long a call waits for the network before a message is printed.
const LONGEST_NOTICE: Duration = Duration::from_secs(5);

/// Intervals and timeouts, all derived from the silence timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Timing {
    pub tick: Duration,
    pub beat: Duration,
    pub idle_beat: Duration,
    pub notice: Duration,
    pub timeout: Duration,
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

/// Activity of the reader. Written only by the holder of the reader role and the threads that help it.
#[derive(Debug, Default)]
pub struct ReaderActivity {
    /// Bytes received so far.
    bytes: AtomicU64,
    /// The reader is waiting for the socket.
    pub(super) receiving: AtomicBool,
}

impl ReaderActivity {
    /// Runs a wait for the socket.
    #[inline]
    pub fn receiving<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.receiving.store(true, Ordering::Relaxed);
        let result = wait();
        self.receiving.store(false, Ordering::Relaxed);
        result
    }

    /// Counts received bytes. Several threads may receive a large body.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Liveness state of the connection.
#[derive(Debug)]
pub struct Liveness {
    pub(super) timing: Timing,
    pub(super) thread: OnceLock<Thread>,
    pub activity: Arc<ReaderActivity>,
    /// Threads of the program that wait for the network but for no reply.
    pub(super) held_up: AtomicUsize,
    pub(super) outage: Mutex<Outage>,
}

/// The time since the last sign of life.
#[derive(Debug, Default)]
pub(super) struct Outage {
    pub silence: Duration,
    /// The part of it during which a call was waiting.
    pub waited: Duration,
    /// The silence when the last Ping was sent.
    pub pinged: Duration,
    /// The message was printed.
    pub noticed: bool,
    /// The link was shut down because of its silence.
    pub ended: bool,
    /// Set while the connection is being replaced: the last error.
    pub reattaching: Option<String>,
}

impl Liveness {
    pub fn new(timeout: Option<Duration>) -> Liveness {
        Liveness {
            timing: Timing::new(timeout),
            thread: OnceLock::new(),
            activity: Arc::default(),
            held_up: AtomicUsize::new(0),
            outage: Mutex::default(),
        }
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

    /// Records that a broken connection is about to be replaced. Returns why it broke.
    pub fn begin_reattaching(&self, error: io::Error) -> io::Error {
        let mut outage = self.outage.lock();
        let error = match outage.ended {
            true => {
                let text = format!("no answer for {}", Seconds(outage.silence));
                io::Error::new(io::ErrorKind::TimedOut, text)
            }
            false => error,
        };
        outage.reattaching = Some(error.to_string());
        error
    }

    /// Whether the connection is being replaced.
    pub fn is_reattaching(&self) -> bool {
        self.outage.lock().reattaching.is_some()
    }

    /// Records a failed attempt to replace the connection.
    pub fn still_reattaching(&self, why: String) {
        self.outage.lock().reattaching = Some(why);
    }
}

/// Formats a duration in seconds.
pub(super) struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
