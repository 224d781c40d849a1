//! What a command and its processes use: resident memory, CPU time and files.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The kernel's flag of a process that has executed no program since it was forked (`PF_FORKNOEXEC`).
const FORKED: u64 = 0x40;

/// The processes of a sandbox: the warden, its child that starts the command, the command, and what the command starts.
///
/// A process shares the caller's memory from the fork until it executes a program, and a caller may hold gigabytes. Therefore the
/// memory of the process that starts the command does not count, nor that of the command until it executes its program. Nothing
/// else is left out: a process that the command forks may use as much memory as it likes without ever executing a program.
#[derive(Debug)]
pub(crate) struct Processes {
    warden: libc::pid_t,
    /// The process that starts the command.
    starter: Option<libc::pid_t>,
    /// Whether the command has executed its program. It then counts, whatever the kernel reports later.
    has_executed: bool,
}

impl Processes {
    pub(crate) fn new(warden: libc::pid_t) -> Processes {
        Processes { warden, starter: None, has_executed: false }
    }

    /// Returns their resident memory in bytes, and their CPU time including that of children they waited for.
    pub(crate) fn usage(&mut self) -> (u64, Duration) {
        // SAFETY: only queries numbers.
        let (page, ticks) = unsafe {
            (
                libc::sysconf(libc::_SC_PAGESIZE).max(4096) as u64,
                libc::sysconf(libc::_SC_CLK_TCK).max(1) as u64,
            )
        };
        let (mut bytes, mut used) = (0, 0);
        let all = descendants(self.warden);
        for (at, &process) in all.iter().enumerate() {
            // The flags first: if the command executes its program in between, its memory is not taken for that of the program.
            let (flags, time) = flags_and_time(process);
            if !self.shares_memory(&all, at, flags & FORKED != 0) {
                bytes += resident_pages(process) * page;
            }
            used += time;
        }
        (bytes, Duration::from_millis(used * 1000 / ticks))
    }

    /// Whether the memory of the process at this place of the list is that of the caller.
    fn shares_memory(&mut self, all: &[libc::pid_t], at: usize, is_forked: bool) -> bool {
        // The warden's oldest child comes first. Orphans that the warden inherits come after it.
        if at == 0 && is_forked && *self.starter.get_or_insert(all[0]) == all[0] {
            return true;
        }
        // Before the command executes its program there are these two processes only. Later an orphan may be the second one.
        if at == 1 && !self.has_executed && self.starter == Some(all[0]) {
            self.has_executed = all.len() > 2 || !is_forked;
            return !self.has_executed;
        }
        false
    }
}

/// All descendants of a process: its children in the order of their age, then their children.
fn descendants(root: libc::pid_t) -> Vec<libc::pid_t> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&process) = found.get(next) {
        next += 1;
        // Children are listed per thread.
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(text.split_whitespace().filter_map(|number| number.parse::<libc::pid_t>().ok()));
        }
    }
    found.remove(0);
    found
}

/// Returns the kernel's flags of a process, and its CPU time in ticks. Both are 0 for a process that has ended.
fn flags_and_time(process: libc::pid_t) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The process name may contain anything, so fields are counted after it: the flags are the 7th, user and system time the 12th
    // and 13th, and those of children follow.
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    let numbers: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    let time = numbers.iter().skip(11).take(4).sum();
    (numbers.get(6).copied().unwrap_or(0), time)
}

fn resident_pages(process: libc::pid_t) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Total size of the files below a folder; stops counting once it exceeds `enough`.
pub(crate) fn size_of_folder(folder: PathBuf, enough: u64) -> u64 {
    let mut bytes = 0;
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            // An empty file takes space too.
            bytes += data.len().max(4096);
            if data.is_dir() {
                folders.push(entry.path());
            }
            if bytes > enough {
                return bytes;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTER: libc::pid_t = 11;
    const COMMAND: libc::pid_t = 12;

    #[test]
    fn only_the_starter_and_a_command_that_has_executed_nothing_are_left_out() {
        let mut processes = Processes::new(10);
        let mut leaves_out = |all: &[libc::pid_t], at, is_forked| processes.shares_memory(all, at, is_forked);
        assert!(leaves_out(&[STARTER], 0, true));
        assert!(leaves_out(&[STARTER, COMMAND], 0, true) && leaves_out(&[STARTER, COMMAND], 1, true));
        // It executes its program, and forks.
        assert!(leaves_out(&[STARTER, COMMAND], 0, true) && !leaves_out(&[STARTER, COMMAND], 1, false));
        let with_child = [STARTER, COMMAND, 13];
        assert!(!leaves_out(&with_child, 1, false) && !leaves_out(&with_child, 2, true));
        // The warden has inherited an orphan, which is now before the command.
        let with_orphan = [STARTER, 13, COMMAND];
        assert!(leaves_out(&with_orphan, 0, true));
        assert!(!leaves_out(&with_orphan, 1, true) && !leaves_out(&with_orphan, 2, false));
        // The starter has ended.
        assert!(!leaves_out(&[13, 14], 0, true) && !leaves_out(&[13, 14], 1, true));
    }

    #[test]
    fn a_command_that_forked_before_it_was_seen_is_not_left_out() {
        let mut processes = Processes::new(10);
        let with_orphan = [STARTER, 13, COMMAND];
        assert!(processes.shares_memory(&with_orphan, 0, true));
        assert!(!processes.shares_memory(&with_orphan, 1, true));
        assert!(!processes.shares_memory(&[STARTER, 13], 1, true), "the command has executed its program");
    }

    #[test]
    fn the_kernel_marks_a_forked_process_until_it_executes_a_program() {
        // SAFETY: the child only waits to be killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: takes no pointers.
                unsafe { libc::pause() };
            }
        }
        let forked = flags_and_time(child).0 & FORKED;
        // SAFETY: our own child, which is waited for once.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(forked, FORKED);
        let mut executed =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let flags = flags_and_time(executed.id() as libc::pid_t).0;
        executed.kill().unwrap();
        executed.wait().unwrap();
        assert!(flags != 0 && flags & FORKED == 0, "{flags:#x}");
    }
}
