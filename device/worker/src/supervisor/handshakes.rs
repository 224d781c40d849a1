//! Limits on unauthenticated connections: how many there may be, and which one is closed when there are too many.
//!
//! A new connection always gets a slot. If its address has too many, the oldest of that address is closed; if there are too many
//! in total, the oldest of the address with the most. Connections that have sent nothing are closed first. A connection that
//! names a session of this worker uses a separate set of slots, which strangers cannot fill: they do not know a session's id.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use transport::Link;

/// Limit on log lines about refused connections in each interval. Further ones are counted.
const LOG_LINES: u32 = 20;
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Limits on connections by stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// Not authenticated yet.
    pub(crate) open: usize,
    /// Not authenticated yet, from one address.
    pub(crate) of_address: usize,
    /// Naming a session of this worker, and not authenticated yet.
    pub(crate) returning: usize,
    /// Authenticated and being served.
    pub(crate) admitted: usize,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps { open: 256, of_address: 128, returning: 64, admitted: 256 }
    }
}

/// Progress of a handshake. The order is that in which connections are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It has not sent a complete Hello.
    Silent,
    /// Its Hello has arrived.
    Greeted,
    /// Its Hello names a session of this worker.
    Returning,
    /// It is authenticated. Never closed to make room for another.
    Admitted,
}

/// Origin of a connection: an IPv4 address, the 64-bit prefix of an IPv6 address, or a user of this machine over a unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    V4([u8; 4]),
    V6([u16; 4]),
    User(u32),
}

impl Origin {
    pub(crate) fn of(link: &Link) -> Origin {
        match link.peer_address() {
            Some(IpAddr::V4(address)) => Origin::V4(address.octets()),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                Origin::V6([a, b, c, d])
            }
            None => Origin::User(link.unix_peer().map_or(u32::MAX, |peer| peer.uid)),
        }
    }
}

/// All handshakes in progress.
#[derive(Debug)]
pub(crate) struct Handshakes {
    caps: Caps,
    rows: Mutex<Rows>,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Rows {
    rows: HashMap<u64, Row>,
    /// Increasing, so the lowest number is the oldest.
    next: u64,
}

#[derive(Debug)]
struct Row {
    origin: Origin,
    stage: Stage,
    link: Link,
}

#[derive(Debug)]
struct Log {
    since: Instant,
    lines: u32,
    silent: u64,
}

/// The slot of one connection, freed when dropped.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    number: u64,
    handshakes: Arc<Handshakes>,
}

impl Handshakes {
    pub(crate) fn new(caps: Caps) -> Handshakes {
        let log = Log { since: Instant::now(), lines: 0, silent: 0 };
        Handshakes { caps, rows: Mutex::default(), log: Mutex::new(log) }
    }

    /// Assigns a slot to a new connection, and closes others if necessary.
    pub(crate) fn enter(self: &Arc<Handshakes>, link: &Link, origin: Origin) -> HandshakeSlot {
        let mut closed = Vec::new();
        let mut rows = self.rows.lock();
        let is_open = |row: &Row| row.stage < Stage::Returning;
        while rows.count(|row| is_open(row) && row.origin == origin) >= self.caps.of_address {
            closed.extend(rows.close(|row| is_open(row) && row.origin == origin));
        }
        while rows.count(is_open) >= self.caps.open {
            closed.extend(rows.close(is_open));
        }
        let number = rows.next;
        rows.next += 1;
        rows.rows.insert(number, Row { origin, stage: Stage::Silent, link: link.clone() });
        drop(rows);
        if !closed.is_empty() {
            let Caps { open, of_address, .. } = self.caps;
            self.warn(format_args!(
                "closed an unauthenticated connection to make room for a new one; limits: {open} in total, {of_address} per address"
            ));
        }
        HandshakeSlot { number, handshakes: Arc::clone(self) }
    }

    /// Whether a returning or authenticated connection is being served.
    pub(crate) fn is_busy(&self) -> bool {
        self.rows.lock().count(|row| row.stage >= Stage::Returning) > 0
    }

    /// Whether any connection is in its handshake.
    pub(crate) fn is_open(&self) -> bool {
        self.rows.lock().count(|_| true) > 0
    }

    /// Logs a line about a connection, rate-limited.
    pub(crate) fn warn(&self, line: std::fmt::Arguments<'_>) {
        let mut log = self.log.lock();
        if log.since.elapsed() >= LOG_INTERVAL {
            if log.silent > 0 {
                tracing::warn!("suppressed {} more lines about refused connections", log.silent);
            }
            *log = Log { since: Instant::now(), lines: 0, silent: 0 };
        }
        if log.lines < LOG_LINES {
            log.lines += 1;
            tracing::warn!("{line}");
        } else {
            log.silent += 1;
        }
    }
}

impl Rows {
    fn count(&self, which: impl Fn(&Row) -> bool) -> usize {
        self.rows.values().filter(|row| which(row)).count()
    }

    /// Closes one matching connection: of the origin with the most, the one at the earliest stage, and of those the oldest.
    fn close(&mut self, which: impl Fn(&Row) -> bool) -> Option<Origin> {
        let mut counts: HashMap<Origin, usize> = HashMap::new();
        for row in self.rows.values().filter(|row| which(row)) {
            *counts.entry(row.origin).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let candidates = self.rows.iter().filter(|(_, row)| which(row) && counts[&row.origin] == most);
        let (number, _) = candidates.min_by_key(|(number, row)| (row.stage, **number))?;
        let number = *number;
        let row = self.rows.remove(&number)?;
        // Wakes the thread that reads from it.
        row.link.shutdown();
        Some(row.origin)
    }
}

impl HandshakeSlot {
    /// Moves the connection to a later stage. Returns false if it was closed for another, or if too many are being served.
    pub(crate) fn advance(&self, stage: Stage) -> bool {
        let caps = self.handshakes.caps;
        let mut rows = self.handshakes.rows.lock();
        if stage == Stage::Admitted && rows.count(|row| row.stage == Stage::Admitted) >= caps.admitted {
            return false;
        }
        while stage == Stage::Returning
            && rows.count(|row| row.stage == Stage::Returning) >= caps.returning
            && rows.close(|row| row.stage == Stage::Returning).is_some()
        {}
        match rows.rows.get_mut(&self.number) {
            Some(row) => {
                row.stage = stage;
                true
            }
            None => false,
        }
    }

    /// Whether the connection was closed for another.
    pub(crate) fn was_closed(&self) -> bool {
        !self.handshakes.rows.lock().rows.contains_key(&self.number)
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.handshakes.rows.lock().rows.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { open: 4, of_address: 3, returning: 1, admitted: 1 };

    struct Crowd(Arc<Handshakes>, Vec<Link>);

    impl Crowd {
        fn new() -> Crowd {
            Crowd(Arc::new(Handshakes::new(CAPS)), Vec::new())
        }

        fn enter(&mut self, address: u8) -> HandshakeSlot {
            let (near, far) = Link::pair().unwrap();
            self.1.push(far);
            self.0.enter(&near, Origin::V4([10, 0, 0, address]))
        }
    }

    #[test]
    fn an_address_with_too_many_connections_loses_its_own_oldest() {
        let mut crowd = Crowd::new();
        let other = crowd.enter(1);
        let slots: Vec<HandshakeSlot> = (0..4).map(|_| crowd.enter(2)).collect();
        assert!(slots[0].was_closed() && crowd.1[1].has_ended());
        assert!(slots[1..].iter().all(|slot| !slot.was_closed()) && !other.was_closed());
    }

    #[test]
    fn a_connection_that_has_sent_its_hello_outlives_silent_ones() {
        let mut crowd = Crowd::new();
        let greeted = crowd.enter(2);
        assert!(greeted.advance(Stage::Greeted));
        let silent: Vec<HandshakeSlot> = (0..8).map(|_| crowd.enter(2)).collect();
        assert!(!greeted.was_closed());
        assert!(!silent[7].was_closed(), "the newest always has a slot");
        assert!(silent[..5].iter().all(HandshakeSlot::was_closed));
    }

    #[test]
    fn strangers_do_not_take_the_places_of_those_who_return() {
        let mut crowd = Crowd::new();
        let returning = crowd.enter(1);
        assert!(returning.advance(Stage::Returning));
        let _strangers: Vec<HandshakeSlot> = (0..20).map(|at| crowd.enter(at)).collect();
        assert!(!returning.was_closed());
        let another = crowd.enter(1);
        assert!(another.advance(Stage::Returning), "there is always a slot for the newest");
        assert!(returning.was_closed());
    }

    #[test]
    fn who_has_proved_itself_is_never_closed_and_their_number_is_limited() {
        let mut crowd = Crowd::new();
        let admitted = crowd.enter(1);
        assert!(admitted.advance(Stage::Admitted));
        let slots: Vec<HandshakeSlot> = (0..20).map(|_| crowd.enter(1)).collect();
        assert!(!admitted.was_closed());
        assert!(!slots[19].advance(Stage::Admitted));
        drop(admitted);
        assert!(slots[19].advance(Stage::Admitted) && crowd.0.is_busy());
    }
}
