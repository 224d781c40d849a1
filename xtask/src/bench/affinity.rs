//! CPU affinity: confines this thread and the processes it starts to some CPUs.

use anyhow::{Result, bail};
use std::io;
use std::ops::Range;

/// Restricts the calling thread, and every process it starts meanwhile, to a few CPUs until dropped.
#[derive(Debug)]
pub struct PinnedThread {
    before: libc::cpu_set_t,
}

impl PinnedThread {
    /// Restricts to some of the CPUs that this thread may use, counted from the first of them.
    pub fn to(places: Range<usize>) -> Result<PinnedThread> {
        let before = current()?;
        // SAFETY: `cpu_set_t` is a plain bit array, for which zero is the empty set.
        let mut few: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for processor in members(&before).into_iter().skip(places.start).take(places.len()) {
            // SAFETY: the index comes from a set of the same size.
            unsafe { libc::CPU_SET(processor, &mut few) };
        }
        pin(&few)?;
        Ok(PinnedThread { before })
    }
}

impl Drop for PinnedThread {
    fn drop(&mut self) {
        // The set was in force before, so it is valid.
        let _ = pin(&self.before);
    }
}

/// The number of CPUs that this thread may use.
pub fn processors() -> usize {
    current().map_or(1, |set| members(&set).len())
}

fn current() -> Result<libc::cpu_set_t> {
    // SAFETY: `cpu_set_t` is a plain bit array; the call writes at most the given size.
    let (result, set) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set), set)
    };
    if result != 0 {
        bail!("cannot read the CPU affinity of this thread: {}", io::Error::last_os_error());
    }
    Ok(set)
}

fn pin(set: &libc::cpu_set_t) -> Result<()> {
    // SAFETY: the call reads a set of the given size.
    if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) } != 0 {
        bail!("cannot set the CPU affinity of this thread: {}", io::Error::last_os_error());
    }
    Ok(())
}

fn members(set: &libc::cpu_set_t) -> Vec<usize> {
    // SAFETY: every index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&processor| unsafe { libc::CPU_ISSET(processor, set) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confinement_ends_when_it_is_dropped() {
        let before = processors();
        let confined = PinnedThread::to(0..1).unwrap();
        assert_eq!(processors(), 1);
        drop(confined);
        assert_eq!(processors(), before);
    }
}
