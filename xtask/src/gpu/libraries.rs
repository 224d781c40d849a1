//! The parts `rocrand` and `rocprim` of a bundle: the short selection of the libraries' own test programs, unmodified apart from
//! code objects of other architectures, with the libraries and the loader that they need.

use super::fat_binary;
use super::part::Part;
use crate::build::Built;
use crate::conformance::gtest::Limits;
use crate::conformance::library::Site;
use crate::conformance::tally::Tally;
use crate::conformance::userland::Userland;
use crate::conformance::{self, Selection};
use crate::demo::{self, Programs, Target};
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The architecture that Debian builds the libraries for.
const ARCHITECTURE: &str = "gfx90a";

/// Time limits on a GPU, where most of the time is the translation of a test's kernels.
const LIMITS: Limits = Limits { test: Duration::from_secs(40), program: Duration::from_secs(90) };

/// Collects a library's programs in a folder.
pub fn collect(repo: &Repo, part: Part, folder: &Path) -> Result<()> {
    let library = find(part)?;
    let userland = library.unpack(repo)?;
    let programs = library.short();
    let mut files: BTreeSet<String> = programs.iter().cloned().collect();
    for program in &programs {
        files.extend(userland.loaded_by(program)?);
    }
    let mut erased = 0;
    for file in &files {
        erased += fat_binary::copy_for(ARCHITECTURE, &userland.path(file), &folder.join(file))?;
    }
    step::progress(&format!("{} MiB of code for other architectures left out", erased >> 20));
    Ok(())
}

/// Runs a library's programs. Returns whether all tests passed or were known to fail.
pub fn run(
    bundle: &Path,
    programs: &Programs<'_>,
    targets: &[Target],
    part: Part,
    only: &str,
) -> Result<bool> {
    let folder = part.folder(bundle);
    if !folder.is_dir() {
        step::progress(&format!("left out: {}: the bundle has no such part", part.name()));
        return Ok(true);
    }
    let library = find(part)?;
    let target =
        targets.iter().find(|(architecture, ..)| *architecture == ARCHITECTURE).context("no such model")?;
    let worker = demo::worker(programs, target, &format!("{}-worker.log", part.name()))?;
    let built = Built { remora: programs.remora.to_owned(), lib: programs.lib.to_owned(), is_earlier: true };
    let userland = Userland::at(folder);
    let site =
        Site { userland: &userland, built: &built, worker: Some(worker.address()), logs: programs.logs };
    let mut tally = Tally::default();
    library.run_at(&site, &Selection::short(only), LIMITS, &mut tally)?;
    if tally.is_empty() {
        return Ok(true);
    }
    Ok(match tally.finish(library.known) {
        Ok(()) => true,
        Err(error) => {
            step::progress(&format!("{error:#}"));
            false
        }
    })
}

fn find(part: Part) -> Result<&'static conformance::library::Library> {
    conformance::library(part.name()).with_context(|| format!("{} is no library", part.name()))
}
