//! `cargo xtask codegen`: generates the files that are derived from tables: the coverage page, and the types of the board's pages.

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;

/// A generated file, and its generator.
struct Page {
    path: &'static str,
    make: fn(&Repo) -> Result<String>,
}

const PAGES: &[Page] = &[
    Page { path: "docs/hip-coverage.md", make: |_| Ok(hip_api::meta::coverage_page()) },
    Page { path: "board/ui/src/contract.ts", make: contract },
];

/// The types of the board's pages. A separate program prints them, so that xtask itself is built quickly.
fn contract(repo: &Repo) -> Result<String> {
    step::output(repo.cargo().args([
        "run",
        "--quiet",
        "--package",
        "board-contract",
        "--example",
        "typescript",
    ]))
}

#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Change nothing; fail if a page is out of date
    #[arg(long)]
    pub check: bool,
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    for page in PAGES {
        let path = repo.root.join(page.path);
        let wanted = (page.make)(repo)?;
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
