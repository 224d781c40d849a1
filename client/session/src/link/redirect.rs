//! Redirects: a worker whose sessions have moved names the worker that has them now.

use transport::{Address, Endpoint, TransportError};
use wire::{RejectCode, WireError};

use crate::config::Candidate;

/// Limit on the redirects that a client follows in a row.
const MOST_REDIRECTS: usize = 8;

/// The redirects that a client has followed in a row.
#[derive(Debug, Default)]
pub struct Redirects {
    /// The workers that redirected.
    passed: Vec<Endpoint>,
}

impl Redirects {
    pub fn is_empty(&self) -> bool {
        self.passed.is_empty()
    }

    /// The worker to which `from` redirects with a rejection, or why that is not followed. `None` if it is not a redirect.
    pub fn follow(
        &mut self,
        from: &Candidate,
        error: &TransportError,
        configured: &[Candidate],
    ) -> Option<Result<Candidate, String>> {
        let TransportError::Wire(WireError::Rejected { code: RejectCode::Moved, text }) = error else {
            return None;
        };
        let to = match redirected(from, text, configured) {
            Ok(to) => to,
            Err(text) => return Some(Err(text)),
        };
        self.passed.push(from.endpoint.clone());
        // A worker may be passed twice: one from which a session was to move, and did not.
        if self.passed.len() > MOST_REDIRECTS {
            let chain = self.chain(&to.endpoint);
            return Some(Err(format!(
                "more than {MOST_REDIRECTS} redirects in a row are not followed ({chain}); if the workers redirect to each other, \
                 restart the one that has no sessions"
            )));
        }
        Some(Ok(to))
    }

    /// Formats the redirects up to this worker for an error message; empty if there were none.
    pub fn text(&self, last: &Endpoint) -> String {
        match self.is_empty() {
            true => String::new(),
            false => format!(" (redirected: {})", self.chain(last)),
        }
    }

    fn chain(&self, last: &Endpoint) -> String {
        let all: Vec<String> = self.passed.iter().chain([last]).map(Endpoint::to_string).collect();
        all.join(" -> ")
    }
}

/// The worker that `text` names, or why the redirect is refused. The text is an endpoint, or a URL with the pin of the new worker's
/// certificate; without a pin, the certificates that were trusted so far are.
pub fn redirected(from: &Candidate, text: &str, configured: &[Candidate]) -> Result<Candidate, String> {
    let to = match Address::is_url(text) {
        true => text.parse::<Address>().map(|to| (to.trust(), to.endpoint)),
        false => text.parse::<Endpoint>().map(|to| (None, to)),
    };
    let old = &from.endpoint;
    let (pin, to) = match to {
        Ok(found) => found,
        Err(error) => return Err(format!("{old} redirects to an invalid address: {error}")),
    };
    // A session that returns to a worker that the user has named is as secure as it was there.
    if let Some(known) = configured.iter().find(|it| it.endpoint == to) {
        return Ok(Candidate { trust: pin.or_else(|| known.trust.clone()), ..known.clone() });
    }
    let refused = match (old, &to) {
        (Endpoint::Tls { .. }, Endpoint::Tcp { .. } | Endpoint::Unix { .. }) => {
            Some("which is not encrypted, unlike this connection")
        }
        // A socket path is valid on one machine only.
        (Endpoint::Tcp { host, .. }, Endpoint::Unix { .. }) if !is_here(host) => Some("on another machine"),
        _ => None,
    };
    match refused {
        Some(why) => Err(format!("{old} redirects to {to}, {why}")),
        None => Ok(Candidate {
            endpoint: to,
            token: from.token.clone(),
            trust: pin.or_else(|| from.trust.clone()),
        }),
    }
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::tls;

    #[test]
    fn a_redirect_is_followed_unless_it_is_less_secure_or_invalid() {
        let old = tls::Trust::Fingerprint([1; 32]);
        let place =
            |from: &str| Candidate { endpoint: from.parse().unwrap(), token: None, trust: Some(old.clone()) };
        let go = |from: &str, to: &str| {
            let error = TransportError::Wire(WireError::from(RejectCode::Moved.reject(to)));
            Redirects::default().follow(&place(from), &error, &[place("home:1")]).unwrap()
        };
        assert_eq!(go("one:1", "two:2").unwrap().endpoint, "two:2".parse().unwrap());
        let to = go("one:1", "tls://two:2").unwrap();
        assert_eq!((to.endpoint, to.trust), ("tls://two:2".parse().unwrap(), Some(old.clone())));
        let pinned = format!("remora+tls://two:2?pin=sha256:{}", "5a".repeat(32));
        let to = go("tls://one:1", &pinned).unwrap();
        let pin = Some(tls::Trust::Fingerprint([0x5a; 32]));
        assert_eq!((to.endpoint, to.trust), ("tls://two:2".parse().unwrap(), pin));
        assert!(go("tls://one:1", "remora://two:2").is_err() && go("one:1", "remora+x://two:2").is_err());
        assert!(go("tls://one:1", "tls://two:2").is_ok());
        assert!(go("tls://one:1", "two:2").is_err() && go("tls://one:1", "unix:/x").is_err());
        assert!(go("127.0.0.1:1", "unix:/x").is_ok() && go("one:1", "unix:/x").is_err());
        assert!(go("one:1", "http://two").is_err() && go("one:1", "").is_err());
        let other = TransportError::Wire(WireError::from(RejectCode::Full.reject("two:2")));
        assert!(Redirects::default().follow(&place("one:1"), &other, &[]).is_none());
        assert!(go("tls://one:1", "home:1").is_ok(), "the user has named that worker");
    }

    #[test]
    fn two_workers_that_redirect_to_each_other_end_the_attempt_with_an_error_that_names_them() {
        let place = |from: &str| Candidate { endpoint: from.parse().unwrap(), token: None, trust: None };
        let moved = |to: &str| TransportError::Wire(WireError::from(RejectCode::Moved.reject(to)));
        let mut redirects = Redirects::default();
        let mut follow = |from: &str, to: &str| redirects.follow(&place(from), &moved(to), &[]).unwrap();
        for _ in 0..MOST_REDIRECTS / 2 {
            assert_eq!(follow("one:1", "two:2").unwrap().endpoint, "two:2".parse().unwrap());
            assert_eq!(follow("two:2", "one:1").unwrap().endpoint, "one:1".parse().unwrap());
        }
        let error = follow("one:1", "two:2").unwrap_err();
        assert!(
            error.contains("one:1 -> two:2 -> one:1 -> two:2") && error.contains("more than 8"),
            "{error}"
        );
    }
}
