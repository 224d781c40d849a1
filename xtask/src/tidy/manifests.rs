//! Checks of every crate's manifest and root file: the minimum Rust version and the documentation lint.

use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Inherits the minimum Rust version, which the root manifest states once.
const RUST_VERSION: &str = "rust-version.workspace = true";

/// Makes every public item without documentation a warning, which clippy denies.
const DOCUMENTATION: &str = "#![warn(missing_docs)]";

/// Libraries without Rust users: their public items are C or Python interfaces that are documented elsewhere, or test support.
const NO_RUST_USERS: &[&str] = &["hip-client", "loader-audit", "pyflame", "e2e"];

/// Checks the packages in the output of `cargo metadata`.
pub fn check(packages: &[Value]) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has no name")?;
        let manifest = read(package["manifest_path"].as_str().context("a package has no manifest")?)?;
        if !inherits_rust_version(&manifest) {
            complaints.push(format!("crate {name} does not have `{RUST_VERSION}` in its Cargo.toml"));
        }
        if let Some(root) = library_root(package)
            && !NO_RUST_USERS.contains(&name)
            && !is_documented(&read(root)?)
        {
            complaints.push(format!("library {name} does not have `{DOCUMENTATION}` in {root}"));
        }
    }
    Ok(complaints)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(Path::new(path)).with_context(|| format!("cannot read {path}"))
}

fn inherits_rust_version(manifest: &str) -> bool {
    manifest.lines().any(|line| line == RUST_VERSION)
}

fn is_documented(root: &str) -> bool {
    root.lines().any(|line| line == DOCUMENTATION)
}

/// The root file of the package's library target.
fn library_root(package: &Value) -> Option<&str> {
    let targets = package["targets"].as_array()?;
    let library = targets.iter().find(|target| {
        target["kind"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib" || kind == "rlib"))
    })?;
    library["src_path"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rust_version_of_its_own_is_not_an_inherited_one() {
        assert!(inherits_rust_version("[package]\nrust-version.workspace = true\n"));
        assert!(!inherits_rust_version("[package]\nrust-version = \"1.89\"\n"));
    }

    #[test]
    fn only_libraries_have_a_root_to_document() {
        let package =
            |kind: &str| serde_json::json!({ "targets": [{ "kind": [kind], "src_path": "src/lib.rs" }] });
        assert_eq!(library_root(&package("lib")), Some("src/lib.rs"));
        assert_eq!(library_root(&package("bin")), None);
        assert!(is_documented("//! Head.\n\n#![warn(missing_docs)]\n") && !is_documented("//! Head.\n"));
    }
}
