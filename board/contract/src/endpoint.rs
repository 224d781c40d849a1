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
        /// Runs inputs of the user's choice and shows the data.
        Custom = "custom",
        /// Checks memory accesses on a software GPU: races, accesses out of bounds, reads of uninitialised memory.
        Check = "check",
        /// Profiles one call on a software GPU, by source line.
        Profile = "profile",
    }
}

impl Endpoint {
    /// Returns whether kernels are observed, which only a software GPU can do.
    pub fn is_observed(self) -> bool {
        matches!(self, Endpoint::Check | Endpoint::Profile)
    }
}
