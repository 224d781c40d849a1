//! Requests to the HTTP interface of an agent: another one, or, for the command line, the one of this machine.

use std::io::Read;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;
use transport::tls::{self, Trust};
use transport::{Endpoint, Link, TransportError};

/// Timeout to connect, and for each step of the TLS handshake.
const CONNECT: Duration = Duration::from_secs(10);
/// Largest accepted response, in bytes.
const RESPONSE_LIMIT: u64 = 4 << 20;

/// Address of an agent: `http://HOST:PORT`, `https://HOST:PORT?pin=sha256:DIGITS` with the fingerprint of its certificate, or
/// `unix:/PATH` of its local socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentUrl {
    endpoint: Endpoint,
    trust: Option<Trust>,
}

/// Error of a request to an agent.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum RemoteError {
    #[error("\"{text}\" is not the address of an agent: {problem}")]
    Address { text: String, problem: String },
    #[error("the agent at {url} cannot be reached: {}", .source.line())]
    Connect { url: String, source: TransportError },
    #[error("the connection to the agent at {url} failed: {source}")]
    Io { url: String, source: std::io::Error },
    #[error("the agent at {url}: {error}")]
    Refused { url: String, status: u16, error: String },
    #[error("{url} sent a response that is not an agent's")]
    InvalidReply { url: String },
}

/// An agent and the token to use there.
#[derive(Clone)]
pub struct RemoteAgent {
    /// Where it listens.
    pub url: AgentUrl,
    /// One of its tokens.
    pub token: String,
}

impl std::fmt::Debug for RemoteAgent {
    /// Omits the token, so that it cannot get into a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteAgent({})", self.url)
    }
}

impl AgentUrl {
    /// The whole address, with the pin.
    pub fn full(&self) -> String {
        let pin = self.trust.as_ref().map(|trust| format!("?pin={trust}")).unwrap_or_default();
        format!("{self}{pin}")
    }

    /// Whether requests, which contain tokens, could be read on the way.
    pub(crate) fn is_exposed(&self) -> bool {
        match &self.endpoint {
            Endpoint::Tcp { host, .. } => {
                let address = host.parse::<std::net::IpAddr>();
                host != "localhost" && !address.is_ok_and(|address| address.to_canonical().is_loopback())
            }
            Endpoint::Tls { .. } | Endpoint::Unix { .. } => false,
        }
    }
}

impl FromStr for AgentUrl {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<AgentUrl, RemoteError> {
        let wrong = |problem: String| RemoteError::Address { text: text.to_owned(), problem };
        let (place, query) = match text.split_once('?') {
            Some((place, query)) => (place, Some(query)),
            None => (text, None),
        };
        let place = place.trim_end_matches('/');
        let (endpoint, is_tls) = match place.split_once("://") {
            Some(("http", place)) => (format!("tcp://{place}"), false),
            Some(("https", place)) => (format!("tls://{place}"), true),
            None if place.starts_with("unix:") => (place.to_owned(), false),
            _ => return Err(wrong("it must start with http://, https:// or unix:".to_owned())),
        };
        let port = place.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !place.starts_with("unix:") && !matches!(port, Some(Ok(_))) {
            return Err(wrong("it must end with a port, such as :8001".to_owned()));
        }
        let endpoint: Endpoint = endpoint.parse().map_err(|error: TransportError| wrong(error.line()))?;
        if let Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } = &endpoint
            && !host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]%".contains(c))
        {
            return Err(wrong("after the port, only ?pin=sha256:DIGITS is allowed".to_owned()));
        }
        let pin = query.map(|query| match query.strip_prefix("pin=").and_then(Trust::parse) {
            Some(trust @ Trust::Fingerprint(_)) if is_tls => Ok(trust),
            _ => Err(wrong("?pin=sha256:DIGITS, after https://, is the only parameter".to_owned())),
        });
        let trust = pin.transpose()?;
        if is_tls && trust.is_none() {
            let text =
                "add the fingerprint of its certificate, which it logs when it starts: ?pin=sha256:DIGITS";
            return Err(wrong(text.to_owned()));
        }
        Ok(AgentUrl { endpoint, trust })
    }
}

impl std::fmt::Display for AgentUrl {
    /// Without the pin.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp { .. } => write!(f, "http://{}", self.endpoint),
            Endpoint::Tls { .. } => {
                write!(f, "https://{}", self.endpoint.to_string().trim_start_matches("tls://"))
            }
            Endpoint::Unix { .. } => write!(f, "{}", self.endpoint),
        }
    }
}

impl RemoteAgent {
    /// Sends a request and returns the JSON of the response; null if it has none. The response must arrive within `patience`.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        patience: Option<Duration>,
    ) -> Result<Value, RemoteError> {
        let url = || self.url.to_string();
        let connect = |source| RemoteError::Connect { url: url(), source };
        let mut link = self.url.endpoint.connect(CONNECT).map_err(connect)?;
        if let (Endpoint::Tls { host, .. }, Some(trust)) = (&self.url.endpoint, &self.url.trust) {
            let config = tls::client_config(trust).map_err(connect)?;
            link = tls::connect(link, host, config, CONNECT).map_err(connect)?;
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        // Version 1.0: the response ends with the connection and is not chunked.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: agent\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        let answer = exchange(&link, &format!("{head}{body}"), patience);
        let answer = answer.map_err(|source| RemoteError::Io { url: url(), source })?;
        let invalid = || RemoteError::InvalidReply { url: url() };
        let (status, body) = parse(&answer).ok_or_else(invalid)?;
        let value = match body {
            [] => Value::Null,
            text => serde_json::from_slice(text).map_err(|_| invalid())?,
        };
        if !(200..300).contains(&status) {
            let error = value["error"].as_str().unwrap_or("it gave no reason").to_owned();
            return Err(RemoteError::Refused { url: url(), status, error });
        }
        Ok(value)
    }
}

fn exchange(link: &Link, request: &str, patience: Option<Duration>) -> std::io::Result<Vec<u8>> {
    link.set_read_timeout(patience)?;
    link.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    link.take(RESPONSE_LIMIT).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Splits a response into status and body.
fn parse(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, &answer[end + 4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_a_scheme_and_https_a_pin() {
        let pin = format!("?pin=sha256:{}", "5a".repeat(32));
        for (text, shown) in [
            ("http://127.0.0.1:8001".to_owned(), "http://127.0.0.1:8001"),
            ("http://gpu7:8001/".to_owned(), "http://gpu7:8001"),
            (format!("https://gpu7:8001{pin}"), "https://gpu7:8001"),
            (format!("https://[fe80::1]:8001/{pin}"), "https://[fe80::1]:8001"),
            ("unix:/run/agent.sock".to_owned(), "unix:/run/agent.sock"),
        ] {
            let url = text.parse::<AgentUrl>().unwrap();
            assert_eq!(
                (url.to_string().as_str(), url.full().parse::<AgentUrl>().unwrap()),
                (shown, url.clone())
            );
        }
        for text in [
            "gpu7:8001",
            "ftp://gpu7:8001",
            "http://gpu7",
            "https://gpu7:8001",
            "https://gpu7:8001?pin=sha256:5a",
            "https://gpu7:8001?pin=/etc/passwd",
            "http://gpu7:8001/x",
            "http://a\r\nb:1",
            &format!("http://gpu7:8001{pin}"),
        ] {
            assert!(matches!(text.parse::<AgentUrl>(), Err(RemoteError::Address { .. })), "{text}");
        }
        let exposed = |text: &str| text.parse::<AgentUrl>().unwrap().is_exposed();
        assert!(exposed("http://gpu7:1") && !exposed("http://127.0.0.1:1") && !exposed("unix:/x"));
    }

    #[test]
    fn a_response_is_its_status_and_its_body() {
        assert_eq!(parse(b"HTTP/1.0 204 No Content\r\n\r\n"), Some((204, b"".as_slice())));
        assert_eq!(parse(b"HTTP/1.1 409 Conflict\r\na: b\r\n\r\n{}"), Some((409, b"{}".as_slice())));
        for wrong in [b"".as_slice(), b"HTTP/1.1 200", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 x\r\n\r\n"] {
            assert_eq!(parse(wrong), None);
        }
    }
}
