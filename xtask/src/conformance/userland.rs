//! Programs of a newer Debian release, unpacked below `target/` with their libraries and run by their own loader.
//!
//! Nothing is installed, mounted or chrooted: the loader of that release is called by its path with a library search path that
//! starts with ours. So this needs no privileges and leaves nothing to clean up.

use crate::build::Built;
use crate::foreign::{self, Apt};
use crate::lock::Lock;
use crate::repo::Repo;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Default releases of the packages; the first that has one wins.
const RELEASES: &[&str] = &["sid", "forky"];
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A package, and the files that are not unpacked, as tar patterns.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    pub name: &'static str,
    pub leave_out: &'static [&'static str],
}

impl Package {
    pub const fn whole(name: &'static str) -> Package {
        Package { name, leave_out: &[] }
    }
}

/// An unpacked set of packages.
#[derive(Debug)]
pub struct Userland {
    root: PathBuf,
    /// Folders searched for libraries before the userland's own.
    first: Vec<PathBuf>,
    /// Folders searched after it.
    last: Vec<PathBuf>,
}

impl Userland {
    /// Downloads and unpacks packages, unless already done.
    pub fn unpack(repo: &Repo, name: &str, packages: &[Package]) -> Result<Userland> {
        Userland::unpack_from(repo, name, RELEASES, packages)
    }

    /// Like [`Userland::unpack`], from the given releases.
    pub fn unpack_from(repo: &Repo, name: &str, releases: &[&str], packages: &[Package]) -> Result<Userland> {
        let base = repo.downloads.join("userland").join(name);
        let _lock = Lock::take(&base.join("lock"))?;
        let root = base.join("root");
        let stamp = Stamp::new(base.join("stamp"), inputs(releases, packages));
        if stamp.is_fresh() && root.exists() {
            return Ok(Userland { root, first: Vec::new(), last: Vec::new() });
        }
        step::heading(&format!("unpacking {name} of a newer Debian release (once)"));
        let work = base.join("unpacking");
        foreign::remove(&work)?;
        let apt = Apt::new(repo, &work, releases)?;
        let fresh = work.join("root");
        fs::create_dir_all(&fresh).with_context(|| format!("cannot create {}", fresh.display()))?;
        for package in packages {
            let folder = work.join("archives").join(package.name);
            fs::create_dir_all(&folder)?;
            step::progress(package.name);
            let archive = apt.download(package.name, releases, &folder)?;
            extract(&archive, &fresh, package.leave_out)?;
            foreign::remove(&folder)?;
        }
        foreign::remove(&root)?;
        fs::rename(&fresh, &root).with_context(|| format!("cannot move into {}", root.display()))?;
        foreign::remove(&work)?;
        stamp.write()?;
        Ok(Userland { root, first: Vec::new(), last: Vec::new() })
    }

    /// Unpacks a package of this system's own release with the dependencies that this system lacks, instead of installing it. Its
    /// programs run with this system's loader and find the missing libraries here.
    pub fn unpack_missing(repo: &Repo, name: &str, release: &str, package: &str) -> Result<Userland> {
        let base = repo.downloads.join("userland").join(name);
        let _lock = Lock::take(&base.join("lock"))?;
        let root = base.join("root");
        let stamp =
            Stamp::new(base.join("stamp"), Inputs::new().text("missing 1").text(release).text(package));
        let made = Userland { root, first: Vec::new(), last: Vec::new() };
        if stamp.is_fresh() && made.root.exists() {
            return Ok(made);
        }
        step::heading(&format!("unpacking {package} (once)"));
        let work = base.join("unpacking");
        foreign::remove(&work)?;
        let apt = Apt::new(repo, &work, &[release])?;
        let fresh = work.join("root");
        fs::create_dir_all(&fresh).with_context(|| format!("cannot create {}", fresh.display()))?;
        for archive in apt.download_missing(package, &work.join("archives"))? {
            extract(&archive, &fresh, &[])?;
        }
        foreign::remove(&made.root)?;
        fs::rename(&fresh, &made.root)
            .with_context(|| format!("cannot move into {}", made.root.display()))?;
        foreign::remove(&work)?;
        stamp.write()?;
        Ok(made)
    }

    /// A set of packages that is already unpacked in a folder.
    pub fn at(root: PathBuf) -> Userland {
        Userland { root, first: Vec::new(), last: Vec::new() }
    }

    /// The loader and the libraries that a program of the set loads, as paths below its folder.
    pub fn loaded_by(&self, program: &str) -> Result<Vec<String>> {
        let mut loader = self.alone(&self.root.join(program));
        let text = step::output(loader.env("LD_TRACE_LOADED_OBJECTS", "1"))?;
        let inside = text.lines().filter_map(|line| {
            let path = line.trim().split_once(" => ")?.1.split(" (").next()?;
            Some(Path::new(path).strip_prefix(&self.root).ok()?.to_string_lossy().into_owned())
        });
        let mut found: Vec<String> = inside.collect();
        found.push(LOADER.to_owned());
        Ok(found)
    }

    /// Searches a folder for libraries before those of the userland; relative paths are inside the userland.
    pub fn prefer(&mut self, folder: impl AsRef<Path>) {
        self.first.push(self.root.join(folder));
    }

    /// Searches a folder for libraries that the userland does not have.
    pub fn also(&mut self, folder: impl AsRef<Path>) {
        self.last.push(self.root.join(folder));
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// The folder of its own libraries.
    pub fn libraries(&self) -> PathBuf {
        self.root.join(LIBRARIES)
    }

    /// The library search path of its programs: ours first.
    pub fn search_path(&self, built: &Built) -> Vec<PathBuf> {
        let mut folders = vec![built.lib.clone()];
        folders.extend(self.first.iter().cloned());
        folders.push(self.libraries());
        folders.extend(self.last.iter().cloned());
        folders
    }

    /// Runs a program with the userland's libraries and nothing of this system's.
    pub fn alone(&self, program: &Path) -> Command {
        let mut command = Command::new(self.root.join(LOADER));
        command.arg("--library-path").arg(self.libraries()).arg(program).env_clear();
        command
    }

    /// `remora run` for one of its programs, on a software GPU of this model.
    pub fn command(&self, built: &Built, model: &str, program: &str) -> Command {
        let mut command = Command::new(&built.remora);
        // No watchdog: a kernel may take long on a busy machine. A hang is ended by the program's timeout.
        command.args(["run", "--device", model, "--watchdog", "0", "--"]);
        self.add_loader(&mut command, built, program);
        command
    }

    /// `remora run` for one of its programs, on a worker.
    pub fn command_on(&self, built: &Built, worker: SocketAddr, program: &str) -> Command {
        let mut command = Command::new(&built.remora);
        command.args(["run", "--worker", &worker.to_string(), "--"]).env("HIP_REMOTE_LIB_DIR", &built.lib);
        self.add_loader(&mut command, built, program);
        command
    }

    fn add_loader(&self, command: &mut Command, built: &Built, program: &str) {
        let mut libraries = OsString::new();
        for folder in self.search_path(built) {
            if !libraries.is_empty() {
                libraries.push(":");
            }
            libraries.push(folder);
        }
        command.arg(self.root.join(LOADER)).arg("--library-path").arg(libraries);
        command.arg(self.root.join(program));
    }
}

fn inputs(releases: &[&str], packages: &[Package]) -> Inputs {
    packages.iter().fold(Inputs::new().text("layout 1").text(&releases.join(" ")), |inputs, package| {
        inputs.text(package.name).text(&package.leave_out.join(" "))
    })
}

/// Unpacks an archive without the excluded files, so that gigabytes are never written.
fn extract(archive: &Path, into: &Path, leave_out: &[&str]) -> Result<()> {
    let mut files = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(archive)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start dpkg-deb")?;
    let stream = files.stdout.take().context("dpkg-deb has no standard output")?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "--wildcards", "-C"]).arg(into);
    tar.args(leave_out.iter().map(|pattern| format!("--exclude={pattern}")));
    let unpacked = tar.stdin(stream).status().context("cannot start tar")?;
    let read = files.wait()?;
    if !unpacked.success() || !read.success() {
        bail!("{} cannot be unpacked (dpkg-deb: {read}, tar: {unpacked})", archive.display());
    }
    Ok(())
}
