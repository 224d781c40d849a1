//! Standard output that is a pipe or a terminal.

use std::io::IsTerminal;

/// Ends the process by SIGPIPE, the default effect of a write to a closed pipe.
pub fn end_by_broken_pipe() -> ! {
    // SAFETY: sets the default action, which runs no code of this process, and raises the signal in this thread.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::raise(libc::SIGPIPE);
    }
    // Reached only if the signal is blocked.
    std::process::exit(128 + libc::SIGPIPE)
}

/// Whether standard output is a terminal that understands escape sequences.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
