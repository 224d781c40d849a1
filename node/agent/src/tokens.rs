//! The tokens of the HTTP interface and the roles they grant.

use std::path::{Path, PathBuf};

use axum::http::{HeaderMap, Method, header};
use transport::token;

use crate::config::Config;
use crate::error::AgentError;
use crate::state::Folder;

/// Role of a token's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// May do everything.
    Admin,
    /// May read everything except the tokens of allocations, and change nothing.
    Reader,
}

impl Role {
    /// Checks whether this role permits an HTTP method.
    pub(crate) fn permit(self, method: &Method) -> Result<(), AgentError> {
        match self {
            Role::Reader if *method != Method::GET && *method != Method::HEAD => Err(AgentError::Forbidden(
                "this token is read-only; the request needs the token in the file api-token",
            )),
            _ => Ok(()),
        }
    }
}

/// One token for each role.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tokens {
    admin: String,
    reader: String,
}

impl std::fmt::Debug for Tokens {
    /// Hides the tokens, so that they do not appear in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    /// Reads the tokens from the configured files, or from the agent's folder, where missing ones are generated.
    pub(crate) fn read(folder: &Folder, config: &Config) -> Result<Tokens, AgentError> {
        let token = |given: &Option<PathBuf>, name| match given {
            Some(path) => read(path),
            None => kept(folder, name),
        };
        let admin = token(&config.api_token_file, "api-token")?;
        let reader = token(&config.read_token_file, "read-token")?;
        if same(&admin, &reader) {
            let path = config.read_token_file.clone().unwrap_or_else(|| folder.path().join("read-token"));
            let problem =
                "it contains the administrator token; the read-only token must be different".to_owned();
            return Err(AgentError::Token { path, problem });
        }
        Ok(Tokens { admin, reader })
    }

    /// Returns the role of a token. Both tokens are always compared, so that the time reveals nothing.
    pub(crate) fn role(&self, token: &str) -> Option<Role> {
        let (admin, reader) = (same(token, &self.admin), same(token, &self.reader));
        if admin { Some(Role::Admin) } else { reader.then_some(Role::Reader) }
    }
}

/// Returns the bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Compares two secrets in constant time: the time does not reveal where they differ.
pub(crate) fn same(left: &str, right: &str) -> bool {
    let differences = left.bytes().zip(right.bytes()).fold(0, |sum, (left, right)| sum | (left ^ right));
    left.len() == right.len() && differences == 0
}

/// Reads a token from a file that only its owner may read, and checks its strength.
fn read(path: &Path) -> Result<String, AgentError> {
    let bytes = token::read_file(path)?;
    token::check_strength(&format!("the token in {}", path.display()), &bytes)?;
    String::from_utf8(bytes).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic())).ok_or_else(
        || {
            let problem = "it contains characters other than printable ASCII letters, digits and punctuation"
                .to_owned();
            AgentError::Token { path: path.to_owned(), problem }
        },
    )
}

fn kept(folder: &Folder, name: &str) -> Result<String, AgentError> {
    let path = folder.path().join(name);
    if !path.exists() {
        let token = crate::state::new_token()?;
        folder.replace(name, format!("{token}\n").as_bytes())?;
    }
    read(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_the_same_only_when_they_are() {
        assert!(same("abc", "abc"));
        for other in ["abd", "ab", "abcd", ""] {
            assert!(!same("abc", other), "{other}");
        }
    }

    #[test]
    fn a_reader_may_only_read() {
        for method in [Method::POST, Method::DELETE, Method::PUT, Method::PATCH] {
            assert!(Role::Reader.permit(&method).is_err() && Role::Admin.permit(&method).is_ok(), "{method}");
        }
        Role::Reader.permit(&Method::GET).unwrap();
    }

    #[test]
    fn tokens_are_made_once_and_those_of_both_roles_differ() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::take(data.path()).unwrap();
        let first = Tokens::read(&folder, &Config::default()).unwrap();
        assert!(first == Tokens::read(&folder, &Config::default()).unwrap());
        assert_eq!(first.role(&first.admin), Some(Role::Admin));
        assert_eq!(first.role(&first.reader), Some(Role::Reader));
        assert_eq!(first.role("0123456789abcdef"), None);
        let config = Config { read_token_file: Some(data.path().join("api-token")), ..Config::default() };
        assert!(matches!(Tokens::read(&folder, &config), Err(AgentError::Token { .. })));
    }

    #[test]
    fn token_files_that_others_read_and_short_tokens_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::take(data.path()).unwrap();
        let path = data.path().join("given");
        let config = Config { api_token_file: Some(path.clone()), ..Config::default() };
        for (text, mode, wanted) in [
            ("0123456789abcdef\n", 0o600, None),
            ("0123456789abcde\n", 0o600, Some("15")),
            ("0123456789abcdef\n", 0o640, Some("mode 640")),
            ("0123456789abcdef\n", 0o604, Some("mode 604")),
        ] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match (Tokens::read(&folder, &config), wanted) {
                (Ok(_), None) => {}
                (Err(error), Some(wanted)) => assert!(error.to_string().contains(wanted), "{error}"),
                (other, _) => panic!("{text:?} with mode {mode:o}: {other:?}"),
            }
        }
    }
}
