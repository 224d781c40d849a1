//! HTTP client for this machine's Remora agent, which owns the workers and can save and resume their sessions.
//!
//! This library is loaded into foreign processes, so it implements neither sessions nor the worker protocol. It sends requests to the agent
//! instead, in plain HTTP. Only the agent's Unix socket and the loopback interface are allowed, because the token is sent unencrypted.
//! Of a response only the status code and a short text are used.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timeout of a query.
const GLANCE: Duration = Duration::from_secs(2);
/// Timeout of saving or resuming. Sessions may be large.
const WORK: Duration = Duration::from_secs(600);
const TOKEN_BYTES: u64 = 4096;
/// Most bytes read of a response.
const ANSWER_BYTES: u64 = 64 << 10;
/// Longest reported reason of a refusal.
const REASON_CHARS: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("sessions cannot be saved or resumed: REMORA_AGENT is not set to an agent's address")]
    Nobody,
    #[error(
        "REMORA_AGENT is `{0}`; it must be unix:FOLDER/agent.sock with the agent's data folder, or an address of this machine's loopback \
         interface such as 127.0.0.1:8001 if the agent serves plain HTTP there"
    )]
    Address(String),
    #[error("the agent's token cannot be read from {path} (REMORA_AGENT_TOKEN_FILE): {source}")]
    Token { path: PathBuf, source: io::Error },
    #[error("the agent at {address} does not answer: {source}")]
    Silent { address: Place, source: io::Error },
    #[error("the response from {0} is not that of an agent with plain HTTP")]
    InvalidReply(Place),
    #[error("the agent refused the request ({status}): {reason}")]
    Refused { status: u16, reason: String },
}

/// Address of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Loopback(SocketAddr),
    Socket(PathBuf),
}

impl Place {
    /// Parses `unix:/path`, `127.0.0.1:8001` or `http://127.0.0.1:8001`.
    fn parse(text: &str) -> Option<Place> {
        if let Some(path) = text.strip_prefix("unix:") {
            return path.starts_with('/').then(|| Place::Socket(path.into()));
        }
        let plain = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let plain =
            plain.strip_prefix("localhost").map_or(plain.to_owned(), |port| format!("127.0.0.1{port}"));
        let address: SocketAddr = plain.parse().ok()?;
        address.ip().to_canonical().is_loopback().then_some(Place::Loopback(address))
    }

    fn connect(&self) -> io::Result<Stream> {
        match self {
            Place::Loopback(address) => TcpStream::connect_timeout(address, GLANCE).map(Stream::Tcp),
            Place::Socket(path) => UnixStream::connect(path).map(Stream::Unix),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Loopback(address) => address.fmt(f),
            Place::Socket(path) => path.display().fmt(f),
        }
    }
}

/// A connection to the agent.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(Some(GLANCE)).and_then(|()| stream.write_all(request))
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(Some(GLANCE)).and_then(|()| stream.write_all(request))
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(patience)).and_then(|()| stream.read(buffer)),
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(patience)).and_then(|()| stream.read(buffer))
            }
        }
    }
}

/// Selects the sessions to save or resume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSelection {
    /// PIDs of clients or workers on this machine. An empty list selects all.
    pub processes: Vec<u32>,
    /// Selects only sessions that use this device.
    pub device: Option<String>,
}

impl ProcessSelection {
    fn json(&self) -> String {
        let processes: Vec<String> = self.processes.iter().map(u32::to_string).collect();
        let device = self.device.as_ref().map(|device| format!(",\"device\":\"{}\"", escaped(device)));
        format!("{{\"processes\":[{}]{}}}", processes.join(","), device.unwrap_or_default())
    }
}

/// Address of the agent and the file with its token.
#[derive(Clone, Debug)]
pub struct Agent {
    address: Place,
    token: PathBuf,
}

impl Agent {
    /// Creates a client for an address: `unix:/path`, `127.0.0.1:8001` or `http://127.0.0.1:8001`. Does not connect yet.
    pub fn new(address: &str, token: &Path) -> Result<Agent, AgentError> {
        let address = Place::parse(address).ok_or_else(|| AgentError::Address(address.to_owned()))?;
        Ok(Agent { address, token: token.to_owned() })
    }

    /// Returns whether the agent answers, accepts the token, and has a device.
    pub fn has(&self, device: &str) -> Result<bool, AgentError> {
        match self.ask("GET", &format!("/api/v1/devices/{}", in_path(device)), "", GLANCE) {
            Ok(()) => Ok(true),
            Err(AgentError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the agent save sessions. Their client programs wait until they are resumed.
    pub fn snapshot(&self, selection: &ProcessSelection) -> Result<(), AgentError> {
        self.ask("POST", "/api/v1/processes/snapshot", &selection.json(), WORK)
    }

    /// Makes the agent resume saved sessions.
    pub fn resume(&self, selection: &ProcessSelection) -> Result<(), AgentError> {
        self.ask("POST", "/api/v1/processes/resume", &selection.json(), WORK)
    }

    fn ask(&self, method: &str, path: &str, body: &str, patience: Duration) -> Result<(), AgentError> {
        let token = self.token().map_err(|source| AgentError::Token { path: self.token.clone(), source })?;
        let (host, bytes) = (self.host(), body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: \
             application/json\r\ncontent-length: {bytes}\r\nconnection: close\r\n\r\n{body}"
        );
        let silent = |source| AgentError::Silent { address: self.address.clone(), source };
        let answer = self.exchange(&request, patience).map_err(silent)?;
        match read_answer(&answer) {
            Some((200..=299, _)) => Ok(()),
            Some((status, reason)) => Err(AgentError::Refused { status, reason }),
            None => Err(AgentError::InvalidReply(self.address.clone())),
        }
    }

    /// Returns the value of the `host` header.
    fn host(&self) -> String {
        match &self.address {
            Place::Loopback(address) => address.to_string(),
            Place::Socket(_) => "localhost".to_owned(),
        }
    }

    /// Reads the token from its file. It is read for every request, because the token may change.
    fn token(&self) -> io::Result<String> {
        let mut text = String::new();
        File::open(&self.token)?.take(TOKEN_BYTES).read_to_string(&mut text)?;
        let token = text.trim();
        // Rejects line breaks, which would inject header lines.
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file contains no valid token"));
        }
        Ok(token.to_owned())
    }

    fn exchange(&self, request: &str, patience: Duration) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + patience;
        let mut stream = self.address.connect()?;
        stream.send(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while (answer.len() as u64) < ANSWER_BYTES {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match stream.receive(&mut buffer, left) {
                Ok(0) => break,
                Ok(bytes) => answer.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(answer)
    }
}

/// Parses a response: status code, and the message in one line.
pub(crate) fn read_answer(answer: &[u8]) -> Option<(u16, String)> {
    let answer = String::from_utf8_lossy(answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let body = body.trim();
    let reason = body.strip_prefix("{\"error\":\"").and_then(|text| text.strip_suffix("\"}"));
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    Some((status, reason.unwrap_or(body).chars().take(REASON_CHARS).map(plain).collect()))
}

/// Escapes a text for a JSON string.
fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Percent-encodes a text as one segment of a URL path.
fn in_path(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// Starts a server that sends these bytes once; the thread returns the request it received.
    fn answering(answer: &'static [u8]) -> (SocketAddr, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut buffer = [0; 4096];
            while !is_whole(&asked) {
                let bytes = stream.read(&mut buffer).unwrap();
                asked.extend_from_slice(&buffer[..bytes]);
            }
            stream.write_all(answer).unwrap();
            String::from_utf8(asked).unwrap()
        });
        (address, asked)
    }

    fn is_whole(request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        body.len() == length.parse::<usize>().unwrap()
    }

    fn agent(address: SocketAddr, folder: &tempfile::TempDir, token: &str) -> Agent {
        let file = folder.path().join("api-token");
        std::fs::write(&file, token).unwrap();
        Agent::new(&address.to_string(), &file).unwrap()
    }

    #[test]
    fn only_addresses_of_this_machine_alone_are_taken() {
        let token = Path::new("token");
        for good in ["127.0.0.1:8001", "http://127.0.0.1:8001/", "[::1]:8001", "localhost:8001"] {
            let place = Agent::new(good, token).unwrap().address;
            assert!(matches!(place, Place::Loopback(address) if address.port() == 8001), "{good}");
        }
        let socket = Agent::new("unix:/run/agent.sock", token).unwrap().address;
        assert_eq!(socket, Place::Socket("/run/agent.sock".into()));
        assert!(Agent::new("unix:agent.sock", token).is_err());
        for wrong in ["", "127.0.0.1", "10.0.0.7:8001", "gpu7:8001", "https://127.0.0.1:8001", "0.0.0.0:8001"]
        {
            assert!(matches!(Agent::new(wrong, token), Err(AgentError::Address(_))), "{wrong}");
        }
    }

    #[test]
    fn the_agent_is_asked_with_its_token_and_names_stay_names() {
        let folder = tempfile::tempdir().unwrap();
        let (address, asked) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        let selection = ProcessSelection { processes: vec![7, 8], device: Some("a\"b\n".to_owned()) };
        agent(address, &folder, " s3cret\n").snapshot(&selection).unwrap();
        let asked = asked.join().unwrap();
        assert!(asked.starts_with("POST /api/v1/processes/snapshot HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("\r\nauthorization: Bearer s3cret\r\n"), "{asked}");
        assert!(asked.ends_with("\r\n\r\n{\"processes\":[7,8],\"device\":\"a\\\"b\\u000a\"}"), "{asked}");

        let (address, asked) = answering(b"HTTP/1.1 404 Not Found\r\n\r\n{\"error\":\"there is no GPU\"}");
        assert!(!agent(address, &folder, "s3cret").has("a/../b c").unwrap());
        let asked = asked.join().unwrap();
        assert!(asked.starts_with("GET /api/v1/devices/a%2F..%2Fb%20c HTTP/1.1\r\n"), "{asked}");
    }

    #[test]
    fn a_refusal_says_why_and_an_agent_that_is_not_there_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let (address, asked) = answering(b"HTTP/1.1 409 Conflict\r\n\r\n{\"error\":\"it goes on\"}");
        let refused = agent(address, &folder, "s3cret").resume(&ProcessSelection::default()).unwrap_err();
        assert!(
            matches!(&refused, AgentError::Refused { status: 409, reason } if reason == "it goes on"),
            "{refused}"
        );
        asked.join().unwrap();
        // The listener is gone.
        let silent = agent(address, &folder, "s3cret").has("x").unwrap_err();
        assert!(matches!(silent, AgentError::Silent { .. }), "{silent}");
        let (address, asked) = answering(b"220 mail\r\n\r\n");
        let invalid = agent(address, &folder, "s3cret").has("x").unwrap_err();
        assert!(matches!(invalid, AgentError::InvalidReply(_)), "{invalid}");
        asked.join().unwrap();
        for wrong in ["", "two words", "a\r\nhost: b"] {
            let refused = agent(address, &folder, wrong).has("x").unwrap_err();
            assert!(matches!(refused, AgentError::Token { .. }), "{wrong}: {refused}");
        }
    }

    #[test]
    fn whatever_answers_is_one_line_of_bounded_length() {
        let long = format!("HTTP/1.1 500 X\r\n\r\na\nb{}", "x".repeat(10_000));
        let (status, reason) = read_answer(long.as_bytes()).unwrap();
        assert_eq!((status, reason.chars().count(), reason.starts_with("a b")), (500, REASON_CHARS, true));
        for invalid in
            ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 ok\r\n\r\n", "HTTP/2 200\r\n\r\n"]
        {
            assert_eq!(read_answer(invalid.as_bytes()), None, "{invalid}");
        }
    }
}
