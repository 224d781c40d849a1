//! Where new sessions are opened: here, or at the worker to which the sessions of this one move.

use std::sync::Arc;

use parking_lot::RwLock;

use super::custody::{Custody, ELSEWHERE_KEY, Held};

#[derive(Debug)]
pub(crate) struct Admission {
    /// The other worker, as the text of a Moved rejection.
    elsewhere: RwLock<Option<String>>,
    custody: Arc<Custody>,
}

impl Admission {
    /// `elsewhere` is what an earlier supervisor was ordered.
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
}
