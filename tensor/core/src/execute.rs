//! Evaluation: plans launches, allocates their memory and submits them to the device.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use rustc_hash::FxHashMap;

use crate::device::{Buffer, Device};
use crate::dtype::DType;
use crate::error::DeviceError;
use crate::fast_path;
use crate::graph::Graph;
use crate::launch::{Launch, Name, launches};
use crate::node::{Buffers, Node, Place};
use crate::plan::plan;
use crate::step::{Operand, Step};
use crate::tensor::{Result, Tensor, device_error};

/// Serializes evaluations: two threads that evaluate the same node must not both compute it.
static TURN: Mutex<()> = Mutex::new(());

/// The most elements of a tensor that `eval_small` computes.
const SMALL: usize = 4096;

/// Computes the tensors that are not in memory yet. Does not wait for asynchronous devices.
pub fn eval(tensors: &[Tensor]) -> Result<()> {
    if let [tensor] = tensors
        && WANTED.with_borrow(Vec::is_empty)
    {
        let node = tensor.node();
        let _turn = TURN.lock();
        if let Some(done) = alone(&node) {
            return done;
        }
    }
    let mut waiting: Vec<Arc<Node>> = tensors.iter().map(Tensor::node).filter(is_pending).collect();
    if waiting.is_empty() {
        return Ok(());
    }
    waiting.extend(take_wanted());
    let _turn = TURN.lock();
    while let Some(device) = waiting.first().map(|node| node.device.clone()) {
        let (here, elsewhere) = waiting.into_iter().partition(|node| Arc::ptr_eq(&node.device, &device));
        waiting = elsewhere;
        run(&device, &here)?;
    }
    Ok(())
}

/// Computes a small tensor if that takes about a microsecond, so that a caller holding a lock (such as Python's GIL) can keep it.
/// Returns `None` if the tensor needs a full evaluation.
pub fn eval_small(tensor: &Tensor) -> Option<Result<()>> {
    if tensor.elements() > SMALL || !WANTED.with_borrow(Vec::is_empty) {
        return None;
    }
    let node = tensor.node();
    let _turn = TURN.try_lock()?;
    alone(&node)
}

/// Computes one node if it is already stored or qualifies for the fast path.
fn alone(node: &Arc<Node>) -> Option<Result<()>> {
    if node.stored().is_some() {
        return Some(Ok(()));
    }
    fast_path::run(&node.device, node)
}

/// Sets the device that executes steps other devices do not support.
pub fn set_host_device(device: Arc<dyn Device>) {
    // Only the first call has an effect: tensors may have been computed with that device already.
    let _ = HOST.set(device);
}

static HOST: OnceLock<Arc<dyn Device>> = OnceLock::new();

thread_local! {
    /// Tensors that backward passes started from. Their values are usually read soon, and most of what they need is computed with
    /// the gradients.
    static WANTED: RefCell<Vec<Weak<Node>>> = const { RefCell::new(Vec::new()) };
}

/// Schedules this tensor to be computed together with the next evaluation, if it is still referenced by then.
pub(crate) fn want(tensor: &Tensor) {
    let node = Place::of(&tensor.node()).node;
    if node.stored().is_none() {
        WANTED.with_borrow_mut(|wanted| {
            if wanted.len() >= 64 {
                wanted.retain(|node| node.strong_count() > 0);
            }
            wanted.push(Arc::downgrade(&node));
        });
    }
}

fn take_wanted() -> Vec<Arc<Node>> {
    let wanted = WANTED.take();
    wanted.iter().filter_map(Weak::upgrade).filter(|node| node.is_held() && is_pending(node)).collect()
}

fn is_pending(node: &Arc<Node>) -> bool {
    Place::of(node).buffer().is_none()
}

/// Plans the launches that compute these nodes.
pub(crate) fn planned(roots: &[Arc<Node>]) -> (Graph, Vec<Launch>) {
    let graph = Graph::of(roots);
    let launches = launches(&graph, &plan(&graph));
    (graph, launches)
}

fn run(device: &Arc<dyn Device>, roots: &[Arc<Node>]) -> Result<()> {
    let (graph, launches) = planned(roots);
    let mut memory = MemoryOfRun::new(device, &graph, &launches);
    let mut steps: Vec<Step> = Vec::with_capacity(launches.len());
    for (number, launch) in launches.iter().enumerate() {
        let inputs = launch.inputs.iter().map(|operand| Operand {
            buffer: memory.buffer(operand.name),
            layout: operand.layout.clone(),
            dtype: operand.dtype,
        });
        let inputs: Vec<Operand> = inputs.collect();
        let mut outputs = Vec::with_capacity(launch.outputs.len());
        for operand in &launch.outputs {
            let bytes = operand.layout.elements() * operand.dtype.bytes();
            outputs.push(Operand {
                buffer: memory.allocate(operand.name, bytes)?,
                layout: operand.layout.clone(),
                dtype: operand.dtype,
            });
        }
        memory.after(number, launch);
        if outputs.iter().all(|output| output.layout.elements() == 0) {
            continue;
        }
        let step = Step { work: launch.work.clone(), inputs, outputs };
        let dtypes: Vec<DType> =
            step.inputs.iter().chain(&step.outputs).map(|operand| operand.dtype).collect();
        if device.supports(&step.work, &dtypes) {
            steps.push(step);
            continue;
        }
        let before = std::mem::take(&mut steps);
        device
            .run(&before)
            .and_then(|()| on_host(device, &step))
            .map_err(|source| device_error("eval", device, source))?;
    }
    if !steps.is_empty() {
        device.run(&steps).map_err(|source| device_error("eval", device, source))?;
    }
    memory.keep();
    Ok(())
}

/// Executes a step that the device does not support on the host device.
fn on_host(device: &Arc<dyn Device>, step: &Step) -> std::result::Result<(), DeviceError> {
    let Some(host) = HOST.get().filter(|host| !Arc::ptr_eq(host, device)) else {
        return Err(DeviceError::Unsupported(format!("{:?}, and no host device is set", step.work)));
    };
    let copied = |operand: &Operand, content: bool| {
        let bytes = operand.buffer.bytes();
        let buffer = host.allocate(bytes)?;
        if content {
            let mut moved = vec![0; bytes];
            device.download(&operand.buffer, 0, &mut moved)?;
            host.upload(&buffer, 0, &moved)?;
        }
        Ok::<_, DeviceError>(Operand { buffer, ..operand.clone() })
    };
    let inputs =
        step.inputs.iter().map(|operand| copied(operand, true)).collect::<std::result::Result<_, _>>()?;
    let outputs: Vec<Operand> =
        step.outputs.iter().map(|operand| copied(operand, false)).collect::<std::result::Result<_, _>>()?;
    let moved = Step { work: step.work.clone(), inputs, outputs };
    host.run(std::slice::from_ref(&moved))?;
    for (there, here) in moved.outputs.iter().zip(&step.outputs) {
        let mut bytes = vec![0; here.layout.elements() * here.dtype.bytes()];
        host.download(&there.buffer, 0, &mut bytes)?;
        device.upload(&here.buffer, 0, &bytes)?;
    }
    Ok(())
}

/// The buffers of one evaluation. A buffer that is not needed afterwards is reused by later launches.
struct MemoryOfRun<'a> {
    device: &'a Arc<dyn Device>,
    graph: &'a Graph,
    /// With the requested size; the device may have allocated more.
    held: FxHashMap<Name, (Buffer, usize)>,
    /// The last launch that uses it.
    last: FxHashMap<Name, usize>,
    free: FxHashMap<usize, Vec<Buffer>>,
}

impl<'a> MemoryOfRun<'a> {
    fn new(device: &'a Arc<dyn Device>, graph: &'a Graph, launches: &[Launch]) -> MemoryOfRun<'a> {
        let mut last = FxHashMap::default();
        for (number, launch) in launches.iter().enumerate() {
            for operand in launch.inputs.iter().chain(&launch.outputs) {
                last.insert(operand.name, number);
            }
        }
        MemoryOfRun { device, graph, held: FxHashMap::default(), last, free: FxHashMap::default() }
    }

    fn buffer(&self, name: Name) -> Buffer {
        if let Name::Entry(entry, output) = name
            && let Some(buffers) = self.graph.entries[entry].node.stored()
        {
            return buffers[output].clone();
        }
        self.held[&name].0.clone()
    }

    fn allocate(&mut self, name: Name, bytes: usize) -> Result<Buffer> {
        let bytes = bytes.max(1);
        let buffer = match self.free.get_mut(&bytes).and_then(Vec::pop) {
            Some(buffer) => buffer,
            None => {
                self.device.allocate(bytes).map_err(|source| device_error("eval", self.device, source))?
            }
        };
        self.held.insert(name, (buffer.clone(), bytes));
        Ok(buffer)
    }

    fn after(&mut self, number: usize, launch: &Launch) {
        for operand in launch.inputs.iter().chain(&launch.outputs) {
            let wanted = matches!(operand.name, Name::Entry(entry, _) if self.graph.entries[entry].stays());
            if !wanted
                && self.last[&operand.name] == number
                && let Some((buffer, bytes)) = self.held.remove(&operand.name)
            {
                self.free.entry(bytes).or_default().push(buffer);
            }
        }
    }

    fn keep(mut self) {
        for (index, entry) in self.graph.entries.iter().enumerate() {
            if entry.stays() && !entry.stored {
                let buffers: Option<Buffers> = (0..entry.outputs())
                    .map(|output| self.held.remove(&Name::Entry(index, output)).map(|(buffer, _)| buffer))
                    .collect();
                let Some(buffers) = buffers else { continue };
                for twin in &entry.twins {
                    twin.store(buffers.clone());
                }
                entry.node.store(buffers);
            }
        }
    }
}
