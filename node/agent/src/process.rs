//! Processes by number and start time, which together name one process for as long as the machine runs.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// Clock ticks between the start of the machine and its own.
    pub(crate) start: u64,
}

impl Identity {
    /// The process that has this number now, if it is not one that has ended and waits for its parent.
    pub(crate) fn of(pid: u32) -> Option<Identity> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold anything.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        // Field 22 of the line; the state is field 3.
        let start = fields.nth(18)?.parse().ok()?;
        (state != "Z" && state != "X").then_some(Identity { pid, start })
    }

    pub(crate) fn is_alive(self) -> bool {
        Identity::of(self.pid) == Some(self)
    }

    /// Sends a signal to this process and no other.
    pub(crate) fn signal(self, signal: libc::c_int) {
        if self.is_alive() {
            // SAFETY: takes numbers. The process was this one a moment ago.
            unsafe { libc::kill(self.pid as libc::pid_t, signal) };
        }
    }

    /// The processes that it has started and that have not ended.
    pub(crate) fn children(self) -> Vec<Identity> {
        let parent = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
        };
        all().into_iter().filter(|pid| parent(*pid) == Some(self.pid)).filter_map(Identity::of).collect()
    }

    /// Takes note of the end of a child, so that its number is free.
    pub(crate) fn reap(self) {
        let mut status = 0;
        // SAFETY: fills a number; fails harmlessly for a process that is no child of this one.
        unsafe { libc::waitpid(self.pid as libc::pid_t, &raw mut status, libc::WNOHANG) };
    }
}

/// The numbers of all processes there are.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processes of a program's first argument `verb` that have `mark` in their environment.
pub(crate) fn marked(mark: &str, verb: &str) -> Vec<(Identity, String)> {
    let found = all().into_iter().filter_map(|pid| {
        let folder = format!("/proc/{pid}");
        let environment = std::fs::read(Path::new(&folder).join("environ")).ok()?;
        let found =
            environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(mark.as_bytes()))?;
        let command = std::fs::read(Path::new(&folder).join("cmdline")).ok()?;
        let is_verb = command.split(|byte| *byte == 0).nth(1) == Some(verb.as_bytes());
        is_verb.then_some(())?;
        Some((Identity::of(pid)?, String::from_utf8_lossy(found).into_owned()))
    });
    found.collect()
}

/// The number that a process knows itself by: the one it has in its innermost namespace.
pub(crate) fn innermost(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_itself_and_its_successor_is_not() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        assert!(!Identity { start: own.start + 1, ..own }.is_alive());
        assert_eq!(innermost(own.pid), Some(own.pid));
        assert!(all().contains(&own.pid));
    }

    #[test]
    fn a_child_that_has_ended_is_dead_before_and_after_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        assert!(Identity::of(std::process::id()).unwrap().children().contains(&identity));
        identity.signal(libc::SIGKILL);
        while identity.is_alive() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }
}
