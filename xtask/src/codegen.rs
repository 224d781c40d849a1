//! `cargo xtask codegen`: generates the pages that are derived from the function table.

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;

/// A generated file, and its generator.
struct Page {
    path: &'static str,
    make: fn() -> String,
}

const PAGES: &[Page] = &[Page { path: "docs/hip-coverage.md", make: hip_api::meta::coverage_page }];

#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Change nothing; fail if a page is out of date
    #[arg(long)]
    pub check: bool,
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    for page in PAGES {
        let path = repo.root.join(page.path);
        let wanted = (page.make)();
        if fs::read_to_string(&path).is_ok_and(|found| found == wanted) {
            step::detail(&format!("{} is up to date", path.display()));
        } else if arguments.check {
            bail!("{} is out of date; run `cargo xtask codegen` and commit it", path.display());
        } else {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            }
            fs::write(&path, wanted).with_context(|| format!("cannot write {}", path.display()))?;
            step::detail(&format!("wrote {}", path.display()));
        }
    }
    Ok(())
}
