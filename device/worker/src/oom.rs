//! Processes of sessions and the kernel's out-of-memory killer: it takes them before anything else, and their clients hear why.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use limits::OutOfMemoryKills;

/// Far above what a service or a shell has, and below what somebody may choose for a process that is to go first.
const SCORE: &[u8] = b"500";

/// The reason that the client of such a session receives.
pub(crate) const TEXT: &str = "the session's process was ended by the kernel's out-of-memory killer";

/// Has the process that a command starts, and all it starts itself, be the first to go when memory runs out.
pub(crate) fn go_first(command: &mut Command) {
    // SAFETY: only async-signal-safe calls on constants between fork and exec. Raising the score needs no privilege.
    unsafe {
        command.pre_exec(|| {
            let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if file >= 0 {
                // Without it the process is only as likely to go as others.
                let _ = libc::write(file, SCORE.as_ptr().cast(), SCORE.len());
                libc::close(file);
            }
            Ok(())
        });
    }
}

/// Whether a process that began when `before` was counted was ended for want of memory.
pub(crate) fn was_killed(status: ExitStatus, before: &OutOfMemoryKills) -> bool {
    status.signal() == Some(libc::SIGKILL) && OutOfMemoryKills::now().rose_since(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_goes_before_the_supervisor_and_a_plain_kill_is_no_want_of_memory() {
        let before = OutOfMemoryKills::now();
        let mut command = Command::new("sleep");
        command.arg("1000");
        go_first(&mut command);
        let mut child = command.spawn().unwrap();
        let score = |pid: u32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
            text.trim().parse::<i32>().unwrap()
        };
        assert!(score(child.id()) > score(std::process::id()));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        // Unless the machine ran out of memory meanwhile.
        assert!(!was_killed(status, &before) || OutOfMemoryKills::now() != before);
    }
}
