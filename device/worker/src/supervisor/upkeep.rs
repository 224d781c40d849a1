//! Threads that keep the limits of a worker up to date: usage samples, and memory returned to the ledgers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::supervisor::tenants::Tenants;

/// Interval between two usage samples.
const LOOK: Duration = Duration::from_secs(1);

/// Starts a thread that samples usage once a second, if there are limits.
pub(crate) fn measure(tenants: Arc<Tenants>) -> io::Result<()> {
    if !tenants.are_limited() {
        return Ok(());
    }
    let look = move || {
        loop {
            std::thread::sleep(LOOK);
            tenants.allowances().iter().for_each(|allowance| allowance.look());
        }
    };
    std::thread::Builder::new().name("measure".to_owned()).spawn(look).map(drop)
}

/// Starts a thread that returns unused memory beyond the request to the ledger, if the GPU has one.
pub(crate) fn trim(tenants: Arc<Tenants>) -> io::Result<()> {
    if !tenants.shared().is_some_and(|allowance| allowance.has_ledgers()) {
        return Ok(());
    }
    let trim = move || {
        if let Some(allowance) = tenants.shared() {
            allowance.keep_trim();
        }
    };
    std::thread::Builder::new().name("trim".to_owned()).spawn(trim).map(drop)
}
