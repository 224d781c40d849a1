//! The self-signed certificate of a worker, stored so that clients that pin it can reconnect to the next worker.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use transport::tls::Identity;

/// Returns the certificate for these names that is stored in the folder. Generates and stores it if there is none.
pub fn stored(folder: &Path, names: &[String]) -> Result<Identity> {
    let (chain, key) = (folder.join("tls-cert.pem"), folder.join("tls-key.pem"));
    // PEM files may begin with other text.
    let head = format!("names: {}\n", names.join(" "));
    let is_same = fs::read_to_string(&chain).is_ok_and(|text| text.starts_with(&head));
    if !is_same || !key.exists() {
        let (certificate, secret) = Identity::self_signed_pem(names)?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.and_then(|()| replace(&key, &secret))
            .and_then(|()| replace(&chain, &(head + &certificate)))
            .with_context(|| format!("cannot store the certificate in {}", folder.display()))?;
    }
    Ok(Identity::from_files(&chain, &key)?)
}

/// Replaces a file by one that only its owner can read.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let part = path.with_extension("new");
    let _ = fs::remove_file(&part);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_certificate_is_generated_once_for_the_same_names_and_its_key_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("sessions");
        let fingerprint = |name: &str| {
            let identity = stored(&folder, &["localhost".to_owned(), name.to_owned()]).unwrap();
            identity.server_config().unwrap();
            identity.fingerprint_text()
        };
        let first = fingerprint("gpu1");
        assert_eq!(fingerprint("gpu1"), first);
        assert_ne!(fingerprint("gpu2"), first);
        for (path, mode) in [(folder.clone(), 0o700), (folder.join("tls-key.pem"), 0o600)] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
        }
    }
}
