//! The program of `remora run` as a child process.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicI32, Ordering};

static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// The file of a program that is named like this.
pub fn program_file(path: PathBuf) -> PathBuf {
    path
}

/// Signal handler that forwards a signal to the program.
extern "C" fn forward(signal: libc::c_int) {
    let program = PROGRAM.load(Ordering::Relaxed);
    if program > 0 {
        // SAFETY: async-signal-safe; the program is our child and not yet reaped while this handler is installed.
        unsafe { libc::kill(program, signal) };
    }
}

/// Runs the program as a child: forwards signals to it, and returns its exit code. `_libraries` is where its libraries are.
pub fn run(mut command: Command, _libraries: &Path) -> std::io::Result<ExitCode> {
    let mut child = command.spawn()?;
    PROGRAM.store(child.id() as i32, Ordering::Relaxed);
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler only calls kill.
        unsafe { libc::signal(signal, forward as *const () as libc::sighandler_t) };
    }
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // The terminal also sends these to the program; this process only waits for it to react.
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let status = child.wait()?;
    PROGRAM.store(0, Ordering::Relaxed);
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(code as u8))
}
