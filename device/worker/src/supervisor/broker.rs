//! Memory sharing between sessions: the supervisor keeps the memory that one session offers until another requests it by token.
//!
//! A token is 32 random bytes that only the offering client receives, so another client has it only if it was passed on. It is
//! valid only for the same tenant of the same worker. An offer lasts until the session withdraws it or ends; sessions that have
//! opened it keep the memory.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::control::{Control, ShareToken, ToSession, ToSupervisor};
use crate::supervisor::custody::{Custody, Held, offer_key};

/// Limit on the offers of one session.
const MAX_OFFERS: usize = 4096;

struct Offer {
    session: u64,
    tenant: String,
    file: OwnedFd,
    bytes: u64,
}

/// Memory that sessions offer to each other.
#[derive(Default)]
pub(crate) struct Broker {
    offers: Mutex<HashMap<ShareToken, Offer>>,
    custody: Arc<Custody>,
}

impl Broker {
    /// Offers are left to the next supervisor.
    pub(crate) fn new(custody: Arc<Custody>) -> Broker {
        Broker { custody, ..Broker::default() }
    }

    /// Continues an offer of an adopted session.
    pub(crate) fn adopt(&self, token: ShareToken, session: u64, tenant: String, file: OwnedFd, bytes: u64) {
        self.offers.lock().insert(token, Offer { session, tenant, file, bytes });
    }

    /// Serves a session's request; returns messages that are not for the broker.
    pub(crate) fn serve(
        &self,
        session: u64,
        tenant: &str,
        control: &Control,
        message: ToSupervisor,
        attached: Option<OwnedFd>,
    ) -> Option<ToSupervisor> {
        match (message, attached) {
            (ToSupervisor::Offer { ticket, bytes }, Some(file)) => {
                let order = match self.offer(session, tenant, file, bytes) {
                    Ok(token) => ToSession::Offered { ticket, token },
                    Err(text) => ToSession::Refused { ticket, text },
                };
                send(control, &order, None);
            }
            (ToSupervisor::Ask { ticket, token }, _) => {
                let offers = self.offers.lock();
                match offers.get(&token).filter(|it| it.tenant == tenant) {
                    Some(it) => {
                        let order = ToSession::Granted { ticket, bytes: it.bytes };
                        send(control, &order, Some(it.file.as_raw_fd()));
                    }
                    None => {
                        let text = "no memory is shared under that handle, or it was withdrawn".to_owned();
                        send(control, &ToSession::Refused { ticket, text }, None);
                    }
                }
            }
            (ToSupervisor::Withdraw { token }, _) => {
                let mut offers = self.offers.lock();
                if offers.get(&token).is_some_and(|it| it.session == session) {
                    offers.remove(&token);
                    self.custody.remove(offer_key(&token));
                }
            }
            (message, _) => return Some(message),
        }
        None
    }

    /// Removes the offers of a session that has ended.
    pub(crate) fn forget(&self, session: u64) {
        self.offers.lock().retain(|token, it| {
            if it.session == session {
                self.custody.remove(offer_key(token));
            }
            it.session != session
        });
    }

    fn offer(&self, session: u64, tenant: &str, file: OwnedFd, bytes: u64) -> Result<ShareToken, String> {
        let mut token = [0; 32];
        getrandom::fill(&mut token).map_err(|error| format!("cannot get random bytes: {error}"))?;
        let mut offers = self.offers.lock();
        if offers.values().filter(|it| it.session == session).count() >= MAX_OFFERS {
            return Err(format!("the session already shares {MAX_OFFERS} allocations"));
        }
        let held = Held::Offer { token, session, tenant: tenant.to_owned(), bytes };
        self.custody.put(&held, Some(file.as_raw_fd()));
        offers.insert(token, Offer { session, tenant: tenant.to_owned(), file, bytes });
        Ok(token)
    }
}

fn send(control: &Control, order: &ToSession, attached: Option<RawFd>) {
    if let Err(error) = control.send(order, attached) {
        tracing::warn!("cannot reply to a session about shared memory: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::sync::{Arc, mpsc};

    use backend::{DeviceError, SharedMemory};
    use hip_api::types::hipErrorInvalidResourceHandle;

    use super::*;
    use crate::request::exchange::Exchange;

    /// A session of a broker: sends requests, lets the broker serve them, receives replies.
    struct Session {
        id: u64,
        tenant: &'static str,
        exchange: Exchange,
        near: Arc<Control>,
        far: Control,
    }

    impl Session {
        fn new(id: u64) -> Session {
            Session::of("one", id)
        }

        fn of(tenant: &'static str, id: u64) -> Session {
            let (near, far) = Control::pair().unwrap();
            let near = Arc::new(near);
            Session { id, tenant, exchange: Exchange::new(Some(Arc::clone(&near))), near, far }
        }

        /// Passes the session's request to the broker, and the reply back to the session.
        fn step(&self, broker: &Broker) {
            let (message, attached) = self.far.receive::<ToSupervisor>().unwrap().unwrap();
            let quiet = matches!(message, ToSupervisor::Withdraw { .. });
            assert!(broker.serve(self.id, self.tenant, &self.far, message, attached).is_none());
            if !quiet {
                let (order, attached) = self.near.receive::<ToSession>().unwrap().unwrap();
                assert!(self.exchange.hear(order, attached).is_none());
            }
        }

        fn offer(&self, broker: &Broker, file: &File) -> ShareToken {
            let (sender, token) = mpsc::channel();
            let shared = SharedMemory { file: file.try_clone().unwrap().into(), bytes: 5 };
            self.exchange.offer(shared, Box::new(move |it| sender.send(it).unwrap()));
            self.step(broker);
            token.try_recv().unwrap().unwrap()
        }

        fn open(&self, broker: &Broker, token: ShareToken) -> Result<SharedMemory, DeviceError> {
            let (sender, shared) = mpsc::channel();
            self.exchange.open(token, Box::new(move |it| sender.send(it).unwrap()));
            self.step(broker);
            shared.try_recv().unwrap()
        }
    }

    fn file(text: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file
    }

    #[test]
    fn what_one_session_offers_another_gets_by_the_token_alone() {
        let broker = Broker::default();
        let (owner, other) = (Session::new(1), Session::new(2));
        let token = owner.offer(&broker, &file(b"bytes"));
        let shared = other.open(&broker, token).unwrap();
        assert_eq!(shared.bytes, 5);
        let (mut got, mut text) = (File::from(shared.file), String::new());
        got.rewind().unwrap();
        got.read_to_string(&mut text).unwrap();
        assert_eq!(text, "bytes");
        let mut wrong = token;
        wrong[31] ^= 1;
        assert_eq!(other.open(&broker, wrong).unwrap_err().code, hipErrorInvalidResourceHandle);
        assert_ne!(token, owner.offer(&broker, &file(b"more")), "no two tokens are alike");
    }

    #[test]
    fn the_handle_of_one_tenant_opens_nothing_for_another() {
        let broker = Broker::default();
        let (owner, friend, other) = (Session::new(1), Session::new(2), Session::of("two", 3));
        let token = owner.offer(&broker, &file(b"bytes"));
        assert_eq!(other.open(&broker, token).unwrap_err().code, hipErrorInvalidResourceHandle);
        assert!(friend.open(&broker, token).is_ok());
    }

    #[test]
    fn an_offer_of_an_adopted_session_is_granted_until_the_session_ends() {
        let broker = Broker::default();
        let other = Session::new(2);
        broker.adopt([5; 32], 1, "one".to_owned(), file(b"bytes").into(), 5);
        assert_eq!(other.open(&broker, [5; 32]).unwrap().bytes, 5);
        broker.forget(1);
        assert!(other.open(&broker, [5; 32]).is_err());
    }

    #[test]
    fn an_offer_ends_with_its_memory_and_with_its_session() {
        let broker = Broker::default();
        let (owner, other) = (Session::new(1), Session::new(2));
        let (first, second) = (owner.offer(&broker, &file(b"1")), owner.offer(&broker, &file(b"2")));
        owner.exchange.remember(0x1000, first);
        other.exchange.remember(0x2000, second);
        other.exchange.withdraw(0x2000);
        other.step(&broker);
        assert!(other.open(&broker, second).is_ok(), "only its own session withdraws an offer");
        owner.exchange.withdraw(0x1000);
        owner.step(&broker);
        assert!(other.open(&broker, first).is_err());
        broker.forget(1);
        assert!(other.open(&broker, second).is_err());
    }

    #[test]
    fn without_a_supervisor_everything_is_refused() {
        let (sender, shared) = mpsc::channel();
        Exchange::new(None).open([0; 32], Box::new(move |it| sender.send(it.is_err()).unwrap()));
        assert!(shared.try_recv().unwrap());
    }
}
