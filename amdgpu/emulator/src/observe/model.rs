//! Performance model: an estimate of the time that a launch takes on a real GPU, and of what limits it.
//!
//! A launch is recorded while it runs ([`record`]) and estimated when it has ended ([`estimate`]): the accesses go through modelled
//! caches ([`hierarchy`]), and each path of a wave through a scoreboard ([`scoreboard`]). The estimate is a function of the program,
//! its inputs and the parameters ([`gpu`]), never of the host's speed or threads. `docs/performance-model.md` has the design.

mod cache;
mod coalesce;
mod estimate;
pub mod gpu;
mod hierarchy;
mod kernel;
mod peer;
mod record;
mod scoreboard;
mod site;
mod text;
mod unit;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

pub use estimate::Resource;
pub use gpu::{CacheShape, GPUS, GpuTiming, Latencies, Transfer};
pub use hierarchy::{HitCount, LoadHits};
pub use kernel::{KernelEstimate, LineStall, OccupancyEstimate, ResourceTime, RoofShare, Stall};
pub use peer::PeerMemory;
pub use scoreboard::Wait;
pub use text::model_text;
pub use unit::Unit;

use super::MAX_KERNELS;
use super::listing::Listing;
use crate::Level;
use estimate::Shape;
use hierarchy::Hierarchy;
use kernel::Entry;
pub(crate) use record::Recorder;
use record::{Recording, Sampling};
use site::Programs;

/// Estimates of all kernels so far.
#[derive(Debug, Default)]
pub(crate) struct Model {
    kernels: Mutex<Vec<Entry>>,
    /// Caches of the GPUs, by key. They keep their contents between launches.
    hierarchies: Mutex<HashMap<&'static str, Hierarchy>>,
}

impl Model {
    /// Estimates a finished launch and adds it to its kernel.
    pub fn add(&self, launch: &ModelLaunch, listing: &Arc<Listing>, level: Level) {
        let mut recording = launch.recording.lock();
        recording.finish();
        let gpu = launch.shape.gpu;
        let mut hierarchies = self.hierarchies.lock();
        let hierarchy = hierarchies.entry(gpu.key).or_insert_with(|| Hierarchy::new(gpu));
        let bases = launch.programs.bases();
        let estimate =
            estimate::estimate(&launch.shape, listing, level, bases, &recording, hierarchy, &launch.peers);
        let mut kernels = self.kernels.lock();
        if let Some(entry) = kernels.iter_mut().find(|entry| entry.is_of(listing, level, gpu)) {
            entry.add(estimate);
        } else if kernels.len() < MAX_KERNELS {
            kernels.push(Entry::new(gpu, Arc::clone(listing), level, estimate));
        }
    }

    /// Returns the estimates, the kernel with the longest time first.
    pub fn report(&self) -> Vec<KernelEstimate> {
        let mut estimates: Vec<KernelEstimate> = self.kernels.lock().iter().map(Entry::report).collect();
        estimates.sort_by(|a, b| b.time_ns.total_cmp(&a.time_ns).then_with(|| a.kernel.cmp(&b.kernel)));
        estimates
    }
}

/// A launch that is being recorded.
#[derive(Debug)]
pub(crate) struct ModelLaunch {
    shape: Shape,
    programs: Arc<Programs>,
    peers: Arc<PeerMemory>,
    recording: Mutex<Recording>,
}

impl ModelLaunch {
    pub fn new(
        gpu: &'static GpuTiming,
        listing: &Listing,
        groups: u64,
        block: u32,
        lds: u32,
        peers: Arc<PeerMemory>,
    ) -> ModelLaunch {
        let shape = Shape::new(gpu, listing, groups, block, lds);
        let sampling =
            Sampling { groups, resident: shape.resident(), dies: u64::from(gpu.dies), halvings: 0 };
        let recording = Mutex::new(Recording::new(sampling));
        ModelLaunch { shape, programs: Arc::default(), peers, recording }
    }

    /// Starts recording a workgroup.
    pub fn workgroup(&self, linear: u64, waves: usize) -> Recorder {
        let mut recording = self.recording.lock();
        let sampled = recording.sampling.keeps(linear);
        Recorder::new(linear, waves, sampled, &self.programs, recording.spare_counts())
    }

    /// Ends the recording of a workgroup.
    pub fn end(&self, recorder: Recorder) {
        self.recording.lock().add(recorder);
    }
}
