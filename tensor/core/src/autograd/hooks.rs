//! Hooks: functions that are called with a gradient when it is complete, and may replace it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::{History, owned};
use crate::error::TensorError;
use crate::tensor::{Result, Tensor};

/// Maps a gradient to its replacement, or to `None` to leave it as it is.
pub type Hook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;

type List = Mutex<Vec<(u64, Hook)>>;

/// The hooks of a leaf, or of the function that produced a tensor.
#[derive(Default)]
pub(crate) struct Hooks(OnceLock<Arc<List>>);

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Hooks {
    fn add(&self, hook: Hook) -> HookHandle {
        let list = self.0.get_or_init(Arc::default);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        list.lock().push((number, hook));
        HookHandle { list: Arc::downgrade(list), number }
    }

    /// Passes a gradient through all hooks, in the order of their registration.
    pub fn apply(&self, mut gradient: Tensor) -> Result<Tensor> {
        let Some(list) = self.0.get() else { return Ok(gradient) };
        // A hook may remove itself.
        let hooks = list.lock().clone();
        for (_, hook) in hooks {
            let Some(changed) = hook(&gradient)? else { continue };
            if changed.shape() != gradient.shape() {
                return Err(TensorError::shape(
                    "register_hook",
                    format!(
                        "the hook returned a gradient of shape {:?} for one of shape {:?}",
                        changed.shape(),
                        gradient.shape()
                    ),
                ));
            }
            gradient = changed.to_device(gradient.device())?.cast(gradient.dtype())?;
        }
        Ok(gradient)
    }
}

/// Removes a hook.
pub struct HookHandle {
    list: Weak<List>,
    number: u64,
}

impl HookHandle {
    /// Removes the hook, unless that was done already.
    pub fn remove(&self) {
        if let Some(list) = self.list.upgrade() {
            list.lock().retain(|(number, _)| *number != self.number);
        }
    }
}

impl fmt::Debug for HookHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookHandle({})", self.number)
    }
}

impl Tensor {
    /// Calls a function with the gradient of this tensor in every backward pass, before the gradient is used.
    pub fn register_hook(&self, hook: Hook) -> Result<HookHandle> {
        if !self.requires_grad() {
            return Err(TensorError::state(
                "register_hook",
                "the tensor does not require a gradient, so the hook would never be called",
            ));
        }
        let history = self.0.history.lock().clone();
        let gone = || TensorError::state("register_hook", "the graph of this tensor was released");
        match history {
            Some(History::Function(function)) => Ok(function.hooks.add(hook)),
            Some(History::WeakFunction(function)) => Ok(function.upgrade().ok_or_else(gone)?.hooks.add(hook)),
            Some(History::Leaf(leaf)) => Ok(leaf.hooks.add(hook)),
            None => Ok(self.0.hooks.add(hook)),
        }
    }

    /// Makes backward passes accumulate the gradient of this tensor in `grad` even if it is the result of an operation.
    pub fn retain_grad(&self) -> Result<()> {
        if self.is_leaf() {
            return if self.requires_grad() {
                Ok(())
            } else {
                Err(TensorError::state("retain_grad", "the tensor does not require a gradient"))
            };
        }
        if self.0.retains_grad.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let own = Arc::downgrade(&self.0);
        self.register_hook(Arc::new(move |gradient| {
            if let Some(own) = own.upgrade() {
                let before = own.grad.lock().clone();
                let sum = match before {
                    Some(before) => crate::ops::elementwise::add(&before, gradient)?,
                    None => owned(gradient)?,
                };
                *own.grad.lock() = Some(sum);
            }
            Ok(None)
        }))
        .map(|_| ())
    }

    /// Whether [`Tensor::retain_grad`] was called.
    pub fn retains_grad(&self) -> bool {
        self.0.retains_grad.load(Ordering::Relaxed)
    }
}
