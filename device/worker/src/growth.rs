//! Memory growth, the session's side: requests more memory of a shared GPU than the worker was granted from the supervisor.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::control::{Control, ToSupervisor};

/// Timeout for the supervisor's reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests of a session's process for more memory.
#[derive(Default)]
pub(crate) struct Growth {
    control: OnceLock<Arc<Control>>,
    /// Serializes requests.
    asking: Mutex<()>,
    state: Mutex<Asked>,
    answered: Condvar,
}

#[derive(Default)]
struct Asked {
    ticket: u64,
    /// The reply to this ticket.
    answer: Option<bool>,
}

impl Growth {
    /// Sets the control socket: from now on requests can be answered.
    pub(crate) fn over(&self, control: &Arc<Control>) {
        let _ = self.control.set(Arc::clone(control));
    }

    /// Requests more of a device; returns whether it was granted.
    pub(crate) fn ask(&self, device: u32, bytes: u64) -> bool {
        let Some(control) = self.control.get() else { return false };
        let _one = self.asking.lock();
        let mut state = self.state.lock();
        state.ticket += 1;
        state.answer = None;
        if control.send(&ToSupervisor::Grow { ticket: state.ticket, device, bytes }, None).is_err() {
            return false;
        }
        let deadline = Instant::now() + PATIENCE;
        while state.answer.is_none() && !self.answered.wait_until(&mut state, deadline).timed_out() {}
        state.answer.unwrap_or(false)
    }

    pub(crate) fn hear(&self, ticket: u64, granted: bool) {
        let mut state = self.state.lock();
        if state.ticket == ticket {
            state.answer = Some(granted);
            self.answered.notify_all();
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
        growth.over(&Arc::new(near));
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
}
