//! Environment variables of the command line, read once at start.

#[cfg(unix)]
mod services;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use transport::{Address, DEFAULT_PORT, Endpoint, tls, token};

use crate::config::{Files, Variables};
use crate::os::folders;
use crate::os::library::Loader;
#[cfg(unix)]
use services::Services;

/// The value of a variable that is set and not empty.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether a variable is set and not empty.
pub fn is_set(name: &str) -> bool {
    variable(name).is_some()
}

/// The home folder.
pub fn home() -> Option<PathBuf> {
    folders::home(&path_of)
}

/// The system's configuration file.
pub fn system_file() -> PathBuf {
    folders::system_file(&path_of)
}

fn path_of(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// The configuration files to read.
pub fn config_files() -> Files {
    match variable("REMORA_CONFIG") {
        Some(value) if value == "off" => Files::Off,
        Some(path) => Files::Named(path.into()),
        None => Files::Usual(folders::user_file(&path_of).into_iter().chain([system_file()]).collect()),
    }
}

/// Settings from the environment and the configuration files.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Settings of the files that the environment does not have.
    file: Variables,
    worker: Option<String>,
    url: Option<String>,
    /// Workers that programs try after that one.
    other_workers: Vec<String>,
    host: Option<String>,
    port: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    admin_token: Option<String>,
    admin_token_file: Option<PathBuf>,
    tls_ca: Option<String>,
    connect_timeout: Option<String>,
    pub library_dir: Option<PathBuf>,
    #[cfg(unix)]
    pub toolchain: Option<PathBuf>,
    #[cfg(unix)]
    services: Services,
    pub log: Option<String>,
    pub log_format: Option<String>,
    /// REMORA_PROGRESS, which `remora run` sets for the program if it is not set.
    pub progress: Option<String>,
    pub loader: Loader,
    pub search_path: Option<OsString>,
    /// URL of the board for `remora submit`, and the API key for it.
    pub board: Option<String>,
    pub board_key: Option<String>,
    local_tokens: Vec<PathBuf>,
}

impl Environment {
    /// Reads the environment; what it does not set comes from the files.
    pub fn read(file: Variables) -> Environment {
        let text = |name: &str| {
            let set = std::env::var(name).ok().filter(|value| !value.is_empty());
            set.or_else(|| file.get(name).map(str::to_owned))
        };
        let path =
            |name: &str| variable(name).map(PathBuf::from).or_else(|| file.get(name).map(PathBuf::from));
        let (first, other_workers) = split_list(&text("REMORA_WORKER").unwrap_or_default());
        // A URL in REMORA_WORKER replaces REMORA_URL; an endpoint replaces only its endpoint.
        let (worker, url) = match first {
            Some(url) if Address::is_url(&url) => (None, Some(url)),
            worker => (worker, text("REMORA_URL")),
        };
        Environment {
            worker,
            url,
            other_workers,
            host: text("TF_WORKER_HOST"),
            port: text("TF_WORKER_PORT"),
            token: text("REMORA_TOKEN"),
            token_file: path("REMORA_TOKEN_FILE"),
            admin_token: text("REMORA_ADMIN_TOKEN"),
            admin_token_file: path("REMORA_ADMIN_TOKEN_FILE"),
            tls_ca: text("REMORA_TLS_CA"),
            connect_timeout: text("REMORA_CONNECT_TIMEOUT"),
            library_dir: path("HIP_REMOTE_LIB_DIR"),
            #[cfg(unix)]
            toolchain: path("REMORA_TOOLCHAIN"),
            #[cfg(unix)]
            services: Services::read(&text, &path),
            log: text("REMORA_LOG"),
            log_format: text("REMORA_LOG_FORMAT"),
            progress: text("REMORA_PROGRESS"),
            loader: Loader::read(variable),
            search_path: std::env::var_os("PATH"),
            board: text("REMORA_BOARD"),
            board_key: text("REMORA_BOARD_KEY"),
            local_tokens: folders::local_tokens(&path_of),
            file,
        }
    }

    /// The environment with the worker from the command line applied. The token and certificate pin of a URL replace those of the
    /// environment.
    pub fn for_worker(&self, named: Option<&str>) -> Environment {
        let mut environment = self.clone();
        let (Some(first), others) = split_list(named.unwrap_or_default()) else { return environment };
        environment.other_workers = others;
        let named = first.as_str();
        if !Address::is_url(named) {
            environment.worker = Some(named.to_owned());
            return environment;
        }
        if let Ok(address) = named.parse::<Address>() {
            if address.token.is_some() {
                (environment.token, environment.token_file) = (None, None);
            }
            if address.pin.is_some() {
                environment.tls_ca = None;
            }
        }
        (environment.worker, environment.url) = (None, Some(named.to_owned()));
        environment
    }

    /// The workers of the list, each with its own environment.
    pub fn each_worker(&self) -> Vec<(String, Environment)> {
        let first = self.url.clone().or_else(|| self.worker.clone());
        let names = first.into_iter().chain(self.other_workers.iter().cloned());
        names.map(|name| (name.clone(), self.for_worker(Some(&name)))).collect()
    }

    /// The value of REMORA_WORKER for a program whose worker is `endpoint`: with the rest of the list, if that worker is the first of
    /// it, and not one that was started for the program.
    pub fn worker_list(&self, endpoint: &Endpoint) -> String {
        let mut list = vec![endpoint.to_string()];
        if self.worker(None).is_ok_and(|first| first.as_ref() == Some(endpoint)) {
            list.extend(self.other_workers.iter().cloned());
        }
        list.join(",")
    }

    /// Variables to set (or, if the value is `None`, to remove) for a program that `remora run` starts: settings of the files, and a
    /// worker URL.
    pub fn program_variables(&self) -> Vec<(&'static str, Option<&str>)> {
        let mut variables: Vec<_> =
            self.file.for_program().map(|(name, value)| (name, Some(value))).collect();
        let Some(url) = &self.url else { return variables };
        variables.push(("REMORA_URL", Some(url.as_str())));
        if self.token.is_none() && self.token_file.is_none() {
            variables.extend([("REMORA_TOKEN", None), ("REMORA_TOKEN_FILE", None)]);
        }
        if self.tls_ca.is_none() {
            variables.push(("REMORA_TLS_CA", None));
        }
        variables
    }

    /// The worker to use: the one from the command line, else the one from the environment, else none.
    pub fn worker(&self, named: Option<&str>) -> Result<Option<Endpoint>> {
        let parse = |text: &str, from: &str| {
            text.parse::<Endpoint>().with_context(|| format!("{from} is not a valid worker address"))
        };
        if let Some(text) = named.and_then(|named| split_list(named).0).as_deref() {
            if Address::is_url(text) {
                let address = text.parse::<Address>().context("--worker is not a valid worker URL")?;
                return Ok(Some(address.endpoint));
            }
            return parse(text, "--worker").map(Some);
        }
        if let Some(text) = &self.worker {
            return parse(text, "REMORA_WORKER").map(Some);
        }
        if let Some(address) = self.address()? {
            return Ok(Some(address.endpoint));
        }
        let Some(host) = &self.host else { return Ok(None) };
        let port = match &self.port {
            Some(port) => port.parse().with_context(|| format!("invalid TF_WORKER_PORT \"{port}\""))?,
            None => DEFAULT_PORT,
        };
        Ok(Some(Endpoint::tcp(host, port)))
    }

    /// The worker address and token from REMORA_URL, which an agent issues.
    fn address(&self) -> Result<Option<Address>> {
        let parsed = self.url.as_ref().map(|url| url.parse::<Address>()).transpose();
        parsed.context("REMORA_URL is not a valid worker URL")
    }

    /// The token that clients and workers share.
    pub fn token(&self, file: Option<&std::path::Path>) -> Result<Option<Vec<u8>>> {
        match (file, &self.token, &self.token_file) {
            (Some(path), _, _) => Ok(Some(token::read_file(path)?)),
            (None, Some(token), _) => Ok(Some(token.clone().into_bytes())),
            (None, None, Some(path)) => Ok(Some(token::read_file(path)?)),
            (None, None, None) => {
                Ok(self.address()?.and_then(|address| address.token).map(String::into_bytes))
            }
        }
    }

    /// The token for the administration of a worker.
    pub fn admin_token(&self) -> Result<Option<Vec<u8>>> {
        match (&self.admin_token, &self.admin_token_file) {
            (Some(token), _) => Ok(Some(token.clone().into_bytes())),
            (None, Some(path)) => Ok(Some(token::read_file(path)?)),
            (None, None) => Ok(None),
        }
    }

    /// Folders in which a worker without a configured token stores a generated one for programs of the same user.
    pub fn local_tokens(&self) -> Vec<PathBuf> {
        self.local_tokens.clone()
    }

    pub fn trust(&self) -> Result<Option<tls::Trust>> {
        let Some(text) = &self.tls_ca else { return Ok(self.address()?.and_then(|address| address.trust())) };
        let trust = tls::Trust::parse(text);
        Ok(Some(
            trust.with_context(|| {
                format!("REMORA_TLS_CA \"{text}\" is neither a file nor sha256:FINGERPRINT")
            })?,
        ))
    }

    pub fn connect_timeout(&self) -> Duration {
        let seconds = self.connect_timeout.as_deref().and_then(|text| text.parse::<f64>().ok());
        let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        Duration::from_secs_f64(seconds.unwrap_or(3.0).min(3600.0))
    }
}

/// The first worker of a list, and the others.
fn split_list(text: &str) -> (Option<String>, Vec<String>) {
    let mut names = text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    (names.next(), names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_workers_is_passed_on_unless_another_worker_is_used() {
        let environment = Environment::default().for_worker(Some("gpu1:1, remora://0af3@gpu2:2 ,gpu3:3"));
        let first = environment.worker(None).unwrap().unwrap();
        assert_eq!(environment.worker_list(&first), "gpu1:1,remora://0af3@gpu2:2,gpu3:3");
        assert_eq!(environment.worker_list(&"unix:/private".parse().unwrap()), "unix:/private");
        let names: Vec<String> = environment.each_worker().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["gpu1:1", "remora://0af3@gpu2:2", "gpu3:3"]);
        assert_eq!(environment.each_worker()[1].1.token(None).unwrap().as_deref(), Some(b"0af3".as_slice()));
    }

    #[test]
    fn a_url_on_the_command_line_brings_its_token_and_pin_and_an_endpoint_does_not() {
        let environment = Environment {
            worker: Some("gpu1:1".to_owned()),
            token: Some("other".to_owned()),
            tls_ca: Some("/ca.pem".to_owned()),
            ..Environment::default()
        };
        let url = format!("remora+tls://0af3@gpu7:4000?pin=sha256:{}", "5a".repeat(32));
        let named = environment.for_worker(Some(&url));
        assert_eq!(named.worker(None).unwrap().unwrap().to_string(), "tls://gpu7:4000");
        assert_eq!(named.token(None).unwrap().as_deref(), Some(b"0af3".as_slice()));
        assert_eq!(named.trust().unwrap(), Some(tls::Trust::Fingerprint([0x5a; 32])));
        let variables = named.program_variables();
        assert!(variables.contains(&("REMORA_URL", Some(url.as_str()))), "{variables:?}");
        assert!(variables.contains(&("REMORA_TOKEN", None)) && variables.contains(&("REMORA_TLS_CA", None)));
        let named = environment.for_worker(Some("gpu7:4000"));
        assert_eq!(named.worker(None).unwrap().unwrap().to_string(), "gpu7:4000");
        assert_eq!(named.token(None).unwrap().as_deref(), Some(b"other".as_slice()));
        assert!(environment.for_worker(Some("remora://@gpu7")).worker(None).is_err());
    }
}
