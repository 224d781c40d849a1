//! Fusion: partitions the graph into groups of one launch each.
//!
//! Nodes are placed from the last to the first. An elementwise node joins the group of its user, if it has only one. Elementwise
//! nodes before a reduction become its prologue. A reduction or contraction whose only user is elementwise gets that user as its
//! epilogue. A node used by several groups is stored, unless it is cheap enough to recompute in each.

use smallvec::SmallVec;

use crate::graph::{Entry, Graph};
use crate::layout::Shape;
use crate::node::Op;
use crate::program::MAX_INSTRUCTIONS;

/// The longest fused program: leaves room for casts that the launch adds.
const LONGEST: usize = MAX_INSTRUCTIONS - 6;

/// The most operands of a launch.
const OPERANDS: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The whole program of an elementwise launch, or the epilogue of a reduction or contraction.
    Main,
    /// The program that runs before a reduction.
    Prologue,
}

type Slot = (usize, Stage);

/// A group of nodes that become one launch.
#[derive(Debug)]
pub(crate) struct Group {
    /// The node that is computed last and is the first output.
    pub head: usize,
    /// The reduction, contraction or other unfusable operation; `None` for elementwise launches.
    pub core: Option<usize>,
    pub main: Vec<usize>,
    pub prologue: Vec<usize>,
    /// Intermediate nodes that are stored too.
    pub also: Vec<usize>,
    /// The shape that the main stage is computed in.
    pub domain: Shape,
    pub prologue_domain: Shape,
    sizes: [Size; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    instructions: usize,
    operands: usize,
}

impl Group {
    fn new(head: usize, core: Option<usize>, domain: Shape) -> Group {
        Group {
            head,
            core,
            main: Vec::new(),
            prologue: Vec::new(),
            also: Vec::new(),
            domain,
            prologue_domain: Shape::new(),
            sizes: [Size { instructions: 1, operands: 1 }; 2],
        }
    }

    pub fn members(&self, stage: Stage) -> &[usize] {
        match stage {
            Stage::Main => &self.main,
            Stage::Prologue => &self.prologue,
        }
    }

    fn domain(&self, stage: Stage) -> &Shape {
        match stage {
            Stage::Main => &self.domain,
            Stage::Prologue => &self.prologue_domain,
        }
    }

    /// Whether an elementwise node can be fused into this group.
    fn takes(&self, stage: Stage, entry: &Entry) -> bool {
        let size = self.sizes[stage as usize];
        size.instructions + entry.inputs.len() <= LONGEST
            && self.sizes[0].operands + self.sizes[1].operands + entry.inputs.len() <= OPERANDS
            && fits(entry, self.domain(stage))
    }

    fn join(&mut self, stage: Stage, index: usize, entry: &Entry) {
        let size = &mut self.sizes[stage as usize];
        // The node was counted as an operand and becomes an instruction; each of its inputs may become either.
        size.instructions += entry.inputs.len();
        size.operands = (size.operands + entry.inputs.len()).saturating_sub(1);
        match stage {
            Stage::Main => self.main.push(index),
            Stage::Prologue => self.prologue.push(index),
        }
    }
}

/// Whether an elementwise node can be computed element by element in another shape.
fn fits(entry: &Entry, domain: &Shape) -> bool {
    if entry.node.shape == *domain {
        return true;
    }
    !matches!(entry.node.op, Op::Index(_))
        && entry.inputs.iter().all(|source| source.layout.reshape(domain).is_some())
}

/// The cost of recomputing a node, given that everything stored in any case is available.
#[derive(Clone, Copy, Debug, Default)]
struct Effort {
    operations: usize,
    /// Operands of full size.
    reads: usize,
}

impl Effort {
    const TOO_MUCH: Effort = Effort { operations: 1000, reads: 1000 };

    /// Whether recomputing is cheaper than storing the node once and reading it in each of its users.
    fn is_worth_it(self, users: usize) -> bool {
        self.operations <= 4 && self.reads * users <= self.reads + 1 + users
    }
}

fn efforts(graph: &Graph) -> Vec<Effort> {
    let mut users = vec![0_usize; graph.entries.len()];
    for source in graph.entries.iter().flat_map(|entry| &entry.inputs) {
        users[source.entry] += 1;
    }
    let mut efforts: Vec<Effort> = Vec::with_capacity(graph.entries.len());
    for entry in &graph.entries {
        let effort = match entry.node.op {
            _ if !entry.node.op.is_elementwise() => Effort::TOO_MUCH,
            Op::Constant(_) | Op::Index(_) => Effort::default(),
            ref op => {
                let own = if is_simple(op) { 1 } else { 3 };
                entry.inputs.iter().fold(Effort { operations: own, reads: 0 }, |sum, source| {
                    let input = &graph.entries[source.entry];
                    let effort = efforts[source.entry];
                    let read = Effort {
                        operations: 0,
                        reads: usize::from(
                            source
                                .layout
                                .strides
                                .iter()
                                .zip(&source.layout.shape)
                                .all(|(&stride, &length)| stride != 0 || length == 1),
                        ),
                    };
                    let more = if input.stored || input.wanted || matches!(input.node.op, Op::Whole(..)) {
                        read
                    } else if input.node.op.is_elementwise() && source.whole {
                        if users[source.entry] > 1 && !effort.is_worth_it(2) { read } else { effort }
                    } else if input.node.op.has_epilogue() && source.whole && users[source.entry] == 1 {
                        // This operation can run in the input's epilogue, so it must not be recomputed elsewhere.
                        Effort::TOO_MUCH
                    } else {
                        read
                    };
                    Effort { operations: sum.operations + more.operations, reads: sum.reads + more.reads }
                })
            }
        };
        efforts.push(effort);
    }
    efforts
}

/// Whether the operation takes an instruction or two on every processor.
fn is_simple(op: &Op) -> bool {
    use crate::program::{Binary, Unary};
    match op {
        Op::Unary(function) => {
            matches!(
                function,
                Unary::Neg | Unary::Abs | Unary::Sign | Unary::Not | Unary::BitNot | Unary::IsNan
            )
        }
        Op::Binary(function) => !matches!(
            function,
            Binary::Div
                | Binary::FloorDiv
                | Binary::Rem
                | Binary::Pow
                | Binary::Atan2
                | Binary::Hypot
                | Binary::Nextafter
                | Binary::Logaddexp
        ),
        _ => true,
    }
}

/// Returns the groups in launch order.
pub(crate) fn plan(graph: &Graph) -> Vec<Group> {
    let count = graph.entries.len();
    let efforts = efforts(graph);
    let mut groups: Vec<Group> = Vec::new();
    let mut users: Vec<SmallVec<[Slot; 2]>> = vec![SmallVec::new(); count];
    // Whether a group reads the node from memory.
    let mut read: Vec<bool> = vec![false; count];
    for index in (0..count).rev() {
        let entry = &graph.entries[index];
        if entry.stored || !(entry.wanted || read[index] || !users[index].is_empty()) {
            continue;
        }
        let slots = std::mem::take(&mut users[index]);
        if entry.node.op.is_elementwise() {
            let joined = place_elementwise(graph, &mut groups, index, &slots, read[index], efforts[index]);
            for source in &entry.inputs {
                if source.whole {
                    for &slot in &joined {
                        if !users[source.entry].contains(&slot) {
                            users[source.entry].push(slot);
                        }
                    }
                } else {
                    read[source.entry] = true;
                }
            }
            continue;
        }
        let group = match slots.as_slice() {
            &[(group, Stage::Main)]
                if entry.node.op.has_epilogue()
                    && !read[index]
                    && takes_core(graph, &groups[group], entry) =>
            {
                groups[group].core = Some(index);
                if entry.wanted {
                    groups[group].also.push(index);
                }
                groups[group].domain = entry.node.shape.clone();
                group
            }
            _ => {
                groups.push(Group::new(index, Some(index), entry.node.shape.clone()));
                groups.len() - 1
            }
        };
        let reduces = matches!(entry.node.op, Op::Reduce { .. });
        let folded = graph.folded_into(index);
        for source in entry.inputs.iter().filter(|source| Some(source.entry) != folded) {
            if reduces {
                groups[group].prologue_domain = source.layout.shape.clone();
            }
            if reduces && source.whole {
                users[source.entry].push((group, Stage::Prologue));
            } else {
                read[source.entry] = true;
            }
        }
        if let Some(padded) = folded {
            read[graph.entries[padded].inputs[0].entry] = true;
        }
    }
    groups.sort_by_key(|group| group.head);
    groups
}

/// Whether the elementwise group can become the epilogue of this reduction or contraction.
fn takes_core(graph: &Graph, group: &Group, core: &Entry) -> bool {
    group.core.is_none()
        && 1 + group.also.len() + usize::from(core.wanted) <= core.node.device.epilogue_results()
        && group.main.iter().all(|&member| fits(&graph.entries[member], &core.node.shape))
}

/// Whether the node should end an epilogue instead of being an intermediate output of this group, because its reduction or
/// contraction cannot store both.
fn better_before(graph: &Graph, group: &Group, entry: &Entry) -> bool {
    group.also.len() + 2 > entry.node.device.epilogue_results()
        && entry.inputs.iter().any(|source| {
            let input = &graph.entries[source.entry];
            source.whole && !input.stored && input.node.op.has_epilogue()
        })
}

/// Returns the slots in which the node is computed.
fn place_elementwise(
    graph: &Graph,
    groups: &mut Vec<Group>,
    index: usize,
    slots: &[Slot],
    read: bool,
    effort: Effort,
) -> SmallVec<[Slot; 2]> {
    let entry = &graph.entries[index];
    let all_take =
        !read && !slots.is_empty() && slots.iter().all(|&(group, stage)| groups[group].takes(stage, entry));
    if all_take && (slots.len() == 1 || effort.is_worth_it(slots.len())) {
        // An elementwise launch can have several outputs (up to 8).
        if entry.wanted
            && let &[(group, Stage::Main)] = slots
            && groups[group].core.is_none()
            && groups[group].also.len() < 7
            && !better_before(graph, &groups[group], entry)
        {
            groups[group].join(Stage::Main, index, entry);
            groups[group].also.push(index);
            return slots.into();
        }
        // A node that is referenced but cheap is recomputed when its value is read.
        if !entry.wanted || (!entry.asked && effort.is_worth_it(2)) {
            for &(group, stage) in slots {
                groups[group].join(stage, index, entry);
            }
            return slots.into();
        }
    }
    let mut group = Group::new(index, None, entry.node.shape.clone());
    group.join(Stage::Main, index, entry);
    groups.push(group);
    SmallVec::from_iter([(groups.len() - 1, Stage::Main)])
}
