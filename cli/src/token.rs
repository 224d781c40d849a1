//! `remora token`: creates tokens.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use transport::token;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a strong random token, and print it or write it to a new file that only its owner can read
    New {
        /// File to write; it must not exist
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Command::New { out } = &arguments.command;
    let made = token::generate()?;
    match out {
        Some(path) => Ok(token::write_new(path, &made)?),
        None => writeln!(std::io::stdout(), "{made}").context("cannot write to standard output"),
    }
}
