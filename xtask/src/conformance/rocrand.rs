//! Debian's librocrand and every test program of its `-tests` package, unmodified, on an emulated MI210.

use super::gtest;
use super::tally::{Known, Row, Tally};
use super::userland::{Package, Userland};
use super::{MODEL, PROGRAM_LIMIT, Selection};
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

/// The engine whose tests are left out unless asked for. To start it, a kernel moves thousands of generators apart by
/// polynomials of 19937 bits: a test that starts it twice had not ended after eight minutes of a core.
const SLOW_ENGINE: &str = "mt19937";

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
        let path = format!("{FOLDER}/{program}");
        let mut filter = quick.filter(|_| selection.quick).unwrap_or("*").to_owned();
        if !selection.slow {
            let listing = step::output(userland.command(built, MODEL, &path).arg("--gtest_list_tests"))?;
            let suites = suites(&listing);
            let slow: Vec<&str> = suites.iter().filter(|(_, slow)| *slow).map(|(name, _)| *name).collect();
            if slow.len() == suites.len() {
                step::detail(&format!("{program}: left out, all of it is for {SLOW_ENGINE}"));
                continue;
            }
            if !slow.is_empty() {
                step::detail(&format!("{program}: {} suites for {SLOW_ENGINE} are left out", slow.len()));
                filter.push('-');
                filter.push_str(&slow.iter().map(|name| format!("{name}*")).collect::<Vec<_>>().join(":"));
            }
        }
        let mut command = userland.command(built, MODEL, &path);
        command.arg(format!("--gtest_filter={filter}"));
        let log = repo.logs().join(format!("rocrand/{program}.log"));
        let started = Instant::now();
        let verdict = gtest::run(&program, &mut command, &log, PROGRAM_LIMIT)?;
        let (passed, skipped, failed) = (verdict.passed, verdict.skipped, verdict.failed);
        tally.add(Row { program, passed, skipped, failed, time: started.elapsed() });
    }
    tally.finish(KNOWN)
}

/// The suites in a listing, with the dot at their end, and whether each is for the slow engine.
fn suites(listing: &str) -> Vec<(&str, bool)> {
    let lines = listing.lines().filter(|line| !line.starts_with(' '));
    lines
        .filter_map(|line| {
            let name = line.split_whitespace().next()?;
            name.ends_with('.').then(|| (name, line.contains(SLOW_ENGINE)))
        })
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_for_the_slow_engine_are_told_by_their_type() {
        let listing = "Running main() from gtest_main.cc\nbasic/0.  # TypeParam = xorwow_engine<0ull>\n  move\n\
                       basic/3.  # TypeParam = mt19937_engine<0ull>\n  move\n  mt19937_like\nplain.\n  one\n";
        assert_eq!(suites(listing), [("basic/0.", false), ("basic/3.", true), ("plain.", false)]);
    }
}
