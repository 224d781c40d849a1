//! Macros for standard output and standard error.
//!
//! `println!` panics if the reader of a pipe has exited, as `head` does. These macros end the command, on Linux by SIGPIPE, like other
//! programs. The signal is not reset to its default action for the whole process, because a worker or board must survive a client that closes its socket.

use std::fmt;
use std::io::{ErrorKind, Write};

pub use crate::os::standard_output::end_by_broken_pipe;

/// Prints to standard output.
macro_rules! out {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// Prints a line to standard output.
macro_rules! outln {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line to standard error and ignores errors.
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
            errln!("remora: cannot write to standard output: {error}");
            std::process::exit(1);
        }
    }
}
