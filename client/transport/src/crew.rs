//! A crew: threads that help with a transfer over several links. One thread copies a few GB/s between memory and sockets, which is
//! less than several links carry.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::os::threads::spawn_quietly;

/// Part of a transfer, which may borrow the caller's memory.
pub(crate) type Task<'a> = Box<dyn FnOnce() -> io::Result<()> + Send + 'a>;

/// Threads that wait for tasks. They end when the crew is dropped.
#[derive(Debug)]
pub(crate) struct Crew {
    helpers: Vec<Sender<Job<'static>>>,
}

/// A task, and the latch that counts it when it has ended or was dropped. The order of the fields matters: what the task borrows is
/// released before it is counted.
struct Job<'a> {
    task: Option<Task<'a>>,
    ticket: Ticket,
}

struct Ticket(Arc<Latch>);

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.left -= 1;
        if state.left == 0 {
            self.0.ended.notify_all();
        }
    }
}

/// Counts the tasks of a transfer that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    left: usize,
    failure: Option<io::Error>,
}

impl Latch {
    /// Waits until all tasks have ended, or the time is over; returns whether they have.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> bool {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut state = self.state.lock();
        while state.left > 0 {
            match deadline {
                None => self.ended.wait(&mut state),
                Some(deadline) => {
                    if self.ended.wait_until(&mut state, deadline).timed_out() {
                        return state.left == 0;
                    }
                }
            }
        }
        true
    }
}

impl Job<'_> {
    fn run(mut self) {
        let Some(task) = self.task.take() else { return };
        let result = catch_unwind(AssertUnwindSafe(task));
        let failure = match result {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => io::Error::other("a thread that helps with a transfer panicked"),
        };
        self.ticket.0.state.lock().failure.get_or_insert(failure);
    }
}

impl Crew {
    /// Starts the threads.
    pub(crate) fn start(count: usize) -> io::Result<Crew> {
        let helpers = (0..count).map(|_| {
            let (sender, receiver) = channel::<Job<'static>>();
            spawn_quietly("remora-links", move || receiver.into_iter().for_each(Job::run))?;
            Ok(sender)
        });
        Ok(Crew { helpers: helpers.collect::<io::Result<_>>()? })
    }

    /// Runs the tasks, each on a thread of its own if there are enough, and `meanwhile` on this thread. Returns when all have ended,
    /// with the first failure.
    pub(crate) fn run<'a>(&self, tasks: Vec<Task<'a>>, meanwhile: impl FnOnce(&Latch)) -> io::Result<()> {
        /// Waits even if `meanwhile` panics: the tasks borrow what the caller would free.
        struct Waiting(Arc<Latch>);
        impl Drop for Waiting {
            fn drop(&mut self) {
                self.0.wait(None);
            }
        }
        let latch = Arc::new(Latch::default());
        latch.state.lock().left = tasks.len();
        let waiting = Waiting(Arc::clone(&latch));
        let jobs = tasks.into_iter().map(|task| Job { task: Some(task), ticket: Ticket(Arc::clone(&latch)) });
        // All exist before the first runs, so that a panic here drops, and thus counts, those that were not passed on.
        let jobs: Vec<Job<'a>> = jobs.collect();
        for (job, helper) in jobs.into_iter().zip(self.helpers.iter().cycle()) {
            // SAFETY: only the lifetime changes. `waiting` ends after every job was run or dropped, so nothing uses what the task
            // borrows after this function has returned.
            let job = unsafe { std::mem::transmute::<Job<'a>, Job<'static>>(job) };
            // A job that cannot be passed on comes back, is dropped and counted; its part is missing.
            if helper.send(job).is_err() {
                latch.state.lock().failure.get_or_insert_with(|| io::Error::other("a helping thread ended"));
            }
        }
        meanwhile(&latch);
        drop(waiting);
        let failure = latch.state.lock().failure.take();
        failure.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_run_ends_after_all_its_tasks_whatever_becomes_of_them() {
        let crew = Crew::start(3).unwrap();
        for count in [1, 3, 10] {
            let ran = AtomicUsize::new(0);
            let mut bytes = vec![0u8; count];
            let tasks: Vec<Task<'_>> = bytes
                .iter_mut()
                .map(|byte| -> Task<'_> {
                    let ran = &ran;
                    Box::new(move || {
                        std::thread::sleep(Duration::from_millis(1));
                        *byte = 7;
                        ran.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })
                })
                .collect();
            crew.run(tasks, |_| ()).unwrap();
            assert_eq!((ran.load(Ordering::Relaxed), bytes), (count, vec![7; count]));
        }
        let failing: Vec<Task<'_>> =
            vec![Box::new(|| Ok(())), Box::new(|| Err(io::ErrorKind::BrokenPipe.into()))];
        assert_eq!(crew.run(failing, |_| ()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let panicking: Vec<Task<'_>> = vec![Box::new(|| panic!("expected"))];
        assert!(crew.run(panicking, |_| ()).is_err());
        assert!(crew.run(vec![Box::new(|| Ok(()))], |_| ()).is_ok(), "the thread goes on after a panic");
    }

    #[test]
    fn the_caller_can_do_something_else_until_the_tasks_have_ended() {
        let crew = Crew::start(1).unwrap();
        let (open, gate) = channel::<()>();
        let task: Task<'_> = Box::new(move || gate.recv().map_err(io::Error::other));
        let mut waits = 0;
        crew.run(vec![task], |latch| {
            while !latch.wait(Some(Duration::from_millis(1))) {
                waits += 1;
                if waits == 3 {
                    open.send(()).unwrap();
                }
            }
        })
        .unwrap();
        assert!(waits >= 3);
    }
}
