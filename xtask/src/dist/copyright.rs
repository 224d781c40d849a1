//! The licence files of packages: our own, and those of the code that is compiled in.

use super::crates::Shipped;
use super::release::Release;
use crate::repo::Repo;
use crate::stamp::Inputs;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Debian's copyright file.
pub fn debian(repo: &Repo, release: &Release) -> Result<String> {
    let path = repo.root.join("LICENSE-MIT");
    let mit = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let holder =
        mit.lines().find_map(|line| line.strip_prefix("Copyright (c) ")).unwrap_or("the Remora authors");
    let year = release.year()?;
    let body: String = mit.lines().skip_while(|line| !line.starts_with("Permission")).map(indent).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: remora
Comment: The licences of the libraries that are compiled into the programs are in THIRD-PARTY.gz.

Files: *
Copyright: {year} {holder}
License: MIT or Apache-2.0

License: MIT
{body}
License: Apache-2.0
 On Debian systems, the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
"
    ))
}

fn indent(line: &str) -> String {
    if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }
}

/// Debian's changelog: one entry that points to ours.
pub fn changelog(release: &Release, package: &str, maintainer: &str) -> Result<String> {
    Ok(format!(
        "{package} ({}) unstable; urgency=medium\n\n  * Changes of this version: CHANGELOG.md of the repository.\n\n -- {maintainer}  {}\n",
        release.version,
        release.mail_date()?
    ))
}

/// The licence texts of all third-party code. Equal texts are printed once, after the list of crates that have them.
pub fn third_party(shipped: &Shipped) -> Result<String> {
    let mut texts: BTreeMap<String, (Vec<String>, String)> = BTreeMap::new();
    let mut list = String::new();
    for it in &shipped.components {
        let name = format!("{} {}", it.name, it.version);
        list.push_str(&format!("{name}: {}\n", it.licence.as_deref().unwrap_or("see its text below")));
        for text in it.folder.iter().map(|folder| licence_texts(folder)).collect::<Result<Vec<_>>>()?.concat()
        {
            let (names, _) = texts
                .entry(Inputs::new().text(&text).finish())
                .or_insert_with(|| (Vec::new(), text.trim_end().to_owned()));
            if !names.contains(&name) {
                names.push(name.clone());
            }
        }
    }
    let line = "-".repeat(80);
    // In the order of the first crate that has a text, not of hashes.
    let mut texts: Vec<_> = texts.into_values().collect();
    texts.sort();
    let texts: String = texts
        .iter()
        .map(|(names, text)| format!("\n{line}\n{}\n{line}\n\n{text}\n", names.join(", ")))
        .collect();
    Ok(format!("Third-party code in Remora, with its licences\n\n{list}{texts}"))
}

/// The licence files in a crate's folder.
fn licence_texts(folder: &Path) -> Result<Vec<String>> {
    const NAMES: &[&str] = &["license", "licence", "copying", "copyright", "notice", "unlicense"];
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    paths.iter().map(|path| read(path).with_context(|| format!("cannot read {}", path.display()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::crates::{Component, Registry};

    #[test]
    fn equal_texts_are_printed_once() {
        let folder = std::env::temp_dir().join(format!("xtask-licences-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("LICENSE-MIT"), "Permission is granted.\n").unwrap();
        let one = |name: &str| Component {
            kind: Registry::Cargo,
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT".to_owned()),
            sha256: None,
            folder: Some(folder.clone()),
            uses: Vec::new(),
        };
        let text = third_party(&Shipped { components: vec![one("a"), one("b")] }).unwrap();
        assert_eq!(text.matches("Permission is granted.").count(), 1);
        assert!(text.contains("\na 1.0.0, b 1.0.0\n"), "{text}");
        fs::remove_dir_all(folder).unwrap();
    }
}
