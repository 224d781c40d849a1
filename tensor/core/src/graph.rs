//! The part of the graph that one evaluation is about: every node that is needed and not stored, after what it is made of.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::DType;
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
    pub inputs: SmallVec<[Source; 3]>,
    pub stored: bool,
    /// Somebody wants to have it afterwards.
    pub wanted: bool,
}

impl Entry {
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
                        let inputs = places
                            .iter()
                            .map(|place| Source {
                                entry: known[&place.node.id],
                                output: place.output,
                                layout: place.layout.clone(),
                                whole: place.is_whole(),
                            })
                            .collect();
                        let wanted = node.is_held();
                        known.insert(node.id, entries.len());
                        entries.push(Entry { node, inputs, stored: false, wanted });
                    }
                }
            }
            entries[known[&id]].wanted = true;
        }
        Graph { entries }
    }
}
