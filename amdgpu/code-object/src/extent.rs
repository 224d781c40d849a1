//! Determines the length of a container from its headers.
//!
//! Runtimes receive fat binaries as a bare pointer without a length. This file reads header fields only, with one exception: the
//! oldest compressed bundles do not record their length. For these it walks the block headers of the stream (zstd), or
//! decompresses the stream in pieces and discards the output (zlib).

use crate::bundle::{Table, slice_reader, u64_at};
use crate::compressed::{Header, Method};
use crate::{Error, bundle, compressed, limits};

/// Size in bytes of the container at `ptr`: a raw code object, a plain bundle or a compressed bundle.
///
/// # Safety
/// `ptr` must point to a container of one of these kinds. The whole container must be readable, up to the end of the memory page
/// that holds its last byte (true for every loaded file image). Nothing may write to it meanwhile. If the first four bytes match
/// no container, nothing more is read and an error is returned.
pub unsafe fn fat_binary_size(ptr: *const u8) -> Result<usize, Error> {
    if ptr.is_null() {
        return Err(Error::UnknownContainer);
    }
    measure(&mut Memory { ptr })
}

/// Size in bytes of the container at the start of `bytes`; more data may follow it.
pub fn container_size(bytes: &[u8]) -> Result<usize, Error> {
    let size = measure(&mut Slice { bytes })?;
    if size > bytes.len() { Err(Error::Truncated { what: "container" }) } else { Ok(size) }
}

/// Source of header fields.
trait Source {
    fn read(&mut self, offset: usize, into: &mut [u8]) -> Result<(), Error>;

    /// Reads at least one byte (or fails) and at most `into.len()`. Does not read beyond what is known to be readable if the byte
    /// at `offset` is.
    fn read_some(&mut self, offset: usize, into: &mut [u8]) -> Result<usize, Error>;
}

struct Slice<'a> {
    bytes: &'a [u8],
}

impl Source for Slice<'_> {
    fn read(&mut self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        slice_reader(self.bytes)(offset, into)
    }

    fn read_some(&mut self, offset: usize, into: &mut [u8]) -> Result<usize, Error> {
        let rest = self.bytes.get(offset..).filter(|rest| !rest.is_empty());
        let rest = rest.ok_or(Error::Truncated { what: "compressed bundle" })?;
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A container of unknown length. Created only by [`fat_binary_size`], under its safety contract.
struct Memory {
    ptr: *const u8,
}

impl Source for Memory {
    fn read(&mut self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        if (self.ptr as usize).checked_add(offset).and_then(|at| at.checked_add(into.len())).is_none() {
            return Err(Error::Truncated { what: "container header" });
        }
        // SAFETY: `measure` reads only header fields whose existence follows from the preceding fields, and the caller of
        // `fat_binary_size` guarantees that the whole container is readable. `into` is a separate local buffer.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr.add(offset), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn read_some(&mut self, offset: usize, into: &mut [u8]) -> Result<usize, Error> {
        // The byte at `offset` belongs to the container, so its page is readable; the next page may not be.
        const SMALLEST_PAGE: usize = 4096;
        let at = (self.ptr as usize).wrapping_add(offset);
        let count = into.len().min(SMALLEST_PAGE - at % SMALLEST_PAGE);
        self.read(offset, &mut into[..count])?;
        Ok(count)
    }
}

fn measure(source: &mut dyn Source) -> Result<usize, Error> {
    let mut magic = [0u8; 4];
    source.read(0, &mut magic)?;
    let size = if magic == object::elf::ELFMAG {
        elf_size(source)?
    } else if magic == *compressed::MAGIC {
        compressed_size(source)?
    } else if magic == bundle::MAGIC[..4] {
        bundle_size(source)?
    } else {
        return Err(Error::UnknownContainer);
    };
    match usize::try_from(size) {
        Ok(size) if size as u64 <= limits::IMAGE_BYTES => Ok(size),
        _ => Err(Error::TooLarge { what: "container", value: size, limit: limits::IMAGE_BYTES }),
    }
}

fn bundle_size(source: &mut dyn Source) -> Result<u64, Error> {
    let mut table = Table::new(|offset, into: &mut [u8]| source.read(offset, into))?;
    let mut end = 0u64;
    while let Some(record) = table.next_record()? {
        let entry = record.offset.checked_add(record.size);
        end = end.max(entry.ok_or(Error::Malformed { what: "bundle entry offset" })?);
    }
    Ok(end.max(table.position() as u64))
}

fn compressed_size(source: &mut dyn Source) -> Result<u64, Error> {
    let header = Header::read(|offset, into| source.read(offset, into))?;
    match (header.file_size, header.method) {
        (Some(size), _) => Ok(size as u64),
        (None, Method::Zstd) => zstd_end(source, &header),
        (None, Method::Zlib) => zlib_end(source, &header),
    }
}

/// Walks the block headers of one zstd frame, which contain each block's length.
fn zstd_end(source: &mut dyn Source, header: &Header) -> Result<u64, Error> {
    let malformed = Error::Malformed { what: "zstd frame" };
    let mut at = header.payload;
    let mut start = [0u8; 5];
    source.read(at, &mut start)?;
    if start[..4] != [0x28, 0xb5, 0x2f, 0xfd] || start[4] & 0x08 != 0 {
        return Err(malformed);
    }
    let flags = start[4];
    let single_segment = flags & 0x20 != 0;
    let window = !single_segment as usize;
    let dictionary = [0, 1, 2, 4][usize::from(flags & 3)];
    let content_size = match flags >> 6 {
        0 => single_segment as usize,
        1 => 2,
        2 => 4,
        _ => 8,
    };
    at += 5 + window + dictionary + content_size;
    loop {
        let mut block = [0u8; 3];
        source.read(at, &mut block)?;
        let block = u32::from_le_bytes([block[0], block[1], block[2], 0]);
        let length = match block >> 1 & 3 {
            0 | 2 => (block >> 3) as usize, // raw, compressed
            1 => 1,                         // one byte, repeated
            _ => return Err(malformed),
        };
        at += 3 + length;
        // zstd never expands data by more than a few bytes per block. A frame much longer than its declared content is invalid,
        // and following it further would leave the container.
        if at as u64 > header.expanded.saturating_mul(2).saturating_add(4096) {
            return Err(malformed);
        }
        if block & 1 != 0 {
            break;
        }
    }
    let checksum = if flags & 0x04 != 0 { 4 } else { 0 };
    Ok((at + checksum) as u64)
}

/// Decompresses a zlib stream to find its end; the output is discarded.
fn zlib_end(source: &mut dyn Source, header: &Header) -> Result<u64, Error> {
    let mut inflate = flate2::Decompress::new(true);
    let mut input = [0u8; 4096];
    let mut output = vec![0u8; 64 << 10];
    let start = header.payload;
    loop {
        let consumed = inflate.total_in() as usize;
        let count = source.read_some(start + consumed, &mut input)?;
        let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(&input[..count], &mut output, flate2::FlushDecompress::None)
            .map_err(|error| Error::Decompress(error.into()))?;
        if inflate.total_out() > header.expanded {
            return Err(Error::ExpandedSize { declared: header.expanded, actual: inflate.total_out() });
        }
        if status == flate2::Status::StreamEnd {
            return Ok(start as u64 + inflate.total_in());
        }
        if (inflate.total_in(), inflate.total_out()) == (before_in, before_out) {
            return Err(Error::Malformed { what: "zlib stream" });
        }
    }
}

fn elf_size(source: &mut dyn Source) -> Result<u64, Error> {
    let mut head = [0u8; 64];
    source.read(0, &mut head)?;
    if head[4] != object::elf::ELFCLASS64 || head[5] != object::elf::ELFDATA2LSB {
        return Err(Error::Malformed { what: "ELF class" });
    }
    let machine = u16_at(&head, 18);
    if machine != object::elf::EM_AMDGPU {
        return Err(Error::NotAmdGpu(machine));
    }
    let overflow = || Error::Malformed { what: "ELF header" };
    let table_end =
        |start: u64, entry: u64, count: u64| start.checked_add(entry * count).ok_or_else(overflow);
    let (phoff, phentsize, phnum) = (u64_at(&head, 32), u16_at(&head, 54), u16_at(&head, 56));
    let (shoff, shentsize, shnum) = (u64_at(&head, 40), u16_at(&head, 58), u16_at(&head, 60));
    let mut end = 64;
    end = end.max(table_end(phoff, phentsize.into(), phnum.into())?);
    end = end.max(table_end(shoff, shentsize.into(), shnum.into())?);
    if (phnum != 0 && phentsize < 56) || (shnum != 0 && shentsize < 64) || end > limits::IMAGE_BYTES {
        return Err(overflow());
    }
    for index in 0..usize::from(phnum) {
        let mut program = [0u8; 56];
        source.read(phoff as usize + index * usize::from(phentsize), &mut program)?;
        end = end.max(u64_at(&program, 8).checked_add(u64_at(&program, 32)).ok_or_else(overflow)?);
    }
    for index in 0..usize::from(shnum) {
        let mut section = [0u8; 64];
        source.read(shoff as usize + index * usize::from(shentsize), &mut section)?;
        let kind = u32::from_le_bytes([section[4], section[5], section[6], section[7]]);
        if kind != object::elf::SHT_NOBITS && kind != object::elf::SHT_NULL {
            end = end.max(u64_at(&section, 24).checked_add(u64_at(&section, 32)).ok_or_else(overflow)?);
        }
    }
    Ok(end)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
