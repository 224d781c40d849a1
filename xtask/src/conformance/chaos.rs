//! Programs of five kinds on three workers, while a seeded script disturbs workers, connections and processes. Every digest is
//! compared with that of an undisturbed run.

mod event;
mod fleet;
mod program;

use crate::build::Built;
use crate::examples;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use event::Event;
use fleet::Fleet;
use program::{KINDS, Running};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Number of disturbances
    #[arg(long, default_value_t = 1000)]
    events: u32,
    /// The same seed gives the same sequence of disturbances
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds of each program
    #[arg(long, default_value_t = 400)]
    rounds: u32,
}

impl Arguments {
    /// A run of a few seconds.
    pub fn short() -> Arguments {
        Arguments { events: 30, seed: 1, rounds: 120 }
    }
}

/// Timeout: every program must print progress within this time.
const STANDSTILL: Duration = Duration::from_secs(60);

pub fn run(repo: &Repo, toolchain: &Toolchain, built: &Built, arguments: &Arguments) -> Result<()> {
    let program = compile(repo, toolchain, built)?;
    let folder = repo.target.join("chaos");
    crate::foreign::remove(&folder)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut fleet = Fleet::start(&built.remora, &folder)?;
    step::heading("undisturbed runs");
    let mut wanted = BTreeMap::new();
    for kind in KINDS {
        let run = Running::start(&program, &built.lib, kind, arguments.rounds, &fleet.list(0), &folder)?;
        let digest = run.finish(STANDSTILL)?;
        step::progress(&format!("{kind}: {digest}"));
        wanted.insert(*kind, digest);
    }
    step::heading(&format!("{} disturbances, seed {}", arguments.events, arguments.seed));
    let mut random = Random(arguments.seed);
    let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
    let mut finished: BTreeMap<&str, u32> = BTreeMap::new();
    let mut longest = Duration::ZERO;
    let mut programs: Vec<Running> = Vec::new();
    let begin = Instant::now();
    for number in 0..arguments.events {
        // Every kind is always running.
        for kind in KINDS {
            if !programs.iter().any(|running| running.kind == *kind) {
                let list = fleet.list(random.below(fleet.len()));
                programs.push(Running::start(&program, &built.lib, kind, arguments.rounds, &list, &folder)?);
            }
        }
        let event = Event::choose(&mut random, fleet.len(), programs.len());
        *counts.entry(event.name()).or_default() += 1;
        let note = event.apply(&mut fleet, &programs)?;
        if number % 25 == 0 {
            let seconds = step::seconds(begin.elapsed());
            step::progress(&format!("[{number}/{}] {note} ({seconds})", arguments.events));
        }
        std::thread::sleep(Duration::from_millis(random.below(250) as u64));
        for running in &mut programs {
            longest = longest.max(running.advance(STANDSTILL)?);
        }
        let mut index = 0;
        while index < programs.len() {
            if !programs[index].has_ended()? {
                index += 1;
                continue;
            }
            let ended = programs.swap_remove(index);
            let kind = ended.kind;
            check(&wanted, kind, &ended.finish(STANDSTILL)?, arguments, number)?;
            *finished.entry(kind).or_default() += 1;
        }
    }
    fleet.calm();
    for running in programs {
        let kind = running.kind;
        check(&wanted, kind, &running.finish(STANDSTILL)?, arguments, arguments.events)?;
        *finished.entry(kind).or_default() += 1;
    }
    step::heading("result");
    let list = |counts: &BTreeMap<&str, u32>| {
        counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    };
    step::progress(&format!("disturbances: {}", list(&counts)));
    step::progress(&format!("programs with the right digest: {}", list(&finished)));
    step::progress(&format!("the longest time without progress of a program: {}", step::seconds(longest)));
    Ok(())
}

fn check(
    wanted: &BTreeMap<&str, String>,
    kind: &str,
    digest: &str,
    arguments: &Arguments,
    event: u32,
) -> Result<()> {
    match wanted.get(kind) {
        Some(right) if right == digest => Ok(()),
        right => bail!(
            "{kind} computed {digest}, not {right:?}, up to disturbance {event} of --seed {}",
            arguments.seed
        ),
    }
}

fn compile(repo: &Repo, toolchain: &Toolchain, built: &Built) -> Result<PathBuf> {
    let set = examples::Set {
        title: "the program",
        sources: vec![repo.root.join("e2e/programs/endures.hip")],
        folder: repo.target.join("chaos-programs"),
        header: examples::header(repo),
        options: vec![format!("-I{}", repo.root.join("examples/hip").display())],
    };
    let compiled = examples::compile_set(toolchain, built, &set)?;
    compiled.into_iter().next().map(|example| example.program).context("the program was not compiled")
}

/// A generator with a fixed sequence for each seed (SplitMix64).
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((it ^ (it >> 31)) % limit.max(1) as u64) as usize
    }
}
