//! The process of a session, as the supervisor that started it or one that adopted it sees it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Timeout for the end of a process that has been killed.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);

/// The process of a session.
#[derive(Debug)]
pub(crate) enum Process {
    /// Started by this program.
    Started(Child),
    /// Started by an earlier supervisor, or by this process before an upgrade.
    Adopted { pid: u32, handle: OwnedFd },
}

/// How a process ended.
#[derive(Debug)]
pub(crate) enum Exit {
    Status(ExitStatus),
    /// The process is not a child of this one, so the kernel does not report its status.
    Unknown,
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        match self {
            Process::Started(child) => child.id(),
            Process::Adopted { pid, .. } => *pid,
        }
    }

    /// Returns how the process ended, or `None` if it runs.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<Exit>> {
        match self {
            Process::Started(child) => Ok(child.try_wait()?.map(Exit::Status)),
            Process::Adopted { handle, .. } => try_wait(handle),
        }
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        match self {
            Process::Started(child) => child.kill(),
            Process::Adopted { handle, .. } => {
                // SAFETY: passes integers and no signal information; the descriptor is open.
                let failed = unsafe {
                    libc::syscall(
                        libc::SYS_pidfd_send_signal,
                        handle.as_raw_fd(),
                        libc::SIGKILL,
                        std::ptr::null::<libc::siginfo_t>(),
                        0,
                    )
                };
                if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
            }
        }
    }
}

/// Opens a pidfd, which names this process even after its number has been reused. Needs Linux 5.3.
pub(crate) fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: passes integers; the new descriptor has no other owner.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd as libc::c_int)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Waits for a child that this process started before an upgrade and that the kernel killed then. Must be called before this program
/// starts children, one of which could get the number of a process that was no child.
pub(crate) fn reap_child(pid: u32) {
    let deadline = Instant::now() + REAP_TIMEOUT;
    // SAFETY: no status is requested.
    while unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), libc::WNOHANG) } == 0
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn try_wait(handle: &OwnedFd) -> io::Result<Option<Exit>> {
    let mut poll = libc::pollfd { fd: handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure that lives through the call.
    if unsafe { libc::poll(&raw mut poll, 1, 0) } == 0 {
        return Ok(None);
    }
    // SAFETY: all zero is a valid value, and the kernel fills it during the call. For an exited child the two values read are set.
    let (failed, code, status) = unsafe {
        let mut about: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG;
        let failed = libc::waitid(libc::P_PIDFD, handle.as_raw_fd() as libc::id_t, &raw mut about, options);
        (failed != 0, about.si_code, about.si_status())
    };
    if failed {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ECHILD) => Ok(Some(Exit::Unknown)),
            _ => Err(error),
        };
    }
    let raw = match code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        libc::CLD_KILLED => status,
        // No news: it has not exited yet.
        _ => return Ok(None),
    };
    Ok(Some(Exit::Status(ExitStatus::from_raw(raw))))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn ended(process: &mut Process) -> Exit {
        let start = Instant::now();
        loop {
            if let Some(exit) = process.try_wait().unwrap() {
                return exit;
            }
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn adopt(child: &Child) -> Process {
        Process::Adopted { pid: child.id(), handle: open_pidfd(child.id()).unwrap() }
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "the adopted process is waited for through its pidfd")]
    fn the_status_of_an_adopted_child_is_known() {
        let child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let Exit::Status(status) = ended(&mut adopt(&child)) else { panic!("it is a child") };
        assert_eq!(status.code(), Some(3));
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut process = adopt(&child);
        assert!(process.try_wait().unwrap().is_none());
        process.kill().unwrap();
        let Exit::Status(status) = ended(&mut process) else { panic!("it is a child") };
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn the_end_of_a_process_that_is_no_child_is_noticed() {
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]).output().unwrap();
        let pid: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let mut process = Process::Adopted { pid, handle: open_pidfd(pid).unwrap() };
        assert!(process.try_wait().unwrap().is_none());
        process.kill().unwrap();
        assert!(matches!(ended(&mut process), Exit::Unknown));
    }
}
