//! User objects: reference-counted objects of the program that live at least as long as the graphs that use them.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::state::handles::Table;

/// A reference-counted object. Its destructor is called when the last reference is released.
#[derive(Debug)]
pub struct UserObject {
    pub id: u64,
    pointer: usize,
    destroy: unsafe extern "C" fn(*mut c_void),
    references: Mutex<u64>,
}

/// References that a graph holds.
#[derive(Debug, Default)]
pub struct Holdings(Vec<(Arc<UserObject>, u64)>);

impl UserObject {
    pub fn new(
        id: u64,
        pointer: *mut c_void,
        destroy: unsafe extern "C" fn(*mut c_void),
        references: u64,
    ) -> UserObject {
        UserObject { id, pointer: pointer as usize, destroy, references: Mutex::new(references) }
    }

    pub fn retain(&self, count: u64) {
        *self.references.lock() += count;
    }

    /// Releases references; a count that is too large releases all.
    pub fn release(&self, objects: &Table<UserObject>, count: u64) {
        let mut references = self.references.lock();
        let had = *references;
        *references = had.saturating_sub(count);
        let last = had > 0 && *references == 0;
        drop(references);
        if last {
            objects.remove(self.id);
            // SAFETY: the program passed the function for this pointer, to be called once, when no references are left.
            unsafe { (self.destroy)(self.pointer as *mut c_void) };
        }
    }

    pub fn references(&self) -> u64 {
        *self.references.lock()
    }
}

impl Holdings {
    pub fn add(&mut self, object: Arc<UserObject>, count: u64) {
        match self.0.iter_mut().find(|(held, _)| held.id == object.id) {
            Some((_, held)) => *held += count,
            None => self.0.push((object, count)),
        }
    }

    /// Removes up to `count` references; returns how many there were.
    pub fn take(&mut self, object: u64, count: u64) -> u64 {
        let Some((_, held)) = self.0.iter_mut().find(|(held, _)| held.id == object) else { return 0 };
        let taken = count.min(*held);
        *held -= taken;
        self.0.retain(|(_, held)| *held > 0);
        taken
    }

    /// Adds the same number of references to each object, for a copy of the graph.
    pub fn retained(&self) -> Holdings {
        for (object, count) in &self.0 {
            object.retain(*count);
        }
        Holdings(self.0.clone())
    }

    pub fn release(self, objects: &Table<UserObject>) {
        for (object, count) in self.0 {
            object.release(objects, count);
        }
    }
}
