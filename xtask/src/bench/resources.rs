//! Resources of a process: memory, file descriptors, threads, children. Read from /proc.

use anyhow::{Context, Result};
use std::fs;

/// A process by its pid.
#[derive(Debug, Clone, Copy)]
pub struct Process(pub u32);

impl Process {
    /// Resident memory in bytes.
    pub fn resident(self) -> Result<u64> {
        self.kilobytes("status", &["VmRSS:"])
    }

    /// Private memory in bytes.
    pub fn private(self) -> Result<u64> {
        self.kilobytes("smaps_rollup", &["Private_Clean:", "Private_Dirty:"])
    }

    pub fn descriptors(self) -> Result<usize> {
        self.entries("fd")
    }

    pub fn threads(self) -> Result<usize> {
        self.entries("task")
    }

    /// CPU time used, in steps of a hundredth of a second.
    pub fn cpu_seconds(self) -> Result<f64> {
        let path = self.path("stat");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        // The name is in parentheses and may contain anything; the times are fields 14 and 15.
        let rest = text.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        let ticks: u64 =
            rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(ticks as f64 / 100.0)
    }

    /// Its running child processes.
    pub fn children(self) -> Result<Vec<Process>> {
        let mut found = Vec::new();
        for thread in fs::read_dir(self.path("task"))?.flatten() {
            let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Process));
        }
        Ok(found)
    }

    fn kilobytes(self, file: &str, names: &[&str]) -> Result<u64> {
        let path = self.path(file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Ok(sum(&text, names) << 10)
    }

    fn entries(self, folder: &str) -> Result<usize> {
        let path = self.path(folder);
        Ok(fs::read_dir(&path).with_context(|| format!("cannot list {path}"))?.count())
    }

    fn path(self, name: &str) -> String {
        format!("/proc/{}/{name}", self.0)
    }
}

fn sum(text: &str, names: &[&str]) -> u64 {
    let value = |line: &str| {
        let rest = names.iter().find_map(|name| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_are_asked_for_are_added_up() {
        let text = "Rss: 100 kB\nPrivate_Clean: 4 kB\nPrivate_Dirty:   32 kB\n";
        assert_eq!(sum(text, &["Private_Clean:", "Private_Dirty:"]), 36);
        assert_eq!(sum(text, &["Swap:"]), 0);
    }

    #[test]
    fn our_own_process_has_memory_descriptors_and_threads() {
        let own = Process(std::process::id());
        assert!(own.resident().unwrap() > own.private().unwrap() / 2);
        assert!(own.descriptors().unwrap() >= 3 && own.threads().unwrap() >= 1);
    }
}
