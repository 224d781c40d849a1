//! Memory growth, the supervisor's side: the worker's rows in the ledgers of its GPUs.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use limits::{Ledger, LedgerError, LimitConfig, Page};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::WorkerError;

/// Interval at which unused memory is returned to the ledger. Requests that find it short retry for longer than that before they
/// are refused.
pub(crate) const TRIM: Duration = Duration::from_millis(100);
const CONTENTION: Duration = Duration::from_millis(350);
const AGAIN: Duration = Duration::from_millis(25);
/// Ticks between two reads of what other workers have.
const REACH_TICKS: u32 = 10;

/// Ledger files of a worker's GPUs, in device order, and the worker's name in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerConfig {
    /// Name of the worker in the ledgers.
    pub owner: String,
    /// One ledger per device.
    pub files: Vec<PathBuf>,
}

/// The supervisor's side: the worker's rows in the ledgers of its GPUs.
pub(crate) struct Ledgers {
    owner: String,
    ledgers: Vec<Ledger>,
    limit: u64,
    request: u64,
    /// Bytes granted of each device; the lock is held while a grant changes.
    granted: Mutex<Vec<u64>>,
}

impl Ledgers {
    /// Starts with the requested bytes: no session has allocated anything yet.
    pub(crate) fn open(
        config: &LedgerConfig,
        limits: &LimitConfig,
        page: &Page,
    ) -> Result<Ledgers, WorkerError> {
        Ledgers::begin(config, limits, page, |ledger, request| {
            ledger.shrink(&config.owner, request).map(|reach| (request, reach))
        })
    }

    /// Continues with the bytes that an earlier supervisor was granted: its sessions use them.
    pub(crate) fn resume(
        config: &LedgerConfig,
        limits: &LimitConfig,
        page: &Page,
    ) -> Result<Ledgers, WorkerError> {
        // The ledger counts, not the page, which sessions can write to.
        Ledgers::begin(config, limits, page, |ledger, _| {
            Ok((ledger.granted(&config.owner)?, ledger.within_reach(&config.owner)?))
        })
    }

    /// Opens the ledgers. `grant` returns the first grant, and the maximum to which it could grow.
    fn begin(
        config: &LedgerConfig,
        limits: &LimitConfig,
        page: &Page,
        grant: impl Fn(&Ledger, u64) -> Result<(u64, u64), LedgerError>,
    ) -> Result<Ledgers, WorkerError> {
        let failed = |error: LedgerError| WorkerError::Io {
            what: "cannot open the GPU ledgers",
            source: io::Error::other(error),
        };
        let ledgers = config.files.iter().map(|file| Ledger::open(file)).collect::<Result<Vec<_>, _>>();
        let ledgers = ledgers.map_err(failed)?;
        if ledgers.len() != page.devices() as usize {
            let text = format!("{} ledgers for {} GPUs", ledgers.len(), page.devices());
            return Err(WorkerError::Io {
                what: "cannot open the GPU ledgers",
                source: io::Error::other(text),
            });
        }
        let limit = limits.memory.unwrap_or(u64::MAX);
        let request = limits.memory_request.unwrap_or(limit);
        let mut granted = Vec::new();
        for (ledger, device) in ledgers.iter().zip(0..) {
            let (bytes, within_reach) = grant(ledger, request).map_err(failed)?;
            page.grant(device, bytes, within_reach);
            granted.push(bytes);
        }
        Ok(Ledgers { owner: config.owner.clone(), ledgers, limit, request, granted: Mutex::new(granted) })
    }

    /// Grants `bytes` more of a device, if other workers have neither requested nor used them.
    pub(crate) fn grow(&self, page: &Page, device: u32, bytes: u64) -> bool {
        let Some(ledger) = self.ledgers.get(device as usize) else { return false };
        let deadline = Instant::now() + CONTENTION;
        loop {
            let mut granted = self.granted.lock();
            let mine = &mut granted[device as usize];
            let wanted = mine.saturating_add(bytes);
            if wanted > self.limit {
                return false;
            }
            match ledger.grow(&self.owner, wanted) {
                Ok(within_reach) => {
                    *mine = wanted;
                    page.grant(device, wanted, within_reach);
                    return true;
                }
                // Other workers may have freed memory and not returned it yet: retry.
                Err(LedgerError::Short { .. }) if Instant::now() < deadline => {
                    drop(granted);
                    std::thread::sleep(AGAIN);
                }
                Err(error) => {
                    tracing::info!("cannot get more memory of device {device}: {error}");
                    return false;
                }
            }
        }
    }

    /// Returns memory that sessions no longer use to the ledgers.
    fn trim(&self, page: &Page, look_around: bool) {
        for (ledger, device) in self.ledgers.iter().zip(0..) {
            let mut granted = self.granted.lock();
            let mine = &mut granted[device as usize];
            let mut reach = None;
            if *mine > self.request {
                let keep = page.shrink_grant(device, self.request);
                if keep < *mine {
                    *mine = keep;
                    reach = ledger.shrink(&self.owner, keep).ok();
                }
            }
            if reach.is_none() && look_around {
                reach = ledger.within_reach(&self.owner).ok();
            }
            if let Some(reach) = reach {
                page.grant(device, *mine, reach);
            }
        }
    }

    /// Trims periodically for as long as the worker runs.
    pub(crate) fn keep_trim(&self, page: &Page) -> ! {
        let mut tick = 0u32;
        loop {
            std::thread::sleep(TRIM);
            tick = tick.wrapping_add(1);
            self.trim(page, tick.is_multiple_of(REACH_TICKS));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use limits::SessionSlot;

    use super::*;

    /// A worker of a GPU with a ledger, and its limits page.
    fn worker(path: &std::path::Path, owner: &str, request: u64, limit: u64) -> (Arc<Ledgers>, Arc<Page>) {
        let limits =
            LimitConfig { memory: Some(limit), memory_request: Some(request), ..LimitConfig::default() };
        let page = Arc::new(Page::create(&limits, 1, 4).unwrap());
        let config = LedgerConfig { owner: owner.to_owned(), files: vec![path.to_owned()] };
        (Arc::new(Ledgers::open(&config, &limits, &page).unwrap()), page)
    }

    fn seat((ledgers, page): &(Arc<Ledgers>, Arc<Page>)) -> SessionSlot {
        let (ledgers, granting) = (Arc::clone(ledgers), Arc::clone(page));
        let seat = SessionSlot::new(Arc::clone(page), 0).unwrap();
        seat.growing(move |device, bytes| ledgers.grow(&granting, device, bytes))
    }

    #[test]
    fn two_bursters_together_leave_a_third_what_it_requested() {
        const MIB: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu");
        let agent = Ledger::create(&path, 16 * MIB).unwrap();
        for owner in ["a", "b", "c"] {
            agent.reserve(owner, 4 * MIB).unwrap();
        }
        let [first, second] = ["a", "b"].map(|owner| worker(&path, owner, 4 * MIB, 12 * MIB));
        let third = worker(&path, "c", 4 * MIB, 4 * MIB);
        let [a, b, c] = [&first, &second, &third].map(seat);
        assert_eq!(a.memory(0), Some((8 * MIB, 12 * MIB)));
        a.take(0, 8 * MIB).unwrap();
        assert!(b.take(0, 5 * MIB).is_err());
        b.take(0, 4 * MIB).unwrap();
        c.take(0, 4 * MIB).unwrap();
        // Memory returned by one worker is available to another.
        a.give(0, 3 * MIB);
        first.0.trim(&first.1, true);
        b.take(0, 3 * MIB).unwrap();
        assert!(a.take(0, MIB).is_err());
        assert_eq!(agent.taken().unwrap(), 16 * MIB);
    }

    #[test]
    fn the_next_supervisor_keeps_the_grant_of_running_sessions() {
        const MIB: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu");
        let agent = Ledger::create(&path, 16 * MIB).unwrap();
        agent.reserve("a", 4 * MIB).unwrap();
        let first = worker(&path, "a", 4 * MIB, 12 * MIB);
        seat(&first).take(0, 10 * MIB).unwrap();
        let (ledgers, page) = first;
        drop(ledgers);
        let limits =
            LimitConfig { memory: Some(12 * MIB), memory_request: Some(4 * MIB), ..LimitConfig::default() };
        let config = LedgerConfig { owner: "a".to_owned(), files: vec![path] };
        let next = (Arc::new(Ledgers::resume(&config, &limits, &page).unwrap()), page);
        assert_eq!(agent.taken().unwrap(), 10 * MIB);
        seat(&next).take(0, 2 * MIB).unwrap();
        assert!(seat(&next).take(0, 1).is_err(), "the limit holds");
        seat(&next).give(0, 12 * MIB);
        next.0.trim(&next.1, false);
        assert_eq!(agent.taken().unwrap(), 4 * MIB);
    }
}
