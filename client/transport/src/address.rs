//! Worker URL: endpoint, token and certificate pin in one line, as handed out by agents.

use std::fmt;
use std::str::FromStr;

use crate::tls::Trust;
use crate::{Endpoint, TransportError};

/// A worker URL: `remora://TOKEN@host:port`, `remora+tls://TOKEN@host:port?pin=sha256:DIGITS` or `remora+unix://TOKEN@/path`.
/// Token and pin are optional.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Where the worker listens.
    pub endpoint: Endpoint,
    /// Letters, digits, `-`, `.`, `_` and `~`.
    pub token: Option<String>,
    /// SHA-256 of the certificate that the worker must present. Only for TLS endpoints.
    pub pin: Option<[u8; 32]>,
}

impl Address {
    /// Whether a text is such a URL, as opposed to an endpoint such as `host:port`.
    pub fn is_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| scheme == "remora" || scheme.starts_with("remora+"))
    }

    /// Returns the certificate to trust, if the URL pins one.
    pub fn trust(&self) -> Option<Trust> {
        self.pin.map(Trust::Fingerprint)
    }
}

impl fmt::Debug for Address {
    /// Omits the token, so that it cannot get into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.endpoint)
    }
}

impl FromStr for Address {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Address, TransportError> {
        // The text may hold a token, which an error must not show.
        let wrong = |problem| TransportError::Endpoint { text: "the address".to_owned(), problem };
        let (scheme, rest) = text.split_once("://").ok_or(wrong("it has no scheme such as remora://"))?;
        let (token, place) = match rest.split_once('@') {
            Some((token, place)) => (Some(token), place),
            None => (None, rest),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        if token.is_some_and(|token| token.is_empty() || !token.chars().all(plain)) {
            return Err(wrong(
                "the token is empty, or has characters other than letters, digits, -, ., _ and ~",
            ));
        }
        let mut pin = None;
        let endpoint = match scheme {
            "remora" | "remora+tcp" if place.contains("?pin=") => {
                return Err(wrong("it has a pin but no TLS; the scheme must be remora+tls"));
            }
            "remora" | "remora+tcp" => format!("tcp://{place}"),
            "remora+tls" => {
                let (place, query) = match place.split_once('?') {
                    Some((place, query)) => (place, Some(query)),
                    None => (place, None),
                };
                if let Some(query) = query {
                    let value = query.strip_prefix("pin=");
                    let value = value.ok_or(wrong("?pin=sha256:DIGITS is the only parameter"))?;
                    pin = match Trust::parse(value) {
                        Some(Trust::Fingerprint(hash)) => Some(hash),
                        _ => return Err(wrong("the pin is not sha256: and 64 hexadecimal digits")),
                    };
                }
                format!("tls://{place}")
            }
            "remora+unix" => format!("unix:{place}"),
            _ => return Err(wrong("the scheme must be remora, remora+tls or remora+unix")),
        };
        Ok(Address { endpoint: endpoint.parse()?, token: token.map(str::to_owned), pin })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|token| format!("{token}@")).unwrap_or_default();
        match &self.endpoint {
            Endpoint::Tcp { .. } => write!(f, "remora://{token}{}", self.endpoint),
            Endpoint::Tls { .. } => {
                let place = self.endpoint.to_string();
                write!(f, "remora+tls://{token}{}", place.trim_start_matches("tls://"))?;
                match self.trust() {
                    Some(trust) => write!(f, "?pin={trust}"),
                    None => Ok(()),
                }
            }
            Endpoint::Unix { path } => write!(f, "remora+unix://{token}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_is_understood() {
        for (text, endpoint, token) in [
            ("remora://0af3@10.0.0.1:4000", "10.0.0.1:4000", Some("0af3")),
            ("remora://gpu7:99", "gpu7:99", None),
            ("remora+tls://a-b@[fe80::1]:7", "tls://[fe80::1]:7", Some("a-b")),
            ("remora+unix://t@/run/remora", "unix:/run/remora", Some("t")),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.endpoint.to_string().as_str(), address.token.as_deref()), (endpoint, token));
            assert_eq!((address.to_string().as_str(), address.pin), (text, None));
            assert!(Address::is_url(text) && !Address::is_url(endpoint));
        }
    }

    #[test]
    fn a_pin_survives_and_is_what_the_client_trusts() {
        let text = format!("remora+tls://0af3@gpu7:4000?pin=sha256:{}", "5a".repeat(32));
        let address: Address = text.parse().unwrap();
        assert_eq!(address.endpoint.to_string(), "tls://gpu7:4000");
        assert_eq!(address.trust(), Some(Trust::Fingerprint([0x5a; 32])));
        assert_eq!(address.to_string(), text);
    }

    #[test]
    fn a_pin_that_would_not_be_checked_is_refused() {
        let pin = format!("sha256:{}", "5a".repeat(32));
        for text in [
            format!("remora://0af3@gpu7:4000?pin={pin}"),
            format!("remora+tls://0af3@gpu7:4000?pins={pin}"),
            format!("remora+tls://0af3@gpu7:4000?pin={pin}&pin={pin}"),
            "remora+tls://0af3@gpu7:4000?pin=sha256:5a".to_owned(),
            "remora+tls://0af3@gpu7:4000?pin=/etc/ssl/ca.pem".to_owned(),
            "remora+tls://0af3@gpu7:4000?".to_owned(),
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_refused_without_showing_secrets() {
        for text in
            ["gpu7:99", "http://x", "remora://@gpu7", "remora://se cret@gpu7", "remora://secret@gpu7:x"]
        {
            let error = text.parse::<Address>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret@"), "{error:?}");
        }
        let address: Address = "remora://secret@gpu7:1".parse().unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }
}
