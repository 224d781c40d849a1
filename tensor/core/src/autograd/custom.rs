//! Functions whose backward pass the program defines, and backward passes inside of backward passes.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::saved::Saving;
use super::{Backward, Edge, Function, History, Rule, propagate};
use crate::error::TensorError;
use crate::grad_mode;
use crate::ops;
use crate::tensor::{Inner, Result, Tensor, differentiable};

/// The backward pass of a custom function: maps the gradients of its outputs (`None` for zeros) and the tensors that it saved to
/// the gradients of its inputs.
pub type Backwards = Box<dyn Fn(&[Option<Tensor>], &[Tensor]) -> Result<Vec<Option<Tensor>>> + Send + Sync>;

/// A function with its own backward pass.
pub struct Custom<'a> {
    /// What its gradients flow to.
    pub inputs: &'a [&'a Tensor],
    /// Its results; those of other types than floating point have no gradient.
    pub outputs: &'a [Tensor],
    /// What its backward pass needs; inputs and outputs may be among them.
    pub saved: &'a [&'a Tensor],
    /// Its backward pass.
    pub backward: Backwards,
}

impl fmt::Debug for Custom<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({:?} -> {:?})", self.inputs, self.outputs)
    }
}

impl Custom<'_> {
    /// Returns the outputs with a history that leads to the inputs.
    ///
    /// A function has one gradient to pass on, so each output gets a function of its own, which leaves its gradient in a slot; their
    /// common successor is called after all of them and takes what is in the slots.
    pub fn record(self) -> Vec<Tensor> {
        let wanted = grad_mode::is_enabled() && self.inputs.iter().any(|input| input.requires_grad());
        if !wanted {
            return self.outputs.to_vec();
        }
        let slots: Slots = Arc::new(Mutex::new(vec![None; self.outputs.len()]));
        let edges = self.inputs.iter().map(|input| input.edge()).collect();
        let is_output =
            |tensor: &Tensor| self.outputs.iter().position(|output| Arc::ptr_eq(&output.0, &tensor.0));
        let saving = Saving::begin();
        let kept: Vec<Tensor> = self
            .saved
            .iter()
            .map(|tensor| if is_output(tensor).is_some() { tensor.detach() } else { tensor.saved() })
            .collect();
        let kept = Arc::new(Mutex::new(kept));
        let (joint_slots, joint_kept, backward) = (slots.clone(), kept.clone(), self.backward);
        let rule: Rule = Box::new(move |_| {
            let gradients: Vec<Option<Tensor>> = joint_slots.lock().iter_mut().map(Option::take).collect();
            let saved = joint_kept.lock().clone();
            backward(&gradients, &saved)
        });
        let joint = Arc::new(Function::new("custom", edges, rule, saving.end()));
        let made: Vec<Tensor> = (0..self.outputs.len())
            .map(|number| with_slot(&self.outputs[number], number, &joint, &slots))
            .collect();
        for (tensor, place) in self.saved.iter().zip(kept.lock().iter_mut()) {
            if let Some(number) = is_output(tensor) {
                *place = made[number].saved();
            }
        }
        made
    }
}

type Slots = Arc<Mutex<Vec<Option<Tensor>>>>;

fn with_slot(output: &Tensor, number: usize, joint: &Arc<Function>, slots: &Slots) -> Tensor {
    if !differentiable(output.dtype()) {
        return output.clone();
    }
    let made = output.snapshot();
    let (slots, device) = (slots.clone(), output.device().clone());
    let rule: Rule = Box::new(move |gradient| {
        slots.lock()[number] = Some(gradient.clone());
        // Only tells the joint function that a gradient has arrived; never computed.
        let token = ops::create::full(&device, gradient.dtype(), &[], crate::dtype::Scalar::Int(0))?;
        Ok(vec![Some(token)])
    });
    let function = Function::new("custom", vec![Edge::Function(joint.clone())], rule, super::Saved::new());
    *made.0.history.lock() = Some(History::Function(Arc::new(function)));
    made.mark_differentiable();
    made
}

type Leaves = Vec<(Arc<Inner>, Tensor)>;

thread_local! {
    /// Gradients of leaves that an inner backward pass hands to the outer one; `None` outside of a backward pass.
    static HANDED: RefCell<Option<Leaves>> = const { RefCell::new(None) };
}

/// While it exists, inner backward passes of this thread hand their gradients to this one.
pub(super) struct Outer {
    before: Option<Leaves>,
}

impl Outer {
    pub fn begin() -> Outer {
        Outer { before: HANDED.replace(Some(Leaves::new())) }
    }

    /// What inner passes have handed over since the last call.
    pub fn taken() -> Leaves {
        HANDED.with_borrow_mut(|handed| handed.as_mut().map(std::mem::take).unwrap_or_default())
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        HANDED.set(self.before.take());
    }
}

/// A backward pass inside of a rule: returns the gradients of the inputs. Those of all other leaves become part of the outer
/// backward pass, as if its graph had contained the inner one.
pub fn backward_within(
    outputs: &[(&Tensor, Option<&Tensor>)],
    inputs: &[&Tensor],
) -> Result<Vec<Option<Tensor>>> {
    if HANDED.with_borrow(Option::is_none) {
        return Err(TensorError::state("backward_within", "no backward pass is running on this thread"));
    }
    let found = propagate(outputs, &[], Backward::default())?;
    let mut answers = vec![None; inputs.len()];
    let mut others = Leaves::new();
    for (leaf, gradient) in found.leaves {
        match inputs.iter().position(|input| Arc::ptr_eq(&input.0, &leaf)) {
            Some(at) => answers[at] = Some(gradient),
            None => others.push((leaf, gradient)),
        }
    }
    HANDED.with_borrow_mut(|handed| handed.get_or_insert_default().append(&mut others));
    Ok(answers)
}
