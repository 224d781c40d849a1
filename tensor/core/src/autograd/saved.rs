//! Versions of the tensors that rules have saved. A rule keeps the elements as they were, but a program that changes a tensor
//! between its use and the backward pass has probably not meant the old ones, so the backward pass is refused, as in PyTorch.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use crate::error::TensorError;
use crate::storage::Storage;
use crate::tensor::{Inner, Result, Tensor};

/// What a rule has saved.
pub(super) type Saved = SmallVec<[Note; 2]>;

/// A saved tensor: the storage that its elements came from, and the version.
pub(super) struct Note {
    copy: Weak<Inner>,
    storage: Arc<Storage>,
    version: u64,
}

thread_local! {
    /// What the rule that is being made on this thread has saved.
    static SAVING: RefCell<Option<Saved>> = const { RefCell::new(None) };
    /// The storage that an operation in place is about to write.
    static WRITING: RefCell<Option<Arc<Storage>>> = const { RefCell::new(None) };
}

/// Collects what a rule saves while it is made.
pub(super) struct Saving {
    outer: Option<Saved>,
}

impl Saving {
    pub fn begin() -> Saving {
        Saving { outer: SAVING.replace(Some(Saved::new())) }
    }

    /// Copies that the rule did not keep are left out.
    pub fn end(self) -> Saved {
        let mut saved = SAVING.replace(self.outer).unwrap_or_default();
        saved.retain(|note| note.copy.strong_count() > 0);
        saved
    }
}

/// Notes that `copy` has the elements of a storage, if a rule is being made.
pub(crate) fn note_saved(copy: &Tensor, storage: Arc<Storage>, version: u64) {
    SAVING.with_borrow_mut(|saving| {
        let Some(saving) = saving else { return };
        let writing = WRITING.with_borrow(|own| own.as_ref().is_some_and(|own| Arc::ptr_eq(own, &storage)));
        if !writing {
            saving.push(Note { copy: Arc::downgrade(&copy.0), storage, version });
        }
    });
}

/// Returns an error if a saved tensor has been changed since.
pub(super) fn check(name: &str, saved: &Saved) -> Result<()> {
    for note in saved {
        let now = note.storage.version();
        if now != note.version {
            return Err(TensorError::state(
                "backward",
                format!(
                    "one of the tensors needed for the gradient of {name} has been modified by an inplace operation: \
                     {:?} is at version {now}, version {} was saved; change a clone() of it instead",
                    note.storage.shape(),
                    note.version
                ),
            ));
        }
    }
    Ok(())
}

/// While it exists, rules made on this thread may save the elements that the operation in place is about to replace.
#[derive(Debug)]
pub struct InPlace {
    outer: Option<Arc<Storage>>,
}

/// Begins an operation in place on a tensor: computing the result, then [`Tensor::assign`].
pub fn in_place(x: &Tensor) -> InPlace {
    InPlace { outer: WRITING.replace(Some(x.elements_place().storage)) }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        WRITING.set(self.outer.take());
    }
}
