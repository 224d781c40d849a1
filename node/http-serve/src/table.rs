//! The connection table of a server, and the choice of the connection to close when it is full.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Shortest interval between two log lines about closed connections.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has sent no request yet, or only part of one.
    Receiving,
    /// Its request is complete; the answer is being made or sent.
    Serving,
}

#[derive(Debug)]
pub(crate) struct Table {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    rows: HashMap<u64, Row>,
    /// Number of the next connection. Numbers increase, so the lowest belongs to the oldest connection.
    next: u64,
    closed: u64,
    logged: Option<Instant>,
}

#[derive(Debug)]
struct Row {
    network: Network,
    phase: Phase,
    evict: oneshot::Sender<()>,
}

/// Origin of a connection: an IPv4 address, or an IPv6 /64 network, because one host can use all addresses of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Network {
    V4([u8; 4]),
    V6([u16; 4]),
}

/// A connection's row; dropping it removes the row.
#[derive(Debug)]
pub(crate) struct Entry {
    number: u64,
    table: Arc<Table>,
}

impl Table {
    pub(crate) fn new(limit: usize) -> Table {
        let inner = Inner { rows: HashMap::new(), next: 0, closed: 0, logged: None };
        Table { limit, inner: Mutex::new(inner) }
    }

    /// Adds a connection. If the table is full, it closes another one first: a new connection is always accepted.
    pub(crate) fn insert(self: &Arc<Table>, address: IpAddr) -> (Entry, oneshot::Receiver<()>) {
        let (evict, evicted) = oneshot::channel();
        let mut inner = self.inner.lock();
        while inner.rows.len() >= self.limit && inner.evict() {}
        let number = inner.next;
        inner.next += 1;
        inner.rows.insert(number, Row { network: Network::of(address), phase: Phase::Receiving, evict });
        drop(inner);
        (Entry { number, table: Arc::clone(self) }, evicted)
    }

    /// Closes one connection, for a process that has run out of file descriptors.
    pub(crate) fn evict_one(&self) {
        self.inner.lock().evict();
    }
}

impl Inner {
    fn evict(&mut self) -> bool {
        let Some(number) = self.victim(Some(Phase::Receiving)).or_else(|| self.victim(None)) else {
            return false;
        };
        if let Some(row) = self.rows.remove(&number) {
            // If the receiver is gone, the connection has already ended.
            let _ = row.evict.send(());
        }
        self.closed += 1;
        if self.logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            tracing::warn!("too many open connections: {} closed to accept new ones", self.closed);
            self.closed = 0;
            self.logged = Some(Instant::now());
        }
        true
    }

    /// Returns the oldest connection of the origin with the most connections in this phase (`None`: in any phase).
    fn victim(&self, phase: Option<Phase>) -> Option<u64> {
        let eligible = || self.rows.iter().filter(|(_, row)| phase.is_none_or(|phase| row.phase == phase));
        let mut origins: HashMap<Network, (usize, u64)> = HashMap::new();
        for (number, row) in eligible() {
            let (count, oldest) = origins.entry(row.network).or_insert((0, u64::MAX));
            *count += 1;
            *oldest = (*oldest).min(*number);
        }
        let most = origins.values().max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)));
        most.map(|(_, oldest)| *oldest)
    }
}

impl Entry {
    pub(crate) fn set(&self, phase: Phase) {
        if let Some(row) = self.table.inner.lock().rows.get_mut(&self.number) {
            row.phase = phase;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.table.inner.lock().rows.remove(&self.number);
    }
}

impl Network {
    fn of(address: IpAddr) -> Network {
        match address.to_canonical() {
            IpAddr::V4(address) => Network::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Network::V6([a, b, c, d])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_full_table_closes_the_oldest_unfinished_request_of_the_busiest_origin() {
        let table = Arc::new(Table::new(4));
        let (_quiet, mut quiet) = table.insert(address("10.0.0.1"));
        let (serving, mut served) = table.insert(address("10.0.0.2"));
        serving.set(Phase::Serving);
        let (_first, mut first) = table.insert(address("10.0.0.2"));
        let (_second, mut second) = table.insert(address("10.0.0.2"));
        let (_new, mut new) = table.insert(address("10.0.0.3"));
        assert!(first.try_recv().is_ok());
        for other in [&mut quiet, &mut served, &mut second, &mut new] {
            assert!(other.try_recv().is_err());
        }
    }

    #[test]
    fn requests_being_served_are_closed_only_when_nothing_else_is_left() {
        let table = Arc::new(Table::new(2));
        let (one, mut first) = table.insert(address("::1"));
        let (two, _second) = table.insert(address("::1"));
        one.set(Phase::Serving);
        two.set(Phase::Serving);
        let (_three, _third) = table.insert(address("::1"));
        assert!(first.try_recv().is_ok());
    }

    #[test]
    fn a_closed_connection_leaves_its_place() {
        let table = Arc::new(Table::new(1));
        drop(table.insert(address("127.0.0.1")));
        let (_entry, mut evicted) = table.insert(address("127.0.0.1"));
        assert!(table.inner.lock().rows.len() == 1 && evicted.try_recv().is_err());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_origin() {
        assert_eq!(Network::of(address("2001:db8::1")), Network::of(address("2001:db8::ffff:2")));
        assert_ne!(Network::of(address("2001:db8::1")), Network::of(address("2001:db8:0:1::1")));
        assert_eq!(Network::of(address("::ffff:10.0.0.1")), Network::of(address("10.0.0.1")));
    }
}
