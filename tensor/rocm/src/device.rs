//! An AMD GPU as a tensor device.

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tensor_core::device::{Buffer, Device, DeviceInfo};
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;
use tensor_core::program::Program;
use tensor_core::step::{Fused, Operand, Padding, Step, Work};

use crate::ahead;
use crate::blas::{Blas, BlasChoice, Gemm, Library as BlasLibrary};
use crate::conv::{Call, Conv, ConvChoice};
use crate::faults::Faults;
use crate::interpret::Interpret;
use crate::kernels::{KernelStatistics, Kernels};
use crate::library::{Library, call};
use crate::memory::{Block, MemoryPool, address_of};
use crate::pinned::PinnedPool;
use crate::properties::Properties;
use crate::source::Launch;
use crate::stream::Stream;
use crate::template::Templates;
use crate::tuning::tuning_cache;
use crate::work::{self, Folded, Target};

/// Options of a ROCm device.
#[derive(Clone, Debug, Default)]
pub struct RocmOptions {
    /// The libamdhip64 to open; by default the one that the loader finds.
    pub library: Option<PathBuf>,
    /// The folder of the disk cache for compiled kernels; no cache by default.
    pub kernel_cache: Option<PathBuf>,
    /// Disables graphs: repeated sequences of launches are not replayed.
    pub without_graphs: bool,
    /// Interprets every step with kernels that were built ahead, even if there is a compiler. For tests and comparisons.
    pub interpret: bool,
    /// What computes matrix products that may be added in any order.
    pub blas: BlasChoice,
    /// What computes convolutions that may be added in any order.
    pub conv: ConvChoice,
    /// Is called once if steps are interpreted because there is no compiler, with the reason. It must not use tensors.
    pub on_interpret: Option<fn(&str)>,
}

/// A ROCm device: one GPU.
#[derive(Debug)]
pub struct RocmDevice {
    name: String,
    properties: Properties,
    kernels: Kernels,
    templates: Templates,
    pool: Arc<MemoryPool>,
    pinned: Arc<PinnedPool>,
    faults: Faults,
    blas: Blas,
    conv: Conv,
    stream: Arc<Stream>,
    /// Set if steps are interpreted.
    interpret: OnceLock<Interpret>,
    on_interpret: Option<fn(&str)>,
}

/// One way to compute a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alternative {
    /// pyflame's kernel with a tile of this size.
    Tile(usize),
    Library(BlasLibrary),
    MiOpen,
}

impl Alternative {
    /// Its number in the tuning cache. Tiles are larger.
    fn number(self) -> u32 {
        match self {
            Alternative::Library(BlasLibrary::RocBlas) => 1,
            Alternative::Library(BlasLibrary::HipBlasLt) => 2,
            Alternative::MiOpen => 3,
            Alternative::Tile(tile) => tile as u32,
        }
    }

    fn of(number: u32, tiles: &[usize]) -> Option<Alternative> {
        let libraries = [BlasLibrary::RocBlas, BlasLibrary::HipBlasLt].map(Alternative::Library);
        let tiles = tiles.iter().map(|&tile| Alternative::Tile(tile));
        libraries.into_iter().chain([Alternative::MiOpen]).chain(tiles).find(|it| it.number() == number)
    }
}

/// Returns the number of GPUs that the default library reports.
pub fn device_count() -> Result<usize, DeviceError> {
    device_count_with(&RocmOptions::default())
}

/// Returns the number of GPUs.
pub fn device_count_with(options: &RocmOptions) -> Result<usize, DeviceError> {
    let library = open_library(options.library.as_deref())?;
    let mut count = 0;
    call!(library, runtime.hipGetDeviceCount(&mut count))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Resets GPUs: frees everything that this process has on them, and opens a new session if the worker behind them was lost. Devices
/// that were opened before must be abandoned first.
pub fn reset_with(ordinals: &[u32], options: &RocmOptions) -> Result<(), DeviceError> {
    let library = open_library(options.library.as_deref())?;
    for &ordinal in ordinals {
        // Fails if the session is lost, which the reset is for.
        let _ = call!(library, runtime.hipSetDevice(ordinal as i32));
        call!(library, runtime.hipDeviceReset())?;
    }
    Ok(())
}

impl RocmDevice {
    /// Makes no more calls for this device. Tensors on it are lost: what reads them returns an error.
    pub fn abandon(&self) {
        self.stream.abandon();
    }

    /// Opens a GPU with the default options.
    pub fn open(ordinal: u32) -> Result<Arc<RocmDevice>, DeviceError> {
        RocmDevice::open_with(ordinal, &RocmOptions::default())
    }

    /// Opens a GPU.
    pub fn open_with(ordinal: u32, options: &RocmOptions) -> Result<Arc<RocmDevice>, DeviceError> {
        let count = device_count_with(options)?;
        if ordinal as usize >= count {
            let why = format!("ROCm device {ordinal} requested but only {count} devices available");
            return Err(DeviceError::Unavailable(why));
        }
        let library = open_library(options.library.as_deref())?;
        let properties = Properties::of(&library, ordinal)?;
        let stream = Arc::new(Stream::create(library, ordinal)?);
        let device = RocmDevice {
            name: format!("rocm:{ordinal}"),
            kernels: Kernels::new(stream.clone(), &properties.architecture, options.kernel_cache.as_deref()),
            templates: Templates::default(),
            pool: MemoryPool::new(stream.clone()),
            pinned: PinnedPool::new(stream.library.clone()),
            faults: Faults::new(stream.clone()),
            blas: Blas::new(
                options.blas,
                stream.clone(),
                properties.architecture.split(':').next().unwrap_or_default(),
            ),
            conv: Conv::new(options.conv, stream.clone()),
            properties,
            stream,
            interpret: OnceLock::new(),
            on_interpret: options.on_interpret,
        };
        if options.interpret {
            device.interpret("the option `interpret` is set", true)?;
        }
        device.blas.check()?;
        device.conv.check()?;
        device.set_replaying(!options.without_graphs);
        Ok(Arc::new(device))
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The pool of device memory.
    pub fn memory(&self) -> &Arc<MemoryPool> {
        &self.pool
    }

    /// The pool of pinned host memory.
    pub fn pinned(&self) -> &Arc<PinnedPool> {
        &self.pinned
    }

    /// Sets the folder of the disk cache for compiled kernels, or disables the cache.
    pub fn keep_kernels(&self, folder: Option<&Path>) {
        self.kernels.keep(folder);
    }

    /// Where kernels came from, and how often they were launched.
    pub fn kernel_statistics(&self) -> KernelStatistics {
        self.kernels.statistics()
    }

    /// Enables or disables replaying repeated sequences of launches as graphs. Enabled by default.
    pub fn set_replaying(&self, replaying: bool) {
        self.kernels.set_replaying(replaying);
    }

    /// Whether repeated sequences of launches are replayed as graphs.
    pub fn is_replaying(&self) -> bool {
        self.kernels.is_replaying()
    }

    /// Whether steps are interpreted by kernels that were built ahead, because there is no compiler.
    pub fn is_interpreting(&self) -> bool {
        self.interpret.get().is_some()
    }

    /// From now on interprets steps.
    fn interpret(&self, why: &str, always: bool) -> Result<(), DeviceError> {
        let Some((target, _)) = ahead::interpreter(self.architecture()) else {
            return Err(DeviceError::NoCompiler(format!(
                "{why}; kernels that need none were built for {}, not for {}",
                ahead::interpreted_targets(),
                self.architecture()
            )));
        };
        // Another thread may have been first.
        let _ = self.interpret.set(Interpret { target, always });
        Ok(())
    }

    /// The name of the processor, without its features.
    fn architecture(&self) -> &str {
        self.properties.architecture.split(':').next().unwrap_or_default()
    }

    fn target(&self) -> Target {
        let architecture = self.architecture();
        Target {
            compute_units: self.properties.compute_units.max(1) as usize,
            matrix_cores: matches!(architecture, "gfx90a" | "gfx942"),
            tile: None,
            interpret: self.interpret.get().copied(),
        }
    }

    /// Returns the tuning key of a step that is to be tuned, and the tile sizes to try.
    fn tuning_key(&self, step: &Step) -> Option<(String, &'static [usize])> {
        if !tuning_cache().is_exhaustive() || self.is_interpreting() {
            return None;
        }
        let (mut key, tiles) = work::tuning_key(self.target(), step)?;
        if let Some(call) = Call::of(step).filter(|_| self.conv.is_tuned()) {
            // What a library does depends on more than the sizes of the contraction.
            key = format!("{key} {}", call.key());
        }
        let key = format!(
            "{} {} {} {key}",
            env!("CARGO_PKG_VERSION"),
            self.properties.architecture,
            self.properties.compute_units
        );
        Some((key, tiles))
    }

    /// Times a step with every alternative and returns the fastest. Those with the fixed order of additions have the same result.
    fn tune(&self, step: &Step, key: &str, tiles: &[usize]) -> Result<Alternative, DeviceError> {
        let mut best = (f32::INFINITY, Alternative::Tile(tiles[0]));
        let libraries = if Gemm::of(step).is_some() { self.blas.alternatives() } else { Vec::new() };
        let mut alternatives: Vec<Alternative> = tiles.iter().map(|&tile| Alternative::Tile(tile)).collect();
        alternatives.extend(libraries.into_iter().map(Alternative::Library));
        if Call::of(step).is_some() && self.conv.is_alternative() {
            alternatives.push(Alternative::MiOpen);
        }
        for alternative in alternatives {
            let once = || self.once(step, alternative);
            // The first run compiles and loads the kernel. A library that cannot compute this step is no alternative.
            let time = match (once().and_then(|()| self.stream.time(once)), alternative) {
                (Ok(time), _) => time,
                (Err(_), Alternative::Library(_) | Alternative::MiOpen) => continue,
                (Err(error), _) => return Err(error),
            };
            if time < best.0 {
                best = (time, alternative);
            }
        }
        tuning_cache().keep(key, best.1.number());
        Ok(best.1)
    }

    /// Submits one step by itself.
    fn once(&self, step: &Step, alternative: Alternative) -> Result<(), DeviceError> {
        let (mut launches, mut held) = (Vec::new(), Vec::new());
        match alternative {
            Alternative::Library(library) => self.by_library(library, step, &mut held)?,
            Alternative::MiOpen => self.by_miopen(step, &mut held)?,
            Alternative::Tile(tile) => {
                self.plan(Target { tile: Some(tile), ..self.target() }, step, &mut launches, &mut held)?;
            }
        }
        self.kernels.run(&launches)
    }

    /// Submits a product by a library, and its epilogue.
    fn by_library(
        &self,
        library: BlasLibrary,
        step: &Step,
        held: &mut Vec<Block>,
    ) -> Result<(), DeviceError> {
        let (Some(gemm), Work::Contract { epilogue, .. }) = (Gemm::of(step), &step.work) else {
            return Err(DeviceError::Unsupported(format!("{library} has no such product")));
        };
        let (dtype, rest) = (gemm.sum_type(), (!gemm.writes_output()).then_some(epilogue.clone()));
        self.with_sums(step, dtype, rest, held, |output, _| self.blas.multiply(library, &gemm, output))
    }

    /// Submits a convolution by MIOpen, and its epilogue.
    fn by_miopen(&self, step: &Step, held: &mut Vec<Block>) -> Result<(), DeviceError> {
        let Some(call) = Call::of(step) else {
            return Err(DeviceError::Unsupported(format!(
                "MIOpen has no such convolution: {:?}; PYFLAME_CONV=auto computes it without MIOpen",
                step.work
            )));
        };
        self.with_sums(step, call.sizes.dtype, call.epilogue(), held, |output, held| {
            held.extend(self.conv.convolve(&call, &self.pool, output)?);
            Ok(())
        })
    }

    /// Submits a library's sums of a type: `compute` writes them to an address. Then submits the launches that compute the rest from
    /// them; without a rest they are the output.
    fn with_sums(
        &self,
        step: &Step,
        dtype: DType,
        rest: Option<Program>,
        held: &mut Vec<Block>,
        compute: impl FnOnce(u64, &mut Vec<Block>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let output = &step.outputs[0];
        let Some(rest) = rest else {
            compute(work::address(output)?.0, held)?;
            self.kernels.count_library_call();
            return Ok(());
        };
        let layout = Layout::contiguous(&output.layout.shape);
        let sums: Buffer = Arc::new(self.pool.allocate(layout.elements() * dtype.bytes())?);
        let sums = Operand { buffer: sums, layout, dtype };
        compute(work::address(&sums)?.0, held)?;
        self.kernels.count_library_call();
        let rest = Step {
            work: Work::Map(rest),
            inputs: [sums].iter().chain(&step.inputs[2..]).cloned().collect(),
            outputs: step.outputs.clone(),
        };
        let mut launches = Vec::new();
        self.plan(self.target(), &rest, &mut launches, held)?;
        // The sums' memory is used by launches of the same stream only, which come after this one.
        self.kernels.run(&launches)
    }

    /// Adds the launches of a step, and the workspaces that they need.
    fn plan(
        &self,
        target: Target,
        step: &Step,
        launches: &mut Vec<Launch>,
        held: &mut Vec<Block>,
    ) -> Result<(), DeviceError> {
        if step.outputs.iter().all(|output| output.layout.elements() == 0) {
            return Ok(());
        }
        let template = self.templates.of(target, step)?;
        let faults = if template.looks() { self.faults.place(&self.pool, &self.pinned)? } else { 0 };
        template.bind(step, faults, |bytes| self.pool.allocate(bytes), launches, held)
    }

    /// What computes a step, if there is a choice. Tuning submits the launches before it, whose results may be its operands.
    fn alternative(
        &self,
        step: &Step,
        launches: &mut Vec<Launch>,
    ) -> Result<Option<Alternative>, DeviceError> {
        if matches!(step.work, Work::Fused(Fused::ConvolutionGradient { .. })) {
            return Ok(Some(Alternative::MiOpen));
        }
        if self.is_interpreting() || step.outputs.iter().all(|output| output.layout.elements() == 0) {
            return Ok(None);
        }
        if self.conv.is_chosen() && Call::of(step).is_some() {
            return Ok(Some(Alternative::MiOpen));
        }
        if self.blas.is_tuned()
            && let Some((key, tiles)) = self.tuning_key(step)
        {
            let known = tuning_cache().find(&key).and_then(|number| Alternative::of(number, tiles));
            if let Some(Alternative::Tile(_)) = known {
                return Ok(known);
            }
            if let Some(Alternative::Library(library)) = known
                && self.blas.alternatives().contains(&library)
            {
                return Ok(known);
            }
            if known == Some(Alternative::MiOpen) && self.conv.is_alternative() {
                return Ok(known);
            }
            self.kernels.run(&std::mem::take(launches))?;
            return self.tune(step, &key, tiles).map(Some);
        }
        let gemm = Gemm::of(step);
        Ok(gemm.and_then(|gemm| self.blas.usual(&gemm)).map(Alternative::Library))
    }

    /// Plans steps and submits their launches.
    fn submit(&self, steps: &[Step]) -> Result<(), DeviceError> {
        self.stream.select()?;
        let (mut launches, mut held) = (Vec::with_capacity(steps.len() + 4), Vec::new());
        for step in steps {
            let mut target = self.target();
            let alternative = self.alternative(step, &mut launches)?;
            if matches!(alternative, Some(Alternative::Library(_) | Alternative::MiOpen)) {
                // A library reads what the launches before it write, and their failure is not its own.
                self.kernels.run(&std::mem::take(&mut launches))?;
            }
            // A library that was not asked for by name and cannot compute this step is not used for it.
            let (done, optional) = match alternative {
                Some(Alternative::Library(library)) => {
                    (self.by_library(library, step, &mut held).map(|()| true), self.blas.is_tuned())
                }
                Some(Alternative::MiOpen) => {
                    (self.by_miopen(step, &mut held).map(|()| true), self.conv.is_tuned())
                }
                Some(Alternative::Tile(tile)) => {
                    target.tile = Some(tile);
                    (Ok(false), true)
                }
                None => (Ok(false), true),
            };
            match done {
                Ok(true) => continue,
                Ok(false) => {}
                Err(
                    DeviceError::Call { .. } | DeviceError::Unsupported(_) | DeviceError::OutOfMemory { .. },
                ) if optional => {}
                Err(error) => return Err(error),
            }
            self.plan(target, step, &mut launches, &mut held)?;
        }
        // Workspaces are freed when this returns, after the launches that use them were submitted.
        let begun = self.kernels.run(&launches);
        self.pool.settle();
        begun
    }

    /// Returns the device address of a range of a buffer, or an error if it exceeds the buffer.
    fn place(&self, buffer: &Buffer, offset: usize, bytes: usize) -> Result<u64, DeviceError> {
        let address = address_of(&**buffer)
            .ok_or_else(|| DeviceError::Unsupported(format!("memory not owned by {}", self.name)))?;
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= buffer.bytes());
        if !inside {
            let why = format!("{bytes} bytes at {offset} exceed a buffer of {} bytes", buffer.bytes());
            return Err(DeviceError::Unsupported(why));
        }
        Ok(address + offset as u64)
    }
}

impl Device for RocmDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<DeviceInfo, DeviceError> {
        self.stream.select()?;
        let (mut free, mut total) = (0, 0);
        call!(self.stream.library, runtime.hipMemGetInfo(&mut free, &mut total))?;
        Ok(DeviceInfo {
            kind: "rocm".to_owned(),
            name: self.properties.name.clone(),
            architecture: self.architecture().to_owned(),
            total_memory: total as u64,
            free_memory: free as u64,
            compute_units: self.properties.compute_units,
            ordinal: self.stream.ordinal,
        })
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        Ok(Arc::new(self.pool.allocate(bytes)?))
    }

    fn upload(&self, to: &Buffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        let place = self.place(to, offset, bytes.len())?;
        if bytes.is_empty() { Ok(()) } else { self.stream.upload(place, bytes) }
    }

    fn download(&self, from: &Buffer, offset: usize, into: &mut [u8]) -> Result<(), DeviceError> {
        let place = self.place(from, offset, into.len())?;
        if into.is_empty() { Ok(()) } else { self.faults.with(|| self.stream.download(place, into)) }
    }

    fn run(&self, steps: &[Step]) -> Result<(), DeviceError> {
        match self.submit(steps) {
            // All steps again: they write the same to the same places.
            Err(DeviceError::NoCompiler(why)) if !self.is_interpreting() => {
                self.interpret(&why, false)?;
                if let Some(tell) = self.on_interpret {
                    tell(&why);
                }
                self.submit(steps)
            }
            other => other,
        }
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.faults.with(|| self.stream.synchronize())
    }

    fn supports(&self, work: &Work, dtypes: &[DType]) -> bool {
        if let Work::Fused(Fused::ConvolutionGradient { stride, .. }) = work {
            let alike = dtypes.iter().all(|&dtype| dtype == dtypes[0] && crate::conv::takes(dtype));
            return self.conv.is_chosen() && alike && (1..=3).contains(&stride.len());
        }
        work::supports(work, dtypes)
    }

    fn copy_from(
        &self,
        to: &Buffer,
        other: &dyn Device,
        from: &Buffer,
        offset: usize,
        bytes: usize,
    ) -> Option<Result<(), DeviceError>> {
        let other = other.as_any().downcast_ref::<RocmDevice>()?;
        let runtime = &self.stream.library.runtime;
        let can = runtime.hipMemcpyPeerAsync.is_some() && runtime.hipStreamWaitEvent.is_some();
        if !can || !Arc::ptr_eq(&self.stream.library, &other.stream.library) {
            return None;
        }
        let copied = self.place(to, 0, bytes).and_then(|to| {
            let from = other.place(from, offset, bytes)?;
            self.stream.copy_from(to, &other.stream, from, bytes)
        });
        Some(copied)
    }

    fn epilogue_results(&self) -> usize {
        8
    }

    fn folds_padding(&self, padding: &Padding, layout: &Layout, dtype: DType) -> bool {
        // A library computes matrix products from memory only, and a padded matrix is read a few times, not by many windows.
        let windows = layout.elements() > padding.shape.iter().product();
        windows && work::contracts(dtype) && !self.is_interpreting() && Folded::of(padding, layout).is_some()
    }

    fn replays(&self, signatures: &[Vec<u64>]) -> bool {
        let launches = self.templates.launches(self.target(), signatures);
        launches.is_some_and(|launches| self.kernels.replays(&launches))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Each library is opened once and never closed: HIP runtimes do not support unloading.
fn open_library(file: Option<&Path>) -> Result<Arc<Library>, DeviceError> {
    type Opened = Mutex<HashMap<Option<PathBuf>, Arc<Library>>>;
    static OPENED: OnceLock<Opened> = OnceLock::new();
    let mut opened = OPENED.get_or_init(Mutex::default).lock();
    let key = file.map(Path::to_owned);
    if let Some(library) = opened.get(&key) {
        return Ok(library.clone());
    }
    let library = Arc::new(Library::open(file)?);
    opened.insert(key, library.clone());
    Ok(library)
}
