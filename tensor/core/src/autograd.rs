//! The way back: which function made a tensor, and what a gradient of it is for its inputs.

use std::collections::BinaryHeap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::error::TensorError;
use crate::fast_map::FastMap;
use crate::grad_mode;
use crate::ops;
use crate::tensor::{Inner, Result, Tensor, differentiable, same_device};

/// The gradients of a function's inputs, of the gradient of its output; nothing where there is none.
pub(crate) type Rule = Box<dyn Fn(&Tensor) -> Result<Vec<Option<Tensor>>> + Send + Sync>;

/// Where a gradient goes to.
enum Edge {
    Nowhere,
    Leaf(Arc<Inner>),
    Function(Arc<Function>),
}

impl Edge {
    fn function(&self) -> Option<u64> {
        match self {
            Edge::Function(function) => Some(function.id),
            _ => None,
        }
    }
}

/// What a tensor came of, if gradients go through it.
#[derive(Clone)]
pub(crate) enum Past {
    /// The function that made it.
    Made(Arc<Function>),
    /// The same, told to the rule of a function that holds on to it anyway, or of this very function.
    Kept(Weak<Function>),
    /// It shows the elements that a leaf had when a rule wanted to keep them.
    Was(Arc<Inner>),
}

/// How a tensor was made.
pub(crate) struct Function {
    id: u64,
    pub name: &'static str,
    edges: Mutex<Vec<Edge>>,
    /// Let go once it was used, and with it the tensors that it remembers.
    rule: Mutex<Option<Rule>>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.id)
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // A long chain must not need as many stack frames to go away.
        let mut waiting = std::mem::take(self.edges.get_mut());
        while let Some(edge) = waiting.pop() {
            if let Edge::Function(function) = edge
                && let Some(mut function) = Arc::into_inner(function)
            {
                waiting.append(function.edges.get_mut());
            }
        }
    }
}

impl Tensor {
    /// Says how gradients go back from this tensor to what it was made of. The rule is only made if anybody wants them; it is given this tensor
    /// as [`Tensor::kept`] gives others, so that it may remember it.
    pub(crate) fn record(
        self,
        name: &'static str,
        inputs: &[&Tensor],
        rule: impl FnOnce(Tensor) -> Rule,
    ) -> Tensor {
        let wanted = grad_mode::is_enabled()
            && differentiable(self.dtype())
            && inputs.iter().any(|input| input.requires_grad());
        if !wanted {
            return self;
        }
        let edges = inputs.iter().map(|input| input.edge()).collect();
        let function = Arc::new_cyclic(|itself| Function {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            edges: Mutex::new(edges),
            rule: Mutex::new(Some(rule(self.with_past(Past::Kept(itself.clone()))))),
        });
        *self.0.past.lock() = Some(Past::Made(function));
        // It has no past yet, so nothing can be wrong with its type.
        self.set_requires_grad(true).map(|()| self.clone()).unwrap_or(self)
    }

    /// What a rule remembers of an input: the elements as they are now, and where they came from, in case the gradient's own gradient is wanted.
    pub(crate) fn kept(&self) -> Tensor {
        if !self.requires_grad() {
            return self.detach();
        }
        let past = self.0.past.lock().clone();
        self.with_past(match past {
            Some(Past::Made(function)) => Past::Kept(Arc::downgrade(&function)),
            Some(other) => other,
            None => Past::Was(self.0.clone()),
        })
    }

    /// The same elements, of which gradients go to somebody else's past.
    fn with_past(&self, past: Past) -> Tensor {
        let copy = self.detach();
        *copy.0.past.lock() = Some(past);
        // Whoever has a past has a type with gradients.
        copy.set_requires_grad(true).map(|()| copy.clone()).unwrap_or(copy)
    }

    fn edge(&self) -> Edge {
        if !self.requires_grad() {
            return Edge::Nowhere;
        }
        match &*self.0.past.lock() {
            Some(Past::Made(function)) => Edge::Function(function.clone()),
            Some(Past::Kept(function)) => function.upgrade().map_or(Edge::Nowhere, Edge::Function),
            Some(Past::Was(leaf)) => Edge::Leaf(leaf.clone()),
            None => Edge::Leaf(self.0.clone()),
        }
    }
}

/// How far the way back goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backward {
    /// Keep what is needed to go back once more.
    pub retain_graph: bool,
    /// Record the way back itself, so that gradients have gradients; keeps what is needed too.
    pub create_graph: bool,
}

/// See [`Tensor::backward`].
pub(crate) fn backward(tensor: &Tensor, gradient: Option<&Tensor>, way: Backward) -> Result<()> {
    let found = propagate(&[(tensor, gradient)], &[], way)?;
    for (leaf, gradient) in found.leaves {
        let before = leaf.grad.lock().take();
        let sum = match before {
            Some(before) => ops::elementwise::add(&before, &gradient)?,
            None => gradient,
        };
        *leaf.grad.lock() = Some(if way.create_graph { sum } else { sum.detach() });
    }
    crate::execute::want(tensor);
    Ok(())
}

/// The gradients of outputs with regard to inputs, without touching anybody's `grad`. Nothing where an input had no part.
pub fn gradients(
    outputs: &[(&Tensor, Option<&Tensor>)],
    inputs: &[&Tensor],
    way: Backward,
) -> Result<Vec<Option<Tensor>>> {
    if let Some(made) = inputs.iter().find(|input| !input.requires_grad()) {
        return Err(TensorError::state(
            "grad",
            format!("{made:?} does not require a gradient; call requires_grad_() before computing with it"),
        ));
    }
    let edges: Vec<Edge> = inputs.iter().map(|input| input.edge()).collect();
    let wanted: Vec<u64> = edges.iter().filter_map(Edge::function).collect();
    let found = propagate(outputs, &wanted, way)?;
    let of = |edge: &Edge| {
        let gradient = match edge {
            Edge::Nowhere => None,
            Edge::Leaf(own) => found.leaves.iter().find(|(leaf, _)| Arc::ptr_eq(leaf, own)).map(|(_, g)| g),
            Edge::Function(function) => {
                found.passed.iter().find(|(id, _)| *id == function.id).map(|(_, g)| g)
            }
        };
        gradient.map(|gradient| if way.create_graph { gradient.clone() } else { gradient.detach() })
    };
    Ok(edges.iter().map(of).collect())
}

/// Where gradients came to.
struct Found {
    leaves: Vec<(Arc<Inner>, Tensor)>,
    /// Through which of the functions that somebody wanted to hear of.
    passed: Vec<(u64, Tensor)>,
}

fn propagate(outputs: &[(&Tensor, Option<&Tensor>)], wanted: &[u64], way: Backward) -> Result<Found> {
    let _mode = grad_mode::Guard::new(way.create_graph);
    let mut passed = Vec::new();
    // Functions are made after their inputs' functions, so the latest of those that wait has heard from everybody.
    let mut waiting: BinaryHeap<u64> = BinaryHeap::new();
    let mut arrived: FastMap<u64, (Arc<Function>, Tensor)> = FastMap::default();
    let mut leaves: Vec<(Arc<Inner>, Tensor)> = Vec::new();
    let mut positions: FastMap<*const Inner, usize> = FastMap::default();
    let mut send =
        |edge: &Edge, gradient: Tensor, waiting: &mut BinaryHeap<u64>, arrived: &mut FastMap<_, _>| {
            match edge {
                Edge::Nowhere => {}
                Edge::Leaf(leaf) => match positions.entry(Arc::as_ptr(leaf)) {
                    Entry::Occupied(at) => {
                        let sum = &mut leaves[*at.get()].1;
                        *sum = ops::elementwise::add(sum, &gradient)?;
                    }
                    Entry::Vacant(free) => {
                        free.insert(leaves.len());
                        leaves.push((leaf.clone(), gradient));
                    }
                },
                Edge::Function(function) => match arrived.entry(function.id) {
                    Entry::Occupied(mut at) => {
                        let (_, sum): &mut (Arc<Function>, Tensor) = at.get_mut();
                        *sum = ops::elementwise::add(sum, &gradient)?;
                    }
                    Entry::Vacant(free) => {
                        waiting.push(function.id);
                        free.insert((function.clone(), gradient));
                    }
                },
            }
            Ok::<(), TensorError>(())
        };
    for (output, gradient) in outputs {
        let seed = seed(output, *gradient)?;
        send(&output.edge(), seed, &mut waiting, &mut arrived)?;
    }
    while let Some(id) = waiting.pop() {
        let Some((function, gradient)) = arrived.remove(&id) else { continue };
        let mut rule = function.rule.lock();
        let Some(go) = rule.as_ref() else {
            return Err(TensorError::state(
                "backward",
                format!(
                    "{} was gone back through before; the first time needs retain_graph=True",
                    function.name
                ),
            ));
        };
        if wanted.contains(&id) {
            passed.push((id, gradient.clone()));
        }
        let gradients = go(&gradient)?;
        if !way.retain_graph && !way.create_graph {
            *rule = None;
        }
        drop(rule);
        for (edge, gradient) in function.edges.lock().iter().zip(gradients) {
            if let Some(gradient) = gradient {
                send(edge, gradient, &mut waiting, &mut arrived)?;
            }
        }
    }
    Ok(Found { leaves, passed })
}

/// What the way back begins with.
fn seed(output: &Tensor, gradient: Option<&Tensor>) -> Result<Tensor> {
    if !output.requires_grad() {
        return Err(TensorError::state(
            "backward",
            "the tensor does not require a gradient and nothing that it came of does",
        ));
    }
    let Some(gradient) = gradient else {
        if output.elements() != 1 {
            return Err(TensorError::state(
                "backward",
                format!(
                    "a gradient can only be begun at one number, not at {:?}; pass gradient=",
                    output.shape()
                ),
            ));
        }
        return Ok(output.filled_like(1.0));
    };
    same_device("backward", output, gradient)?;
    if gradient.shape() != output.shape() {
        return Err(TensorError::shape(
            "backward",
            format!("the gradient is {:?}, the tensor {:?}", gradient.shape(), output.shape()),
        ));
    }
    gradient.cast(output.dtype())
}
