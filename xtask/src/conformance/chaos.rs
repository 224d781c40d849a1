//! Programs of five kinds on three workers and two agents, while a seeded script disturbs workers, agents, connections, disks and
//! processes. Every digest is compared with that of an undisturbed run.

mod agents;
mod disk;
mod event;
mod fleet;
mod listening;
mod program;

use crate::build::Built;
use crate::examples;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use agents::Agents;
use anyhow::{Context, Result, bail};
use event::Event;
use fleet::Fleet;
use program::{Ended, KINDS, Running, Setup, Target};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
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

/// Number of programs that run at the same time: one of each kind on the workers, and two on the agents.
const PROGRAMS: usize = 7;
/// Timeout: every program must print progress within this time.
const STANDSTILL: Duration = Duration::from_secs(60);

pub fn run(repo: &Repo, toolchain: &Toolchain, built: &Built, arguments: &Arguments) -> Result<()> {
    let folder = repo.target.join("chaos");
    crate::foreign::remove(&folder)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let setup = Setup {
        program: compile(repo, toolchain, built)?,
        libraries: built.lib.clone(),
        rounds: arguments.rounds,
        logs: folder.clone(),
    };
    let mut fleet = Fleet::start(&built.remora, &folder)?;
    let mut agents = Agents::start(&built.remora, &folder)?;
    step::heading("undisturbed runs");
    let mut tally = Tally::default();
    for kind in KINDS {
        let on = Target::Workers { list: fleet.list(0), failover: false };
        let digest = Running::start(&setup, kind, &on)?.finish(STANDSTILL)?.digest;
        step::progress(&format!("{kind}: {digest}"));
        tally.wanted.insert(kind, digest);
    }
    step::heading(&format!("{} disturbances, seed {}", arguments.events, arguments.seed));
    let mut random = Random(arguments.seed);
    let mut events = File::create(folder.join("events.log")).context("cannot write the log of events")?;
    let mut programs: Vec<Running> = Vec::new();
    let begin = Instant::now();
    for number in 0..arguments.events {
        let context = || format!("at disturbance {number} of --seed {}", arguments.seed);
        while programs.len() < PROGRAMS {
            programs.push(start(&mut random, &setup, &fleet, &agents, &programs).with_context(context)?);
        }
        let event = Event::choose(&mut random, fleet.len(), agents.len(), programs.len());
        let happened = event.apply(&mut fleet, &mut agents, &programs).with_context(context)?;
        *tally.events.entry(if happened { event.name() } else { "without a target" }).or_default() += 1;
        let seconds = step::seconds(begin.elapsed());
        let effect = if happened { "" } else { ", without a target" };
        writeln!(events, "{seconds}: {number} {event:?}{effect}")
            .context("cannot write the log of events")?;
        if number % 25 == 0 {
            step::progress(&format!("[{number}/{}] {event:?} ({seconds})", arguments.events));
        }
        std::thread::sleep(Duration::from_millis(random.below(250) as u64));
        for running in &mut programs {
            tally.longest = tally.longest.max(running.advance(STANDSTILL).with_context(context)?);
        }
        let mut index = 0;
        while index < programs.len() {
            match programs[index].has_ended()? {
                true => tally.finish(programs.swap_remove(index)).with_context(context)?,
                false => index += 1,
            }
        }
    }
    fleet.calm();
    for running in programs {
        tally
            .finish(running)
            .with_context(|| format!("after all disturbances of --seed {}", arguments.seed))?;
    }
    tally.print();
    Ok(())
}

/// Starts a program. Every kind always runs on the workers, three of four with failover, and the rest on allocations of the agents.
fn start(
    random: &mut Random,
    setup: &Setup,
    fleet: &Fleet,
    agents: &Agents,
    programs: &[Running],
) -> Result<Running> {
    let (worker, failover) = (random.below(fleet.len()), random.below(4) > 0);
    let (allocation, any) = (random.below(agents.len()), KINDS[random.below(KINDS.len())]);
    match KINDS.iter().find(|kind| !programs.iter().any(|it| it.kind == **kind && !it.is_on_agent)) {
        Some(kind) => Running::start(setup, kind, &Target::Workers { list: fleet.list(worker), failover }),
        None => Running::start(setup, any, &Target::Allocation { url: agents.url(allocation)? }),
    }
}

/// What has happened.
#[derive(Debug, Default)]
struct Tally {
    /// Digests of undisturbed runs.
    wanted: BTreeMap<&'static str, String>,
    events: BTreeMap<&'static str, u32>,
    finished: BTreeMap<&'static str, u32>,
    longest: Duration,
    recoveries: Vec<f64>,
}

impl Tally {
    /// Waits for the end of a program and compares its digest.
    fn finish(&mut self, running: Running) -> Result<()> {
        let kind = running.kind;
        let Ended { digest, recoveries } = running.finish(STANDSTILL)?;
        if self.wanted.get(kind) != Some(&digest) {
            bail!("{kind} computed {digest}, not {:?}", self.wanted.get(kind));
        }
        *self.finished.entry(kind).or_default() += 1;
        self.recoveries.extend(recoveries);
        Ok(())
    }

    fn print(&mut self) {
        step::heading("result");
        let list = |counts: &BTreeMap<&str, u32>| {
            counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        step::progress(&format!("disturbances: {}", list(&self.events)));
        step::progress(&format!("programs with the right digest: {}", list(&self.finished)));
        let longest = step::seconds(self.longest);
        step::progress(&format!("the longest time without progress of a program: {longest}"));
        self.recoveries.sort_by(f64::total_cmp);
        let at = |part: f64| self.recoveries[((self.recoveries.len() - 1) as f64 * part) as usize];
        if !self.recoveries.is_empty() {
            let count = self.recoveries.len();
            let (median, most) = (at(0.5), at(1.0));
            step::progress(&format!(
                "failovers: {count}, replay took {median:.1} s (median), {most:.1} s (longest)"
            ));
        }
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
