//! Reads the HIP generation of a library file whose name has no version, from its DT_SONAME or its symbol versions.

use crate::name::{self, Kind};

const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;
const DT_VERDEF: u64 = 0x6fff_fffc;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
/// Limits on the parts of a file that are read.
const MAX_SEGMENTS: u64 = 64;
const MAX_DYNAMIC: u64 = 256;
const MAX_VERSIONS: usize = 256;
const NAME_BYTES: usize = 64;

/// Random-access input; `read_at` returns how many bytes were read.
pub trait Source {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize;
}

/// Returns the HIP generation (5, 6, 7) of a 64-bit little-endian ELF library.
pub fn generation(file: &impl Source) -> Option<u32> {
    let dynamic = Dynamic::read(file)?;
    let soname = dynamic.soname.and_then(|at| {
        let text = dynamic.string(file, at)?;
        name::parse(&text).filter(|name| name.kind == Kind::Runtime)?.version
    });
    soname.or_else(|| dynamic.newest_version(file))
}

/// The needed parts of the dynamic section.
struct Dynamic {
    segments: [(u64, u64, u64); MAX_SEGMENTS as usize],
    strings: u64,
    soname: Option<u64>,
    versions: Option<u64>,
}

impl Dynamic {
    fn read(file: &impl Source) -> Option<Dynamic> {
        let header: [u8; 64] = read(file, 0)?;
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let (table, size, count) = (word(&header, 32), half(&header, 54), half(&header, 56));
        if size != 56 || count > MAX_SEGMENTS {
            return None;
        }
        let mut found = Dynamic { segments: [(0, 0, 0); 64], strings: 0, soname: None, versions: None };
        let mut section = None;
        for index in 0..count {
            let segment: [u8; 56] = read(file, table.checked_add(index * size)?)?;
            let (offset, address, bytes) = (word(&segment, 8), word(&segment, 16), word(&segment, 32));
            match u32::from_le_bytes([segment[0], segment[1], segment[2], segment[3]]) {
                PT_LOAD => *found.segments.get_mut(index as usize)? = (address, bytes, offset),
                PT_DYNAMIC => section = Some((offset, bytes / 16)),
                _ => {}
            }
        }
        let (offset, entries) = section?;
        for index in 0..entries.min(MAX_DYNAMIC) {
            let entry: [u8; 16] = read(file, offset.checked_add(index * 16)?)?;
            let value = word(&entry, 8);
            match word(&entry, 0) {
                DT_NULL => break,
                DT_STRTAB => found.strings = value,
                DT_SONAME => found.soname = Some(value),
                DT_VERDEF => found.versions = Some(value),
                _ => {}
            }
        }
        Some(found)
    }

    /// Returns the file offset of a virtual address.
    fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, bytes, offset)| {
            let inside = address.checked_sub(*start).filter(|inside| inside < bytes)?;
            offset.checked_add(inside)
        })
    }

    /// Reads a string of at most `NAME_BYTES`, including its NUL.
    fn string(&self, file: &impl Source, at: u64) -> Option<Text> {
        let mut bytes = [0; NAME_BYTES];
        let read = file.read_at(self.offset(self.strings.checked_add(at)?)?, &mut bytes);
        let length = bytes.iter().take(read).position(|byte| *byte == 0)?;
        Some(Text { bytes, length })
    }

    /// Returns the largest N of the version nodes `hip_N.M` that the library defines.
    fn newest_version(&self, file: &impl Source) -> Option<u32> {
        let mut at = self.offset(self.versions?)?;
        let mut newest = None;
        for _ in 0..MAX_VERSIONS {
            let definition: [u8; 20] = read(file, at)?;
            let name: [u8; 8] = read(file, at.checked_add(long(&definition, 12))?)?;
            let node = self.string(file, long(&name, 0))?;
            if let Some(version) = node.strip_prefix(b"hip_").and_then(name::number) {
                newest = newest.max(Some(version));
            }
            match long(&definition, 16) {
                0 => break,
                next => at = at.checked_add(next)?,
            }
        }
        newest
    }
}

/// A short string from a file.
struct Text {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl core::ops::Deref for Text {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

fn read<const N: usize>(file: &impl Source, offset: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (file.read_at(offset, &mut bytes) == N).then_some(bytes)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let value = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(value.unwrap_or_default())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let value = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u64::from(u32::from_le_bytes(value.unwrap_or_default()))
}

fn half(bytes: &[u8], at: usize) -> u64 {
    let value = bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    u64::from(u16::from_le_bytes(value.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Source for &[u8] {
        fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
            let rest = self.get(offset as usize..).unwrap_or_default();
            let bytes = rest.len().min(into.len());
            into[..bytes].copy_from_slice(&rest[..bytes]);
            bytes
        }
    }

    /// Builds a library with one segment, a DT_SONAME and version nodes.
    fn library(soname: &str, nodes: &[&str]) -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut add = |text: &str| {
            let at = strings.len() as u32;
            strings.extend(text.as_bytes());
            strings.push(0);
            at
        };
        let soname = add(soname);
        let nodes: Vec<u32> = nodes.iter().map(|node| add(node)).collect();
        let (dynamic, base) = (64 + 2 * 56u64, 0x1000u64);
        let versions = dynamic + 4 * 16;
        let string_table = versions + nodes.len() as u64 * 28;
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(64, 0);
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&2u16.to_le_bytes());
        let bytes = string_table + strings.len() as u64;
        for (kind, offset, size) in [(PT_LOAD, 0, bytes), (PT_DYNAMIC, dynamic, 64)] {
            file.extend(u64::from(kind).to_le_bytes());
            for word in [offset, offset + base, 0, size, size, 0] {
                file.extend(word.to_le_bytes());
            }
        }
        for (tag, value) in [
            (DT_STRTAB, string_table + base),
            (DT_SONAME, u64::from(soname)),
            (if nodes.is_empty() { 1 } else { DT_VERDEF }, versions + base),
            (DT_NULL, 0),
        ] {
            file.extend(tag.to_le_bytes());
            file.extend(value.to_le_bytes());
        }
        for (index, node) in nodes.iter().enumerate() {
            file.extend([0; 12]);
            file.extend(20u32.to_le_bytes());
            let next = if index + 1 == nodes.len() { 0u32 } else { 28 };
            file.extend(next.to_le_bytes());
            file.extend(node.to_le_bytes());
            file.extend([0; 4]);
        }
        file.extend(strings);
        file
    }

    fn of(file: &[u8]) -> Option<u32> {
        generation(&file)
    }

    #[test]
    fn the_soname_decides_and_else_the_newest_version_node() {
        assert_eq!(of(&library("libamdhip64.so.5", &["hip_4.2"])), Some(5));
        assert_eq!(of(&library("libamdhip64.so", &["hip_4.2", "hip_7.1", "hip_6.0"])), Some(7));
        assert_eq!(of(&library("libamdhip64.so", &[])), None);
    }

    #[test]
    fn a_damaged_file_has_no_generation_and_stops_nobody() {
        let whole = library("libamdhip64.so", &["hip_4.2", "hip_6.0"]);
        for length in 0..whole.len() {
            of(&whole[..length]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                of(&damaged);
            }
        }
        assert_eq!(of(b"#!/bin/sh"), None);
    }
}
