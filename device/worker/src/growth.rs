//! Memory growth, the session's side: requests more memory of a shared GPU than the worker was granted from the supervisor.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::control::{Control, ToSupervisor};
use crate::supervision::Supervision;

/// Timeout for the supervisor's reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests of a session's process for more memory.
#[derive(Default)]
pub(crate) struct Growth {
    supervisor: OnceLock<(Arc<Control>, Arc<Supervision>)>,
    /// Serializes requests.
    asking: Mutex<()>,
    state: Mutex<Asked>,
    answered: Condvar,
}

#[derive(Default)]
struct Asked {
    ticket: u64,
    /// Device and bytes, as long as there is no reply.
    open: Option<(u32, u64)>,
    /// The reply to this ticket.
    answer: Option<bool>,
}

impl Growth {
    /// Sets the control socket: from now on requests can be answered.
    pub(crate) fn over(&self, control: &Arc<Control>, supervision: &Arc<Supervision>) {
        let _ = self.supervisor.set((Arc::clone(control), Arc::clone(supervision)));
    }

    /// Requests more of a device; returns whether it was granted.
    pub(crate) fn ask(&self, device: u32, bytes: u64) -> bool {
        let Some((control, supervision)) = self.supervisor.get() else { return false };
        let _one = self.asking.lock();
        let mut state = self.state.lock();
        state.ticket += 1;
        (state.answer, state.open) = (None, Some((device, bytes)));
        if control.send(&ToSupervisor::Grow { ticket: state.ticket, device, bytes }, None).is_err() {
            state.open = None;
            return false;
        }
        let mut deadline = Instant::now() + PATIENCE;
        while state.answer.is_none() {
            if self.answered.wait_until(&mut state, deadline).timed_out() {
                match supervision.extension(PATIENCE) {
                    Some(more) => deadline = Instant::now() + more,
                    None => break,
                }
            }
        }
        state.open = None;
        state.answer.unwrap_or(false)
    }

    /// Holds back requests until the value is dropped.
    pub(crate) fn pause(&self) -> PausedGrowth<'_> {
        PausedGrowth { growth: self, state: self.state.lock() }
    }

    pub(crate) fn hear(&self, ticket: u64, granted: bool) {
        let mut state = self.state.lock();
        if state.ticket == ticket {
            state.answer = Some(granted);
            self.answered.notify_all();
        }
    }
}

/// Held-back requests.
pub(crate) struct PausedGrowth<'a> {
    growth: &'a Growth,
    state: MutexGuard<'a, Asked>,
}

impl PausedGrowth<'_> {
    /// Sends a request that has no reply once more.
    pub(crate) fn send_again(&self) {
        let Asked { ticket, open, answer } = *self.state;
        if let (Some((device, bytes)), None, Some((control, _))) =
            (open, answer, self.growth.supervisor.get())
        {
            let _ = control.send(&ToSupervisor::Grow { ticket, device, bytes }, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_told_what_its_supervisor_decides() {
        let (near, far) = Control::pair().unwrap();
        let growth = Arc::new(Growth::default());
        assert!(!growth.ask(0, 1), "there is no supervisor");
        growth.over(&Arc::new(near), &Arc::default());
        let asking = Arc::clone(&growth);
        let asked = std::thread::spawn(move || [asking.ask(2, 70), asking.ask(2, 71)]);
        for granted in [true, false] {
            let Some((ToSupervisor::Grow { ticket, device: 2, .. }, _)) = far.receive().unwrap() else {
                panic!("no request")
            };
            growth.hear(ticket + 1, !granted);
            growth.hear(ticket, granted);
        }
        assert_eq!(asked.join().unwrap(), [true, false]);
    }

    #[test]
    fn a_request_that_a_supervisor_did_not_answer_goes_to_the_next() {
        let (near, far) = Control::pair().unwrap();
        let growth = Arc::new(Growth::default());
        growth.over(&Arc::new(near), &Arc::default());
        growth.pause().send_again();
        let asking = Arc::clone(&growth);
        let asked = std::thread::spawn(move || asking.ask(2, 70));
        let mut tickets = Vec::new();
        for _ in 0..2 {
            let Some((ToSupervisor::Grow { ticket, device: 2, bytes: 70 }, _)) = far.receive().unwrap()
            else {
                panic!("no request")
            };
            tickets.push(ticket);
            growth.pause().send_again();
        }
        assert_eq!(tickets[0], tickets[1]);
        growth.hear(tickets[0], true);
        assert!(asked.join().unwrap());
    }
}
