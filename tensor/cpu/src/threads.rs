//! The device's own threads: made when first needed, and made again in a process that was forked, where the parent's do not exist.

use std::sync::{Arc, Mutex};

use crate::crew::Crew;
use crate::level::Level;

/// Below this many nanoseconds of work, roughly, waking threads costs more than they save.
const WORTH: usize = 40_000;

/// How many threads there are at most, and which instructions they may use.
#[derive(Debug)]
pub struct Threads {
    crew: Mutex<Option<(u32, Arc<Crew>)>>,
    most: usize,
    level: Level,
}

impl Threads {
    /// As many as there are processors, or fewer.
    pub fn new(most: Option<usize>, level: Level) -> Threads {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Threads { crew: Mutex::default(), most: most.unwrap_or(processors).max(1), level }
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// Does `task` for every number below `count`, in any order, on several threads if the whole work is worth it. `cost` is a guess in
    /// nanoseconds.
    pub fn each(&self, count: usize, cost: usize, task: impl Fn(usize) + Sync) {
        if count > 1
            && cost >= WORTH
            && self.most > 1
            && let Some(crew) = self.crew()
        {
            crew.each(count, &task);
        } else {
            (0..count).for_each(task);
        }
    }

    /// How many of `all` a task should have, at most `most`: all of them if they are not worth several threads.
    pub fn share(&self, all: usize, cost: usize, most: usize) -> usize {
        let count = if cost < WORTH { 1 } else { self.most };
        if count == 1 { all } else { all.div_ceil(count * 4).min(most) }.max(1)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.most
    }

    fn crew(&self) -> Option<Arc<Crew>> {
        let process = std::process::id();
        let mut held = self.crew.lock().ok()?;
        match &*held {
            Some((owner, crew)) if *owner == process => return Some(crew.clone()),
            _ => {}
        }
        let crew = Arc::new(Crew::new(self.most - 1)?);
        // The parent's crew has no threads here that could end it.
        std::mem::forget(held.replace((process, crew.clone())));
        Some(crew)
    }
}

/// A pointer that tasks share; each writes a part of its own.
#[derive(Clone, Copy, Debug)]
pub struct Shared<T>(*mut T);

// SAFETY: it is only an address; every use is argued where it is dereferenced.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn new(pointer: *mut T) -> Shared<T> {
        Shared(pointer)
    }

    pub fn get(&self) -> *mut T {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_task_is_done_once() {
        let threads = Threads::new(Some(3), Level::Plain);
        for cost in [0, usize::MAX] {
            let seen: Vec<_> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            threads.each(100, cost, |n| {
                seen[n].fetch_add(1, Ordering::Relaxed);
            });
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}
