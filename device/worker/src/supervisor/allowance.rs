//! The worker's side of limits: the shared limits page of its sessions, the assignment of seats on it, and recent usage.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use limits::{LimitConfig, Page};
use parking_lot::Mutex;
use worker_status::DeviceLimits;

use crate::error::WorkerError;
use crate::supervisor::custody::{Custody, Held, limits_text, page_key};
use crate::supervisor::ledgers::{LedgerConfig, Ledgers};

/// Number of samples kept.
const LOOKS: usize = 60;

/// Limits shared by the sessions of a worker or of a tenant.
pub(crate) struct Allowance {
    limits: LimitConfig,
    /// The limits as text, for comparison.
    text: String,
    page: Arc<Page>,
    ledgers: Option<Ledgers>,
    free: Arc<Mutex<Vec<u32>>>,
    /// Usage samples: time, and the device time used until then, by device.
    looks: Mutex<VecDeque<(Instant, Vec<u64>)>>,
    /// The tenant that it belongs to; `None` for the worker as a whole.
    tenant: Option<String>,
    /// Names the page for the next supervisor.
    id: u64,
    custody: Arc<Custody>,
}

impl Allowance {
    pub(crate) fn new(limits: LimitConfig, devices: u32, seats: u32) -> io::Result<Allowance> {
        Ok(Allowance::on(Page::create(&limits, devices, seats)?, limits, random_id()?))
    }

    /// Continues the page of an earlier supervisor. Seats are free until [`Allowance::keep_seat`] says otherwise.
    pub(crate) fn adopt(
        page: OwnedFd,
        id: u64,
        tenant: Option<&str>,
        text: &str,
        custody: &Arc<Custody>,
    ) -> io::Result<Allowance> {
        let limits = serde_json::from_str(text)?;
        let mut allowance = Allowance::on(Page::open(page)?, limits, id);
        // Not `limits_text(&limits)`: a number may differ in its last digit after it was read.
        text.clone_into(&mut allowance.text);
        Ok(allowance.held_by(custody, tenant))
    }

    fn on(page: Page, limits: LimitConfig, id: u64) -> Allowance {
        let page = Arc::new(page);
        let free = Arc::new(Mutex::new((0..page.seats()).rev().collect()));
        let spent = (0..page.devices()).map(|device| page.account(device).spent).collect();
        let looks = Mutex::new(VecDeque::from([(Instant::now(), spent)]));
        let text = limits_text(&limits);
        Allowance {
            limits,
            text,
            page,
            ledgers: None,
            free,
            looks,
            tenant: None,
            id,
            custody: Arc::default(),
        }
    }

    /// Leaves the page to the next supervisor, as that of a tenant or of the worker as a whole.
    pub(crate) fn held_by(mut self, custody: &Arc<Custody>, tenant: Option<&str>) -> Allowance {
        (self.custody, self.tenant) = (Arc::clone(custody), tenant.map(str::to_owned));
        let held = Held::Page { id: self.id, tenant: self.tenant.clone(), limits: self.text.clone() };
        self.custody.put(&held, Some(self.page.file().as_raw_fd()));
        self
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether the page has this owner, these limits and this size.
    pub(crate) fn fits(&self, tenant: Option<&str>, limits: LimitConfig, devices: u32, seats: u32) -> bool {
        self.tenant.as_deref() == tenant
            && self.text == limits_text(&limits)
            && (self.page.devices(), self.page.seats()) == (devices.max(1), seats.max(1))
    }

    /// Assigns an adopted session the seat that it has.
    pub(crate) fn keep_seat(&self, seat: u32) -> Option<SeatGuard> {
        let mut free = self.free.lock();
        let at = free.iter().position(|it| *it == seat)?;
        free.remove(at);
        Some(SeatGuard { page: Arc::clone(&self.page), free: Arc::clone(&self.free), seat })
    }

    /// Clears the seats that no session has: an earlier supervisor may have been killed before it could.
    pub(crate) fn clear_free_seats(&self) {
        self.free.lock().iter().for_each(|seat| self.page.vacate(*seat));
    }

    /// Additionally limits memory to what each GPU's ledger grants.
    pub(crate) fn within(mut self, config: &LedgerConfig) -> Result<Allowance, WorkerError> {
        self.ledgers = Some(Ledgers::open(config, &self.limits, &self.page)?);
        Ok(self)
    }

    /// The same for a page with sessions that use memory already.
    pub(crate) fn still_within(mut self, config: &LedgerConfig) -> Result<Allowance, WorkerError> {
        self.ledgers = Some(Ledgers::resume(config, &self.limits, &self.page)?);
        Ok(self)
    }

    /// Grants sessions `bytes` more of a device, if they are available.
    pub(crate) fn grow(&self, device: u32, bytes: u64) -> bool {
        self.ledgers.as_ref().is_some_and(|ledgers| ledgers.grow(&self.page, device, bytes))
    }

    /// Whether memory is limited to what ledgers grant.
    pub(super) fn has_ledgers(&self) -> bool {
        self.ledgers.is_some()
    }

    /// Returns unused memory to the ledgers, if there are any, for as long as the worker runs.
    pub(super) fn keep_trim(&self) {
        if let Some(ledgers) = &self.ledgers {
            ledgers.keep_trim(&self.page);
        }
    }

    /// Assigns a seat to a new session.
    pub(crate) fn take_seat(&self) -> io::Result<SeatGuard> {
        let seat = self.free.lock().pop().ok_or_else(|| io::Error::other("too many sessions"))?;
        Ok(SeatGuard { page: Arc::clone(&self.page), free: Arc::clone(&self.free), seat })
    }

    /// Returns the device time used by the session in a seat, by device.
    pub(crate) fn spent_by(&self, seat: u32) -> Vec<u64> {
        (0..self.page.devices()).map(|device| self.page.spent_by(seat, device)).collect()
    }

    pub(crate) fn status(&self, device: u32) -> DeviceLimits {
        if device >= self.page.devices() {
            return DeviceLimits::default();
        }
        let account = self.page.account(device);
        let looks = self.looks.lock();
        let since = |ago: usize| {
            let Some((last, now)) = looks.back() else { return 0.0 };
            let Some((then, before)) = looks.get(looks.len().saturating_sub(1 + ago)) else { return 0.0 };
            let spent = now[device as usize].saturating_sub(before[device as usize]) as f64;
            (100.0 * spent / last.duration_since(*then).as_nanos().max(1) as f64) as f32
        };
        let compute = self.limits.compute.unwrap_or(100.0);
        DeviceLimits {
            memory: self.limits.memory,
            compute_percent: compute,
            compute_request_percent: self.limits.request.unwrap_or(compute),
            qos: self.limits.qos,
            used_percent: since(1),
            used_percent_minute: since(LOOKS),
            spent_ns: account.spent,
            launches: account.launches,
            throttled: account.waits,
            throttled_ns: account.waited,
            refused: account.refused,
            host_memory: self.page.host_limit(),
            host_memory_used: self.page.host_used(),
        }
    }

    /// Takes a usage sample.
    pub(super) fn look(&self) {
        let spent = (0..self.page.devices()).map(|device| self.page.account(device).spent).collect();
        let mut looks = self.looks.lock();
        if looks.len() > LOOKS {
            looks.pop_front();
        }
        looks.push_back((Instant::now(), spent));
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.custody.remove(page_key(self.id));
    }
}

fn random_id() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// An assigned seat. Dropped when its process has exited, which frees what the process held.
pub(crate) struct SeatGuard {
    page: Arc<Page>,
    free: Arc<Mutex<Vec<u32>>>,
    seat: u32,
}

impl SeatGuard {
    pub(crate) fn number(&self) -> u32 {
        self.seat
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.page.file().as_raw_fd()
    }
}

impl Drop for SeatGuard {
    fn drop(&mut self) {
        self.page.vacate(self.seat);
        self.free.lock().push(self.seat);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use limits::SessionSlot;

    use super::*;

    #[test]
    fn a_place_is_free_again_with_all_it_held_when_its_process_has_ended() {
        let limits = LimitConfig { memory: Some(1 << 20), compute: Some(25.0), ..LimitConfig::default() };
        let allowance = Allowance::new(limits, 1, 1).unwrap();
        let taken = allowance.take_seat().unwrap();
        assert!(allowance.take_seat().is_err());
        let seat = SessionSlot::new(Arc::clone(&allowance.page), taken.number()).unwrap();
        seat.take(0, 1 << 20).unwrap();
        seat.charge(0, limits::now(), 1000);
        assert_eq!(allowance.spent_by(taken.number()), [1000]);
        drop(taken);
        let again = allowance.take_seat().unwrap();
        assert_eq!(allowance.spent_by(again.number()), [0]);
        assert!(
            SessionSlot::new(Arc::clone(&allowance.page), again.number()).unwrap().take(0, 1 << 20).is_ok()
        );
        let status = allowance.status(0);
        assert_eq!((status.memory, status.compute_percent, status.spent_ns), (Some(1 << 20), 25.0, 1000));
    }

    #[test]
    fn use_is_told_for_the_last_second_and_the_last_minute() {
        let allowance = Allowance::new(LimitConfig::default(), 1, 1).unwrap();
        let start = Instant::now();
        let mut looks = VecDeque::new();
        for second in 0..=90u64 {
            // Idle at first, then half of the time.
            let spent = second.saturating_sub(60) * 500_000_000;
            looks.push_back((start + Duration::from_secs(second), vec![spent]));
            if looks.len() > LOOKS + 1 {
                looks.pop_front();
            }
        }
        *allowance.looks.lock() = looks;
        let status = allowance.status(0);
        assert_eq!((status.used_percent, status.used_percent_minute), (50.0, 25.0));
    }
}
