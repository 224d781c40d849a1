//! Tenants: who may use a worker. Tokens by name, each with its own limits, uploads and sessions, and the operator's credentials.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use limits::{LimitConfig, Qos};
use parking_lot::RwLock;
use serde::Deserialize;
use transport::token::{self, LocalToken, TokenError};

use crate::allowance::Allowance;
use crate::compile_cache::CompileCache;
use crate::config::{SessionConfig, WorkerError};
use crate::growth::LedgerConfig;

/// Name of the only tenant of a worker with one token or none.
pub const DEFAULT_TENANT: &str = "default";
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
    pub name: String,
    pub token: Vec<u8>,
    pub role: Role,
    /// Limits of all its sessions together on each device; without them its sessions share the worker's limits.
    pub limits: Option<LimitConfig>,
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

/// Parses a size: `16G`, `512M`, `1024K` or plain bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size; expected for example 16G");
    let digits = text.trim_end_matches(['i', 'B', 'b']);
    let (number, shift) = match digits.chars().last() {
        Some('k' | 'K') => (&digits[..digits.len() - 1], 10),
        Some('m' | 'M') => (&digits[..digits.len() - 1], 20),
        Some('g' | 'G') => (&digits[..digits.len() - 1], 30),
        Some('t' | 'T') => (&digits[..digits.len() - 1], 40),
        _ => (digits, 0),
    };
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// A tenant of a running worker.
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) max_sessions: Option<usize>,
    /// Configuration for the processes of its sessions.
    pub(crate) config: SessionConfig,
    pub(crate) allowance: Option<Arc<Allowance>>,
    token: Option<Vec<u8>>,
    limits: Option<LimitConfig>,
}

/// Identity of an authenticated client.
#[derive(Clone)]
pub(crate) enum Who {
    Tenant(Arc<Tenant>),
    /// The operator, by an admin token.
    Admin,
    /// The user of a worker without tokens: the only tenant, and also the operator.
    Owner(Arc<Tenant>),
}

impl Who {
    /// The tenant whose sessions it may open and reattach to.
    pub(crate) fn tenant(&self) -> Option<&Arc<Tenant>> {
        match self {
            Who::Tenant(tenant) | Who::Owner(tenant) => Some(tenant),
            Who::Admin => None,
        }
    }

    pub(crate) fn may_administer(&self) -> bool {
        !matches!(self, Who::Tenant(_))
    }

    /// The only tenant whose sessions it may see; `None` for all.
    pub(crate) fn sees_only(&self) -> Option<&str> {
        match self {
            Who::Tenant(tenant) => Some(&tenant.name),
            Who::Admin | Who::Owner(_) => None,
        }
    }
}

/// All tenants of a worker.
pub(crate) struct Tenants {
    state: RwLock<State>,
    base: SessionConfig,
    /// The worker's limits, shared by tenants without limits of their own.
    shared: Option<Arc<Allowance>>,
    devices: u32,
    seats: u32,
    /// Tokens given by command-line options, in addition to the file.
    fixed: Vec<TokenConfig>,
    file: Option<PathBuf>,
}

#[derive(Default)]
struct State {
    tenants: Vec<Arc<Tenant>>,
    admins: Vec<Vec<u8>>,
    /// Tokens written for programs of the worker's own user, if there are no other tokens.
    local: Vec<LocalToken>,
}

impl Tenants {
    pub(crate) fn new(
        base: SessionConfig,
        devices: u32,
        seats: u32,
        fixed: Vec<TokenConfig>,
        file: Option<PathBuf>,
        ledgers: Option<&LedgerConfig>,
    ) -> Result<Tenants, WorkerError> {
        let shared = base.limits.map(|limits| allowance(limits, devices, seats, ledgers)).transpose()?;
        let tenants = Tenants { state: RwLock::default(), base, shared, devices, seats, fixed, file };
        tenants.load()?;
        Ok(tenants)
    }

    /// Reloads the tokens file. Unchanged tenants are kept as they are; returns the names of those that were removed.
    pub(crate) fn load(&self) -> Result<Vec<String>, WorkerError> {
        let mut tokens = self.fixed.clone();
        if let Some(file) = &self.file {
            tokens.extend(read_tokens(file)?);
        }
        let before = self.state.read().tenants.clone();
        let mut tenants = Vec::new();
        for token in tokens.iter().filter(|token| token.role == Role::Tenant) {
            let same = before.iter().find(|it| {
                it.name == token.name
                    && it.token.as_ref() == Some(&token.token)
                    && (it.limits, it.max_sessions) == (token.limits, token.max_sessions)
            });
            tenants.push(match same {
                Some(tenant) => Arc::clone(tenant),
                None => self.tenant(Some(token), before.iter().find(|it| it.name == token.name))?,
            });
        }
        let admins = tokens.iter().filter(|token| token.role == Role::Admin);
        let admins = admins.map(|token| token.token.clone()).collect();
        if tenants.is_empty() {
            tenants.push(self.tenant(None, None)?);
        }
        let gone = before.iter().filter(|it| !tenants.iter().any(|new| new.name == it.name));
        let gone = gone.map(|tenant| tenant.name.clone()).collect();
        let mut state = self.state.write();
        (state.tenants, state.admins) = (tenants, admins);
        Ok(gone)
    }

    fn tenant(
        &self,
        token: Option<&TokenConfig>,
        before: Option<&Arc<Tenant>>,
    ) -> Result<Arc<Tenant>, WorkerError> {
        let secret = token.map(|token| token.token.as_slice());
        let mut config = self.base.clone();
        config.uploads = config.uploads.map(|uploads| uploads.of_tenant(secret));
        config.compiler.cache = config.compiler.cache.map(|all| CompileCache::of_tenant(&all, secret));
        let limits = token.and_then(|token| token.limits);
        let own = match (limits, before) {
            // Running sessions keep their seats on the limits page.
            (Some(limits), Some(before)) if before.limits == Some(limits) => before.allowance.clone(),
            (Some(limits), _) => Some(allowance(limits, self.devices, self.seats, None)?),
            (None, _) => self.shared.clone(),
        };
        config.limits = limits.or(config.limits);
        Ok(Arc::new(Tenant {
            name: token.map_or(DEFAULT_TENANT, |token| &token.name).to_owned(),
            max_sessions: token.and_then(|token| token.max_sessions),
            config,
            allowance: own,
            token: secret.map(<[u8]>::to_vec),
            limits,
        }))
    }

    /// Whether clients must prove a token.
    pub(crate) fn have_tokens(&self) -> bool {
        self.state.read().tenants.iter().any(|tenant| tenant.token.is_some())
    }

    /// Creates a token for the worker's own user on this port, for systems where the kernel does not report the user of a
    /// connection.
    pub(crate) fn add_local(&self, folder: &Path, port: u16) -> Result<(), TokenError> {
        let local = LocalToken::create(folder, port)?;
        self.state.write().local.push(local);
        Ok(())
    }

    /// Removes the files of local tokens.
    pub(crate) fn forget_local(&self) {
        self.state.write().local.clear();
    }

    /// Returns the identity of the user of a worker that needs no token.
    pub(crate) fn owner(&self) -> Option<Who> {
        self.state.read().tenants.first().map(|tenant| Who::Owner(Arc::clone(tenant)))
    }

    /// Returns every token with the identity that it proves.
    pub(crate) fn tokens(&self) -> Vec<(Vec<u8>, Who)> {
        let state = self.state.read();
        let tenants = state.tenants.iter();
        let mut tokens: Vec<(Vec<u8>, Who)> = tenants
            .filter_map(|tenant| Some((tenant.token.clone()?, Who::Tenant(Arc::clone(tenant)))))
            .collect();
        tokens.extend(state.admins.iter().map(|token| (token.clone(), Who::Admin)));
        if let Some(owner) = state.tenants.first() {
            let local = state.local.iter().map(|it| (it.token().to_vec(), Who::Owner(Arc::clone(owner))));
            tokens.extend(local);
        }
        tokens
    }

    /// Returns the tenant that gets an arriving session: the named one, or the only one.
    pub(crate) fn heir(&self, name: Option<&str>) -> Result<Arc<Tenant>, String> {
        let state = self.state.read();
        let names = || state.tenants.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        match (name, &state.tenants[..]) {
            (None, [only]) => Ok(Arc::clone(only)),
            (None, _) => {
                Err(format!("this worker has several tenants: name one with --tenant ({})", names()))
            }
            // A session of a worker with a single token can move to any other worker with a single token.
            (Some(DEFAULT_TENANT), [only]) => Ok(Arc::clone(only)),
            (Some(name), tenants) => {
                tenants.iter().find(|it| it.name == name).map(Arc::clone).ok_or_else(|| {
                    format!("this worker has no tenant \"{name}\": name one with --tenant ({})", names())
                })
            }
        }
    }

    /// The limits of the worker as a whole.
    pub(crate) fn shared(&self) -> Option<&Arc<Allowance>> {
        self.shared.as_ref()
    }

    /// Returns every limits page once.
    pub(crate) fn allowances(&self) -> Vec<Arc<Allowance>> {
        let mut all: Vec<Arc<Allowance>> = self.shared.iter().cloned().collect();
        for tenant in &self.state.read().tenants {
            if let Some(allowance) = tenant.allowance.as_ref().filter(|_| tenant.limits.is_some()) {
                all.push(Arc::clone(allowance));
            }
        }
        all
    }

    /// Whether there are limits, or a reload of the file may add some.
    pub(crate) fn are_limited(&self) -> bool {
        self.file.is_some() || !self.allowances().is_empty()
    }
}

fn allowance(
    limits: LimitConfig,
    devices: u32,
    seats: u32,
    ledgers: Option<&LedgerConfig>,
) -> Result<Arc<Allowance>, WorkerError> {
    let allowance = Allowance::new(limits, devices, seats)
        .map_err(|source| WorkerError::Io { what: "cannot create the limits page", source })?;
    Ok(Arc::new(match ledgers {
        Some(ledgers) => allowance.within(ledgers)?,
        None => allowance,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::CompilerConfig;

    const TWO: &str = "[[token]]\nname = \"alice\"\ntoken = \"alice-0123456789abcdef\"\nmemory-limit = \"1M\"\ncompute-limit = 25\n\
        max-sessions = 2\n[[token]]\nname = \"bob\"\ntoken = \"bob-0123456789abcdef\"\n[[token]]\nname = \"root\"\n\
        role = \"admin\"\ntoken = \"root-0123456789abcdef\"\n";

    fn write(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("tokens.toml");
        let _ = std::fs::remove_file(&path);
        token::write_new(&path, text).unwrap();
        path
    }

    fn base() -> SessionConfig {
        SessionConfig {
            backend: crate::config::BackendConfig::Hip { library: None },
            watchdog: None,
            grace_closed: std::time::Duration::ZERO,
            grace_lost: std::time::Duration::ZERO,
            compiler: CompilerConfig::default(),
            unconfined: false,
            uploads: Some(crate::store::UploadConfig { folder: "/store".into(), limit: 1 }),
            limits: None,
        }
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
    fn each_tenant_has_its_own_uploads_and_limits() {
        let folder = tempfile::tempdir().unwrap();
        let tenants = Tenants::new(base(), 1, 8, Vec::new(), Some(write(folder.path(), TWO)), None).unwrap();
        let [(_, alice), (_, bob), (_, admin)] = &tenants.tokens()[..] else { panic!() };
        let folder_of = |who: &Who| who.tenant().unwrap().config.uploads.clone().unwrap().folder;
        assert_ne!(folder_of(alice), folder_of(bob));
        assert!(alice.tenant().unwrap().allowance.is_some() && bob.tenant().unwrap().allowance.is_none());
        assert!(!alice.may_administer() && admin.may_administer() && admin.tenant().is_none());
        assert_eq!((alice.sees_only(), admin.sees_only()), (Some("alice"), None));
        assert!(tenants.heir(None).is_err() && tenants.heir(Some("carol")).is_err());
        assert_eq!(tenants.heir(Some("bob")).ok().unwrap().name, "bob");
    }

    #[test]
    fn a_new_file_adds_and_removes_tenants_and_a_broken_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), TWO);
        let tenants = Tenants::new(base(), 1, 8, Vec::new(), Some(path), None).unwrap();
        let alice = tenants.heir(Some("alice")).ok().unwrap();
        write(folder.path(), "[[token]]\n");
        assert!(tenants.load().is_err());
        assert_eq!(tenants.tokens().len(), 3);
        let (kept, _) = TWO.split_once("[[token]]\nname = \"bob\"").unwrap();
        write(
            folder.path(),
            &format!("{kept}[[token]]\nname = \"carol\"\ntoken = \"carol-0123456789abcdef\"\n"),
        );
        assert_eq!(tenants.load().unwrap(), ["bob"]);
        assert!(Arc::ptr_eq(&alice, &tenants.heir(Some("alice")).ok().unwrap()), "its page of limits stays");
        assert!(tenants.heir(Some("carol")).is_ok());
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
