//! The subgraph of one evaluation: every node that is needed and not stored, in topological order (inputs first).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::dtype::{DType, Scalar};
use crate::layout::{Layout, Shape};
use crate::node::{Node, Op, Place};
use crate::step::{Padding, Work};

/// An input of an entry: an output of another entry, and the layout it is read with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub entry: usize,
    pub output: usize,
    /// Has the shape that the consumer reads.
    pub layout: Layout,
    /// Whether it covers all elements of the entry in their order.
    pub whole: bool,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub node: Arc<Node>,
    /// Other nodes with the same operation and inputs (common subexpressions), which share this entry's result.
    pub twins: Vec<Arc<Node>>,
    pub inputs: Sources,
    pub stored: bool,
    /// The result is still needed after the evaluation.
    pub wanted: bool,
    /// The caller requested it: it is a root of the evaluation.
    pub asked: bool,
    /// A node outside of this evaluation uses it: if the evaluation stores it at all, its memory is kept.
    pub awaited: bool,
    /// It is a padding whose users are contractions that find its zeros by position: it is never stored.
    pub folded: bool,
    /// It is stored, and only this evaluation needs it: its memory may be overwritten after the last launch that reads it.
    pub spare: bool,
}

pub(crate) type Sources = SmallVec<[Source; 3]>;

impl Entry {
    fn new(node: Arc<Node>, inputs: Sources, stored: bool) -> Entry {
        // Constants and indices never take memory, however many tensors reference them.
        let wanted = !stored && node.is_held() && !matches!(node.op, Op::Constant(_) | Op::Index(_));
        Entry {
            node,
            twins: Vec::new(),
            inputs,
            stored,
            wanted,
            asked: false,
            awaited: false,
            folded: false,
            spare: false,
        }
    }

    /// Whether it computes this operation on these inputs.
    fn computes(&self, node: &Node, inputs: &[Source]) -> bool {
        !self.stored
            && self.node.dtype == node.dtype
            && self.node.shape == node.shape
            && self.inputs.as_slice() == inputs
            && self.node.op == node.op
    }

    /// Whether its memory, if any, outlives the evaluation.
    pub fn stays(&self) -> bool {
        self.wanted || self.awaited
    }

    pub fn output_shape(&self, output: usize) -> &Shape {
        match &self.node.op {
            Op::Whole(_, more) if output > 0 => &more[output - 1].0,
            _ => &self.node.shape,
        }
    }

    pub fn output_dtype(&self, output: usize) -> DType {
        match &self.node.op {
            Op::Whole(_, more) if output > 0 => more[output - 1].1,
            _ => self.node.dtype,
        }
    }

    pub fn outputs(&self) -> usize {
        match &self.node.op {
            Op::Whole(_, more) => 1 + more.len(),
            _ => 1,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub entries: Vec<Entry>,
}

impl Graph {
    /// Builds the subgraph that the roots need. Views are not entries; they become layouts of other entries.
    pub fn of(roots: &[Arc<Node>]) -> Graph {
        let mut entries: Vec<Entry> = Vec::new();
        let mut known: FxHashMap<u64, usize> = FxHashMap::default();
        let mut references = References::default();
        let mut same: FxHashMap<u64, SmallVec<[usize; 2]>> = FxHashMap::default();
        // Depth-first search with an explicit stack: a node is entered, and left after all of its inputs have entries.
        enum Visit {
            Enter(Arc<Node>),
            Leave(Box<(Arc<Node>, Sources, SmallVec<[u64; 3]>)>),
        }
        let mut stack: Vec<Visit> = Vec::new();
        for root in roots {
            let root = Place::of(root).node;
            let id = root.id;
            stack.push(Visit::Enter(root));
            while let Some(visit) = stack.pop() {
                match visit {
                    Visit::Enter(node) => {
                        if known.contains_key(&node.id) {
                            continue;
                        }
                        if node.stored().is_some() {
                            known.insert(node.id, entries.len());
                            entries.push(Entry::new(node, Sources::new(), true));
                            continue;
                        }
                        let (mut sources, mut ids) = (Sources::new(), SmallVec::new());
                        let at = stack.len();
                        for input in node.inputs() {
                            let place = Place::of(&input);
                            references.count(input);
                            let whole = place.is_whole();
                            ids.push(place.node.id);
                            sources.push(Source {
                                entry: 0,
                                output: place.output,
                                layout: place.layout,
                                whole,
                            });
                            if !known.contains_key(&place.node.id) {
                                stack.push(Visit::Enter(place.node));
                            }
                        }
                        stack.insert(at, Visit::Leave(Box::new((node, sources, ids))));
                    }
                    Visit::Leave(left) => {
                        let (node, mut inputs, ids) = *left;
                        if known.contains_key(&node.id) {
                            continue;
                        }
                        inputs.iter_mut().zip(&ids).for_each(|(source, id)| source.entry = known[id]);
                        let alike = same.entry(fingerprint(&node, &inputs)).or_default();
                        let twin = alike.iter().copied().find(|&twin| entries[twin].computes(&node, &inputs));
                        if let Some(twin) = twin {
                            known.insert(node.id, twin);
                            entries[twin].wanted |=
                                node.is_held() && !matches!(node.op, Op::Constant(_) | Op::Index(_));
                            entries[twin].twins.push(node);
                            continue;
                        }
                        alike.push(entries.len());
                        known.insert(node.id, entries.len());
                        entries.push(Entry::new(node, inputs, false));
                    }
                }
            }
            let asked = &mut entries[known[&id]];
            (asked.wanted, asked.asked) = (true, true);
        }
        for entry in entries.iter_mut().filter(|entry| !entry.stored && !entry.wanted) {
            entry.awaited =
                std::iter::once(&entry.node).chain(&entry.twins).any(|node| references.has_more(node));
        }
        for (between, owner) in references.between() {
            if references.has_more(between) {
                entries[known[&owner]].awaited = true;
            }
        }
        if entries.iter().any(|entry| matches!(entry.node.op, Op::Write(_)) && !entry.stored) {
            for entry in entries.iter_mut().filter(|entry| entry.stored) {
                entry.spare = !entry.awaited
                    && !entry.node.is_held()
                    && !references.has_more(&entry.node)
                    && matches!(entry.node.stored(), Some([buffer]) if Arc::strong_count(buffer) == 1);
            }
        }
        let mut graph = Graph { entries };
        graph.fold_paddings();
        graph
    }

    /// The padding that a contraction reads although it is not stored.
    pub fn folded_into(&self, index: usize) -> Option<usize> {
        let entry = &self.entries[index];
        let padded = entry.inputs.get(1).filter(|_| matches!(entry.node.op, Op::Contract { .. }))?.entry;
        self.entries[padded].folded.then_some(padded)
    }

    /// Marks paddings that need not be stored: all users are contractions that read it as right operand, on devices that support it.
    fn fold_paddings(&mut self) {
        let mut folded: Vec<Option<Padding>> = self.entries.iter().map(padding).collect();
        if folded.iter().all(Option::is_none) {
            return;
        }
        for entry in &self.entries {
            for (number, source) in entry.inputs.iter().enumerate() {
                let Some(padding) = &folded[source.entry] else { continue };
                let (device, dtype) = (&entry.node.device, self.entries[source.entry].node.dtype);
                let folds = number == 1
                    && entry.inputs[0].entry != source.entry
                    && matches!(entry.node.op, Op::Contract { .. })
                    && device.folds_padding(padding, &source.layout, dtype);
                if !folds {
                    folded[source.entry] = None;
                }
            }
        }
        for (entry, folded) in self.entries.iter_mut().zip(folded) {
            entry.folded = folded.is_some();
        }
    }
}

/// The padding that an entry is, if it is one with zeros that no tensor references.
pub(crate) fn padding(entry: &Entry) -> Option<Padding> {
    let Op::Whole(work, _) = &entry.node.op else { return None };
    let Work::Pad { before, value } = &**work else { return None };
    let zero = match value {
        Scalar::Int(0) | Scalar::UInt(0) | Scalar::Bool(false) => true,
        Scalar::Float(value) => value.to_bits() == 0,
        _ => false,
    };
    (zero && !entry.stored && !entry.wanted).then(|| Padding {
        within: entry.inputs[0].layout.clone(),
        before: before.clone(),
        shape: entry.node.shape.clone(),
    })
}

/// Counts how often each node is an input within the graph. A node with more references than that has users elsewhere.
#[derive(Default)]
struct References {
    inside: FxHashMap<u64, usize>,
    /// Views and parts, which have no entries.
    views: Vec<Arc<Node>>,
}

impl References {
    fn count(&mut self, input: Arc<Node>) {
        let uses = self.inside.entry(input.id).or_default();
        *uses += 1;
        if *uses == 1 && matches!(input.op, Op::View(_) | Op::Part(_)) {
            self.inputs_of_view(&input);
            self.views.push(input);
        }
    }

    fn inputs_of_view(&mut self, view: &Node) {
        for owner in view.inputs() {
            self.count(owner);
        }
    }

    /// Subtracts one for the graph's own reference.
    fn has_more(&self, node: &Arc<Node>) -> bool {
        Arc::strong_count(node) > 1 + self.inside.get(&node.id).copied().unwrap_or(0)
    }

    /// Views, each with the id of the node that owns its memory.
    fn between(&self) -> impl Iterator<Item = (&Arc<Node>, u64)> {
        self.views.iter().map(|view| (view, Place::of(view).node.id))
    }
}

/// A hash that is equal for nodes that compute the same. Callers compare the nodes on a match.
fn fingerprint(node: &Node, inputs: &[Source]) -> u64 {
    let mut hasher = FxHasher::default();
    std::mem::discriminant(&node.op).hash(&mut hasher);
    match &node.op {
        Op::Constant(Scalar::Float(value)) => value.to_bits().hash(&mut hasher),
        Op::Constant(Scalar::Int(value)) => value.hash(&mut hasher),
        Op::Index(axis) => axis.hash(&mut hasher),
        Op::Unary(function) => function.hash(&mut hasher),
        Op::Binary(function) => function.hash(&mut hasher),
        _ => {}
    }
    (node.dtype, &node.shape).hash(&mut hasher);
    for source in inputs {
        (source.entry, source.output).hash(&mut hasher);
    }
    hasher.finish()
}
