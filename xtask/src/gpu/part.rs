//! Optional parts of a bundle: one compressed file each, because they are large and not every run needs them. The file belongs into
//! the folder `parts` of the bundle; it is unpacked there before the first run.

use crate::stamp::{Inputs, Stamp};
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

/// The largest file that is still quick to copy.
const MAX_BYTES: u64 = 60 << 20;

/// Python's decompressor, for machines without xz.
const PYTHON: &str =
    "import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer, 1 << 20)";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// clang with HIP's headers and device libraries, for run-time compilation
    Compiler,
    /// Triton's kernels, compiled here
    Triton,
    /// A selection of rocRAND's test programs
    Rocrand,
    /// A selection of rocPRIM's test programs
    Rocprim,
    /// pyflame and its training steps, to be compared with PyTorch's
    Pyflame,
    /// The board's judge: its tests, solutions and exploits
    Judge,
}

impl Part {
    pub const ALL: [Part; 6] =
        [Part::Compiler, Part::Triton, Part::Rocrand, Part::Rocprim, Part::Pyflame, Part::Judge];

    pub fn name(self) -> &'static str {
        match self {
            Part::Compiler => "compiler",
            Part::Triton => "triton",
            Part::Rocrand => "rocrand",
            Part::Rocprim => "rocprim",
            Part::Pyflame => "pyflame",
            Part::Judge => "judge",
        }
    }

    /// The folder of a bundle that it is unpacked to.
    pub fn folder(self, bundle: &Path) -> PathBuf {
        bundle.join(match self {
            // `remora worker` searches this folder next to itself.
            Part::Compiler => "toolchain",
            other => other.name(),
        })
    }
}

/// Compresses a folder to `parts/NAME.tar.xz` below `base`.
pub fn pack(part: Part, folder: &Path, base: &Path) -> Result<PathBuf> {
    let archive = archive(part, base);
    let parts = archive.parent().unwrap_or(base);
    fs::create_dir_all(parts).with_context(|| format!("cannot create {}", parts.display()))?;
    step::progress(&format!("compressing {} ...", folder.display()));
    let mut tar = Command::new("tar");
    // Sparse: test programs are mostly holes, see `fat_binary`.
    tar.args(["--create", "--sort=name", "--sparse", "--owner=0", "--group=0", "-C"]).arg(folder).arg(".");
    let mut tar = tar.stdout(Stdio::piped()).spawn().context("cannot start tar")?;
    let stream = tar.stdout.take().context("tar has no standard output")?;
    let mut xz = Command::new("xz");
    xz.args(["--threads=0", "--x86", "--lzma2=preset=3,dict=64MiB", "--stdout"]);
    let file = File::create(&archive).with_context(|| format!("cannot write {}", archive.display()))?;
    let compressed = xz.stdin(stream).stdout(file).status().context("cannot start xz")?;
    let read = tar.wait()?;
    if !compressed.success() || !read.success() {
        bail!("{} cannot be compressed (tar: {read}, xz: {compressed})", folder.display());
    }
    let bytes = fs::metadata(&archive)?.len();
    let size = bytes as f64 / f64::from(1 << 20);
    if bytes > MAX_BYTES {
        bail!("{} has {size:.1} MiB, more than {} MiB", archive.display(), MAX_BYTES >> 20);
    }
    step::progress(&format!(
        "{}: {size:.1} MiB; copy it to the folder `parts` of the bundle",
        archive.display()
    ));
    Ok(archive)
}

/// Unpacks every part whose file is in a bundle, unless it was unpacked before.
pub fn unpack_all(bundle: &Path) -> Result<()> {
    for part in Part::ALL {
        let archive = archive(part, bundle);
        let Ok(metadata) = fs::metadata(&archive) else { continue };
        let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let inputs = Inputs::new().text(&metadata.len().to_string()).text(&format!("{changed:?}"));
        let folder = part.folder(bundle);
        let stamp = Stamp::new(folder.join(".unpacked"), inputs);
        if stamp.is_fresh() {
            continue;
        }
        step::heading(&format!("unpacking {}", archive.display()));
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        unpack(&archive, &folder)?;
        stamp.write()?;
    }
    Ok(())
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut xz = Command::new("xz");
    xz.args(["--decompress", "--stdout"]).arg(archive);
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]).arg(archive);
    let mut reader = match xz.stdout(Stdio::piped()).spawn() {
        Ok(reader) => reader,
        Err(_) => python.stdout(Stdio::piped()).spawn().context("neither xz nor python3 can be started")?,
    };
    let stream = reader.stdout.take().context("the decompressor has no standard output")?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--no-same-owner", "-C"]).arg(folder);
    let unpacked = tar.stdin(stream).status().context("cannot start tar")?;
    let read = reader.wait()?;
    if !unpacked.success() || !read.success() {
        bail!("{} cannot be unpacked (decompressor: {read}, tar: {unpacked})", archive.display());
    }
    Ok(())
}

fn archive(part: Part, base: &Path) -> PathBuf {
    base.join("parts").join(format!("{}.tar.xz", part.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_unpacked_once_and_again_when_its_file_changes() {
        let base = std::env::temp_dir().join(format!("xtask-part-{}", std::process::id()));
        let source = base.join("source");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("file"), "one").unwrap();
        pack(Part::Triton, &source, &base).unwrap();
        unpack_all(&base).unwrap();
        let place = Part::Triton.folder(&base).join("file");
        assert_eq!(fs::read_to_string(&place).unwrap(), "one");
        fs::write(&place, "changed").unwrap();
        unpack_all(&base).unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "changed");
        fs::write(source.join("file"), "two and more").unwrap();
        pack(Part::Triton, &source, &base).unwrap();
        unpack_all(&base).unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "two and more");
        fs::remove_dir_all(&base).unwrap();
    }
}
