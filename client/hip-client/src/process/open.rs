//! Opens the session that the environment configures.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use session::{Connection, OpenError};
use transport::TransportError;
use wire::{RejectCode, Welcome, WireError};

use super::host::Process;
use super::{env, exit};
use crate::telemetry::{observe, report};

/// How long a failure to open a session is returned to further attempts without a retry.
const FAILURE_MEMORY: Duration = Duration::from_secs(5);

/// The session could not be opened. The text has already been printed on stderr.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenFailure(String);

/// The last failure to open a session, with its time. Locked while a session is being opened.
static LAST_FAILURE: Mutex<Option<(Instant, OpenFailure)>> = Mutex::new(None);

/// Opens the session configured by the environment. Closes it when the process exits, and abandons it in forked children.
/// A failure is printed on stderr once and returned without a new attempt for a few seconds.
pub fn open() -> Result<(Connection, Welcome), OpenFailure> {
    let mut last = LAST_FAILURE.lock();
    if let Some((when, error)) = &*last
        && when.elapsed() < FAILURE_MEMORY
    {
        return Err(error.clone());
    }
    let result = attempt();
    *last = result.as_ref().err().map(|error| {
        report::line(format_args!("{error}"));
        (Instant::now(), error.clone())
    });
    result
}

fn attempt() -> Result<(Connection, Welcome), OpenFailure> {
    let mut config = env::config().map_err(OpenFailure)?;
    config.host = &Process;
    config.traffic = observe::traffic();
    let (connection, welcome) = Connection::open(config).map_err(|error| OpenFailure(with_advice(&error)))?;
    exit::register(connection.leak());
    observe::opened(&connection, &welcome);
    Ok((connection, welcome))
}

/// Runs in a forked child: the thread that may have held the lock does not exist here.
pub fn forget_failures_after_fork() {
    if LAST_FAILURE.is_locked() {
        // SAFETY: the child has one thread, which called fork and so is not inside `open`.
        unsafe { LAST_FAILURE.force_unlock() };
    }
}

/// The error text, with what the user can do about it.
fn with_advice(error: &OpenError) -> String {
    let OpenError::Connect { source, .. } = error else { return error.to_string() };
    let advice = match source {
        TransportError::Wire(WireError::Rejected { code: RejectCode::Access, .. }) => {
            "set REMORA_TOKEN or REMORA_TOKEN_FILE to the worker's token"
        }
        TransportError::Wire(WireError::Rejected { code: RejectCode::Version, .. }) => {
            "use client and worker of the same release"
        }
        TransportError::NoTrust { .. } => {
            "set REMORA_TLS_CA to the CA file, or to the sha256:... fingerprint that the worker prints when it starts"
        }
        TransportError::Wire(_) => "see the worker's log, or try `remora doctor`",
        _ => {
            "start one with `remora worker`, or name one in TF_WORKER_HOST and TF_WORKER_PORT or REMORA_WORKER"
        }
    };
    format!("{error}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Endpoint;

    #[test]
    fn an_error_says_what_to_do() {
        let text = |source| {
            let (endpoint, others) = (Endpoint::tcp("127.0.0.1", 1), "".into());
            with_advice(&OpenError::Connect { endpoint, source, others })
        };
        let rejected = |code: RejectCode| TransportError::Wire(WireError::from(code.reject("no")));
        assert!(text(TransportError::Closed).contains("remora worker"));
        assert!(text(TransportError::Closed).contains("127.0.0.1:1"));
        assert!(text(rejected(RejectCode::Access)).contains("REMORA_TOKEN"));
        assert!(text(rejected(RejectCode::Version)).contains("the same release"));
    }
}
