//! Fat binaries for one architecture: the code objects of the others are overwritten by zeros, which take no space in a sparse,
//! compressed file. Nothing moves, so the program runs as before.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
/// Of a compressed bundle.
const COMPRESSED: &[u8] = b"CCOB";
/// Bundles begin at multiples of this in a program's section, so that text with the magic is none.
const ALIGNMENT: usize = 4096;

/// Copies a program or library with the code objects of one architecture only. Returns the bytes of the others.
pub fn copy_for(architecture: &str, from: &Path, to: &Path) -> Result<u64> {
    let mut bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let erased = erase_others(&mut bytes, architecture)
        .with_context(|| format!("{} has a damaged bundle of code objects", from.display()))?;
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let permissions = fs::metadata(from)?.permissions();
    write_sparse(to, &bytes).with_context(|| format!("cannot write {}", to.display()))?;
    fs::set_permissions(to, permissions).with_context(|| format!("cannot change {}", to.display()))?;
    Ok(erased)
}

/// Overwrites the code objects of other architectures, in all bundles. Returns how many bytes that were.
fn erase_others(bytes: &mut [u8], architecture: &str) -> Result<u64> {
    let mut erased = 0;
    let mut start = 0;
    while start + MAGIC.len() < bytes.len() {
        if bytes[start..].starts_with(COMPRESSED) && looks_compressed(&bytes[start..]) {
            bail!("it is compressed, which is not supported here");
        }
        if bytes[start..].starts_with(MAGIC) {
            for (offset, size, target) in entries(&bytes[start..]).context("an entry is outside the file")? {
                if target.starts_with("host") || target.split(['-', ':']).any(|word| word == architecture) {
                    continue;
                }
                let range = start + offset..start + offset + size;
                bytes.get_mut(range).context("a code object is outside the file")?.fill(0);
                erased += size as u64;
            }
        }
        start += ALIGNMENT;
    }
    Ok(erased)
}

/// A version of the format, after the magic, that exists.
fn looks_compressed(bytes: &[u8]) -> bool {
    matches!(bytes.get(4..6), Some([1..=3, 0]))
}

/// Offset, size and target of every code object of a bundle.
fn entries(bundle: &[u8]) -> Option<Vec<(usize, usize, String)>> {
    let number = |at: usize| -> Option<usize> {
        let field = bundle.get(at..at.checked_add(8)?)?;
        usize::try_from(u64::from_le_bytes(field.try_into().ok()?)).ok()
    };
    let count = number(MAGIC.len())?;
    let mut at = MAGIC.len() + 8;
    let mut found = Vec::new();
    for _ in 0..count {
        let (offset, size, length) = (number(at)?, number(at + 8)?, number(at + 16)?);
        at += 24;
        let target = bundle.get(at..at.checked_add(length)?)?;
        found.push((offset, size, String::from_utf8_lossy(target).into_owned()));
        at += length;
    }
    Some(found)
}

/// Writes a file without its blocks of zeros.
fn write_sparse(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let file = fs::File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    let mut at = 0;
    for block in bytes.chunks(ALIGNMENT) {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, at)?;
        }
        at += block.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a bundle of three code objects of 16 bytes each, after one block of something else.
    fn program() -> Vec<u8> {
        let mut bundle = MAGIC.to_vec();
        let targets = [
            "host-x86_64-unknown-linux--",
            "hipv4-amdgcn-amd-amdhsa--gfx908",
            "hipv4-amdgcn-amd-amdhsa--gfx90a",
        ];
        bundle.extend((targets.len() as u64).to_le_bytes());
        for (index, target) in targets.iter().enumerate() {
            bundle.extend((1024 + 16 * index as u64).to_le_bytes());
            bundle.extend(16u64.to_le_bytes());
            bundle.extend((target.len() as u64).to_le_bytes());
            bundle.extend(target.as_bytes());
        }
        bundle.resize(1024, 0);
        bundle.extend([1; 16]);
        bundle.extend([2; 16]);
        bundle.extend([3; 16]);
        let mut file = vec![7; ALIGNMENT];
        file.extend(bundle);
        file
    }

    #[test]
    fn only_the_code_objects_of_other_architectures_are_erased() {
        let before = program();
        let mut after = before.clone();
        assert_eq!(erase_others(&mut after, "gfx90a").unwrap(), 16);
        let second = ALIGNMENT + 1024 + 16;
        assert_eq!(after[second..second + 16], [0; 16]);
        assert_eq!(after[..second], before[..second]);
        assert_eq!(after[second + 16..], before[second + 16..]);
    }

    #[test]
    fn a_bundle_that_leads_outside_the_file_is_an_error() {
        let mut bytes = program();
        bytes.truncate(ALIGNMENT + 1024 + 20);
        assert!(erase_others(&mut bytes, "gfx90a").is_err());
    }

    #[test]
    fn a_sparse_copy_has_the_same_bytes() {
        let folder = std::env::temp_dir().join(format!("xtask-fat-binary-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut bytes = program();
        bytes.extend(vec![0; 3 * ALIGNMENT]);
        bytes.push(9);
        fs::write(folder.join("a"), &bytes).unwrap();
        copy_for("gfx90a", &folder.join("a"), &folder.join("b")).unwrap();
        erase_others(&mut bytes, "gfx90a").unwrap();
        assert_eq!(fs::read(folder.join("b")).unwrap(), bytes);
        fs::remove_dir_all(&folder).unwrap();
    }
}
