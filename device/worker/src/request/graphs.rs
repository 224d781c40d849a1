//! Executable graphs: defined once, launched with one frame each.
//!
//! A launch becomes commands of the narrow [`Device`] trait, so every back end supports graphs without graph code: AMD's runtime,
//! too, only enqueues the nodes of a graph. Independent nodes run on streams private to the graph, joined to the launching stream
//! by events. Nothing here blocks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use backend::{Command, Device, DeviceError, EventId, Launch, Region, StreamId, Tag};
use hip_api::hipError_t;
use hip_api::types::hipEventDisableTiming;
use limits::{HostCharge, HostMemory};
use wire::{Field, GraphNode, GraphStep, MAX_GRAPH_NODES, MAX_GRAPH_SLOTS, Reader, graph_launch};

use crate::outgoing::{Outgoing, deliver};
use crate::request::region;

/// Limits on the number of graphs in a session and on the encoded size of all their nodes.
const MAX_GRAPHS: usize = 1 << 16;
const MAX_BYTES: usize = 256 << 20;
/// Approximate memory of a graph and of a node beyond their encoded size in bytes.
const GRAPH_OVERHEAD: u64 = 512;
const NODE_OVERHEAD: u64 = 256;
/// Limit on parallel branches (lanes) of a graph per device; more share lanes.
const MAX_LANES: usize = 4;
/// Tag bit in the ids of streams and events that graphs create; no client id has it.
const OWN: u64 = 1 << 63;

/// The executable graphs of a session.
#[derive(Default)]
pub(crate) struct Graphs {
    graphs: HashMap<u64, Graph>,
    bytes: usize,
    next: u64,
    /// Tokens of host functions that were cancelled. The client still answers them, and the answers are dropped.
    called_off: HashSet<u64>,
    /// The host memory account that graphs are charged to.
    host: Option<Arc<HostMemory>>,
}

/// What a launch needs of the session.
pub(crate) struct Site<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) outgoing: &'a Arc<Outgoing>,
    pub(crate) tag: Tag,
}

#[derive(Default)]
struct Graph {
    nodes: Vec<GraphNode>,
    bytes: usize,
    slots: u32,
    plan: Option<Plan>,
    /// Error of a failed definition: such a graph must not be launched in part.
    broken: Option<DeviceError>,
    /// Event at the end of the last launch: the next launch waits for it, on whichever stream.
    done: Option<EventId>,
    last: Option<StreamId>,
    charge: Option<HostCharge>,
}

/// Assignment of nodes to lanes.
struct Plan {
    /// Lane of each node.
    lanes: Vec<usize>,
    /// Event of each node that another lane waits for.
    events: Vec<Option<EventId>>,
    /// Device of each lane, and its stream once created. Lane 0 is the launching stream, if that is on the lane's device.
    streams: Vec<(u32, Option<StreamId>)>,
    /// Recorded on the launching stream at the start, and on each lane in turn at the end.
    fork: Option<EventId>,
}

impl Graphs {
    /// Charges graphs to the session's host memory from now on.
    pub(crate) fn count_against(&mut self, host: &Arc<HostMemory>) {
        self.host = Some(Arc::clone(host));
    }

    pub(crate) fn define(&mut self, id: u64) -> Result<(), DeviceError> {
        if self.graphs.len() >= MAX_GRAPHS {
            return Err(DeviceError::out_of_memory(format!("the session already has {MAX_GRAPHS} graphs")));
        }
        if self.graphs.contains_key(&id) {
            return Err(DeviceError::invalid_handle(format!("graph {id:#x} already exists")));
        }
        let charge = self.host.as_ref().map(|host| host.charge(GRAPH_OVERHEAD)).transpose();
        let charge = charge.map_err(|left| DeviceError::out_of_memory(format!("a graph: {left}")))?;
        self.graphs.insert(id, Graph { charge, ..Graph::default() });
        Ok(())
    }

    pub(crate) fn add(&mut self, id: u64, nodes: Vec<GraphNode>) -> Result<(), DeviceError> {
        let bytes: usize = nodes.iter().map(Field::size).sum();
        let over = self.bytes.saturating_add(bytes) > MAX_BYTES;
        let others = self.bytes - self.graphs.get(&id).map_or(0, |graph| graph.bytes);
        let graph = self.graphs.get_mut(&id).ok_or_else(|| unknown(id))?;
        let result = if over {
            Err(DeviceError::out_of_memory(format!("the graphs of a session exceed {MAX_BYTES} bytes")))
        } else {
            graph.count(bytes as u64, nodes.len() as u64).and_then(|()| graph.add(nodes))
        };
        self.bytes = others + graph.bytes;
        if let Err(error) = &result {
            graph.broken = Some(error.clone());
        }
        result
    }

    pub(crate) fn update(&mut self, id: u64, updates: Vec<wire::GraphUpdate>) -> Result<(), DeviceError> {
        let graph = self.graphs.get_mut(&id).ok_or_else(|| unknown(id))?;
        for update in updates {
            let slots = checked_slots(&update.steps, graph.slots)?;
            let node = graph.nodes.get_mut(update.node as usize).ok_or_else(|| {
                DeviceError::invalid_value(format!("graph {id:#x} has no node {}", update.node))
            })?;
            let (before, after) = (node.steps.size(), update.steps.size());
            let (graphs, total) = (graph.bytes - before + after, self.bytes - before + after);
            if total > MAX_BYTES {
                return Err(DeviceError::out_of_memory(format!(
                    "the graphs of a session exceed {MAX_BYTES} bytes"
                )));
            }
            if let Some(charge) = graph.charge.as_mut().filter(|_| after > before) {
                let more = charge.bytes().saturating_add((after - before) as u64);
                charge.resize(more).map_err(|left| exhausted(after as u64, left))?;
            }
            (graph.bytes, self.bytes, graph.slots) = (graphs, total, slots);
            node.steps = update.steps;
        }
        Ok(())
    }

    pub(crate) fn destroy(&mut self, device: &dyn Device, id: u64) -> Result<(), DeviceError> {
        let mut graph = self.graphs.remove(&id).ok_or_else(|| unknown(id))?;
        self.bytes -= graph.bytes;
        graph.forget(device);
        Ok(())
    }

    /// Drops the streams and events of all graphs when a device is reset; they are created again at the next launch.
    pub(crate) fn reset(&mut self, device: &dyn Device) {
        self.graphs.values_mut().for_each(|graph| graph.forget(device));
    }

    pub(crate) fn launch(
        &mut self,
        site: &Site<'_>,
        it: &wire::LaunchGraph,
        body: &[u8],
    ) -> Result<(), DeviceError> {
        let graph = self.graphs.get_mut(&it.graph).ok_or_else(|| unknown(it.graph))?;
        let mut run = Run { site, it, body, failed: None, called_off: Vec::new() };
        let ready = graph.prepare(site.device, it, body, &mut self.next);
        if let Err(error) = ready {
            run.failed = Some(error);
        }
        graph.run(&mut run);
        self.called_off.extend(run.called_off);
        run.failed.map_or(Ok(()), Err)
    }

    /// Serializes every graph for migration, and returns the tokens of cancelled host functions.
    pub(crate) fn capture<E>(&self, mut show: impl FnMut(&[u8]) -> Result<(), E>) -> Result<Vec<u64>, E> {
        for (id, graph) in &self.graphs {
            let mut bytes = Vec::new();
            id.put(&mut bytes);
            let (code, text) = match &graph.broken {
                Some(error) => (error.code.0, error.text.clone()),
                None => (0, String::new()),
            };
            code.put(&mut bytes);
            text.put(&mut bytes);
            graph.nodes.put(&mut bytes);
            show(&bytes)?;
        }
        Ok(self.called_off.iter().copied().collect())
    }

    /// Restores a graph from another process. Its plan, streams and events are created at the next launch.
    pub(crate) fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let malformed = |error: wire::WireError| DeviceError::invalid_value(error.to_string());
        let mut reader = Reader::new(bytes);
        let id = u64::take(&mut reader).map_err(malformed)?;
        let code = u32::take(&mut reader).map_err(malformed)?;
        let text = String::take(&mut reader).map_err(malformed)?;
        let nodes = Vec::take(&mut reader).map_err(malformed)?;
        reader.finish("a graph").map_err(malformed)?;
        self.define(id)?;
        self.add(id, nodes)?;
        if let Some(graph) = self.graphs.get_mut(&id).filter(|_| code != 0) {
            graph.broken = Some(DeviceError::new(hipError_t(code), text));
        }
        Ok(())
    }

    /// Whether a stream or an event belongs to a graph. Those are not migrated but created again.
    pub(crate) fn is_own(id: u64) -> bool {
        id & OWN != 0
    }

    pub(crate) fn call_off(&mut self, tokens: &[u64]) {
        self.called_off.extend(tokens);
    }

    /// Whether this answer belongs to a cancelled host function. Removes the token.
    pub(crate) fn was_called_off(&mut self, token: u64) -> bool {
        !self.called_off.is_empty() && self.called_off.remove(&token)
    }
}

fn exhausted(bytes: u64, left: limits::Exhausted) -> DeviceError {
    DeviceError::out_of_memory(format!("{bytes} bytes of a graph: {left} of the worker's host memory"))
}

impl Graph {
    /// Charges nodes that are about to be added.
    fn count(&mut self, bytes: u64, nodes: u64) -> Result<(), DeviceError> {
        let Some(charge) = &mut self.charge else { return Ok(()) };
        let more = bytes.saturating_add(nodes.saturating_mul(NODE_OVERHEAD));
        charge.resize(charge.bytes().saturating_add(more)).map_err(|left| exhausted(bytes, left))
    }

    fn add(&mut self, nodes: Vec<GraphNode>) -> Result<(), DeviceError> {
        if self.plan.is_some() {
            return Err(DeviceError::invalid_value("nodes cannot be added to a graph that was launched"));
        }
        if self.nodes.len() + nodes.len() > MAX_GRAPH_NODES {
            return Err(DeviceError::out_of_memory(format!("a graph has more than {MAX_GRAPH_NODES} nodes")));
        }
        for node in nodes {
            let index = self.nodes.len();
            if let Some(later) = node.dependencies.iter().find(|it| **it as usize >= index) {
                let text =
                    format!("node {index} of a graph depends on node {later}, which is not an earlier node");
                return Err(DeviceError::invalid_value(text));
            }
            self.slots = checked_slots(&node.steps, self.slots)?;
            self.bytes += node.size();
            self.nodes.push(node);
        }
        Ok(())
    }

    /// Checks the body's length and creates missing lanes and events.
    fn prepare(
        &mut self,
        device: &dyn Device,
        it: &wire::LaunchGraph,
        body: &[u8],
        next: &mut u64,
    ) -> Result<(), DeviceError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let due = if it.flags & graph_launch::WRITES_LATER == 0 { self.written_bytes()? } else { 0 };
        if body.len() as u64 != due {
            let text =
                format!("a graph launch carries {} bytes of data, but its writes need {due}", body.len());
            return Err(DeviceError::invalid_value(text));
        }
        let plan = match &mut self.plan {
            Some(plan) => plan,
            empty => empty.insert(Plan::new(&self.nodes)),
        };
        plan.equip(device, it.device, next)?;
        if self.done.is_none() {
            self.done = Some(create_event(device, it.device, next)?);
        }
        Ok(())
    }

    fn written_bytes(&self) -> Result<u64, DeviceError> {
        let mut total = 0u64;
        for step in self.nodes.iter().flat_map(|node| &node.steps) {
            if let GraphStep::Write { width, height, .. } = step {
                let bytes = width.checked_mul(*height).and_then(|bytes| bytes.checked_add(total));
                total = bytes.ok_or_else(|| DeviceError::invalid_value("a graph's writes overflow u64"))?;
            }
        }
        Ok(total)
    }

    /// Enqueues everything. After a failure, only cancels the remaining host functions and joins the lanes.
    fn run(&mut self, run: &mut Run<'_>) {
        let empty = Plan { lanes: Vec::new(), events: Vec::new(), streams: Vec::new(), fork: None };
        let plan = self.plan.as_ref().unwrap_or(&empty);
        let launching = run.it.stream;
        let lanes: Vec<StreamId> = plan.streams.iter().map(|(_, own)| own.unwrap_or(launching)).collect();
        let lanes: Vec<StreamId> = match plan.streams.first() {
            Some((device, _)) if *device == run.it.device => {
                std::iter::once(launching).chain(lanes.into_iter().skip(1)).collect()
            }
            _ => lanes,
        };
        if let Some(done) = self.done
            && self.last.is_some_and(|last| last != launching)
        {
            run.enqueue(launching, Command::WaitEvent(done));
        }
        let forked = run.failed.is_none();
        if let Some(fork) = plan.fork.filter(|_| forked) {
            run.enqueue(launching, Command::RecordEvent(fork));
            for lane in lanes.iter().filter(|lane| **lane != launching) {
                run.enqueue(*lane, Command::WaitEvent(fork));
            }
        }
        let mut body = run.body;
        for (index, node) in self.nodes.iter().enumerate() {
            let lane = plan.lanes.get(index).copied().unwrap_or(0);
            let stream = lanes.get(lane).copied().unwrap_or(launching);
            for dependency in &node.dependencies {
                let dependency = *dependency as usize;
                if let Some(event) = plan.events.get(dependency).copied().flatten()
                    && plan.lanes[dependency] != lane
                {
                    run.enqueue(stream, Command::WaitEvent(event));
                }
            }
            for step in &node.steps {
                run.step(stream, step, &mut body);
            }
            if let Some(event) = plan.events.get(index).copied().flatten() {
                run.enqueue(stream, Command::RecordEvent(event));
            }
        }
        // Even after a failure: work that was enqueued must finish before the launch does on the launching stream.
        let failed = run.failed.take();
        if let Some(join) = plan.fork.filter(|_| forked) {
            for lane in lanes.iter().filter(|lane| **lane != launching) {
                run.enqueue(*lane, Command::RecordEvent(join));
                run.enqueue(launching, Command::WaitEvent(join));
            }
        }
        if let Some(done) = self.done.filter(|_| forked) {
            run.enqueue(launching, Command::RecordEvent(done));
            self.last = Some(launching);
        }
        run.failed = failed.or(run.failed.take());
    }

    fn forget(&mut self, device: &dyn Device) {
        // Errors are ignored: a reset may have destroyed them already.
        if let Some(plan) = self.plan.take() {
            for stream in plan.streams.into_iter().filter_map(|(_, stream)| stream) {
                let _ = device.destroy_stream(stream);
            }
            for event in plan.events.into_iter().flatten().chain(plan.fork) {
                let _ = device.destroy_event(event);
            }
        }
        if let Some(done) = self.done.take() {
            let _ = device.destroy_event(done);
        }
        self.last = None;
    }
}

impl Plan {
    /// Assigns lanes: a node continues the lane of a dependency that is that lane's last node; otherwise it starts a new lane.
    fn new(nodes: &[GraphNode]) -> Plan {
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
    fn equip(&mut self, device: &dyn Device, home: u32, next: &mut u64) -> Result<(), DeviceError> {
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

/// State of one launch.
struct Run<'a> {
    site: &'a Site<'a>,
    it: &'a wire::LaunchGraph,
    body: &'a [u8],
    failed: Option<DeviceError>,
    called_off: Vec<u64>,
}

impl Run<'_> {
    fn enqueue(&mut self, stream: StreamId, command: Command) {
        if self.failed.is_none() {
            self.failed = self.site.device.enqueue(stream, self.site.tag, command).err();
        }
    }

    fn step(&mut self, stream: StreamId, step: &GraphStep, body: &mut &[u8]) {
        let later = self.it.flags & graph_launch::WRITES_LATER != 0;
        let token = self.it.tokens.wrapping_add(u64::from(step.slot().unwrap_or(0)));
        let command = match step {
            GraphStep::Host { .. } => Command::HostFunction { token },
            GraphStep::Write { .. } if later => Command::HostFunction { token },
            _ if self.failed.is_some() => return,
            GraphStep::Write { destination, pitch, width, height, .. } => {
                // `prepare` has checked the total.
                let (data, rest) = body.split_at((width * height) as usize);
                *body = rest;
                let to = Region::rect(*destination, *pitch, *width, *height);
                Command::Write { to, data: data.to_vec() }
            }
            GraphStep::Read { source, pitch, width, height, .. } => {
                let (outgoing, tag) = (Arc::clone(self.site.outgoing), self.site.tag);
                let sink = Box::new(move |result: Result<&[u8], DeviceError>| match result {
                    Ok(bytes) => deliver(&outgoing.outbox, token, bytes),
                    Err(error) => outgoing.outbox.late_error(tag as u32, (tag >> 32) as u16, &error),
                });
                Command::Read { from: Region::rect(*source, *pitch, *width, *height), sink }
            }
            other => match plain(other) {
                Some(command) => command,
                None => return,
            },
        };
        let turn = matches!(command, Command::HostFunction { .. });
        self.enqueue(stream, command);
        if turn && let Some(error) = &self.failed {
            let status = error.code.0 as i32;
            self.called_off.push(token);
            self.site.outgoing.outbox.push(&wire::Callback { token, status }, &[]);
        }
    }
}

/// Converts steps without a slot to commands.
fn plain(step: &GraphStep) -> Option<Command> {
    Some(match step {
        GraphStep::Launch {
            function,
            grid,
            block,
            shared_bytes,
            flags,
            start_event,
            stop_event,
            arguments,
        } => Command::Launch(Launch {
            function: *function,
            grid: *grid,
            block: *block,
            shared_bytes: *shared_bytes,
            cooperative: flags & 1 != 0,
            start_event: *start_event,
            stop_event: *stop_event,
            arguments: arguments.0.clone(),
        }),
        GraphStep::Copy { destination, source, bytes } => {
            Command::Copy { to: Region::flat(*destination, *bytes), from: Region::flat(*source, *bytes) }
        }
        GraphStep::Fill { destination, value, width, count } => {
            region::fill(*destination, *value, *width, *count)
        }
        GraphStep::CopyRect { destination, destination_pitch, source, source_pitch, width, height } => {
            Command::Copy {
                to: Region::rect(*destination, *destination_pitch, *width, *height),
                from: Region::rect(*source, *source_pitch, *width, *height),
            }
        }
        GraphStep::FillRect { destination, pitch, value, width, height } => {
            let to = Region::rect(*destination, *pitch, *width, *height);
            Command::Fill { to, value: *value, element: 1 }
        }
        GraphStep::RecordEvent { event } => Command::RecordEvent(*event),
        GraphStep::WaitEvent { event } => Command::WaitEvent(*event),
        GraphStep::Write { .. } | GraphStep::Read { .. } | GraphStep::Host { .. } => return None,
    })
}

/// Returns the number of slots of a graph once these steps are included.
fn checked_slots(steps: &[GraphStep], slots: u32) -> Result<u32, DeviceError> {
    let most = steps.iter().filter_map(GraphStep::slot).max().unwrap_or(0);
    if most >= MAX_GRAPH_SLOTS {
        return Err(DeviceError::invalid_value(format!("slot {most} of a graph is out of range")));
    }
    Ok(slots.max(most + 1))
}

fn own(next: &mut u64) -> u64 {
    *next += 1;
    OWN | *next
}

fn create_event(device: &dyn Device, on: u32, next: &mut u64) -> Result<EventId, DeviceError> {
    let id = own(next);
    device.create_event(id, on, hipEventDisableTiming)?;
    Ok(id)
}

fn unknown(id: u64) -> DeviceError {
    DeviceError::invalid_handle(format!("graph {id:#x} not found"))
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

    #[test]
    fn bad_graphs_are_refused_and_never_launched_in_part() {
        let mut graphs = Graphs::default();
        assert!(graphs.add(1, Vec::new()).is_err(), "a graph that was never defined");
        graphs.define(1).unwrap();
        assert!(graphs.define(1).is_err(), "defined twice");
        graphs.add(1, vec![node(vec![], 0)]).unwrap();
        assert!(graphs.add(1, vec![node(vec![1], 0)]).is_err(), "a node that depends on itself");
        assert!(graphs.graphs[&1].broken.is_some());
        // The bytes of a broken graph stay correctly counted, whatever is done to it.
        let longer = vec![GraphStep::RecordEvent { event: 1 }; 3];
        graphs.update(1, vec![wire::GraphUpdate { node: 0, steps: longer }]).unwrap();
        let held: usize = graphs.graphs[&1].nodes.iter().map(Field::size).sum();
        assert_eq!((graphs.bytes, graphs.graphs[&1].bytes), (held, held));
        let steps = vec![GraphStep::Host { slot: MAX_GRAPH_SLOTS }];
        graphs.define(2).unwrap();
        assert!(graphs.add(2, vec![GraphNode { steps: steps.clone(), ..GraphNode::default() }]).is_err());
        let update = wire::GraphUpdate { node: 0, steps };
        assert!(graphs.update(1, vec![update]).is_err(), "a slot out of range");
        let update = wire::GraphUpdate { node: 7, steps: Vec::new() };
        assert!(graphs.update(1, vec![update]).is_err(), "a node that does not exist");
        assert!(graphs.update(3, Vec::new()).is_err(), "a graph that does not exist");
    }

    #[test]
    fn graphs_count_as_host_memory_and_give_it_back() {
        let limits = limits::LimitConfig { host_memory: Some(1 << 20), ..limits::LimitConfig::default() };
        let page = Arc::new(limits::Page::create(&limits, 1, 1).unwrap());
        let host = HostMemory::new(limits::SessionSlot::new(page, 0));
        let mut graphs = Graphs::default();
        graphs.count_against(&host);
        graphs.define(1).unwrap();
        let many = |count: usize| vec![node(Vec::new(), 0); count];
        graphs.add(1, many(2000)).unwrap();
        let error = graphs.add(1, many(4000)).unwrap_err();
        assert_eq!(error.code, hip_api::types::hipErrorOutOfMemory);
        assert!(graphs.graphs[&1].broken.is_some());
        graphs.graphs.remove(&1);
        assert_eq!(host.used(), 0);
    }
}
