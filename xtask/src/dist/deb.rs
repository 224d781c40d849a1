//! A Debian package, made by dpkg-deb from a staged tree.

use super::Parts;
use super::copyright;
use super::stage::{FILE, PROGRAM, Stage};
use super::sums;
use crate::step;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const MAINTAINER: &str = "Remora developers <remora@users.noreply.github.com>";

/// The fields of a package; the tree has its files.
#[derive(Debug, Clone, Default)]
pub struct Deb {
    pub name: &'static str,
    /// `amd64`, or `all` for packages without programs.
    pub architecture: &'static str,
    pub section: &'static str,
    pub summary: &'static str,
    /// Lines of the long description.
    pub description: &'static [&'static str],
    /// Further fields, such as `Depends`; empty ones are left out.
    pub fields: Vec<(&'static str, String)>,
    /// Files that the user may change.
    pub configuration: &'static [&'static str],
    /// Maintainer scripts: name, text after the first lines.
    pub scripts: Vec<(&'static str, String)>,
}

impl Deb {
    /// Adds the package's own files to the tree and builds the package; returns its path.
    pub fn build(&self, parts: &Parts<'_>, stage: &Stage, into: &Path) -> Result<PathBuf> {
        let release = &parts.release;
        let docs = format!("usr/share/doc/{}", self.name);
        stage.bytes(
            &format!("{docs}/copyright"),
            copyright::debian(parts.repo, release)?.as_bytes(),
            FILE,
        )?;
        let changelog = copyright::changelog(release, self.name, MAINTAINER)?;
        stage.compressed(&format!("{docs}/changelog.gz"), changelog.as_bytes())?;
        let size = installed_size(&stage.root)?;
        let md5sums = md5sums(&stage.root)?;
        stage.bytes("DEBIAN/control", self.control(release.version, size).as_bytes(), FILE)?;
        stage.bytes("DEBIAN/md5sums", md5sums.as_bytes(), FILE)?;
        if !self.configuration.is_empty() {
            let list: String = self.configuration.iter().map(|path| format!("{path}\n")).collect();
            stage.bytes("DEBIAN/conffiles", list.as_bytes(), FILE)?;
        }
        for (name, text) in &self.scripts {
            let script = format!("#!/bin/sh\nset -e\n{}\nexit 0\n", text.trim());
            stage.bytes(&format!("DEBIAN/{name}"), script.as_bytes(), PROGRAM)?;
        }
        let path = into.join(format!("{}_{}_{}.deb", self.name, release.version, self.architecture));
        let mut dpkg = Command::new("dpkg-deb");
        // One thread: the division into blocks for several would depend on the machine.
        dpkg.args(["--build", "--root-owner-group", "-Zxz", "--threads-max=1"]).arg(&stage.root).arg(&path);
        dpkg.env("SOURCE_DATE_EPOCH", release.time.to_string());
        step::output(&mut dpkg).context("cannot build a Debian package; dpkg-deb is in Debian's dpkg")?;
        Ok(path)
    }

    fn control(&self, version: &str, size: u64) -> String {
        let mut text = format!(
            "Package: {}\nVersion: {version}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\n",
            self.name, self.architecture
        );
        for (name, value) in self.fields.iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(&format!("{name}: {value}\n"));
        }
        text.push_str(&format!(
            "Section: {}\nPriority: optional\nDescription: {}\n",
            self.section, self.summary
        ));
        text.extend(
            self.description
                .iter()
                .map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }),
        );
        text
    }
}

/// The size in KiB as Debian's policy counts it: files rounded up, one for everything else.
fn installed_size(root: &Path) -> Result<u64> {
    let (mut size, mut open) = (0, vec![root.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let data = entry.metadata()?;
            size += if data.is_file() { data.size().div_ceil(1024) } else { 1 };
            if data.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(size)
}

/// The checksums with which `dpkg --verify` checks an installed package.
fn md5sums(root: &Path) -> Result<String> {
    let files = sums::files(root)?;
    let regular = files.iter().filter(|path| !path.is_symlink());
    let names: Vec<&Path> =
        regular.map(|path| path.strip_prefix(root).unwrap_or(path)).filter(|path| is_data(path)).collect();
    step::output(Command::new("md5sum").current_dir(root).args(names))
}

/// Whether dpkg lists a file's checksum: not that of a configuration file, which may change.
fn is_data(path: &Path) -> bool {
    !path.starts_with("etc") && !path.starts_with("DEBIAN")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_file_has_its_fields_in_order_and_no_empty_ones() {
        let deb = Deb {
            name: "remora",
            architecture: "amd64",
            section: "science",
            summary: "runs HIP programs",
            description: &["First.", "", "Second."],
            fields: vec![("Depends", "libc6 (>= 2.34)".to_owned()), ("Suggests", String::new())],
            ..Deb::default()
        };
        let text = deb.control("0.1.0", 12);
        assert!(text.starts_with("Package: remora\nVersion: 0.1.0\nArchitecture: amd64\n"), "{text}");
        assert!(text.contains("\nDepends: libc6 (>= 2.34)\nSection: science\n"), "{text}");
        assert!(text.ends_with("Description: runs HIP programs\n First.\n .\n Second.\n"), "{text}");
    }
}
