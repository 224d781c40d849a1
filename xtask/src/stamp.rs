//! Up-to-date checks: records which inputs an output was made from.

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// A hash over inputs. Lengths are hashed too, so that adjacent inputs cannot be confused.
#[derive(Debug, Default)]
pub struct Inputs(Sha256);

impl Inputs {
    pub fn new() -> Inputs {
        Inputs::default()
    }

    pub fn text(self, text: &str) -> Inputs {
        self.bytes(text.as_bytes())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Inputs {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub fn file(self, path: &Path) -> Result<Inputs> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(self.bytes(&bytes))
    }

    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The SHA-256 of a file, in hexadecimal.
pub fn file_hash(path: &Path) -> Result<String> {
    let mut file = fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut hash = Sha256::new();
    std::io::copy(&mut file, &mut hash).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Inputs(hash).finish())
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    Inputs(Sha256::new().chain_update(bytes)).finish()
}

/// A file with the hash of the inputs that its neighbours were made from.
#[derive(Debug)]
pub struct Stamp {
    path: PathBuf,
    hash: String,
}

impl Stamp {
    pub fn new(path: PathBuf, inputs: Inputs) -> Stamp {
        Stamp { path, hash: inputs.finish() }
    }

    pub fn is_fresh(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|found| found.trim() == self.hash)
    }

    pub fn write(&self) -> Result<()> {
        fs::write(&self.path, &self.hash).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_inputs_do_not_run_into_each_other() {
        let one = Inputs::new().text("ab").text("c").finish();
        let two = Inputs::new().text("a").text("bc").finish();
        assert_ne!(one, two);
    }

    #[test]
    fn a_stamp_is_fresh_only_for_the_inputs_it_was_written_for() {
        let path = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        let stamp = Stamp::new(path.clone(), Inputs::new().text("one"));
        assert!(!stamp.is_fresh());
        stamp.write().unwrap();
        assert!(stamp.is_fresh());
        assert!(!Stamp::new(path.clone(), Inputs::new().text("two")).is_fresh());
        fs::remove_file(path).unwrap();
    }
}
