//! Reports of tests that lack a prerequisite of the machine, such as root.

use std::io::Write;

/// Reports that the calling test does nothing, for a reason. `cargo xtask test` collects these lines for its summary.
///
/// Only for what `cargo xtask setup` cannot provide; what it provides is required.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed");
    // Not eprintln: the test harness hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}
