//! The packages of `cargo xtask dist`, each tried where a user would install it: in a bare tree of a Debian release.

mod compiler;
mod debs;
mod images;
mod tarball;
mod wheels;
mod windows;

use crate::build;
use crate::dist;
use crate::examples;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use crate::tree::{self, Tree};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only trials whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Try the packages that are in target/dist, instead of building them
    #[arg(long)]
    built: bool,
}

/// What a trial needs.
#[derive(Debug)]
struct Bench<'a> {
    repo: &'a Repo,
    toolchain: &'a Toolchain,
    /// The folder of the packages.
    packages: PathBuf,
    /// A precompiled HIP program for both architectures.
    program: PathBuf,
}

/// What a trial does. It returns what it found.
type Action = Box<dyn Fn(&Bench<'_>) -> Result<String>>;

/// The releases that Debian packages are tried in.
const RELEASES: &[&str] = &["bookworm", "trixie", "sid"];
/// The releases that the tarball and the wheels are tried in, and whether [`PROGRAM`] runs there, which is compiled for Debian 12.
const LOOSE: &[(&str, bool)] =
    &[("bullseye", false), ("bookworm", true), ("trixie", true), ("testing", true)];
/// The program that is run after an installation.
const PROGRAM: &str = "saxpy";
/// The longest time from the end of an installation to the end of the first program.
const FIRST_RUN: Duration = Duration::from_secs(10);

pub fn run(repo: &Repo, toolchain: &Toolchain, arguments: &Arguments) -> Result<()> {
    tree::require_root()?;
    let packages = match arguments.built {
        true => dist::folder(repo),
        false => reproduced(repo)?,
    };
    let bench = Bench { repo, toolchain, packages, program: program(repo, toolchain, PROGRAM)? };
    let wanted = |name: &str| arguments.filter.as_deref().is_none_or(|text| name.contains(text));
    let mut failed = Vec::new();
    step::heading("trials of the packages");
    for (name, trial) in trials().into_iter().filter(|(name, _)| wanted(name)) {
        match trial(&bench) {
            Ok(found) => println!("ok      {name}: {found}"),
            Err(error) => {
                println!("FAILED  {name}: {error:#}");
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("{} trials failed: {}", failed.len(), failed.join(", "));
    }
    Ok(())
}

/// Compiles an example that is run after an installation.
fn program(repo: &Repo, toolchain: &Toolchain, name: &str) -> Result<PathBuf> {
    let set = examples::Set {
        title: "the program of the trials",
        sources: vec![repo.root.join("examples/hip").join(format!("{name}.hip"))],
        folder: repo.target.join("examples/hip"),
        header: examples::header(repo),
        options: Vec::new(),
    };
    let built = build::earlier(repo);
    let compiled = examples::compile_set(toolchain, &built, &set)?;
    compiled.into_iter().next().map(|example| example.program).context("the program was not compiled")
}

/// Every trial, with its name.
fn trials() -> Vec<(String, Action)> {
    let mut trials = Vec::new();
    let mut add = |name: String, trial: Action| trials.push((name, trial));
    add("debs: lintian".to_owned(), Box::new(debs::lintian));
    for release in RELEASES {
        add(format!("debs: {release}"), Box::new(|bench| debs::install_and_purge(bench, release)));
    }
    for release in RELEASES {
        add(format!("compiler: {release}"), Box::new(|bench| compiler::install_and_compile(bench, release)));
    }
    for (release, is_new) in LOOSE {
        add(
            format!("tarball: {release}"),
            Box::new(|bench| tarball::unpack_and_run(bench, release, *is_new)),
        );
    }
    add("wheels: audit".to_owned(), Box::new(wheels::audit));
    for (release, is_new) in LOOSE {
        add(format!("wheels: {release}"), Box::new(|bench| wheels::install_and_use(bench, release, *is_new)));
    }
    add("wheels: training".to_owned(), Box::new(wheels::train));
    add("bill of materials".to_owned(), Box::new(wheels::bill_of_materials));
    add("image: worker".to_owned(), Box::new(images::worker));
    add(
        "image: worker for AMD GPUs".to_owned(),
        Box::new(|bench| {
            images::without_gpu(
                bench,
                "remora-worker-rocm",
                &["loaded /usr/lib/x86_64-linux-gnu/libamdhip64.so.6", "hipErrorNoDevice"],
            )
        }),
    );
    add(
        "image: worker for NVIDIA GPUs".to_owned(),
        Box::new(|bench| {
            images::without_gpu(bench, "remora-worker-cuda", &["cannot load NVIDIA's driver library"])
        }),
    );
    add("image: board".to_owned(), Box::new(images::board));
    add(
        "image: client".to_owned(),
        Box::new(|bench| images::copied(bench, "remora-client", "/remora", "lib/libamdhip64.so.6")),
    );
    add(
        "image: provider".to_owned(),
        Box::new(|bench| {
            images::copied(bench, "remora-provider", "/run/remora", "lib/libaccelerator_amd.so")
        }),
    );
    add("chart".to_owned(), Box::new(chart));
    add("zip: wine".to_owned(), Box::new(windows::unpack_and_run));
    trials
}

/// The packed chart has the files that `cargo xtask conformance deploy` checks, and helm reads it.
fn chart(bench: &Bench<'_>) -> Result<String> {
    let package = dist::only(&bench.packages, ".tgz")?;
    let tree = Tree::empty(&bench.repo.downloads.join(format!("trees/chart.{}", std::process::id())))?;
    tree.unpack(&package)?;
    let mut diff = Command::new("diff");
    diff.arg("-r").arg(bench.repo.root.join("deploy/helm/remora")).arg(tree.root().join("remora"));
    step::output(&mut diff)?;
    let helm = super::helm(bench.repo)?;
    step::output(Command::new(&helm).args(["lint", "--strict"]).arg(&package))?;
    let objects = step::output(Command::new(&helm).args(["template", "trial"]).arg(&package))?;
    let count = objects.lines().filter(|line| line.starts_with("kind: ")).count();
    if count == 0 {
        bail!("helm template made no objects");
    }
    Ok(format!("its files are those of deploy/helm/remora; helm lint and template make {count} objects"))
}

/// Builds the packages twice, images too; the bytes must be the same.
fn reproduced(repo: &Repo) -> Result<PathBuf> {
    let arguments = dist::Arguments::default();
    let first = dist::run(repo, &arguments).and_then(|folder| dist::sums(&folder))?;
    let folder = dist::run(repo, &arguments)?;
    let second = dist::sums(&folder)?;
    let differences: Vec<&str> =
        second.lines().filter(|line| !first.lines().any(|other| other == *line)).collect();
    if !differences.is_empty() {
        bail!("a second run made other packages:\n{}", differences.join("\n"));
    }
    println!("ok      two runs make the same {} files, byte for byte", second.lines().count());
    Ok(folder)
}
