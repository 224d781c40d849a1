//! `remora completions` and `remora man`: files for shells and for man(1), from the definitions of the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap_complete::Shell;

use crate::output::out;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  remora completions bash > ~/.local/share/bash-completion/completions/remora
  remora completions zsh > ~/.zfunc/_remora            with `fpath+=~/.zfunc` in .zshrc, before compinit
  remora completions fish > ~/.config/fish/completions/remora.fish
  remora completions powershell >> $PROFILE")]
pub struct CompletionsArguments {
    /// Shell to write completions for
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct ManArguments {
    /// Folder to write to; created if it does not exist. Files in it with the same names are replaced
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the completions of a command line.
pub fn completions(arguments: &CompletionsArguments, mut command: clap::Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "remora", &mut text);
    out!("{}", String::from_utf8(text).context("the completions are not text")?);
    Ok(())
}

/// Writes one page for the program and one for each of its commands.
pub fn man(arguments: &ManArguments, command: clap::Command) -> Result<()> {
    write_pages(&arguments.folder, command)
        .with_context(|| format!("cannot write man pages to {}", arguments.folder.display()))
}

fn write_pages(folder: &Path, command: clap::Command) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command, folder)
}
