//! GPU memory ledgers: the memory that allocations have requested, and what their workers use beyond that.
//!
//! Each GPU has one ledger file in the agent's folder. The agent adds and removes rows; workers increase the usage in their own rows within
//! the free memory. So requested memory is never used by other allocations, and memory in use is not reserved a second time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use limits::{Ledger, LedgerError};

use crate::allocation::Allocation;
use crate::device::Gpu;
use crate::error::AgentError;
use crate::reservation::Shortage;
use crate::state::Folder;

/// Returns the path of a GPU's ledger.
pub(crate) fn path(folder: &Folder, uuid: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    folder.path().join("ledgers").join(uuid.chars().map(plain).collect::<String>())
}

fn open(folder: &Folder, gpu: &Gpu) -> Result<Ledger, AgentError> {
    let path = path(folder, &gpu.uuid);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .map_err(|source| AgentError::Io { path: parent.to_owned(), source })?;
    }
    Ledger::create(&path, gpu.memory_bytes).map_err(failed)
}

fn failed(error: LedgerError) -> AgentError {
    match error {
        LedgerError::Short { asked, free, total } => {
            AgentError::Short(Shortage::Memory { asked, free, of: total })
        }
        LedgerError::Io { path, source } => AgentError::Io { path, source },
        error @ LedgerError::Unknown { .. } => AgentError::Refused(error.to_string()),
    }
}

/// Brings the ledgers in line with the existing allocations.
pub(crate) fn settle(
    folder: &Folder,
    gpus: &[Gpu],
    allocations: &BTreeMap<String, Allocation>,
) -> Result<(), AgentError> {
    for gpu in gpus {
        let ledger = open(folder, gpu)?;
        let of_gpu = |it: &Allocation| it.devices.contains(&gpu.uuid);
        ledger.retain(|owner| allocations.get(owner).is_some_and(of_gpu)).map_err(failed)?;
        for allocation in allocations.values().filter(|it| of_gpu(it)) {
            if !ledger.has(&allocation.id).map_err(failed)? {
                ledger.reserve(&allocation.id, allocation.share.memory_request_bytes).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// Reserves the requested memory of an allocation on all its GPUs, or on none.
pub(crate) fn reserve(folder: &Folder, gpus: &[Gpu], allocation: &Allocation) -> Result<(), AgentError> {
    let of_allocation = gpus.iter().filter(|gpu| allocation.devices.contains(&gpu.uuid));
    let mut reserved = of_allocation.map(|gpu| {
        open(folder, gpu)?.reserve(&allocation.id, allocation.share.memory_request_bytes).map_err(failed)
    });
    let result = reserved.try_for_each(|it| it);
    drop(reserved);
    result.inspect_err(|_| release(folder, allocation))
}

/// Releases the memory of an allocation on all its GPUs.
pub(crate) fn release(folder: &Folder, allocation: &Allocation) {
    for uuid in &allocation.devices {
        let released = Ledger::open(&path(folder, uuid)).and_then(|it| it.release(&allocation.id));
        if let Err(error) = released {
            tracing::warn!("allocation {}: {error}", allocation.id);
        }
    }
}

/// Returns the bytes of a GPU that are requested, or used beyond requests.
pub(crate) fn taken(folder: &Folder, gpu: &Gpu) -> u64 {
    Ledger::open(&path(folder, &gpu.uuid)).and_then(|ledger| ledger.taken()).unwrap_or(0)
}
