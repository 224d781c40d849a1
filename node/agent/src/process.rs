//! Processes by PID and start time, which together identify a process uniquely until the next reboot.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Identity of a process: PID and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// Start time in clock ticks since boot.
    pub(crate) start: u64,
}

impl Identity {
    /// Returns the process that has this PID now; `None` for a zombie.
    pub(crate) fn of(pid: u32) -> Option<Identity> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The process name is in parentheses and may contain any character, including parentheses.
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

    /// Sends a signal to this process, unless it has ended.
    pub(crate) fn signal(self, signal: libc::c_int) {
        if self.is_alive() {
            // SAFETY: `kill` takes integers only. `is_alive` has just checked that the PID still belongs to this process.
            unsafe { libc::kill(self.pid as libc::pid_t, signal) };
        }
    }

    /// Returns its child processes that still run.
    pub(crate) fn children(self) -> Vec<Identity> {
        let parent = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
        };
        all().into_iter().filter(|pid| parent(*pid) == Some(self.pid)).filter_map(Identity::of).collect()
    }

    /// Reaps this process if it is a child of the agent, so that its PID becomes free.
    pub(crate) fn reap(self) {
        let mut status = 0;
        // SAFETY: `waitpid` writes one integer, and fails harmlessly for a process that is not a child of this one.
        unsafe { libc::waitpid(self.pid as libc::pid_t, &raw mut status, libc::WNOHANG) };
    }
}

/// Returns the PIDs of all processes.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the processes whose first argument is `verb` and whose environment contains `mark`.
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

/// Returns the PID that a process has in its innermost PID namespace.
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
