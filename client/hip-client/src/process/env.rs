//! The client's environment variables; no other file of this crate reads them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use transport::tls::Trust;
use transport::{Address, DEFAULT_PORT, Endpoint, token};

use session::upload::When;
use session::{
    Candidate, Config, CopyPolicy, DEFAULT_SILENCE_TIMEOUT, FailoverConfig, Retention,
    SHORTEST_SILENCE_TIMEOUT,
};

/// Most bytes of the failover journal.
const DEFAULT_FAILOVER_LIMIT: u64 = 4 << 30;
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// `TF_DEBUG=1`: prints calls and requests on stderr.
#[inline]
pub fn debug() -> bool {
    static VALUE: OnceLock<bool> = OnceLock::new();
    *VALUE.get_or_init(|| is_on("TF_DEBUG"))
}

/// `REMORA_STRICT=1`: every call waits for its reply.
#[inline]
pub fn strict() -> bool {
    static VALUE: OnceLock<bool> = OnceLock::new();
    *VALUE.get_or_init(|| is_on("REMORA_STRICT"))
}

/// False for `REMORA_MAPPED=refuse`: host memory is not mapped for kernels, and calls that need it fail.
#[inline]
pub fn mapped() -> bool {
    mapping().is_none_or(|value| value != "refuse")
}

/// `REMORA_MAPPED=eager`: pinned memory is mirrored on the worker when it is allocated, not when its address is first
/// sent.
#[inline]
pub fn mapped_at_once() -> bool {
    mapping().is_some_and(|value| value == "eager")
}

fn mapping() -> Option<&'static str> {
    static VALUE: OnceLock<Option<String>> = OnceLock::new();
    VALUE.get_or_init(|| text("REMORA_MAPPED")).as_deref()
}

/// `REMORA_STATS=1`: prints one line of counters at exit.
pub fn statistics() -> bool {
    is_on("REMORA_STATS")
}

/// `REMORA_PROGRESS=1`: shows long uploads and compilations on a terminal.
pub fn progress() -> bool {
    is_on("REMORA_PROGRESS")
}

/// `REMORA_TRACE=file`: writes a trace for chrome://tracing or ui.perfetto.dev. `%p` is the process id.
pub fn trace() -> Option<String> {
    text("REMORA_TRACE")
}

/// Destination of the summary table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    StandardError,
    File(String),
}

/// `REMORA_SUMMARY=1` or a file: writes the cost of each function at exit.
pub fn summary() -> Option<Place> {
    match text("REMORA_SUMMARY")?.as_str() {
        "0" | "false" | "no" | "off" => None,
        "1" | "true" | "yes" | "on" => Some(Place::StandardError),
        file => Some(Place::File(file.to_owned())),
    }
}

/// The devices the program may see, in its order; `None` for all. `HIP_VISIBLE_DEVICES` indexes those that
/// `ROCR_VISIBLE_DEVICES` leaves, as with AMD's runtime; `CUDA_VISIBLE_DEVICES` is used if `HIP_VISIBLE_DEVICES` is not
/// set.
pub fn visible_devices() -> Option<Vec<usize>> {
    let outer = text("ROCR_VISIBLE_DEVICES").map(|value| parse_devices(&value));
    let inner = text("HIP_VISIBLE_DEVICES")
        .or_else(|| text("CUDA_VISIBLE_DEVICES"))
        .map(|value| parse_devices(&value));
    match (outer, inner) {
        (Some(outer), Some(inner)) => {
            Some(inner.into_iter().map_while(|index| outer.get(index).copied()).collect())
        }
        (outer, inner) => inner.or(outer),
    }
}

/// The name of the running program, for the worker's log.
pub fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The configuration of the session, without its host and observer.
pub fn config() -> Result<Config, String> {
    let list = text("REMORA_WORKER").unwrap_or_default();
    let mut list = list.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty());
    // A URL in REMORA_WORKER replaces REMORA_URL; an endpoint replaces only its endpoint.
    let (url, worker) = match list.next() {
        Some(url) if Address::is_url(&url) => (Some(("REMORA_WORKER", url)), None),
        worker => (text("REMORA_URL").map(|url| ("REMORA_URL", url)), worker),
    };
    let parse =
        |(name, url): (&str, String)| url.parse::<Address>().map_err(|error| format!("{name}: {error}"));
    let whole = url.map(parse).transpose()?;
    let endpoint = match (worker, &whole) {
        (Some(worker), _) => worker.parse::<Endpoint>().map_err(|error| format!("REMORA_WORKER: {error}"))?,
        (None, Some(whole)) => whole.endpoint.clone(),
        (None, None) => {
            let host = text("TF_WORKER_HOST").unwrap_or_else(|| "127.0.0.1".to_owned());
            let port = match text("TF_WORKER_PORT") {
                Some(port) => {
                    port.parse().map_err(|_| format!("TF_WORKER_PORT is \"{port}\", not a port number"))?
                }
                None => DEFAULT_PORT,
            };
            Endpoint::tcp(host, port)
        }
    };
    let token = match (text("REMORA_TOKEN"), path("REMORA_TOKEN_FILE")) {
        (Some(token), _) => Some(token.into_bytes()),
        (None, Some(path)) => {
            Some(token::read_file(&path).map_err(|error| format!("REMORA_TOKEN_FILE: {error}"))?)
        }
        (None, None) => whole.as_ref().and_then(|whole| whole.token.clone()).map(String::into_bytes),
    };
    let others = list.map(|item| candidate(&item, token.as_deref())).collect::<Result<Vec<_>, _>>()?;
    let token = token.or_else(|| token::find_local(&local_tokens(), &endpoint));
    let trust = match text("REMORA_TLS_CA") {
        Some(value) => Some(
            Trust::parse(&value)
                .ok_or_else(|| "REMORA_TLS_CA is neither a file nor sha256:<64 hex digits>".to_owned())?,
        ),
        None => whole.as_ref().and_then(Address::trust),
    };
    let others = others
        .into_iter()
        .map(|other| Candidate { trust: other.trust.or_else(|| trust.clone()), ..other })
        .collect();
    let connect_timeout = match text("REMORA_CONNECT_TIMEOUT") {
        Some(value) => parse_duration(&value)
            .ok_or_else(|| format!("REMORA_CONNECT_TIMEOUT is \"{value}\", not a number of seconds"))?,
        None => DEFAULT_CONNECT_TIMEOUT,
    };
    let silence_timeout = match text("REMORA_SILENCE_TIMEOUT") {
        Some(value) => parse_silence(&value)?,
        None => Some(DEFAULT_SILENCE_TIMEOUT),
    };
    let links = match text("REMORA_LINKS") {
        Some(value) => {
            let links = value.parse().ok().filter(|links| (1..=wire::MAX_LINKS).contains(links));
            let limit = wire::MAX_LINKS;
            Some(links.ok_or_else(|| format!("REMORA_LINKS is \"{value}\"; use 1 to {limit}"))?)
        }
        None => None,
    };
    let (hashing, packing) = (when("REMORA_UPLOAD_CACHE")?, when("REMORA_COMPRESSION")?);
    let copies = CopyPolicy { hashing, packing, links, sockets_only: !shares_memory()? };
    let failover = if is_on("REMORA_FAILOVER") { Some(failover()?) } else { None };
    Ok(Config {
        endpoint,
        token,
        trust,
        others,
        connect_timeout,
        silence_timeout,
        strict: strict(),
        program: program(),
        copies,
        retention: Retention { failover, ..Retention::default() },
        ..Config::default()
    })
}

/// `REMORA_FAILOVER_LIMIT` and `REMORA_FAILOVER_FOLDER`: size and place of the journal.
fn failover() -> Result<FailoverConfig, String> {
    let limit = match text("REMORA_FAILOVER_LIMIT") {
        Some(value) => parse_size(&value).ok_or_else(|| {
            format!("REMORA_FAILOVER_LIMIT is \"{value}\"; use a number of bytes, such as 512M or 4G")
        })?,
        None => DEFAULT_FAILOVER_LIMIT,
    };
    // The cache folder and not the one for temporary files, which often is memory.
    let cache = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")));
    let cache = if cfg!(windows) { path("LOCALAPPDATA") } else { cache };
    let folder = path("REMORA_FAILOVER_FOLDER").or(cache).filter(|folder| folder.is_dir());
    Ok(FailoverConfig { folder: folder.unwrap_or_else(std::env::temp_dir), limit })
}

/// A further worker of the list in `REMORA_WORKER`. Its URL's token comes before the one of the environment.
fn candidate(text: &str, token: Option<&[u8]>) -> Result<Candidate, String> {
    let failed = |error: transport::TransportError| format!("REMORA_WORKER: {error}");
    let (endpoint, own, trust) = match Address::is_url(text) {
        true => {
            let address = text.parse::<Address>().map_err(failed)?;
            let trust = address.trust();
            (address.endpoint, address.token.map(String::into_bytes), trust)
        }
        false => (text.parse::<Endpoint>().map_err(failed)?, None, None),
    };
    let token = own.or_else(|| token.map(<[u8]>::to_vec));
    let token = token.or_else(|| token::find_local(&local_tokens(), &endpoint));
    Ok(Candidate { endpoint, token, trust })
}

/// Folders where a worker without a configured token stores one for programs of the same user.
fn local_tokens() -> Vec<PathBuf> {
    if cfg!(windows) {
        return token::local_folders(None, path("LOCALAPPDATA"), None);
    }
    token::local_folders(path("XDG_RUNTIME_DIR"), path("XDG_STATE_HOME"), path("HOME"))
}

fn when(name: &str) -> Result<When, String> {
    match text(name).as_deref() {
        None => Ok(When::Measured),
        Some("0" | "off" | "never") => Ok(When::Never),
        Some("1" | "on" | "always") => Ok(When::Always),
        Some(other) => Err(format!("{name} is \"{other}\"; use always or never")),
    }
}

/// `REMORA_SHARED_MEMORY=off`: connections to a worker on this machine use the socket only.
fn shares_memory() -> Result<bool, String> {
    match text("REMORA_SHARED_MEMORY").as_deref() {
        None | Some("1" | "on") => Ok(true),
        Some("0" | "off") => Ok(false),
        Some(other) => Err(format!("REMORA_SHARED_MEMORY is \"{other}\"; use on or off")),
    }
}

fn is_on(name: &str) -> bool {
    text(name).is_some_and(|value| !matches!(value.as_str(), "0" | "false" | "no" | "off"))
}

/// The value of a variable that is set and not empty. An empty `*_VISIBLE_DEVICES` counts as set: it hides every device.
fn text(name: &str) -> Option<String> {
    let value: OsString = std::env::var_os(name)?;
    let value = value.to_string_lossy().trim().to_owned();
    (!value.is_empty() || name.ends_with("VISIBLE_DEVICES")).then_some(value)
}

fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Parses `0,2`. Everything from the first entry that is not an index is ignored, as in AMD's runtime.
fn parse_devices(text: &str) -> Vec<usize> {
    let mut devices = Vec::new();
    for index in text.split(',').map_while(|part| part.trim().parse().ok()) {
        if devices.contains(&index) {
            break;
        }
        devices.push(index);
    }
    devices
}

/// Parses a duration or `off`.
fn parse_silence(text: &str) -> Result<Option<Duration>, String> {
    if matches!(text, "off" | "0" | "never") {
        return Ok(None);
    }
    let timeout = parse_duration(text).filter(|timeout| *timeout >= SHORTEST_SILENCE_TIMEOUT);
    timeout.map(Some).ok_or_else(|| {
        format!(
            "REMORA_SILENCE_TIMEOUT is \"{text}\"; use off, or a number of seconds from {} to 86400",
            SHORTEST_SILENCE_TIMEOUT.as_secs_f64()
        )
    })
}

/// Parses a number of bytes with an optional suffix K, M, G or T (powers of 1024).
fn parse_size(text: &str) -> Option<u64> {
    let (number, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        (at, 't' | 'T') => (&text[..at], 40),
        _ => (text, 0),
    };
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses seconds, with an optional fraction, or milliseconds with the suffix `ms`.
fn parse_duration(text: &str) -> Option<Duration> {
    let (number, scale) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok()? * scale;
    (seconds > 0.0 && seconds < 86400.0).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_lists_end_at_the_first_entry_that_is_no_index() {
        assert_eq!(parse_devices("2,0"), [2, 0]);
        assert_eq!(parse_devices(" 1 , 3"), [1, 3]);
        assert_eq!(parse_devices("0,-1,2"), [0]);
        assert_eq!(parse_devices("0,0,1"), [0]);
        assert!(parse_devices("").is_empty());
        assert!(parse_devices("GPU-abc").is_empty());
    }

    #[test]
    fn a_silence_timeout_is_a_duration_or_off() {
        assert_eq!(parse_silence("30"), Ok(Some(Duration::from_secs(30))));
        assert_eq!(parse_silence("500ms"), Ok(Some(Duration::from_millis(500))));
        assert_eq!((parse_silence("off"), parse_silence("0")), (Ok(None), Ok(None)));
        for text in ["99ms", "-1", "later", "1e9"] {
            let error = parse_silence(text).unwrap_err();
            assert!(error.contains("REMORA_SILENCE_TIMEOUT") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn sizes_have_binary_suffixes() {
        assert_eq!(
            (parse_size("12"), parse_size("4G"), parse_size("3 k")),
            (Some(12), Some(4 << 30), Some(3072))
        );
        assert_eq!(
            (parse_size("G"), parse_size("-1"), parse_size(""), parse_size("99999999T")),
            (None, None, None, None)
        );
    }

    #[test]
    fn durations_are_seconds_unless_they_say_otherwise() {
        assert_eq!(parse_duration("2"), Some(Duration::from_secs(2)));
        assert_eq!(parse_duration("0.5s"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("-1"), None);
        assert_eq!(parse_duration("soon"), None);
    }
}
