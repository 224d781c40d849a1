//! A Debian library and the test programs of its `-tests` package.

use super::gtest::{self, Limits, Tests};
use super::tally::{Known, Row, Tally};
use super::userland::{Package, Userland};
use super::{MODEL, Selection};
use crate::build::Built;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

#[derive(Debug)]
pub struct Library {
    /// The name in commands and folders.
    pub name: &'static str,
    /// Packages in addition to the C and C++ libraries that every program needs.
    pub packages: &'static [Package],
    /// The folder of the programs.
    pub folder: &'static str,
    /// Name prefixes of the programs in the folder.
    pub programs: &'static [&'static str],
    /// A file that is passed to every program with `--data`.
    pub data: Option<&'static str>,
    pub framework: Framework,
    /// The programs that `--quick` runs, and their test filters.
    pub quick: &'static [(&'static str, &'static str)],
    pub left_out: &'static [LeftOut],
    pub known: &'static [Known],
}

/// Where the programs of a library run.
#[derive(Debug)]
pub struct Site<'a> {
    pub userland: &'a Userland,
    pub built: &'a Built,
    /// Address of a worker; without one, each program has a software GPU.
    pub worker: Option<SocketAddr>,
    pub logs: &'a Path,
}

/// The test framework of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    GoogleTest,
    Thrust,
}

/// Tests that take hours or crash the program; only run on request.
#[derive(Debug, Clone, Copy)]
pub enum LeftOut {
    /// Suites whose line in a program's listing contains this text, in all programs.
    Suites(&'static str),
    /// Tests of a program, as filter patterns.
    Tests(&'static str, &'static [&'static str]),
    /// Filter patterns for all programs.
    Everywhere(&'static [&'static str]),
    /// Tests of Thrust's framework whose names contain this text, in all programs.
    Named(&'static str),
}

/// Packages that every program needs.
const BASE: &[Package] =
    &[Package::whole("libc6"), Package::whole("libgcc-s1"), Package::whole("libstdc++6")];

impl Library {
    pub fn unpack(&self, repo: &Repo) -> Result<Userland> {
        let packages: Vec<Package> = BASE.iter().chain(self.packages).copied().collect();
        Userland::unpack(repo, self.name, &packages)
    }

    /// The paths of the programs of the short selection, below the folder of the packages.
    pub fn short(&self) -> Vec<String> {
        self.quick.iter().map(|(program, _)| format!("{}/{program}", self.folder)).collect()
    }

    /// Runs the selected programs on software GPUs, and adds their results.
    pub fn run(
        &self,
        repo: &Repo,
        built: &Built,
        selection: &Selection,
        limits: Limits,
        tally: &mut Tally,
    ) -> Result<()> {
        let userland = self.unpack(repo)?;
        let site = Site { userland: &userland, built, worker: None, logs: &repo.logs() };
        self.run_at(&site, selection, limits, tally)
    }

    /// Runs the selected programs of an unpacked library, and adds their results.
    pub fn run_at(
        &self,
        site: &Site<'_>,
        selection: &Selection,
        limits: Limits,
        tally: &mut Tally,
    ) -> Result<()> {
        let programs = self.programs(site.userland)?;
        step::heading(&format!("{}: {} test programs", self.name, programs.len()));
        for program in programs {
            let quick = self.quick.iter().find(|(name, _)| *name == program).map(|(_, filter)| *filter);
            if !selection.takes(&program) || (selection.quick && quick.is_none()) {
                continue;
            }
            let mut names = Vec::new();
            let mut filter = quick.filter(|_| selection.quick).unwrap_or("*").to_owned();
            if !selection.slow {
                match self.slow(&program, || self.listing(site, &program))? {
                    Slow::Everything => {
                        step::progress(&format!("{program}: skipped, all of it takes hours"));
                        continue;
                    }
                    Slow::Patterns(patterns) if patterns.is_empty() => {}
                    Slow::Patterns(patterns) if self.framework == Framework::Thrust => {
                        step::progress(&format!("{program}: skipped: {}", patterns.join(" ")));
                        names = others(&self.listing(site, &program)?, &patterns);
                    }
                    Slow::Patterns(patterns) => {
                        step::progress(&format!("{program}: skipped: {}", patterns.join(" ")));
                        filter = gtest::without(&filter, &patterns);
                    }
                }
            }
            let log = site.logs.join(format!("{}/{program}.log", self.name));
            let started = Instant::now();
            let command = || self.command(site, &program);
            let tests = match self.framework {
                Framework::GoogleTest => Tests::Filter(&filter),
                // Thrust's programs copy single elements, each with a round trip.
                Framework::Thrust => Tests::Sizes(if selection.slow { "default" } else { "small" }, &names),
            };
            let verdict = gtest::run(&program, command, tests, &log, limits)?;
            tally.add(Row::of(format!("{}: {program}", self.name), verdict, started.elapsed()));
        }
        Ok(())
    }

    fn command(&self, site: &Site<'_>, program: &str) -> Command {
        let path = format!("{}/{program}", self.folder);
        let mut command = match site.worker {
            Some(worker) => site.userland.command_on(site.built, worker, &path),
            None => site.userland.command(site.built, MODEL, &path),
        };
        if let Some(data) = self.data {
            command.arg("--data").arg(site.userland.path(data));
        }
        command
    }

    fn listing(&self, site: &Site<'_>, program: &str) -> Result<String> {
        let list = match self.framework {
            Framework::GoogleTest => "--gtest_list_tests",
            Framework::Thrust => "--list",
        };
        step::output(self.command(site, program).arg(list))
    }

    fn programs(&self, userland: &Userland) -> Result<Vec<String>> {
        let folder = userland.path(self.folder);
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| self.programs.iter().any(|start| name.starts_with(start)))
            .collect();
        names.sort();
        if names.is_empty() {
            bail!("there are no test programs in {}", folder.display());
        }
        Ok(names)
    }

    /// Returns the tests of a program that take hours.
    fn slow(&self, program: &str, listing: impl Fn() -> Result<String>) -> Result<Slow> {
        let mut patterns = Vec::new();
        for left_out in self.left_out {
            match *left_out {
                LeftOut::Suites(text) => {
                    let listing = listing()?;
                    let suites = suites(&listing, text);
                    if !suites.is_empty() && suites.iter().all(|(_, slow)| *slow) {
                        return Ok(Slow::Everything);
                    }
                    let slow = suites.iter().filter(|(_, slow)| *slow);
                    patterns.extend(slow.map(|(name, _)| format!("{name}*")));
                }
                LeftOut::Tests(name, tests) if name == program => {
                    patterns.extend(tests.iter().map(|test| (*test).to_owned()));
                }
                LeftOut::Tests(..) => {}
                LeftOut::Named(text) => {
                    let listing = listing()?;
                    let (slow, others): (Vec<&str>, Vec<&str>) =
                        listing.split_whitespace().partition(|name| name.contains(text));
                    if others.is_empty() && !slow.is_empty() {
                        return Ok(Slow::Everything);
                    }
                    patterns.extend(slow.into_iter().map(str::to_owned));
                }
                LeftOut::Everywhere(tests) => patterns.extend(tests.iter().map(|test| (*test).to_owned())),
            }
        }
        Ok(if patterns.iter().any(|pattern| pattern == "*") {
            Slow::Everything
        } else {
            Slow::Patterns(patterns)
        })
    }
}

/// The tests of a program that take hours.
enum Slow {
    Everything,
    Patterns(Vec<String>),
}

/// The tests in a listing of Thrust's framework, without the slow ones.
fn others(listing: &str, slow: &[String]) -> Vec<String> {
    let names =
        listing.split_whitespace().filter(|name| name.starts_with(|first: char| first.is_alphabetic()));
    names.filter(|name| !slow.iter().any(|it| it == name)).map(str::to_owned).collect()
}

/// The suites in a listing, with the dot at their end, and whether the line of each contains `text`.
fn suites<'a>(listing: &'a str, text: &str) -> Vec<(&'a str, bool)> {
    let lines = listing.lines().filter(|line| !line.starts_with(' '));
    lines
        .filter_map(|line| {
            let name = line.split_whitespace().next()?;
            name.ends_with('.').then(|| (name, line.contains(text)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_for_the_slow_engine_are_told_by_their_type() {
        let listing = "Running main() from gtest_main.cc\nbasic/0.  # TypeParam = xorwow_engine<0ull>\n  move\n\
                       basic/3.  # TypeParam = mt19937_engine<0ull>\n  move\n  mt19937_like\nplain.\n  one\n";
        let found = suites(listing, "mt19937");
        assert_eq!(found, [("basic/0.", false), ("basic/3.", true), ("plain.", false)]);
    }

    #[test]
    fn what_is_slow_is_left_out_of_a_list_of_names() {
        let listing = "TestEqual\nTestEqualWithBigIndexes\nTestEqualSimpleHost\n";
        let left = others(listing, &["TestEqualWithBigIndexes".to_owned()]);
        assert_eq!(left, ["TestEqual", "TestEqualSimpleHost"]);
    }
}
