//! Disturbances.

use super::Random;
use super::fleet::Fleet;
use super::program::Running;
use anyhow::Result;
use std::time::Duration;

/// A disturbance of a worker or a program, by its index.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// All connections to a worker break.
    Cut { worker: usize },
    /// A worker's connections stay open but carry no data for a while.
    Blackhole { worker: usize, time: Duration },
    /// A worker is terminated and started again.
    Restart { worker: usize },
    /// A worker's supervisor is killed, and another one started.
    Kill { worker: usize },
    /// A worker replaces its program in place.
    Upgrade { worker: usize },
    /// A program's session moves to a worker.
    Migrate { program: usize, worker: usize },
    /// All processes of a worker stand still for a while.
    PauseWorker { worker: usize, time: Duration },
    /// A program stands still for a while.
    PauseProgram { program: usize, time: Duration },
}

impl Event {
    /// The next event of a sequence.
    pub fn choose(random: &mut Random, workers: usize, programs: usize) -> Event {
        let (worker, program) = (random.below(workers), random.below(programs));
        let time = Duration::from_millis(100 + random.below(3000) as u64);
        match random.below(19) {
            0..=5 => Event::Cut { worker },
            6 => Event::Blackhole { worker, time },
            7..=8 => Event::Restart { worker },
            9..=12 => Event::Migrate { program, worker },
            13 => Event::PauseWorker { worker, time: time / 2 },
            14 | 15 => Event::Kill { worker },
            16 => Event::Upgrade { worker },
            _ => Event::PauseProgram { program, time: time / 4 },
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Event::Cut { .. } => "cuts",
            Event::Blackhole { .. } => "silences",
            Event::Restart { .. } => "restarts",
            Event::Kill { .. } => "killed supervisors",
            Event::Upgrade { .. } => "upgrades in place",
            Event::Migrate { .. } => "migrations",
            Event::PauseWorker { .. } => "paused workers",
            Event::PauseProgram { .. } => "paused programs",
        }
    }

    /// Makes it happen. Returns what happened.
    pub fn apply(self, fleet: &mut Fleet, programs: &[Running]) -> Result<String> {
        Ok(match self {
            Event::Cut { worker } => {
                fleet.cut(worker)?;
                format!("connections to worker {worker} cut")
            }
            Event::Blackhole { worker, time } => {
                fleet.silence(worker, time);
                format!("worker {worker} silent for {time:?}")
            }
            Event::Restart { worker } => {
                let time = fleet.restart(worker)?;
                format!("worker {worker} restarted, its end took {time:?}")
            }
            Event::Kill { worker } => {
                fleet.kill(worker)?;
                format!("supervisor of worker {worker} killed and replaced")
            }
            Event::Upgrade { worker } => {
                fleet.upgrade(worker);
                format!("worker {worker} told to replace its program")
            }
            Event::Migrate { program, worker } => {
                let pid = programs[program].pid();
                let moved = fleet.migrate(pid, worker)?;
                format!("{} {moved}", programs[program].kind)
            }
            Event::PauseWorker { worker, time } => {
                fleet.pause(worker, time)?;
                format!("worker {worker} paused for {time:?}")
            }
            Event::PauseProgram { program, time } => {
                programs[program].pause(time);
                format!("{} paused for {time:?}", programs[program].kind)
            }
        })
    }
}
