//! What a user can watch: messages, the trace file, the summary table.

mod clock;
pub mod members;
pub mod observe;
pub mod progress;
pub mod report;
mod summary;
mod tally;
mod trace_file;
