//! Where a worker is and what it wants to be told, in one line: what an agent hands out.

use std::fmt;
use std::str::FromStr;

use crate::{Endpoint, TransportError};

/// `remora://TOKEN@host:port`, `remora+tls://TOKEN@host:port` or `remora+unix://TOKEN@/path`; the token may be missing.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    pub endpoint: Endpoint,
    /// Letters, digits, `-`, `.`, `_` and `~`.
    pub token: Option<String>,
}

impl fmt::Debug for Address {
    /// Logs have no business with tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.endpoint)
    }
}

impl FromStr for Address {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Address, TransportError> {
        // The text may hold a secret, which an error that is shown must not.
        let wrong = |problem| TransportError::Endpoint { text: "the address".to_owned(), problem };
        let (scheme, rest) = text.split_once("://").ok_or(wrong("it has no scheme; remora:// is one"))?;
        let (token, place) = match rest.split_once('@') {
            Some((token, place)) => (Some(token), place),
            None => (None, rest),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        if token.is_some_and(|token| token.is_empty() || !token.chars().all(plain)) {
            return Err(wrong(
                "the token is empty, or has other characters than letters, digits, -, ., _ and ~",
            ));
        }
        let endpoint = match scheme {
            "remora" | "remora+tcp" => format!("tcp://{place}"),
            "remora+tls" => format!("tls://{place}"),
            "remora+unix" => format!("unix:{place}"),
            _ => return Err(wrong("the scheme must be remora, remora+tls or remora+unix")),
        };
        Ok(Address { endpoint: endpoint.parse()?, token: token.map(str::to_owned) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|token| format!("{token}@")).unwrap_or_default();
        match &self.endpoint {
            Endpoint::Tcp { .. } => write!(f, "remora://{token}{}", self.endpoint),
            Endpoint::Tls { .. } => {
                let place = self.endpoint.to_string();
                write!(f, "remora+tls://{token}{}", place.trim_start_matches("tls://"))
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
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_and_no_secret_is_shown() {
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
