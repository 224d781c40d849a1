//! Executable graphs: defined once, launched with one frame each.
//!
//! A launch becomes commands of the narrow [`Device`] trait, so every back end supports graphs without graph code: AMD's runtime,
//! too, only enqueues the nodes of a graph. Independent nodes run on streams private to the graph, joined to the launching stream
//! by events. Nothing here blocks.

mod launch;
mod plan;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use backend::{Command, Device, DeviceError, EventId, StreamId};
use hip_api::hipError_t;
use limits::{HostCharge, HostMemory};
use wire::{Field, GraphNode, GraphStep, MAX_GRAPH_NODES, MAX_GRAPH_SLOTS, Reader, graph_launch};

use launch::Run;
pub(crate) use launch::Site;
use plan::{Plan, create_event};

/// Limits on the number of graphs in a session and on the encoded size of all their nodes.
const MAX_GRAPHS: usize = 1 << 16;
const MAX_BYTES: usize = 256 << 20;
/// Approximate memory of a graph and of a node beyond their encoded size in bytes.
const GRAPH_OVERHEAD: u64 = 512;
const NODE_OVERHEAD: u64 = 256;

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
        plan::is_own(id)
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
        let empty = Plan::default();
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

/// Returns the number of slots of a graph once these steps are included.
fn checked_slots(steps: &[GraphStep], slots: u32) -> Result<u32, DeviceError> {
    let most = steps.iter().filter_map(GraphStep::slot).max().unwrap_or(0);
    if most >= MAX_GRAPH_SLOTS {
        return Err(DeviceError::invalid_value(format!("slot {most} of a graph is out of range")));
    }
    Ok(slots.max(most + 1))
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
