//! Statuses of events. The status of a submission is that of its latest event.

use crate::Endpoint;
use crate::named::named;

named! {
    /// Status of an event.
    pub enum Status {
        /// The submission waits for a device.
        InQueue = "IN_QUEUE",
        /// The server has a warning about the request.
        Warning = "WARNING",
        /// The device is being made ready.
        Provisioning = "PROVISIONING",
        /// The compiler runs.
        Compiling = "COMPILING",
        /// The source compiles.
        Compiled = "COMPILED",
        /// The disassembly. It is stored with the submission, not streamed.
        Isa = "ISA",
        /// The check begins.
        Checking = "CHECKING",
        /// A case was checked.
        TestResult = "TEST_RESULT",
        /// The output of a case is wrong.
        WrongAnswer = "WRONG_ANSWER",
        /// All cases are correct.
        Checked = "CHECKED",
        /// The measurement begins.
        Benchmarking = "BENCHMARKING",
        /// A case was measured.
        BenchmarkResult = "BENCHMARK_RESULT",
        /// All cases were measured.
        Benchmarked = "BENCHMARKED",
        /// The result of the sample is correct.
        Passed = "PASSED",
        /// The result of the sample is wrong.
        Failed = "FAILED",
        /// The check of memory accesses found nothing.
        Clean = "CLEAN",
        /// The check of memory accesses found problems.
        Findings = "FINDINGS",
        /// The profile is complete.
        Profiled = "PROFILED",
        /// A program in the sandbox printed a line.
        SandboxOutput = "SANDBOX_OUTPUT",
        /// A program in the sandbox succeeded.
        SandboxSuccess = "SANDBOX_SUCCESS",
        /// A program in the sandbox failed.
        SandboxError = "SANDBOX_ERROR",
        /// A program in the sandbox took too long.
        SandboxTimeout = "SANDBOX_TIMEOUT",
        /// The source does not compile.
        CompileError = "COMPILE_ERROR",
        /// The solution failed while it ran.
        RuntimeError = "RUNTIME_ERROR",
        /// The solution took too long.
        TimeLimitExceeded = "TIME_LIMIT_EXCEEDED",
        /// The solution needs too much memory.
        MemoryLimitExceeded = "MEMORY_LIMIT_EXCEEDED",
        /// A rule was broken, or an exploit was detected.
        Rejected = "REJECTED",
        /// The submission could not be judged.
        Error = "ERROR",
        /// The submission was cancelled.
        Cancelled = "CANCELLED",
    }
}

impl Status {
    /// Returns whether an event with this status is the last one of a submission.
    pub fn is_terminal(self, endpoint: Endpoint) -> bool {
        match self {
            Status::Compiled => endpoint == Endpoint::Compile,
            Status::Checked => endpoint == Endpoint::Checker,
            Status::Passed | Status::Failed => matches!(endpoint, Endpoint::Sample | Endpoint::Custom),
            Status::WrongAnswer
            | Status::Benchmarked
            | Status::Clean
            | Status::Findings
            | Status::Profiled
            | Status::SandboxSuccess
            | Status::SandboxError
            | Status::SandboxTimeout
            | Status::CompileError
            | Status::RuntimeError
            | Status::TimeLimitExceeded
            | Status::MemoryLimitExceeded
            | Status::Rejected
            | Status::Error
            | Status::Cancelled => true,
            Status::InQueue
            | Status::Warning
            | Status::Provisioning
            | Status::Compiling
            | Status::Isa
            | Status::Checking
            | Status::TestResult
            | Status::Benchmarking
            | Status::BenchmarkResult
            | Status::SandboxOutput => false,
        }
    }

    /// Returns whether a submission that ends with this status did what was requested.
    pub fn is_success(self) -> bool {
        matches!(
            self,
            Status::Compiled
                | Status::Checked
                | Status::Benchmarked
                | Status::Passed
                | Status::Clean
                | Status::Profiled
                | Status::SandboxSuccess
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_a_status_is_terminal_depends_on_the_endpoint() {
        assert!(
            Status::Checked.is_terminal(Endpoint::Checker) && !Status::Checked.is_terminal(Endpoint::Full)
        );
        assert!(Status::Compiled.is_terminal(Endpoint::Compile));
        assert!(!Status::Compiled.is_terminal(Endpoint::Checker));
        assert!(Endpoint::ALL.iter().all(|endpoint| Status::Error.is_terminal(*endpoint)));
    }

    #[test]
    fn values_are_found_by_their_names() {
        for status in Status::ALL {
            assert_eq!(Status::from_name(status.name()), Some(*status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
        assert_eq!(Status::from_name("checked"), None);
    }
}
