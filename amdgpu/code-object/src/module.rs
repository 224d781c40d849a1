//! Code objects: one linked device image with its kernels, globals and loading information.
//!
//! Combines the ELF part with the metadata. Does not load the image: a loader applies the segments and relocations at a base of
//! its choice.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::elf::{self, Relocation, Segment, Symbol, SymbolKind};
use crate::metadata::{KernelMetadata, Metadata};
use crate::{Descriptor, Error, Kernel, TargetId, limits};

/// A parsed code object.
#[derive(Clone)]
pub struct CodeObject {
    image: Arc<[u8]>,
    target: TargetId,
    abi_version: u8,
    segments: Vec<Segment>,
    load_size: u64,
    symbols: Vec<Symbol>,
    symbol_index: HashMap<String, usize>,
    relocations: Vec<Relocation>,
    kernels: Vec<Kernel>,
    kernel_index: HashMap<String, usize>,
    printf: Vec<String>,
    stated_target: Option<String>,
}

impl CodeObject {
    /// Parses a raw code object (an ELF file, not a bundle).
    pub fn parse(image: Arc<[u8]>) -> Result<CodeObject, Error> {
        let parsed = elf::parse(&image)?;
        let mut metadata = Metadata::default();
        for range in parsed.metadata {
            metadata.add(&image[range])?;
        }
        let symbol_index = parsed.symbols.iter().enumerate().map(|(i, s)| (s.name.clone(), i)).collect();
        let mut object = CodeObject {
            image,
            target: parsed.target,
            abi_version: parsed.abi_version,
            segments: parsed.segments,
            load_size: parsed.load_size,
            symbols: parsed.symbols,
            symbol_index,
            relocations: parsed.relocations,
            kernels: Vec::new(),
            kernel_index: HashMap::new(),
            printf: metadata.printf,
            stated_target: metadata.target,
        };
        for kernel in metadata.kernels {
            object.add_kernel(kernel)?;
        }
        object.add_undescribed_kernels()?;
        Ok(object)
    }

    /// Target on which the image runs, from the ELF header.
    pub fn target(&self) -> &TargetId {
        &self.target
    }

    /// The full ISA name of [`CodeObject::target`].
    pub fn isa_name(&self) -> String {
        self.target.isa_name()
    }

    /// Target as written in the metadata, which may not be canonical. For display only.
    pub fn stated_target(&self) -> Option<&str> {
        self.stated_target.as_deref()
    }

    /// The ELF ABI version: 1 to 4 for code object versions 3 to 6.
    pub fn abi_version(&self) -> u8 {
        self.abi_version
    }

    /// Bytes of the ELF file.
    pub fn image(&self) -> &Arc<[u8]> {
        &self.image
    }

    /// Kernels listed in the metadata, in its order, then kernels that have only a descriptor.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// Returns the kernel named `name`.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernel_index.get(name).map(|&index| &self.kernels[index])
    }

    /// Segments to load, in ascending order and without overlap.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes from the load base to the end of the last segment.
    pub fn load_size(&self) -> u64 {
        self.load_size
    }

    /// Relocations to apply after loading. All are inside the load range.
    pub fn relocations(&self) -> &[Relocation] {
        &self.relocations
    }

    /// Defined symbols. All are inside the load range.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Returns the symbol named `name`.
    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.symbol_index.get(name).map(|&index| &self.symbols[index])
    }

    /// Format strings of buffered `printf`, each `id:argument count:sizes...:format`.
    pub fn printf_formats(&self) -> &[String] {
        &self.printf
    }

    /// File content at an unrelocated address; `None` unless it is entirely in the file content of one segment.
    pub fn bytes_at(&self, address: u64, size: usize) -> Option<&[u8]> {
        let after = self.segments.partition_point(|segment| segment.vaddr <= address);
        let segment = &self.segments[after.checked_sub(1)?];
        let start = usize::try_from(address - segment.vaddr).ok()?;
        segment.bytes.get(start..start.checked_add(size)?)
    }

    fn add_kernel(&mut self, metadata: KernelMetadata) -> Result<(), Error> {
        let symbol = metadata.symbol.clone().unwrap_or_else(|| format!("{}.kd", metadata.name));
        let Some(address) = self.symbol(&symbol).map(|symbol| symbol.value) else {
            return Err(Error::MissingDescriptor { kernel: metadata.name, symbol });
        };
        let outside = |what: &'static str| Error::KernelOutside { kernel: metadata.name.clone(), what };
        let bytes: &[u8; Descriptor::SIZE] = self
            .bytes_at(address, Descriptor::SIZE)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| outside("descriptor"))?;
        let descriptor = Descriptor::parse(bytes);
        let entry_address = address.wrapping_add_signed(descriptor.entry_offset);
        let mut code = self.segments.iter().filter(|segment| segment.is_executable());
        if !code.any(|segment| segment.contains(entry_address, 4)) {
            return Err(outside("entry point"));
        }
        let kernel = join(metadata, symbol, address, entry_address, descriptor)?;
        let index = self.kernels.len();
        if self.kernel_index.insert(kernel.name.clone(), index).is_some() {
            return Err(Error::DuplicateKernel(kernel.name));
        }
        self.kernels.push(kernel);
        Ok(())
    }

    /// Adds kernels for descriptors that the metadata does not list; less is known about them.
    fn add_undescribed_kernels(&mut self) -> Result<(), Error> {
        let known: HashSet<&str> = self.kernels.iter().map(|kernel| kernel.symbol.as_str()).collect();
        let missing: Vec<KernelMetadata> = self
            .symbols
            .iter()
            .filter(|symbol| symbol.kind == SymbolKind::KernelDescriptor)
            .filter(|symbol| !known.contains(symbol.name.as_str()))
            .filter_map(|symbol| {
                let name = symbol.name.strip_suffix(".kd").filter(|name| !name.is_empty())?;
                let described = self.kernel_index.contains_key(name);
                let symbol = Some(symbol.name.clone());
                (!described).then(|| KernelMetadata { name: name.to_owned(), symbol, ..Default::default() })
            })
            .collect();
        missing.into_iter().try_for_each(|kernel| self.add_kernel(kernel))
    }
}

/// Omits the image's bytes and the lookup tables.
impl fmt::Debug for CodeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeObject")
            .field("target", &self.target)
            .field("abi_version", &self.abi_version)
            .field("bytes", &self.image.len())
            .field("load_size", &self.load_size)
            .field("kernels", &self.kernels)
            .field("symbols", &self.symbols)
            .finish_non_exhaustive()
    }
}

/// Maximum size of a kernel argument block; the runtimes' own limits are a few kilobytes.
const KERNARG_BYTES: u64 = 1 << 20;

/// Combines metadata and descriptor. The metadata takes precedence; the descriptor supplies missing values.
fn join(
    metadata: KernelMetadata,
    symbol: String,
    descriptor_address: u64,
    entry_address: u64,
    descriptor: Descriptor,
) -> Result<Kernel, Error> {
    let args = metadata.args;
    let explicit_args = args.iter().take_while(|arg| !arg.kind.is_hidden()).count();
    let args_end = args.iter().map(|arg| u64::from(arg.offset) + u64::from(arg.size)).max().unwrap_or(0);
    let stated = metadata.kernarg_size.unwrap_or(descriptor.kernarg_size);
    // Every argument must fit into the block that a launch allocates, whatever size the metadata specifies.
    let kernarg_size = args_end.max(stated.into());
    if kernarg_size > KERNARG_BYTES {
        return Err(Error::TooLarge {
            what: "kernel argument block",
            value: kernarg_size,
            limit: KERNARG_BYTES,
        });
    }
    let kernarg_align = metadata.kernarg_align.unwrap_or(16);
    if !kernarg_align.is_power_of_two() || u64::from(kernarg_align) > limits::IMAGE_BYTES {
        return Err(Error::MetadataField { field: ".kernarg_segment_align" });
    }
    Ok(Kernel {
        symbol,
        descriptor_address,
        entry_address,
        explicit_args,
        kernarg_size: kernarg_size as u32,
        kernarg_align,
        group_size: metadata.group_size.unwrap_or(descriptor.group_segment_size),
        private_size: metadata.private_size.unwrap_or(descriptor.private_segment_size),
        sgpr_count: metadata.sgpr_count.unwrap_or((descriptor.sgpr_granule + 1) * 8),
        vgpr_count: metadata.vgpr_count.unwrap_or(descriptor.vgpr_count),
        agpr_count: metadata.agpr_count.unwrap_or(0),
        sgpr_spill_count: metadata.sgpr_spill_count.unwrap_or(0),
        vgpr_spill_count: metadata.vgpr_spill_count.unwrap_or(0),
        max_flat_workgroup_size: metadata.max_flat_workgroup_size.unwrap_or(1024),
        // Compilers write zeros for "not required".
        reqd_workgroup_size: metadata.reqd_workgroup_size.filter(|size| !size.contains(&0)),
        wavefront_size: metadata.wavefront_size.unwrap_or(descriptor.wavefront_size()),
        uses_dynamic_stack: metadata.uses_dynamic_stack.unwrap_or(descriptor.dynamic_stack),
        uniform_workgroup_size: metadata.uniform_workgroup_size.unwrap_or(false),
        language: metadata.language,
        language_version: metadata.language_version,
        kind: metadata.kind,
        name: metadata.name,
        args,
        descriptor,
    })
}
