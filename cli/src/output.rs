//! Standard output and standard error of the commands.
//!
//! `println!` panics when its reader has left, as `head` does. These end the command as other programs end: by SIGPIPE. The signal is not
//! set to its default for the whole process, because a worker or a board must outlive a client that closes its socket.

use std::fmt;
use std::io::{ErrorKind, Write};

/// Prints to standard output.
macro_rules! out {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// Prints a line to standard output.
macro_rules! outln {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line to standard error. One that nobody reads is no reason to fail.
macro_rules! errln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub(crate) use {errln, out, outln};

pub fn print(text: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => end_by_broken_pipe(),
        Err(error) => {
            errln!("remora: standard output cannot be written: {error}");
            std::process::exit(1);
        }
    }
}

/// Ends the process as a write to a pipe without a reader ends other programs.
pub fn end_by_broken_pipe() -> ! {
    // SAFETY: sets the default action, which runs no code of this process, and sends the signal to this thread.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::raise(libc::SIGPIPE);
    }
    // Only if the signal is blocked.
    std::process::exit(128 + libc::SIGPIPE)
}
