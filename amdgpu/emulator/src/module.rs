//! Module loader: copies the segments of a code object, applies relocations, and provides its kernels.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use code_object::{CodeObject, Kernel, RelocationTarget, SymbolKind};
use isa::Arch;
use parking_lot::RwLock;

use crate::Level;
use crate::launch_stats::LaunchStats;
use crate::memory::{self, Access, Memory};
use crate::program::{Options, Program};

/// Error of loading a module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The code object is for another architecture.
    #[error("code object is for {found}, the device is {device:?}")]
    Architecture {
        /// Target of the code object.
        found: String,
        /// Instruction set of the device.
        device: Arch,
    },
    /// A relocation needs a symbol that is not defined.
    #[error("relocation at {address:#x} needs symbol {symbol}, which is not defined")]
    UndefinedSymbol {
        /// The address.
        address: u64,
        /// Name of the symbol.
        symbol: String,
    },
    /// A relocation has an unknown type.
    #[error("relocation at {address:#x} has an unknown type")]
    UnknownRelocation {
        /// The address.
        address: u64,
    },
    /// A symbol or relocation lies outside the loaded image.
    #[error("a segment or relocation lies outside the code object's load range")]
    OutOfRange,
    /// The image cannot be added to the memory table.
    #[error("the module's address range overlaps memory that is already registered")]
    Memory(#[from] memory::Error),
}

/// A loaded code object.
#[derive(Debug)]
pub struct Module {
    image: Arc<Image>,
    kernels: HashMap<String, Arc<LoadedKernel>>,
}

/// Data shared by all kernels of a module.
#[derive(Debug)]
pub(crate) struct Image {
    pub object: CodeObject,
    pub base: u64,
    pub arch: Arch,
    /// Sorted start addresses of functions, relative to the base.
    functions: Vec<u64>,
}

impl Module {
    /// Copies a code object to `base`, zero-fills the rest of its segments, relocates it, and gives kernels access to it.
    ///
    /// # Safety
    /// `object.load_size()` bytes at `base` must be mapped, writable, and unused by anything else until the module is unloaded
    /// and its last dispatch has ended.
    pub unsafe fn load(object: CodeObject, arch: Arch, base: u64, memory: &Memory) -> Result<Module, Error> {
        let processor = object.target().processor.as_str();
        if !accepts(arch, processor) {
            return Err(Error::Architecture { found: processor.to_owned(), device: arch });
        }
        let inside = |address: u64, len: u64| {
            address
                .checked_add(len)
                .is_some_and(|end| end <= object.load_size())
                .then_some(())
                .ok_or(Error::OutOfRange)
        };
        for segment in object.segments() {
            inside(segment.vaddr, segment.memsz)?;
            let bytes: &[u8] = &segment.bytes;
            let len = bytes.len().min(segment.memsz as usize);
            let to = (base + segment.vaddr) as *mut u8;
            // SAFETY: the segment is inside the load range, which the caller has mapped and owns.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
                std::ptr::write_bytes(to.add(len), 0, segment.memsz as usize - len);
            }
        }
        for relocation in object.relocations() {
            if let RelocationTarget::Undefined(symbol) = &relocation.target {
                return Err(Error::UndefinedSymbol { address: relocation.address, symbol: symbol.clone() });
            }
            let Some((value, size)) = relocation.value(base) else {
                return Err(Error::UnknownRelocation { address: relocation.address });
            };
            inside(relocation.address, size as u64)?;
            let value = value.to_le_bytes();
            let to = (base + relocation.address) as *mut u8;
            // SAFETY: the relocated word is inside the load range.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to, size.min(8)) };
        }
        let mut registered: Vec<u64> = Vec::new();
        for segment in object.segments().iter().filter(|segment| segment.memsz > 0) {
            let access = if segment.is_writable() { Access::ReadWrite } else { Access::ReadOnly };
            let start = base + segment.vaddr;
            if let Err(error) = memory.insert(start, segment.memsz, access) {
                for start in registered {
                    memory.remove(start);
                }
                return Err(error.into());
            }
            registered.push(start);
        }
        let mut functions: Vec<u64> = object
            .symbols()
            .iter()
            .filter(|symbol| symbol.kind == SymbolKind::Function)
            .map(|symbol| symbol.value)
            .chain(object.kernels().iter().map(|kernel| kernel.entry_address))
            .collect();
        functions.sort_unstable();
        functions.dedup();
        let image = Arc::new(Image { base, arch, functions, object });
        let kernels = image
            .object
            .kernels()
            .iter()
            .map(|kernel| (kernel.name.clone(), Arc::new(LoadedKernel::new(image.clone(), kernel.clone()))))
            .collect();
        Ok(Module { image, kernels })
    }

    /// Revokes the kernels' access to the module's memory. Its dispatches must have ended.
    pub fn unload(&self, memory: &Memory) {
        for segment in self.image.object.segments().iter().filter(|segment| segment.memsz > 0) {
            memory.remove(self.image.base + segment.vaddr);
        }
    }

    /// Address at which the module is loaded.
    pub fn base(&self) -> u64 {
        self.image.base
    }

    /// The code object.
    pub fn object(&self) -> &CodeObject {
        &self.image.object
    }

    /// The kernel with this name.
    pub fn kernel(&self, name: &str) -> Option<&Arc<LoadedKernel>> {
        self.kernels.get(name)
    }

    /// Address and size of a symbol (device global or constant).
    pub fn symbol_address(&self, name: &str) -> Option<(u64, u64)> {
        let symbol = self.image.object.symbol(name)?;
        Some((self.image.base + symbol.value, symbol.size))
    }
}

/// Whether code for `processor` runs on `arch`.
fn accepts(arch: Arch, processor: &str) -> bool {
    match arch {
        Arch::Gfx90a => processor == "gfx90a",
        Arch::Gfx942 => matches!(processor, "gfx942" | "gfx9-4-generic"),
    }
}

/// A launchable kernel. Its code is compiled at the first launch and cached.
#[derive(Debug)]
pub struct LoadedKernel {
    /// Metadata of the kernel.
    pub kernel: Kernel,
    image: Arc<Image>,
    /// Compiled programs by CPU level; devices may run at different levels.
    codes: [Code; 3],
    /// Instructions that a workgroup executed in the last launch, on average; `u64::MAX` before the first launch has ended.
    instructions_per_workgroup: AtomicU64,
}

impl LoadedKernel {
    fn new(image: Arc<Image>, kernel: Kernel) -> LoadedKernel {
        LoadedKernel {
            kernel,
            image,
            codes: Default::default(),
            instructions_per_workgroup: AtomicU64::new(u64::MAX),
        }
    }

    /// Instructions that the workgroups of a grid will execute together if they are like those of the last launch; `u64::MAX` if
    /// that is not known.
    pub(crate) fn expected_instructions(&self, workgroups: u64) -> u64 {
        self.instructions_per_workgroup.load(Ordering::Relaxed).saturating_mul(workgroups)
    }

    /// Remembers how long the workgroups of a launch were.
    pub(crate) fn note_launch(&self, stats: &LaunchStats) {
        let average = stats.instructions / stats.workgroups.max(1);
        self.instructions_per_workgroup.store(average, Ordering::Relaxed);
    }

    /// Name of the kernel.
    pub fn name(&self) -> &str {
        &self.kernel.name
    }

    /// Instruction set of the kernel.
    pub fn arch(&self) -> Arch {
        self.image.arch
    }

    /// Format strings of the module's buffered `printf` calls.
    pub fn printf_formats(&self) -> &[String] {
        self.image.object.printf_formats()
    }

    /// Bytes of the code object's ELF file.
    pub(crate) fn image(&self) -> &[u8] {
        self.image.object.image()
    }

    pub(crate) fn base(&self) -> u64 {
        self.image.base
    }

    /// Name of the function that starts at `address`.
    pub(crate) fn function_name(&self, address: u64) -> Option<&str> {
        let start = address.checked_sub(self.image.base)?;
        let mut symbols = self.image.object.symbols().iter();
        let symbol = symbols.find(|symbol| symbol.kind == SymbolKind::Function && symbol.value == start)?;
        Some(&symbol.name)
    }

    /// Address of the first instruction.
    pub fn entry(&self) -> u64 {
        self.image.base + self.kernel.entry_address
    }

    /// Address of the kernel descriptor, which programs use as the kernel's handle.
    pub fn descriptor_address(&self) -> u64 {
        self.image.base + self.kernel.descriptor_address
    }

    pub(crate) fn code(&self, level: Level) -> &Code {
        &self.codes[level as usize]
    }

    /// Returns the program that contains `address`, and compiles it at the first request.
    pub(crate) fn program_at(&self, level: Level, address: u64) -> Option<&Program> {
        let code = self.code(level);
        if let Some(program) = code.find(address) {
            return Some(program);
        }
        let (start, bytes) = self.image.function(address.checked_sub(self.image.base)?)?;
        let descriptor = &self.kernel.descriptor;
        let options = Options {
            arch: self.image.arch,
            level,
            accum_offset: descriptor.accum_offset as u16,
            vgpr_count: descriptor.vgpr_count as u16,
        };
        let program = Program::compile(options, self.image.base + start, bytes);
        code.add(program);
        code.find(address)
    }

    /// Compiles the kernel's entry function and lists its unsupported instructions.
    pub fn unsupported(&self, level: Level) -> Vec<String> {
        self.program_at(level, self.entry()).map_or(Vec::new(), |program| program.unsupported().to_vec())
    }
}

impl Image {
    /// Start (relative to the base) and bytes of the function at `address`: from the last function start at or before it to the
    /// next.
    fn function(&self, address: u64) -> Option<(u64, &[u8])> {
        let segment = self.object.segments().iter().find(|s| s.is_executable() && s.contains(address, 4))?;
        let after = self.functions.partition_point(|start| *start <= address);
        let start = after.checked_sub(1).map_or(segment.vaddr, |at| self.functions[at].max(segment.vaddr));
        let file_end = segment.vaddr + segment.bytes.len() as u64;
        let end = self.functions.get(after).map_or(file_end, |end| (*end).min(file_end));
        let bytes =
            segment.bytes.get((start - segment.vaddr) as usize..(end.max(start) - segment.vaddr) as usize)?;
        (address < start + bytes.len() as u64).then_some((start, bytes))
    }
}

/// Compiled programs of one kernel at one CPU level. Programs are added but never removed, so references to them stay valid.
#[derive(Debug, Default)]
pub(crate) struct Code {
    programs: RwLock<Vec<Arc<Program>>>,
}

impl Code {
    fn find(&self, address: u64) -> Option<&Program> {
        let programs = self.programs.read();
        let after = programs.partition_point(|program| program.base() <= address);
        let program = programs.get(after.checked_sub(1)?)?;
        // SAFETY: programs are never removed, so this one lives as long as `self`.
        program.contains(address).then(|| unsafe { &*Arc::as_ptr(program) })
    }

    fn add(&self, program: Program) {
        let mut programs = self.programs.write();
        let at = programs.partition_point(|other| other.base() < program.base());
        // Another thread may have compiled the same code in the meantime; the first one is kept.
        if programs.get(at).is_none_or(|other| other.base() != program.base()) {
            programs.insert(at, Arc::new(program));
        }
    }
}
