//! The device: accepts kernel launches and runs them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::Level;
use crate::fault::Fault;
use crate::grid::Grid;
use crate::initial_registers::WorkItems;
use crate::launch::{Dispatch, GpuConfig};
use crate::launch_stats::LaunchStats;
use crate::schedule::Pool;

/// A software GPU. Launches may come from several threads at once.
#[derive(Debug)]
pub struct Gpu {
    config: GpuConfig,
    level: Level,
    pool: Pool,
    dispatches: AtomicU64,
    work_items: WorkItems,
}

impl Gpu {
    /// Creates a device and starts its threads.
    pub fn new(config: GpuConfig) -> Gpu {
        let best = Level::detect();
        let level = config.level.map_or(best, |level| level.min(best));
        Gpu {
            config,
            level,
            pool: Pool::new(config.threads),
            dispatches: AtomicU64::new(1),
            work_items: WorkItems::default(),
        }
    }

    /// The configuration that the device was created with.
    pub fn config(&self) -> &GpuConfig {
        &self.config
    }

    /// The CPU level kernels run at.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Runs a kernel to completion.
    pub fn launch(&self, dispatch: &Dispatch) -> Result<LaunchStats, Fault> {
        let start = Instant::now();
        let id = self.dispatches.fetch_add(1, Ordering::Relaxed);
        let grid = Grid::new(&self.config, self.level, &self.work_items, dispatch, id)?;
        self.pool.run(&grid);
        if let Some(fault) = grid.fault.lock().take() {
            if let Some(launch) = &grid.observed {
                launch.end(Err(&fault), &grid.memory);
            }
            return Err(fault);
        }
        if let Some(buffer) = &grid.printf {
            buffer.drain(grid.kernel.printf_formats(), dispatch.output.as_ref());
        }
        let stats = LaunchStats { elapsed: start.elapsed(), ..*grid.counts.lock() };
        grid.kernel.note_launch(&stats);
        if let Some(launch) = &grid.observed {
            launch.end(Ok(&stats), &grid.memory);
        }
        Ok(stats)
    }
}
