//! Memory sharing with other sessions, the session's side: sends requests to the supervisor's broker and receives its replies.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backend::{DeviceError, SharedMemory};
use hip_api::types::{hipErrorInvalidResourceHandle, hipErrorOutOfMemory};
use parking_lot::{Mutex, MutexGuard};

use crate::control::{Control, ShareToken, ToSession, ToSupervisor};

/// Callback for the broker's reply.
type Reply<T> = Box<dyn FnOnce(Result<T, DeviceError>) + Send>;

/// A request without a reply.
enum Pending {
    Offer(SharedMemory, Reply<ShareToken>),
    Ask(ShareToken, Reply<SharedMemory>),
}

#[derive(Default)]
struct Requests {
    /// The ticket of the last request.
    last: u64,
    pending: BTreeMap<u64, Pending>,
}

/// The session's side: sends requests to the broker, and receives the replies on the control thread.
#[derive(Default)]
pub(crate) struct Exchange {
    control: Option<Arc<Control>>,
    requests: Mutex<Requests>,
    /// Whether anything was ever offered or requested.
    used: AtomicBool,
    /// ShareTokens of shared allocations by address, so that an offer is withdrawn when its allocation is freed.
    allocations: Mutex<HashMap<u64, ShareToken>>,
}

impl Exchange {
    /// Without a control socket, as in tests, every request is refused.
    pub(crate) fn new(control: Option<Arc<Control>>) -> Exchange {
        Exchange { control, ..Exchange::default() }
    }

    /// Offers memory to other sessions.
    pub(crate) fn offer(&self, shared: SharedMemory, reply: Reply<ShareToken>) {
        self.ask(Pending::Offer(shared, reply));
    }

    /// Requests memory of another session.
    pub(crate) fn open(&self, token: ShareToken, reply: Reply<SharedMemory>) {
        self.ask(Pending::Ask(token, reply));
    }

    /// Whether the session has shared memory with others, or tried to.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the token under which an allocation was offered before.
    pub(crate) fn token_of(&self, address: u64) -> Option<ShareToken> {
        self.allocations.lock().get(&address).copied()
    }

    pub(crate) fn remember(&self, address: u64, token: ShareToken) {
        self.allocations.lock().insert(address, token);
    }

    /// Withdraws the offer of an allocation that is freed.
    pub(crate) fn withdraw(&self, address: u64) {
        let token = self.allocations.lock().remove(&address);
        if let (Some(token), Some(control)) = (token, &self.control) {
            let _ = control.send(&ToSupervisor::Withdraw { token }, None);
        }
    }

    /// Withdraws all offers, when a reset frees all allocations at once.
    pub(crate) fn withdraw_all(&self) {
        let addresses: Vec<u64> = self.allocations.lock().keys().copied().collect();
        addresses.into_iter().for_each(|address| self.withdraw(address));
    }

    /// Handles an order that is a reply to a request; returns any other.
    pub(crate) fn hear(&self, order: ToSession, attached: Option<OwnedFd>) -> Option<ToSession> {
        let ticket = match &order {
            ToSession::Offered { ticket, .. }
            | ToSession::Granted { ticket, .. }
            | ToSession::Refused { ticket, .. } => *ticket,
            _ => return Some(order),
        };
        let pending = self.requests.lock().pending.remove(&ticket);
        match (order, pending) {
            (ToSession::Offered { token, .. }, Some(Pending::Offer(_, reply))) => reply(Ok(token)),
            (ToSession::Granted { bytes, .. }, Some(Pending::Ask(_, reply))) => reply(match attached {
                Some(file) => Ok(SharedMemory { file, bytes }),
                None => Err(refused("the reply has no file descriptor for the shared memory")),
            }),
            (ToSession::Refused { text, .. }, Some(pending)) => refuse(pending, &text),
            _ => {}
        }
        None
    }

    /// Holds back requests until the value is dropped.
    pub(crate) fn pause(&self) -> PausedExchange<'_> {
        PausedExchange { control: self.control.as_deref(), requests: self.requests.lock() }
    }

    fn ask(&self, pending: Pending) {
        let Some(control) = &self.control else { return refuse(pending, "there is no supervisor") };
        self.used.store(true, Ordering::Relaxed);
        let mut requests = self.requests.lock();
        requests.last += 1;
        let ticket = requests.last;
        // Under the lock: a request that is sent again must not be sent here at the same time.
        match pending.send(ticket, control) {
            Ok(()) => drop(requests.pending.insert(ticket, pending)),
            Err(error) => {
                drop(requests);
                refuse(pending, &error.to_string());
            }
        }
    }
}

/// Held-back requests.
pub(crate) struct PausedExchange<'a> {
    control: Option<&'a Control>,
    requests: MutexGuard<'a, Requests>,
}

impl PausedExchange<'_> {
    /// Sends the requests that have no reply once more.
    pub(crate) fn send_again(&self) {
        let Some(control) = self.control else { return };
        for (ticket, pending) in &self.requests.pending {
            let _ = pending.send(*ticket, control);
        }
    }
}

impl Pending {
    fn send(&self, ticket: u64, control: &Control) -> std::io::Result<()> {
        match self {
            Pending::Offer(shared, _) => {
                let offer = ToSupervisor::Offer { ticket, bytes: shared.bytes };
                control.send(&offer, Some(shared.file.as_raw_fd()))
            }
            Pending::Ask(token, _) => control.send(&ToSupervisor::Ask { ticket, token: *token }, None),
        }
    }
}

fn refuse(pending: Pending, text: &str) {
    match pending {
        Pending::Offer(_, reply) => reply(Err(DeviceError::new(hipErrorOutOfMemory, text))),
        Pending::Ask(_, reply) => reply(Err(refused(text))),
    }
}

fn refused(text: &str) -> DeviceError {
    DeviceError::new(hipErrorInvalidResourceHandle, text)
}
