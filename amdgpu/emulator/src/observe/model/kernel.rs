//! Estimate of a kernel over all its launches.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::estimate::{self, LaunchEstimate, Picoseconds, Resource};
use super::gpu::GpuTiming;
use super::hierarchy::{HitCount, LoadHits};
use super::scoreboard::Wait;
use super::site::Site;
use crate::Level;
use crate::observe::listing::Listing;

/// Maximum number of stalls and lines of a report.
const MAX_STALLS: usize = 64;

/// Estimate of a kernel over all its launches. Times and counts are sums over the launches.
#[derive(Clone, Debug, Serialize)]
pub struct KernelEstimate {
    /// Name of the kernel.
    pub kernel: String,
    /// Name of the GPU.
    pub gpu: &'static str,
    /// Number of launches.
    pub launches: u64,
    /// Estimated time, with the start and end of each launch.
    pub time_ns: f64,
    /// What limits the kernel.
    pub limit: Resource,
    /// The same in words.
    pub limit_text: &'static str,
    /// Time that each resource would take alone.
    pub resources: Vec<ResourceTime>,
    /// Achieved parts of the hardware's theoretical peaks.
    pub roofs: Vec<RoofShare>,
    /// Resident waves.
    pub occupancy: OccupancyEstimate,
    /// Workgroups, and those of them whose paths and accesses were modelled; the others are extrapolated.
    pub workgroups: u64,
    /// Of `workgroups`, those that were modelled in detail.
    pub sampled_workgroups: u64,
    /// Number of waves.
    pub waves: u64,
    /// Instructions executed by waves.
    pub instructions: u64,
    /// Floating-point operations, and integer operations of matrix cores.
    pub flops: u64,
    /// Bytes read from and written to HBM.
    pub hbm_bytes: u64,
    /// Bytes read from and written to the memory of other GPUs.
    pub link_bytes: u64,
    /// Hits of the L1 caches.
    pub l1: HitCount,
    /// Hits of the scalar caches.
    pub scalar: HitCount,
    /// Hits of the L2 caches.
    pub l2: HitCount,
    /// Hits of the Infinity Cache.
    pub infinity_cache: HitCount,
    /// Cycles of the sampled waves, if each ran alone on its SIMD.
    pub wave_cycles: u64,
    /// Instructions that wait the longest.
    pub stalls: Vec<Stall>,
    /// Source lines that wait the longest, and others that load, if the kernel was built with debug information.
    pub lines: Vec<LineStall>,
}

/// Time of a resource.
#[derive(Clone, Debug, Serialize)]
pub struct ResourceTime {
    /// The resource.
    pub resource: Resource,
    /// The same in words.
    pub name: &'static str,
    /// Time that it would take if nothing else limited the kernel.
    pub time_ns: f64,
    /// Part of the estimated time.
    pub share: f64,
}

/// Achieved part of a theoretical peak.
#[derive(Clone, Debug, Serialize)]
pub struct RoofShare {
    /// Name of the peak.
    pub name: &'static str,
    /// Achieved rate: GB/s or GFLOP/s.
    pub achieved: f64,
    /// Part of the peak, 0 to 1.
    pub share: f64,
}

/// Resident waves of a kernel's last launch.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OccupancyEstimate {
    /// Workgroups that fit on a compute unit.
    pub workgroups_per_cu: u32,
    /// Waves of a SIMD, of at most 8.
    pub waves_per_simd: f64,
    /// Rounds in which all workgroups of the launch run.
    pub rounds: u64,
}

/// An instruction at which waves wait.
#[derive(Clone, Debug, Serialize)]
pub struct Stall {
    /// What they wait for.
    pub wait: Wait,
    /// Cycles, summed over the sampled waves.
    pub cycles: u64,
    /// Part of the waves' time.
    pub share: f64,
    /// Name of the function.
    pub function: String,
    /// Offset from the start of the function in bytes.
    pub offset: u64,
    /// Disassembly.
    pub text: String,
    /// `FILE:LINE`, if the kernel was built with debug information.
    pub source: Option<String>,
}

/// A source line at which waves wait, or that loads.
#[derive(Clone, Debug, Serialize)]
pub struct LineStall {
    /// `FILE:LINE`.
    pub source: String,
    /// Cycles, summed over the sampled waves.
    pub cycles: u64,
    /// Part of the waves' time.
    pub share: f64,
    /// Cache hits of its loads, among the sampled waves.
    pub hits: LoadHits,
}

/// Launches of a kernel.
#[derive(Debug)]
pub(crate) struct Entry {
    gpu: &'static GpuTiming,
    listing: Arc<Listing>,
    level: Level,
    launches: u64,
    /// Sums over the launches; occupancy is that of the last one.
    sum: LaunchEstimate,
    /// Stalls by address, because launches number programs differently.
    stalls: BTreeMap<(u64, Wait), u64>,
    hits: BTreeMap<u64, LoadHits>,
}

impl Entry {
    pub fn new(gpu: &'static GpuTiming, listing: Arc<Listing>, level: Level, first: LaunchEstimate) -> Entry {
        let mut entry = Entry {
            gpu,
            listing,
            level,
            launches: 1,
            sum: first.clone(),
            stalls: BTreeMap::new(),
            hits: BTreeMap::new(),
        };
        entry.add_stalls(&first);
        entry
    }

    pub fn is_of(&self, listing: &Arc<Listing>, level: Level, gpu: &GpuTiming) -> bool {
        Arc::ptr_eq(&self.listing, listing) && self.level == level && self.gpu.key == gpu.key
    }

    pub fn add(&mut self, launch: LaunchEstimate) {
        self.add_stalls(&launch);
        self.launches += 1;
        let sum = &mut self.sum;
        sum.time += launch.time;
        for (resource, time) in &launch.resources {
            *sum.resources.entry(*resource).or_default() += time;
        }
        sum.occupancy = launch.occupancy;
        sum.groups += launch.groups;
        sum.sampled_groups += launch.sampled_groups;
        sum.waves += launch.waves;
        sum.instructions += launch.instructions;
        sum.flops += launch.flops;
        sum.l1.add(&launch.l1);
        sum.scalar.add(&launch.scalar);
        sum.l2.add(&launch.l2);
        sum.mall.add(&launch.mall);
        sum.hbm_bytes += launch.hbm_bytes;
        sum.link_bytes += launch.link_bytes;
        sum.wave_cycles += launch.wave_cycles;
    }

    fn add_stalls(&mut self, launch: &LaunchEstimate) {
        for ((site, wait), cycles) in &launch.stalls {
            if let Some(address) = self.address(launch, *site) {
                *self.stalls.entry((address, *wait)).or_default() += cycles;
            }
        }
        for (site, hits) in &launch.hits {
            if let Some(address) = self.address(launch, *site) {
                self.hits.entry(address).or_default().add(hits);
            }
        }
    }

    fn address(&self, launch: &LaunchEstimate, site: Site) -> Option<u64> {
        let base = launch.bases.get(site.slot())?;
        let program = self.listing.kernel.program_at(self.level, *base)?;
        match site.is_dropped() {
            true => program.dropped.get(site.index()).map(|(offset, _)| base + u64::from(*offset)),
            false => Some(program.address_of(site.index())),
        }
    }

    pub fn report(&self) -> KernelEstimate {
        let sum = &self.sum;
        let limit = estimate::limit(&sum.resources);
        let time_ns = ns(sum.time);
        let (stalls, lines) = self.stalls();
        let resident = self.gpu.cus() * u64::from(sum.occupancy.groups);
        KernelEstimate {
            kernel: self.listing.name(),
            gpu: self.gpu.name,
            launches: self.launches,
            time_ns,
            limit,
            limit_text: limit.name(),
            resources: Resource::ALL
                .into_iter()
                .map(|resource| {
                    let time = ns(sum.resources.get(&resource).copied().unwrap_or(0));
                    ResourceTime {
                        resource,
                        name: resource.name(),
                        time_ns: time,
                        share: part(time, time_ns),
                    }
                })
                .collect(),
            roofs: self.roofs(time_ns),
            occupancy: OccupancyEstimate {
                workgroups_per_cu: sum.occupancy.groups,
                waves_per_simd: sum.occupancy.waves_per_simd(),
                rounds: (sum.groups / self.launches).div_ceil(resident),
            },
            workgroups: sum.groups,
            sampled_workgroups: sum.sampled_groups,
            waves: sum.waves,
            instructions: sum.instructions,
            flops: sum.flops,
            hbm_bytes: sum.hbm_bytes,
            link_bytes: sum.link_bytes,
            l1: sum.l1,
            scalar: sum.scalar,
            l2: sum.l2,
            infinity_cache: sum.mall,
            wave_cycles: sum.wave_cycles,
            stalls,
            lines,
        }
    }

    fn roofs(&self, time_ns: f64) -> Vec<RoofShare> {
        let busy = |resource| ns(self.sum.resources.get(&resource).copied().unwrap_or(0));
        let gb_s = part(self.sum.hbm_bytes as f64, time_ns);
        let gflops = part(self.sum.flops as f64, time_ns);
        // The peak of an arithmetic unit is reached when it is never idle.
        let (vector, matrix) = (busy(Resource::Valu), busy(Resource::Matrix));
        let (name, busy) = if matrix > vector { ("matrix cores", matrix) } else { ("vector ALUs", vector) };
        vec![
            RoofShare { name: "HBM bandwidth", achieved: gb_s, share: gb_s / self.gpu.hbm_gb_s },
            RoofShare { name, achieved: gflops, share: part(busy, time_ns) },
        ]
    }

    fn stalls(&self) -> (Vec<Stall>, Vec<LineStall>) {
        let whole = self.sum.wave_cycles as f64;
        let mut lines: BTreeMap<String, (u64, LoadHits)> = BTreeMap::new();
        let mut ranked: Vec<(u64, Wait, u64)> = Vec::new();
        for ((address, wait), cycles) in &self.stalls {
            if let Some(source) = self.listing.source(*address) {
                lines.entry(source).or_default().0 += cycles;
            }
            ranked.push((*address, *wait, *cycles));
        }
        for (address, hits) in self.hits.iter().filter(|(_, hits)| **hits != LoadHits::default()) {
            if let Some(source) = self.listing.source(*address) {
                lines.entry(source).or_default().1.add(hits);
            }
        }
        ranked.sort_by_key(|(address, wait, cycles)| (std::cmp::Reverse(*cycles), *address, *wait));
        ranked.truncate(MAX_STALLS);
        let stall = |(address, wait, cycles): (u64, Wait, u64)| {
            let program = self.listing.kernel.program_at(self.level, address);
            Stall {
                wait,
                cycles,
                share: part(cycles as f64, whole),
                function: program.map(|program| self.listing.function(program)).unwrap_or_default(),
                offset: program.map_or(0, |program| address.wrapping_sub(program.base())),
                text: program.map(|program| self.listing.text_at(program, address)).unwrap_or_default(),
                source: self.listing.source(address),
            }
        };
        let stalls = ranked.into_iter().map(stall).collect();
        let mut lines: Vec<LineStall> = lines
            .into_iter()
            .map(|(source, (cycles, hits))| LineStall {
                source,
                cycles,
                share: part(cycles as f64, whole),
                hits,
            })
            .collect();
        lines.sort_by(|a, b| b.cycles.cmp(&a.cycles).then_with(|| a.source.cmp(&b.source)));
        lines.truncate(MAX_STALLS);
        (stalls, lines)
    }
}

fn ns(time: Picoseconds) -> f64 {
    time as f64 / 1000.0
}

fn part(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
