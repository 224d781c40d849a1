//! Tenants: who may use a worker. Tokens by name, each with its own limits, uploads and sessions, and the operator's credentials.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use limits::LimitConfig;
use parking_lot::{Mutex, RwLock};
use transport::token::{LocalToken, TokenError};
use worker_status::DEFAULT_TENANT;

use crate::compile::cache::CompileCache;
use crate::config::SessionConfig;
use crate::error::WorkerError;
use crate::supervisor::allowance::Allowance;
use crate::supervisor::custody::Custody;
use crate::supervisor::ledgers::LedgerConfig;
use crate::supervisor::tokens::{Role, TokenConfig, read_tokens};

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

impl Tenant {
    /// The tenant, for a session that still has the limits that it started with.
    pub(crate) fn limited_by(&self, allowance: Arc<Allowance>) -> Tenant {
        Tenant {
            name: self.name.clone(),
            max_sessions: self.max_sessions,
            config: self.config.clone(),
            allowance: Some(allowance),
            token: self.token.clone(),
            limits: self.limits,
        }
    }
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
    pages: HeldPages,
}

/// Limits pages of an earlier supervisor, and where pages are left to the next one.
#[derive(Default)]
pub(crate) struct HeldPages {
    pub(crate) custody: Arc<Custody>,
    pub(crate) adopted: Mutex<Vec<Allowance>>,
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
        pages: HeldPages,
    ) -> Result<Tenants, WorkerError> {
        let shared =
            base.limits.map(|it| pages.allowance(None, it, (devices, seats), ledgers)).transpose()?;
        let tenants = Tenants { state: RwLock::default(), base, shared, devices, seats, fixed, file, pages };
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
            (Some(limits), _) => {
                let name = token.map(|token| token.name.as_str());
                Some(self.pages.allowance(name, limits, (self.devices, self.seats), None)?)
            }
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
    pub(crate) fn tenant_for(&self, name: Option<&str>) -> Result<Arc<Tenant>, String> {
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

    /// Returns the limits pages of an earlier supervisor whose limits have changed since. Their sessions keep them.
    pub(crate) fn take_former_pages(&self) -> Vec<Allowance> {
        std::mem::take(&mut self.pages.adopted.lock())
    }

    /// Whether there are limits, or a reload of the file may add some.
    pub(crate) fn are_limited(&self) -> bool {
        self.file.is_some() || !self.allowances().is_empty()
    }
}

impl HeldPages {
    /// The page of an earlier supervisor with the same limits, or a new one.
    fn allowance(
        &self,
        tenant: Option<&str>,
        limits: LimitConfig,
        (devices, seats): (u32, u32),
        ledgers: Option<&LedgerConfig>,
    ) -> Result<Arc<Allowance>, WorkerError> {
        let mut adopted = self.adopted.lock();
        let found = adopted.iter().position(|it| it.fits(tenant, limits, devices, seats));
        if let Some(at) = found {
            let allowance = adopted.swap_remove(at);
            return Ok(Arc::new(match ledgers {
                Some(ledgers) => allowance.still_within(ledgers)?,
                None => allowance,
            }));
        }
        let allowance = Allowance::new(limits, devices, seats)
            .map_err(|source| WorkerError::Io { what: "cannot create the limits page", source })?;
        let allowance = match ledgers {
            Some(ledgers) => allowance.within(ledgers)?,
            None => allowance,
        };
        Ok(Arc::new(allowance.held_by(&self.custody, tenant)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::task::CompilerConfig;
    use crate::supervisor::tokens::tests::{TWO, write};

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
    fn each_tenant_has_its_own_uploads_and_limits() {
        let folder = tempfile::tempdir().unwrap();
        let tenants = Tenants::new(
            base(),
            1,
            8,
            Vec::new(),
            Some(write(folder.path(), TWO)),
            None,
            HeldPages::default(),
        )
        .unwrap();
        let [(_, alice), (_, bob), (_, admin)] = &tenants.tokens()[..] else { panic!() };
        let folder_of = |who: &Who| who.tenant().unwrap().config.uploads.clone().unwrap().folder;
        assert_ne!(folder_of(alice), folder_of(bob));
        assert!(alice.tenant().unwrap().allowance.is_some() && bob.tenant().unwrap().allowance.is_none());
        assert!(!alice.may_administer() && admin.may_administer() && admin.tenant().is_none());
        assert_eq!((alice.sees_only(), admin.sees_only()), (Some("alice"), None));
        assert!(tenants.tenant_for(None).is_err() && tenants.tenant_for(Some("carol")).is_err());
        assert_eq!(tenants.tenant_for(Some("bob")).ok().unwrap().name, "bob");
    }

    #[test]
    fn a_new_file_adds_and_removes_tenants_and_a_broken_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), TWO);
        let tenants = Tenants::new(base(), 1, 8, Vec::new(), Some(path), None, HeldPages::default()).unwrap();
        let alice = tenants.tenant_for(Some("alice")).ok().unwrap();
        write(folder.path(), "[[token]]\n");
        assert!(tenants.load().is_err());
        assert_eq!(tenants.tokens().len(), 3);
        let (kept, _) = TWO.split_once("[[token]]\nname = \"bob\"").unwrap();
        write(
            folder.path(),
            &format!("{kept}[[token]]\nname = \"carol\"\ntoken = \"carol-0123456789abcdef\"\n"),
        );
        assert_eq!(tenants.load().unwrap(), ["bob"]);
        assert!(
            Arc::ptr_eq(&alice, &tenants.tenant_for(Some("alice")).ok().unwrap()),
            "its page of limits stays"
        );
        assert!(tenants.tenant_for(Some("carol")).is_ok());
    }
}
