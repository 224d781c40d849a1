//! Limit of requests to the routes of the login, by network address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

const WINDOW: Duration = Duration::from_secs(60);

/// Counts requests in windows of a minute.
#[derive(Debug)]
pub struct Rate {
    per_address: u32,
    total: u32,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    count: u32,
    /// At most as many as the total allows.
    addresses: HashMap<IpAddr, u32>,
}

impl Rate {
    pub fn new(per_address: u32, total: u32) -> Rate {
        let window = Window { since: Instant::now(), count: 0, addresses: HashMap::new() };
        Rate { per_address, total, window: Mutex::new(window) }
    }

    /// Counts a request. An error has the seconds until the next one is allowed.
    pub fn take(&self, address: IpAddr) -> Result<(), u64> {
        self.take_at(address, Instant::now())
    }

    fn take_at(&self, address: IpAddr, now: Instant) -> Result<(), u64> {
        let mut window = self.window.lock();
        if now.duration_since(window.since) >= WINDOW {
            *window = Window { since: now, count: 0, addresses: HashMap::new() };
        }
        let wait = (WINDOW - now.duration_since(window.since)).as_secs() + 1;
        if window.count >= self.total {
            return Err(wait);
        }
        // Behind a proxy on this machine everyone has its address, and only the total counts.
        if !address.is_loopback() {
            let count = window.addresses.entry(network(address)).or_default();
            if *count >= self.per_address {
                return Err(wait);
            }
            *count += 1;
        }
        window.count += 1;
        Ok(())
    }
}

/// The network of one client: a provider gives each customer at least 64 bits of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => address.into(),
            None => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        },
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_use_up_the_requests_of_others() {
        let rate = Rate::new(2, 5);
        let now = Instant::now();
        let take = |address: &str, later: u64| {
            rate.take_at(address.parse().unwrap(), now + Duration::from_secs(later))
        };
        assert!(take("192.0.2.1", 0).is_ok() && take("192.0.2.1", 0).is_ok());
        assert!((1..=61).contains(&take("192.0.2.1", 0).unwrap_err()));
        assert!(take("::ffff:192.0.2.1", 0).is_err());
        assert!(take("2001:db8::1", 0).is_ok() && take("2001:db8::2", 0).is_ok());
        assert!(take("2001:db8::3", 0).is_err());
        // All of them together have a limit too.
        assert!(take("127.0.0.1", 0).is_ok());
        assert!(take("127.0.0.1", 0).is_err() && take("192.0.2.2", 30).is_err());
        assert!(take("192.0.2.1", 61).is_ok());
    }
}
