//! `cargo xtask picture`: draws SVG pictures for documents, and for machines without a viewer.

mod terminal;
mod trace;

use crate::repo::Repo;
use anyhow::Result;

#[derive(Debug, clap::Subcommand)]
pub enum Picture {
    /// Draw a trace written by REMORA_TRACE
    Trace(trace::Arguments),
    /// Run commands and draw a terminal with their output
    Terminal(terminal::Arguments),
}

pub fn run(repo: &Repo, picture: &Picture) -> Result<()> {
    match picture {
        Picture::Trace(arguments) => trace::run(arguments),
        Picture::Terminal(arguments) => terminal::run(repo, arguments),
    }
}
