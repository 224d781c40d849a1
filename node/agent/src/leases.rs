//! Releases allocations whose lease has ended, each on a separate thread so that a slow release does not delay others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::agent::{Agent, now_ms};
use crate::allocation::Lease;
use crate::worker;

/// Time within which the resources of a dead client are free again.
const FREE: Duration = Duration::from_secs(5);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(250);

// One polling interval plus the worker's grace period take at most half of `FREE`; the rest is slack for a busy machine.
const _: () = assert!(2 * (LOOK.as_millis() + worker::END.as_millis()) <= FREE.as_millis());

/// Body of the lease thread: runs until the agent stops.
pub(crate) fn watch(agent: &Arc<Agent>) {
    while !agent.stopping.load(Ordering::Relaxed) {
        for (id, why) in agent.ended_leases() {
            if !agent.expiring.lock().insert(id.clone()) {
                continue;
            }
            tracing::info!("allocation {id}: {why}");
            let (one, name) = (Arc::clone(agent), id.clone());
            let ends = std::thread::Builder::new().name("lease".to_owned()).spawn(move || one.expire(&name));
            if let Err(error) = ends {
                tracing::warn!("allocation {id}: cannot start a thread to release it: {error}");
                agent.expire(&id);
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns the reason why a lease has ended; `None` if it has not.
fn ended(lease: &Lease, now: u64) -> Option<&'static str> {
    if lease.process.is_some_and(|process| !process.is_alive()) {
        return Some("its client process has ended");
    }
    lease.until_ms.filter(|until| *until <= now).map(|_| "its lease has expired")
}

impl Agent {
    fn ended_leases(&self) -> Vec<(String, &'static str)> {
        let now = now_ms();
        let allocations = self.allocations.lock();
        allocations.values().filter_map(|it| Some((it.id.clone(), ended(&it.lease, now)?))).collect()
    }

    fn expire(&self, id: &str) {
        match self.release(id) {
            Ok(_) => drop(self.counters.expired.fetch_add(1, Ordering::Relaxed)),
            Err(error) => tracing::error!("releasing allocation {id} failed: {error}"),
        }
        self.expiring.lock().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Identity;

    #[test]
    fn a_lease_ends_with_its_process_or_its_time() {
        let own = Identity::of(std::process::id()).unwrap();
        let gone = Identity { start: own.start + 1, ..own };
        let lease = |process, until_ms| Lease { process, seconds: None, until_ms };
        assert_eq!(ended(&lease(None, None), 5), None);
        assert_eq!(ended(&lease(Some(own), Some(6)), 5), None);
        assert_eq!(ended(&lease(Some(gone), Some(6)), 5), Some("its client process has ended"));
        assert_eq!(ended(&lease(Some(own), Some(5)), 5), Some("its lease has expired"));
    }
}
