//! Debian's librocrand and every test program of its `-tests` package, unmodified, on an emulated MI210.

use super::gtest;
use super::tally::{Known, Row, Tally};
use super::userland::{Package, Userland};
use super::{PROGRAM_LIMIT, Selection};
use crate::build::Built;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::time::Instant;

const PACKAGES: &[Package] = &[
    Package::whole("libc6"),
    Package::whole("libgcc-s1"),
    Package::whole("libstdc++6"),
    Package::whole("librocrand1"),
    Package::whole("librocrand1-tests"),
];

const FOLDER: &str = "usr/libexec/rocm/librocrand1-tests";

/// What `--quick` runs of which program: every kind of generator, kernel and distribution once.
const QUICK: &[(&str, &str)] = &[
    ("test_cpp_utils", "*"),
    ("test_log_normal_distribution", "*"),
    ("test_normal_distribution", "*"),
    ("test_rocrand_basic", "*"),
    ("test_rocrand_generate", "*"),
    ("test_rocrand_generate_poisson", "*"),
    ("test_rocrand_generate_uniform", "*"),
    ("test_rocrand_generator_type", "*"),
    ("test_rocrand_kernel_philox4x32_10", "*"),
    ("test_rocrand_kernel_sobol64", "*"),
    ("test_rocrand_linkage", "*"),
    ("test_uniform_distribution", "*"),
];

pub fn run(repo: &Repo, built: &Built, selection: &Selection) -> Result<()> {
    let userland = Userland::unpack(repo, "rocrand", PACKAGES)?;
    let programs = programs(&userland)?;
    step::say(&format!("rocRAND: {} test programs", programs.len()));
    let mut tally = Tally::default();
    for program in programs {
        let quick = QUICK.iter().find(|(name, _)| *name == program).map(|(_, filter)| *filter);
        if !selection.takes(&program) || (selection.quick && quick.is_none()) {
            continue;
        }
        let mut command = userland.command(built, super::MODEL, &format!("{FOLDER}/{program}"));
        if let Some(filter) = quick.filter(|_| selection.quick) {
            command.arg(format!("--gtest_filter={filter}"));
        }
        let log = repo.logs().join(format!("rocrand/{program}.log"));
        let started = Instant::now();
        let verdict = gtest::run(&program, &mut command, &log, PROGRAM_LIMIT)?;
        let (passed, skipped, failed) = (verdict.passed, verdict.skipped, verdict.failed);
        tally.add(Row { program, passed, skipped, failed, time: started.elapsed() });
    }
    tally.finish(KNOWN)
}

fn programs(userland: &Userland) -> Result<Vec<String>> {
    let folder = userland.path(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("test_"))
        .collect();
    names.sort();
    if names.is_empty() {
        bail!("there are no test programs in {}", folder.display());
    }
    Ok(names)
}

const KNOWN: &[Known] = &[];
