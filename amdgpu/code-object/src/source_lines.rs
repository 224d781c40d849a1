//! Source line information of instructions, for code compiled with debug information.
//!
//! Reads only the line tables of DWARF. A file without them, or with invalid ones, has no line information; this is not an error,
//! since the lines are for display only.

use std::sync::Arc;

use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use object::read::elf::ElfFile64;
use object::{LittleEndian as ElfLittleEndian, Object, ObjectSection};

use crate::limits;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// A line in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Path of the source file, as the compiler recorded it.
    pub file: Arc<str>,
    /// Line number, starting at 1.
    pub line: u32,
}

impl SourceLine {
    /// File name without folders.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

/// The line table of a code object.
#[derive(Clone, Debug, Default)]
pub struct SourceLines {
    files: Vec<Arc<str>>,
    /// Sorted by address, relative to the load base. A row applies until the next one.
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    address: u64,
    file: u32,
    /// 0 if no line is known, for example after the last instruction of a function.
    line: u32,
}

impl SourceLines {
    /// Parses the line tables of a code object (an ELF file).
    pub fn parse(image: &[u8]) -> SourceLines {
        let mut lines = SourceLines::default();
        // Rows read before an error are still valid.
        let _ = lines.read(image);
        // Where one function ends another may begin: the end row is sorted first.
        lines.rows.sort_by_key(|row| (row.address, row.line > 0));
        lines
    }

    /// Whether there is no line information.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Source line of the instruction at `address`, which is relative to the load base.
    pub fn find(&self, address: u64) -> Option<SourceLine> {
        let after = self.rows.partition_point(|row| row.address <= address);
        let row = self.rows.get(after.checked_sub(1)?)?;
        let file = self.files.get(row.file as usize)?;
        (row.line > 0).then(|| SourceLine { file: Arc::clone(file), line: row.line })
    }

    fn read(&mut self, image: &[u8]) -> Option<()> {
        let file = ElfFile64::<ElfLittleEndian>::parse(image).ok()?;
        let section = |id: SectionId| -> Result<Bytes, gimli::Error> {
            let section = file.section_by_name(id.name());
            // Compressed sections are not supported.
            let data = section
                .filter(|section| {
                    section.compressed_file_range().is_ok_and(|range| {
                        range.format == object::CompressionFormat::None
                            && range.compressed_size <= limits::DEBUG_BYTES
                    })
                })
                .and_then(|section| section.data().ok());
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        };
        let dwarf = Dwarf::load(section).ok()?;
        let mut units = dwarf.units();
        while let Some(header) = units.next().ok()? {
            let Ok(unit) = dwarf.unit(header) else { continue };
            self.read_unit(&dwarf, &unit)?;
        }
        Some(())
    }

    /// Adds the rows of one compilation unit; `None` if there are too many.
    fn read_unit(&mut self, dwarf: &Dwarf<Bytes>, unit: &gimli::Unit<Bytes>) -> Option<()> {
        let Some(program) = unit.line_program.clone() else { return Some(()) };
        let first = self.files.len() as u32;
        let header = program.header().clone();
        // File numbers start at 1 up to DWARF version 4, and at 0 since version 5.
        let base = u64::from(header.version() < 5);
        for file in header.file_names().iter().take(limits::TABLE_ENTRIES) {
            self.files.push(path(dwarf, unit, &header, file).into());
        }
        let count = self.files.len() as u32 - first;
        let mut rows = program.rows();
        while let Ok(Some((_, row))) = rows.next_row() {
            if self.rows.len() >= limits::SOURCE_ROWS {
                return None;
            }
            let file = row.file_index().checked_sub(base).and_then(|file| u32::try_from(file).ok());
            let known = file.filter(|file| *file < count && !row.end_sequence());
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
            self.rows.push(Row {
                address: row.address(),
                file: first.saturating_add(known.unwrap_or(0)),
                line: if known.is_some() { line } else { 0 },
            });
        }
        Some(())
    }
}

/// Path of a file, absolute if the compiler provided enough information.
fn path(
    dwarf: &Dwarf<Bytes>,
    unit: &gimli::Unit<Bytes>,
    header: &gimli::LineProgramHeader<Bytes>,
    file: &gimli::FileEntry<Bytes>,
) -> String {
    let cut = |text: &str| text.chars().take(limits::ID_BYTES as usize).collect::<String>();
    let text = |value| {
        let value = dwarf.attr_string(unit, value).ok();
        value.map_or(String::new(), |value| cut(&value.to_string_lossy()))
    };
    let folder = file.directory(header).map(text).unwrap_or_default();
    let compiled_in = unit.comp_dir.map_or(String::new(), |folder| cut(&folder.to_string_lossy()));
    // Each part is relative to the previous one, unless it is absolute.
    let join = |base: String, rest: String| match (base.as_str(), rest.as_str()) {
        (_, "") => base,
        ("", _) => rest,
        _ if rest.starts_with('/') => rest,
        _ => format!("{base}/{rest}"),
    };
    join(join(compiled_in, folder), text(file.path_name()))
}
