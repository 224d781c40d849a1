//! Logins that were started and have not come back from their provider: a bounded table in memory. A restart forgets them, and the
//! person starts again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use openidconnect::{Nonce, PkceCodeVerifier};
use parking_lot::Mutex;

/// How long a person may take at the provider.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// Most logins at the same time.
const CAPACITY: usize = 8192;

/// A started login.
#[derive(Debug)]
pub struct Started {
    /// Key of the provider.
    pub provider: String,
    /// Callback address that the provider was given.
    pub redirect: String,
    pub nonce: Nonce,
    pub verifier: PkceCodeVerifier,
    /// Path to continue at.
    pub return_to: String,
    /// User to link the account at the provider to; `None` for a login.
    pub link: Option<String>,
}

/// Reason why a login cannot be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingError {
    /// Nobody started it, it was finished before, or it is too old.
    Unknown,
    /// Another browser started it.
    OtherBrowser,
}

/// Logins that have not come back.
#[derive(Debug, Default)]
pub struct PendingLogins {
    /// By state.
    table: Mutex<HashMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    started: Started,
    /// Hash of the cookie of the browser.
    browser: blake3::Hash,
    at: Instant,
}

impl PendingLogins {
    /// Adds a login; false if there are too many.
    pub fn add(&self, state: &str, browser: &str, started: Started) -> bool {
        self.add_at(state, browser, started, Instant::now())
    }

    fn add_at(&self, state: &str, browser: &str, started: Started, at: Instant) -> bool {
        let mut table = self.table.lock();
        if table.len() >= CAPACITY {
            table.retain(|_, entry| at.duration_since(entry.at) < LIFETIME);
        }
        if table.len() >= CAPACITY {
            return false;
        }
        table.insert(state.to_owned(), Entry { started, browser: blake3::hash(browser.as_bytes()), at });
        true
    }

    /// Takes a login out of the table. Only the browser that started it can, and only once.
    pub fn take(&self, state: &str, browser: &str) -> Result<Started, PendingError> {
        self.take_at(state, browser, Instant::now())
    }

    fn take_at(&self, state: &str, browser: &str, now: Instant) -> Result<Started, PendingError> {
        let mut table = self.table.lock();
        let entry = table.get(state).ok_or(PendingError::Unknown)?;
        // `blake3::Hash` compares in constant time.
        if entry.browser != blake3::hash(browser.as_bytes()) {
            return Err(PendingError::OtherBrowser);
        }
        let entry = table.remove(state).ok_or(PendingError::Unknown)?;
        if now.duration_since(entry.at) >= LIFETIME {
            return Err(PendingError::Unknown);
        }
        Ok(entry.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Started {
        Started {
            provider: "company".to_owned(),
            redirect: "http://127.0.0.1/login/callback/company".to_owned(),
            nonce: Nonce::new("nonce".to_owned()),
            verifier: PkceCodeVerifier::new("verifier".to_owned()),
            return_to: "/".to_owned(),
            link: None,
        }
    }

    #[test]
    fn a_login_is_finished_once_and_by_its_browser_alone() {
        let logins = PendingLogins::default();
        assert!(logins.add("state", "browser", started()));
        assert_eq!(logins.take("other", "browser").unwrap_err(), PendingError::Unknown);
        assert_eq!(logins.take("state", "another").unwrap_err(), PendingError::OtherBrowser);
        assert_eq!(logins.take("state", "").unwrap_err(), PendingError::OtherBrowser);
        // The attempt of another browser does not end it.
        assert!(logins.take("state", "browser").is_ok());
        assert_eq!(logins.take("state", "browser").unwrap_err(), PendingError::Unknown);
    }

    #[test]
    fn an_old_login_cannot_be_finished() {
        let logins = PendingLogins::default();
        let at = Instant::now();
        assert!(logins.add_at("state", "browser", started(), at));
        assert_eq!(logins.take_at("state", "browser", at + LIFETIME).unwrap_err(), PendingError::Unknown);
    }

    #[test]
    fn the_table_is_bounded_and_old_logins_make_room() {
        let logins = PendingLogins::default();
        let at = Instant::now();
        for number in 0..CAPACITY {
            assert!(logins.add_at(&number.to_string(), "browser", started(), at));
        }
        assert!(!logins.add_at("more", "browser", started(), at + LIFETIME / 2));
        assert!(logins.add_at("more", "browser", started(), at + LIFETIME));
        assert_eq!(logins.table.lock().len(), 1);
    }
}
