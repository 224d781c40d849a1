//! The CPU device: memory, copies, and dispatch of steps.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;
use tensor_core::decompose::{decompose, is_composed};
use tensor_core::device::{Buffer, Device, DeviceInfo, Memory, Row};
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;
use tensor_core::program::Program;
use tensor_core::step::{Distribution, Fused, Operand, Step, Work};

use crate::contract::Contract;
use crate::entropy;
use crate::fault;
use crate::indexing::{self, Check};
use crate::level::Level;
use crate::map::{self, map};
use crate::memory::{BufferCache, CpuMemory, memory};
use crate::movement::{self, Fold};
use crate::plan_cache;
use crate::pool::MaxPool;
use crate::random::random;
use crate::reduce::Reduce;
use crate::rows;
use crate::sequence;
use crate::sort;
use crate::threads::Threads;
use crate::view::{View, wrong};

/// Limits for a CPU device; results are the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuOptions {
    /// The most threads; by default one for each CPU.
    pub threads: Option<usize>,
    /// The highest vector instruction level to use.
    pub level: Option<Level>,
}

/// The CPUs of this machine as a device. Steps have finished when `run` returns.
#[derive(Debug)]
pub struct CpuDevice {
    threads: Threads,
    cache: Arc<BufferCache>,
    /// Held while memory is read or written: steps execute in the order of submission.
    turn: Mutex<()>,
}

impl CpuDevice {
    /// Creates a device with all threads and instructions that are available.
    pub fn new() -> Arc<CpuDevice> {
        CpuDevice::with(&CpuOptions::default())
    }

    /// A device with these options.
    pub fn with(options: &CpuOptions) -> Arc<CpuDevice> {
        let level = options.level.map_or(Level::best(), |level| level.min(Level::best()));
        Arc::new(CpuDevice {
            threads: Threads::new(options.threads, level),
            cache: Arc::default(),
            turn: Mutex::default(),
        })
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        // The lock protects no data, so a panic while holding it leaves nothing inconsistent.
        self.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn step(&self, step: &Step) -> Result<(), DeviceError> {
        if matches!(step.work, Work::Contract { padding: Some(_), .. }) {
            // The layout of its input is not one of a buffer.
            return self.composed(step);
        }
        let inputs = step.inputs.iter().map(View::new).collect::<Result<SmallVec<[View; 4]>, _>>()?;
        let output = if matches!(step.work, Work::Write) { View::new } else { View::output };
        let outputs = step.outputs.iter().map(output).collect::<Result<SmallVec<[View; 4]>, _>>()?;
        for output in &step.outputs {
            if step.inputs.iter().any(|input| Arc::ptr_eq(&input.buffer, &output.buffer)) {
                return Err(wrong("an output shares the buffer of an input"));
            }
        }
        let threads = &self.threads;
        match (&step.work, &inputs[..], &outputs[..]) {
            (Work::Map(program), inputs, outputs) => map(threads, program, inputs, outputs),
            (Work::Reduce { program, reduction, axes, mapped, epilogue }, inputs, [output]) => {
                Reduce { program, reduction: *reduction, axes, mapped: *mapped, epilogue }
                    .run(threads, inputs, output)
            }
            (Work::ArgReduce { largest, axis }, [input], [output]) => {
                sequence::arg_reduce(threads, *largest, *axis, input, output)
            }
            (Work::Contract { batch, rows, columns, depth, epilogue, .. }, inputs, [output]) => {
                Contract { batch: *batch, rows: *rows, columns: *columns, depth: *depth, epilogue }
                    .run(threads, inputs, output)
            }
            (Work::Softmax { axis, log }, [input], [output]) => {
                rows::softmax(threads, *axis, *log, input, output)
            }
            (Work::Normalise { axes, epsilon }, inputs, outputs) => {
                rows::normalise(threads, *axes, *epsilon, inputs, outputs)
            }
            (Work::CrossEntropy { axis }, [logits, classes], outputs) => {
                entropy::loss(threads, *axis, logits, classes, outputs)
            }
            (Work::Write, [input], [output]) => movement::write(threads, input, output),
            (Work::Pad { before, value }, [input], [output]) => {
                movement::pad(threads, before, *value, input, output)
            }
            (Work::Concat { axis }, inputs, [output]) => movement::concat(threads, *axis, inputs, output),
            (Work::Fold { kernel, stride, dilation }, [input], [output]) => {
                Fold { kernel, stride, dilation }.run(threads, input, output)
            }
            (Work::Gather { axis }, [input, indices], [output]) => {
                indexing::gather_indices(threads, *axis, Check::default(), input, indices, output)
            }
            (Work::Scatter { axis, add }, inputs, [output]) => {
                indexing::scatter(threads, *axis, *add, Check::default(), inputs, output)
            }
            (Work::Random { seed, offset, distribution }, [], [output]) => {
                random(threads, *seed, *offset, *distribution, output)
            }
            (Work::Sort { axis, descending }, [input], outputs) => {
                sort::sort(threads, *axis, *descending, input, outputs)
            }
            (Work::Cumulative { axis, product }, [input], [output]) => {
                sequence::cumulative(threads, *axis, *product, input, output)
            }
            (Work::Fused(fused), inputs, outputs) => self.fused(fused, inputs, outputs),
            (work, ..) if is_composed(work) => self.composed(step),
            (work, inputs, outputs) => Err(wrong(format!(
                "{work:?} cannot have {} inputs and {} outputs",
                inputs.len(),
                outputs.len()
            ))),
        }
    }
}

impl CpuDevice {
    fn composed(&self, step: &Step) -> Result<(), DeviceError> {
        let steps = decompose(step, &mut |shape: &[usize], dtype: DType| {
            let layout = Layout::contiguous(shape);
            let buffer = self.allocate(layout.elements().max(1) * dtype.bytes())?;
            Ok(Operand { buffer, layout, dtype })
        })?;
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn fused(&self, fused: &Fused, inputs: &[View], outputs: &[View]) -> Result<(), DeviceError> {
        let threads = &self.threads;
        match (fused, inputs, outputs) {
            (Fused::TopK { axis, descending }, [input], outputs) => {
                sort::select(threads, *axis, *descending, input, outputs)
            }
            (Fused::MaxPool { kernel, stride, padding, dilation }, [input], outputs) => {
                MaxPool { kernel, stride, padding, dilation }.run(threads, input, outputs)
            }
            (Fused::CrossEntropyGradient { axis }, inputs, [output]) => {
                entropy::gradient(threads, *axis, inputs, output)
            }
            (Fused::Gather { axis, wraps, bound }, [input, indices], [output]) => {
                let check = Check { wraps: *wraps, bound: Some(*bound) };
                indexing::gather_indices(threads, *axis, check, input, indices, output)
            }
            (Fused::Scatter { axis, add, bound }, inputs, [output]) => {
                let check = Check { wraps: false, bound: *bound };
                indexing::scatter(threads, *axis, *add, check, inputs, output)
            }
            (Fused::Compress, [input, mask], [output]) => indexing::compress(input, mask, output),
            (fused, inputs, outputs) => Err(wrong(format!(
                "{fused:?} cannot have {} inputs and {} outputs",
                inputs.len(),
                outputs.len()
            ))),
        }
    }
}

/// Returns the address of a copy if it is within the buffer.
fn place(memory: &CpuMemory, offset: usize, bytes: usize) -> Result<*mut u8, DeviceError> {
    match offset.checked_add(bytes) {
        // SAFETY: the offset is within the buffer, or one past its end.
        Some(end) if end <= memory.bytes() => Ok(unsafe { memory.start().add(offset) }),
        _ => Err(wrong(format!(
            "a copy of {bytes} bytes at {offset} exceeds a buffer of {} bytes",
            memory.bytes()
        ))),
    }
}

impl Device for CpuDevice {
    fn name(&self) -> &str {
        "cpu"
    }

    fn info(&self) -> Result<DeviceInfo, DeviceError> {
        let (total_memory, free_memory) = system_memory().unwrap_or_default();
        Ok(DeviceInfo {
            kind: "cpu".into(),
            name: processor_name().unwrap_or_else(|| std::env::consts::ARCH.into()),
            total_memory,
            free_memory,
            compute_units: self.threads.count() as u32,
            ..DeviceInfo::default()
        })
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        Ok(Arc::new(CpuMemory::allocate(&self.cache, bytes)?))
    }

    fn upload(&self, to: &Buffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        let to = place(memory(to)?, offset, bytes.len())?;
        let _turn = self.turn();
        // SAFETY: the range is within the buffer, which no other thread touches now; a caller's slice cannot overlap memory that
        // only this device holds.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    fn download(&self, from: &Buffer, offset: usize, into: &mut [u8]) -> Result<(), DeviceError> {
        let from = place(memory(from)?, offset, into.len())?;
        let _turn = self.turn();
        // SAFETY: as in `upload`; buffers are always initialised.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn run(&self, steps: &[Step]) -> Result<(), DeviceError> {
        let _turn = self.turn();
        steps.iter().try_for_each(|step| self.step(step).and_then(|()| fault::check()))
    }

    fn run_rows(
        &self,
        program: &Program,
        inputs: &[Row],
        elements: usize,
    ) -> Option<Result<Buffer, DeviceError>> {
        let &[result] = &program.results[..] else { return None };
        let dtype = program.instructions.get(usize::from(result))?.dtype;
        let made = CpuMemory::allocate(&self.cache, elements.checked_mul(dtype.bytes())?);
        Some(made.and_then(|output| {
            let _turn = self.turn();
            map::rows(&self.threads, program, inputs, &output, dtype, elements)?;
            fault::check()?;
            Ok(Arc::new(output) as Buffer)
        }))
    }

    fn host_address(&self, buffer: &Buffer) -> Option<*mut u8> {
        memory(buffer).ok().map(CpuMemory::start)
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn is_immediate(&self) -> bool {
        true
    }

    /// Decides by the types of the inputs only.
    fn supports(&self, work: &Work, dtypes: &[DType]) -> bool {
        let level = self.threads.level();
        let ready =
            |program: &Program, dtypes: &[DType]| plan_cache::plan(program, dtypes, None, level).is_ok();
        let float = dtypes.first().is_none_or(|dtype| dtype.is_float());
        match work {
            Work::Map(program) => ready(program, dtypes),
            Work::Reduce { program, mapped, .. } => ready(program, dtypes.get(..*mapped).unwrap_or(dtypes)),
            Work::Softmax { .. }
            | Work::Normalise { .. }
            | Work::Attention { .. }
            | Work::AttentionGradient { .. }
            | Work::CrossEntropy { .. } => float,
            Work::Fused(Fused::ConvolutionGradient { .. }) => false,
            Work::Fused(Fused::CrossEntropyGradient { .. }) => float,
            Work::Fused(Fused::TopK { .. }) => !dtypes.first().is_some_and(|it| it.is_complex()),
            Work::Fused(Fused::MaxPool { .. }) => {
                !dtypes.first().is_some_and(|it| *it == DType::Bool || it.is_complex())
            }
            Work::Random { distribution: Distribution::Uniform | Distribution::Normal, .. } => float,
            _ => true,
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Total and available bytes.
fn system_memory() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = |name: &str| -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(rest.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    Some((line("MemTotal:")?, line("MemAvailable:")?))
}

fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
