//! `cargo xtask dist`: builds the packages of a release into `target/dist`, with checksums and a bill of materials.
//!
//! The packages contain no time but that of the commit, no user of this machine and no order of a folder: from the same programs,
//! two runs give the same bytes.

mod archive;
mod chart;
mod contents;
mod copyright;
mod crates;
mod deb;
mod debs;
mod elf;
mod image;
mod pages;
mod portable;
mod release;
mod sbom;
mod scripts;
mod stage;
mod sums;
mod tarball;
mod tools;
mod wheel;
mod windows;

use crate::foreign;
use crate::lock::Lock;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use crates::Shipped;
use portable::Portable;
use release::Release;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Only packages of this kind; repeatable
    #[arg(long, value_enum, value_name = "KIND")]
    only: Vec<Kind>,
    /// Package the programs that are in target/portable, without building them
    #[arg(long)]
    built: bool,
}

/// The kinds of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Debian packages
    Deb,
    /// A tarball to unpack anywhere
    Tarball,
    /// Wheels of remora and pyflame
    Wheel,
    /// OCI images (needs root)
    Image,
    /// The Helm chart
    Chart,
    /// A zip archive of the client for Windows
    Windows,
}

/// What the packages are made from.
#[derive(Debug)]
struct Parts<'a> {
    repo: &'a Repo,
    release: Release,
    portable: Portable,
    shipped: Shipped,
    /// The folder for trees in the making.
    work: PathBuf,
}

/// Builds the packages; returns their folder.
pub fn run(repo: &Repo, arguments: &Arguments) -> Result<PathBuf> {
    let release = Release::find(repo)?;
    let portable = match arguments.built {
        true => portable::collect(repo)?,
        false => portable::build(repo, release.zip_time())?,
    };
    step::heading("packages");
    let folder = folder(repo);
    let _lock = Lock::take(&repo.target.join("dist.lock"))?;
    let work = repo.target.join("dist-work");
    for folder in [&folder, &work] {
        foreign::remove(folder)?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let parts = Parts { repo, release, portable, shipped: Shipped::read(repo)?, work };
    let wanted = |kind| arguments.only.is_empty() || arguments.only.contains(&kind);
    if wanted(Kind::Deb) {
        debs::build(&parts, &folder)?;
    }
    if wanted(Kind::Tarball) {
        tarball::build(&parts, &folder)?;
    }
    if wanted(Kind::Wheel) {
        wheel::build(&parts, &folder)?;
        wheel::add_pyflame(&parts, &folder)?;
    }
    if wanted(Kind::Image) {
        image::build(&parts, &folder)?;
    }
    if wanted(Kind::Chart) {
        chart::build(&parts, &folder)?;
    }
    if wanted(Kind::Windows) {
        windows::build(&parts, &folder, arguments.built)?;
    }
    sbom::write(&parts, &folder)?;
    foreign::remove(&parts.work)?;
    sums::write(&folder)?;
    report(&folder)?;
    Ok(folder)
}

/// The folder of the packages.
pub fn folder(repo: &Repo) -> PathBuf {
    repo.target.join("dist")
}

/// The checksums of the packages in a folder, one per line.
pub fn sums(folder: &Path) -> Result<String> {
    sums::text(folder)
}

/// The Debian packages in a folder, without debug information.
pub fn debs(folder: &Path) -> Result<Vec<PathBuf>> {
    debs::installable(folder)
}

/// The name of the Debian package of the kernel compiler.
pub const COMPILER: &str = debs::COMPILER;

/// The name of a Debian package, from its file.
pub fn deb_name(path: &Path) -> Result<String> {
    debs::name_of(path)
}

/// The only package in a folder whose file name ends like this.
pub fn only(folder: &Path, end: &str) -> Result<PathBuf> {
    one(folder, end, |name| name.ends_with(end))
}

/// The wheel of a Python package.
pub fn wheel(folder: &Path, package: &str) -> Result<PathBuf> {
    one(folder, package, |name| name.starts_with(&format!("{package}-")) && name.ends_with(".whl"))
}

/// The archive of an image.
pub fn image(folder: &Path, image: &str) -> Result<PathBuf> {
    // The version follows, not the rest of a longer name.
    let is_version = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    one(folder, image, |name| {
        name.strip_prefix(&format!("{image}-")).is_some_and(is_version) && name.ends_with(".oci.tar")
    })
}

fn one(folder: &Path, what: &str, is_it: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let mut found = sums::files(folder)?;
    found.retain(|path| path.file_name().is_some_and(|name| is_it(&name.to_string_lossy())));
    match found.len() {
        1 => Ok(found.remove(0)),
        count => bail!("{} has {count} packages for {what}, not one", folder.display()),
    }
}

/// Prints the names and sizes of the packages.
fn report(folder: &Path) -> Result<()> {
    for path in sums::files(folder)? {
        let size = fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?.len();
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        step::progress(&format!("{name}: {:.2} MB", size as f64 / 1e6));
    }
    step::progress(&format!("packages: {}", folder.display()));
    Ok(())
}
