//! `cargo xtask docs`: builds the documentation as a site with search, by mdBook. The pages are those of `docs/`; the contents are the
//! table in README.md, so that a page has to be listed only there. The reference of pyflame is written by the package itself.

use crate::build::Built;
use crate::foreign::Apt;
use crate::lock::Lock;
use crate::pyflame;
use crate::repo::Repo;
use crate::step;
use crate::system;
use crate::tutorial;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pages outside `docs/` that are part of the site: file and title.
const MORE: &[(&str, &str)] = &[
    ("ARCHITECTURE.md", "Architecture"),
    ("CONTRIBUTING.md", "Contributing"),
    ("CHANGELOG.md", "Changelog"),
    ("SECURITY.md", "Reporting vulnerabilities"),
];

const BOOK: &str = r#"[book]
title = "Remora"
language = "en"
src = "src"

[output.html]
no-section-label = true

[output.html.search]
limit-results = 30
boost-title = 2
"#;

#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Only collect the pages and check their links; mdBook is not needed
    #[arg(long)]
    pub check: bool,
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    let folder = repo.target.join("docs");
    collect(repo, &folder, arguments.check)?;
    if arguments.check {
        return Ok(());
    }
    let book = folder.join("book");
    let mut build = mdbook(repo)?;
    build.arg("build").arg(&folder).arg("--dest-dir").arg(&book);
    step::run_logged("mdbook build", &mut build, &repo.logs().join("mdbook.log"))?;
    step::progress(&format!("site: {}", book.join("index.html").display()));
    Ok(())
}

/// Runs the commands of the tutorials; `quick` only of the first one and of that in Python.
pub fn run_tutorials(repo: &Repo, built: &Built, quick: bool) -> Result<()> {
    let folder = repo.root.join("docs/tutorials");
    let mut pages: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    ensure!(!pages.is_empty(), "no tutorials in {}", folder.display());
    if quick {
        pages.retain(|page| page.ends_with("no-gpu.md") || page.ends_with("pyflame.md"));
    }
    let mut programs = vec![built.remora.parent().map(Path::to_owned).unwrap_or_default()];
    if !quick {
        programs.push(hipify(repo)?);
    }
    let python = pyflame::environment(repo)?;
    programs.extend(python.parent().map(Path::to_owned));
    let packages = pyflame::package(repo)?;
    let mut failures = Vec::new();
    for page in &pages {
        let name = page.file_stem().unwrap_or_default();
        let scratch = repo.target.join("tutorials").join(name);
        if let Err(error) = tutorial::run(page, &scratch, &programs, &packages) {
            failures.push(format!("{error:#}"));
        }
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

/// Collects the pages of the site with their links adapted, and fails if a link leads nowhere. `prebuilt`: does not build pyflame if
/// there is a build.
fn collect(repo: &Repo, folder: &Path, prebuilt: bool) -> Result<()> {
    let source = folder.join("src");
    if source.exists() {
        fs::remove_dir_all(&source).with_context(|| format!("cannot remove {}", source.display()))?;
    }
    copy(&repo.root.join("docs"), &source)?;
    let readme = read(&repo.root.join("README.md"))?;
    write(&source.join("README.md"), &readme.replace("](docs/", "](").replace("src=\"docs/", "src=\""))?;
    for (file, _) in MORE {
        let text = read(&repo.root.join(file))?;
        write(&source.join(file), &text.replace("](docs/", "]("))?;
    }
    write(&folder.join("book.toml"), BOOK)?;
    let summary = summary(&readme)? + &reference(repo, &source, prebuilt)?;
    write(&source.join("SUMMARY.md"), &summary)?;
    let mut problems = Vec::new();
    for page in pages(&source)? {
        let text = read(&page)?;
        let adapted = text.replace("](../", if page.parent() == Some(&source) { "](" } else { "](../" });
        for link in links(&adapted) {
            let target = page.parent().unwrap_or(&source).join(link);
            if !target.exists() {
                let name = page.strip_prefix(&source).unwrap_or(&page).display();
                problems.push(format!("{name}: {link} not found"));
            }
        }
        write(&page, &adapted)?;
        let name = page.strip_prefix(&source).unwrap_or(&page).to_string_lossy().into_owned();
        if name != "SUMMARY.md" && !summary.contains(&format!("({name})")) {
            problems.push(format!("docs/{name} is not in the table of pages in README.md"));
        }
    }
    // Examples, licences and other files that are not pages.
    problems.retain(|problem| !["examples/", "LICENSE", "deploy/"].iter().any(|it| problem.contains(it)));
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    step::progress(&format!("{} pages, all links lead somewhere", pages(&source)?.len()));
    Ok(())
}

/// The contents of the site, from the table of pages in README.md.
fn summary(readme: &str) -> Result<String> {
    let (_, table) =
        readme.split_once("\n## Documentation\n").context("README.md has no section Documentation")?;
    let table = table.split("\n## ").next().unwrap_or_default();
    let mut text = "# Summary\n\n[Remora](README.md)\n".to_owned();
    for row in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| topic")) {
        let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
        let (Some(topic), Some(page)) = (cells.next(), cells.next()) else { continue };
        if let Some(title) = topic.strip_prefix("**").and_then(|topic| topic.strip_suffix("**")) {
            text.push_str(&format!("\n# {title}\n\n"));
            continue;
        }
        let link = links(page).next().and_then(|link| link.strip_prefix("docs/"));
        let link = link.with_context(|| format!("README.md: no link to a page in `{row}`"))?;
        text.push_str(&format!("- [{}]({link})\n", topic.replace('`', "")));
    }
    text.push_str("\n# Project\n\n");
    MORE.iter().for_each(|(file, title)| text.push_str(&format!("- [{title}]({file})\n")));
    Ok(text)
}

/// Adds the reference of pyflame's names to the pages; returns its part of the contents.
fn reference(repo: &Repo, source: &Path, prebuilt: bool) -> Result<String> {
    const FOLDER: &str = "pyflame-reference";
    let package = match prebuilt && repo.target.join("release/lib_pyflame.so").exists() {
        true => pyflame::package(repo)?,
        false => pyflame::built_package(repo)?,
    };
    let mut write = Command::new(pyflame::environment(repo)?);
    write.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1");
    write.arg(repo.root.join("tensor/python/reference.py")).arg(source.join(FOLDER));
    let pages = step::output(&mut write)?;
    let mut text = "\n# Reference of pyflame\n\n".to_owned();
    for page in pages.lines() {
        let (title, file) = page.split_once('\t').with_context(|| format!("not a page: {page:?}"))?;
        text.push_str(&format!("- [{title}]({FOLDER}/{file})\n"));
    }
    Ok(text)
}

/// The links of a page to files, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let link = rest.split([')', '#', ' ']).next()?;
        (!link.is_empty() && !link.contains("://") && !link.starts_with("mailto:")).then_some(link)
    })
}

fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(pages(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (source, place) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &place)?;
        } else {
            fs::copy(&source, &place).with_context(|| format!("cannot copy {}", source.display()))?;
        }
    }
    Ok(())
}

/// The folder of hipify-perl.
fn hipify(repo: &Repo) -> Result<PathBuf> {
    Ok(unpack(repo, "hipify", &["hipify-perl"], "usr/bin/hipify-perl")?.join("usr/bin"))
}

/// A command that runs mdBook: the system's, or that of a newer Debian release with that release's C library.
fn mdbook(repo: &Repo) -> Result<Command> {
    const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
    if system::has_program("mdbook") {
        return Ok(Command::new("mdbook"));
    }
    let root = unpack(repo, "mdbook", &["mdbook", "libc6", "libgcc-s1"], "usr/bin/mdbook")?;
    let mut command = Command::new(root.join(LIBRARIES).join("ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(root.join(LIBRARIES)).arg(root.join("usr/bin/mdbook"));
    Ok(command)
}

/// Unpacks packages that this Debian release does not have below `target/`, on first use; `wanted` is a file of them.
fn unpack(repo: &Repo, name: &str, packages: &[&str], wanted: &str) -> Result<PathBuf> {
    const RELEASES: &[&str] = &["trixie", "sid"];
    let root = repo.downloads.join(name);
    let _lock = Lock::take(&repo.downloads.join(format!("{name}.lock")))?;
    if root.join(wanted).is_file() {
        return Ok(root);
    }
    let apt = Apt::new(repo, &root.join("apt"), RELEASES)?;
    // The file that is looked for is in the first package, which is unpacked last: an interrupted run is repeated.
    for package in packages.iter().rev() {
        let folder = root.join("archives").join(package);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let archive = apt.download(package, RELEASES, &folder)?;
        step::output(Command::new("dpkg").arg("-x").arg(archive).arg(&root))?;
    }
    Ok(root)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_follow_the_table_of_the_readme() {
        let readme = "# R\n\n## Documentation\n\n| topic | page |\n|---|---|\n| **Programs** | |\n| `remora run`: more | [docs/a.md](docs/a.md) |\n\n## More\n";
        let text = summary(readme).unwrap();
        assert!(text.contains("\n# Programs\n\n- [remora run: more](a.md)\n"), "{text}");
        assert!(summary("# R\n").is_err());
    }

    #[test]
    fn links_to_files_are_found_without_their_anchors() {
        let text = "[a](a.md) [b](b.md#x) [c](https://c) [d](#here) ![e](e/f.svg)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["a.md", "b.md", "e/f.svg"]);
    }
}
