//! Access tokens: generates strong ones, reads them from private files, and manages the local token that a worker without tokens
//! creates for programs of its own user.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Endpoint;
use crate::os::private_file;

/// Minimum token length; shorter ones can be guessed.
pub const MIN_TOKEN_BYTES: usize = 16;
/// Bytes of randomness in a generated token.
const RANDOM_BYTES: usize = 32;
/// Size limit of a token file.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Reason why a token is refused.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum TokenError {
    #[error("token file {} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "token file {} has mode {mode:03o}: other users may read it; run `chmod 600 {}` (for a Kubernetes secret: defaultMode: 0400)",
        path.display(),
        path.display()
    )]
    Shared { path: PathBuf, mode: u32 },
    #[error("token file {} is empty; `remora token new --out {}` makes a token", path.display(), path.display())]
    Empty { path: PathBuf },
    #[error(
        "{name} has {found} characters, the minimum is {MIN_TOKEN_BYTES}; `remora token new` makes a strong one"
    )]
    Short { name: String, found: usize },
    #[error("{name} repeats the same few characters; `remora token new` makes a strong one")]
    Weak { name: String },
    #[error("token file {} exists; choose another name or remove it first", path.display())]
    Exists { path: PathBuf },
    #[error("token file {} cannot be written", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("cannot get random bytes from the system: {0}")]
    Randomness(String),
}

/// Reads a file that holds secrets: only its owner may have permission to read it.
pub fn read_private(path: &Path) -> Result<Vec<u8>, TokenError> {
    let unreadable = |source| TokenError::Unreadable { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    // Checks the open file, not the path, which may point elsewhere by now.
    if let Some(mode) = private_file::shared_mode(&file).map_err(unreadable)? {
        return Err(TokenError::Shared { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_FILE_BYTES), &mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Reads a token file and trims white space around the token.
pub fn read_file(path: &Path) -> Result<Vec<u8>, TokenError> {
    let token = read_private(path)?.trim_ascii().to_vec();
    match token.is_empty() {
        true => Err(TokenError::Empty { path: path.to_owned() }),
        false => Ok(token),
    }
}

/// Refuses a token that can be guessed. `name` identifies it in the error.
pub fn check_strength(name: &str, token: &[u8]) -> Result<(), TokenError> {
    let name = name.to_owned();
    if token.len() < MIN_TOKEN_BYTES {
        return Err(TokenError::Short { name, found: token.len() });
    }
    let mut distinct = token.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < 6 {
        return Err(TokenError::Weak { name });
    }
    Ok(())
}

/// Generates a token: 256 random bits as letters, digits, `-` and `_`, so that it fits into a URL.
pub fn generate() -> Result<String, TokenError> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|error| TokenError::Randomness(error.to_string()))?;
    let mut text = String::new();
    for group in random.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            text.push(char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    Ok(text)
}

/// Writes a token to a new file that only its owner can read.
pub fn write_new(path: &Path, token: &str) -> Result<(), TokenError> {
    let unwritable = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => TokenError::Exists { path: path.to_owned() },
        _ => TokenError::Unwritable { path: path.to_owned(), source },
    };
    let mut file = private_file::create(path).map_err(unwritable)?;
    writeln!(file, "{token}").and_then(|()| file.sync_all()).map_err(unwritable)
}

/// Returns the folders of local tokens: below the folder for run-time files (`XDG_RUNTIME_DIR`), and below that for state
/// (`XDG_STATE_HOME`, or `.local/state` in the home folder).
pub fn local_folders(
    runtime: Option<PathBuf>,
    state: Option<PathBuf>,
    home: Option<PathBuf>,
) -> Vec<PathBuf> {
    let state = state.or_else(|| home.map(|home| home.join(".local/state")));
    [runtime, state].into_iter().flatten().map(|folder| folder.join("remora")).collect()
}

/// The token that a worker without tokens created for its own user. Removes the file when dropped.
#[derive(Debug)]
pub struct LocalToken {
    token: Vec<u8>,
    path: PathBuf,
}

impl LocalToken {
    /// Generates a token for a port and writes it where programs of the same user look for it. Replaces an older file.
    pub fn create(folder: &Path, port: u16) -> Result<LocalToken, TokenError> {
        let unwritable = |source| TokenError::Unwritable { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        let token = generate()?;
        let path = local_path(folder, port);
        let new = path.with_extension(format!("{}.new", std::process::id()));
        write_new(&new, &token)?;
        std::fs::rename(&new, &path).map_err(unwritable)?;
        Ok(LocalToken { token: token.into_bytes(), path })
    }

    /// The token's bytes.
    pub fn token(&self) -> &[u8] {
        &self.token
    }
}

impl Drop for LocalToken {
    fn drop(&mut self) {
        // A later worker on the same port may have replaced the file.
        if read_file(&self.path).is_ok_and(|token| token == self.token) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Finds the token that a worker on this machine created for its own user, if the endpoint is a loopback address. Searches all
/// `folders`.
pub fn find_local(folders: &[PathBuf], endpoint: &Endpoint) -> Option<Vec<u8>> {
    let (Endpoint::Tcp { host, port } | Endpoint::Tls { host, port }) = endpoint else { return None };
    let is_loopback = host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if !is_loopback {
        return None;
    }
    folders.iter().map(|folder| local_path(folder, *port)).find_map(|path| {
        // A file of another user could make this program authenticate to that user's worker.
        private_file::is_trusted(&path).ok()?.then(|| read_file(&path).ok()).flatten()
    })
}

fn local_path(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("local-{port}.token"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_tokens_are_strong_different_and_fit_into_urls() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
        assert!(one.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)));
        check_strength("the token", one.as_bytes()).unwrap();
        let url: crate::Address = format!("remora://{one}@host:1").parse().unwrap();
        assert_eq!(url.token, Some(one));
    }

    #[test]
    fn short_and_repetitive_tokens_are_refused_with_the_way_to_make_one() {
        for token in ["x", "open sesame", "aaaaaaaaaaaaaaaaaaaaaaaa"] {
            let error = check_strength("the token", token.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("remora token new") && !error.contains(token), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_refused_and_says_how_to_fix_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        write_new(&path, "0123456789abcdef").unwrap();
        assert_eq!(read_file(&path).unwrap(), b"0123456789abcdef");
        assert!(matches!(write_new(&path, "again"), Err(TokenError::Exists { .. })));
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = read_file(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:03o}")), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        assert!(read_file(&path).is_ok());
    }

    #[test]
    fn the_local_token_is_found_for_loopback_only_and_removed_with_its_worker() {
        let folder = tempfile::tempdir().unwrap();
        let local = LocalToken::create(folder.path(), 7).unwrap();
        let folders = [folder.path().join("missing"), folder.path().to_owned()];
        for (endpoint, found) in [
            ("127.0.0.1:7", true),
            ("localhost:7", true),
            ("[::1]:7", true),
            ("127.0.0.1:8", false),
            ("gpu:7", false),
        ] {
            assert_eq!(find_local(&folders, &endpoint.parse().unwrap()).is_some(), found, "{endpoint}");
        }
        drop(local);
        assert!(find_local(&folders, &"127.0.0.1:7".parse().unwrap()).is_none());
    }
}
