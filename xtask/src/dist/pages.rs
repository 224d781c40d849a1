//! Man pages and shell completions, which the program prints itself.

use super::stage::{FILE, Stage};
use crate::foreign;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Shells, and the file below the prefix in which each looks for completions of a program.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/remora"),
    ("zsh", "share/zsh/vendor-completions/_remora"),
    ("fish", "share/fish/vendor_completions.d/remora.fish"),
];

/// Adds the pages and completions below a prefix such as `usr`.
pub fn add(remora: &Path, stage: &Stage, prefix: &str, work: &Path) -> Result<()> {
    for (shell, place) in SHELLS {
        let text = ask(Command::new(remora).args(["completions", shell]))?;
        stage.bytes(&format!("{prefix}/{place}"), &text, FILE)?;
    }
    let folder = work.join("man");
    foreign::remove(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    ask(Command::new(remora).arg("man").arg(&folder))?;
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let page = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        stage.compressed(&format!("{prefix}/share/man/man1/{name}.gz"), &page)?;
    }
    Ok(())
}

/// What the program prints.
fn ask(command: &mut Command) -> Result<Vec<u8>> {
    let Output { status, stdout, stderr } = command.output().context("cannot start the built program")?;
    if !status.success() {
        bail!("{command:?} failed ({status})\n{}", String::from_utf8_lossy(&stderr));
    }
    Ok(stdout)
}
