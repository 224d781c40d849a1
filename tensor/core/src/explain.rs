//! Describes what an evaluation would do: the graph, the launches, the bytes. Executes nothing.

use std::fmt;

use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::execute::planned;
use crate::graph::Graph;
use crate::launch::{Launch, Name, Operand};
use crate::layout::Shape;
use crate::node::Op;
use crate::step::Work;
use crate::tensor::{Result, Tensor};

/// A node that would be computed or read.
#[derive(Clone, Debug)]
pub struct ExplainedNode {
    /// Its position in the list of nodes.
    pub number: usize,
    /// "add", "contract", "leaf".
    pub name: String,
    /// Positions of the nodes that it reads.
    pub inputs: Vec<usize>,
    /// The shape of its result.
    pub shape: Shape,
    /// The type of its result.
    pub dtype: DType,
    /// In memory already.
    pub stored: bool,
}

/// A launch that would be made.
#[derive(Clone, Debug)]
pub struct ExplainedLaunch {
    /// "contract + add + maximum".
    pub name: String,
    /// What kind of work: "map", "reduce", "contract" and so on.
    pub kind: &'static str,
    /// Numbers of the nodes that it computes.
    pub nodes: Vec<usize>,
    /// Of the first output.
    pub shape: Shape,
    /// The type of the first output.
    pub dtype: DType,
    /// Bytes of all inputs.
    pub bytes_read: usize,
    /// Bytes of all outputs.
    pub bytes_written: usize,
}

/// What an evaluation would do.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The name of the device.
    pub device: String,
    /// The nodes that are computed.
    pub nodes: Vec<ExplainedNode>,
    /// The launches that compute them, in order.
    pub launches: Vec<ExplainedLaunch>,
    /// The device has done these launches before and would begin all of them at once.
    pub replayed: bool,
}

impl Explanation {
    /// Bytes that all launches read.
    pub fn bytes_read(&self) -> usize {
        self.launches.iter().map(|launch| launch.bytes_read).sum()
    }

    /// Bytes that all launches write.
    pub fn bytes_written(&self) -> usize {
        self.launches.iter().map(|launch| launch.bytes_written).sum()
    }
}

/// What `eval` would do for these tensors of one device.
pub fn explain(tensors: &[Tensor]) -> Result<Explanation> {
    let Some(first) = tensors.first() else {
        return Err(TensorError::state("explain", "no tensors given; pass at least one"));
    };
    for other in tensors {
        crate::tensor::same_device("explain", first, other)?;
    }
    let (graph, launches) = planned(&tensors.iter().map(Tensor::node).collect::<Vec<_>>());
    let signatures: Vec<Vec<u64>> = launches
        .iter()
        .filter(|launch| launch.outputs.iter().any(|output| output.layout.elements() > 0))
        .map(Launch::signature)
        .collect();
    Ok(Explanation {
        replayed: first.device().replays(&signatures),
        device: first.device().name().to_owned(),
        nodes: (0..graph.entries.len()).map(|number| node(&graph, number)).collect(),
        launches: launches.iter().map(|launch| explained(&graph, launch)).collect(),
    })
}

fn node(graph: &Graph, number: usize) -> ExplainedNode {
    let entry = &graph.entries[number];
    ExplainedNode {
        number,
        name: if entry.stored { "stored".into() } else { name(&entry.node.op) },
        inputs: entry.inputs.iter().map(|source| source.entry).collect(),
        shape: entry.node.shape.clone(),
        dtype: entry.node.dtype,
        stored: entry.stored,
    }
}

fn explained(graph: &Graph, launch: &Launch) -> ExplainedLaunch {
    let quiet = |op: &Op| matches!(op, Op::Constant(_) | Op::Index(_) | Op::Cast | Op::Copy);
    let all = || launch.nodes.iter().map(|&number| &graph.entries[number].node.op);
    let named: Vec<String> = all().filter(|op| !quiet(op)).map(name).collect();
    let named = if named.is_empty() { all().map(name).collect() } else { named };
    // Counts overlapping and repeated elements once, assuming that the device caches them.
    let touched = |operand: &Operand| {
        let layout = &operand.layout;
        let apart = layout.shape.iter().zip(&layout.strides).filter(|(_, stride)| **stride != 0);
        let seen: usize = apart.map(|(length, _)| *length).product();
        let there = match operand.name {
            Name::Entry(entry, output) => graph.entries[entry].output_shape(output).iter().product(),
            Name::Passing(_) => seen,
        };
        seen.min(there) * operand.dtype.bytes()
    };
    ExplainedLaunch {
        name: named.join(" + "),
        kind: kind(&launch.work),
        nodes: launch.nodes.clone(),
        shape: launch.outputs[0].layout.shape.clone(),
        dtype: launch.outputs[0].dtype,
        bytes_read: launch.read().iter().map(touched).sum(),
        bytes_written: launch.outputs.iter().map(touched).sum(),
    }
}

fn name(op: &Op) -> String {
    match op {
        Op::Leaf => "leaf".into(),
        Op::View(_) => "view".into(),
        Op::Part(_) => "part".into(),
        Op::Constant(Scalar::Float(value)) => format!("{value}"),
        Op::Constant(Scalar::Int(value)) => format!("{value}"),
        Op::Constant(value) => format!("{value:?}"),
        Op::Index(axis) => format!("index {axis}"),
        Op::Copy => "copy".into(),
        Op::Cast => "cast".into(),
        Op::Unary(function) => format!("{function:?}").to_lowercase(),
        Op::Binary(function) => format!("{function:?}").to_lowercase(),
        Op::Select => "where".into(),
        Op::Reduce { reduction, .. } => format!("reduce {reduction:?}").to_lowercase(),
        Op::Contract { .. } => "contract".into(),
        Op::Write(_) => "write".into(),
        Op::Whole(work, _) => kind(work).into(),
    }
}

fn kind(work: &Work) -> &'static str {
    match work {
        Work::Map(_) => "map",
        Work::Reduce { .. } => "reduce",
        Work::ArgReduce { .. } => "arg reduce",
        Work::Contract { .. } => "contract",
        Work::Softmax { log: false, .. } => "softmax",
        Work::Softmax { log: true, .. } => "log softmax",
        Work::Normalise { .. } => "normalise",
        Work::CrossEntropy { .. } => "cross entropy",
        Work::Attention { .. } => "attention",
        Work::AttentionGradient { .. } => "attention gradient",
        Work::Write => "write",
        Work::Pad { .. } => "pad",
        Work::Concat { .. } => "concat",
        Work::Fold { .. } => "fold",
        Work::Gather { .. } => "gather",
        Work::Scatter { .. } => "scatter",
        Work::Random { .. } => "random",
        Work::Sort { .. } => "sort",
        Work::Cumulative { .. } => "cumulative",
        Work::Fused(fused) => fused.name(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph on {}:", self.device)?;
        for node in &self.nodes {
            let inputs: Vec<String> = node.inputs.iter().map(|input| format!("%{input}")).collect();
            writeln!(
                f,
                "  %{} = {}({}) {}{:?}",
                node.number,
                node.name,
                inputs.join(", "),
                node.dtype,
                node.shape
            )?;
        }
        let plural = if self.launches.len() == 1 { "launch" } else { "launches" };
        writeln!(
            f,
            "{} {plural}{}, {} bytes read, {} bytes written:",
            self.launches.len(),
            if self.replayed { " replayed as one graph" } else { "" },
            self.bytes_read(),
            self.bytes_written()
        )?;
        for (number, launch) in self.launches.iter().enumerate() {
            writeln!(
                f,
                "  {}. {} [{}] -> {}{:?}, reads {}, writes {}",
                number + 1,
                launch.name,
                launch.kind,
                launch.dtype,
                launch.shape,
                launch.bytes_read,
                launch.bytes_written
            )?;
        }
        Ok(())
    }
}
