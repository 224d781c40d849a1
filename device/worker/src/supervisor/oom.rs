//! Out-of-memory handling: makes the kernel's OOM killer pick session processes first, and detects when it did, so that clients
//! learn the reason.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use limits::OutOfMemoryKills;

/// OOM score adjustment: far above that of services and shells, below what an operator may choose for a process to be killed
/// first.
const SCORE: &[u8] = b"500";

/// Reason reported to the client of a killed session.
pub(crate) const TEXT: &str = "the session's process was killed by the kernel's out-of-memory killer";

/// Makes the started process and its children the first to be killed when memory runs out.
pub(crate) fn go_first(command: &mut Command) {
    // SAFETY: only async-signal-safe calls on constants between fork and exec. Raising the score needs no privilege.
    unsafe {
        command.pre_exec(|| {
            let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if file >= 0 {
                // Failure is ignored: the process is then only as likely to be killed as others.
                let _ = libc::write(file, SCORE.as_ptr().cast(), SCORE.len());
                libc::close(file);
            }
            Ok(())
        });
    }
}

/// Whether a process was killed for lack of memory. `before` was counted when the process started.
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
