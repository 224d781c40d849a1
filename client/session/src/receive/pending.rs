//! Requests whose replies are awaited, and where the bodies of the replies go.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::thread::Thread;

use wire::{Failure, Header};

/// The destination of a body: memory of a thread that waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    pub start: NonNull<u8>,
    pub bytes: usize,
    /// The destination is the host address of the mirror that is read.
    pub home: bool,
}

// SAFETY: the thread that made it keeps the memory valid until the bytes have arrived or the session is over; only the
// holder of the reader role writes to it.
unsafe impl Send for Destination {}

impl Destination {
    pub fn new(start: NonNull<u8>, bytes: usize) -> Destination {
        Destination { start, bytes, home: false }
    }

    pub fn at_home(self, home: bool) -> Destination {
        Destination { home, ..self }
    }
}

/// The result of a request.
#[derive(Debug)]
pub enum Outcome {
    /// The reply of the worker: its header, and its payload without a body that went to a destination.
    Reply(Header, Vec<u8>),
    /// The session is over.
    Failed(Failure),
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    destination: Option<Destination>,
    outcome: Option<Outcome>,
    /// The thread is parked and will read if it is woken. A thread that has sent its request but is not waiting yet must
    /// not be chosen as the reader.
    sleeps: bool,
}

/// Pending replies by request number, with the threads that wait for them.
#[derive(Debug, Default)]
pub struct PendingReplies {
    waiters: BTreeMap<u64, Waiter>,
    over: Option<Failure>,
}

impl PendingReplies {
    /// Registers a request; if the session is over, it fails at once.
    pub fn expect(&mut self, number: u64, thread: Thread, destination: Option<Destination>) {
        let outcome = self.over.clone().map(Outcome::Failed);
        self.waiters.insert(number, Waiter { thread, destination, outcome, sleeps: false });
    }

    /// Fails every pending and every later request.
    pub fn fail_all(&mut self, failure: &Failure) {
        self.over = Some(failure.clone());
        for waiter in self.waiters.values_mut() {
            waiter.outcome.get_or_insert_with(|| Outcome::Failed(failure.clone()));
            waiter.thread.unpark();
        }
    }

    /// Removes and returns the result of a request, if there is one.
    pub fn take(&mut self, number: u64) -> Option<Outcome> {
        self.waiters.get(&number)?.outcome.as_ref()?;
        self.waiters.remove(&number)?.outcome
    }

    /// Whether the reply has arrived or is no longer expected.
    pub fn is_settled(&self, number: u64) -> bool {
        self.waiters.get(&number).is_none_or(|waiter| waiter.outcome.is_some())
    }

    /// Records that the thread waiting for this reply is about to park, or has woken.
    pub fn note_sleep(&mut self, number: u64, sleeps: bool) {
        if let Some(waiter) = self.waiters.get_mut(&number) {
            waiter.sleeps = sleeps;
        }
    }

    /// Wakes one parked thread that has no reply yet; it becomes the reader.
    pub fn wake_one(&mut self) {
        let found = self.waiters.values_mut().find(|waiter| waiter.sleeps && waiter.outcome.is_none());
        if let Some(waiter) = found {
            waiter.sleeps = false;
            waiter.thread.unpark();
        }
    }

    /// Whether any thread is waiting for a reply.
    pub fn is_awaited(&self) -> bool {
        self.waiters.values().any(|waiter| waiter.outcome.is_none())
    }

    /// Where the body of the reply goes.
    pub fn destination(&self, number: u64) -> Option<Destination> {
        self.waiters.get(&number)?.destination
    }

    /// Stores a result and wakes the thread that waits for it.
    pub fn settle(&mut self, number: u64, outcome: Outcome) {
        if let Some(waiter) = self.waiters.get_mut(&number) {
            waiter.outcome = Some(outcome);
            waiter.thread.unpark();
        }
    }
}
