//! The part of the graph that one evaluation is about: every node that is needed and not stored, after what it is made of.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::{DType, Scalar};
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
    pub inputs: SmallVec<[Source; 3]>,
    pub stored: bool,
    /// Somebody wants to have it afterwards.
    pub wanted: bool,
}

impl Entry {
    /// Whether it is this operation of these inputs.
    fn computes(&self, node: &Node, inputs: &[Source]) -> bool {
        !self.stored
            && self.node.dtype == node.dtype
            && self.node.shape == node.shape
            && self.inputs.as_slice() == inputs
            && self.node.op == node.op
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
        let mut known: HashMap<u64, usize> = HashMap::new();
        let mut same: HashMap<u64, SmallVec<[usize; 2]>> = HashMap::new();
        enum Visit {
            Enter(Arc<Node>),
            Leave(Arc<Node>, Vec<Place>),
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
                            entries.push(Entry {
                                node,
                                twins: Vec::new(),
                                inputs: SmallVec::new(),
                                stored: true,
                                wanted: false,
                            });
                            continue;
                        }
                        let places: Vec<Place> = node.inputs().iter().map(Place::of).collect();
                        let before: SmallVec<[Arc<Node>; 3]> =
                            places.iter().map(|place| place.node.clone()).collect();
                        stack.push(Visit::Leave(node, places));
                        stack.extend(
                            before.into_iter().filter(|node| !known.contains_key(&node.id)).map(Visit::Enter),
                        );
                    }
                    Visit::Leave(node, places) => {
                        if known.contains_key(&node.id) {
                            continue;
                        }
                        let inputs: SmallVec<[Source; 3]> = places
                            .iter()
                            .map(|place| Source {
                                entry: known[&place.node.id],
                                output: place.output,
                                layout: place.layout.clone(),
                                whole: place.is_whole(),
                            })
                            .collect();
                        let wanted = node.is_held();
                        let alike = same.entry(fingerprint(&node, &inputs)).or_default();
                        let twin = alike.iter().copied().find(|&twin| entries[twin].computes(&node, &inputs));
                        if let Some(twin) = twin {
                            known.insert(node.id, twin);
                            entries[twin].wanted |= wanted;
                            entries[twin].twins.push(node);
                            continue;
                        }
                        alike.push(entries.len());
                        known.insert(node.id, entries.len());
                        entries.push(Entry { node, twins: Vec::new(), inputs, stored: false, wanted });
                    }
                }
            }
            entries[known[&id]].wanted = true;
        }
        Graph { entries }
    }
}

/// Equal for what computes the same; what only seems equal is compared.
fn fingerprint(node: &Node, inputs: &[Source]) -> u64 {
    let mut hasher = DefaultHasher::new();
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
