//! The plan of a graph: which nodes share a stream, and which wait for events of others.

use backend::{Device, DeviceError, EventId, StreamId};
use hip_api::types::hipEventDisableTiming;
use wire::GraphNode;

/// Limit on parallel branches (lanes) of a graph per device; more share lanes.
const MAX_LANES: usize = 4;
/// Tag bit in the ids of streams and events that graphs create; no client id has it.
const OWN: u64 = 1 << 63;

/// Assignment of nodes to lanes.
#[derive(Default)]
pub(super) struct Plan {
    /// Lane of each node.
    pub(super) lanes: Vec<usize>,
    /// Event of each node that another lane waits for.
    pub(super) events: Vec<Option<EventId>>,
    /// Device of each lane, and its stream once created. Lane 0 is the launching stream, if that is on the lane's device.
    pub(super) streams: Vec<(u32, Option<StreamId>)>,
    /// Recorded on the launching stream at the start, and on each lane in turn at the end.
    pub(super) fork: Option<EventId>,
}

impl Plan {
    /// Assigns lanes: a node continues the lane of a dependency that is that lane's last node; otherwise it starts a new lane.
    pub(super) fn new(nodes: &[GraphNode]) -> Plan {
        let mut lanes: Vec<usize> = Vec::with_capacity(nodes.len());
        let mut tails: Vec<(u32, usize)> = Vec::new();
        let mut events = vec![None; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            let after = node.dependencies.iter().map(|it| *it as usize);
            let goes_on = after
                .filter(|it| {
                    let (device, tail) = tails[lanes[*it]];
                    device == node.device && tail == *it
                })
                .map(|it| lanes[it])
                .min();
            let same = || tails.iter().enumerate().filter(|(_, (device, _))| *device == node.device);
            let lane = match goes_on {
                Some(lane) => lane,
                None if same().count() >= MAX_LANES => {
                    // All lanes are taken: share the one with the oldest last node.
                    same().min_by_key(|(_, (_, tail))| *tail).map_or(0, |(lane, _)| lane)
                }
                None => {
                    tails.push((node.device, index));
                    tails.len() - 1
                }
            };
            tails[lane].1 = index;
            lanes.push(lane);
            for dependency in &node.dependencies {
                if lanes[*dependency as usize] != lane {
                    events[*dependency as usize] = Some(0);
                }
            }
        }
        let streams = tails.into_iter().map(|(device, _)| (device, None)).collect();
        Plan { lanes, events, streams, fork: None }
    }

    /// Creates the streams and events that a launch on a stream of device `home` needs.
    pub(super) fn equip(
        &mut self,
        device: &dyn Device,
        home: u32,
        next: &mut u64,
    ) -> Result<(), DeviceError> {
        for (lane, (on, stream)) in self.streams.iter_mut().enumerate() {
            if stream.is_none() && !(lane == 0 && *on == home) {
                let id = own(next);
                device.create_stream(*on, id, true, 0)?;
                *stream = Some(id);
            }
        }
        let lanes = &self.lanes;
        let streams = &self.streams;
        for (node, event) in self.events.iter_mut().enumerate() {
            if *event == Some(0) {
                *event = Some(create_event(device, streams[lanes[node]].0, next)?);
            }
        }
        if self.fork.is_none() && self.streams.iter().any(|(_, stream)| stream.is_some()) {
            self.fork = Some(create_event(device, home, next)?);
        }
        Ok(())
    }
}

/// Whether a stream or an event belongs to a graph.
pub(super) fn is_own(id: u64) -> bool {
    id & OWN != 0
}

/// Returns a new id for a stream or event of a graph.
fn own(next: &mut u64) -> u64 {
    *next += 1;
    OWN | *next
}

/// Creates an event of a graph.
pub(super) fn create_event(device: &dyn Device, on: u32, next: &mut u64) -> Result<EventId, DeviceError> {
    let id = own(next);
    device.create_event(id, on, hipEventDisableTiming)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(dependencies: Vec<u32>, device: u32) -> GraphNode {
        GraphNode { device, dependencies, steps: Vec::new() }
    }

    /// Random graphs of up to 40 nodes on up to two devices, each edge with probability 1/4.
    fn random_graph(seed: u64) -> Vec<GraphNode> {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let count = next() % 41;
        (0..count).map(|index| node((0..index).filter(|_| next() % 4 == 0).collect(), next() % 2)).collect()
    }

    #[test]
    fn every_dependency_is_kept_by_a_lane_or_by_an_event() {
        for seed in 0..500 {
            let nodes = random_graph(seed);
            let plan = Plan::new(&nodes);
            for device in 0..2 {
                assert!(plan.streams.iter().filter(|(on, _)| *on == device).count() <= MAX_LANES);
            }
            for (index, node) in nodes.iter().enumerate() {
                assert_eq!(plan.streams[plan.lanes[index]].0, node.device, "a node runs on its device");
                for dependency in node.dependencies.iter().map(|it| *it as usize) {
                    let same = plan.lanes[dependency] == plan.lanes[index];
                    assert!(same || plan.events[dependency].is_some(), "{dependency} before {index}");
                }
            }
        }
    }

    #[test]
    fn a_chain_needs_one_lane_and_no_event() {
        let nodes: Vec<GraphNode> =
            (0..10u32).map(|index| node(index.checked_sub(1).into_iter().collect(), 0)).collect();
        let plan = Plan::new(&nodes);
        assert_eq!(plan.streams.len(), 1);
        assert!(plan.events.iter().all(Option::is_none));
    }
}
