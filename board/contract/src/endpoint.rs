//! What can be done with a submission.

use crate::named::named;

named! {
    /// What is done with a submission.
    pub enum Endpoint {
        /// Checks correctness.
        Checker = "checker",
        /// Measures the run time; the results must be correct as well.
        Benchmark = "benchmark",
        /// Checks and measures.
        Full = "full",
        /// Runs the one small case whose data is shown.
        Sample = "sample",
        /// Runs a whole program with `main`, without a verdict.
        Sandbox = "sandbox",
        /// Compiles and disassembles only.
        Compile = "compile",
    }
}
