//! Joins a chain of checkpoints into one snapshot.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;

use backend::Holding;

use super::chain::{read_manifest, record};
use crate::session::manifest::Manifest;
use crate::session::migrate_in::memory_parts;
use crate::session::snapshot::{Kind, Reader, SnapshotError, Writer};

/// A chain of checkpoints as one snapshot.
pub(super) struct Merged<'a> {
    files: &'a [PathBuf],
    manifest: Manifest,
    /// Code objects, in the order of the manifest.
    images: Vec<Vec<u8>>,
    /// The first file whose bytes count, by holding: earlier ones are of another holding at the same address.
    since: HashMap<Holding, (usize, u64)>,
}

impl Merged<'_> {
    /// Reads what the files contain. `None` if there are none.
    pub(super) fn open(files: &[PathBuf]) -> Result<Option<Merged<'_>>, SnapshotError> {
        let mut since: HashMap<Holding, (usize, u64)> = HashMap::new();
        let mut last = None;
        for (index, file) in files.iter().enumerate() {
            let manifest = read_manifest(file)?;
            let holdings = manifest.inventory.holdings();
            since = holdings
                .map(|(holding, bytes)| match since.get(&holding) {
                    Some((first, size)) if *size == bytes => (holding, (*first, bytes)),
                    _ => (holding, (index, bytes)),
                })
                .collect();
            last = Some(manifest);
        }
        let Some(manifest) = last else { return Ok(None) };
        let wanted = record(&manifest)?.images.clone();
        let needed: HashSet<[u8; 32]> = wanted.iter().copied().collect();
        let mut found: HashMap<[u8; 32], Vec<u8>> = HashMap::new();
        each_section(files, Extent::BeforeMemory, |_, kind, payload| {
            if kind == Kind::Image {
                let hash = *blake3::hash(&payload).as_bytes();
                if needed.contains(&hash) {
                    found.insert(hash, payload);
                }
            }
            Ok(())
        })?;
        let missing = || SnapshotError::damaged("a code object is missing");
        let images = wanted
            .iter()
            .map(|hash| found.get(hash).cloned().ok_or_else(missing))
            .collect::<Result<_, _>>()?;
        Ok(Some(Merged { files, manifest, images, since }))
    }

    /// Writes the snapshot.
    pub(super) fn write(&self, to: &mut dyn Write) -> Result<(), SnapshotError> {
        let mut out = Writer::new(to)?;
        out.section(Kind::Manifest, &self.manifest.to_json()?)?;
        for image in &self.images {
            out.section(Kind::Image, image)?;
        }
        let last = self.files.len() - 1;
        for wanted in [Kind::Graph, Kind::Frame] {
            let files = &self.files[last..];
            each_section(files, Extent::BeforeMemory, |_, kind, payload| match kind == wanted {
                true => out.section(kind, &payload),
                false => Ok(()),
            })?;
        }
        each_section(self.files, Extent::Whole, |index, kind, payload| {
            if kind != Kind::Memory {
                return Ok(());
            }
            let (holding, _, _) = memory_parts(&payload)?;
            match self.since.get(&holding) {
                // Not compressed: it goes to another process of this machine.
                Some((first, _)) if index >= *first => out.plain_section(Kind::Memory, &payload),
                _ => Ok(()),
            }
        })?;
        out.finish().map(drop)
    }
}

/// How far files are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Up to the first section with memory contents, which are last and by far the largest part.
    BeforeMemory,
}

/// Passes the sections of some files to `see`, with the index of the file.
fn each_section(
    files: &[PathBuf],
    extent: Extent,
    mut see: impl FnMut(usize, Kind, Vec<u8>) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    for (index, file) in files.iter().enumerate() {
        let mut reader = Reader::new(BufReader::with_capacity(1 << 20, File::open(file)?))?;
        loop {
            match reader.next()? {
                (Kind::End, _) => break,
                (Kind::Memory, _) if extent == Extent::BeforeMemory => break,
                (kind, payload) => see(index, kind, payload)?,
            }
        }
    }
    Ok(())
}
