//! Disturbances.

use super::Random;
use super::agents::Agents;
use super::fleet::Fleet;
use super::program::Running;
use anyhow::Result;
use std::time::Duration;

/// A disturbance of a worker, an agent or a program, by its index.
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
    /// All processes of a worker are killed, and it is started again.
    Crash { worker: usize },
    /// The process of a program's session is killed.
    KillExecutor { program: usize },
    /// A worker replaces its program in place.
    Upgrade { worker: usize },
    /// A program's session moves to a worker.
    Migrate { program: usize, worker: usize },
    /// All processes of a worker stand still for a while.
    PauseWorker { worker: usize, time: Duration },
    /// A program stands still for a while.
    PauseProgram { program: usize, time: Duration },
    /// The disk of a worker's checkpoints is full for a while.
    FillDisk { worker: usize, time: Duration },
    /// An agent is killed and started again.
    KillAgent { agent: usize },
    /// An agent is terminated with its workers and started again.
    RestartAgent { agent: usize },
    /// An agent's allocations move to the other one.
    Drain { agent: usize },
}

impl Event {
    /// The next event of a sequence.
    pub fn choose(random: &mut Random, workers: usize, agents: usize, programs: usize) -> Event {
        let (worker, program) = (random.below(workers), random.below(programs));
        let (agent, time) = (random.below(agents), Duration::from_millis(100 + random.below(3000) as u64));
        match random.below(32) {
            0..=5 => Event::Cut { worker },
            6 => Event::Blackhole { worker, time },
            7..=8 => Event::Restart { worker },
            9..=12 => Event::Migrate { program, worker },
            13 => Event::PauseWorker { worker, time: time / 2 },
            14..=15 => Event::Kill { worker },
            16 => Event::Upgrade { worker },
            17..=20 => Event::KillExecutor { program },
            21..=22 => Event::Crash { worker },
            23..=24 => Event::FillDisk { worker, time },
            25..=26 => Event::KillAgent { agent },
            27 => Event::RestartAgent { agent },
            28..=29 => Event::Drain { agent },
            _ => Event::PauseProgram { program, time: time / 4 },
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Event::Cut { .. } => "cuts",
            Event::Blackhole { .. } => "silences",
            Event::Restart { .. } => "restarts",
            Event::Kill { .. } => "killed supervisors",
            Event::Crash { .. } => "crashes of a whole worker",
            Event::KillExecutor { .. } => "killed executors",
            Event::Upgrade { .. } => "upgrades in place",
            Event::Migrate { .. } => "migrations",
            Event::PauseWorker { .. } => "paused workers",
            Event::PauseProgram { .. } => "paused programs",
            Event::FillDisk { .. } => "full disks",
            Event::KillAgent { .. } => "killed agents",
            Event::RestartAgent { .. } => "restarted agents",
            Event::Drain { .. } => "drained agents",
        }
    }

    /// Makes it happen. Returns false if it had no target: a program without failover, or one that has no session here.
    pub fn apply(self, fleet: &mut Fleet, agents: &mut Agents, programs: &[Running]) -> Result<bool> {
        let can_fail_over =
            |pid: u32| programs.iter().any(|running| running.pid() == pid && running.can_fail_over);
        match self {
            Event::Cut { worker } => fleet.cut(worker).map(|()| true),
            Event::Restart { worker } => fleet.restart(worker, libc::SIGTERM).map(|()| true),
            Event::Kill { worker } => fleet.restart(worker, libc::SIGKILL).map(|()| true),
            Event::Crash { worker } => fleet.crash(worker, can_fail_over),
            Event::KillExecutor { program } if programs[program].can_fail_over => {
                fleet.kill_executor(programs[program].pid())
            }
            Event::KillExecutor { .. } => Ok(false),
            Event::Migrate { program, worker } => fleet.migrate(programs[program].pid(), worker),
            Event::FillDisk { worker, time } => Ok(fleet.fill_disk(worker, time)),
            Event::KillAgent { agent } => agents.restart(agent, libc::SIGKILL).map(|()| true),
            Event::RestartAgent { agent } => agents.restart(agent, libc::SIGTERM).map(|()| true),
            Event::Drain { agent } => agents.drain(agent).map(|()| true),
            Event::Blackhole { worker, time } => {
                fleet.silence(worker, time);
                Ok(true)
            }
            Event::Upgrade { worker } => {
                fleet.upgrade(worker);
                Ok(true)
            }
            Event::PauseWorker { worker, time } => {
                fleet.pause(worker, time);
                Ok(true)
            }
            Event::PauseProgram { program, time } => {
                programs[program].pause(time);
                Ok(true)
            }
        }
    }
}
