//! Supervises workers: restarts those that have ended, with exponential backoff.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::agent::{Agent, now_ms};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(500);
/// Restart backoff: initial and longest delay.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A worker that ran for this long, in milliseconds, resets the backoff.
const STEADY_MS: u64 = 60_000;

/// Body of the thread that restarts workers: runs until the agent stops.
pub(crate) fn run(agent: &Arc<Agent>) {
    while !agent.stopping.load(Ordering::Relaxed) {
        agent.restart_workers();
        std::thread::sleep(LOOK);
    }
}

/// Returns the backoff delay after this many failures.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE)
}

impl Agent {
    fn restart_workers(&self) {
        let mut due = Vec::new();
        {
            let mut allocations = self.allocations.lock();
            let mut restarts = self.restarts.lock();
            restarts.retain(|id, _| allocations.contains_key(id));
            for allocation in allocations.values_mut() {
                let worker = &mut allocation.worker;
                // A worker without a process that is not being started either was left behind by an agent that ended.
                if self.starting.lock().contains(&allocation.id) {
                    continue;
                }
                if let Some(process) = worker.process {
                    process.reap();
                    if process.is_alive() {
                        continue;
                    }
                    tracing::warn!("allocation {}: worker {} has ended", allocation.id, process.pid);
                    worker.process = None;
                    let steady = now_ms() > worker.started_ms + STEADY_MS;
                    let failures = restarts.get(&allocation.id).map_or(0, |it| it.1);
                    let failures = if steady { 0 } else { failures };
                    restarts.insert(allocation.id.clone(), (Instant::now() + pause(failures), failures + 1));
                }
                let at = restarts.entry(allocation.id.clone()).or_insert((Instant::now(), 0));
                if at.0 <= Instant::now() {
                    at.1 += 1;
                    at.0 = Instant::now() + pause(at.1);
                    worker.restarts += 1;
                    due.push(allocation.id.clone());
                }
            }
        }
        for id in due {
            self.counters.restarts.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = self.start_worker(&id) {
                tracing::error!("allocation {id}: restarting the worker failed: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_at_a_minute() {
        let all: Vec<u64> = (0..12).map(|failures| pause(failures).as_millis() as u64).collect();
        assert_eq!(&all[..4], [500, 1000, 2000, 4000]);
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(all[11], 60_000);
    }
}
