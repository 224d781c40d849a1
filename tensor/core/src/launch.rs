//! Turns groups of nodes into launches: writes their programs and names their operands. Allocates no memory.

use crate::dtype::DType;
use crate::graph::{Graph, Source, padding};
use crate::layout::{Layout, Shape};
use crate::node::Op;
use crate::plan::{Group, Stage};
use crate::program::{Binary, Code, Instruction, Program, Value};
use crate::signature::signature;
use crate::step::{Fused, Reduction, Work};

/// An operand: an output of an entry, or temporary memory of this evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Entry(usize, usize),
    Passing(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operand {
    pub name: Name,
    pub layout: Layout,
    pub dtype: DType,
}

#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub work: Work,
    /// Those of a write begin with the elements before it, which the step finds in its output.
    pub inputs: Vec<Operand>,
    pub outputs: Vec<Operand>,
    /// The nodes that it computes.
    pub nodes: Vec<usize>,
}

impl Launch {
    /// The signature of the step that this launch becomes.
    pub fn signature(&self) -> Vec<u64> {
        let inputs = self.read();
        let operands = inputs.iter().chain(&self.outputs);
        signature(&self.work, inputs.len(), operands.map(|operand| (&operand.layout, operand.dtype)))
    }

    /// The operands that the step reads.
    pub fn read(&self) -> &[Operand] {
        match self.work {
            Work::Write => &self.inputs[1..],
            _ => &self.inputs,
        }
    }

    /// Whether it may find an index out of bounds.
    pub fn checks_bounds(&self) -> bool {
        let programs: &[&Program] = match &self.work {
            Work::Fused(Fused::Gather { .. } | Fused::Scatter { bound: Some(_), .. }) => return true,
            Work::Map(program) => &[program],
            Work::Reduce { program, epilogue, .. } => &[program, epilogue],
            Work::Contract { epilogue, .. } => &[epilogue],
            _ => &[],
        };
        let within = |instruction: &Instruction| matches!(instruction.code, Code::Binary(Binary::Within, ..));
        programs.iter().any(|program| program.instructions.iter().any(within))
    }
}

/// The type that f16 and bf16 are accumulated in.
pub(crate) fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

pub(crate) fn launches(graph: &Graph, groups: &[Group]) -> Vec<Launch> {
    let mut launches = Vec::with_capacity(groups.len());
    for group in groups {
        let folded = group.core.and_then(|core| graph.folded_into(core));
        let mut nodes: Vec<usize> =
            group.prologue.iter().chain(&folded).chain(&group.core).chain(&group.main).copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        launch(graph, group, nodes, &mut launches);
    }
    launches
}

fn launch(graph: &Graph, group: &Group, nodes: Vec<usize>, launches: &mut Vec<Launch>) {
    let output = |index: usize, number: usize| {
        let entry = &graph.entries[index];
        Operand {
            name: Name::Entry(index, number),
            layout: Layout::contiguous(entry.output_shape(number)),
            dtype: entry.output_dtype(number),
        }
    };
    let results: Vec<Operand> = [group.head]
        .iter()
        .chain(&group.also)
        .map(|&index| Operand { layout: Layout::contiguous(&group.domain), ..output(index, 0) })
        .collect();
    let Some(core_index) = group.core else {
        let mut writer = Writer::new(graph, group, Stage::Main, 0);
        let values = [group.head].iter().chain(&group.also).map(|&index| writer.value(index)).collect();
        let (program, inputs) = writer.finish(values);
        launches.push(Launch { work: Work::Map(program), inputs, outputs: results, nodes });
        return;
    };
    let core = &graph.entries[core_index];
    let read = |source: &Source| Operand {
        name: Name::Entry(source.entry, source.output),
        layout: source.layout.clone(),
        dtype: graph.entries[source.entry].output_dtype(source.output),
    };
    match &core.node.op {
        Op::Reduce { reduction, axes } => {
            let (program, mut inputs) = prologue(graph, group, core_index, *reduction, launches);
            let mapped = inputs.len();
            let (epilogue, more) = epilogue(graph, group, core_index);
            inputs.extend(more);
            let work = Work::Reduce { program, reduction: *reduction, axes: axes.to_vec(), mapped, epilogue };
            launches.push(Launch { work, inputs, outputs: results, nodes });
        }
        Op::Contract { batch, rows, columns, depth, accumulation, convolution } => {
            let mut inputs: Vec<Operand> = core.inputs.iter().map(read).collect();
            let padding = graph.folded_into(core_index).and_then(|padded| {
                let source = &graph.entries[padded].inputs[0];
                inputs[1].name = Name::Entry(source.entry, source.output);
                padding(&graph.entries[padded])
            });
            let (epilogue, more) = epilogue(graph, group, core_index);
            inputs.extend(more);
            let work = Work::Contract {
                batch: *batch,
                rows: *rows,
                columns: *columns,
                depth: *depth,
                accumulation: *accumulation,
                padding: padding.map(Box::new),
                convolution: convolution.clone(),
                epilogue,
            };
            launches.push(Launch { work, inputs, outputs: results, nodes });
        }
        Op::Write(layout) => {
            let inputs = core.inputs.iter().map(read).collect();
            let outputs = vec![Operand { layout: layout.clone(), ..output(core_index, 0) }];
            launches.push(Launch { work: Work::Write, inputs, outputs, nodes });
        }
        Op::Whole(work, _) => {
            let inputs = core.inputs.iter().map(read).collect();
            let outputs = (0..core.outputs()).map(|number| output(core_index, number)).collect();
            launches.push(Launch { work: (**work).clone(), inputs, outputs, nodes });
        }
        other => unreachable!("{other:?} is never the core of a launch"),
    }
}

fn prologue(
    graph: &Graph,
    group: &Group,
    core: usize,
    reduction: Reduction,
    launches: &mut Vec<Launch>,
) -> (Program, Vec<Operand>) {
    let source = &graph.entries[core].inputs[0];
    let dtype = graph.entries[source.entry].output_dtype(source.output);
    let exact = matches!(reduction, Reduction::Max | Reduction::Min);
    let target = if exact { dtype } else { accumulator(dtype) };
    let mut writer = Writer::new(graph, group, Stage::Prologue, 0);
    let value = writer.source(source);
    let value = writer.cast(value, target);
    let (program, inputs) = writer.finish(vec![value]);
    if !inputs.is_empty() {
        return (program, inputs);
    }
    // A reduction takes its shape from its inputs, so a prologue without inputs is written to temporary memory first.
    let passing = Operand {
        name: Name::Passing(core),
        layout: Layout::contiguous(&group.prologue_domain),
        dtype: target,
    };
    launches.push(Launch {
        work: Work::Map(program),
        inputs: Vec::new(),
        outputs: vec![passing.clone()],
        nodes: group.prologue.clone(),
    });
    (Program::identity(target), vec![passing])
}

fn epilogue(graph: &Graph, group: &Group, core: usize) -> (Program, Vec<Operand>) {
    let mut writer = Writer::new(graph, group, Stage::Main, 1);
    let results = [group.head]
        .iter()
        .chain(&group.also)
        .map(|&index| if index == core { writer.core(core) } else { writer.value(index) })
        .collect();
    writer.finish(results)
}

/// Writes the program of one stage of a group.
struct Writer<'a> {
    graph: &'a Graph,
    group: &'a Group,
    stage: Stage,
    domain: &'a Shape,
    instructions: Vec<Instruction>,
    known: Vec<(usize, Value)>,
    inputs: Vec<Operand>,
    /// The operand number of this program's first input.
    first: usize,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph, group: &'a Group, stage: Stage, first: usize) -> Writer<'a> {
        let domain = match stage {
            Stage::Main => &group.domain,
            Stage::Prologue => &group.prologue_domain,
        };
        Writer {
            graph,
            group,
            stage,
            domain,
            instructions: Vec::new(),
            known: Vec::new(),
            inputs: Vec::new(),
            first,
        }
    }

    fn finish(self, results: Vec<Value>) -> (Program, Vec<Operand>) {
        (Program { instructions: self.instructions, results }, self.inputs)
    }

    /// The value of a node that is computed in this stage.
    fn value(&mut self, index: usize) -> Value {
        if let Some(&(_, value)) = self.known.iter().find(|(known, _)| *known == index) {
            return value;
        }
        let entry = &self.graph.entries[index];
        let mut of = [0; 3];
        for (value, source) in of.iter_mut().zip(&entry.inputs) {
            *value = self.source(source);
        }
        let code = match entry.node.op {
            Op::Constant(value) => Code::Constant(value),
            Op::Index(axis) => Code::Index(axis),
            Op::Cast => Code::Cast(of[0]),
            Op::Unary(unary) => Code::Unary(unary, of[0]),
            Op::Binary(binary) => Code::Binary(binary, of[0], of[1]),
            Op::Select => Code::Select(of[0], of[1], of[2]),
            Op::Copy => {
                self.known.push((index, of[0]));
                return of[0];
            }
            ref other => unreachable!("{other:?} is not computed element by element"),
        };
        let value = self.push(code, entry.node.dtype);
        self.known.push((index, value));
        value
    }

    fn source(&mut self, source: &Source) -> Value {
        if source.whole && self.group.members(self.stage).contains(&source.entry) {
            return self.value(source.entry);
        }
        if source.whole && self.stage == Stage::Main && self.group.core == Some(source.entry) {
            return self.core(source.entry);
        }
        let layout = source.layout.reshape(self.domain);
        let operand = Operand {
            name: Name::Entry(source.entry, source.output),
            layout: layout.unwrap_or_else(|| unreachable!("the plan fused a node whose layout does not fit")),
            dtype: self.graph.entries[source.entry].output_dtype(source.output),
        };
        let number = match self.inputs.iter().position(|known| *known == operand) {
            Some(number) => number,
            None => {
                self.inputs.push(operand.clone());
                self.inputs.len() - 1
            }
        };
        let code = Code::Input((self.first + number) as u16);
        match self.instructions.iter().position(|instruction| instruction.code == code) {
            Some(value) => value as Value,
            None => self.push(code, operand.dtype),
        }
    }

    /// The result of the reduction or contraction, in its node's type.
    fn core(&mut self, index: usize) -> Value {
        if let Some(&(_, value)) = self.known.iter().find(|(known, _)| *known == index) {
            return value;
        }
        let node = &self.graph.entries[index].node;
        let exact = matches!(node.op, Op::Reduce { reduction: Reduction::Max | Reduction::Min, .. });
        let sum = self.push(Code::Input(0), if exact { node.dtype } else { accumulator(node.dtype) });
        let value = self.cast(sum, node.dtype);
        self.known.push((index, value));
        value
    }

    fn cast(&mut self, value: Value, dtype: DType) -> Value {
        if self.instructions[value as usize].dtype == dtype {
            return value;
        }
        self.push(Code::Cast(value), dtype)
    }

    fn push(&mut self, code: Code, dtype: DType) -> Value {
        self.instructions.push(Instruction { code, dtype });
        (self.instructions.len() - 1) as Value
    }
}
