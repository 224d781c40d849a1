//! The part of the graph that one evaluation is about: every node that is needed and not stored, after what it is made of.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::{DType, Scalar};
use crate::fast_map::{FastMap, Mixer};
use crate::layout::{Layout, Shape};
use crate::node::{Node, Op, Place};

/// Where an input of a node comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub entry: usize,
    pub output: usize,
    /// In the shape that the consumer sees.
    pub layout: Layout,
    /// All elements of the entry in their order.
    pub whole: bool,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub node: Arc<Node>,
    /// Other nodes that are the same of the same, and are computed with this one.
    pub twins: Vec<Arc<Node>>,
    pub inputs: Sources,
    pub stored: bool,
    /// Somebody wants to have it afterwards.
    pub wanted: bool,
    /// Somebody asked for it.
    pub asked: bool,
    /// Something that is not computed now is made of it: if it is in memory for a while, it stays.
    pub awaited: bool,
}

pub(crate) type Sources = SmallVec<[Source; 3]>;

impl Entry {
    fn new(node: Arc<Node>, inputs: Sources, stored: bool) -> Entry {
        // Numbers that are known take no memory, however many hold them.
        let wanted = !stored && node.is_held() && !matches!(node.op, Op::Constant(_) | Op::Index(_));
        Entry { node, twins: Vec::new(), inputs, stored, wanted, asked: false, awaited: false }
    }

    /// Whether it is this operation of these inputs.
    fn computes(&self, node: &Node, inputs: &[Source]) -> bool {
        !self.stored
            && self.node.dtype == node.dtype
            && self.node.shape == node.shape
            && self.inputs.as_slice() == inputs
            && self.node.op == node.op
    }

    /// Whether its memory outlives the evaluation, if it has any.
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
    /// Views are not entries: they are windows of other entries.
    pub fn of(roots: &[Arc<Node>]) -> Graph {
        let mut entries: Vec<Entry> = Vec::new();
        let mut known: FastMap<u64, usize> = FastMap::default();
        let mut references = References::default();
        let mut same: FastMap<u64, SmallVec<[usize; 2]>> = FastMap::default();
        // What is to be entered, and what is left once everything before it was: its inputs wait for their entries.
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
        Graph { entries }
    }
}

/// How often nodes are inputs within the graph. Who has more references than that has users elsewhere.
#[derive(Default)]
struct References {
    inside: FastMap<u64, usize>,
    /// Views and parts, which are no entries.
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

    /// One reference is this graph's own.
    fn has_more(&self, node: &Arc<Node>) -> bool {
        Arc::strong_count(node) > 1 + self.inside.get(&node.id).copied().unwrap_or(0)
    }

    /// With the node that each is a view of.
    fn between(&self) -> impl Iterator<Item = (&Arc<Node>, u64)> {
        self.views.iter().map(|view| (view, Place::of(view).node.id))
    }
}

/// Equal for what computes the same; what only seems equal is compared.
fn fingerprint(node: &Node, inputs: &[Source]) -> u64 {
    let mut hasher = Mixer::default();
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
