//! The library as the host of a session: messages, device output, and the end of the process.

use std::fmt;

use session::Host;
use wire::LateError;

use crate::os::{last_thread, output};
use crate::telemetry::{progress, report};

/// This process.
#[derive(Clone, Copy, Debug)]
pub struct Process;

impl Host for Process {
    fn line(&self, text: fmt::Arguments<'_>) {
        report::line(text);
    }

    fn debug(&self, text: fmt::Arguments<'_>) {
        report::debug(text);
    }

    fn late_error(&self, error: &LateError) {
        let name = hip_api::meta::function_name(error.function).unwrap_or("a posted call");
        report::line(format_args!("{name} failed on the worker: {} (error {})", error.text, error.code));
    }

    fn output(&self, descriptor: u32, text: &[u8]) {
        output::write(descriptor, text);
    }

    fn translating(&self, kernel: Option<&str>) {
        progress::translating(kernel);
    }

    fn idle(&self) {
        last_thread::end_if_last();
    }

    fn host_functions_start(&self) {
        last_thread::runs_callbacks();
    }
}

#[cfg(test)]
mod tests {
    use hip_api::types::{hipErrorDeinitialized, hipErrorOutOfMemory, hipErrorUnknown};

    #[test]
    fn the_status_numbers_of_a_session_are_hip_errors() {
        let numbers = [session::status::LOST, session::status::CLOSED, session::status::OUT_OF_MEMORY];
        let errors = [hipErrorUnknown, hipErrorDeinitialized, hipErrorOutOfMemory];
        assert_eq!(numbers.map(|number| number as u32), errors.map(|error| error.0));
    }
}
