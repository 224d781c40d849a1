//! The board's web pages: built by npm into `board/ui/dist`, from where the program embeds them.

use crate::build::Built;
use crate::lock::Lock;
use crate::repo::Repo;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use crate::system;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that determine which packages are installed.
const PACKAGES: &[&str] = &["package.json", "package-lock.json", ".npmrc"];

/// The sources of the pages, in addition to the packages.
const SOURCES: &[&str] = &["src", "build", "index.html", "tsconfig.json", "vite.config.ts"];

/// Builds the pages, unless they are up to date. Without npm the program is built without pages, and shows a notice instead.
pub fn build(repo: &Repo) -> Result<()> {
    if !system::has_program("npm") {
        step::progress("skipping the board's pages: npm is not installed (`cargo xtask setup` installs it)");
        return Ok(());
    }
    let _lock = Lock::take(&repo.downloads.join("ui.lock"))?;
    let ui = folder(repo);
    let stamp = Stamp::new(repo.downloads.join("ui.stamp"), hash(&ui, PACKAGES)?.text(&tree(&ui, SOURCES)?));
    if stamp.is_fresh() && ui.join("dist/index.html").exists() {
        return Ok(());
    }
    install(repo)?;
    step::run_logged("the board's pages", npm(&ui).args(["run", "build"]), &repo.logs().join("ui.log"))?;
    stamp.write()
}

/// Tests the pages: pure functions alone, and everything in a browser with a board and a software GPU.
pub fn check(repo: &Repo, built: &Built) -> Result<()> {
    let ui = folder(repo);
    install(repo)?;
    step::run_forwarded("unit tests of the pages", npm(&ui).args(["run", "--silent", "test"]))?;
    let mut browser = npm(&ui);
    browser.args(["run", "--silent", "e2e"]).env("REMORA", &built.remora);
    step::run_forwarded("the pages in a browser", &mut browser)?;
    step::progress(&format!("screenshots: {}", repo.downloads.join("board-screenshots").display()));
    Ok(())
}

/// The folder of the pages' sources.
fn folder(repo: &Repo) -> PathBuf {
    repo.root.join("board/ui")
}

/// An npm command in the folder of the pages.
fn npm(folder: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(folder).env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
    command
}

/// Installs exactly the packages of the lock file.
fn install(repo: &Repo) -> Result<()> {
    let ui = folder(repo);
    let stamp = Stamp::new(repo.downloads.join("ui-packages.stamp"), hash(&ui, PACKAGES)?);
    if stamp.is_fresh() && ui.join("node_modules").exists() {
        return Ok(());
    }
    let arguments = ["ci", "--no-audit", "--no-fund"];
    step::run_logged("npm packages", npm(&ui).args(arguments), &repo.logs().join("ui-packages.log"))?;
    stamp.write()
}

fn hash(folder: &Path, names: &[&str]) -> Result<Inputs> {
    names.iter().try_fold(Inputs::new(), |inputs, name| inputs.text(name).file(&folder.join(name)))
}

/// A hash over files, and over everything below folders.
fn tree(root: &Path, names: &[&str]) -> Result<String> {
    let mut files = Vec::new();
    let mut open: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))? {
                open.push(entry?.path());
            }
        } else {
            files.push(path);
        }
    }
    files.sort();
    let inputs = files.iter().try_fold(Inputs::new(), |inputs, file| {
        inputs.text(&file.strip_prefix(root).unwrap_or(file).to_string_lossy()).file(file)
    })?;
    Ok(inputs.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_tree_sees_names_and_contents() {
        let root = std::env::temp_dir().join(format!("xtask-ui-{}", std::process::id()));
        fs::create_dir_all(root.join("src/part")).unwrap();
        fs::write(root.join("src/part/a.ts"), "one").unwrap();
        let first = tree(&root, &["src"]).unwrap();
        assert_eq!(tree(&root, &["src"]).unwrap(), first);
        fs::write(root.join("src/part/a.ts"), "two").unwrap();
        let second = tree(&root, &["src"]).unwrap();
        assert_ne!(second, first);
        fs::rename(root.join("src/part/a.ts"), root.join("src/part/b.ts")).unwrap();
        assert_ne!(tree(&root, &["src"]).unwrap(), second);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_lock_file_names_no_place_to_download_from() {
        let text = fs::read_to_string(folder(&Repo::find().unwrap()).join("package-lock.json")).unwrap();
        assert!(!text.contains("\"resolved\""));
    }
}
