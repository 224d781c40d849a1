//! Accuracy of sleeping threads.

const TIMER_SLACK_NS: libc::c_ulong = 1000;

/// Lets the calling thread wake from sleep within a microsecond of the requested time, if the machine is not idle.
pub(crate) fn sharpen() {
    // SAFETY: sets a number of this thread; no memory is accessed.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS) };
}
