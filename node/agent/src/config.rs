//! What an agent is told at its start, by a file and by flags that come before it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where the agent answers unless told otherwise.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8001);

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{path} cannot be read")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is not understood")]
    Parse { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{what} is {value}: {wanted}")]
    Value { what: &'static str, value: String, wanted: &'static str },
}

/// How much more may be promised than there is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Oversubscription {
    /// The sum of memory limits on a GPU, over its memory.
    pub memory: f64,
    /// The sum of compute limits on a GPU, over the whole of it.
    pub compute: f64,
}

impl Default for Oversubscription {
    fn default() -> Oversubscription {
        Oversubscription { memory: 1.0, compute: 1.0 }
    }
}

/// Which GPU is taken when several would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The fullest, so that whole GPUs stay free.
    #[default]
    Compact,
    /// The emptiest, so that neighbours are few.
    Spread,
}

/// Whether workers speak TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerTls {
    /// Yes, unless they listen on the loopback interface.
    #[default]
    Auto,
    On,
    Off,
}

/// A GPU made of software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftwareGpu {
    /// `mi300x`, `mi210`, ...
    pub model: String,
    /// Bytes of memory, if not the model's own.
    #[serde(default)]
    pub memory: Option<u64>,
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

/// Where measurements are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushConfig {
    /// An address that takes line protocol, whole: `http://host:4000/v1/influxdb/api/v2/write?db=public&precision=ms`.
    pub url: String,
    /// What goes into the header `Authorization`, as it is.
    #[serde(default)]
    pub authorization: Option<String>,
    #[serde(default = "ten")]
    pub interval_s: f64,
    /// Bytes of measurements that are kept on disk while nobody takes them; the oldest go first.
    #[serde(default = "spool_bytes")]
    pub spool_bytes: u64,
}

fn ten() -> f64 {
    10.0
}

fn spool_bytes() -> u64 {
    256 << 20
}

/// All that an agent is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the HTTP interface answers.
    pub listen: SocketAddr,
    /// Where state, logs and tokens are kept.
    pub data: PathBuf,
    /// The machine's name in answers and measurements.
    pub node: String,
    /// The pool the machine belongs to.
    pub pool: String,
    /// The address on which workers listen.
    pub worker_host: String,
    /// The name under which clients reach workers, if it is not that address.
    pub advertise: Option<String>,
    /// Whether workers speak TLS.
    pub worker_tls: WorkerTls,
    /// Certificate chain and key (PEM) of the HTTP interface and of workers. Without them the agent makes a self-signed pair and keeps it in
    /// its data folder.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// Serve HTTPS with the self-signed certificate.
    pub tls_self_signed: bool,
    /// File with the token of administrators; `api-token` in the data folder by default.
    pub api_token_file: Option<PathBuf>,
    /// File with the token of readers; `read-token` in the data folder by default.
    pub read_token_file: Option<PathBuf>,
    /// Answer `/metrics` without a token.
    pub open_metrics: bool,
    /// A library with the accelerator interface; none, and only software GPUs are offered.
    pub provider: Option<PathBuf>,
    /// The libamdhip64 that workers of real GPUs load; `None` searches the usual places.
    pub hip_library: Option<PathBuf>,
    /// Where limits are that somebody set through the provider library; `limits` in the data folder by default.
    pub limits: Option<PathBuf>,
    pub software: Vec<SoftwareGpu>,
    pub oversubscription: Oversubscription,
    pub placement: Placement,
    /// Dollars an hour that a GPU of this machine costs, for the tables of measurements.
    pub cost_per_hour: f64,
    /// Seconds that a session outlives a connection which its client closed without a goodbye.
    pub grace_closed_s: f64,
    /// Sessions that one allocation may have at the same time.
    pub max_sessions: u32,
    pub push: Option<PushConfig>,
    /// The program and its arguments that run a worker.
    #[serde(skip)]
    pub worker: Vec<std::ffi::OsString>,
    /// End the workers when the agent is told to stop; else they go on, and the next agent finds them.
    pub drain: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: DEFAULT_LISTEN,
            data: PathBuf::new(),
            node: String::new(),
            pool: "default".to_owned(),
            worker_host: "127.0.0.1".to_owned(),
            advertise: None,
            worker_tls: WorkerTls::default(),
            tls_cert: None,
            tls_key: None,
            tls_self_signed: false,
            api_token_file: None,
            read_token_file: None,
            open_metrics: false,
            provider: None,
            hip_library: None,
            limits: None,
            software: Vec::new(),
            oversubscription: Oversubscription::default(),
            placement: Placement::default(),
            cost_per_hour: 0.0,
            grace_closed_s: 2.0,
            max_sessions: 64,
            push: None,
            worker: Vec::new(),
            drain: false,
        }
    }
}

impl Config {
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        toml::from_str(&text)
            .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })
    }

    /// Where the agent itself reaches workers.
    pub(crate) fn worker_address(&self) -> &str {
        match self.worker_host.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        }
    }

    /// The name under which clients reach workers.
    pub(crate) fn advertised(&self) -> &str {
        let everywhere = ["0.0.0.0", "::"].contains(&self.worker_host.as_str());
        let own = if everywhere { &self.node } else { &self.worker_host };
        self.advertise.as_ref().unwrap_or(own)
    }

    /// Whether workers speak TLS. `Auto` protects what leaves the machine, and costs nothing where nothing does.
    pub(crate) fn workers_use_tls(&self) -> bool {
        match self.worker_tls {
            WorkerTls::On => true,
            WorkerTls::Off => false,
            WorkerTls::Auto => !is_loopback(&self.worker_host),
        }
    }

    /// Whether the HTTP interface serves HTTPS.
    pub fn serves_https(&self) -> bool {
        self.tls_cert.is_some() || self.tls_self_signed
    }

    pub fn check(&self) -> Result<(), ConfigError> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            let (what, given) = match &self.tls_cert {
                Some(path) => ("tls_key", path),
                None => ("tls_cert", self.tls_key.as_ref().unwrap_or(&self.data)),
            };
            return Err(ConfigError::Value {
                what,
                value: format!("missing beside {}", given.display()),
                wanted: "a certificate and its key are given together",
            });
        }
        if self.tls_cert.is_some() && self.tls_self_signed {
            return Err(ConfigError::Value {
                what: "tls_self_signed",
                value: "set beside tls_cert".to_owned(),
                wanted: "one of the two",
            });
        }
        let ratio = |what, value: f64| match value.is_finite() && (1.0..=100.0).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::Value {
                what,
                value: value.to_string(),
                wanted: "a ratio from 1 (nothing is promised twice) to 100",
            }),
        };
        ratio("oversubscription.memory", self.oversubscription.memory)?;
        ratio("oversubscription.compute", self.oversubscription.compute)?;
        let seconds = |what, value: f64| match value.is_finite() && (0.0..=3600.0).contains(&value) {
            true => Ok(()),
            false => {
                Err(ConfigError::Value { what, value: value.to_string(), wanted: "seconds up to an hour" })
            }
        };
        seconds("grace_closed_s", self.grace_closed_s)?;
        if let Some(push) = &self.push {
            seconds("push.interval_s", push.interval_s)?;
            if push.interval_s < 0.1 {
                let value = push.interval_s.to_string();
                return Err(ConfigError::Value { what: "push.interval_s", value, wanted: "0.1 s at least" });
            }
        }
        let gpus: u64 = self.software.iter().map(|gpu| u64::from(gpu.count)).sum();
        if gpus > 64 {
            let value = gpus.to_string();
            return Err(ConfigError::Value {
                what: "the number of software GPUs",
                value,
                wanted: "64 at most",
            });
        }
        Ok(())
    }
}

/// Whether only programs of this machine reach a listener at `host`.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_differs_from_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        let text = "node = \"gpu7\"\nplacement = \"spread\"\n[oversubscription]\ncompute = 2\n[[software]]\nmodel = \
                    \"mi300x\"\ncount = 2\n[push]\nurl = \"http://127.0.0.1:4000/write\"\n";
        std::fs::write(&path, text).unwrap();
        let config = Config::read(&path).unwrap();
        config.check().unwrap();
        assert_eq!((config.node.as_str(), config.placement), ("gpu7", Placement::Spread));
        assert_eq!(config.oversubscription, Oversubscription { memory: 1.0, compute: 2.0 });
        assert_eq!((config.software[0].count, config.listen.port()), (2, 8001));
        assert_eq!(config.push.unwrap().interval_s, 10.0);
        std::fs::write(&path, "nodes = 3\n").unwrap();
        assert!(matches!(Config::read(&path), Err(ConfigError::Parse { .. })));
    }

    #[test]
    fn clients_are_told_a_name_that_they_can_reach() {
        let config = Config { node: "gpu7".to_owned(), ..Config::default() };
        assert_eq!(config.advertised(), "127.0.0.1");
        let config = Config { worker_host: "0.0.0.0".to_owned(), ..config };
        assert_eq!(config.advertised(), "gpu7");
        assert_eq!(Config { advertise: Some("10.0.0.7".to_owned()), ..config }.advertised(), "10.0.0.7");
    }

    #[test]
    fn workers_speak_tls_beyond_loopback_unless_told_otherwise() {
        let on = |worker_host: &str, worker_tls| {
            Config { worker_host: worker_host.to_owned(), worker_tls, ..Config::default() }.workers_use_tls()
        };
        for (host, expected) in [
            ("127.0.0.1", false),
            ("::1", false),
            ("localhost", false),
            ("0.0.0.0", true),
            ("::", true),
            ("10.0.0.7", true),
            ("gpu7", true),
        ] {
            assert_eq!(on(host, WorkerTls::Auto), expected, "{host}");
        }
        assert!(on("127.0.0.1", WorkerTls::On) && !on("0.0.0.0", WorkerTls::Off));
    }

    #[test]
    fn a_certificate_needs_its_key_and_excludes_a_self_signed_one() {
        let pair = Config {
            tls_cert: Some("cert.pem".into()),
            tls_key: Some("key.pem".into()),
            ..Config::default()
        };
        pair.check().unwrap();
        assert!(pair.serves_https() && !Config::default().serves_https());
        assert!(Config { tls_key: None, ..pair.clone() }.check().is_err());
        assert!(Config { tls_cert: None, ..pair.clone() }.check().is_err());
        assert!(Config { tls_self_signed: true, ..pair }.check().is_err());
    }

    #[test]
    fn ratios_below_one_and_endless_times_are_refused() {
        let with = |oversubscription| Config { oversubscription, ..Config::default() }.check();
        assert!(with(Oversubscription { memory: 0.5, compute: 1.0 }).is_err());
        assert!(with(Oversubscription { memory: 1.0, compute: f64::NAN }).is_err());
        assert!(Config { grace_closed_s: -1.0, ..Config::default() }.check().is_err());
    }
}
