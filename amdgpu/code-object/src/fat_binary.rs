//! Fat binaries: all device images in a file section or memory block, in any kind of container.
//!
//! Copies the entries, so the input can be freed. Does not look inside the images, except for the header that contains a raw code
//! object's target.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::bundle::{parse_bundle, slice_reader};
use crate::compressed::Header;
use crate::{Error, Feature, TargetId, bundle, compressed, elf, extent, limits};

/// Contents of a fat binary: a raw code object, or a sequence of bundles, compressed or not.
#[derive(Debug, Clone, Default)]
pub struct FatBinary {
    entries: Vec<Entry>,
}

/// One image of a fat binary.
#[derive(Clone)]
pub struct Entry {
    /// Target of the image; `None` if it is not for an AMD GPU (the host entry, SPIR-V).
    pub target: Option<TargetId>,
    /// Entry ID in the bundle, or the ISA name of a raw code object.
    pub id: String,
    /// The image.
    pub image: Arc<[u8]>,
}

impl FatBinary {
    /// Reads every container in `bytes`. The first one must start at the first byte. Data between and after containers (padding)
    /// is skipped.
    pub fn parse(bytes: &[u8]) -> Result<FatBinary, Error> {
        let mut binary = FatBinary::default();
        let mut budget = limits::EXPANDED_BYTES;
        for container in Containers::new(bytes) {
            binary.add(container?, &mut budget)?;
            if binary.entries.len() > limits::FAT_BINARY_ENTRIES {
                return Err(Error::TooLarge {
                    what: "fat binary entry count",
                    value: binary.entries.len() as u64,
                    limit: limits::FAT_BINARY_ENTRIES as u64,
                });
            }
        }
        Ok(binary)
    }

    /// All images, in file order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Selects the image to load on a device: the most specific compatible one, the first if several are equal. If the device
    /// does not specify `xnack`, images built without it are preferred, since that is the usual mode.
    pub fn select(&self, isa: &TargetId) -> Option<&Entry> {
        let candidates = self.entries.iter().filter_map(|entry| Some((entry, entry.target.as_ref()?)));
        candidates
            .filter(|(_, target)| target.compatible(isa))
            .min_by_key(|(_, target)| (std::cmp::Reverse(target.specificity()), target.xnack == Feature::On))
            .map(|(entry, _)| entry)
    }

    fn add(&mut self, container: &[u8], budget: &mut u64) -> Result<(), Error> {
        if container.starts_with(&object::elf::ELFMAG) {
            let target = elf::target_of(container)?;
            take(budget, container.len() as u64)?;
            self.entries.push(Entry {
                id: target.isa_name(),
                target: Some(target),
                image: Arc::from(container),
            });
            Ok(())
        } else if container.starts_with(compressed::MAGIC) {
            let header = Header::read(slice_reader(container))?;
            let payload =
                container.get(header.payload..).ok_or(Error::Truncated { what: "compressed bundle" })?;
            // The size counts twice: once for the expanded bundle, once for its entries.
            take(budget, header.expanded)?;
            let plain = header.expand(payload)?;
            self.add_bundle(&plain, budget)
        } else {
            self.add_bundle(container, budget)
        }
    }

    fn add_bundle(&mut self, bytes: &[u8], budget: &mut u64) -> Result<(), Error> {
        // Entries may refer to the same bytes (they then share one copy), but must not overlap otherwise: a small file could
        // claim any amount of memory that way.
        let mut copies: HashMap<(usize, usize), Arc<[u8]>> = HashMap::new();
        let mut unclaimed = bytes.len();
        for entry in parse_bundle(bytes)? {
            let key = (entry.bytes.as_ptr() as usize, entry.bytes.len());
            let image = match copies.get(&key) {
                Some(image) => Arc::clone(image),
                None => {
                    unclaimed = unclaimed
                        .checked_sub(entry.bytes.len())
                        .ok_or(Error::Malformed { what: "bundle: entries overlap" })?;
                    take(budget, entry.bytes.len() as u64)?;
                    let image: Arc<[u8]> = Arc::from(entry.bytes);
                    copies.insert(key, Arc::clone(&image));
                    image
                }
            };
            self.entries.push(Entry {
                target: TargetId::from_bundle_id(entry.id),
                id: entry.id.to_owned(),
                image,
            });
        }
        Ok(())
    }
}

/// Omits the image's bytes.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entry = f.debug_struct("Entry");
        entry.field("target", &self.target).field("id", &self.id).field("bytes", &self.image.len());
        entry.finish_non_exhaustive()
    }
}

/// Iterator over the containers in a block of bytes.
pub(crate) struct Containers<'a> {
    rest: &'a [u8],
    first: bool,
}

impl<'a> Containers<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Containers<'a> {
        Containers { rest: bytes, first: true }
    }
}

impl<'a> Iterator for Containers<'a> {
    type Item = Result<&'a [u8], Error>;

    fn next(&mut self) -> Option<Result<&'a [u8], Error>> {
        if !self.first {
            let Some(start) = find_container(self.rest) else {
                self.rest = &[];
                return None;
            };
            self.rest = &self.rest[start..];
        }
        self.first = false;
        match extent::container_size(self.rest) {
            Ok(size) => {
                let (container, rest) = self.rest.split_at(size);
                self.rest = rest;
                Some(Ok(container))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

/// Finds the start of the next bundle. Raw code objects are not searched for, since they are never part of a sequence.
fn find_container(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        // Padding is zeros and may be long, so skip it 16 bytes at a time.
        while let Some(word) = bytes.get(at..at + 16)
            && word == [0; 16]
        {
            at += 16;
        }
        let rest = bytes.get(at..)?;
        if rest.starts_with(compressed::MAGIC) || rest.starts_with(bundle::MAGIC) {
            return Some(at);
        }
        if rest.is_empty() {
            return None;
        }
        at += 1;
    }
}

fn take(budget: &mut u64, amount: u64) -> Result<(), Error> {
    *budget = budget.checked_sub(amount).ok_or(Error::TooLarge {
        what: "fat binary",
        value: amount,
        limit: limits::EXPANDED_BYTES,
    })?;
    Ok(())
}
