//! Processor time of the processes that compute for us, which other work on the machine does not lengthen.

use std::collections::HashMap;
use std::fs;

/// The sessions of the workers this process has started: a worker runs each in a process of its own.
#[derive(Debug)]
pub struct Sessions {
    processes: Vec<u32>,
}

impl Sessions {
    /// Those there are now.
    pub fn find() -> Sessions {
        Sessions { processes: grandchildren(&parents(), std::process::id()) }
    }

    pub fn without(mut self, others: &Sessions) -> Sessions {
        self.processes.retain(|process| !others.processes.contains(process));
        self
    }

    /// Seconds that all their threads have run.
    pub fn seconds(&self) -> f64 {
        let nanoseconds: u64 = self.processes.iter().flat_map(|&process| threads(process)).sum();
        nanoseconds as f64 * 1e-9
    }
}

fn grandchildren(parents: &HashMap<u32, u32>, of: u32) -> Vec<u32> {
    parents
        .iter()
        .filter(|(_, parent)| parents.get(parent) == Some(&of))
        .map(|(&process, _)| process)
        .collect()
}

/// The parent of every process.
fn parents() -> HashMap<u32, u32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| {
            let process: u32 = name.to_str()?.parse().ok()?;
            Some((process, parent(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?))
        })
        .collect()
}

/// In `12 (a (strange) name) S 7 ...`; a name may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Nanoseconds that each thread of a process has run.
fn threads(process: u32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            fs::read_to_string(entry.path().join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
        })
        .collect()
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
        let before: u64 = threads(std::process::id()).iter().sum();
        assert!(before > 0);
    }
}
