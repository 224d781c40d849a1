//! Traffic of one call with the worker.

use std::cell::Cell;

/// Traffic of a call with the worker so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub frames: u64,
    pub round_trips: u64,
    pub sent: u64,
    pub received: u64,
}

thread_local! {
    static TALLY: Cell<Tally> = const { Cell::new(Tally { frames: 0, round_trips: 0, sent: 0, received: 0 }) };
}

impl Tally {
    /// The tally of this thread's innermost observed call.
    pub fn current() -> Tally {
        TALLY.get()
    }

    /// Replaces the tally of this thread and returns the one before.
    pub fn replace(tally: Tally) -> Tally {
        TALLY.replace(tally)
    }

    /// Changes the tally of this thread.
    pub fn change(change: impl FnOnce(&mut Tally)) {
        let mut tally = TALLY.get();
        change(&mut tally);
        TALLY.set(tally);
    }

    /// Both together: an inner call counts for the outer one too.
    pub fn plus(self, inner: Tally) -> Tally {
        Tally {
            frames: self.frames + inner.frames,
            round_trips: self.round_trips + inner.round_trips,
            sent: self.sent + inner.sent,
            received: self.received + inner.received,
        }
    }
}
