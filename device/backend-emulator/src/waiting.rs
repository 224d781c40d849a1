//! Index of waiters by the stream position they wait for.
//!
//! A waiter with several dependencies is registered at one unmet dependency, and moves to the next when that one is met. A completed
//! command therefore visits only the waiters for its own position, however many others there are.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use backend::{Completion, StreamId};

use crate::queue::{Need, Progress};

/// Action when all dependencies of a waiter are met.
pub(crate) enum Then {
    /// Starts the head of a stream.
    Start(StreamId),
    Call(Completion),
}

struct Waiter {
    needs: Vec<Need>,
    then: Then,
}

/// All waiters.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Waiters by stream, identified by its `Progress`, then by ticket and arrival. The waiter keeps the `Progress` alive.
    places: HashMap<*const Progress, BTreeMap<(u64, u64), Waiter>>,
    arrivals: u64,
}

// SAFETY: the pointers serve only as keys and are never dereferenced; the waiters keep their targets alive.
unsafe impl Send for Waiting {}

impl Waiting {
    /// Registers a waiter. Returns its action if all dependencies are already met.
    pub(crate) fn add(&mut self, needs: Vec<Need>, then: Then) -> Option<Then> {
        self.arrivals += 1;
        self.keep(self.arrivals, Waiter { needs, then })
    }

    /// Returns the actions of waiters whose last dependency a stream has just reached, in order of ticket and arrival.
    pub(crate) fn reached(&mut self, progress: &Arc<Progress>) -> Vec<Then> {
        let name = Arc::as_ptr(progress);
        let mut free = Vec::new();
        while let Some(here) = self.places.get_mut(&name) {
            let Some(first) = here.first_entry() else {
                self.places.remove(&name);
                break;
            };
            let (ticket, arrival) = *first.key();
            if !progress.reached(ticket) {
                break;
            }
            let waiter = first.remove();
            free.extend(self.keep(arrival, waiter));
        }
        free
    }

    fn keep(&mut self, arrival: u64, mut waiter: Waiter) -> Option<Then> {
        waiter.needs.retain(|need| !need.is_met());
        let Some(need) = waiter.needs.last() else { return Some(waiter.then) };
        let (name, ticket) = (Arc::as_ptr(&need.progress), need.ticket);
        self.places.entry(name).or_default().insert((ticket, arrival), waiter);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(progress: &Arc<Progress>, ticket: u64) -> Need {
        Need { progress: Arc::clone(progress), ticket }
    }

    fn started(free: Vec<Then>) -> Vec<StreamId> {
        let id = |then| match then {
            Then::Start(id) => id,
            Then::Call(_) => panic!("unexpected callback"),
        };
        free.into_iter().map(id).collect()
    }

    #[test]
    fn what_needs_several_places_waits_for_the_last_of_them() {
        let (first, second) = (Arc::<Progress>::default(), Arc::<Progress>::default());
        let mut waiting = Waiting::default();
        assert!(waiting.add(vec![need(&first, 2), need(&second, 1)], Then::Start(7)).is_none());
        assert!(waiting.add(vec![need(&first, 1)], Then::Start(8)).is_none());
        first.advance();
        assert_eq!(started(waiting.reached(&first)), [8]);
        second.advance();
        assert!(waiting.reached(&second).is_empty());
        first.advance();
        assert_eq!(started(waiting.reached(&first)), [7]);
        assert!(waiting.places.is_empty());
    }

    #[test]
    fn what_came_first_goes_first_and_what_needs_nothing_does_not_wait() {
        let progress = Arc::<Progress>::default();
        let mut waiting = Waiting::default();
        for id in 1..=5 {
            assert!(waiting.add(vec![need(&progress, 1)], Then::Start(id)).is_none());
        }
        progress.advance();
        assert_eq!(started(waiting.reached(&progress)), [1, 2, 3, 4, 5]);
        assert!(matches!(waiting.add(vec![need(&progress, 1)], Then::Start(6)), Some(Then::Start(6))));
        assert!(waiting.add(Vec::new(), Then::Start(7)).is_some());
    }
}
