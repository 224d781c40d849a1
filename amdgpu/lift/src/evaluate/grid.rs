//! Evaluation of a whole launch: the waves of a workgroup take turns.

use super::Fault;
use super::launch::{Launch, Stats};
use super::memory::Memory;
use super::wave::{Program, Stop, Surroundings, Wave};
use crate::form::{Function, Operation};

/// Instructions of a turn. A wave that waits for another one in a loop must give it a chance.
const TURN: u64 = 20_000;

/// A workgroup that runs.
struct Workgroup<'a> {
    local: Vec<u8>,
    waves: Vec<Wave<'a>>,
    stops: Vec<Stop>,
}

impl<'a> Workgroup<'a> {
    fn new(program: &'a Program<'a>, launch: &Launch, id: [u32; 3]) -> Workgroup<'a> {
        let count = launch.size(id).iter().product::<u32>().div_ceil(64);
        let waves = (0..count).map(|number| {
            let mut wave = Wave::new(program, id, number);
            wave.private = vec![vec![0; launch.private_bytes as usize]; 64];
            wave
        });
        Workgroup {
            local: vec![0; launch.lds_bytes as usize],
            waves: waves.collect(),
            stops: vec![Stop::Turn; count as usize],
        }
    }

    /// Gives every wave that can run a turn. Returns whether one ran.
    fn turn(&mut self, launch: &Launch, memory: &mut dyn Memory, stats: &mut Stats) -> Result<bool, Fault> {
        let mut ran = false;
        for (wave, stop) in self.waves.iter_mut().zip(&mut self.stops) {
            if *stop != Stop::Turn {
                continue;
            }
            let mut around = Surroundings { launch, local: &mut self.local, memory, stats };
            *stop = wave.run(&mut around, TURN)?;
            ran = true;
        }
        // Waves that have ended do not take part in a barrier.
        if self.stops.contains(&Stop::Barrier)
            && self.stops.iter().all(|stop| matches!(stop, Stop::Barrier | Stop::End))
        {
            self.release(Stop::Barrier);
            ran = true;
        }
        Ok(ran)
    }

    fn release(&mut self, at: Stop) {
        self.stops.iter_mut().filter(|stop| **stop == at).for_each(|stop| *stop = Stop::Turn);
    }

    fn ended(&self) -> bool {
        self.stops.iter().all(|stop| *stop == Stop::End)
    }
}

/// Runs a kernel to completion. Workgroups run one after the other, except that those of a function with a grid barrier take turns.
pub fn run(function: &Function, launch: &Launch, memory: &mut dyn Memory) -> Result<Stats, Fault> {
    let program = Program::new(function)?;
    let mut stats = Stats::default();
    let [x, y, z] = launch.workgroups();
    let ids = (0..z).flat_map(|c| (0..y).flat_map(move |b| (0..x).map(move |a| [a, b, c])));
    let together = function
        .blocks
        .iter()
        .flat_map(|block| &block.instructions)
        .any(|index| matches!(function.instructions[*index as usize].operation, Operation::GridBarrier));
    if !together {
        for id in ids {
            finish(&mut [Workgroup::new(&program, launch, id)], launch, memory, &mut stats)?;
        }
        return Ok(stats);
    }
    let mut groups: Vec<Workgroup> = ids.map(|id| Workgroup::new(&program, launch, id)).collect();
    finish(&mut groups, launch, memory, &mut stats)?;
    Ok(stats)
}

fn finish(
    groups: &mut [Workgroup],
    launch: &Launch,
    memory: &mut dyn Memory,
    stats: &mut Stats,
) -> Result<(), Fault> {
    while groups.iter().any(|group| !group.ended()) {
        let mut ran = false;
        for group in groups.iter_mut() {
            ran |= group.turn(launch, memory, stats)?;
        }
        // One wave of each workgroup arrives for all of them.
        let arrived = groups.iter().filter(|group| group.stops.contains(&Stop::GridBarrier)).count();
        if arrived == groups.len() {
            groups.iter_mut().for_each(|group| group.release(Stop::GridBarrier));
            ran = true;
        }
        if !ran {
            return Err(Fault::Barrier);
        }
    }
    Ok(())
}
