//! `cargo xtask`: the development tasks of this repository that are not plain cargo commands.
//!
//! One file per subcommand; to add one, add a file, a variant to [`Task`] and an arm to the match below.

mod agent_api;
mod audit;
mod audit_lib;
mod bench;
mod build;
mod client_libs;
mod codegen;
mod compilers;
mod conformance;
mod demo;
mod dist;
mod docs;
mod echo;
mod env;
mod examples;
mod exports;
mod foreign;
mod fuzz;
mod gpu;
mod local_server;
mod local_worker;
mod lock;
mod picture;
mod provider_lib;
mod ptxas;
mod pyflame;
mod repo;
mod sample;
mod setup;
mod stamp;
mod step;
mod system;
mod test;
mod tidy;
mod toolchain;
mod torch;
mod tree;
mod tutorial;
mod ui;
mod venv;
mod windows;
mod worker_sessions;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Set up, build, demonstrate and check Remora.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the compilers and unpack the HIP headers and libraries that the examples and tests need
    Setup,
    /// Build the `remora` program, the drop-in client libraries and the provider library
    Build(build::Arguments),
    /// Set up, build, and run every example program on software GPUs, or on an NVIDIA GPU
    Demo(demo::Arguments),
    /// Set up, build, and run all checks
    Test,
    /// Measure the overhead of remoting and the speed of the software GPU
    Bench(bench::Arguments),
    /// Check licences, sources and published vulnerabilities of all dependencies against deny.toml
    Audit(audit::Arguments),
    /// Build the fuzz targets and run them
    Fuzz(fuzz::Arguments),
    /// Draw an SVG picture: a trace, or a terminal
    #[command(subcommand)]
    Picture(picture::Picture),
    /// Build pyflame's wheel, into target/wheels
    Wheel,
    /// Build the documentation as a site with search, into target/docs/book
    Docs(docs::Arguments),
    /// Build the packages of a release, with checksums and a bill of materials, into target/dist
    Dist(dist::Arguments),
    /// Build the client libraries for Windows, into target/windows
    Windows,
    /// Generate the pages that are derived from tables in the code
    Codegen(codegen::Arguments),
    /// Run the examples, the behaviour suite and the bench on an NVIDIA GPU
    #[command(subcommand)]
    Gpu(gpu::Task),
    /// Check style, crate dependencies and lints
    Tidy,
    /// Run programs of other projects against the client library
    Conformance(conformance::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    let repo = repo::Repo::find()?;
    match task {
        Task::Gpu(task) => gpu::run(&repo, &task),
        Task::Setup => setup::run(&repo).map(drop),
        Task::Build(arguments) => build::run(&repo, &arguments).map(drop),
        Task::Demo(demo::Arguments { bundle: Some(folder), backend }) => gpu::demo(&folder, backend),
        Task::Demo(arguments) => demo::run(&repo, &arguments),
        Task::Test => test::run(&repo),
        Task::Bench(arguments) => bench::run(&repo, &arguments),
        Task::Audit(arguments) => audit::run(&repo, &arguments).map(|note| step::progress(&note)),
        Task::Fuzz(arguments) => fuzz::run(&repo, &arguments),
        Task::Picture(picture) => picture::run(&repo, &picture),
        Task::Wheel => {
            pyflame::wheel(&repo).map(|wheel| step::progress(&format!("wheel: {}", wheel.display())))
        }
        Task::Docs(arguments) => docs::run(&repo, &arguments),
        Task::Dist(arguments) => dist::run(&repo, &arguments).map(drop),
        Task::Windows => windows::build(&repo).map(drop),
        Task::Codegen(arguments) => codegen::run(&repo, &arguments),
        Task::Tidy => tidy::run(&repo).map(drop),
        Task::Conformance(arguments) => conformance::run(&repo, &arguments),
    }
}
