//! The log of this process: on standard error, as text or as one JSON object per line.

use crate::env::Environment;
use crate::output::errln;

/// Starts the log. `default` is the filter if none is configured.
pub fn start(environment: &Environment, default: &str) {
    let filter = environment.log.as_deref().unwrap_or(default);
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_else(|error| {
        errln!("remora: log filter \"{filter}\" is not valid ({error}); using \"{default}\"");
        tracing_subscriber::EnvFilter::new(default)
    });
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A closed standard error must not cause a panic, least of all while a session ends.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(false);
    match environment.log_format.as_deref() {
        Some("json") => log.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
        None | Some("text") => log.init(),
        Some(other) => {
            log.init();
            tracing::warn!(
                "log format \"{other}\" is unknown: use text or json in REMORA_LOG_FORMAT or log-format"
            );
        }
    }
}
