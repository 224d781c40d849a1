//! `cargo xtask build`: the `remora` program, the pages inside it, every client library, and the one for node agents. Needs a C
//! compiler and Rust, no setup; without npm the program is built without its pages.

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

/// What a build leaves behind.
#[derive(Debug)]
pub struct Built {
    /// The `remora` program.
    pub remora: PathBuf,
    /// The folder of the libraries.
    pub lib: PathBuf,
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<Built> {
    step::say("building");
    ui::build(repo)?;
    let mut cargo = repo.cargo();
    if arguments.tests {
        // With what tests depend on, some libraries get other features, and all that uses them is compiled again. Whoever wants
        // the tests anyway builds all of it once, like this; the program and the library come along.
        cargo.args(["build", "--workspace", "--lib", "--bins", "--tests"]);
    } else {
        cargo.args(["build", "--package", "remora", "--package", "hip-client", "--package", "provider"]);
    }
    if !arguments.debug {
        cargo.arg("--release");
    }
    step::loud("cargo build", &mut cargo)?;
    let output = repo.target.join(if arguments.debug { "debug" } else { "release" });
    client_libs::link(repo, &output.join("libhip_client.a"), arguments.debug)?;
    audit_lib::build(repo)?;
    provider_lib::place(repo, &output, arguments.debug)?;
    let built = Built { remora: output.join("remora"), lib: repo.lib() };
    step::detail(&format!("program: {}", built.remora.display()));
    step::detail(&format!("libraries: {}", built.lib.display()));
    Ok(built)
}
