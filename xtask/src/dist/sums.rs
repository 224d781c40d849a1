//! The checksums of the packages.

use crate::stamp::file_hash;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const NAME: &str = "SHA256SUMS";

/// Writes the checksums of every file below a folder, in the format of sha256sum.
pub fn write(folder: &Path) -> Result<()> {
    let path = folder.join(NAME);
    fs::write(&path, text(folder)?).with_context(|| format!("cannot write {}", path.display()))
}

/// The checksums of every file below a folder.
pub fn text(folder: &Path) -> Result<String> {
    let mut text = String::new();
    for file in files(folder)? {
        let name = file.strip_prefix(folder).unwrap_or(&file);
        text.push_str(&format!("{}  {}\n", file_hash(&file)?, name.display()));
    }
    Ok(text)
}

/// Every file below a folder but the checksums, in order.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            match path.is_dir() {
                true => open.push(path),
                false if path.file_name().is_some_and(|name| name == NAME) => {}
                false => found.push(path),
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_the_format_of_sha256sum_and_leave_themselves_out() {
        let folder = std::env::temp_dir().join(format!("xtask-sums-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("a/empty"), "").unwrap();
        write(&folder).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fs::read_to_string(folder.join(NAME)).unwrap(), format!("{empty}  a/empty\n"));
        assert_eq!(text(&folder).unwrap(), format!("{empty}  a/empty\n"));
        fs::remove_dir_all(folder).unwrap();
    }
}
