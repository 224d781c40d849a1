//! The seat of this process on the limits page of its worker.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use limits::{LimitConfig, Page, SessionSlot};

use crate::error::WorkerError;
use crate::growth::Growth;

/// Occupies the seat of the session's process, and lowers the process's priority according to the limits.
pub(crate) fn occupy_seat(
    limits: &LimitConfig,
    page: Option<OwnedFd>,
    seat: u32,
    growth: &Arc<Growth>,
) -> Result<SessionSlot, WorkerError> {
    let invalid = |why: &str| WorkerError::Control(format!("invalid limits page: {why}"));
    let page = page.ok_or_else(|| invalid("missing"))?;
    let page = Page::open(page).map_err(|error| invalid(&error.to_string()))?;
    // Before this process starts other threads, so that all inherit it. Failure is ignored: the priority is best effort.
    // SAFETY: passes integers and touches no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, limits.niceness()) };
    let seat = SessionSlot::new(Arc::new(page), seat).ok_or_else(|| invalid("no such seat"))?;
    let growth = Arc::clone(growth);
    Ok(seat.growing(move |device, bytes| growth.ask(device, bytes)))
}
