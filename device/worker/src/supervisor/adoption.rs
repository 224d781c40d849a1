//! Adoption: a supervisor continues the sessions of an earlier one, from what the keeper held.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use transport::{Endpoint, Listener};

use crate::control::{Control, ShareToken};
use crate::supervisor::allowance::Allowance;
use crate::supervisor::custody::{Custody, Held, HeldSession, Taken, listener_key};
use crate::supervisor::departed::DepartedSession;
use crate::supervisor::process::{Process, reap_child};
use crate::supervisor::sessions::{Sessions, Watched};
use crate::supervisor::tenants::{HeldPages, Tenants};

/// What an earlier supervisor left.
#[derive(Default)]
pub(crate) struct Estate {
    sessions: Vec<(HeldSession, OwnedFd)>,
    processes: HashMap<u64, (u32, OwnedFd)>,
    pages: Vec<(u64, Option<String>, String, OwnedFd)>,
    offers: Vec<(ShareToken, u64, String, u64, OwnedFd)>,
    departed: Vec<(u64, DepartedSession)>,
    /// The worker that opens new sessions.
    pub(crate) elsewhere: Option<String>,
    listeners: Vec<(usize, String, OwnedFd)>,
    /// Keys of the listening sockets: they are held only during an upgrade.
    done: Vec<String>,
}

impl Estate {
    /// Sorts what the keeper held. Must be called before this program starts children.
    pub(crate) fn new(items: Vec<Taken>) -> Estate {
        let mut estate = Estate::default();
        for item in items {
            match item {
                (Held::Session(note), Some(control)) => estate.sessions.push((note, control)),
                (Held::Process { session, pid }, Some(handle)) => {
                    estate.processes.insert(session, (pid, handle));
                }
                (Held::Compiler { pid, .. }, _) => reap_child(pid),
                (Held::Page { id, tenant, limits }, Some(page)) => {
                    estate.pages.push((id, tenant, limits, page));
                }
                (Held::Offer { token, session, tenant, bytes }, Some(file)) => {
                    estate.offers.push((token, session, tenant, bytes, file));
                }
                (Held::Departed { session, tenant, secret, endpoint }, _) => {
                    estate.departed.push((session, DepartedSession::new(tenant, secret, endpoint)));
                }
                (Held::OpensElsewhere { endpoint }, _) => estate.elsewhere = Some(endpoint),
                (Held::Listener { index, endpoint }, Some(socket)) => {
                    estate.listeners.push((index, endpoint, socket));
                    estate.done.push(listener_key(index));
                }
                (held, None) => tracing::error!("the keeper lost the descriptor of {held:?}"),
            }
        }
        estate
    }

    /// The listening socket of an upgrade for the endpoint at this index of the configuration.
    pub(crate) fn listener(&mut self, index: usize, endpoint: &Endpoint) -> Option<Listener> {
        let text = endpoint.to_string();
        let at = self.listeners.iter().position(|(place, name, _)| *place == index && *name == text)?;
        Some(Listener::from_fd(endpoint, self.listeners.swap_remove(at).2))
    }

    /// The limits pages, for [`Tenants::new`].
    pub(crate) fn pages(&mut self, custody: &Arc<Custody>) -> HeldPages {
        let mut adopted = Vec::new();
        for (id, tenant, limits, page) in self.pages.drain(..) {
            match Allowance::adopt(page, id, tenant.as_deref(), &limits, custody) {
                Ok(allowance) => adopted.push(allowance),
                Err(error) => tracing::error!("cannot use the limits page of an earlier supervisor: {error}"),
            }
        }
        HeldPages { custody: Arc::clone(custody), adopted: Mutex::new(adopted) }
    }

    /// Adopts the sessions.
    pub(crate) fn adopt(mut self, sessions: &Arc<Sessions>, tenants: &Tenants, custody: &Custody) {
        let upgraded = !self.done.is_empty();
        self.done.drain(..).for_each(|key| custody.remove(key));
        for (session, departed) in self.departed.drain(..) {
            sessions.departed().insert(session, departed);
        }
        for (token, session, tenant, bytes, file) in self.offers.drain(..) {
            sessions.broker.adopt(token, session, tenant, file, bytes);
        }
        let former: Vec<Arc<Allowance>> = tenants.take_former_pages().into_iter().map(Arc::new).collect();
        let mut all = tenants.allowances();
        all.extend(former);
        let count = self.sessions.len();
        for (note, control) in std::mem::take(&mut self.sessions) {
            let id = wire::SessionId(note.session);
            if let Err(text) = self.adopt_session(&note, control, sessions, tenants, &all) {
                // Its control socket closes, which ends its process.
                tracing::error!("session {id} of {} ends: {text}", note.client);
                sessions.forget(note.session);
            }
        }
        all.iter().for_each(|allowance| allowance.clear_free_seats());
        if count > 0 || upgraded {
            tracing::info!("{count} sessions of an earlier supervisor adopted");
        }
    }

    fn adopt_session(
        &mut self,
        note: &HeldSession,
        control: OwnedFd,
        sessions: &Arc<Sessions>,
        tenants: &Tenants,
        pages: &[Arc<Allowance>],
    ) -> Result<(), String> {
        let mut tenant = tenants.tenant_for(Some(&note.tenant))?;
        let (pid, handle) = self.processes.remove(&note.session).ok_or("its process is not known")?;
        let mut seat = None;
        if let Some((page, number)) = note.seat {
            let allowance = pages.iter().find(|it| it.id() == page).ok_or("its limits page is not known")?;
            seat = Some(allowance.keep_seat(number).ok_or("its seat on the limits page is not free")?);
            if !tenant.allowance.as_ref().is_some_and(|it| Arc::ptr_eq(it, allowance)) {
                tenant = Arc::new(tenant.limited_by(Arc::clone(allowance)));
            }
        }
        let process = Process::Adopted { pid, handle };
        let watched = Watched::new(&tenant, process, seat, Arc::new(Control::from(control)));
        sessions.adopt_running(note, watched).map_err(|error| error.to_string())
    }
}
