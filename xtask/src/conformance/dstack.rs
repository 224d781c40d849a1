//! A board that rents its GPUs from a real dstack server.
//!
//! The server is from PyPI. The host of its fleet is this machine in separate namespaces: Debian's sshd, and our own program in
//! place of what dstack would install there. No Docker, GPUs or other machines are needed.

use super::userland::{Package, Userland};
use crate::build::Built;
use crate::foreign;
use crate::repo::Repo;
use crate::step;
use crate::venv;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

const SSHD: &[Package] = &[Package::whole("openssh-server"), Package::whole("libwrap0")];
const RELEASES: &[&str] = &["bookworm"];

pub fn run(repo: &Repo, built: &Built, arguments: &Arguments) -> Result<()> {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    ensure!(user == 0, "this test needs root: it mounts file systems and listens in its own namespaces");
    let python = venv::with(repo, "venv-dstack", "conformance/dstack/requirements.txt")?;
    let sshd = Userland::unpack_from(repo, "sshd", RELEASES, SSHD)?;
    let folder = repo.target.join("conformance/dstack");
    foreign::remove(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut command = Command::new("setpriv");
    // Nothing outlives the first process of the PID namespace, and that process does not outlive this one.
    command.args(["--pdeathsig", "KILL", "--", "unshare"]);
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.arg(&python).arg(repo.root.join("conformance/dstack/run.py"));
    command.arg("--remora").arg(&built.remora).arg("--folder").arg(&folder);
    command.arg("--sshd").arg(sshd.path("usr/sbin/sshd")).arg("--sshd-libraries").arg(sshd.libraries());
    command.arg("--filter").arg(arguments.filter.as_deref().unwrap_or_default());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    step::run_forwarded(&format!("a board on dstack (logs in {})", folder.display()), &mut command)
}
