//! Compile budget: charges the CPU time of compilers to the compute limit of the session that requested them.
//!
//! A compiler is charged like a kernel of a software GPU: its CPU time, divided by the number of CPUs, is usage of the first
//! device. It goes into debt while it runs, and the next kernel or compiler waits until the debt is paid.

use std::sync::Arc;
use std::time::Duration;

use limits::{Gate, LimitConfig, SessionSlot};

/// Device that compilers are charged to. A worker with several devices has the same limit on each.
const DEVICE: u32 = 0;
/// Limit on compilers of one session that run at the same time.
const MOST_AT_ONCE: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct CompileBudget {
    gate: Arc<Gate>,
    processors: u64,
}

impl CompileBudget {
    pub(crate) fn new(seat: SessionSlot) -> CompileBudget {
        CompileBudget { gate: Arc::new(Gate::new(seat)), processors: processors() as u64 }
    }

    /// Waits until the session may use its device again.
    pub(crate) fn admit(&self) {
        self.gate.wait(DEVICE, self.gate.generation());
    }

    /// Returns a callback that charges CPU time used from now on.
    pub(crate) fn meter(&self) -> impl FnMut(Duration) + Send + 'static {
        let (budget, begun) = (self.clone(), limits::now());
        move |used: Duration| {
            let spent = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX) / budget.processors;
            budget.gate.seat().charge(DEVICE, begun, spent);
        }
    }
}

/// Returns how many compilers of one session may run at the same time: no more than its share of the CPUs can keep busy.
pub(crate) fn at_once(limits: Option<&LimitConfig>) -> usize {
    let share = limits.and_then(|limits| limits.compute).unwrap_or(100.0) / 100.0;
    ((processors() as f64 * share) as usize).clamp(1, MOST_AT_ONCE)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

#[cfg(test)]
mod tests {
    use limits::Page;

    use super::*;

    #[test]
    fn a_compiler_pays_for_its_processor_time_before_the_next_one_begins() {
        let limits = LimitConfig { compute: Some(1.0), ..LimitConfig::default() };
        assert_eq!(at_once(Some(&LimitConfig { compute: Some(0.01), ..limits })), 1);
        assert!(at_once(None) >= at_once(Some(&limits)));
        let page = Arc::new(Page::create(&limits, 1, 1).unwrap());
        let budget = CompileBudget::new(SessionSlot::new(Arc::clone(&page), 0).unwrap());
        budget.admit();
        let mut meter = budget.meter();
        let second = Duration::from_secs(1);
        meter(second / 2);
        assert!(budget.gate.is_closed(DEVICE), "debt is charged while it runs");
        meter(second / 2);
        assert_eq!(page.account(DEVICE).spent, second.as_nanos() as u64 / budget.processors);
    }
}
