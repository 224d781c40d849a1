//! `cargo xtask build`: builds the `remora` program with its embedded web pages, every client library, and the provider library
//! for node agents. Needs a C compiler and Rust, but no setup; without npm the program is built without its pages.

use crate::audit_lib;
use crate::client_libs;
use crate::provider_lib;
use crate::repo::Repo;
use crate::step;
use crate::ui;
use anyhow::Result;
use std::path::PathBuf;

#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Build without optimisation, with debug information
    #[arg(long)]
    pub debug: bool,
    /// Build every test too
    #[arg(long)]
    pub tests: bool,
}

/// The outputs of a build.
#[derive(Debug)]
pub struct Built {
    /// The `remora` program.
    pub remora: PathBuf,
    /// The folder of the libraries.
    pub lib: PathBuf,
    /// Built by an earlier command: then nothing is compiled now.
    pub is_earlier: bool,
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<Built> {
    step::heading("building");
    ui::build(repo)?;
    let mut cargo = repo.cargo();
    if arguments.tests {
        // Dev-dependencies enable other features of some libraries, so everything that uses them would be compiled again. When
        // tests are wanted, this builds everything once, including the program and the library. Cargo has compiled this program
        // in the dev profile already, and tests it there.
        cargo.args(["build", "--workspace", "--exclude", "xtask", "--lib", "--bins", "--tests"]);
    } else {
        cargo.args(["build", "--package", "remora", "--package", "hip-client", "--package", "provider"]);
    }
    if !arguments.debug {
        cargo.arg("--release");
    }
    step::run_forwarded("cargo build", &mut cargo)?;
    collect(repo, arguments)
}

/// The outputs of an earlier build in the release profile.
pub fn earlier(repo: &Repo) -> Built {
    Built { remora: repo.target.join("release/remora"), lib: repo.lib(), is_earlier: true }
}

/// The part after cargo: links and collects the libraries.
pub fn collect(repo: &Repo, arguments: &Arguments) -> Result<Built> {
    let output = repo.target.join(if arguments.debug { "debug" } else { "release" });
    client_libs::link(&repo.lib(), &output.join("libhip_client.a"), arguments.debug)?;
    audit_lib::build(repo)?;
    provider_lib::install(repo, &output, arguments.debug)?;
    let built = Built { remora: output.join("remora"), lib: repo.lib(), is_earlier: false };
    step::progress(&format!("program: {}", built.remora.display()));
    step::progress(&format!("libraries: {}", built.lib.display()));
    Ok(built)
}
