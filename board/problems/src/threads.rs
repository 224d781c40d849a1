//! Threads that compute parts of one result. No part depends on another one, so the result is the same for any number of threads.
//! A panic of a thread is a panic of its caller, with the same payload.

use std::cell::Cell;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most threads of one computation, because a machine judges several submissions.
const MOST_THREADS: usize = 16;
/// Parts for each thread. Some take longer than others.
const PARTS_OF_A_THREAD: usize = 8;
/// Most elements of a part, so that what a part computes with stays in a cache.
const MOST_OF_A_PART: usize = 1 << 15;
/// Least operations of a part. Fewer take less time than to start a thread.
const LEAST_WORK: usize = 1 << 16;

#[derive(Clone, Copy)]
struct Allowed {
    /// Most threads; `None` for as many as [`most_threads`] permits.
    threads: Option<usize>,
    least_work: usize,
}

thread_local! {
    static ALLOWED: Cell<Allowed> = const { Cell::new(Allowed { threads: None, least_work: LEAST_WORK }) };
}

/// Runs `body` on this thread. What it computes uses at most so many threads, including this one, and never more than the machine has
/// processors or than 16.
pub fn with_threads<T>(most: usize, body: impl FnOnce() -> T) -> T {
    allowing(Allowed { threads: Some(most.clamp(1, most_threads())), ..ALLOWED.get() }, body)
}

/// Like [`with_threads`], but with parts that are as small as possible, and with any number of threads.
#[cfg(test)]
pub(crate) fn with_small_parts<T>(threads: usize, body: impl FnOnce() -> T) -> T {
    allowing(Allowed { threads: Some(threads), least_work: 1 }, body)
}

fn allowing<T>(allowed: Allowed, body: impl FnOnce() -> T) -> T {
    struct Restore(Allowed);
    impl Drop for Restore {
        fn drop(&mut self) {
            ALLOWED.set(self.0);
        }
    }
    let _restore = Restore(ALLOWED.replace(allowed));
    body()
}

/// Returns the most threads of one computation on this machine.
fn most_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
}

/// Returns the number of threads that a computation on this thread may use.
fn threads() -> usize {
    ALLOWED.get().threads.unwrap_or_else(most_threads)
}

/// Returns the number of elements of a part: whole units. `work` is the number of operations of an element.
fn size_of_part(count: usize, unit: usize, work: usize) -> usize {
    let fair = count.div_ceil(threads() * PARTS_OF_A_THREAD).min(MOST_OF_A_PART);
    let least = ALLOWED.get().least_work.div_ceil(work.max(1));
    fair.max(least).max(1).next_multiple_of(unit.max(1))
}

/// Computes the elements of an array: `compute` gets the positions of a part, and its elements, which are zero. Parts are whole units.
/// `work` is about the number of operations of an element.
pub(crate) fn fill<T: Copy + Default + Send>(
    count: usize,
    unit: usize,
    work: usize,
    compute: impl Fn(Range<usize>, &mut [T]) + Sync,
) -> Vec<T> {
    // Pages of zeros come from the system when they are first written, on the thread that does.
    let mut all = vec![T::default(); count];
    let size = size_of_part(count, unit, work);
    each(all.chunks_mut(size).enumerate(), |(index, part)| {
        let start = index * size;
        compute(start..start + part.len(), part);
    });
    all
}

/// Computes two arrays with so many elements in each unit: `compute` gets the positions of a part's units.
pub(crate) fn fill_two<A: Copy + Default + Send, B: Copy + Default + Send>(
    units: usize,
    (of_one, of_two): (usize, usize),
    work: usize,
    compute: impl Fn(Range<usize>, &mut [A], &mut [B]) + Sync,
) -> (Vec<A>, Vec<B>) {
    let (mut one, mut two) = (vec![A::default(); units * of_one], vec![B::default(); units * of_two]);
    let size = size_of_part(units, 1, work);
    let parts = one.chunks_mut(size * of_one).zip(two.chunks_mut(size * of_two)).enumerate();
    each(parts, |(index, (one, two))| {
        let start = index * size;
        compute(start..(start + size).min(units), one, two);
    });
    (one, two)
}

/// Computes a result for each part of `0..count`, in this order.
pub(crate) fn parts<T: Send>(
    count: usize,
    size: usize,
    compute: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let mut results: Vec<Option<T>> = (0..count.div_ceil(size)).map(|_| None).collect();
    each(results.iter_mut().enumerate(), |(index, result)| {
        let start = index * size;
        *result = Some(compute(start..(start + size).min(count)));
    });
    results.into_iter().flatten().collect()
}

/// Processes every part, on as many threads as are allowed and useful. A part that uses [`each`] itself starts no further threads. When
/// one part panics, the others end, and so does the caller, with the same panic.
pub(crate) fn each<P: Send>(parts: impl ExactSizeIterator<Item = P> + Send, work: impl Fn(P) + Sync) {
    let threads = threads().min(parts.len());
    if threads <= 1 {
        return with_threads(1, || parts.for_each(work));
    }
    let queue = Mutex::new(parts);
    let has_panicked = AtomicBool::new(false);
    let next = || match has_panicked.load(Ordering::Relaxed) {
        true => None,
        false => queue.lock().unwrap_or_else(PoisonError::into_inner).next(),
    };
    let least_work = ALLOWED.get().least_work;
    let run = || {
        let _notice = OnPanic(&has_panicked);
        allowing(Allowed { threads: Some(1), least_work }, || {
            while let Some(part) = next() {
                work(part);
            }
        });
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        run();
        // Without this, the scope would panic with a text of its own, and what went wrong would be lost.
        others.into_iter().for_each(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
    });
}

/// Sets a flag when a thread unwinds.
struct OnPanic<'a>(&'a AtomicBool);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn parts_are_whole_units_and_cover_everything_once() {
        for threads in [1, 3] {
            for (count, unit) in [(0, 1), (1, 1), (1000, 1), (999, 27), (64, 64)] {
                let found = with_small_parts(threads, || {
                    fill(count, unit, 1, |range, part: &mut [usize]| {
                        assert!(range.start.is_multiple_of(unit) && range.len().is_multiple_of(unit));
                        part.iter_mut().zip(range).for_each(|(element, index)| *element += index + 1);
                    })
                });
                assert!(found.into_iter().eq(1..=count), "{count} {unit} {threads}");
            }
        }
    }

    #[test]
    fn many_small_parts_run_on_several_threads_and_one_allowed_thread_is_this_one() {
        let used = |threads| {
            let all = Mutex::new(BTreeSet::new());
            with_small_parts(threads, || {
                parts(64, 1, |_| {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    all.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
                })
            });
            all.into_inner().unwrap().len()
        };
        assert_eq!(used(1), 1);
        assert_eq!(used(3), 3);
    }

    #[test]
    fn no_more_threads_are_used_than_there_are_processors_or_than_sixteen() {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        for wanted in [0, 1, 2, 16, 17, 1000, usize::MAX] {
            let allowed = with_threads(wanted, threads);
            assert!(allowed >= 1 && allowed <= available.min(16), "{wanted}: {allowed}");
            assert!(allowed <= wanted.max(1), "{wanted}: {allowed}");
        }
        assert_eq!(threads(), available.min(16));
    }

    #[test]
    fn a_panic_of_any_part_reaches_the_caller_with_its_text_and_ends_the_others() {
        for threads in [1, 2, 5] {
            let started = std::sync::atomic::AtomicUsize::new(0);
            let compute = || {
                parts(100_000, 1, |part| {
                    started.fetch_add(1, Ordering::Relaxed);
                    assert!(part.start < 10, "the part is too large");
                })
            };
            let caught =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with_small_parts(threads, compute)));
            let text = caught.expect_err("a panic");
            assert_eq!(text.downcast_ref::<&str>(), Some(&"the part is too large"), "{threads}");
            assert!(started.into_inner() < 50_000, "{threads}");
        }
    }

    #[test]
    fn what_a_part_computes_stays_on_its_thread() {
        let counts = with_small_parts(2, || parts(8, 1, |_| threads()));
        assert_eq!(counts, [1; 8]);
    }
}
