//! Replay of repeated sequences of launches as HIP graphs: one call submits all of them.
//!
//! A graph is identified by its kernels and the sizes of their launches. Arguments are not assumed to be equal: every word of
//! every launch is compared with the graph's, and differing nodes are updated first. So constants, addresses and seeds are always
//! the current ones, and a graph never touches freed memory that it was captured with.

use std::collections::HashMap;
use std::ffi::c_void;

use hip_api::types::{dim3, hipGraph_t, hipGraphExec_t, hipGraphNode_t, hipKernelNodeParams};
use tensor_core::error::DeviceError;

use crate::library::call;
use crate::source::Launch;
use crate::stream::Stream;

/// The shortest sequence that is replayed; shorter ones are launched one by one.
const SHORTEST: usize = 3;
/// The longest sequence that is replayed; no training step has as many launches.
const LONGEST: usize = 1 << 14;
/// The most graphs of one sequence: a step that writes its results to new memory and frees the old one gets the same addresses
/// again after about two rounds.
const PER_SEQUENCE: usize = 4;
/// The most sequences that are remembered.
const SEQUENCES: usize = 128;
/// The most graphs that exist at a time.
const GRAPHS: usize = 96;
/// A graph that was not used for this many rounds of its sequence may be evicted.
const PATIENCE: u64 = 8;

/// Replay counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayStatistics {
    /// Sequences captured as graphs.
    pub captured: u64,
    /// Graph launches.
    pub replays: u64,
    /// Kernels launched by graphs.
    pub replayed: u64,
    /// Kernels whose arguments were updated before a graph launch.
    pub updated: u64,
}

/// How a sequence was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Replayed,
    /// Not at all: the caller must launch the kernels one by one.
    Nothing,
}

/// One launch of a sequence, without its arguments. The function determines how many arguments there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    function: usize,
    groups: u32,
    threads: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Replays {
    sequences: HashMap<Vec<Shape>, Sequence>,
    turn: u64,
    graphs: usize,
    /// Set if the runtime does not support graphs, or not for these kernels.
    useless: bool,
    pub statistics: ReplayStatistics,
}

#[derive(Debug, Default)]
struct Sequence {
    used: u64,
    turns: u64,
    graphs: Vec<Graph>,
}

/// An executable graph, and its current arguments.
#[derive(Debug)]
struct Graph {
    template: usize,
    executable: usize,
    nodes: Vec<usize>,
    words: Vec<Vec<u64>>,
    /// The round of its sequence in which it last ran.
    used: u64,
}

/// What to do with a sequence this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Replay(usize),
    Capture,
    Launch,
}

impl Replays {
    /// Submits the launches as a graph if the sequence ran before. Their functions are in `functions`.
    pub(crate) fn begin(
        &mut self,
        stream: &Stream,
        launches: &[Launch],
        functions: &[usize],
    ) -> Result<Begun, DeviceError> {
        if self.useless || !(SHORTEST..=LONGEST).contains(&launches.len()) {
            return Ok(Begun::Nothing);
        }
        self.turn += 1;
        let key = key(launches, functions);
        let Some(sequence) = self.sequences.get_mut(&key) else {
            self.remember(stream, key);
            return Ok(Begun::Nothing);
        };
        sequence.used = self.turn;
        sequence.turns += 1;
        let chosen = match sequence.choose(launches) {
            Choice::Launch => {
                let gone = sequence.forget_useless();
                self.graphs -= gone.len();
                gone.iter().for_each(|graph| graph.destroy(stream));
                return Ok(Begun::Nothing);
            }
            Choice::Replay(number) => number,
            Choice::Capture => match Graph::capture(stream, launches, functions) {
                Ok(graph) => {
                    sequence.graphs.push(graph);
                    self.graphs += 1;
                    self.statistics.captured += 1;
                    sequence.graphs.len() - 1
                }
                Err(_) => {
                    // The cause does not matter: if the device failed, the individual launches report it.
                    self.useless = true;
                    return Ok(Begun::Nothing);
                }
            },
        };
        let (graph, turns) = (&mut sequence.graphs[chosen], sequence.turns);
        graph.used = turns;
        match graph.update(stream, launches, functions) {
            Ok(updated) => self.statistics.updated += updated,
            Err(_) => {
                // The update may be partial, so the graph is dropped.
                let graph = sequence.graphs.swap_remove(chosen);
                self.graphs -= 1;
                graph.destroy(stream);
                return Ok(Begun::Nothing);
            }
        }
        let launched = call!(
            stream.library,
            runtime.hipGraphLaunch(graph.executable as hipGraphExec_t, stream.handle())
        );
        if launched.is_err() {
            // It is unknown which kernels ran, so the launches are not repeated; later ones run one by one.
            self.useless = true;
            return launched.map(|()| Begun::Nothing);
        }
        self.statistics.replays += 1;
        self.statistics.replayed += launches.len() as u64;
        self.make_room(stream);
        Ok(Begun::Replayed)
    }

    /// Whether a graph exists for such launches.
    pub(crate) fn knows(&self, launches: &[Launch], functions: &[usize]) -> bool {
        let known = self.sequences.get(&key(launches, functions));
        !self.useless && known.is_some_and(|sequence| !sequence.graphs.is_empty())
    }

    /// Destroys all graphs; must be called before their kernels are unloaded.
    pub(crate) fn clear(&mut self, stream: &Stream) {
        for sequence in std::mem::take(&mut self.sequences).into_values() {
            sequence.graphs.iter().for_each(|graph| graph.destroy(stream));
        }
        self.graphs = 0;
    }

    /// The first time, a sequence is only recorded: most never repeat.
    fn remember(&mut self, stream: &Stream, key: Vec<Shape>) {
        if self.sequences.len() >= SEQUENCES {
            self.forget_oldest(stream, |_| true);
        }
        self.sequences.insert(key, Sequence { used: self.turn, ..Sequence::default() });
    }

    fn make_room(&mut self, stream: &Stream) {
        let now = self.turn;
        while self.graphs > GRAPHS && self.forget_oldest(stream, |it| !it.graphs.is_empty() && it.used != now)
        {
        }
    }

    fn forget_oldest(&mut self, stream: &Stream, which: impl Fn(&Sequence) -> bool) -> bool {
        let oldest = self.sequences.iter().filter(|(_, it)| which(it)).min_by_key(|(_, it)| it.used);
        let Some(key) = oldest.map(|(key, _)| key.clone()) else { return false };
        if let Some(gone) = self.sequences.remove(&key) {
            self.graphs -= gone.graphs.len();
            gone.graphs.iter().for_each(|graph| graph.destroy(stream));
        }
        true
    }
}

fn key(launches: &[Launch], functions: &[usize]) -> Vec<Shape> {
    let all = launches.iter().zip(functions);
    all.map(|(launch, &function)| Shape { function, groups: launch.groups, threads: launch.threads })
        .collect()
}

impl Sequence {
    /// Updating a few arguments costs less than capturing a graph, and capturing one costs less than updating most arguments each
    /// time.
    fn choose(&self, launches: &[Launch]) -> Choice {
        let nearest = self
            .graphs
            .iter()
            .enumerate()
            .map(|(number, graph)| (graph.differing(launches).count(), number))
            .min();
        match nearest {
            Some((changes, number)) if changes * 8 <= launches.len() => Choice::Replay(number),
            _ if self.graphs.len() < PER_SEQUENCE => Choice::Capture,
            Some((changes, number)) if changes * 2 <= launches.len() => Choice::Replay(number),
            _ => Choice::Launch,
        }
    }

    fn forget_useless(&mut self) -> Vec<Graph> {
        let now = self.turns;
        let (gone, kept) =
            std::mem::take(&mut self.graphs).into_iter().partition(|graph| graph.used + PATIENCE < now);
        self.graphs = kept;
        gone
    }
}

impl Graph {
    /// Builds a chain of kernel nodes with these arguments.
    fn capture(stream: &Stream, launches: &[Launch], functions: &[usize]) -> Result<Graph, DeviceError> {
        let library = &stream.library;
        let mut template: hipGraph_t = std::ptr::null_mut();
        call!(library, runtime.hipGraphCreate(&mut template, 0))?;
        let mut graph = Graph {
            template: template as usize,
            executable: 0,
            nodes: Vec::with_capacity(launches.len()),
            words: launches.iter().map(|launch| launch.words.clone()).collect(),
            used: 0,
        };
        let made = graph.fill(stream, launches, functions);
        if made.is_err() {
            graph.destroy(stream);
            stream.forget_error();
        }
        made.map(|()| graph)
    }

    fn fill(&mut self, stream: &Stream, launches: &[Launch], functions: &[usize]) -> Result<(), DeviceError> {
        let library = &stream.library;
        let mut before: hipGraphNode_t = std::ptr::null_mut();
        for (launch, &function) in launches.iter().zip(functions) {
            let mut arguments = [launch.words.as_ptr().cast_mut().cast::<c_void>()];
            let parameters = parameters(launch, function, &mut arguments);
            let mut node: hipGraphNode_t = std::ptr::null_mut();
            let count = usize::from(!before.is_null());
            call!(
                library,
                runtime.hipGraphAddKernelNode(
                    &mut node,
                    self.template as hipGraph_t,
                    &before,
                    count,
                    &parameters,
                )
            )?;
            self.nodes.push(node as usize);
            before = node;
        }
        let mut executable: hipGraphExec_t = std::ptr::null_mut();
        call!(
            library,
            runtime.hipGraphInstantiate(
                &mut executable,
                self.template as hipGraph_t,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                0,
            )
        )?;
        self.executable = executable as usize;
        Ok(())
    }

    /// Returns the launches whose arguments differ from the graph's.
    fn differing<'a>(&'a self, launches: &'a [Launch]) -> impl Iterator<Item = usize> + 'a {
        self.words
            .iter()
            .zip(launches)
            .enumerate()
            .filter(|(_, (words, launch))| **words != launch.words)
            .map(|(number, _)| number)
    }

    /// Updates the graph to the arguments of these launches; returns how many differed.
    fn update(
        &mut self,
        stream: &Stream,
        launches: &[Launch],
        functions: &[usize],
    ) -> Result<u64, DeviceError> {
        let differing: Vec<usize> = self.differing(launches).collect();
        for &number in &differing {
            let launch = &launches[number];
            let mut arguments = [launch.words.as_ptr().cast_mut().cast::<c_void>()];
            let parameters = parameters(launch, functions[number], &mut arguments);
            call!(
                stream.library,
                runtime.hipGraphExecKernelNodeSetParams(
                    self.executable as hipGraphExec_t,
                    self.nodes[number] as hipGraphNode_t,
                    &parameters,
                )
            )?;
            self.words[number].clone_from(&launch.words);
        }
        Ok(differing.len() as u64)
    }

    /// A running graph completes.
    fn destroy(&self, stream: &Stream) {
        // A failure cannot be handled here.
        if self.executable != 0 {
            let _ = call!(stream.library, runtime.hipGraphExecDestroy(self.executable as hipGraphExec_t));
        }
        let _ = call!(stream.library, runtime.hipGraphDestroy(self.template as hipGraph_t));
    }
}

fn parameters(launch: &Launch, function: usize, arguments: &mut [*mut c_void; 1]) -> hipKernelNodeParams {
    hipKernelNodeParams {
        blockDim: dim3 { x: launch.threads, y: 1, z: 1 },
        extra: std::ptr::null_mut(),
        func: function as *mut c_void,
        gridDim: dim3 { x: launch.groups, y: 1, z: 1 },
        kernelParams: arguments.as_mut_ptr(),
        sharedMemBytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Writer;

    fn launches(words: &[u64]) -> Vec<Launch> {
        words
            .iter()
            .map(|&word| {
                let mut writer = Writer::new(false);
                writer.word(word);
                writer.launch("test", 1, 64)
            })
            .collect()
    }

    fn graph(words: &[u64], used: u64) -> Graph {
        let words = words.iter().map(|&word| vec![word]).collect();
        Graph { template: 0, executable: 0, nodes: Vec::new(), words, used }
    }

    #[test]
    fn few_changes_are_made_in_a_graph_and_many_make_a_new_one_while_there_is_room() {
        let eight = |changed: usize| {
            let words: Vec<u64> = (0..8).map(|n| if n < changed { 100 } else { n as u64 }).collect();
            launches(&words)
        };
        let own: Vec<u64> = (0..8).collect();
        let mut sequence = Sequence::default();
        assert_eq!(sequence.choose(&eight(0)), Choice::Capture);
        sequence.graphs.push(graph(&[7; 8], 1));
        sequence.graphs.push(graph(&own, 1));
        assert_eq!(sequence.choose(&eight(0)), Choice::Replay(1));
        assert_eq!(sequence.choose(&eight(1)), Choice::Replay(1));
        assert_eq!(sequence.choose(&eight(2)), Choice::Capture);
        sequence.graphs.extend([graph(&[7; 8], 1), graph(&[7; 8], 1)]);
        assert_eq!(sequence.choose(&eight(2)), Choice::Replay(1));
        assert_eq!(sequence.choose(&eight(8)), Choice::Launch);
    }

    #[test]
    fn graphs_that_are_no_use_make_room() {
        let mut sequence = Sequence { turns: 20, ..Sequence::default() };
        sequence.graphs.extend([graph(&[1], 3), graph(&[2], 19)]);
        assert_eq!(sequence.forget_useless().len(), 1);
        assert_eq!(sequence.graphs[0].words, [[2]]);
    }

    #[test]
    fn the_launches_that_differ_are_found_by_every_word() {
        let graph = graph(&[1, 2, 3], 0);
        assert_eq!(graph.differing(&launches(&[1, 9, 3])).collect::<Vec<_>>(), [1]);
        assert_eq!(graph.differing(&launches(&[1, 2, 3])).count(), 0);
    }
}
