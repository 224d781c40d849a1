//! Where new sessions are opened: here, or at the worker to which the sessions of this one move.

use std::sync::Arc;

use parking_lot::RwLock;
use transport::{Link, TransportError, greet};
use wire::{RejectCode, capability};

use super::custody::{Custody, ELSEWHERE_KEY, Held};
use super::drain::Stage;
use super::greeting::{AuthenticatedClient, Refusal};
use super::tenants::Tenant;
use super::{Supervisor, proxy};
use crate::error::one_line;

#[derive(Debug)]
pub(crate) struct Admission {
    /// The other worker, as the text of a Moved rejection.
    elsewhere: RwLock<Option<String>>,
    custody: Arc<Custody>,
}

impl Admission {
    /// `elsewhere` is the redirect that an earlier supervisor left.
    pub(crate) fn new(elsewhere: Option<String>, custody: &Arc<Custody>) -> Admission {
        Admission { elsewhere: RwLock::new(elsewhere), custody: Arc::clone(custody) }
    }

    /// Opens a session, or returns the worker that opens it instead.
    pub(crate) fn admit<T>(&self, open: impl FnOnce() -> T) -> Result<T, String> {
        let elsewhere = self.elsewhere.read();
        match &*elsewhere {
            None => Ok(open()),
            Some(endpoint) => Err(endpoint.clone()),
        }
    }

    /// Redirects new sessions from now on; `None` opens them here. Waits for sessions that are being opened.
    pub(crate) fn redirect(&self, elsewhere: Option<String>) {
        let mut current = self.elsewhere.write();
        match &elsewhere {
            Some(endpoint) => {
                self.custody.put(&Held::OpensElsewhere { endpoint: endpoint.clone() }, None);
            }
            None => self.custody.remove(ELSEWHERE_KEY.to_owned()),
        }
        *current = elsewhere;
    }
}

/// The rejection of a new session that another worker opens.
fn redirection(capabilities: u64, endpoint: String) -> (RejectCode, String) {
    if capabilities & capability::REDIRECTS != 0 {
        return (RejectCode::Moved, endpoint);
    }
    let text = format!(
        "the sessions of this worker are moving to {endpoint}, and this client is too old to follow: start the program again when \
         they have moved, with that address or a newer client"
    );
    (RejectCode::Full, text)
}

impl Supervisor {
    /// Opens a new session and hands it the connection, or rejects it.
    pub(super) fn open_new(
        &self,
        link: &Link,
        peer: &str,
        client: &AuthenticatedClient,
        tenant: &Arc<Tenant>,
    ) -> Result<(), Refusal> {
        let AuthenticatedClient { hello, version, .. } = client;
        let open = || {
            if self.stage() != Stage::Off {
                return Ok(Err((RejectCode::Full, "the worker is shutting down".to_owned())));
            }
            if let Some(text) = self.sessions.full(tenant) {
                return Ok(Err((RejectCode::Full, text)));
            }
            // Not before a redirect is ruled out: a rejection cannot be sent over the link while a proxy reads and writes it.
            let connection = if link.is_encrypted() { proxy::start(link) } else { link.try_clone_fd() };
            let connection = connection.map_err(TransportError::from)?;
            let started = self.sessions.start(tenant, hello, *version, peer, connection);
            Ok::<_, TransportError>(started.map_err(|error| (RejectCode::Failed, one_line(&error))))
        };
        let opened = match self.admission.admit(open) {
            Ok(opened) => opened?,
            Err(endpoint) => Err(redirection(hello.capabilities, endpoint)),
        };
        match opened {
            Ok(id) => {
                let (id, client, pid) = (wire::SessionId(id), &hello.client, hello.pid);
                tracing::info!("session {id} of {client} (pid {pid}) from {peer}");
                Ok(())
            }
            Err((code, text)) => {
                let reject = code.reject(text);
                let _ = greet::send(link, &reject);
                Err(Refusal::Rejected(reject))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_redirect_waits_for_sessions_that_are_being_opened() {
        let admission = Admission::new(None, &Arc::default());
        let ((opening, is_opening), (open, is_open), (done, is_done)) =
            (channel(), channel::<()>(), channel());
        std::thread::scope(|scope| {
            let admission = &admission;
            scope.spawn(move || {
                admission.admit(|| {
                    opening.send(()).unwrap();
                    is_open.recv().unwrap();
                })
            });
            is_opening.recv().unwrap();
            scope.spawn(move || {
                admission.redirect(Some("there:1".to_owned()));
                done.send(()).unwrap();
            });
            let waited = is_done.recv_timeout(Duration::from_millis(20));
            assert!(waited.is_err(), "a session is still being opened");
            open.send(()).unwrap();
            is_done.recv().unwrap();
        });
        assert_eq!(admission.admit(|| ()), Err("there:1".to_owned()));
        admission.redirect(None);
        assert_eq!(admission.admit(|| 7), Ok(7));
    }

    #[test]
    fn a_client_that_cannot_follow_a_redirect_gets_a_text_it_can_show() {
        let newer = redirection(capability::REDIRECTS | capability::PACKED, "there:1".to_owned());
        assert_eq!(newer, (RejectCode::Moved, "there:1".to_owned()));
        let (code, text) = redirection(capability::PACKED, "there:1".to_owned());
        assert_eq!(code, RejectCode::Full);
        assert!(text.contains("moving to there:1") && text.contains("start the program again"), "{text}");
    }
}
