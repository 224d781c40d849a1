//! Upgrade in place: the supervisor executes the program that is now in its place, with the same process id and children.
//!
//! Sessions and listening sockets pass through the keeper, as after the death of a supervisor. Connections that arrive meanwhile
//! wait in the queues of the listening sockets.

use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::keeper::HANDOVER_VERSION;

/// Timeout for the program to report its version.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks that a program exists, starts, and can adopt the sessions of this one. `version` are the arguments with which it prints its
/// handover version.
pub(super) fn check(program: &OsString, version: &[OsString]) -> Result<(), String> {
    let name = program.to_string_lossy();
    let failed = |error: io::Error| format!("{name} cannot be started: {error}");
    let mut command = Command::new(program);
    command.args(version).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let deadline = Instant::now() + CHECK_TIMEOUT;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} did not report its handover version within {CHECK_TIMEOUT:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take() {
        let _ = Read::take(&mut output, 64).read_to_string(&mut text);
    }
    match text.trim().parse::<u32>() {
        Ok(HANDOVER_VERSION) if status.success() => Ok(()),
        Ok(found) if status.success() => Err(format!(
            "{name} has handover version {found}, and this worker {HANDOVER_VERSION}: restart it with SIGTERM, which saves its sessions"
        )),
        _ => Err(format!("{name} does not report a handover version ({status}): is it a program of Remora?")),
    }
}

/// Replaces this program. Returns only if that fails.
pub(super) fn execute(arguments: &[OsString]) -> io::Error {
    let texts: Result<Vec<CString>, _> =
        arguments.iter().map(|argument| CString::new(argument.as_bytes())).collect();
    let Ok(texts) = texts else { return io::ErrorKind::InvalidInput.into() };
    let mut pointers: Vec<*const libc::c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    if texts.is_empty() {
        return io::ErrorKind::InvalidInput.into();
    }
    // Not `Command::exec`, which unblocks signals: a SIGTERM at this moment has to wait for the new program.
    // SAFETY: the strings live until the call returns, and a null pointer ends the list.
    unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
    io::Error::last_os_error()
}
