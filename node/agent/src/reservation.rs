//! Reservation arithmetic: shares of GPUs, whether another share fits, and which GPUs to choose. Pure functions without clock or processes.
//!
//! Requests are guaranteed: their sum fits the GPU. Limits may exceed requests and are used while other allocations are idle: their sum
//! fits the GPU times the oversubscription ratio.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::{Oversubscription, Placement};
use crate::device::Gpu;

/// Tolerance when sums of percentages are compared, for floating-point rounding.
const DUST: f64 = 1e-6;

/// A share of a GPU: requests and limits of memory and compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    pub memory_request_bytes: u64,
    pub memory_limit_bytes: u64,
    pub compute_request_percent: f64,
    pub compute_limit_percent: f64,
}

impl Share {
    pub(crate) fn plus(self, other: &Share) -> Share {
        Share {
            memory_request_bytes: self.memory_request_bytes.saturating_add(other.memory_request_bytes),
            memory_limit_bytes: self.memory_limit_bytes.saturating_add(other.memory_limit_bytes),
            compute_request_percent: self.compute_request_percent + other.compute_request_percent,
            compute_limit_percent: self.compute_limit_percent + other.compute_limit_percent,
        }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Share { memory_request_bytes, memory_limit_bytes, .. } = self;
        let (request, limit) = (self.compute_request_percent, self.compute_limit_percent);
        write!(
            f,
            "{memory_request_bytes} bytes of memory (limit {memory_limit_bytes}) and {request} % of compute (limit {limit} %)"
        )
    }
}

/// Why a share does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Shortage {
    #[error("{asked} bytes of memory were requested; {free} of {of} are neither reserved nor used by others")]
    Memory { asked: u64, free: u64, of: u64 },
    #[error(
        "a memory limit of {asked} bytes was requested; {free} of {of} are left under the oversubscription ratio"
    )]
    MemoryLimit { asked: u64, free: u64, of: u64 },
    #[error("{asked} % of compute were requested; {free} % are not reserved by others")]
    Compute { asked: f64, free: f64 },
    #[error(
        "a compute limit of {asked} % was requested; {free} % of {of} % are left under the oversubscription ratio"
    )]
    ComputeLimit { asked: f64, free: f64, of: f64 },
}

/// Returns the capacity of a GPU: the most that the shares of all its allocations may add up to.
pub(crate) fn capacity(gpu: &Gpu, ratios: &Oversubscription) -> Share {
    Share {
        memory_request_bytes: gpu.memory_bytes,
        memory_limit_bytes: (gpu.memory_bytes as f64 * ratios.memory) as u64,
        compute_request_percent: 100.0,
        compute_limit_percent: 100.0 * ratios.compute,
    }
}

/// Checks whether a share still fits.
pub(crate) fn fits(capacity: &Share, used: &Share, wanted: &Share) -> Result<(), Shortage> {
    let left = |of: u64, used: u64| of.saturating_sub(used);
    let free = left(capacity.memory_request_bytes, used.memory_request_bytes);
    if wanted.memory_request_bytes > free {
        let (asked, of) = (wanted.memory_request_bytes, capacity.memory_request_bytes);
        return Err(Shortage::Memory { asked, free, of });
    }
    let free = left(capacity.memory_limit_bytes, used.memory_limit_bytes);
    if wanted.memory_limit_bytes > free {
        let (asked, of) = (wanted.memory_limit_bytes, capacity.memory_limit_bytes);
        return Err(Shortage::MemoryLimit { asked, free, of });
    }
    let free = (capacity.compute_request_percent - used.compute_request_percent).max(0.0);
    if wanted.compute_request_percent > free + DUST {
        return Err(Shortage::Compute { asked: wanted.compute_request_percent, free });
    }
    let free = (capacity.compute_limit_percent - used.compute_limit_percent).max(0.0);
    if wanted.compute_limit_percent > free + DUST {
        let (asked, of) = (wanted.compute_limit_percent, capacity.compute_limit_percent);
        return Err(Shortage::ComputeLimit { asked, free, of });
    }
    Ok(())
}

/// Chooses `count` of the GPUs. Each entry is an index with the GPU's capacity, its reserved share and the requested share.
pub(crate) fn choose(
    gpus: &[(usize, Share, Share, Share)],
    count: usize,
    placement: Placement,
) -> Result<Vec<usize>, Option<Shortage>> {
    let mut shortage = None;
    let mut fitting: Vec<(f64, usize)> = Vec::new();
    for (at, capacity, used, wanted) in gpus {
        match fits(capacity, used, wanted) {
            Ok(()) => {
                let memory = used.memory_request_bytes as f64 / capacity.memory_request_bytes.max(1) as f64;
                let compute = used.compute_request_percent / capacity.compute_request_percent.max(DUST);
                fitting.push((memory.max(compute), *at));
            }
            Err(short) => shortage = shortage.or(Some(short)),
        }
    }
    if count == 0 || fitting.len() < count {
        return Err(shortage);
    }
    // The device order breaks ties.
    fitting.sort_by(|left, right| match placement {
        Placement::Compact => right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)),
        Placement::Spread => left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)),
    });
    Ok(fitting.into_iter().take(count).map(|(_, at)| at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn share(memory: u64, compute: f64) -> Share {
        Share {
            memory_request_bytes: memory * GIB,
            memory_limit_bytes: memory * GIB,
            compute_request_percent: compute,
            compute_limit_percent: compute,
        }
    }

    #[test]
    fn what_is_promised_together_fits_the_gpu() {
        let whole = share(192, 100.0);
        let used = share(48, 25.0).plus(&share(96, 50.0));
        assert_eq!(fits(&whole, &used, &share(48, 25.0)), Ok(()));
        let over = fits(&whole, &used, &share(49, 25.0));
        assert_eq!(over, Err(Shortage::Memory { asked: 49 * GIB, free: 48 * GIB, of: 192 * GIB }));
        assert_eq!(fits(&whole, &used, &share(1, 26.0)), Err(Shortage::Compute { asked: 26.0, free: 25.0 }));
    }

    #[test]
    fn limits_may_be_oversubscribed_by_the_ratio_and_no_further() {
        let twice =
            Share { compute_limit_percent: 200.0, memory_limit_bytes: 192 * GIB, ..share(192, 100.0) };
        let elastic = |limit| Share { compute_limit_percent: limit, ..share(16, 20.0) };
        let used = elastic(100.0).plus(&elastic(80.0));
        assert_eq!(fits(&twice, &used, &elastic(20.0)), Ok(()));
        assert!(matches!(fits(&twice, &used, &elastic(21.0)), Err(Shortage::ComputeLimit { .. })));
        let memory = Share { memory_limit_bytes: 161 * GIB, ..elastic(20.0) };
        assert!(matches!(fits(&twice, &used, &memory), Err(Shortage::MemoryLimit { .. })));
    }

    #[test]
    fn tenths_add_up_to_the_whole() {
        let whole = share(100, 100.0);
        let mut used = Share::default();
        for _ in 0..10 {
            fits(&whole, &used, &share(10, 10.0)).unwrap();
            used = used.plus(&share(10, 10.0));
        }
        for _ in 0..30 {
            used.compute_request_percent += 0.1;
            used.compute_request_percent -= 0.1;
        }
        assert!(fits(&whole, &used, &share(0, 0.1)).is_err());
    }

    #[test]
    fn the_fullest_that_fits_is_taken_or_the_emptiest() {
        let whole = share(192, 100.0);
        let wanted = share(48, 25.0);
        let gpus = [
            (0, whole, share(0, 0.0), wanted),
            (1, whole, share(96, 50.0), wanted),
            (2, whole, share(180, 90.0), wanted),
        ];
        assert_eq!(choose(&gpus, 1, Placement::Compact), Ok(vec![1]));
        assert_eq!(choose(&gpus, 1, Placement::Spread), Ok(vec![0]));
        assert_eq!(choose(&gpus, 2, Placement::Compact), Ok(vec![1, 0]));
        assert!(matches!(choose(&gpus, 3, Placement::Compact), Err(Some(Shortage::Memory { .. }))));
        assert_eq!(choose(&[], 1, Placement::Compact), Err(None));
    }
}
