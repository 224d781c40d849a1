//! Configuration of an agent, from a file and from flags, which take precedence.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::Gpu;

/// Default address of the HTTP interface.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8001);

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum ConfigError {
    #[error("{path} cannot be read")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} cannot be parsed")]
    Parse { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{what} is {value}: {wanted}")]
    Value { what: &'static str, value: String, wanted: &'static str },
}

/// Oversubscription ratios: how far the sum of limits may exceed a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Oversubscription {
    /// Largest sum of the memory limits on a GPU, relative to its memory.
    pub memory: f64,
    /// Largest sum of the compute limits on a GPU, relative to the whole GPU.
    pub compute: f64,
}

impl Default for Oversubscription {
    fn default() -> Oversubscription {
        Oversubscription { memory: 1.0, compute: 1.0 }
    }
}

/// Placement policy: which GPU is chosen if several fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The fullest GPU, so that whole GPUs stay free.
    #[default]
    Compact,
    /// The emptiest GPU, so that few allocations share it.
    Spread,
}

/// Whether workers use TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerTls {
    /// Yes, unless they listen on the loopback interface.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// A software GPU, executed by the emulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftwareGpu {
    /// `mi300x`, `mi210`, ...
    pub model: String,
    /// Memory in bytes. Default: the model's memory.
    #[serde(default)]
    pub memory: Option<u64>,
    /// How many of them.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

/// Where metrics are pushed to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushConfig {
    /// Complete URL of a line protocol endpoint: `http://host:4000/v1/influxdb/api/v2/write?db=public&precision=ms`.
    pub url: String,
    /// Value of the `Authorization` header, sent verbatim.
    #[serde(default)]
    pub authorization: Option<String>,
    /// Seconds between two batches.
    #[serde(default = "ten")]
    pub interval_s: f64,
    /// Most bytes of metrics that are spooled on disk while the receiver does not accept them. The oldest are dropped first.
    #[serde(default = "spool_bytes")]
    pub spool_bytes: u64,
}

fn ten() -> f64 {
    10.0
}

fn spool_bytes() -> u64 {
    256 << 20
}

/// Complete configuration of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address of the HTTP interface.
    pub listen: SocketAddr,
    /// Data folder for state, logs and tokens.
    pub data: PathBuf,
    /// The machine's name in responses and metrics.
    pub node: String,
    /// The pool the machine belongs to.
    pub pool: String,
    /// The address on which workers listen.
    pub worker_host: String,
    /// Host name or address that clients connect to, if it differs from `worker_host`.
    pub advertise: Option<String>,
    /// Whether workers use TLS.
    pub worker_tls: WorkerTls,
    /// Certificate chain and key (PEM) of the HTTP interface and the workers. Without them the agent generates a self-signed certificate
    /// and stores it in its data folder.
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key.
    pub tls_key: Option<PathBuf>,
    /// Serve HTTPS with the self-signed certificate.
    pub tls_self_signed: bool,
    /// File with the administrator token. Default: `api-token` in the data folder.
    pub api_token_file: Option<PathBuf>,
    /// File with the read-only token. Default: `read-token` in the data folder.
    pub read_token_file: Option<PathBuf>,
    /// Serve `/metrics` without a token.
    pub open_metrics: bool,
    /// Provider library (accelerator interface). Without it the agent offers software GPUs only.
    pub provider: Option<PathBuf>,
    /// The libamdhip64 that workers of real GPUs load; `None` searches the usual places.
    pub hip_library: Option<PathBuf>,
    /// Model that NVIDIA GPUs imitate: its processor decides which kernels run.
    #[serde(rename = "as")]
    pub imitate: String,
    /// The libcuda that workers of NVIDIA GPUs load; `None` searches the usual places.
    pub cuda_library: Option<PathBuf>,
    /// Folder with the limits that were set through the provider library. Default: `limits` in the data folder.
    pub limits: Option<PathBuf>,
    /// Software GPUs to offer.
    pub software: Vec<SoftwareGpu>,
    /// How far limits may exceed the capacity of a GPU.
    pub oversubscription: Oversubscription,
    /// Which GPU is chosen if several fit.
    pub placement: Placement,
    /// Cost of a GPU of this machine in dollars per hour, for the metrics tables.
    pub cost_per_hour: f64,
    /// Seconds that a session is kept after its client closed the connection without ending the session.
    pub grace_closed_s: f64,
    /// Most concurrent sessions of an allocation.
    pub max_sessions: u32,
    /// Where metrics are sent to.
    pub push: Option<PushConfig>,
    /// Command line that runs a worker: program and arguments.
    #[serde(skip)]
    pub worker: Vec<std::ffi::OsString>,
    /// Release all allocations and stop their workers when the agent stops. Otherwise workers keep running and the next agent adopts them.
    pub drain: bool,
    /// Stop the workers when the agent stops, with their sessions saved; the next agent resumes them. For agents whose end takes all
    /// processes along, as that of a container does.
    pub save_sessions: bool,
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
            imitate: "mi300x".to_owned(),
            cuda_library: None,
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
            save_sessions: false,
        }
    }
}

impl Config {
    /// Reads and checks a configuration file.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        toml::from_str(&text)
            .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })
    }

    /// Returns the address at which the agent itself connects to workers.
    pub(crate) fn worker_address(&self) -> &str {
        match self.worker_host.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        }
    }

    /// Returns the host name or address that clients connect to.
    pub(crate) fn advertised(&self) -> &str {
        let everywhere = ["0.0.0.0", "::"].contains(&self.worker_host.as_str());
        let own = if everywhere { &self.node } else { &self.worker_host };
        self.advertise.as_ref().unwrap_or(own)
    }

    /// Returns whether workers use TLS. `Auto` encrypts traffic that may leave the machine and saves the cost on the loopback interface.
    pub(crate) fn workers_use_tls(&self) -> bool {
        match self.worker_tls {
            WorkerTls::On => true,
            WorkerTls::Off => false,
            WorkerTls::Auto => !is_loopback(&self.worker_host),
        }
    }

    /// Returns whether the HTTP interface serves HTTPS.
    pub fn serves_https(&self) -> bool {
        self.tls_cert.is_some() || self.tls_self_signed
    }

    /// Checks the values.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            let (what, given) = match &self.tls_cert {
                Some(path) => ("tls_key", path),
                None => ("tls_cert", self.tls_key.as_ref().unwrap_or(&self.data)),
            };
            return Err(ConfigError::Value {
                what,
                value: format!("missing, but {} is set", given.display()),
                wanted: "set both the certificate and its key, or neither",
            });
        }
        if self.tls_cert.is_some() && self.tls_self_signed {
            return Err(ConfigError::Value {
                what: "tls_self_signed",
                value: "set together with tls_cert".to_owned(),
                wanted: "set only one of them",
            });
        }
        if self.drain && self.save_sessions {
            return Err(ConfigError::Value {
                what: "save_sessions",
                value: "set together with drain".to_owned(),
                wanted: "set only one of them",
            });
        }
        let ratio = |what, value: f64| match value.is_finite() && (1.0..=100.0).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::Value {
                what,
                value: value.to_string(),
                wanted: "it must be a ratio from 1 (no oversubscription) to 100",
            }),
        };
        ratio("oversubscription.memory", self.oversubscription.memory)?;
        ratio("oversubscription.compute", self.oversubscription.compute)?;
        let seconds = |what, value: f64| match value.is_finite() && (0.0..=3600.0).contains(&value) {
            true => Ok(()),
            false => {
                Err(ConfigError::Value { what, value: value.to_string(), wanted: "0 to 3600 are allowed" })
            }
        };
        seconds("grace_closed_s", self.grace_closed_s)?;
        if let Some(push) = &self.push {
            seconds("push.interval_s", push.interval_s)?;
            if push.interval_s < 0.1 {
                let value = push.interval_s.to_string();
                return Err(ConfigError::Value {
                    what: "push.interval_s",
                    value,
                    wanted: "it must be at least 0.1 s",
                });
            }
        }
        if Gpu::model_key(&self.imitate).is_none() {
            return Err(ConfigError::Value {
                what: "as",
                value: format!("{:?}", self.imitate),
                wanted: "it must be the model of a software GPU, such as mi300x or mi210",
            });
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

/// Returns whether a listener at `host` is reachable only from this machine.
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

    #[test]
    fn nvidia_gpus_imitate_a_model_that_exists() {
        let config: Config = toml::from_str("as = \"mi210\"\n").unwrap();
        config.check().unwrap();
        assert_eq!((config.imitate.as_str(), Config::default().imitate.as_str()), ("mi210", "mi300x"));
        let error = Config { imitate: "h200".to_owned(), ..config }.check().unwrap_err().to_string();
        assert!(error.contains("as is \"h200\""), "{error}");
    }
}
