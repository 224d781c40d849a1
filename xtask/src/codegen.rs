//! `cargo xtask codegen`: generates the pages, and sections of pages, that are derived from tables in the code.

use crate::repo::Repo;
use crate::sample;
use crate::step;
use crate::tidy;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::fs;

/// A generated file, and its generator.
struct Page {
    path: &'static str,
    make: fn() -> String,
}

const PAGES: &[Page] = &[Page { path: "docs/hip-coverage.md", make: hip_api::meta::coverage_page }];

/// A generated section of a hand-written file, between two marker comments.
struct Section {
    path: &'static str,
    name: &'static str,
    make: fn() -> String,
}

const SECTIONS: &[Section] =
    &[Section { path: "ARCHITECTURE.md", name: "crate dependencies", make: tidy::dependency_table }];

#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Change nothing; fail if a page is out of date
    #[arg(long)]
    pub check: bool,
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    if arguments.check {
        let stale = stale(repo)?;
        if !stale.is_empty() {
            bail!("{}", stale.join("\n"));
        }
        return Ok(());
    }
    let contract = contract(repo)?;
    for file in files(repo)?.into_iter().chain([contract]) {
        if file.is_current() {
            step::progress(&format!("{} is up to date", file.path));
        } else {
            let path = repo.root.join(file.path);
            fs::write(&path, file.wanted).with_context(|| format!("cannot write {}", path.display()))?;
            step::progress(&format!("wrote {}", file.path));
        }
    }
    match Toolchain::locate(repo) {
        Ok(toolchain) => sample::write(repo, &toolchain),
        Err(error) => {
            step::progress(&format!("skipped the kernel of `remora try`: {error:#}"));
            Ok(())
        }
    }
}

/// Returns a complaint for each file that is out of date.
pub fn stale(repo: &Repo) -> Result<Vec<String>> {
    let complaint = |path| format!("{path} is out of date: run `cargo xtask codegen` and commit it");
    Ok(files(repo)?.iter().filter(|file| !file.is_current()).map(|file| complaint(file.path)).collect())
}

/// A file as it is and as it should be.
struct Generated {
    path: &'static str,
    found: String,
    wanted: String,
}

impl Generated {
    fn is_current(&self) -> bool {
        self.found == self.wanted
    }
}

fn files(repo: &Repo) -> Result<Vec<Generated>> {
    let read = |path: &str| fs::read_to_string(repo.root.join(path));
    let pages = PAGES.iter().map(|page| {
        // A new page does not exist yet.
        let found = read(page.path).unwrap_or_default();
        Ok(Generated { path: page.path, found, wanted: (page.make)() })
    });
    let sections = SECTIONS.iter().map(|section| {
        let found = read(section.path).with_context(|| format!("cannot read {}", section.path))?;
        let wanted = replaced(&found, section.name, &(section.make)())
            .with_context(|| format!("{} has no section `{}`", section.path, section.name))?;
        Ok(Generated { path: section.path, found, wanted })
    });
    pages.chain(sections).collect()
}

/// The types of the board's web pages. A separate program prints them, so that xtask itself builds quickly; a test of that crate
/// checks that the file is current.
fn contract(repo: &Repo) -> Result<Generated> {
    let path = "board/ui/src/contract.ts";
    let mut program = repo.cargo();
    program.args(["run", "--quiet", "--package", "board-contract", "--example", "typescript"]);
    let found = fs::read_to_string(repo.root.join(path)).unwrap_or_default();
    Ok(Generated { path, found, wanted: step::output(&mut program)? })
}

/// The page with the text between the markers of a section replaced; `None` without markers.
fn replaced(page: &str, name: &str, text: &str) -> Option<String> {
    let begin = format!("<!-- {name}: written by `cargo xtask codegen`, do not edit -->\n");
    let end = format!("<!-- end of {name} -->\n");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{text}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_is_replaced() {
        let page = "one\n<!-- list: written by `cargo xtask codegen`, do not edit -->\n\nold\n\n<!-- end of list -->\ntwo\n";
        let wanted = page.replace("old", "new");
        assert_eq!(replaced(page, "list", "new\n").as_deref(), Some(wanted.as_str()));
        assert_eq!(replaced(&wanted, "list", "new\n").as_deref(), Some(wanted.as_str()));
        assert_eq!(replaced("no markers\n", "list", "new\n"), None);
    }
}
