//! Memory sharing with other sessions, the session's side: sends requests to the supervisor's broker and receives its replies.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use backend::{DeviceError, SharedMemory};
use hip_api::types::{hipErrorInvalidResourceHandle, hipErrorOutOfMemory};
use parking_lot::Mutex;

use crate::control::{Control, ShareToken, ToSession, ToSupervisor};

/// Callback for the broker's reply.
type Reply<T> = Box<dyn FnOnce(Result<T, DeviceError>) + Send>;

enum Pending {
    Offer(Reply<ShareToken>),
    Ask(Reply<SharedMemory>),
}

/// The session's side: sends requests to the broker, and receives the replies on the control thread.
#[derive(Default)]
pub(crate) struct Exchange {
    control: Option<Arc<Control>>,
    tickets: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
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
        let answer = |ticket| ToSupervisor::Offer { ticket, bytes: shared.bytes };
        self.ask(answer, Some(shared.file.as_raw_fd()), Pending::Offer(reply));
    }

    /// Requests memory of another session.
    pub(crate) fn open(&self, token: ShareToken, reply: Reply<SharedMemory>) {
        self.ask(|ticket| ToSupervisor::Ask { ticket, token }, None, Pending::Ask(reply));
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
        let pending = self.pending.lock().remove(&ticket);
        match (order, pending) {
            (ToSession::Offered { token, .. }, Some(Pending::Offer(reply))) => reply(Ok(token)),
            (ToSession::Granted { bytes, .. }, Some(Pending::Ask(reply))) => reply(match attached {
                Some(file) => Ok(SharedMemory { file, bytes }),
                None => Err(refused("the reply has no file descriptor for the shared memory")),
            }),
            (ToSession::Refused { text, .. }, Some(pending)) => refuse(pending, &text),
            _ => {}
        }
        None
    }

    fn ask(&self, answer: impl FnOnce(u64) -> ToSupervisor, attached: Option<RawFd>, pending: Pending) {
        let Some(control) = &self.control else { return refuse(pending, "there is no supervisor") };
        self.used.store(true, Ordering::Relaxed);
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        self.pending.lock().insert(ticket, pending);
        if let Err(error) = control.send(&answer(ticket), attached)
            && let Some(pending) = self.pending.lock().remove(&ticket)
        {
            refuse(pending, &error.to_string());
        }
    }
}

fn refuse(pending: Pending, text: &str) {
    match pending {
        Pending::Offer(reply) => reply(Err(DeviceError::new(hipErrorOutOfMemory, text))),
        Pending::Ask(reply) => reply(Err(refused(text))),
    }
}

fn refused(text: &str) -> DeviceError {
    DeviceError::new(hipErrorInvalidResourceHandle, text)
}
