//! Evaluation: launches get memory and go to their device.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::device::{Buffer, Device};
use crate::dtype::DType;
use crate::error::DeviceError;
use crate::fast_map::FastMap;
use crate::graph::Graph;
use crate::launch::{Launch, Name, launches};
use crate::node::{Buffers, Node, Place};
use crate::plan::plan;
use crate::quick;
use crate::step::{Operand, Step};
use crate::tensor::{Result, Tensor, device_error};

/// One at a time: two threads that evaluate the same node must not both compute it.
static TURN: Mutex<()> = Mutex::new(());

/// Elements that are few.
const SMALL: usize = 4096;

/// Computes the tensors, if they are not there yet. It does not wait for devices that work on their own.
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

/// Computes a small tensor if that is a matter of a microsecond or so; whoever holds a lock of his own need not let go of it for that. Nothing if it is not.
pub fn eval_small(tensor: &Tensor) -> Option<Result<()>> {
    if tensor.elements() > SMALL || !WANTED.with_borrow(Vec::is_empty) {
        return None;
    }
    let node = tensor.node();
    let _turn = TURN.try_lock()?;
    alone(&node)
}

/// One node, if it is there or takes a short way.
fn alone(node: &Arc<Node>) -> Option<Result<()>> {
    if node.stored().is_some() {
        return Some(Ok(()));
    }
    quick::run(&node.device, node)
}

/// The device that does what others do not support.
pub fn set_host_device(device: Arc<dyn Device>) {
    // The first one stays: tensors may have been computed with it already.
    let _ = HOST.set(device);
}

static HOST: OnceLock<Arc<dyn Device>> = OnceLock::new();

thread_local! {
    /// Tensors that gradients were begun at: their values are asked for soon, and most of what they need is computed with the gradients.
    static WANTED: RefCell<Vec<Weak<Node>>> = const { RefCell::new(Vec::new()) };
}

/// Computes this tensor too when the next one is computed, if it is still held by then.
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

/// The launches that these nodes take.
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

/// Does on the host what the device cannot.
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

/// The buffers of one evaluation. What nobody wants afterwards gives its memory to later launches.
struct MemoryOfRun<'a> {
    device: &'a Arc<dyn Device>,
    graph: &'a Graph,
    /// With the size that was asked for; the device may have given more.
    held: FastMap<Name, (Buffer, usize)>,
    /// The last launch that reads it.
    last: FastMap<Name, usize>,
    free: FastMap<usize, Vec<Buffer>>,
}

impl<'a> MemoryOfRun<'a> {
    fn new(device: &'a Arc<dyn Device>, graph: &'a Graph, launches: &[Launch]) -> MemoryOfRun<'a> {
        let mut last = FastMap::default();
        for (number, launch) in launches.iter().enumerate() {
            for operand in launch.inputs.iter().chain(&launch.outputs) {
                last.insert(operand.name, number);
            }
        }
        MemoryOfRun { device, graph, held: FastMap::default(), last, free: FastMap::default() }
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
