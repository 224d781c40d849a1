//! What a session needs from the library that uses it.

use std::fmt;
use std::io::Write;

use wire::{Header, LateError, Opcode, Spans};

/// The library around a session. Every method has a default, which suits tests.
pub trait Host: fmt::Debug + Send + Sync {
    /// Shows one line to the user.
    fn line(&self, text: fmt::Arguments<'_>) {
        // A closed stderr is no reason to fail.
        let _ = writeln!(std::io::stderr(), "remora: {text}");
    }

    /// Shows one line to a user who asked for details.
    fn debug(&self, _text: fmt::Arguments<'_>) {}

    /// Shows the failure of a posted request. Called once for a run of failures with the same text.
    fn late_error(&self, error: &LateError) {
        self.line(format_args!("a posted call failed on the worker: {} (error {})", error.text, error.code));
    }

    /// Writes what a kernel printed, to standard output (1) or standard error (2).
    fn output(&self, _descriptor: u32, _text: &[u8]) {}

    /// A launch waits on the worker for the translation of this kernel. `None`: the translation has ended.
    fn translating(&self, _kernel: Option<&str>) {}

    /// Runs about once a second on an idle thread of the session, unless a host function is outstanding.
    fn idle(&self) {}

    /// Runs on the thread that runs host functions, when it starts.
    fn host_functions_start(&self) {}
}

/// A host without a library: prints lines on stderr and ignores the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardError;

impl Host for StandardError {}

/// An observer of the traffic with the worker, for a trace or a summary.
pub trait Traffic: fmt::Debug + Send + Sync {
    /// The clock of the trace, in nanoseconds.
    fn now(&self) -> u64;

    /// This thread makes a request of `bytes` bytes. `waits`: it waits for the reply. Called before other threads can see
    /// the request.
    fn sent(&self, opcode: Opcode, number: u64, bytes: u64, waits: bool);

    /// This thread has received, or will receive, this many bytes.
    fn received(&self, bytes: u64);

    /// Requests from `first` up to, but not including, `next` were written to the socket.
    fn wrote(&self, first: u64, next: u64, bytes: u64);

    /// The worker has received all requests up to this one.
    fn acknowledged(&self, number: u64);

    /// A frame was received whose header arrived at `begin`.
    fn arrived(&self, header: &Header, begin: u64);

    /// The worker reported what its device executed, and when.
    fn spans(&self, spans: Spans);
}
