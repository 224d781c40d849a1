//! ELF part of a code object: header, segments, symbols, relocations and metadata notes.
//!
//! Validates everything once, so that all returned addresses are inside the load range.

use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{
    FileHeader, NoteIterator, ProgramHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable,
};

use crate::{Error, TargetId, limits};

const ELFOSABI_AMDGPU_HSA: u8 = 64;
const NT_AMDGPU_METADATA: u32 = 32;

/// A part of the image, which shares its memory with the code object.
#[derive(Clone)]
pub struct ImageBytes {
    image: Arc<[u8]>,
    range: Range<usize>,
}

impl Deref for ImageBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // The range was checked when it was created.
        &self.image[self.range.clone()]
    }
}

impl fmt::Debug for ImageBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.range.len(), self.range.start)
    }
}

/// A loadable segment.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Address relative to the load base.
    pub vaddr: u64,
    /// Size in memory; the part not covered by `bytes` is zero.
    pub memsz: u64,
    /// Alignment of the address.
    pub align: u64,
    /// ELF flags: 1 execute, 2 write, 4 read.
    pub flags: u32,
    /// File content, placed at the start of the segment.
    pub bytes: ImageBytes,
}

impl Segment {
    /// Whether it contains code.
    pub fn is_executable(&self) -> bool {
        self.flags & elf::PF_X != 0
    }

    /// Whether programs may write to it.
    pub fn is_writable(&self) -> bool {
        self.flags & elf::PF_W != 0
    }

    /// Whether the whole range is inside the segment.
    pub fn contains(&self, address: u64, size: u64) -> bool {
        address
            .checked_sub(self.vaddr)
            .and_then(|offset| offset.checked_add(size))
            .is_some_and(|end| end <= self.memsz)
    }
}

/// A word to adjust after loading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation {
    /// Address of the word, relative to the load base.
    pub address: u64,
    /// How the value is computed.
    pub kind: RelocationKind,
    /// Symbol or base that it refers to.
    pub target: RelocationTarget,
    /// Added to the target.
    pub addend: i64,
}

impl Relocation {
    /// Value to store when the image is loaded at `base`, and its size in bytes; `None` if the target is not in this code object
    /// or the kind stores nothing. PC-relative kinds depend only on the image, not on `base`.
    pub fn value(&self, base: u64) -> Option<(u64, usize)> {
        let offset = match &self.target {
            RelocationTarget::Base => 0,
            RelocationTarget::Address(address) => *address,
            RelocationTarget::Undefined(_) => return None,
        };
        let absolute = base.wrapping_add(offset).wrapping_add(self.addend as u64);
        let relative = absolute.wrapping_sub(base).wrapping_sub(self.address);
        Some(match self.kind {
            RelocationKind::Relative64 | RelocationKind::Abs64 => (absolute, 8),
            RelocationKind::Abs32 | RelocationKind::Abs32Low => (absolute & 0xffff_ffff, 4),
            RelocationKind::Abs32High => (absolute >> 32, 4),
            RelocationKind::Rel64 => (relative, 8),
            RelocationKind::Rel32 | RelocationKind::Rel32Low => (relative & 0xffff_ffff, 4),
            RelocationKind::Rel32High => (relative >> 32, 4),
            RelocationKind::None | RelocationKind::Other(_) => return None,
        })
    }
}

/// How a relocation computes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelocationKind {
    /// Nothing to do.
    None,
    /// Load base plus addend, 64 bits.
    Relative64,
    /// Symbol plus addend, 64 bits.
    Abs64,
    /// Symbol plus addend, 32 bits.
    Abs32,
    /// Low half of symbol plus addend.
    Abs32Low,
    /// High half of symbol plus addend.
    Abs32High,
    /// Symbol plus addend minus the relocated address, 64 bits.
    Rel64,
    /// Symbol plus addend minus the relocated address, 32 bits.
    Rel32,
    /// Low half of symbol plus addend minus the relocated address.
    Rel32Low,
    /// High half of symbol plus addend minus the relocated address.
    Rel32High,
    /// An unknown relocation type.
    Other(u32),
}

/// Target of a relocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelocationTarget {
    /// The load base.
    Base,
    /// An address relative to the load base.
    Address(u64),
    /// A symbol that another code object must define.
    Undefined(String),
}

/// A defined symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Address relative to the load base.
    pub value: u64,
    /// Size in bytes, as specified in the symbol table.
    pub size: u64,
    /// Kind of the symbol.
    pub kind: SymbolKind,
}

/// Kind of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolKind {
    /// Code.
    Function,
    /// A variable (device global, constant, texture reference, ...).
    Variable,
    /// A kernel descriptor.
    KernelDescriptor,
    /// Anything else.
    Other,
}

/// Contents of the ELF file.
pub(crate) struct Parsed {
    pub target: TargetId,
    pub abi_version: u8,
    pub segments: Vec<Segment>,
    pub load_size: u64,
    pub symbols: Vec<Symbol>,
    pub relocations: Vec<Relocation>,
    /// File ranges of the metadata notes' contents.
    pub metadata: Vec<Range<usize>>,
}

/// Target of a raw code object, read from its header only.
pub(crate) fn target_of(image: &[u8]) -> Result<TargetId, Error> {
    check_header(image).map(|(_, target, _)| target)
}

pub(crate) fn parse(image: &Arc<[u8]>) -> Result<Parsed, Error> {
    if image.len() as u64 > limits::IMAGE_BYTES {
        return Err(Error::TooLarge {
            what: "code object",
            value: image.len() as u64,
            limit: limits::IMAGE_BYTES,
        });
    }
    let (header, target, abi_version) = check_header(image)?;
    let data: &[u8] = image;
    let program_headers = header.program_headers(LE, data)?;
    let sections = header.sections(LE, data)?;
    let segments = read_segments(image, program_headers)?;
    let load_size = segments.last().map_or(0, |segment| segment.vaddr + segment.memsz);
    let dynamic = sections.symbols(LE, data, elf::SHT_DYNSYM)?;
    let mut symbols = Vec::new();
    let mut known = HashSet::new();
    read_symbols(&dynamic, load_size, false, &mut known, &mut symbols)?;
    // Files that were not stripped may have more symbols, such as descriptors of hidden visibility.
    let full = sections.symbols(LE, data, elf::SHT_SYMTAB)?;
    read_symbols(&full, load_size, true, &mut known, &mut symbols)?;
    let relocations = read_relocations(&sections, data, &dynamic, load_size)?;
    let metadata = find_metadata(data, program_headers, &sections)?;
    Ok(Parsed { target, abi_version, segments, load_size, symbols, relocations, metadata })
}

fn check_header(image: &[u8]) -> Result<(&FileHeader64<LE>, TargetId, u8), Error> {
    let header = FileHeader64::<LE>::parse(image)?;
    // A big-endian file is not a code object, and all later reads assume little-endian.
    if !header.is_little_endian() {
        return Err(Error::Malformed { what: "ELF byte order" });
    }
    let machine = header.e_machine(LE);
    if machine != elf::EM_AMDGPU {
        return Err(Error::NotAmdGpu(machine));
    }
    let ident = header.e_ident();
    if ident.os_abi != ELFOSABI_AMDGPU_HSA {
        return Err(Error::NotHsa(ident.os_abi));
    }
    if !(1..=4).contains(&ident.abi_version) {
        return Err(Error::AbiVersion(ident.abi_version));
    }
    if header.e_type(LE) != elf::ET_DYN {
        return Err(Error::NotLinked(header.e_type(LE)));
    }
    let target = TargetId::from_elf_flags(header.e_flags(LE), ident.abi_version)?;
    Ok((header, target, ident.abi_version))
}

/// Loadable segments, in ascending order and without overlap.
fn read_segments(image: &Arc<[u8]>, headers: &[ProgramHeader64<LE>]) -> Result<Vec<Segment>, Error> {
    let mut segments: Vec<Segment> = Vec::new();
    for header in headers.iter().filter(|header| header.p_type(LE) == elf::PT_LOAD) {
        let (vaddr, memsz, filesz) = (header.p_vaddr(LE), header.p_memsz(LE), header.p_filesz(LE));
        let end = vaddr.checked_add(memsz).ok_or(Error::Malformed { what: "segment address" })?;
        if end > limits::LOAD_BYTES {
            return Err(Error::TooLarge { what: "load address", value: end, limit: limits::LOAD_BYTES });
        }
        let previous = segments.last().map_or(0, |segment| segment.vaddr + segment.memsz);
        if vaddr < previous || filesz > memsz {
            return Err(Error::Malformed { what: "segment: overlap or size" });
        }
        let range = checked_range(header.p_offset(LE), filesz, image.len())
            .ok_or(Error::Truncated { what: "segment" })?;
        segments.push(Segment {
            vaddr,
            memsz,
            align: header.p_align(LE),
            flags: header.p_flags(LE),
            bytes: ImageBytes { image: Arc::clone(image), range },
        });
    }
    Ok(segments)
}

fn read_symbols(
    table: &SymbolTable<'_, FileHeader64<LE>>,
    load_size: u64,
    globals_only: bool,
    known: &mut HashSet<String>,
    symbols: &mut Vec<Symbol>,
) -> Result<(), Error> {
    check_count("symbol count", table.len())?;
    for symbol in table.iter() {
        let section = symbol.st_shndx(LE);
        let kind = symbol.st_type();
        // Undefined symbols are handled with relocations; absolute symbols are numbers, not addresses.
        let wanted = section != elf::SHN_UNDEF
            && (section < elf::SHN_LORESERVE || section == elf::SHN_XINDEX)
            && !matches!(kind, elf::STT_SECTION | elf::STT_FILE | elf::STT_TLS)
            && !(globals_only && symbol.st_bind() == elf::STB_LOCAL);
        if !wanted {
            continue;
        }
        let name = name_of(table, symbol)?;
        if name.is_empty() || known.contains(&name) {
            continue;
        }
        let (value, size) = (symbol.st_value(LE), symbol.st_size(LE));
        if value.checked_add(size).is_none_or(|end| end > load_size) {
            return Err(Error::SymbolOutside(name));
        }
        let kind = match kind {
            elf::STT_FUNC => SymbolKind::Function,
            _ if name.ends_with(".kd") => SymbolKind::KernelDescriptor,
            elf::STT_OBJECT | elf::STT_COMMON => SymbolKind::Variable,
            _ => SymbolKind::Other,
        };
        known.insert(name.clone());
        symbols.push(Symbol { name, value, size, kind });
    }
    Ok(())
}

/// Returns a symbol's name. ELF names are bytes, but compilers write UTF-8; anything else is a malformed file.
fn name_of(table: &SymbolTable<'_, FileHeader64<LE>>, symbol: &elf::Sym64<LE>) -> Result<String, Error> {
    let name = table.symbol_name(LE, symbol)?;
    let name = std::str::from_utf8(name).map_err(|_| Error::Malformed { what: "symbol name" })?;
    Ok(name.to_owned())
}

fn read_relocations(
    sections: &SectionTable<'_, FileHeader64<LE>>,
    data: &[u8],
    dynamic: &SymbolTable<'_, FileHeader64<LE>>,
    load_size: u64,
) -> Result<Vec<Relocation>, Error> {
    let mut relocations = Vec::new();
    for section in sections.iter() {
        // Relocations in sections that are not loaded are leftovers of the linker, already applied.
        if section.sh_flags(LE) & u64::from(elf::SHF_ALLOC) == 0 {
            continue;
        }
        let Some((entries, _)) = section.rela(LE, data)? else { continue };
        check_count("relocation count", relocations.len().saturating_add(entries.len()))?;
        for entry in entries {
            let kind = relocation_kind(entry.r_type(LE, false));
            let address = entry.r_offset(LE);
            // The relocated word must be inside the load range, whatever the kind.
            let width = match kind {
                RelocationKind::None => continue,
                RelocationKind::Relative64 | RelocationKind::Abs64 | RelocationKind::Rel64 => 8,
                _ => 4,
            };
            if address.checked_add(width).is_none_or(|end| end > load_size) {
                return Err(Error::Malformed { what: "relocation address" });
            }
            let target = match entry.symbol(LE, false) {
                None => RelocationTarget::Base,
                Some(index) => {
                    let symbol = dynamic.symbol(index)?;
                    if symbol.st_shndx(LE) == elf::SHN_UNDEF {
                        RelocationTarget::Undefined(name_of(dynamic, symbol)?)
                    } else {
                        RelocationTarget::Address(symbol.st_value(LE))
                    }
                }
            };
            relocations.push(Relocation { address, kind, target, addend: entry.r_addend(LE) });
        }
    }
    Ok(relocations)
}

fn relocation_kind(number: u32) -> RelocationKind {
    match number {
        0 => RelocationKind::None,
        1 => RelocationKind::Abs32Low,
        2 => RelocationKind::Abs32High,
        3 => RelocationKind::Abs64,
        4 => RelocationKind::Rel32,
        5 => RelocationKind::Rel64,
        6 => RelocationKind::Abs32,
        10 => RelocationKind::Rel32Low,
        11 => RelocationKind::Rel32High,
        13 => RelocationKind::Relative64,
        other => RelocationKind::Other(other),
    }
}

/// Finds the metadata notes, in the note segments or else in the note sections. A file linked from several objects has one note
/// per object.
fn find_metadata(
    data: &[u8],
    headers: &[ProgramHeader64<LE>],
    sections: &SectionTable<'_, FileHeader64<LE>>,
) -> Result<Vec<Range<usize>>, Error> {
    let mut found = FoundNotes::default();
    for header in headers {
        found.add(data, header.notes(LE, data)?)?;
    }
    if found.ranges.is_empty() {
        for section in sections.iter() {
            found.add(data, section.notes(LE, data)?)?;
        }
    }
    Ok(found.ranges)
}

#[derive(Default)]
struct FoundNotes {
    ranges: Vec<Range<usize>>,
    starts: HashSet<usize>,
    bytes: usize,
}

impl FoundNotes {
    fn add(&mut self, data: &[u8], notes: Option<NoteIterator<'_, FileHeader64<LE>>>) -> Result<(), Error> {
        let Some(mut notes) = notes else { return Ok(()) };
        while let Some(note) = notes.next()? {
            if note.name() != b"AMDGPU" || note.n_type(LE) != NT_AMDGPU_METADATA {
                continue;
            }
            let content = note.desc();
            let start = content.as_ptr() as usize - data.as_ptr() as usize;
            // Two segments may cover the same note.
            if !self.starts.insert(start) {
                continue;
            }
            // Limit the sum, so that overlapping segments cannot multiply the work.
            self.bytes = self.bytes.saturating_add(content.len());
            if self.bytes > limits::METADATA_BYTES {
                return Err(Error::TooLarge {
                    what: "metadata note",
                    value: self.bytes as u64,
                    limit: limits::METADATA_BYTES as u64,
                });
            }
            self.ranges.push(start..start + content.len());
        }
        Ok(())
    }
}

fn checked_range(offset: u64, size: u64, len: usize) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    (end <= len).then_some(start..end)
}

fn check_count(what: &'static str, count: usize) -> Result<(), Error> {
    if count > limits::TABLE_ENTRIES {
        return Err(Error::TooLarge { what, value: count as u64, limit: limits::TABLE_ENTRIES as u64 });
    }
    Ok(())
}
