//! Child processes of the supervisor: each gets its end of a control socket as file descriptor 3.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::control::{CONTROL_FD, Control};

/// Prepares a command whose process has `control` as its control socket. `None` if no program is configured.
pub(super) fn command(program: &[PathBuf], control: &Control) -> Option<Command> {
    let (program, arguments) = program.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let fd = control.raw_fd();
    // SAFETY: only async-signal-safe calls between fork and exec. They move the control socket to its descriptor number and
    // unblock the signals that the supervisor blocks.
    unsafe {
        command.pre_exec(move || {
            let placed = match fd == CONTROL_FD {
                true => libc::fcntl(fd, libc::F_SETFD, 0),
                false => libc::dup2(fd, CONTROL_FD),
            };
            if placed < 0 {
                return Err(io::Error::last_os_error());
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            // A separate process session: Ctrl-C at the terminal must reach only the supervisor. A process group in the same session
            // would become orphaned with the supervisor, and the kernel ends such a group (SIGHUP) if it is stopped at that moment.
            libc::setsid();
            Ok(())
        });
    }
    Some(command)
}

/// Makes the process of a command die with the thread that starts it.
pub(super) fn die_with_parent(command: &mut Command) {
    // SAFETY: one async-signal-safe call with integers between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}
