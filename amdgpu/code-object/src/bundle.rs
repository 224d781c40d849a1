//! Plain offload bundles: a magic, a table of (offset, size, ID), then the entries.
//!
//! Borrows from the input; [`crate::FatBinary`] copies and selects entries.

use crate::{Error, limits};

/// First bytes of a plain bundle.
pub(crate) const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";

/// One entry of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleEntry<'a> {
    /// Entry ID, such as `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-`.
    pub id: &'a str,
    /// Content of the entry; empty for the host.
    pub bytes: &'a [u8],
}

/// Parses a plain bundle that starts at the first byte. Data after its last entry is ignored.
pub fn parse_bundle(bytes: &[u8]) -> Result<Vec<BundleEntry<'_>>, Error> {
    let mut table = Table::new(slice_reader(bytes))?;
    let mut entries = Vec::new();
    while let Some(record) = table.next_record()? {
        let id = bytes.get(record.id.clone()).ok_or(Error::Truncated { what: "bundle entry id" })?;
        let id = std::str::from_utf8(id).map_err(|_| Error::Malformed { what: "bundle entry id" })?;
        let end = record.offset.checked_add(record.size).and_then(|end| usize::try_from(end).ok());
        let content = usize::try_from(record.offset)
            .ok()
            .zip(end)
            .and_then(|(start, end)| bytes.get(start..end))
            .ok_or(Error::Truncated { what: "bundle entry" })?;
        entries.push(BundleEntry { id, bytes: content });
    }
    Ok(entries)
}

/// One row of a bundle's table.
pub(crate) struct Record {
    /// Offset of the content, from the magic.
    pub offset: u64,
    /// Size of the content.
    pub size: u64,
    /// Position of the ID's text, from the magic.
    pub id: std::ops::Range<usize>,
}

/// Walks the table of a bundle through a reader of (offset, bytes), so that the same code works on slices, bare pointers and
/// streams that are still being decompressed.
pub(crate) struct Table<R> {
    read: R,
    left: u64,
    position: usize,
}

impl<R: FnMut(usize, &mut [u8]) -> Result<(), Error>> Table<R> {
    pub(crate) fn new(mut read: R) -> Result<Table<R>, Error> {
        let mut head = [0u8; 32];
        read(0, &mut head)?;
        if &head[..24] != MAGIC {
            return Err(Error::UnknownContainer);
        }
        let count = u64_at(&head, 24);
        if count > limits::BUNDLE_ENTRIES {
            return Err(Error::TooLarge {
                what: "bundle entry count",
                value: count,
                limit: limits::BUNDLE_ENTRIES,
            });
        }
        Ok(Table { read, left: count, position: 32 })
    }

    /// Returns the next row, or `None` after the last.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut row = [0u8; 24];
        (self.read)(self.position, &mut row)?;
        let id_len = u64_at(&row, 16);
        if id_len > limits::ID_BYTES {
            return Err(Error::TooLarge { what: "bundle entry id", value: id_len, limit: limits::ID_BYTES });
        }
        // At most 4096 rows of at most 4120 bytes, so the position cannot overflow.
        let start = self.position + 24;
        let end = start + id_len as usize;
        self.position = end;
        Ok(Some(Record { offset: u64_at(&row, 0), size: u64_at(&row, 8), id: start..end }))
    }

    /// Reads the text of a row's ID.
    pub(crate) fn id(&mut self, record: &Record) -> Result<String, Error> {
        let mut id = vec![0u8; record.id.len()];
        (self.read)(record.id.start, &mut id)?;
        String::from_utf8(id).map_err(|_| Error::Malformed { what: "bundle entry id" })
    }

    /// End of the part of the table read so far.
    pub(crate) fn position(&self) -> usize {
        self.position
    }
}

/// Creates a reader of header fields from a slice.
pub(crate) fn slice_reader(bytes: &[u8]) -> impl FnMut(usize, &mut [u8]) -> Result<(), Error> + '_ {
    move |offset, into| {
        let source = offset.checked_add(into.len()).and_then(|end| bytes.get(offset..end));
        into.copy_from_slice(source.ok_or(Error::Truncated { what: "container header" })?);
        Ok(())
    }
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
