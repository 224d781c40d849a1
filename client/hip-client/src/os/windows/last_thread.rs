//! End of the process when the program's last thread has ended. Windows ends a process when its main function returns, so nothing
//! is needed.

/// Marks this thread as the one that runs host functions.
pub fn runs_callbacks() {}

/// Ends the process if no thread of the program is left.
pub fn end_if_last() {}
