//! Hashes the translator's sources: cached programs of another version are not used.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose files determine what a translation is.
const FOLDERS: &[&str] = &["../../amdgpu/lift/src", "../../amdgpu/ptx/src", "../../amdgpu/isa/src"];

fn main() {
    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo::rerun-if-changed={folder}");
        collect(Path::new(folder), &mut files);
    }
    files.sort();
    // FNV-1a: not a secret, and short enough to write down here.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in files.iter().filter_map(|file| fs::read(file).ok()).flatten() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    println!("cargo::rustc-env=TRANSLATOR_VERSION={hash:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
