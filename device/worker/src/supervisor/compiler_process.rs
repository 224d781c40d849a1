//! The supervisor's handle of a session's compiler service.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;

use limits::LimitConfig;

use crate::compile::task::CompilerConfig;
use crate::control::{Control, ToSession};
use crate::supervisor::allowance::SeatGuard;
use crate::supervisor::child;

/// A compiler service. Killed when dropped.
#[derive(Debug)]
pub(crate) struct CompilerProcess {
    child: Child,
}

impl CompilerProcess {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts a service. Returns it and the socket for the session's process.
    pub(crate) fn start(
        program: &[PathBuf],
        config: &CompilerConfig,
        seat: Option<(LimitConfig, &SeatGuard)>,
    ) -> std::io::Result<(CompilerProcess, OwnedFd)> {
        let (control, theirs) = Control::pair()?;
        let Some(mut command) = child::command(program, &theirs) else {
            return Err(std::io::Error::other("no program is configured for compiler services"));
        };
        child::die_with_parent(&mut command);
        let (session, service) = UnixStream::pair()?;
        let process = CompilerProcess { child: command.spawn()? };
        drop(theirs);
        if let Some((limits, taken)) = seat {
            control.send(&ToSession::Sit { limits, seat: taken.number() }, Some(taken.descriptor()))?;
        }
        let order = ToSession::Serve { config: config.clone() };
        control.send(&order, Some(service.as_raw_fd()))?;
        Ok((process, session.into()))
    }
}

impl Drop for CompilerProcess {
    fn drop(&mut self) {
        // Its compilers detect that it is gone, and exit.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
