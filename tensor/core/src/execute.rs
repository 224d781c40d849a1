//! Evaluation: plans launches, allocates their memory and submits them to the device.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use rustc_hash::FxHashMap;

use crate::device::{Buffer, Device};
use crate::dtype::DType;
use crate::error::DeviceError;
use crate::fast_path;
use crate::graph::Graph;
use crate::launch::{self, Launch, Name, launches};
use crate::layout::Layout;
use crate::node::{Buffers, Node, Place};
use crate::plan::plan;
use crate::program::Program;
use crate::step::{Operand, Step, Work};
use crate::tensor::{Inner, Result, Tensor, device_error};

/// Serializes the evaluations of a device: two threads that evaluate the same node must not both compute it. Evaluations of other
/// devices go on meanwhile; a node and all that it needs are on one device.
static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// The lock of a device: that of the number in its name. Only the devices of a process with more than 63 GPUs share locks.
fn turn(device: &Arc<dyn Device>) -> &'static Mutex<()> {
    let number = device.name().rsplit_once(':').and_then(|(_, number)| number.parse::<usize>().ok());
    &TURNS[number.map_or(0, |number| 1 + number % (TURNS.len() - 1))]
}

/// The most elements of a tensor that `eval_small` computes.
const SMALL: usize = 4096;

/// Computes the tensors that are not in memory yet. Does not wait for asynchronous devices.
pub fn eval(tensors: &[Tensor]) -> Result<()> {
    if let [tensor] = tensors
        && WANTED.with_borrow(Vec::is_empty)
    {
        let node = tensor.node();
        let _turn = turn(&node.device).lock();
        if let Some(done) = alone(&node) {
            return done;
        }
    }
    let computed = tensors.iter().filter(|tensor| !tensor.is_view_of_constant());
    let mut waiting: Vec<Arc<Node>> = computed.map(Tensor::node).filter(is_pending).collect();
    if waiting.is_empty() {
        return Ok(());
    }
    waiting.extend(take_wanted());
    while let Some(device) = waiting.first().map(|node| node.device.clone()) {
        let (here, elsewhere) = waiting.into_iter().partition(|node| Arc::ptr_eq(&node.device, &device));
        waiting = elsewhere;
        let _turn = turn(&device).lock();
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
    let _turn = turn(&node.device).try_lock()?;
    alone(&node)
}

/// Computes one node if it is already stored or qualifies for the fast path.
fn alone(node: &Arc<Node>) -> Option<Result<()>> {
    if node.stored().is_some() {
        return Some(Ok(()));
    }
    fast_path::run(&node.device, node)
}

/// Tensors that a program references and that were not computed when they were noted.
static NOTED: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());
/// The number of noted tensors from which those that are gone or computed are removed.
static CROWDED: AtomicUsize = AtomicUsize::new(FEW);
const FEW: usize = 1024;

/// Notes a tensor that a program references, for [`eval_pending`].
pub fn note(tensor: &Tensor) {
    let mut noted = NOTED.lock();
    noted.push(Arc::downgrade(&tensor.0));
    if noted.len() >= CROWDED.load(Ordering::Relaxed) {
        noted.retain(|it| it.upgrade().is_some_and(|inner| !Tensor(inner).is_realised()));
        CROWDED.store((2 * noted.len()).max(FEW), Ordering::Relaxed);
    }
}

/// Computes all noted tensors of a device that are still referenced. Does not wait for asynchronous devices.
pub fn eval_pending(device: &Arc<dyn Device>) -> Result<()> {
    let noted = std::mem::take(&mut *NOTED.lock());
    let alive = noted.iter().filter_map(Weak::upgrade).map(Tensor);
    let (here, elsewhere): (Vec<Tensor>, Vec<Tensor>) =
        alive.filter(|tensor| !tensor.is_realised()).partition(|tensor| Arc::ptr_eq(tensor.device(), device));
    NOTED.lock().extend(elsewhere.iter().map(|tensor| Arc::downgrade(&tensor.0)));
    eval(&here)
}

/// The most operations on a path that stay pending.
const DEEPEST: u32 = 4096;
/// Operations on a path beyond [`DEEPEST`] after which an evaluation that was not possible is tried again.
const RETRY: u32 = 1024;
/// The most bytes that are uploaded for operations that stay pending, if at least `SHALLOW` of them are on a path.
const UPLOADED: usize = 256 << 20;
const SHALLOW: u32 = 64;

/// Bytes uploaded since the last evaluation.
static UPLOADS: AtomicUsize = AtomicUsize::new(0);

/// Counts an upload, see [`relieve`].
pub(crate) fn uploaded(bytes: usize) {
    UPLOADS.fetch_add(bytes, Ordering::Relaxed);
}

/// Computes a tensor if too much is pending: a loop that never reads a value must not take ever more memory. `depth` is that of
/// the tensor's node.
pub(crate) fn relieve(tensor: &Tensor, depth: u32) {
    if depth < SHALLOW {
        return;
    }
    let deep = depth >= DEEPEST && depth.is_multiple_of(RETRY);
    if !deep && UPLOADS.load(Ordering::Relaxed) < UPLOADED {
        return;
    }
    UPLOADS.store(0, Ordering::Relaxed);
    // Another thread's evaluation may wait for a lock that this thread's caller holds, such as Python's.
    let node = tensor.node();
    let Some(_turn) = turn(&node.device).try_lock() else { return };
    // An error is returned by the evaluation that reads the result.
    let _ = run(&node.device.clone(), &[node]);
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
    UPLOADS.store(0, Ordering::Relaxed);
    let (graph, launches) = planned(roots);
    let mut memory = MemoryOfRun::new(device, &graph, &launches);
    let mut steps: Vec<Step> = Vec::with_capacity(launches.len());
    for (number, launch) in launches.iter().enumerate() {
        if matches!(launch.work, Work::Write) {
            for step in memory.write(number, launch)? {
                submit(device, &mut steps, step)?;
            }
            continue;
        }
        let inputs = launch.inputs.iter().map(|operand| memory.operand(operand));
        let inputs: Vec<Operand> = inputs.collect();
        let mut outputs = Vec::with_capacity(launch.outputs.len());
        for operand in &launch.outputs {
            outputs.push(memory.output(operand)?);
        }
        memory.after(number, launch);
        if outputs.iter().all(|output| output.layout.elements() == 0) {
            continue;
        }
        submit(device, &mut steps, Step { work: launch.work.clone(), inputs, outputs })?;
    }
    if !steps.is_empty() {
        device.run(&steps).map_err(|source| device_error("eval", device, source))?;
    }
    memory.keep();
    Ok(())
}

/// Adds a step to those of the device. If the device does not support it, they are executed first, and it on the host device.
fn submit(device: &Arc<dyn Device>, steps: &mut Vec<Step>, step: Step) -> Result<()> {
    if supported(device, &step) {
        steps.push(step);
        return Ok(());
    }
    let before = std::mem::take(steps);
    let done = device.run(&before).and_then(|()| on_host(device, &step));
    done.map_err(|source| device_error("eval", device, source))
}

fn supported(device: &Arc<dyn Device>, step: &Step) -> bool {
    let dtypes: Vec<DType> = step.inputs.iter().chain(&step.outputs).map(|operand| operand.dtype).collect();
    device.supports(&step.work, &dtypes)
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
    // A write keeps what is beside its layout.
    let keeps = matches!(step.work, Work::Write);
    let outputs: Vec<Operand> =
        step.outputs.iter().map(|operand| copied(operand, keeps)).collect::<std::result::Result<_, _>>()?;
    let moved = Step { work: step.work.clone(), inputs, outputs };
    host.run(std::slice::from_ref(&moved))?;
    for (there, here) in moved.outputs.iter().zip(&step.outputs) {
        let size = if keeps { here.buffer.bytes() } else { here.layout.elements() * here.dtype.bytes() };
        let mut bytes = vec![0; size];
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
    /// Whether writes may change memory that was stored before. Not if a launch may fail for a reason that the program handles:
    /// the evaluation would be repeated, from elements that it has changed already.
    overwrites: bool,
}

impl<'a> MemoryOfRun<'a> {
    fn new(device: &'a Arc<dyn Device>, graph: &'a Graph, launches: &[Launch]) -> MemoryOfRun<'a> {
        let mut last = FxHashMap::default();
        for (number, launch) in launches.iter().enumerate() {
            for operand in launch.inputs.iter().chain(&launch.outputs) {
                last.insert(operand.name, number);
            }
        }
        let overwrites = !device.is_immediate() || !launches.iter().any(Launch::checks_bounds);
        let (held, free) = (FxHashMap::default(), FxHashMap::default());
        MemoryOfRun { device, graph, held, last, free, overwrites }
    }

    /// An operand of a step, in memory that exists.
    fn operand(&self, operand: &launch::Operand) -> Operand {
        let launch::Operand { name, layout, dtype } = operand;
        Operand { buffer: self.buffer(*name), layout: layout.clone(), dtype: *dtype }
    }

    /// An operand of a step, in new memory.
    fn output(&mut self, operand: &launch::Operand) -> Result<Operand> {
        let launch::Operand { name, layout, dtype } = operand;
        let buffer = self.allocate(*name, layout.elements() * dtype.bytes())?;
        Ok(Operand { buffer, layout: layout.clone(), dtype: *dtype })
    }

    /// Returns the steps of a write. It takes over the memory of the elements before it if nothing else needs those, else it copies
    /// them once.
    fn write(&mut self, number: usize, launch: &Launch) -> Result<Vec<Step>> {
        let mut steps = Vec::with_capacity(1);
        let ([old, value], [new]) = (&launch.inputs[..], &launch.outputs[..]) else {
            unreachable!("a write has two inputs and one output");
        };
        let copy = |from: Operand, to: Operand| {
            let work = Work::Map(Program::identity(from.dtype));
            Step { work, inputs: vec![from], outputs: vec![to] }
        };
        let rows = Layout::contiguous(&old.layout.shape);
        let mut written = self.operand(value);
        let memory = if self.is_free(number, old) {
            if value.name == old.name {
                // It reads what it overwrites, so it needs a copy of that.
                let layout = Layout::contiguous(&value.layout.shape);
                let passing = Name::Passing(self.entry_of(new.name));
                let to = self.output(&launch::Operand { name: passing, layout, dtype: value.dtype })?;
                steps.push(copy(written, to.clone()));
                written = to;
                self.release(passing);
            }
            self.take(old.name, new.name)
        } else {
            let all = launch::Operand { name: new.name, layout: rows.clone(), dtype: new.dtype };
            let all = self.output(&all)?;
            let rest = new.layout.elements() < rows.elements();
            if rest {
                steps.push(copy(self.operand(old), all.clone()));
            }
            all.buffer
        };
        self.after(number, launch);
        if new.layout.elements() > 0 {
            let output = Operand { buffer: memory, layout: new.layout.clone(), dtype: new.dtype };
            steps.push(Step { work: Work::Write, inputs: vec![written], outputs: vec![output] });
        }
        Ok(steps)
    }

    fn entry_of(&self, name: Name) -> usize {
        match name {
            Name::Entry(entry, _) | Name::Passing(entry) => entry,
        }
    }

    /// Whether this launch is the last that needs all of this operand's memory.
    fn is_free(&self, number: usize, operand: &launch::Operand) -> bool {
        let Name::Entry(entry, output) = operand.name else { return false };
        let entry = &self.graph.entries[entry];
        let whole = operand.layout.offset == 0
            && operand.layout.is_contiguous()
            && operand.layout.elements() == entry.output_shape(output).iter().product::<usize>();
        let unused = if entry.stored { entry.spare && self.overwrites } else { !entry.stays() };
        whole && unused && self.last[&operand.name] == number
    }

    /// Gives the memory of one operand to another.
    fn take(&mut self, from: Name, to: Name) -> Buffer {
        let buffer = self.buffer(from);
        let bytes = self.held.remove(&from).map_or_else(|| buffer.bytes(), |(_, bytes)| bytes);
        self.held.insert(to, (buffer.clone(), bytes));
        buffer
    }

    /// Reuses the memory of an operand for later launches.
    fn release(&mut self, name: Name) {
        if let Some((buffer, bytes)) = self.held.remove(&name) {
            self.free.entry(bytes).or_default().push(buffer);
        }
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
            if !wanted && self.last[&operand.name] == number {
                self.release(operand.name);
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
