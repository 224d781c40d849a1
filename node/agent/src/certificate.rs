//! The TLS certificate of an agent: configured by the operator, or self-signed, generated once and stored.
//!
//! The HTTP interface and the workers present the same certificate, so an agent has one fingerprint.

use std::path::PathBuf;

use transport::TransportError;
use transport::tls::Identity;

use crate::config::Config;
use crate::error::AgentError;
use crate::state::Folder;

/// The files of a certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Returns the certificate that a configuration needs; `None` if neither the HTTP interface nor the workers use TLS.
    pub(crate) fn find(folder: &Folder, config: &Config) -> Result<Option<Certificate>, AgentError> {
        let found = match (&config.tls_cert, &config.tls_key) {
            (Some(chain), Some(key)) => Certificate { chain: chain.clone(), key: key.clone() },
            _ if config.serves_https() || config.workers_use_tls() => Certificate::kept(folder, config)?,
            _ => return Ok(None),
        };
        // Refuses a key that does not match the certificate now rather than at the first connection.
        found.identity()?.server_config()?;
        Ok(Some(found))
    }

    pub(crate) fn identity(&self) -> Result<Identity, TransportError> {
        Identity::from_files(&self.chain, &self.key)
    }

    /// The fingerprint that clients pin.
    pub(crate) fn fingerprint(&self) -> Result<String, TransportError> {
        Ok(self.identity()?.fingerprint_text())
    }

    /// Returns the self-signed certificate in the agent's folder, and generates it if it is missing.
    fn kept(folder: &Folder, config: &Config) -> Result<Certificate, AgentError> {
        let in_folder = |name: &str| folder.path().join(name);
        let kept = Certificate { chain: in_folder("tls-cert.pem"), key: in_folder("tls-key.pem") };
        if !(kept.chain.exists() && kept.key.exists()) {
            let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let own = [config.node.as_str(), config.advertised(), config.worker_host.as_str()];
            names.extend(own.into_iter().filter(|name| !name.is_empty()).map(str::to_owned));
            names.sort();
            names.dedup();
            let (chain, key) = Identity::self_signed_pem(&names)?;
            folder.replace("tls-key.pem", key.as_bytes())?;
            folder.replace("tls-cert.pem", chain.as_bytes())?;
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_self_signed_certificate_is_made_once_and_its_key_is_private() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::take(data.path()).unwrap();
        assert_eq!(Certificate::find(&folder, &Config::default()).unwrap(), None);
        let config =
            Config { node: "gpu7".to_owned(), worker_host: "0.0.0.0".to_owned(), ..Config::default() };
        let first = Certificate::find(&folder, &config).unwrap().unwrap();
        let fingerprint = first.fingerprint().unwrap();
        assert!(fingerprint.starts_with("sha256:"), "{fingerprint}");
        assert_eq!(std::fs::metadata(&first.key).unwrap().permissions().mode() & 0o777, 0o600);
        let second = Certificate::find(&folder, &config).unwrap().unwrap();
        assert_eq!(second.fingerprint().unwrap(), fingerprint);
    }

    #[test]
    fn a_given_certificate_is_used_and_a_key_of_another_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::take(data.path()).unwrap();
        let files = ["a", "b"].map(|name| {
            let (chain, key) = Identity::self_signed_pem(&["gpu7".to_owned()]).unwrap();
            let paths = ["cert", "key"].map(|kind| data.path().join(format!("{name}-{kind}.pem")));
            std::fs::write(&paths[0], chain).unwrap();
            std::fs::write(&paths[1], key).unwrap();
            paths
        });
        let config = |chain: &PathBuf, key: &PathBuf| Config {
            tls_cert: Some(chain.clone()),
            tls_key: Some(key.clone()),
            ..Config::default()
        };
        let found = Certificate::find(&folder, &config(&files[0][0], &files[0][1])).unwrap().unwrap();
        assert_eq!(found.chain, files[0][0]);
        assert!(Certificate::find(&folder, &config(&files[0][0], &files[1][1])).is_err());
    }
}
