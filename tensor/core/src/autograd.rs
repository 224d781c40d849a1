//! Reverse-mode automatic differentiation: records which function produced a tensor, and propagates gradients back to its inputs.

use std::collections::BinaryHeap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use rustc_hash::FxHashMap;

mod custom;
mod hooks;
mod saved;

pub use custom::{Backwards, Custom, backward_within};
pub(crate) use hooks::Hooks;
pub use hooks::{Hook, HookHandle};
pub(crate) use saved::note_saved;
pub use saved::{InPlace, in_place};
use saved::{Saved, Saving};

use crate::error::TensorError;
use crate::grad_mode;
use crate::ops;
use crate::tensor::{Inner, Result, Tensor, differentiable, same_device};

/// The backward function of an operation: maps the gradient of its output to the gradients of its inputs; `None` for inputs
/// without one.
pub(crate) type Rule = Box<dyn Fn(&Tensor) -> Result<Vec<Option<Tensor>>> + Send + Sync>;

/// The destination of a gradient.
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

/// The autograd history of a tensor through which gradients flow.
#[derive(Clone)]
pub(crate) enum History {
    /// The function that produced it.
    Function(Arc<Function>),
    /// Like `Function`, but a weak reference, for tensors saved by a rule: the function that owns the rule already keeps this
    /// function alive, or is this function.
    WeakFunction(Weak<Function>),
    /// A leaf's elements as they were when a rule saved them; gradients go to that leaf.
    Leaf(Arc<Inner>),
}

/// The autograd node of one operation.
pub(crate) struct Function {
    id: u64,
    pub name: &'static str,
    edges: Mutex<Vec<Edge>>,
    /// Dropped after its first use unless the graph is retained, and with it the tensors that it saved.
    rule: Mutex<Option<Recorded>>,
    hooks: Hooks,
}

struct Recorded {
    rule: Rule,
    saved: Saved,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Function {
    fn new(name: &'static str, edges: Vec<Edge>, rule: Rule, saved: Saved) -> Function {
        Function {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            edges: Mutex::new(edges),
            rule: Mutex::new(Some(Recorded { rule, saved })),
            hooks: Hooks::default(),
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.id)
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // Iterative, so that dropping a long chain does not overflow the stack.
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
    /// Records how gradients flow from this tensor back to `inputs`. `rule` is only called if an input requires a gradient. Its
    /// argument is this tensor with a weak history, as from [`Tensor::saved`], so that the rule may save it without a reference
    /// cycle.
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
        let function = Arc::new_cyclic(|itself| {
            let saving = Saving::begin();
            let rule = rule(self.with_history(History::WeakFunction(itself.clone())));
            Function::new(name, edges, rule, saving.end())
        });
        *self.0.history.lock() = Some(History::Function(function));
        // The history is still empty and the type is differentiable, so this cannot fail.
        self.set_requires_grad(true).map(|()| self.clone()).unwrap_or(self)
    }

    /// Makes the result of another tensor's history its own: after a write of that tensor's elements to this one.
    pub(crate) fn take_history(&self, from: &Tensor) {
        let history = from.0.history.lock().clone();
        *self.0.history.lock() = Some(history.unwrap_or_else(|| History::Leaf(from.0.clone())));
        self.mark_differentiable();
        self.0.rewritten.fetch_add(1, Ordering::Relaxed);
    }

    /// Derives the history of a view from that of its base, if a write has replaced the latter since the view's was recorded.
    pub(crate) fn refresh(&self) {
        let Some((base, now)) = self.outdated_base() else { return };
        self.0.rewritten.store(now, Ordering::Relaxed);
        if !base.requires_grad() || !differentiable(self.dtype()) {
            return;
        }
        let spread = ops::strided::from_view(self, base);
        let rule: Rule = Box::new(move |g| Ok(vec![Some(spread(g)?)]));
        let function = Function::new("view", vec![base.edge()], rule, Saved::new());
        *self.0.history.lock() = Some(History::Function(Arc::new(function)));
        self.mark_differentiable();
    }

    /// Returns the form of an input that a rule saves: its current elements, and its history in case second-order gradients are
    /// needed.
    pub(crate) fn saved(&self) -> Tensor {
        if !self.requires_grad() {
            return self.snapshot();
        }
        let history = self.0.history.lock().clone();
        self.with_history(match history {
            Some(History::Function(function)) => History::WeakFunction(Arc::downgrade(&function)),
            Some(other) => other,
            None => History::Leaf(self.0.clone()),
        })
    }

    /// Returns a tensor with the same elements but the given history.
    fn with_history(&self, history: History) -> Tensor {
        let copy = self.snapshot();
        *copy.0.history.lock() = Some(history);
        copy.mark_differentiable();
        copy
    }

    fn edge(&self) -> Edge {
        if !self.requires_grad() {
            return Edge::Nowhere;
        }
        match &*self.0.history.lock() {
            Some(History::Function(function)) => Edge::Function(function.clone()),
            Some(History::WeakFunction(function)) => function.upgrade().map_or(Edge::Nowhere, Edge::Function),
            Some(History::Leaf(leaf)) => Edge::Leaf(leaf.clone()),
            None => Edge::Leaf(self.0.clone()),
        }
    }
}

/// Options of a backward pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backward {
    /// Keep the graph, so that a second backward pass is possible.
    pub retain_graph: bool,
    /// Record the backward pass itself, so that gradients have gradients. Implies keeping the graph.
    pub create_graph: bool,
}

/// See [`Tensor::backward`].
pub(crate) fn backward(tensor: &Tensor, gradient: Option<&Tensor>, way: Backward) -> Result<()> {
    let found = propagate(&[(tensor, gradient)], &[], way)?;
    for (leaf, gradient) in found.leaves {
        let before = leaf.grad.lock().clone();
        let sum = match &before {
            Some(before) => ops::elementwise::add(before, &gradient)?,
            None => gradient,
        };
        // Tensors that share the accumulated gradient see the sum; those that share an incoming gradient do not see later sums.
        match before {
            Some(before) if !way.create_graph => before.write(&sum)?,
            _ if way.create_graph => *leaf.grad.lock() = Some(sum),
            _ => *leaf.grad.lock() = Some(owned(&sum)?),
        }
    }
    crate::execute::want(tensor);
    Ok(())
}

/// Returns the gradients of outputs with respect to inputs, without changing any tensor's `grad`. `None` for an input that the
/// outputs do not depend on.
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
        gradient.map(|it| if way.create_graph { Ok(it.clone()) } else { owned(it) }).transpose()
    };
    edges.iter().map(of).collect()
}

/// The gradient as a tensor that can be written: with its own elements, each in its own place.
fn owned(gradient: &Tensor) -> Result<Tensor> {
    if gradient.layout().overlaps() {
        return ops::shape::clone(&gradient.snapshot());
    }
    Ok(gradient.snapshot())
}

/// The result of a backward pass.
struct Found {
    leaves: Vec<(Arc<Inner>, Tensor)>,
    /// Gradients that reached the requested functions, by function id.
    passed: Vec<(u64, Tensor)>,
}

fn propagate(outputs: &[(&Tensor, Option<&Tensor>)], wanted: &[u64], way: Backward) -> Result<Found> {
    let _mode = grad_mode::Guard::new(way.create_graph);
    let _outer = custom::Outer::begin();
    let mut passed = Vec::new();
    // A function gets its id after its inputs' functions, so the highest pending id has received all of its gradients.
    let mut waiting: BinaryHeap<u64> = BinaryHeap::new();
    let mut arrived: FxHashMap<u64, (Arc<Function>, Tensor)> = FxHashMap::default();
    let mut leaves: Vec<(Arc<Inner>, Tensor)> = Vec::new();
    let mut positions: FxHashMap<*const Inner, usize> = FxHashMap::default();
    let mut send =
        |edge: &Edge, gradient: Tensor, waiting: &mut BinaryHeap<u64>, arrived: &mut FxHashMap<_, _>| {
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
        let gradient = function.hooks.apply(gradient)?;
        let mut rule = function.rule.lock();
        let Some(go) = rule.as_ref() else {
            return Err(TensorError::state(
                "backward",
                format!(
                    "the backward pass already went through {} and freed its saved tensors; pass retain_graph=True the first time",
                    function.name
                ),
            ));
        };
        if wanted.contains(&id) {
            passed.push((id, gradient.clone()));
        }
        saved::check(function.name, &go.saved)?;
        let gradients = (go.rule)(&gradient)?;
        if !way.retain_graph && !way.create_graph {
            *rule = None;
        }
        drop(rule);
        for (edge, gradient) in function.edges.lock().iter().zip(gradients) {
            if let Some(gradient) = gradient {
                send(edge, gradient, &mut waiting, &mut arrived)?;
            }
        }
        for (leaf, gradient) in custom::Outer::taken() {
            send(&Edge::Leaf(leaf), gradient, &mut waiting, &mut arrived)?;
        }
    }
    for (leaf, gradient) in &mut leaves {
        let complete = gradient.clone();
        *gradient = leaf.hooks.apply(complete)?;
    }
    Ok(Found { leaves, passed })
}

/// Returns the gradient that the backward pass starts with.
fn seed(output: &Tensor, gradient: Option<&Tensor>) -> Result<Tensor> {
    if !output.requires_grad() {
        return Err(TensorError::state(
            "backward",
            "neither the tensor nor any of its inputs requires a gradient",
        ));
    }
    let Some(gradient) = gradient else {
        if output.elements() != 1 {
            return Err(TensorError::state(
                "backward",
                format!(
                    "backward() without a gradient needs a tensor with one element, not {:?}; pass gradient=",
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
