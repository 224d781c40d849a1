//! Tokens: the file that names them, their roles and their limits.

use std::path::{Path, PathBuf};

use limits::{LimitConfig, Qos};
use serde::Deserialize;
use transport::token::{self, TokenError};
use worker_status::{DEFAULT_TENANT, parse_bytes};

/// Limit on tokens: each connection is checked against every one of them.
const MAX_TOKENS: usize = 1000;

/// Role of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May open sessions and use its own.
    #[default]
    Tenant,
    /// May list, take and resume the sessions of all tenants. Cannot open a session.
    Admin,
}

/// A token with its name, role and limits.
#[derive(Clone, PartialEq)]
pub struct TokenConfig {
    /// Name of the tenant.
    pub name: String,
    /// The secret.
    pub token: Vec<u8>,
    /// What the token permits.
    pub role: Role,
    /// Limits of all its sessions together on each device; without them its sessions share the worker's limits.
    pub limits: Option<LimitConfig>,
    /// Limit on the tenant's sessions at the same time.
    pub max_sessions: Option<usize>,
}

impl TokenConfig {
    /// The token of a worker with a single tenant.
    pub fn only(token: Vec<u8>) -> TokenConfig {
        let name = DEFAULT_TENANT.to_owned();
        TokenConfig { name, token, role: Role::Tenant, limits: None, max_sessions: None }
    }

    /// The operator's token.
    pub fn admin(token: Vec<u8>) -> TokenConfig {
        TokenConfig { name: "admin".to_owned(), role: Role::Admin, ..TokenConfig::only(token) }
    }

    pub(crate) fn label(&self) -> String {
        match self.role {
            Role::Tenant => format!("token \"{}\"", self.name),
            Role::Admin => format!("admin token \"{}\"", self.name),
        }
    }
}

impl std::fmt::Debug for TokenConfig {
    /// Omits the token, so that it cannot get into a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenConfig({}, {:?})", self.name, self.role)
    }
}

/// Error in a tokens file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum TokensError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("tokens file {} is invalid: {problem}", path.display())]
    Syntax { path: PathBuf, problem: String },
    #[error("tokens file {}: token \"{name}\": {problem}", path.display())]
    Entry { path: PathBuf, name: String, problem: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Row {
    name: String,
    token: Option<String>,
    token_file: Option<PathBuf>,
    #[serde(default)]
    role: Role,
    memory_limit: Option<String>,
    compute_limit: Option<f64>,
    compute_request: Option<f64>,
    qos: Option<Qos>,
    max_sessions: Option<usize>,
}

/// Reads a tokens file (docs/tokens.md). Only its owner may have permission to read it.
pub fn read_tokens(path: &Path) -> Result<Vec<TokenConfig>, TokensError> {
    let syntax = |problem: String| TokensError::Syntax { path: path.to_owned(), problem };
    let text = String::from_utf8(token::read_private(path)?).map_err(|error| syntax(error.to_string()))?;
    // The parser's own message quotes lines of the file, which may hold tokens.
    let file: File = toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start].lines().count().max(1));
        let problem = error.message().to_owned();
        syntax(line.map_or_else(|| problem.clone(), |line| format!("line {line}: {problem}")))
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut tokens: Vec<TokenConfig> = Vec::new();
    for row in file.token {
        let name = row.name.clone();
        let wrong = |problem: &str| TokensError::Entry {
            path: path.to_owned(),
            name: name.clone(),
            problem: problem.to_owned(),
        };
        let token = row.read(folder, &wrong)?;
        if tokens.iter().any(|it| it.name == token.name) {
            return Err(wrong("another token has this name"));
        }
        if tokens.iter().any(|it| it.token == token.token) {
            return Err(wrong("another name has the same token"));
        }
        tokens.push(token);
    }
    if tokens.len() > MAX_TOKENS {
        return Err(syntax(format!("it has {} tokens; the limit is {MAX_TOKENS}", tokens.len())));
    }
    if !tokens.iter().any(|it| it.role == Role::Tenant) {
        return Err(syntax("it has no [[token]] for a tenant".to_owned()));
    }
    Ok(tokens)
}

impl Row {
    fn read(self, folder: &Path, wrong: &dyn Fn(&str) -> TokensError) -> Result<TokenConfig, TokensError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(plain) {
            return Err(wrong("a name must have 1 to 64 letters, digits, '-', '.' or '_'"));
        }
        let token = match (&self.token, &self.token_file) {
            (Some(token), None) => token.trim().as_bytes().to_vec(),
            (None, Some(file)) => token::read_file(&folder.join(file))?,
            _ => return Err(wrong("it needs either token or token-file")),
        };
        token::check_strength(&format!("token \"{}\"", self.name), &token)?;
        let memory =
            self.memory_limit.as_deref().map(parse_bytes).transpose().map_err(|error| wrong(&error))?;
        let asked = memory.is_some()
            || self.compute_limit.is_some()
            || self.compute_request.is_some()
            || self.qos.is_some();
        let limits = LimitConfig {
            memory,
            compute: self.compute_limit,
            request: self.compute_request,
            qos: self.qos.unwrap_or(if self.compute_request.is_some() { Qos::Medium } else { Qos::High }),
            ..LimitConfig::default()
        };
        if asked {
            limits.check().map_err(|error| wrong(&error.to_string()))?;
        }
        if self.role == Role::Admin && (asked || self.max_sessions.is_some()) {
            return Err(wrong("an admin token cannot open sessions, so it takes no limits"));
        }
        Ok(TokenConfig {
            name: self.name,
            token,
            role: self.role,
            limits: asked.then_some(limits),
            max_sessions: self.max_sessions,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::supervisor) const TWO: &str = "[[token]]\nname = \"alice\"\ntoken = \"alice-0123456789abcdef\"\nmemory-limit = \"1M\"\ncompute-limit = 25\n\
        max-sessions = 2\n[[token]]\nname = \"bob\"\ntoken = \"bob-0123456789abcdef\"\n[[token]]\nname = \"root\"\n\
        role = \"admin\"\ntoken = \"root-0123456789abcdef\"\n";

    pub(in crate::supervisor) fn write(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("tokens.toml");
        let _ = std::fs::remove_file(&path);
        token::write_new(&path, text).unwrap();
        path
    }

    #[test]
    fn a_file_of_tokens_is_read_with_names_roles_and_limits() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = read_tokens(&write(folder.path(), TWO)).unwrap();
        let limits = tokens[0].limits.unwrap();
        assert_eq!(
            (limits.memory, limits.compute, tokens[0].max_sessions),
            (Some(1 << 20), Some(25.0), Some(2))
        );
        assert_eq!((tokens[1].limits, tokens[2].role), (None, Role::Admin));
        token::write_new(&folder.path().join("t"), "from-file-0123456789").unwrap();
        let path = write(folder.path(), "[[token]]\nname = \"a\"\ntoken-file = \"t\"\n");
        assert_eq!(read_tokens(&path).unwrap()[0].token, b"from-file-0123456789");
    }

    #[test]
    fn mistakes_are_refused_and_no_token_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let token = "token = \"secret-0123456789abcdef\"\n";
        for (text, word) in [
            ("", "no [[token]]"),
            ("[[token]]\nname = \"a\"\ntoken = \"short\"\n", "remora token new"),
            (&format!("[[token]]\nname = \"a b\"\n{token}"), "letters"),
            ("[[token]]\nname = \"a\"\n", "token-file"),
            (&format!("[[token]]\nname = \"a\"\n{token}memory-limit = \"much\"\n"), "much"),
            (&format!("[[token]]\nname = \"a\"\n{token}compute-limit = 200\n"), "200"),
            (&format!("[[token]]\nname = \"a\"\n{token}colour = 1\n"), "colour"),
            (&format!("[[token]]\nname = \"a\"\n{token}[[token]]\nname = \"b\"\n{token}"), "same token"),
            (&format!("[[token]]\nname = \"a\"\n{token}qos = \n"), "line"),
        ] {
            let error = read_tokens(&write(folder.path(), text)).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("secret-"), "{error}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("16G"), Ok(16 << 30));
        assert_eq!(parse_bytes("16GiB"), Ok(16 << 30));
        assert_eq!(parse_bytes("512m"), Ok(512 << 20));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        for wrong in ["", "G", "-1", "0", "9999999999T", "1X"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
