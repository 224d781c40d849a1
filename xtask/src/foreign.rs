//! Packages of newer Debian releases, unpacked below `target/toolchain` without changing the system.
//!
//! The mirror is the one of this machine's apt, and apt checks the signatures as usual. Packages are selected by release, never
//! by version, so that an upload there does not break this.

use crate::repo::Repo;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use crate::system;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Foreign {
    package: &'static str,
    /// The releases to search, in order: packages move from one to the next.
    releases: &'static [&'static str],
    /// The folder below the toolchain that it is unpacked to.
    folder: &'static str,
}

const FOREIGN: &[Foreign] = &[
    Foreign { package: "libamdhip64-dev", releases: &["sid", "forky"], folder: "hip" },
    Foreign { package: "libamdhip64-dev", releases: &["experimental", "sid"], folder: "hip7" },
    Foreign { package: "rocm-device-libs-17", releases: &["trixie", "sid"], folder: "device-libs" },
    Foreign { package: "libamdhip64-5", releases: &["bookworm"], folder: "vendor" },
    Foreign { package: "libamdhip64-6", releases: &["sid", "forky"], folder: "vendor" },
    Foreign { package: "libamdhip64-7", releases: &["experimental", "sid"], folder: "vendor" },
    Foreign { package: "libhiprtc7", releases: &["experimental", "sid"], folder: "vendor" },
];

/// Whether everything in the list is already unpacked.
pub fn is_fresh(repo: &Repo) -> bool {
    stamp(repo).is_fresh()
}

/// Downloads and unpacks everything in the list.
pub fn unpack(repo: &Repo) -> Result<()> {
    let base = repo.toolchain();
    let work = base.join("unpacking");
    remove(&work)?;
    let archives = work.join("archives");
    let releases: Vec<&str> = FOREIGN.iter().flat_map(|foreign| foreign.releases.iter().copied()).collect();
    let apt = Apt::new(repo, &work, &releases)?;
    for foreign in FOREIGN {
        let folder = archives.join(format!("{}-{}", foreign.folder, foreign.package));
        fs::create_dir_all(&folder)?;
        let archive = apt.download(foreign.package, foreign.releases, &folder)?;
        step::progress(&format!("unpacking {} to {}", name_of(&archive), foreign.folder));
        let into = work.join(foreign.folder);
        step::output(Command::new("dpkg").arg("-x").arg(&archive).arg(&into))?;
    }
    for foreign in FOREIGN {
        let made = work.join(foreign.folder);
        if made.exists() {
            let place = base.join(foreign.folder);
            remove(&place)?;
            fs::rename(&made, &place).with_context(|| format!("cannot move into {}", place.display()))?;
        }
    }
    remove(&work)?;
    stamp(repo).write()
}

fn stamp(repo: &Repo) -> Stamp {
    let inputs = FOREIGN.iter().fold(Inputs::new().text("layout 1"), |inputs, foreign| {
        inputs.text(foreign.package).text(&foreign.releases.join(" ")).text(foreign.folder)
    });
    Stamp::new(repo.toolchain().join("stamp"), inputs)
}

/// apt with separate sources, lists and cache.
pub struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// Reads the package lists of `releases` into a separate folder.
    pub fn new(repo: &Repo, work: &Path, releases: &[&str]) -> Result<Apt> {
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(work.join(folder))
                .with_context(|| format!("cannot write below {}", work.display()))?;
        }
        let mirror = mirror()?;
        let mut releases = releases.to_vec();
        releases.sort_unstable();
        releases.dedup();
        let sources: String =
            releases.iter().map(|release| format!("deb {mirror} {release} main\n")).collect();
        let list = work.join("sources.list");
        fs::write(&list, sources).with_context(|| format!("cannot write {}", list.display()))?;
        let options = [
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", work.join("lists").display()),
            format!("Dir::Cache={}", work.join("cache").display()),
            // Some images disable apt's own cache, and every download would parse all lists again.
            "Dir::Cache::pkgcache=pkgcache.bin".to_owned(),
            "Dir::Cache::srcpkgcache=srcpkgcache.bin".to_owned(),
            // Translations and AppStream data are not needed.
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            // apt's download user cannot write below a private folder.
            "APT::Sandbox::User=root".to_owned(),
        ];
        let apt = Apt { options: options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect() };
        let log = repo.logs().join("lists.log");
        step::run_logged("package lists of newer releases", apt.command().arg("update"), &log)?;
        Ok(apt)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.args(&self.options).arg("-q");
        command
    }

    /// Downloads a package, and its dependencies that this system lacks, into a folder.
    pub fn download_missing(&self, package: &str, folder: &Path) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(folder.join("partial"))?;
        let mut install = self.command();
        install.arg("-o").arg(format!("Dir::Cache::archives={}", folder.display()));
        // Nothing is installed, so no lock is needed.
        install.args(["-o", "Debug::NoLocking=true", "--yes", "--no-install-recommends", "--download-only"]);
        step::output(install.arg("install").arg(package))?;
        let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
        let archives = entries.into_iter().map(|entry| entry.path());
        Ok(archives.filter(|path| path.extension().is_some_and(|it| it == "deb")).collect())
    }

    /// Downloads one package into an empty folder, from the first of the releases that has it.
    pub fn download(&self, package: &str, releases: &[&str], folder: &Path) -> Result<PathBuf> {
        let mut refusals = String::new();
        for release in releases {
            let wanted = format!("{package}/{release}");
            match step::output(self.command().current_dir(folder).arg("download").arg(&wanted)) {
                Ok(_) => return only_entry(folder),
                Err(error) => refusals.push_str(&format!("\n{error:#}")),
            }
        }
        bail!("no release has {package} (tried {}){refusals}", releases.join(", "))
    }
}

/// Returns the mirror that apt uses for this release.
pub fn mirror() -> Result<String> {
    let text = step::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(RELEASE) $(REPO_URI)",
        "Created-By: Packages",
    ]))?;
    match mirror_in(&text) {
        Some(mirror) => Ok(mirror.to_owned()),
        None => bail!("apt has no source for {}; its sources are:\n{text}", system::CODENAME),
    }
}

fn mirror_in(targets: &str) -> Option<&str> {
    targets.lines().filter_map(|line| line.split_once(' ')).find_map(|(release, mirror)| {
        (release == system::CODENAME && !mirror.contains("security")).then_some(mirror.trim())
    })
}

fn only_entry(folder: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder)?;
    match (entries.next(), entries.next()) {
        (Some(entry), None) => Ok(entry?.path()),
        _ => bail!("apt-get download did not leave exactly one archive in {}", folder.display()),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_of_this_release_and_not_of_its_security_updates() {
        let targets = "bookworm-updates http://m/debian/\nbookworm http://m/debian-security/\nbookworm http://m/debian/\n";
        assert_eq!(mirror_in(targets), Some("http://m/debian/"));
        assert_eq!(mirror_in("trixie http://m/debian/\n"), None);
    }
}
