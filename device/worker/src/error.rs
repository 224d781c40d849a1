//! Errors that keep a worker from starting or continuing, and their text for logs and replies.

use limits::LimitError;
use transport::TransportError;

use crate::supervisor::tokens::TokensError;

/// Error that keeps a worker from starting or continuing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum WorkerError {
    #[error(
        "{endpoint} can be reached by other machines: give a token (`remora token new --out FILE` makes one for --token-file FILE), or \
         listen on 127.0.0.1"
    )]
    TokenRequired { endpoint: String },
    #[error("unknown device model \"{model}\"; known models: {known}")]
    UnknownModel { model: String, known: String },
    #[error("{endpoint} needs a TLS certificate: give --tls-cert and --tls-key, or --tls-self-signed")]
    NoCertificate { endpoint: String },
    #[error("--admin-token-file also needs a token for tenants: give --token-file or --tokens")]
    OnlyAdmin,
    #[error(
        "the sessions of an earlier worker are running with handover version {found}, and this program has version {own}: start the \
         program that they were started with and end it with SIGTERM, which saves them; or wait until they end (--orphan-timeout)"
    )]
    Handover { found: u32, own: u32 },
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error(transparent)]
    Limits(#[from] LimitError),
    #[error("{what}")]
    Io { what: &'static str, source: std::io::Error },
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("invalid message on the session's control socket: {0}")]
    Control(String),
    #[error(
        "cannot confine the session's process; to run without confinement at your own risk, start the worker with --unconfined-executors"
    )]
    Unconfined(#[source] sandbox::self_confine::ConfineError),
    #[error("the device could not be opened")]
    Device(#[source] backend::DeviceError),
}

/// Formats an error and its causes on one line.
pub(crate) fn one_line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}
