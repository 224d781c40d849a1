//! Bare trees of Debian releases, made once by debootstrap, and processes with such a tree as their root.

use crate::foreign;
use crate::lock::Lock;
use crate::repo::Repo;
use crate::step;
use crate::system;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes the file systems of a process, and replaces its root.
const ENTER: &str = r#"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t sysfs sysfs "$1/sys" 2>/dev/null || true
tree=$1; shift
exec chroot "$tree" /usr/bin/env -i HOME=/root USER=root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
"#;

/// Files that installing and removing any package changes.
const BOOKKEEPING: &[&str] = &[
    "./var/cache",
    "./var/log",
    "./var/lib/apt",
    "./var/lib/dpkg",
    "./var/lib/systemd/deb-systemd-helper-enabled",
    "./etc/ld.so.cache",
    "./tmp",
    "./trial",
    // Backups that systemd-sysusers leaves when it creates a user.
    "./etc/shadow-",
    "./etc/gshadow-",
    // What programs keep for the user who ran them.
    "./root/.cache",
    "./root/.local",
];

/// A copy of a bare tree, removed when dropped.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
}

/// Chroots and mounts need root.
pub fn require_root() -> Result<()> {
    // SAFETY: geteuid has no preconditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        bail!("the packages are installed into trees with chroot, which needs root; run this as root");
    }
    Ok(())
}

impl Tree {
    /// A fresh copy of the tree of a release with some packages more.
    pub fn of(repo: &Repo, release: &str, packages: &[&str]) -> Result<Tree> {
        let base = repo.downloads.join("trees");
        let name = [&[release], packages].concat().join("-");
        let archive = base.join(format!("{name}.tar"));
        let _lock = Lock::take(&base.join(format!("{name}.lock")))?;
        if !archive.exists() {
            bootstrap(repo, release, packages, &archive)?;
        }
        let tree = Tree::empty(&base.join(format!("{name}.{}", std::process::id())))?;
        tree.unpack(&archive)?;
        Ok(tree)
    }

    /// A tree without files.
    pub fn empty(root: &Path) -> Result<Tree> {
        foreign::remove(root)?;
        fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
        // Readable by others, as the root of any machine, whatever this process's mask is.
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("cannot set the permissions of {}", root.display()))?;
        Ok(Tree { root: root.to_owned() })
    }

    /// Unpacks an archive into the tree.
    pub fn unpack(&self, archive: &Path) -> Result<()> {
        let mut tar = Command::new("tar");
        step::output(tar.arg("-C").arg(&self.root).args(["--numeric-owner", "-xpf"]).arg(archive)).map(drop)
    }

    /// The folder of the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Copies a file into the tree's folder `/trial`; returns its path in the tree.
    pub fn put(&self, file: &Path) -> Result<String> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = self.root.join("trial");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let place = folder.join(&name);
        fs::copy(file, &place).with_context(|| format!("cannot copy {} into the tree", file.display()))?;
        Ok(format!("/trial/{name}"))
    }

    /// A command of the tree, in its own process and mount namespaces: when it ends, so do its children.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]);
        command.args(["sh", "-e", "-c", ENTER, "enter"]).arg(&self.root).args(words).stdin(Stdio::null());
        command
    }

    /// Runs a command of the tree; returns what it prints, with its errors.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        let output = self.command(words).output().context("cannot start unshare")?;
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if !output.status.success() {
            bail!("{} failed ({})\n{}", words.join(" "), output.status, text.concat().trim_end());
        }
        Ok(text.concat())
    }

    /// Gives the tree the name servers, the settings of apt and the certificates of this machine.
    fn use_network(&self) -> Result<()> {
        let script = r#"
            cp /etc/resolv.conf /etc/hosts "$1/etc/"
            for file in /etc/apt/apt.conf.d/99*; do [ -f "$file" ] && cp "$file" "$1$file"; done
            mkdir -p "$1/etc/ssl/certs" && cp -a /etc/ssl/certs/. "$1/etc/ssl/certs/"
        "#;
        step::output(Command::new("sh").args(["-c", script, "sh"]).arg(&self.root)).map(drop)
    }

    /// Every file and folder of the tree, without the bookkeeping of the package manager.
    pub fn files(&self) -> Result<BTreeSet<String>> {
        let mut find = Command::new("find");
        find.current_dir(&self.root).args([".", "-xdev", "-printf", "%y %p\n"]);
        let listed = step::output(&mut find)?;
        let is_kept = |line: &&str| {
            let path = line.get(2..).unwrap_or_default();
            !BOOKKEEPING.iter().any(|start| {
                path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        Ok(listed.lines().filter(is_kept).map(str::to_owned).collect())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // The mounts were in namespaces that ended with their commands.
        if let Err(error) = foreign::remove(&self.root) {
            step::progress(&format!("{error:#}"));
        }
    }
}

/// Makes the archive of a tree: the bare release by debootstrap, packages by the tree's own apt, which knows all kinds of dependencies.
fn bootstrap(repo: &Repo, release: &str, packages: &[&str], archive: &Path) -> Result<()> {
    let tree = if packages.is_empty() {
        if !system::has_program("debootstrap") {
            system::install(repo, &["debootstrap"])?;
        }
        let tree = Tree::empty(&archive.with_extension("new"))?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.arg("--variant=minbase").arg(release).arg(&tree.root).arg(foreign::mirror()?);
        let log = repo.logs().join(format!("debootstrap-{release}.log"));
        step::run_logged(&format!("bare tree of {release} (once)"), &mut debootstrap, &log)?;
        tree
    } else {
        let tree = Tree::of(repo, release, &[])?;
        tree.use_network()?;
        let apt = format!(
            "apt-get update && apt-get install --yes --no-install-recommends {} && apt-get clean",
            packages.join(" ")
        );
        let log = repo.logs().join(format!("tree-{release}.log"));
        let title = format!("{} for the tree of {release} (once)", packages.join(", "));
        step::run_logged(&title, &mut tree.command(&["sh", "-c", &apt]), &log)?;
        tree
    };
    let part = archive.with_extension("part");
    step::output(Command::new("tar").arg("-C").arg(&tree.root).arg("-cf").arg(&part).arg("."))?;
    fs::rename(&part, archive).with_context(|| format!("cannot create {}", archive.display()))
}
