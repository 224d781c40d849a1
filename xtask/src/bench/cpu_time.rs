//! CPU time of worker processes, which excludes the time that other load on the machine takes from them.

use std::collections::HashMap;
use std::fs;

/// The session processes of the workers started by this process: a worker runs each session in a separate process.
#[derive(Debug)]
pub struct Sessions {
    processes: Vec<u32>,
}

impl Sessions {
    /// Finds the current ones.
    pub fn find() -> Sessions {
        Sessions { processes: grandchildren(&parents(), std::process::id()) }
    }

    pub fn without(mut self, others: &Sessions) -> Sessions {
        self.processes.retain(|process| !others.processes.contains(process));
        self
    }

    /// Reads the CPU time of their threads.
    pub fn look(&self) -> Threads {
        Threads(self.processes.iter().flat_map(|&process| threads(process)).collect())
    }
}

/// CPU times of a thread, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Times {
    ran: f64,
    /// Runnable, but waiting for a CPU.
    queued: f64,
}

/// CPU times by thread id.
#[derive(Debug)]
pub struct Threads(HashMap<u32, Times>);

impl Threads {
    /// CPU time since `before`.
    pub fn ran_since(&self, before: &Threads) -> f64 {
        self.since(before).map(|times| times.ran).sum()
    }

    /// The elapsed time `clock` since `before`, less the time that the busiest thread waited for a CPU.
    pub fn undisturbed_since(&self, before: &Threads, clock: f64) -> f64 {
        let busiest = self.since(before).max_by(|a, b| a.ran.total_cmp(&b.ran)).unwrap_or_default();
        // Some of the waiting may have happened just before or after the interval.
        (clock - busiest.queued).max(busiest.ran)
    }

    fn since(&self, before: &Threads) -> impl Iterator<Item = Times> {
        self.0.iter().map(|(thread, now)| {
            let then = before.0.get(thread).copied().unwrap_or_default();
            Times { ran: now.ran - then.ran, queued: now.queued - then.queued }
        })
    }
}

fn grandchildren(parents: &HashMap<u32, u32>, of: u32) -> Vec<u32> {
    parents
        .iter()
        .filter(|(_, parent)| parents.get(parent) == Some(&of))
        .map(|(&process, _)| process)
        .collect()
}

/// Returns the parent of every process.
fn parents() -> HashMap<u32, u32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| {
            let process: u32 = name.to_str()?.parse().ok()?;
            Some((process, parent(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?))
        })
        .collect()
}

/// Parses `12 (a (strange) name) S 7 ...`; a name may contain anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn threads(process: u32) -> Vec<(u32, Times)> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let thread = entry.file_name().to_str()?.parse().ok()?;
            Some((thread, times(&fs::read_to_string(entry.path().join("schedstat")).ok()?)?))
        })
        .collect()
}

/// Parses `RAN QUEUED SLICES`, in nanoseconds.
fn times(schedstat: &str) -> Option<Times> {
    let mut numbers = schedstat.split_whitespace().map(|word| word.parse::<u64>());
    let mut seconds = || Some(numbers.next()?.ok()? as f64 * 1e-9);
    Some(Times { ran: seconds()?, queued: seconds()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (a (strange) name) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12"), None);
    }

    #[test]
    fn grandchildren_are_the_children_of_children_only() {
        let parents = HashMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 5)]);
        let mut found = grandchildren(&parents, 1);
        found.sort_unstable();
        assert_eq!(found, [3, 6]);
    }

    #[test]
    fn our_own_threads_have_run() {
        assert!(threads(std::process::id()).iter().map(|(_, times)| times.ran).sum::<f64>() > 0.0);
    }

    #[test]
    fn the_busiest_thread_says_how_long_the_machine_was_busy_elsewhere() {
        let threads = |numbers: &[(u32, f64, f64)]| {
            Threads(numbers.iter().map(|&(thread, ran, queued)| (thread, Times { ran, queued })).collect())
        };
        let before = threads(&[(1, 1.0, 1.0), (2, 5.0, 0.0)]);
        let after = threads(&[(1, 3.0, 1.5), (2, 6.0, 4.0), (3, 0.5, 9.0)]);
        assert_eq!(after.ran_since(&before), 3.5);
        assert_eq!(after.undisturbed_since(&before, 4.0), 3.5);
        assert_eq!(after.undisturbed_since(&before, 2.1), 2.0);
        assert_eq!(times("2000000000 500000000 7"), Some(Times { ran: 2.0, queued: 0.5 }));
    }
}
