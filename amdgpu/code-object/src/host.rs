//! Host programs with embedded device images.
//!
//! Finds the fat binaries in an executable or shared library and lists their targets. Decompresses no more of a compressed bundle
//! than its table.

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable};

use crate::bundle::{Table, slice_reader};
use crate::compressed::Header;
use crate::fat_binary::Containers;
use crate::{Error, TargetId, compressed, limits};

/// Device targets embedded in a host ELF file, without duplicates, in file order. The list is empty if there are none; a file
/// that is not ELF is an error.
pub fn embedded_targets(elf: &[u8]) -> Result<Vec<TargetId>, Error> {
    let header = FileHeader64::<LE>::parse(elf)?;
    let sections = header.sections(LE, elf)?;
    let mut targets = Vec::new();
    for section in sections.iter() {
        if sections.section_name(LE, section)? == b".hip_fatbin" {
            let bytes = section.data(LE, elf)?;
            // The section of a program linked without device code may be empty.
            if !bytes.is_empty() {
                Containers::new(bytes).try_for_each(|container| add_targets(container?, &mut targets))?;
            }
        }
    }
    if targets.is_empty() {
        for address in wrapped_addresses(header, &sections, elf)? {
            let bytes = file_bytes(header, elf, address)?;
            // A wrapper refers to one container; data after it is unrelated.
            if let Some(container) = Containers::new(bytes).next() {
                add_targets(container?, &mut targets)?;
            }
        }
    }
    Ok(targets)
}

/// Adds the targets of one container.
fn add_targets(container: &[u8], targets: &mut Vec<TargetId>) -> Result<(), Error> {
    let mut add = |target: TargetId| {
        if !targets.contains(&target) {
            targets.push(target);
        }
    };
    if container.starts_with(&elf::ELFMAG) {
        add(crate::elf::target_of(container)?);
    } else if container.starts_with(compressed::MAGIC) {
        let header = Header::read(slice_reader(container))?;
        let payload =
            container.get(header.payload..).ok_or(Error::Truncated { what: "compressed bundle" })?;
        let mut stream = header.reader(payload)?;
        // The table is at the beginning, so the stream is decompressed only as far as the table requires.
        let mut expanded = Vec::new();
        let table = Table::new(move |offset: usize, into: &mut [u8]| {
            let end = offset.saturating_add(into.len());
            while expanded.len() < end {
                let mut piece = [0u8; 4096];
                match std::io::Read::read(&mut stream, &mut piece).map_err(Error::Decompress)? {
                    0 => return Err(Error::Truncated { what: "bundle header" }),
                    count => expanded.extend_from_slice(&piece[..count]),
                }
            }
            into.copy_from_slice(&expanded[offset..end]);
            Ok(())
        })?;
        each_target(table, add)?;
    } else {
        each_target(Table::new(slice_reader(container))?, add)?;
    }
    Ok(())
}

fn each_target<R: FnMut(usize, &mut [u8]) -> Result<(), Error>>(
    mut table: Table<R>,
    mut add: impl FnMut(TargetId),
) -> Result<(), Error> {
    while let Some(record) = table.next_record()? {
        let id = table.id(&record)?;
        if let Some(target) = TargetId::from_bundle_id(&id) {
            add(target);
        }
    }
    Ok(())
}

/// Addresses to which the registration wrappers in `.hipFatBinSegment` point. A wrapper is {magic, version, pointer, unused}. In
/// a position-independent file the pointer is in the relocation, not in the section.
fn wrapped_addresses(
    header: &FileHeader64<LE>,
    sections: &SectionTable<'_, FileHeader64<LE>>,
    elf_bytes: &[u8],
) -> Result<Vec<u64>, Error> {
    const WRAPPER_MAGIC: [u8; 4] = 0x4849_5046u32.to_le_bytes();
    let mut addresses = Vec::new();
    for section in sections.iter() {
        if sections.section_name(LE, section)? != b".hipFatBinSegment" {
            continue;
        }
        let base = section.sh_addr(LE);
        for (index, wrapper) in section.data(LE, elf_bytes)?.chunks_exact(24).enumerate() {
            if wrapper[..4] != WRAPPER_MAGIC || addresses.len() >= limits::TABLE_ENTRIES {
                continue;
            }
            let mut word = [0u8; 8];
            word.copy_from_slice(&wrapper[8..16]);
            let field = base.wrapping_add(index as u64 * 24 + 8);
            let relocated = relocated_value(header, sections, elf_bytes, field)?;
            let address = relocated.unwrap_or(u64::from_le_bytes(word));
            if address != 0 {
                addresses.push(address);
            }
        }
    }
    Ok(addresses)
}

/// Addend of the relative relocation at `field`, if there is one.
fn relocated_value(
    header: &FileHeader64<LE>,
    sections: &SectionTable<'_, FileHeader64<LE>>,
    elf_bytes: &[u8],
    field: u64,
) -> Result<Option<u64>, Error> {
    let relative = match header.e_machine(LE) {
        elf::EM_AARCH64 => elf::R_AARCH64_RELATIVE,
        _ => elf::R_X86_64_RELATIVE,
    };
    for section in sections.iter() {
        if let Some((relocations, _)) = section.rela(LE, elf_bytes)? {
            let found = relocations
                .iter()
                .find(|rela| rela.r_offset(LE) == field && rela.r_type(LE, false) == relative);
            if let Some(rela) = found {
                return Ok(Some(rela.r_addend(LE) as u64));
            }
        }
    }
    Ok(None)
}

/// The file's bytes from a virtual address to the end of its segment.
fn file_bytes<'a>(header: &FileHeader64<LE>, elf_bytes: &'a [u8], address: u64) -> Result<&'a [u8], Error> {
    for segment in header.program_headers(LE, elf_bytes)? {
        if segment.p_type(LE) != elf::PT_LOAD {
            continue;
        }
        let offset = address.checked_sub(segment.p_vaddr(LE));
        if let Some(offset) = offset.filter(|&offset| offset < segment.p_filesz(LE)) {
            let data = segment.data(LE, elf_bytes).map_err(|()| Error::Truncated { what: "segment" })?;
            return data.get(offset as usize..).ok_or(Error::Truncated { what: "segment" });
        }
    }
    Err(Error::Malformed { what: "fat binary wrapper" })
}
